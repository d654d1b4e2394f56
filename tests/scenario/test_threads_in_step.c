/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads_in_step.c - two threads are at two extents with equal pages at the same time, and
 * one meets what the other one has. Whenever that is, the pass that finds the pages unchanged
 * merges all of them: else threads that keep in step would miss them in every pass. What is to be
 * come by once more for that, and goes before. And others wait while a step prunes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interleaved.h"
#include "scanner_internal.h"

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
	uint64_t busy;
	bool was_there;

	for (uint64_t i = 0; i < 2 * n; i++)
		sim_write(r, i, i % 64 == 7 ? 5000 + i : 1 + i % n); /* a few are unlike others */
	sim_pass(sim, UINT64_MAX);
	plan_begin(sim, at, step_of_one_extent);
	pass_with_points(sim, n);
	was_there = plan_end(sim);
	assert_int_equal(sim_stats(sim).pages_shared, n - n / 64);
	assert_int_equal(sim_stats(sim).pages_sharing, n - n / 64);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	/* At the last points the other thread may end the pass, and begin another one. */
	assert_in_range(sim_stats(sim).full_scans, 2, 3);
	busy = sim_stats(sim).counts.failures[PDD_REASON_BUSY];
	nbusy += busy;
	/* Only what was taken is read once more. */
	if (sim_stats(sim).full_scans == 2 && !sim->scanner.priv.in_pass)
		assert_in_range(sim_stats(sim).counts.pages_scanned, 4 * n, 4 * n + busy);
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

/* ---- an extent is claimed once ---- */

static void test_one_claim(void **unused)
{
	const uint64_t n = PDD_EXTENT_PAGES;
	struct sim *sim = sim_create(NULL);
	const struct pdd_region *r = &sim_region_add(sim_space_add(sim, 0), 2 * n)->region;
	struct pdd_visit a, b;

	pddi_visit_begin(&sim->scanner, &a);
	pddi_visit_begin(&sim->scanner, &b);
	assert_true(pddi_claim(&sim->scanner, &a, &a.at, r, 0));
	assert_false(pddi_claim(&sim->scanner, &b, &b.at, r, n - 1));
	assert_true(pddi_claim(&sim->scanner, &b, &b.at, r, n));
	assert_true(pddi_claim(&sim->scanner, &a, &a.beside, r, 1)); /* its own */
	assert_false(pddi_claim(&sim->scanner, &a, &a.beside, r, n));
	pddi_unclaim(&a.at);
	assert_false(pddi_claim(&sim->scanner, &b, &b.beside, r, 0));
	pddi_unclaim(&a.beside);
	assert_true(pddi_claim(&sim->scanner, &b, &b.beside, r, 0));
	pddi_visit_end(&sim->scanner, &a);
	pddi_visit_end(&sim->scanner, &b);
	sim_destroy(sim);
}

/* ---- places to come by once more, of pages that go ---- */

static void test_again_and_gone(void **unused)
{
	const uint64_t n = PDD_EXTENT_PAGES;
	struct sim *sim = sim_create(NULL);
	struct sim_region *r[3];

	for (unsigned i = 0; i < 3; i++)
		r[i] = sim_region_add(sim_space_add(sim, 0), 3 * n);
	for (unsigned i = 0; i < 3; i++)
		pddi_pass_again(&sim->scanner, &r[i]->region, i * n + 1);
	pddi_pass_again(&sim->scanner, &r[1]->region, n + 2); /* the same extent */
	assert_int_equal(sim->scanner.priv.nagain, 3);
	sim_region_remove(r[0]);
	assert_int_equal(sim->scanner.priv.nagain, 2);
	assert_ptr_equal(sim->scanner.priv.again[0].region, &r[1]->region);
	assert_ptr_equal(sim->scanner.priv.again[1].region, &r[2]->region);
	sim_region_resize(r[2], 2 * n);
	assert_int_equal(sim->scanner.priv.nagain, 1);
	sim_region_resize(r[1], n + 1); /* the place itself stays */
	assert_int_equal(sim->scanner.priv.nagain, 1);
	assert_ptr_equal(sim->scanner.priv.again[0].region, &r[1]->region);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim->scanner.priv.nagain, 0);
	sim_destroy(sim);
}

/* ---- while a step prunes, others wait ---- */

static unsigned nwaits;

static void step_while_pruning(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_FRAMES_REMAP || !before || plan.inside)
		return;
	plan.inside = true;
	plan.first = (struct sim_turn){0};
	sim_turn_swap(sim, &plan.first);
	if (step_of(sim, plan.worker, 1) != PDD_STEP_WAIT)
		sim_fail("a step does not wait for the one that prunes");
	sim_turn_swap(sim, &plan.first);
	plan.inside = false;
	nwaits++;
}

static void test_waits_for_prune(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){.limit = 4, .aging = PDD_AGING_NONE});
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);

	for (uint64_t i = 0; i < 40; i++)
		sim_write(region, i, 1);
	sim_settle(sim, 20);
	for (uint64_t i = 0; i < 40; i++)
		if (i % 4)
			sim_write(region, i, 100 + i);
	plan_begin(sim, 0, NULL);
	sim->at = step_while_pruning;
	nwaits = 0;
	sim_passes(sim, 4);
	plan_end(sim);
	assert_true(nwaits > 0);
	assert_int_equal(sim_stats(sim).pages_shared, 3);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_point),
		cmocka_unit_test(test_one_claim),
		cmocka_unit_test(test_again_and_gone),
		cmocka_unit_test(test_waits_for_prune),
		cmocka_unit_test(test_every_point_sparse),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
