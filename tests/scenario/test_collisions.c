/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_collisions.c - s28: all duplicates are found and nothing is merged falsely when the
 * checksums of all contents collide. (That what merges is equal is checked by the simulation's
 * frames_map.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagededup/checksum.h>

#include "sim.h"

static struct sim *world(enum sim_checksum checksum, uint64_t n, struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){ .checksum = checksum, .nroots = 1 });

	*region = sim_region_add(sim_space_add(sim, 0), n);
	return sim;
}

/* At rest and nothing saved. A page may be alone in a frame, which was founded for a false twin. */
static void assert_all_alone(const struct sim *sim, uint64_t n)
{
	struct pdd_stats stats = sim_stats(sim);

	assert_int_equal(stats.counts.reasons[PDD_REASON_UNIQUE] + stats.pages_shared, n);
	assert_int_equal(stats.pages_sharing, 0);
	assert_int_equal(stats.counts.pages_due, 0);
}

/* Contents A, B, A, B, ... of one checksum; then of three, five, ... contents. */
static void test_alternating(void **unused)
{
	for (uint64_t contents = 2; contents <= 20; contents++) {
		struct sim_region *region;
		struct sim *sim = world(SIM_CHECKSUM_ZERO, 4 * contents, &region);

		for (uint64_t i = 0; i < 4 * contents; i++)
			sim_write(region, i, 1 + i % contents);
		sim_passes(sim, 200);
		for (uint64_t i = 0; i < 4 * contents; i++)
			assert_true(sim_is_shared(region, i));
		assert_true(sim_stats(sim).collisions > 0);
		assert_int_equal(sim_stats(sim).counts.pages_due, 0);
		sim_destroy(sim);
	}
}

/* How soon, for the smallest cases. */
static void test_soon(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(SIM_CHECKSUM_ZERO, 4, &region);

	for (uint64_t i = 0; i < 4; i++)
		sim_write(region, i, 1 + i % 2);
	sim_passes(sim, 5);
	for (uint64_t i = 0; i < 4; i++)
		assert_true(sim_is_shared(region, i));
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	sim_destroy(sim);
}

/* Pages that are all different come to rest: each in the index, none due, no more hold. */
static void test_different(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(SIM_CHECKSUM_2_BITS, 100, &region);
	uint64_t held;

	for (uint64_t i = 0; i < 100; i++)
		sim_write(region, i, 1 + i);
	sim_passes(sim, 70);
	assert_all_alone(sim, 100);
	held = sim->held_pages;
	sim_passes(sim, 64);
	assert_int_equal(sim->held_pages, held);
	assert_all_alone(sim, 100);
	sim_destroy(sim);
}

/* Changes that no checksum shows disorder the index; two equal pages find each other anyway. */
static void test_disordered(void **unused)
{
	for (unsigned round = 0; round < 50; round++) {
		struct sim_region *region;
		struct sim *sim = world(SIM_CHECKSUM_ZERO, 20, &region);

		for (uint64_t i = 0; i < 20; i++)
			sim_write(region, i, 1 + i);
		sim_passes(sim, 30);
		assert_all_alone(sim, 20);
		for (uint64_t i = 0; i < 20; i++)
			sim_write(region, i, 50 + sim_random(sim, 1000));
		sim_write(region, 3, 7);
		sim_write(region, 17, 7);
		sim_passes(sim, 260);
		assert_true(sim_is_shared(region, 3) && sim_is_shared(region, 17));
		sim_destroy(sim);
	}
}

/* A search throws out few of those that it cannot compare with, however many these are: here all,
 * since their space is busy. */
static void test_busy_neighbours(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .checksum = SIM_CHECKSUM_ZERO,
		.nroots = 1, .aging = PDD_AGING_NONE });
	struct sim_region *hand = sim_region_add(sim_space_add(sim, 0), 1);
	struct sim_region *others = sim_region_add(sim_space_add(sim, 0), 40);
	uint64_t before;

	sim_write(hand, 0, 1);
	for (uint64_t i = 0; i < 40; i++)
		sim_write(others, i, 2 + i);
	sim_passes(sim, 80);
	assert_all_alone(sim, 41);
	before = sim_stats(sim).stale_twins;
	others->space->busy = true;
	sim_pass(sim, UINT64_MAX);
	assert_in_range(sim_stats(sim).stale_twins - before, 1, 6); /* 3 of each set */
	others->space->busy = false;
	sim_destroy(sim);
}

static bool is_mixed(uint64_t checksum)
{
	for (uint64_t value = 0; value < 4; value++)
		if (checksum == pdd_checksum_mix(value))
			return true;
	return false;
}

/* What a hook answers is spread over all bits, unless it says that it is already: else short
 * checksums would all be of one root. */
static void test_short_checksums_are_mixed(void **unused)
{
	for (unsigned uniform = 0; uniform < 2; uniform++) {
		struct sim_region *region;
		struct sim *sim = world(SIM_CHECKSUM_2_BITS, 20, &region);

		if (uniform)
			sim->scanner.priv.flags |= PDD_SCANNER_UNIFORM_CHECKSUM;
		for (uint64_t i = 0; i < 20; i++)
			sim_write(region, i, 1 + i);
		sim_pass(sim, UINT64_MAX);
		for (uint64_t i = 0; i < 20; i++) {
			uint64_t checksum = sim_item(region, i)->priv.node.checksum;

			assert_true(uniform ? checksum < 4 : is_mixed(checksum));
		}
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alternating),
		cmocka_unit_test(test_short_checksums_are_mixed),
		cmocka_unit_test(test_busy_neighbours),
		cmocka_unit_test(test_soon),
		cmocka_unit_test(test_different),
		cmocka_unit_test(test_disordered),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
