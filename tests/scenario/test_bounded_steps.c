/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bounded_steps.c - s15: steps of 1 ms over much memory, on a simulated clock. Each ends
 * within one run of work after its deadline, each gets on, and in the end all is as after one
 * large step. With 10,000,000 pages, most of them absent; with all kinds of pages in a row; and
 * with pages of up to 4 MiB, of which few are read between two looks at the clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/checksum.h>

#include "sim.h"

#define MS UINT64_C(1000000)
#define NS_PER_HOOK 2000u
#define NS_PER_PAGE 100u
#define NS_PER_LOCK 300u
#define BYTES_PER_NS 4u /* that are read */
#define TIMED_BYTES ((uint64_t)2 << 20)

/* Reading costs time, too; what was read since the last look at the clock, at most. */
static uint64_t unread, unread_most;

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3 };
	struct sim *sim = ctx;

	*value = pdd_checksum_page(content, sim->page_size, secret, sizeof(secret)).value;
	sim->now += sim->page_size / BYTES_PER_NS;
	unread += sim->page_size;
	unread_most = unread > unread_most ? unread : unread_most;
	return 0;
}

static uint64_t now_ns(void *ctx)
{
	unread = 0;
	return sim_ops.now_ns(ctx);
}

static uint64_t ns_per_lock = NS_PER_LOCK;

static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	if (before && hook == SIM_TRYLOCK)
		sim->now += ns_per_lock;
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	sim->now = MS;
	sim->ns_per_hook = NS_PER_HOOK;
	sim->ns_per_page = NS_PER_PAGE;
	sim->at = at_hook;
	sim->scanner.priv.ops.checksum = checksum;
	sim->scanner.priv.ops.now_ns = now_ns;
	unread_most = 0;
	return sim;
}

/* A step without the walk over everything, which would take longer than all the steps. */
static enum pdd_step step(struct sim *sim, uint64_t deadline)
{
	struct pdd_budget budget = { .pages = UINT64_MAX, .deadline_ns = deadline };
	int result;

	sim->stepping = true;
	unread = 0;
	result = pdd_scanner_step(&sim->scanner, sim->worker, &budget);
	sim->stepping = false;
	assert_in_range(result, PDD_STEP_MORE, PDD_STEP_PASS);
	assert_int_equal(sim->nlocks + sim->ngets + sim->nholds, 0);
	return (enum pdd_step)result;
}

/* A pass in steps of a millisecond, none of which is late by more than `work`; how many. */
static uint64_t timed_pass(struct sim *sim, uint64_t work)
{
	for (uint64_t n = 1;; n++) {
		uint64_t begin = sim->now;
		enum pdd_step result = step(sim, begin + MS);

		if (sim->now - begin > MS + work)
			sim_fail("a step took %" PRIu64 " us", (sim->now - begin) / 1000);
		assert_true(sim->now > begin);
		if (result == PDD_STEP_PASS)
			return n;
	}
}

/* Passes until nothing merges or is due any more. */
static uint64_t timed_passes(struct sim *sim, uint64_t work)
{
	uint64_t before, steps = 0;

	do {
		before = sim_stats(sim).counts.merges;
		steps += timed_pass(sim, work);
	} while (sim_stats(sim).counts.merges != before || sim_stats(sim).counts.pages_due);
	return steps;
}

static void untimed_passes(struct sim *sim)
{
	uint64_t before;

	do {
		before = sim_stats(sim).counts.merges;
		assert_int_equal(step(sim, 0), PDD_STEP_PASS);
	} while (sim_stats(sim).counts.merges != before || sim_stats(sim).counts.pages_due);
}

static void assert_same_stats(const struct sim *a, const struct sim *b)
{
	struct pdd_stats x = sim_stats(a), y = sim_stats(b);

	assert_int_equal(x.pages_shared, y.pages_shared);
	assert_int_equal(x.pages_sharing, y.pages_sharing);
	assert_int_equal(x.counts.ksm_zero_pages, y.counts.ksm_zero_pages);
	assert_int_equal(x.counts.pages_unshared, y.counts.pages_unshared);
	assert_int_equal(x.counts.ksm_rmap_items, y.counts.ksm_rmap_items);
}

/* ---- 10,000,000 pages ---- */

#define MANY 10000000u
#define DISTANCE 2000u /* of pages that are there */

/* The hook of the simulation looks at all pages of a hole; this one knows where it ends. */
static int pages_get(void *ctx, struct pdd_region *pdd_region, struct pdd_view *views,
		     uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct sim_region *region = (struct sim_region *)(void *)pdd_region;
	uint64_t end = first + npages, next = (end + DISTANCE - 1) / DISTANCE * DISTANCE;
	int n;

	region->npages = end;
	n = sim_ops.pages_get(ctx, pdd_region, views, nviews, first, npages);
	region->npages = MANY;
	if (n > 0 && views[n - 1].kind == PDD_PAGE_ABSENT)
		views[n - 1].npages += next - end;
	return n;
}

static struct sim *sparse_world(struct sim_region **region)
{
	struct sim *sim = world(&(struct sim_options){ .page_shift = 3, .nroots = 8192 });

