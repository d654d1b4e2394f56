/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unshare.c - sharing ends: by writes, by unmerging, by memory going away. What was shared
 * reads as before, frames go back with their last sharer, and gauges fall to 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

static struct sim *world(uint32_t limit, struct sim_region **region, uint64_t n)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit });

	*region = sim_region_add(sim_space_add(sim, 0), n);
	for (uint64_t i = 0; i < n; i++)
		sim_write(*region, i, 1);
	sim_passes(sim, 2);
	return sim;
}

static uint64_t live_frames(const struct sim *sim)
{
	uint64_t n = 0;

	for (const struct sim_frame *frame = sim->frames; frame; frame = frame->next)
		n++;
	return n;
}

/* KSM's test -U: both pages of a pair are written. */
static void test_written(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(0, &region, 2);

	assert_int_equal(sim_stats(sim).pages_sharing, 1);
	sim_write(region, 0, 2);
	sim_write(region, 1, 3);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_stats(sim).pages_sharing, 0);
	assert_int_equal(sim_stats(sim).counts.unshares, 2);
	assert_int_equal(sim->traced[PDD_EVENT_UNSHARED], 2);
	assert_int_equal(live_frames(sim), 0);
	sim_destroy(sim);
}

/* A sharer that is written is detached, and merges again after two looks. */
static void test_merges_again(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(0, &region, 5);

	sim_write(region, 2, 1); /* the same, but a copy of its own */
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	assert_int_equal(sim_reason(region, 2), PDD_REASON_FIRST_LOOK);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_sharing, 4);
	assert_true(sim_is_shared(region, 2));
	sim_destroy(sim);
}

/* s39: the first sharer leaves, the second still reads the frame, alone. */
static void test_first_leaves(void **unused)
{
	for (uint64_t first = 0; first < 2; first++) {
		struct sim_region *region;
		struct sim *sim = world(0, &region, 2);

		sim_write(region, first, 9);
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).pages_shared, 1);
		assert_int_equal(sim_stats(sim).pages_sharing, 0);
		assert_true(sim_is_shared(region, 1 - first));
		sim_write(region, first, 1);
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).pages_sharing, 1);
		sim_destroy(sim);
	}
}

/* s35 with chains: all sharers of all dups are written, in any order. */
static void test_all_leave(void **unused)
{
	for (unsigned round = 0; round < 20; round++) {
		struct sim_region *region;
		struct sim *sim = world(3, &region, 60);
		uint64_t left = 60;

		assert_int_equal(sim_stats(sim).stable_node_dups, 20);
		while (left) {
			uint64_t page = sim_random(sim, 60);

			if (!sim_is_shared(region, page))
				continue;
			sim_write(region, page, 100 + page);
			left--;
			if (sim_random(sim, 4) == 0)
				sim_pass(sim, 1 + sim_random(sim, 60));
		}
		sim_passes(sim, 2);
		assert_int_equal(live_frames(sim), 0);
		assert_int_equal(sim_stats(sim).stable_node_chains, 0);
		sim_destroy(sim);
	}
}

/* A place that becomes free calls for the page that found none. */
static void test_leftover_joins(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(4, &region, 9);

	assert_int_equal(sim_stats(sim).counts.pages_unshared, 1);
	sim_write(region, 0, 2);
	sim_pass(sim, UINT64_MAX);
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 1; i < 9; i++)
		assert_true(sim_is_shared(region, i));
	assert_int_equal(sim_reason(region, 0), PDD_REASON_UNIQUE);
	sim_destroy(sim);
}

static void test_unmerge(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(4, &region, 600);

	assert_int_equal(sim_unmerge(region, 500, 50), 50);
	for (uint64_t i = 0; i < 600; i++)
		assert_int_equal(sim_is_shared(region, i), i < 500 || i >= 550);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_UNMERGED], 50);
	assert_int_equal(sim_unmerge(region, 500, 50), 0);
	assert_int_equal(sim_unmerge(region, 600, 0), 0);
	assert_int_equal(pdd_region_unmerge(&region->region, 600, 1, 1), -EINVAL);
	assert_int_equal(pdd_region_unmerge(&region->region, 1, UINT64_MAX, 1), -EINVAL);
	assert_int_equal(sim_unmerge(region, 0, 600), 550);
	assert_int_equal(live_frames(sim), 0);
	sim_passes(sim, 2); /* they stay eligible */
	assert_int_equal(sim_stats(sim).pages_sharing, 450);
	sim_destroy(sim);
}

