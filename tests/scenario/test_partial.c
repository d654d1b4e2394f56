/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_partial.c - s43: a hook does 3 of 8 pages, then answers -EAGAIN. Exactly those 3 are done
 * and counted, the other 5 are as they were, and the next try does them. For every hook that works
 * on a range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

/* Eight pages of a content at 10, and two at 0 that shared it before if `shared`. All were looked
 * at once, so the next pass decides about them. */
static struct sim *world(struct sim_region **region, uint64_t content, bool shared)
{
	struct sim *sim = sim_create(NULL);

	*region = sim_region_add(sim_space_add(sim, 0), 20);
	for (uint64_t i = 0; shared && i < 2; i++)
		sim_write(*region, i, content);
	sim_passes(sim, 2);
	for (uint64_t i = 10; i < 18; i++)
		sim_write(*region, i, content);
	sim_pass(sim, UINT64_MAX);
	return sim;
}

static void fail_from_now_on(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!before && sim->fail_mask & BIT(hook))
		sim->fail_chance = 1;
}

/* The hook does three pages when it is called next, and none from then on. */
static void fail_after_3(struct sim *sim, enum sim_hook hook)
{
	sim->fail_mask = BIT(hook);
	sim->fail_errno = -EAGAIN;
	sim->part_once = 3;
	sim->at = fail_from_now_on;
	sim->calls[hook] = 0;
}

/* It works again; it was asked again after it had done three, perhaps for each page. */
static void mend(struct sim *sim, enum sim_hook hook)
{
	assert_in_range(sim->calls[hook], 2, 1 + 5);
	assert_int_equal(sim_stats(sim).hook_errors, 0); /* it was busy, and that is no error */
	sim->at = NULL;
	sim->fail_chance = 0;
	sim->fail_at = 0;
}

static void assert_merged(const struct sim_region *region, uint64_t n, enum pdd_page_kind kind)
{
	for (uint64_t i = 10; i < 18; i++) {
		assert_int_equal(region->pages[i].kind, i < 10 + n ? kind : PDD_PAGE_PRIVATE);
		assert_int_equal(sim_reason(region, i),
				 i < 10 + n ? PDD_REASON_NONE : PDD_REASON_BUSY);
	}
}

static void test_frames_map(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 1, true);

	fail_after_3(sim, SIM_FRAMES_MAP);
	sim_pass(sim, UINT64_MAX);
	mend(sim, SIM_FRAMES_MAP);
	assert_merged(region, 3, PDD_PAGE_SHARED);
	assert_int_equal(sim_stats(sim).counts.merges, 2 + 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 2 + 3 - 1);
	assert_int_equal(sim_stats(sim).counts.failures[PDD_REASON_BUSY], 5);
	assert_int_equal(sim->traced[PDD_EVENT_MERGED], 2 + 3);
	sim_pass(sim, UINT64_MAX);
	assert_merged(region, 8, PDD_PAGE_SHARED);
	assert_int_equal(sim_stats(sim).counts.merges, 2 + 8);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	sim_destroy(sim);
}

static void test_zero_map(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 0, false);

	fail_after_3(sim, SIM_ZERO_MAP);
	sim_pass(sim, UINT64_MAX);
	mend(sim, SIM_ZERO_MAP);
	assert_merged(region, 3, PDD_PAGE_ZERO);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 3);
	sim_pass(sim, UINT64_MAX);
	assert_merged(region, 8, PDD_PAGE_ZERO);
	assert_int_equal(sim_stats(sim).counts.zero_merges, 8);
	sim_destroy(sim);
}

static void test_hold(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 1, true);

	fail_after_3(sim, SIM_HOLD);
	sim_pass(sim, UINT64_MAX);
	mend(sim, SIM_HOLD);
	assert_merged(region, 3, PDD_PAGE_SHARED);
	assert_int_equal(sim_stats(sim).counts.failures[PDD_REASON_BUSY], 5);
	sim_pass(sim, UINT64_MAX);
	assert_merged(region, 8, PDD_PAGE_SHARED);
	sim_destroy(sim);
}

/* Of eight frames three can be made: three pairs merge. */
static void test_frames_create(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 16);

	for (uint64_t i = 0; i < 16; i++)
		sim_write(region, i, 1 + i % 8);
	sim_pass(sim, UINT64_MAX);
	fail_after_3(sim, SIM_FRAMES_CREATE);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_shared, 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	mend(sim, SIM_FRAMES_CREATE);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_shared, 8);
	assert_int_equal(sim_stats(sim).pages_sharing, 8);
	sim_destroy(sim);
}

static void test_frames_unmap(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 1, true);

	sim_pass(sim, UINT64_MAX);
	assert_merged(region, 8, PDD_PAGE_SHARED);
	fail_after_3(sim, SIM_FRAMES_UNMAP);
	assert_int_equal(sim_unmerge(region, 10, 8), 3);
	mend(sim, SIM_FRAMES_UNMAP);
	for (uint64_t i = 10; i < 18; i++)
		assert_int_equal(sim_is_shared(region, i), i >= 13);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_UNMERGED], 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2 + 5);
	assert_int_equal(sim_unmerge(region, 10, 8), 5);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
	sim_destroy(sim);
}

static void test_pages_discard(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 1, true);

	sim_pass(sim, UINT64_MAX);
	fail_after_3(sim, SIM_PAGES_DISCARD);
	assert_int_equal(pdd_region_discard(&region->region, 10, 8), -EAGAIN);
	mend(sim, SIM_PAGES_DISCARD);
	sim_verify(sim);
	for (uint64_t i = 10; i < 18; i++)
		assert_int_equal(region->pages[i].kind,
				 i < 13 ? PDD_PAGE_ABSENT : PDD_PAGE_SHARED);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2 + 5);
	assert_int_equal(pdd_region_discard(&region->region, 10, 8), 0);
	sim_verify(sim);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
	sim_destroy(sim);
}

/* Three pages are described, the others lose their look. */
static void test_pages_get(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 8);

	for (uint64_t i = 0; i < 8; i++)
		sim_write(region, i, 1);
	fail_after_3(sim, SIM_PAGES_GET);
	sim_pass(sim, UINT64_MAX);
	mend(sim, SIM_PAGES_GET);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(sim_reason(region, i),
				 i < 3 ? PDD_REASON_FIRST_LOOK : PDD_REASON_BUSY);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 7);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_map),
		cmocka_unit_test(test_zero_map),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_frames_create),
		cmocka_unit_test(test_frames_unmap),
		cmocka_unit_test(test_pages_discard),
		cmocka_unit_test(test_pages_get),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
