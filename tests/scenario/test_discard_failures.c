/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_discard_failures.c - s65: pages_discard fails at any call, wholly or in part. The pages
 * before the one that failed are discarded and read zero, the others are as they were; a later call
 * goes on; frames live as long as a page shows them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define PAGES 1200u

/* Shared, zero, excluded and unlike pages; holes; three extents. */
static struct sim *world(bool sparse, bool no_discard, struct sim_region **region)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .limit = 4, .no_discard = no_discard });

	*region = sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);
	for (uint64_t i = 0; i < PAGES; i++)
		if (i % 100 < 20)
			sim_write(*region, i, i % 10 == 5 ? 5000 + i : i % 4);
	sim_passes(sim, 2);
	assert_int_equal(pdd_region_exclude(&(*region)->region, 510, 6), 0);
	return sim;
}

static void assert_discarded(const struct sim_region *region, uint64_t page)
{
	enum pdd_reason reason = sim_reason(region, page);

	assert_int_equal(region->pages[page].kind, PDD_PAGE_ABSENT);
	assert_null(sim_content(region, page));
	if (page >= 510 && page < 516)
		assert_int_equal(reason, PDD_REASON_EXCLUDED);
	else
		assert_true(reason == PDD_REASON_ABSENT || reason == PDD_REASON_NO_RECORD);
}

struct record {
	enum pdd_page_kind kind;
	enum pdd_reason reason;
	uint64_t expected;
};

static struct record record_of(const struct sim_region *region, uint64_t page)
{
	return (struct record){ region->pages[page].kind, sim_reason(region, page),
				region->pages[page].expected };
}

static uint64_t works;      /* calls of pages_discard until it fails for ever */
static uint64_t most;       /* pages that one call does */
static uint64_t discarded;  /* pages so far */

static int64_t pages_discard(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	const struct sim *sim = ctx;
	int64_t n;

	if (!works)
		return sim->fail_errno;
	works--;
	n = sim_ops.pages_discard(ctx, region, first, npages < most ? npages : most);
	discarded += (uint64_t)n;
	return n;
}

/* Discard a range in calls of so many pages, of which the k-th fails. Whether one did. */
static bool fail_from(uint64_t k, int error, bool sparse, uint64_t first, uint64_t npages)
{
	static struct record before[PAGES];
	struct sim_region *region;
	struct sim *sim = world(sparse, false, &region);
	int err;

	sim->scanner.priv.ops.pages_discard = pages_discard;
	sim->fail_errno = error;
	for (uint64_t i = 0; i < PAGES; i++)
		before[i] = record_of(region, i);
	works = k - 1;
	most = npages / 5 + 1;
	discarded = 0;
	err = pdd_region_discard(&region->region, first, npages);
	sim_verify(sim);
	assert_int_equal(err, discarded < npages ? (error ? error : -EBUSY) : 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		struct record now = record_of(region, i);

		if (i >= first && i < first + discarded) {
			assert_discarded(region, i);
			continue;
		}
		assert_int_equal(now.kind, before[i].kind);
		assert_int_equal(now.expected, before[i].expected);
		/* the record of an extent may go with the last page of which something was known */
		assert_true(now.reason == before[i].reason || now.reason == PDD_REASON_NO_RECORD);
	}
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_PAGES_DISCARD],
			 err && err != -EBUSY && err != -EAGAIN);
	if (err && k % 2)
		sim_passes(sim, 2);
	works = UINT64_MAX;
	assert_int_equal(pdd_region_discard(&region->region, first, npages), 0);
	sim_verify(sim);
	for (uint64_t i = first; i < first + npages; i++)
		assert_discarded(region, i);
	sim_settle(sim, 70);
	sim_destroy(sim);
	return err;
}

static void test_fails_at_k(void **unused)
{
	static const int errors[] = { 0, -EBUSY, -EAGAIN, -ENOMEM, -EIO };
	static const struct {
		uint64_t first, npages;
	} ranges[] = { { 0, PAGES }, { 0, 1 }, { 505, 20 }, { 100, 1000 }, { 300, 20 } };

	for (unsigned i = 0; i < 2 * sizeof(errors) / sizeof(errors[0]); i++)
		for (unsigned r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++)
			for (uint64_t k = 1; fail_from(k, errors[i / 2], i & 1, ranges[r].first,
						       ranges[r].npages);)
				k++;
}

/* Without the hook it cannot fail; the caller clears the pages. */
static void test_without_the_hook(void **unused)
{
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim_region *region;
		struct sim *sim = world(sparse, true, &region);

		for (uint64_t i = 400; i < 1100; i++) /* in any order, under the same lock */
			sim_discard(region, i);
		assert_int_equal(pdd_region_discard(&region->region, 400, 700), 0);
		sim_verify(sim);
		for (uint64_t i = 400; i < 1100; i++)
			assert_discarded(region, i);
		assert_int_equal(sim->calls[SIM_PAGES_DISCARD], 0);
		sim_settle(sim, 70);
		sim_destroy(sim);
	}
}

/* All pages that share something are discarded, a few at a time, in the middle of a pass: each
 * frame goes back when its last page does. */
static void test_in_pass(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(true, false, &region);
	uint64_t live = UINT64_MAX;

	for (uint64_t i = 0; i < PAGES; i += 30) {
		uint64_t n = 0;

		sim_step(sim, 1 + sim_random(sim, 400));
		assert_int_equal(pdd_region_discard(&region->region, i, 30), 0);
		sim_verify(sim);
		for (const struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
			assert_true(frame->maps > 0);
			n++;
		}
		assert_true(n <= live);
		live = n;
	}
	assert_int_equal(live, 0);
	assert_int_equal(region->nblocks, 2); /* of the excluded pages */
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fails_at_k),
		cmocka_unit_test(test_without_the_hook),
		cmocka_unit_test(test_in_pass),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
