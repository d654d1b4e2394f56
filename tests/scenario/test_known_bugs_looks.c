/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_looks.c - known bug 16: KSM counted the pages of a batch when the batch was over,
 * and none of them if the scan ended in the middle of it. Here pages_scanned is the number of looks
 * after every step, whatever ended it; and what was not looked at is counted by why.
 *
 * A look reads a page once, for its checksum. So a checksum hook counts looks, if it is told apart
 * from whatever else is checksummed: frames, pages that are held, and single pages that a search
 * compares with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define PAGES 700u /* more than an extent, and no multiple of a batch */

static struct {
	struct sim *sim;
	uint64_t looks;
	unsigned fail_one_in; /* checksums that fail; 0: none */
	bool in_search;
} looked;

static bool is_memory(const void *content)
{
	for (struct sim_space *space = looked.sim->spaces; space; space = space->next)
		for (struct sim_region *r = space->regions; r; r = r->next)
			if ((uintptr_t)content - (uintptr_t)r->memory <
			    r->npages * looked.sim->page_size)
				return true;
	return false;
}

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const struct sim *sim = ctx;
	const unsigned char *bytes = content;
	bool look = sim->stepping && !looked.in_search && is_memory(content);

	if (look && looked.fail_one_in && sim_random(looked.sim, looked.fail_one_in) == 0)
		return -EIO;
	looked.looks += look;
	*value = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	for (size_t i = 0; i < sim->page_size; i++)
		*value = (*value ^ bytes[i]) * UINT64_C(0x100000001b3);
	return 0;
}

/* A search asks for one view, a look for many. */
static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	looked.in_search = nviews == 1;
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	looked.in_search = false;
	sim_ops.pages_put(ctx, region, first, npages);
}

static struct sim *world(enum pdd_aging aging, unsigned nspaces)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = aging, .limit = 9,
							    .checksum = SIM_CHECKSUM_2_BITS });

	sim->scanner.priv.ops.checksum = checksum;
	sim->scanner.priv.ops.pages_get = pages_get;
	sim->scanner.priv.ops.pages_put = pages_put;
	looked.sim = sim;
	looked.looks = 0;
	looked.fail_one_in = 0;
	for (unsigned i = 0; i < nspaces; i++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, i % 2), PAGES);

		for (uint64_t page = 0; page < PAGES; page++)
			sim_write(region, page, page % 400);
	}
	return sim;
}

static void assert_counted(const struct sim *sim)
{
	struct pdd_stats stats = sim_stats(sim);

	assert_int_equal(stats.counts.pages_scanned, looked.looks);
	assert_in_range(stats.counts.pages_hashed, 0, looked.looks);
}

/* The budget ends the step: after each number of pages up to two batches and more. */
static void test_16_budget_ends(void **unused)
{
	for (uint64_t budget = 1; budget <= PAGES + 2; budget += budget < 260 ? 1 : 97) {
		struct sim *sim = world(PDD_AGING_NONE, 1);
		uint64_t left = PAGES;

		while (left) {
			uint64_t n = budget < left ? budget : left;

			sim_step(sim, budget);
			left -= n;
			assert_int_equal(looked.looks, PAGES - left);
			assert_counted(sim);
		}
		assert_int_equal(sim_stats(sim).full_scans, 1);
		sim_destroy(sim);
	}
}

/* The deadline does, also between two pages of a run. All that were read count. */
static void test_16_deadline_ends(void **unused)
{
	for (uint64_t ns = 1; ns < 3 * PAGES; ns += 37) {
		struct sim *sim = world(PDD_AGING_NONE, 2);
		unsigned steps = 0;

		sim->ns_per_page = 1;
		sim->ns_per_hook = 5;
		while (sim_stats(sim).full_scans < 3 && steps++ < 3000) {
			sim_step_until(sim, UINT64_MAX, sim->now + ns);
			assert_counted(sim);
		}
		assert_int_equal(sim_stats(sim).full_scans, 3);
		sim_destroy(sim);
	}
}

/* Something fails or is in the way: a lock, a hook, a page that cannot be read, some of a range; or
 * the region goes. Looks that did not take place do not count. */
static void test_16_anything_ends(void **unused)
{
	for (unsigned round = 0; round < 40; round++) {
		struct sim *sim = world(round % 2 ? PDD_AGING_NONE : PDD_AGING_PHASE, 3);
		struct sim_region *region = sim->spaces->regions;

		sim->random += round;
		sim->fail_chance = 0.1;
		sim->partial = true;
		looked.fail_one_in = round % 3 ? 50 : 0;
		for (unsigned step = 0; step < 60; step++) {
			uint64_t page = sim_random(sim, PAGES);

			sim->single_views = sim_random(sim, 8) == 0;
			sim->max_views = sim_random(sim, 4);
			sim->spaces->busy = sim_random(sim, 4) == 0;
			sim_write(region, page, sim_random(sim, 500));
			region->pages[page].refuse =
				sim_random(sim, 9) ? PDD_REASON_NONE : PDD_REASON_LOCKED;
			sim_discard(region, sim_random(sim, PAGES));
			sim_step(sim, 1 + sim_random(sim, 900));
			assert_counted(sim);
		}
		sim_space_remove(sim->spaces); /* what it counted stays counted */
		assert_counted(sim);
		sim_pass(sim, UINT64_MAX);
		assert_counted(sim);
		sim_destroy(sim);
	}
}

/* With nothing in the way each page is looked at, or skipped, or shared, once in a pass. */
static void test_16_all_are_accounted_for(void **unused)
{
	struct sim *sim = world(PDD_AGING_PHASE, 2);
	struct pdd_counts before = sim_stats(sim).counts, now;

	for (unsigned pass = 0; pass < 80; pass++) {
		uint64_t shared = before.ksm_merging_pages + before.ksm_zero_pages;
		uint64_t looks = looked.looks;

		sim->single_views = pass % 2; /* an extent needs several calls of pages_get then */
		sim_pass(sim, 1 + sim_random(sim, PAGES));
		now = sim_stats(sim).counts;
		assert_counted(sim);
		/* A page that merges as a twin of one before it is not looked at any more. */
		assert_in_range(looked.looks - looks + now.pages_skipped - before.pages_skipped,
				2 * PAGES - shared - (now.merges - before.merges),
				2 * PAGES - shared);
		before = now;
	}
	assert_true(now.pages_skipped > 0);
	assert_int_equal(now.pages_busy, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_16_budget_ends),
		cmocka_unit_test(test_16_deadline_ends),
		cmocka_unit_test(test_16_anything_ends),
		cmocka_unit_test(test_16_all_are_accounted_for),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
