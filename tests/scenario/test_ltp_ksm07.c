/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ltp_ksm07.c - LTP's ksm07 (ksm-behaviour 3.4, 1.10): one page that stays as it is and smart
 * scan. pages_skipped grows by at least half of what full_scans does, and by exactly as much as the
 * periods of the schedule say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define PAGE_OF_A UINT64_C(0x6161616161616161) /* 8 bytes */

static struct sim *world(enum pdd_aging aging, uint32_t max_period)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.page_shift = 3,
		.aging = aging,
		.max_period = max_period,
	});

	sim_write(sim_region_add(sim_space_add(sim, 0), 1), 0, PAGE_OF_A);
	return sim;
}

struct growth {
	uint64_t passes, skipped, scanned;
};

/* What so many passes of 100 pages add to the figures. */
static struct growth grow(struct sim *sim, unsigned npasses)
{
	struct pdd_stats before = sim_stats(sim), after;

	for (unsigned i = 0; i < npasses; i++)
		sim_pass(sim, 100);
	after = sim_stats(sim);
	return (struct growth){
		.passes = after.full_scans - before.full_scans,
		.skipped = after.counts.pages_skipped - before.counts.pages_skipped,
		.scanned = after.counts.pages_scanned - before.counts.pages_scanned,
	};
}

/* The row, over runs of different lengths. After 14 passes half are skipped whatever the phase
 * is: there are at most 3 + 2 + 1 + 1 looks at the ages 0 to 2, 3 to 5, 6 to 8, 9 to 13. */
static void test_half_is_skipped(void **unused)
{
	static const unsigned lengths[] = { 14, 20, 100, 1000 };

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct sim *sim = world(PDD_AGING_PHASE, 0);
		struct growth growth = grow(sim, lengths[i]);

		assert_int_equal(growth.passes, lengths[i]);
		assert_int_equal(growth.skipped + growth.scanned, growth.passes);
		assert_true(2 * growth.skipped >= growth.passes);
		sim_destroy(sim);
	}
}

/* In the long run the page is looked at once in each period: with KSM's longest, 8, 87.5 % are
 * skipped. */
static void test_exact_share(void **unused)
{
	for (uint32_t period = 1; period <= PDD_AGING_PERIOD_MAX; period *= 2) {
		struct sim *sim = world(PDD_AGING_PHASE, period);
		struct growth growth;

		grow(sim, 150); /* older than the last step of the schedule */
		growth = grow(sim, 256);
		assert_int_equal(growth.scanned, 256 / period);
		assert_int_equal(growth.skipped, 256 - 256 / period);
		if (period > 1)
			assert_true(2 * growth.skipped >= growth.passes);
		sim_destroy(sim);
	}
}

/* smart_scan = 0: nothing is skipped. Switched on and off at any time. */
static void test_switched(void **unused)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	struct sim *sim = world(PDD_AGING_NONE, 0);
	struct growth growth = grow(sim, 200);

	assert_int_equal(growth.scanned, 200);
	assert_int_equal(growth.skipped, 0);
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &tunables), 0);
	tunables.aging = PDD_AGING_PHASE;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &tunables), 0);
	growth = grow(sim, 128);
	assert_int_equal(growth.scanned, 2);
	assert_int_equal(growth.skipped, 126);
	tunables.aging = PDD_AGING_NONE;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &tunables), 0);
	assert_int_equal(grow(sim, 100).skipped, 0);
	sim_destroy(sim);
}

/* "Not applied to KSM pages": a page that shares a frame is neither looked at nor skipped. */
static void test_shared_pages(void **unused)
{
	struct sim *sim = world(PDD_AGING_PHASE, 0);
	struct growth growth;

	sim_write(sim_region_add(sim->spaces, 1), 0, PAGE_OF_A);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 1);
	growth = grow(sim, 100);
	assert_int_equal(growth.scanned, 0);
	assert_int_equal(growth.skipped, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_half_is_skipped),
		cmocka_unit_test(test_exact_share),
		cmocka_unit_test(test_switched),
		cmocka_unit_test(test_shared_pages),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
