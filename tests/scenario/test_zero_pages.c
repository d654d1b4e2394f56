/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_zero_pages.c - pages of zeros: replaced by the zero page, or merged like any others; how
 * they are counted, and that neither way loses a write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

static struct sim *world(bool keep, bool no_zero_map, struct sim_region **region, uint64_t n)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .keep_zero_pages = keep, .no_zero_map = no_zero_map });

	*region = sim_region_add(sim_space_add(sim, 0), n);
	for (uint64_t i = 0; i < n; i++)
		sim_write(*region, i, 0);
	return sim;
}

/* KSM's test -Z with use_zero_pages, and the scenario s56. */
static void test_replaced(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(false, false, &region, 3);
	struct pdd_stats stats;

	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
	sim_pass(sim, UINT64_MAX);
	stats = sim_stats(sim);
	assert_int_equal(stats.counts.ksm_zero_pages, 3);
	assert_int_equal(stats.counts.zero_merges, 3);
	assert_int_equal(stats.counts.reasons[PDD_REASON_NONE], 3);
	assert_int_equal(sim->traced[PDD_EVENT_ZEROED], 3);
	assert_int_equal(stats.pages_shared + stats.pages_sharing, 0);
	assert_int_equal(stats.general_profit_bytes, 3 * (int64_t)(sim->page_size - 48));
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(region->pages[i].kind, PDD_PAGE_ZERO);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 3);
	sim_destroy(sim);
}

/* Kept, or with no hook for it: they share a frame. KSM's test -Z without use_zero_pages. */
static void test_kept(void **unused)
{
	for (unsigned i = 0; i < 2; i++) {
		struct sim_region *region;
		struct sim *sim = world(i, !i, &region, 10);
		struct pdd_stats stats;

		sim_passes(sim, 2);
		stats = sim_stats(sim);
		assert_int_equal(stats.pages_shared, 1);
		assert_int_equal(stats.pages_sharing, 9);
		assert_int_equal(stats.counts.ksm_zero_pages, 0);
		assert_int_equal(sim->calls[SIM_ZERO_MAP], 0);
		sim_destroy(sim);
	}
}

/* The gauge falls as pages are written; a written page that is zero again is replaced again. */
static void test_written(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(false, false, &region, 8);

	sim_passes(sim, 2);
	for (uint64_t i = 0; i < 4; i++)
		sim_write(region, i, 100 + i);
	sim_write(region, 4, 0);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 3);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_FIRST_LOOK);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 4);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_UNIQUE);
	sim_destroy(sim);
}

static struct sim_region *target;

static void write_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook == SIM_HOLD && before)
		sim_write(target, 1, 7);
	if (hook == SIM_ZERO_MAP && before) /* waits, since it is held */
		sim_write(target, 0, 8);
}

/* Written after it was seen to be zero, and while it is held. */
static void test_written_meanwhile(void **unused)
{
	struct sim *sim = world(false, false, &target, 3);

	sim_pass(sim, UINT64_MAX);
	sim->at = write_before_hold;
	sim_pass(sim, UINT64_MAX);
	sim->at = NULL;
	assert_int_equal(sim_reason(target, 1), PDD_REASON_CHANGED);
	assert_int_equal(target->pages[0].kind, PDD_PAGE_PRIVATE);
	assert_int_equal(target->pages[2].kind, PDD_PAGE_ZERO);
	sim_pass(sim, UINT64_MAX); /* the failed merge was its first look at the new content */
	assert_int_equal(sim_reason(target, 1), PDD_REASON_UNIQUE);
	sim_settle(sim, 5);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 1);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 2);
	sim_destroy(sim);
}

/* s61: zero pages, same-filled ones and others are merged each in its own way. */
static void test_classes(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 300);

	for (uint64_t i = 0; i < 100; i++) {
		sim_write(region, i, SIM_FILLED | 0xff);
		sim_write(region, 100 + i, 0);
		sim_write(region, 200 + i, 5);
	}
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 100);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 198);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_written_meanwhile),
		cmocka_unit_test(test_classes),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
