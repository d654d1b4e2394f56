/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_views.c - pages_get and hold answer nonsense: kinds and reasons that do not exist,
 * nodes out of range, views of no pages or of too many, more views than there is room for. The
 * library stays valid, it holds nothing for ever, and once the answers make sense again everything
 * merges. Frames that are none: test_bad_input_frames.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>

#include "sim.h"

#define PAGES 650u

/* What is done to an answer of n views, where there is room for nviews; how many it is to have. */
typedef int spoil_fn(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews);

static spoil_fn *spoil_get, *spoil_hold;
static bool single_hold; /* one page in each view of hold */

/* The pages that views describe, as the library understands them. */
static uint64_t covered(const struct pdd_view *views, int n, uint64_t npages)
{
	uint64_t pages = 0;

	for (int i = 0; i < n; i++)
		pages += views[i].npages < npages - pages ? views[i].npages : npages - pages;
	return pages;
}

/* What it does not describe any more was not got. */
static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	int n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	uint64_t got, left;

	if (n <= 0 || !spoil_get)
		return n;
	got = covered(views, n, npages);
	n = spoil_get(ctx, views, n, nviews);
	left = n > 0 ? covered(views, n < (int)nviews ? n : (int)nviews, npages) : 0;
	if (left < got)
		sim_ops.pages_put(ctx, region, first + left, got - left);
	return n;
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	const struct sim_region *r = (struct sim_region *)(void *)region;

	for (uint64_t page = first; page < first + npages; page++)
		if (r->pages[page].gets)
			sim_ops.pages_put(ctx, region, page, 1);
}

/* What it does not describe as private any more is not held. */
static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	const struct sim_region *r = (struct sim_region *)(void *)region;
	struct sim *sim = ctx;
	bool single = sim->single_views;
	uint64_t page = first;
	int n;

	sim->single_views |= single_hold;
	n = sim_ops.hold(ctx, region, views, nviews, first, npages);
	sim->single_views = single;
	if (n <= 0 || !spoil_hold)
		return n;
	n = spoil_hold(ctx, views, n, nviews);
	for (int i = 0; i < n && i < (int)nviews && page < first + npages; i++) {
		uint64_t end = page + covered(&views[i], 1, first + npages - page);

		for (; page < end; page++)
			if (r->pages[page].held && views[i].kind != PDD_PAGE_PRIVATE)
				sim_ops.release(ctx, region, page, 1);
	}
	for (; page < first + npages; page++)
		if (r->pages[page].held)
			sim_ops.release(ctx, region, page, 1);
	return n;
}

/* Pairs of pages, zero pages, a hole; in a region with arrays and a sparse one. */
static struct sim *world(enum sim_checksum checksum, bool nodes_apart)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.checksum = checksum, .nodes_apart = nodes_apart, .aging = PDD_AGING_NONE });

	spoil_get = NULL;
	spoil_hold = NULL;
	sim->scanner.priv.ops.pages_get = pages_get;
	sim->scanner.priv.ops.pages_put = pages_put;
	sim->scanner.priv.ops.hold = hold;
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim_region *region =
			sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);

		for (uint64_t i = 0; i < PAGES; i++)
			if (i % 100 < 30)
				sim_write(region, i, i % 15);
	}
	return sim;
}

/* 2 * 7 * 30 pages, of which one in 15 is zero. */
static void all_merge(struct sim *sim)
{
	spoil_get = NULL;
	spoil_hold = NULL;
	sim_settle(sim, 80);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages +
				 sim_stats(sim).counts.ksm_zero_pages,
			 2 * (6 * 30 + 30));
}

/* ---- views that say nothing that is true ---- */

static int kind_7(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++)
		views[i].kind = 7;
	return n;
}

static int kind_255(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	views[n / 2].kind = 255;
	return n;
}

static int no_pages(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++)
		views[i].npages = 0;
	return n;
}

static int first_of_no_pages(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = n < (int)nviews ? n++ : n - 1; i > 0; i--)
		views[i] = views[i - 1];
	views[0].npages = 0;
	return n;
}

static int absent_for_ever(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++)
		if (views[i].kind == PDD_PAGE_ABSENT && i == n - 1)
			views[i].npages = UINT64_MAX - sim_random(sim, 3);
	return n;
}

static int too_many_pages(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	if (n < (int)nviews) /* so it described all that was asked for */
		views[n - 1].npages += sim_random(sim, 2) ? UINT64_MAX / 2 : 1;
	return n;
}

static int too_many_views(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	return n == (int)nviews ? n + 1 + (int)sim_random(sim, 1000) : n;
}

static int most_views(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	return n == (int)nviews ? INT_MAX : n;
}

static int least_errno(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	return INT_MIN;
}

static int nodes(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++)
		views[i].node = sim_random(sim, 2) ? PDD_NODES_MAX : UINT16_MAX;
	return n;
}

static int reasons(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++)
		if (views[i].kind == PDD_PAGE_PRIVATE) {
			views[i].kind = PDD_PAGE_REFUSED;
			views[i].reason = (uint8_t)sim_random(sim, 256);
		}
	return n;
}

static spoil_fn *const spoils[] = {
	kind_7,		kind_255,	no_pages,    first_of_no_pages, absent_for_ever,
	too_many_pages, too_many_views, most_views,  least_errno,	reasons,
};

#define SPOILS (sizeof(spoils) / sizeof(spoils[0]))

