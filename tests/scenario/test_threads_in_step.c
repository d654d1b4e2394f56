/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads_in_step.c - two threads are at two extents with equal pages at the same time, and
 * one meets what the other one has. Whenever that is, the pass that finds the pages unchanged
 * merges all of them: else threads that keep in step would miss them in every pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interleaved.h"

static uint64_t nbusy; /* pages that were taken, over all points */

static void step_of_one_extent(struct sim *sim)
{
	(void)step_of(sim, plan.worker, PDD_EXTENT_PAGES);
}

/* The other thread comes at a point of the second pass; false: there is no such point. */
static bool meet(uint64_t at, bool sparse)
{
	const uint64_t n = PDD_EXTENT_PAGES;
	struct sim *sim = sim_create(&(struct sim_options){
		.aging = PDD_AGING_NONE, .limit = 256, .nroots = 1024 });
	struct sim_region *r = sim_region_add_with(sim_space_add(sim, 0), 2 * n, 2 * n, sparse);
	bool was_there;

	for (uint64_t i = 0; i < 2 * n; i++)
		sim_write(r, i, 1 + i % n);
	sim_pass(sim, UINT64_MAX);
	plan_begin(sim, at, step_of_one_extent);
	pass_with_points(sim, n);
	was_there = plan_end(sim);
	assert_int_equal(sim_stats(sim).pages_shared, n);
	assert_int_equal(sim_stats(sim).pages_sharing, n);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	/* At the last points the other thread may end the pass, and begin another one. */
	assert_in_range(sim_stats(sim).full_scans, 2, 3);
	nbusy += sim_stats(sim).counts.failures[PDD_REASON_BUSY];
	sim_verify(sim);
	sim_destroy(sim);
	return was_there;
}

static void test_every_point(void **unused)
{
	nbusy = 0;
	for (uint64_t at = 1; meet(at, false); at++)
		;
	assert_true(nbusy > 0); /* or they never met */
}

static void test_every_point_sparse(void **unused)
{
	nbusy = 0;
	for (uint64_t at = 1; meet(at, true); at++)
		;
	assert_true(nbusy > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point),
		cmocka_unit_test(test_every_point_sparse),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
