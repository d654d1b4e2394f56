/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_twin_behind.c - a page finds its twin behind itself: later in the same batch, in a later
 * batch of the extent, in the next extent; and the twin is meanwhile unchanged, changed, gone or
 * refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

enum fate {
	UNCHANGED = 0,
	CHANGED = 1,
	ABSENT = 2,
	REFUSED = 3,
	HOLD_REFUSED = 4,
	TWO_HOLD_REFUSED = 5, /* and one of the pages before it */
	FATES = 6,
};

static void befall(struct sim_region *region, uint64_t twin, enum fate fate)
{
	if (fate == CHANGED)
		sim_write(region, twin, 2);
	else if (fate == ABSENT)
		sim_discard(region, twin);
	else if (fate == REFUSED)
		region->pages[twin].refuse = PDD_REASON_HUGE;
	if (fate == HOLD_REFUSED || fate == TWO_HOLD_REFUSED)
		region->pages[twin].hold_refuse = PDD_REASON_PINNED;
	if (fate == TWO_HOLD_REFUSED)
		region->pages[1].hold_refuse = PDD_REASON_PINNED;
}

/* `n` pages at the front become equal to one at `twin`, which stands in the index for long. Other
 * pages, if any, make the batches full. */
static void run(uint64_t n, uint64_t twin, uint32_t limit, enum fate fate, bool others)
{
	uint64_t rest = fate == TWO_HOLD_REFUSED ? n - 1 : n;
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1000);

	for (uint64_t i = 0; others && i < region->npages; i++)
		sim_write(region, i, 10 + i);
	sim_write(region, twin, 1);
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 0; i < n; i++)
		sim_write(region, i, 1);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(region, twin), PDD_REASON_UNIQUE);
	befall(region, twin, fate);
	sim_pass(sim, UINT64_MAX); /* the second look at the front */
	if (fate == UNCHANGED)
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages,
				 (n + 1) % limit == 1 ? n : n + 1);
	sim_passes(sim, 3);
	assert_true(sim_stats(sim).counts.ksm_merging_pages >= rest - (rest % limit == 1));
	if (fate == REFUSED)
		assert_int_equal(sim_reason(region, twin), PDD_REASON_HUGE);
	sim_settle(sim, 40);
	sim_destroy(sim);
}

static void test_twin_behind(void **unused)
{
	static const uint64_t twins[] = { 20, 200, 511, 512, 900 };

	for (unsigned t = 0; t < sizeof(twins) / sizeof(twins[0]); t++)
		for (uint64_t n = 2; n <= 9; n++)
			for (uint32_t limit = 2; limit <= 5; limit++)
				for (enum fate fate = 0; fate < FATES; fate++)
					run(n, twins[t], limit, fate, n % 4 == 3);
}

/* Whole runs of twins, in order and mirrored. */
static void test_runs(void **unused)
{
	for (unsigned mirrored = 0; mirrored < 2; mirrored++) {
		struct sim *sim = sim_create(NULL);
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1200);

		for (uint64_t i = 0; i < 600; i++)
			sim_write(region, 600 + i, 1 + i);
		sim_passes(sim, 2);
		for (uint64_t i = 0; i < 600; i++)
			sim_write(region, mirrored ? 599 - i : i, 1 + i);
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).pages_shared, 600);
		assert_int_equal(sim_stats(sim).pages_sharing, 600);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twin_behind),
		cmocka_unit_test(test_runs),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