/* Each in pages_get, also of the single pages that searches ask for. */
static void test_get(void **unused)
{
	for (unsigned i = 0; i < 2 * SPOILS; i++) {
		struct sim *sim = world(i % 2 ? SIM_CHECKSUM_2_BITS : SIM_CHECKSUM_DEFAULT, false);

		sim->single_views = spoils[i / 2] == too_many_views || spoils[i / 2] == most_views;
		for (unsigned round = 0; round < 3; round++) {
			spoil_get = spoils[i / 2];
			sim_pass(sim, 100);
			sim_pass(sim, UINT64_MAX);
			spoil_get = NULL;
			sim_pass(sim, 77);
		}
		all_merge(sim);
		sim_destroy(sim);
	}
}

static void test_hold(void **unused)
{
	for (unsigned i = 0; i < 2 * SPOILS; i++) {
		struct sim *sim = world(i % 2 ? SIM_CHECKSUM_2_BITS : SIM_CHECKSUM_DEFAULT, false);

		sim->single_views = i % 3 == 0;
		spoil_hold = spoils[i / 2];
		sim_pass(sim, 100);
		for (unsigned round = 0; round < 5; round++)
			sim_pass(sim, UINT64_MAX);
		all_merge(sim);
		sim_destroy(sim);
	}
}

/* A long run of which each page is a view: more of them than there is room for. */
static void test_long_run(void **unused)
{
	for (unsigned i = 0; i < 2; i++) {
		struct sim *sim = sim_create(NULL);
		struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 400);
		struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 400);

		for (uint64_t page = 0; page < 400; page++) {
			sim_write(a, page, 1 + page);
			sim_write(b, page, 1 + page);
		}
		sim->scanner.priv.ops.hold = hold;
		single_hold = true;
		spoil_hold = i ? most_views : too_many_views;
		sim_passes(sim, 2);
		single_hold = false;
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 800);
		sim_destroy(sim);
	}
}

/* What cannot be held says why: each reason that there is, or special memory. */
static uint8_t reason;

static int one_reason(struct sim *sim, struct pdd_view *views, int n, uint32_t nviews)
{
	for (int i = 0; i < n; i++) {
		views[i].kind = PDD_PAGE_REFUSED;
		views[i].reason = reason;
	}
	return n;
}

static void test_every_reason(void **unused)
{
	for (unsigned i = 0; i < 2 * 256; i++) {
		struct sim *sim = sim_create(NULL);
		struct sim_region *region =
			sim_region_add_with(sim_space_add(sim, 0), 6, 6, i % 3 == 0);
		enum pdd_reason known;

		reason = (uint8_t)(i / 2);
		known = reason && reason < PDD_REASONS ? (enum pdd_reason)reason
						       : PDD_REASON_SPECIAL;
		for (uint64_t page = 0; page < 5; page++)
			sim_write(region, page, page / 3);
		sim->scanner.priv.ops.pages_get = pages_get;
		sim->scanner.priv.ops.hold = hold;
		spoil_get = i % 2 ? one_reason : NULL;
		spoil_hold = i % 2 ? NULL : one_reason;
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).counts.merges, 0);
		if (i % 2 == 0) /* the last one is left alone by its twin */
			assert_in_range(sim_stats(sim).counts.failures[known], 4, 5);
		else if (known != PDD_REASON_ABSENT) /* which needs no record */
			assert_int_equal(sim_reason(region, 1), known);
		spoil_get = NULL;
		spoil_hold = NULL;
		sim_passes(sim, 66);
		assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 3);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
		sim_destroy(sim);
	}
}

/* A page of a kind that does not exist is refused, as special memory: nobody may think that no pass
 * has come by yet. */
static void test_unknown_kinds_have_a_reason(void **unused)
{
	for (unsigned before = 0; before < 3; before++) {
		struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 4);

		for (uint64_t i = 0; i < 4; i++)
			sim_write(region, i, 1 + i);
		sim_passes(sim, before);
		sim->scanner.priv.ops.pages_get = pages_get;
		spoil_get = kind_7;
		sim_pass(sim, UINT64_MAX);
		spoil_get = NULL;
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(sim_reason(region, i), PDD_REASON_SPECIAL);
		sim_destroy(sim);
	}
}

/* ---- nodes ---- */

static void spoilt_nodes(bool in_hold, bool nodes_apart)
{
	struct sim *sim = world(SIM_CHECKSUM_DEFAULT, nodes_apart);

	sim_pass(sim, UINT64_MAX);
	if (in_hold)
		spoil_hold = nodes;
	else
		spoil_get = nodes;
	sim_passes(sim, 4);
	if (!in_hold || nodes_apart) /* else they do not matter */
		assert_int_equal(sim_stats(sim).counts.merges, 0);
	all_merge(sim);
	sim_destroy(sim);
}

static void test_nodes_in_get(void **unused)
{
	spoilt_nodes(false, false);
	spoilt_nodes(false, true);
}

/* Such pages are held, so they have to be released. */
static void test_nodes_in_hold(void **unused)
{
	spoilt_nodes(true, false);
	spoilt_nodes(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_long_run),
		cmocka_unit_test(test_every_reason),
		cmocka_unit_test(test_nodes_in_get),
		cmocka_unit_test(test_nodes_in_hold),
		cmocka_unit_test(test_unknown_kinds_have_a_reason),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