/* Known bug 34: unmerging fails at the k-th call, scanning goes on, then unmerging does. */
static void test_unmerge_fails(void **unused)
{
	for (uint64_t k = 1; k <= 6; k++) {
		struct sim_region *region;
		struct sim *sim = world(4, &region, 600);
		int64_t n;

		for (uint64_t i = 0; i < 600; i += 200)
			sim_write(region, i, 2); /* three pages need no copy any more */
		sim->fallible = 0;
		sim->fail_at = k;
		sim->fail_errno = -ENOMEM;
		sim->partial = true;
		n = sim_unmerge(region, 0, 600);
		/* Told at once if nothing could be done, else by what is left. */
		assert_true(k == 1 ? n == -ENOMEM : n > 0);
		if (sim->fallible >= k)
			assert_true(sim_stats(sim).pages_shared > 0);
		sim->fail_at = 0;
		if (k % 2)
			sim_passes(sim, 3);
		assert_true(sim_unmerge(region, 0, 600) >= 0);
		assert_int_equal(live_frames(sim), 0);
		assert_int_equal(sim_stats(sim).pages_shared, 0);
		sim_settle(sim, 8);
		sim_destroy(sim);
	}
}

/* The region under the cursor goes away in the middle of a pass, or those around it, or a space. */
static void test_removal_in_pass(void **unused)
{
	for (unsigned round = 0; round < 300; round++) {
		struct sim *sim = sim_create(&(struct sim_options){ .limit = 3 });
		struct sim_region *regions[4];

		for (unsigned i = 0; i < 4; i++) {
			struct sim_space *space = i % 2 ? sim->spaces : sim_space_add(sim, 0);

			regions[i] = sim_region_add(space, 10);
			for (uint64_t page = 0; page < 10; page++)
				sim_write(regions[i], page, 1 + page % 3);
		}
		sim_pass(sim, 7);
		for (uint64_t steps = sim_random(sim, 8); steps; steps--)
			sim_step(sim, 1 + sim_random(sim, 9));
		if (sim_random(sim, 3) == 0)
			sim_space_remove(sim->spaces);
		else
			sim_region_remove(regions[sim_random(sim, 4)]);
		sim_verify(sim);
		sim_pass(sim, 5);
		sim_settle(sim, 8);
		sim_destroy(sim);
	}
}

/* s23: passes are completed while regions come and go at every step. */
static void test_passes_end(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *region = sim_region_add(space, 100), *guest = NULL;
	uint64_t steps = 0;

	for (uint64_t i = 0; i < 100; i++)
		sim_write(region, i, i / 2);
	while (sim_stats(sim).full_scans < 20) {
		if (guest)
			sim_region_remove(guest);
		guest = sim_region_add(space, 10);
		sim_write(guest, steps % 10, 3);
		sim_step(sim, 10);
		steps++;
		assert_true(sim_stats(sim).full_scans >= steps / (100 / 10 + 1 + 2));
	}
	sim_destroy(sim);
}

static void test_misuse(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(0, &region, 2);
	struct sim_space *space = region->space;
	struct pdd_region other = { 0 };
	struct pdd_budget nothing = { 0 };

	assert_int_equal(pdd_space_add(&sim->scanner, &space->space, 0), -EBUSY);
	assert_int_equal(pdd_space_remove(&space->space), -EBUSY);
	assert_int_equal(pdd_region_add(&space->space, &region->region, 0, 2, region->extents,
					region->items),
			 -EBUSY);
	assert_int_equal(pdd_region_add(&space->space, &other, 0, 0, region->extents,
					region->items),
			 -EINVAL);
	assert_int_equal(pdd_region_remove(&other), -EINVAL);
	assert_int_equal(pdd_region_unmerge(&other, 0, 0, 1), -EINVAL);
	assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &nothing), -EINVAL);
	sim_region_remove(region);
	assert_int_equal(sim_step(sim, 1), PDD_STEP_IDLE);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written),
		cmocka_unit_test(test_merges_again),
		cmocka_unit_test(test_first_leaves),
		cmocka_unit_test(test_all_leave),
		cmocka_unit_test(test_leftover_joins),
		cmocka_unit_test(test_unmerge),
		cmocka_unit_test(test_unmerge_fails),
		cmocka_unit_test(test_removal_in_pass),
		cmocka_unit_test(test_passes_end),
		cmocka_unit_test(test_misuse),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