	sim->scanner.priv.ops.pages_get = pages_get;
	*region = sim_region_add_with(sim_space_add(sim, 0), MANY, MANY, true);
	for (uint64_t i = 0; i < MANY; i += DISTANCE)
		sim_write(*region, i, 1 + i / DISTANCE % 1500);
	return sim;
}

/* Only where pages are there anything has to be undone. */
static void destroy_sparse(struct sim *sim, struct sim_region *region)
{
	for (uint64_t i = 0; i < MANY; i += DISTANCE)
		sim_discard(region, i);
	assert_int_equal(pdd_region_resize(&region->region, 1), 0);
	region->npages = 1;
	sim->at = NULL;
	sim_destroy(sim);
}

static void test_10_million_pages(void **unused)
{
	struct sim_region *timed_region, *region;
	struct sim *timed = sparse_world(&timed_region), *sim = sparse_world(&region);
	uint64_t steps;

	/* an extent, its frame, two runs */
	steps = timed_passes(timed, 200000);
	assert_in_range(steps, 4 * 5000 * 50 / 1000, 3000);
	untimed_passes(sim);
	assert_same_stats(timed, sim);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, MANY / DISTANCE);
	for (uint64_t i = 0; i < MANY; i += DISTANCE)
		assert_int_equal(timed_region->pages[i].kind, region->pages[i].kind);
	destroy_sparse(timed, timed_region);
	destroy_sparse(sim, region);
}

/* ---- pages in a row ---- */

#define ROW (100u * PDD_EXTENT_PAGES)

/* Long runs of equal pages, single ones, zero pages, unique ones; equal ones far apart. */
static uint64_t content(uint64_t page)
{
	uint64_t extent = page / PDD_EXTENT_PAGES;

	switch (extent % 5) {
	case 0: return 1 + page % PDD_EXTENT_PAGES;
	case 1: return page % 2 ? 1 + page % PDD_EXTENT_PAGES : 100000 + page;
	case 2: return page % 7 ? 7 : 0;
	case 3: return 100000 + page;
	default: return 1000 + page % (11 * PDD_EXTENT_PAGES);
	}
}

static struct sim *row_world(struct sim_region **region, bool tracked)
{
	struct sim *sim = world(
		&(struct sim_options){ .page_shift = 3, .nroots = 65536, .tracked = tracked });

	*region = sim_region_add(sim_space_add(sim, 0), ROW);
	for (uint64_t i = 0; i < ROW; i++)
		sim_write(*region, i, content(i));
	return sim;
}

static void test_pages_in_a_row(void **unused)
{
	/* Looking at one extent, copying its frames, one run: held in one call, mapped in as many
	 * as it has pages. */
	const uint64_t work = 4 * (NS_PER_HOOK + PDD_EXTENT_PAGES * NS_PER_PAGE) +
			      PDD_EXTENT_PAGES * (NS_PER_HOOK + NS_PER_PAGE);

	for (unsigned tracked = 0; tracked < 2; tracked++) {
		struct sim_region *timed_region, *region;
		struct sim *timed = row_world(&timed_region, tracked);
		struct sim *sim = row_world(&region, tracked);

		assert_in_range(timed_passes(timed, work), 20, 5000);
		untimed_passes(sim);
		sim_verify(timed);
		assert_same_stats(timed, sim);
		/* Extents that are left alone take time, too. */
		timed_passes(timed, work);
		ns_per_lock = MS / 10;
		if (tracked)
			assert_in_range(timed_pass(timed, 2 * ns_per_lock), 8, 12);
		ns_per_lock = NS_PER_LOCK;
		for (uint64_t i = 0; i < ROW; i++)
			if (i / PDD_EXTENT_PAGES % 5 != 2) /* which of 7 is left over may differ */
				assert_int_equal(timed_region->pages[i].kind,
						 region->pages[i].kind);
		timed->at = sim->at = NULL;
		sim_destroy(timed);
		sim_destroy(sim);
	}
}

/* ---- large pages ---- */

/* However large pages are, no more than 2 MiB of them, or one, is read between two looks at the
 * clock, and as much of frames. */
static void test_large_pages(void **unused)
{
	static const uint32_t shifts[] = { 12, 16, 18, 20, 21, 22 };

	for (unsigned i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
		uint64_t size = UINT64_C(1) << shifts[i];
		uint64_t most = size > TIMED_BYTES ? size : TIMED_BYTES;
		uint64_t npages = 12 * most / size;
		struct sim *sim = world(
			&(struct sim_options){ .page_shift = shifts[i], .nroots = 4096 });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), npages);

		for (uint64_t page = 0; page < npages; page++)
			sim_write(region, page, 1 + page / 2);
		/* what is read: pages and frames; what hooks do: as in a row */
		timed_passes(sim, 3 * most / BYTES_PER_NS +
					  (most / size) * 4 * (NS_PER_HOOK + NS_PER_PAGE));
		assert_in_range(unread_most, most, 2 * most);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, npages);
		assert_int_equal(sim_stats(sim).pages_shared, npages / 2);
		sim->at = NULL;
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_10_million_pages),
		cmocka_unit_test(test_pages_in_a_row),
		cmocka_unit_test(test_large_pages),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
