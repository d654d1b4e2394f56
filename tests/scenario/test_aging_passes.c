/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_aging_passes.c - s14 and s25: old pages are read rarely, equal ones merge at once all the
 * same, and pages that change all the time are not read all the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define STARTS 20u
#define WAITS 201u
#define PAIRS (STARTS * WAITS)

/* A page at pass `start`, an equal one `wait` passes later; each start with each wait. */
static void write_pairs(struct sim_region *region, uint64_t pass)
{
	for (uint64_t start = 0; start < STARTS; start++) {
		if (start == pass)
			for (uint64_t wait = 0; wait < WAITS; wait++)
				sim_write(region, start * WAITS + wait, 1 + start * WAITS + wait);
		if (pass >= start && pass - start < WAITS)
			sim_write(region, PAIRS + start * WAITS + pass - start,
				  1 + start * WAITS + pass - start);
	}
}

/* All pairs merge at the second look at the younger page, that is one pass after its first. */
static void test_pairs_meet(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 4096 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 2 * PAIRS);

	for (uint64_t pass = 0; pass < STARTS + WAITS + 1; pass++) {
		write_pairs(region, pass);
		sim_pass(sim, UINT64_MAX);
		for (uint64_t i = 0; i < PAIRS; i++)
			assert_int_equal(sim_is_shared(region, i),
					 i / WAITS + i % WAITS + 1 <= pass);
	}
	assert_int_equal(sim_stats(sim).pages_shared, PAIRS);
	assert_int_equal(sim_stats(sim).pages_sharing, PAIRS);
	sim_destroy(sim);
}

/* Of old pages a 64th is read in each pass, evenly. */
static void test_old_pages(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 4096 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 6400);
	uint64_t before, scanned, most = 0;

	for (uint64_t i = 0; i < 6400; i++)
		sim_write(region, i, 1 + i);
	sim_passes(sim, 64 + 64 + 1);
	before = scanned = sim_stats(sim).counts.pages_scanned;
	for (unsigned pass = 0; pass < 64; pass++) {
		uint64_t now;

		sim_pass(sim, UINT64_MAX);
		now = sim_stats(sim).counts.pages_scanned;
		most = now - scanned > most ? now - scanned : most;
		scanned = now;
	}
	assert_int_equal(scanned - before, 6400);
	assert_in_range(most, 100, 160);
	sim_destroy(sim);
}

/* A region rewritten before every pass. */
static void test_volatile(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 640);
	uint64_t scanned = 0;

	for (uint64_t pass = 0; pass < 200; pass++) {
		uint64_t now;

		for (uint64_t i = 0; i < 640; i++)
			sim_write(region, i, 1 + pass * 640 + i);
		sim_pass(sim, UINT64_MAX);
		now = sim_stats(sim).counts.pages_scanned;
		if (pass >= 100)
			assert_in_range(now - scanned, 0, 640 / 8);
		scanned = now;
	}
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_VOLATILE], 640);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	assert_int_equal(sim_stats(sim).counts.merges + sim->held_pages, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs_meet),
		cmocka_unit_test(test_old_pages),
		cmocka_unit_test(test_volatile),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
