/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unmerge.c - unmerging a page, a range, a region, a space, everything: with any budget, with
 * a hook that fails at any call, and with passes between the calls. What was unmerged has memory of
 * its own and reads as before; the rest is as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))
#define MERGED (2 * (2 * 10 + 5 * 8)) /* of the world below */

/* Two spaces of two regions each, one of them sparse: 10 zero pages and 5 contents of 8 pages in
 * each space's first region; the same behind a hole in the second. Unlike pages between them. */
struct world {
	struct sim *sim;
	struct sim_region *regions[4];
};

static struct world create(uint32_t limit)
{
	struct world w = { .sim = sim_create(&(struct sim_options){ .limit = limit }) };

	for (unsigned r = 0; r < 4; r++) {
		struct sim_space *space = r % 2 ? w.sim->spaces : sim_space_add(w.sim, 0);
		uint64_t base = r % 2 ? 1520 : 0; /* at the end of an extent */

		w.regions[r] = sim_region_add_with(space, 1600, 1600, r % 2);
		for (uint64_t i = 0; i < 10; i++)
			sim_write(w.regions[r], base + i, 0);
		for (uint64_t i = 0; i < 20; i++)
			sim_write(w.regions[r], base + 10 + i, 1 + i / 4);
		for (uint64_t i = 0; i < 5; i++)
			sim_write(w.regions[r], base + 12 + 4 * i, 1000 * (r + 1) + i);
		for (uint64_t i = 0; i < 5; i++)
			sim_write(w.regions[r], base + 30 + i, 1 + i);
	}
	sim_passes(w.sim, 3);
	assert_int_equal(sim_stats(w.sim).counts.reasons[PDD_REASON_NONE], MERGED);
	return w;
}

static uint64_t merged(const struct sim_region *region, uint64_t first, uint64_t end)
{
	uint64_t n = 0;

	for (; first < end; first++)
		n += region->pages[first].kind == PDD_PAGE_SHARED ||
		     region->pages[first].kind == PDD_PAGE_ZERO;
	return n;
}

static uint64_t all_merged(const struct world *w)
{
	uint64_t n = 0;

	for (unsigned r = 0; r < 4; r++)
		n += merged(w->regions[r], 0, 1600);
	return n;
}

/* Bytes of memory that the pages and the frames take. */
static uint64_t memory(const struct world *w)
{
	uint64_t n = 0;

	for (const struct sim_frame *frame = w->sim->frames; frame; frame = frame->next)
		n++;
	for (unsigned r = 0; r < 4; r++)
		for (uint64_t i = 0; i < 1600; i++)
			n += w->regions[r]->pages[i].kind == PDD_PAGE_PRIVATE;
	return n * w->sim->page_size;
}

/* Nothing is merged any more, and everything can be again. */
static void destroy(struct world *w)
{
	assert_int_equal(all_merged(w), 0);
	assert_null(w->sim->frames);
	assert_int_equal(sim_stats(w->sim).bytes_if_all_unshared, 0);
	sim_passes(w->sim, 3);
	assert_int_equal(all_merged(w), MERGED);
	sim_destroy(w->sim);
}

/* A range loses what is merged in it, and nobody else anything. */
static void test_ranges(void **unused)
{
	static const struct {
		uint64_t first, npages;
	} ranges[] = {
		{ 0, 1 }, { 9, 2 }, { 12, 1 }, { 10, 25 }, { 0, 1600 }, { 1520, 80 }, { 500, 1033 },
		{ 40, 1480 }, { 1535, 2 },
	};

	for (unsigned i = 0; i < 4 * sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct world w = create(i % 3 ? 4 : 0);
		struct sim_region *region = w.regions[i % 4];
		uint64_t first = ranges[i / 4].first, end = first + ranges[i / 4].npages;
		uint64_t n = merged(region, first, end), before = all_merged(&w);

		assert_int_equal(sim_unmerge(region, first, end - first), n);
		assert_int_equal(all_merged(&w), before - n);
		assert_int_equal(merged(region, first, end), 0);
		assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_UNMERGED], n);
		assert_int_equal(sim_unmerge(region, first, end - first), 0);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages +
					 sim_counts(region->space).ksm_zero_pages,
				 MERGED / 2 - n);
		assert_int_equal(pdd_scanner_unmerge(&w.sim->scanner, 1000), MERGED - n);
		destroy(&w);
	}
}

/* One call of each kind, as a function of the world and a budget. */
static int64_t unmerge_region(struct world *w, uint64_t budget)
{
	return pdd_region_unmerge(&w->regions[1]->region, 0, 1600, budget);
}

static int64_t unmerge_space(struct world *w, uint64_t budget)
{
	return pdd_space_unmerge(&w->regions[0]->space->space, budget);
}

static int64_t unmerge_all(struct world *w, uint64_t budget)
{
	return pdd_scanner_unmerge(&w->sim->scanner, budget);
}

static const struct {
	int64_t (*unmerge)(struct world *w, uint64_t budget);
	uint64_t pages;
} scopes[] = {
	{ unmerge_region, MERGED / 4 },
	{ unmerge_space, MERGED / 2 },
	{ unmerge_all, MERGED },
};

#define SCOPES (sizeof(scopes) / sizeof(scopes[0]))

/* Every budget: each call unmerges as many pages as it allows, and the next one goes on. What it
 * costs is what was foretold. */
static void test_budgets(void **unused)
{
	for (unsigned s = 0; s < SCOPES; s++) {
		for (uint64_t budget = 1; budget <= scopes[s].pages + 1; budget += 1 + budget / 8) {
			struct world w = create(4);
			uint64_t all = memory(&w) + sim_stats(w.sim).bytes_if_all_unshared;

			for (uint64_t left = scopes[s].pages; left;) {
				uint64_t n = budget < left ? budget : left;

				assert_int_equal(scopes[s].unmerge(&w, budget), n);
				left -= n;
				sim_verify(w.sim);
				assert_int_equal(all_merged(&w), MERGED - scopes[s].pages + left);
				assert_int_equal(memory(&w) +
							 sim_stats(w.sim).bytes_if_all_unshared,
						 all);
			}
			assert_int_equal(scopes[s].unmerge(&w, budget), 0);
			assert_int_equal(scopes[s].unmerge(&w, UINT64_MAX), 0);
			while (unmerge_all(&w, UINT64_MAX) > 0)
				;
			assert_int_equal(memory(&w), all);
			destroy(&w);
		}
	}
}

/* Known bug 34: it stops at the k-th failure, for every k, in each way; passes may come between;
 * then it goes on, and nothing is left. */
static void fail_at(unsigned s, uint64_t k, int error, bool passes)
{
	struct world w = create(4);
	uint64_t before;
	int64_t n;

	w.sim->fail_mask = BIT(SIM_FRAMES_UNMAP);
	w.sim->fail_errno = error;
	w.sim->partial = k % 2;
	w.sim->fallible = 0;
	w.sim->fail_at = k;
	before = all_merged(&w);
	n = scopes[s].unmerge(&w, UINT64_MAX);
	sim_verify(w.sim);
	if (k == 1)
		assert_int_equal(n, error);
	else
		assert_int_equal(n, before - all_merged(&w));
	if (w.sim->fallible >= k) /* it did fail */
		assert_true(all_merged(&w) > MERGED - scopes[s].pages);
	w.sim->partial = false;
	w.sim->fail_at = 0;
	if (passes)
		sim_pass(w.sim, 700);
	before = all_merged(&w);
	while ((n = unmerge_all(&w, 17)) > 0) {
		before -= (uint64_t)n;
		assert_int_equal(all_merged(&w), before);
		sim_verify(w.sim);
	}
	assert_int_equal(n, 0);
	destroy(&w);
}

static void test_failures(void **unused)
{
	static const int errors[] = { -EBUSY, -ENOMEM, -EIO };

	for (unsigned s = 0; s < SCOPES; s++)
		for (unsigned e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
			for (uint64_t k = 1; k < 60; k += 1 + k / 20)
				fail_at(s, k, errors[e], (k + e) % 2);
}

static int does_nothing(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return 0;
}

/* A hook that does nothing and says so is busy. */
static void test_nothing_done(void **unused)
{
	struct world w = create(0);

	w.sim->scanner.priv.ops.frames_unmap = does_nothing;
	for (unsigned s = 0; s < SCOPES; s++)
		assert_int_equal(scopes[s].unmerge(&w, UINT64_MAX), -EBUSY);
	w.sim->scanner.priv.ops.frames_unmap = sim_ops.frames_unmap;
	assert_int_equal(sim_stats(w.sim).hook_errors, 0);
	w.sim->fail_mask = BIT(SIM_FRAMES_UNMAP);
	w.sim->fail_chance = 1;
	for (unsigned i = 0; i < 40; i++) { /* any errno */
		assert_true(unmerge_all(&w, 5) < 0);
		assert_int_equal(all_merged(&w), MERGED);
	}
	sim_verify(w.sim);
	w.sim->fail_chance = 0;
	assert_int_equal(unmerge_all(&w, UINT64_MAX), MERGED);
	assert_int_equal(unmerge_all(&w, UINT64_MAX), 0);
	destroy(&w);
}

/* Passes between the calls: they merge again what was unmerged, though not at once. */
static void test_between_passes(void **unused)
{
	struct world w = create(4);

	for (unsigned round = 0; round < 60; round++) {
		struct sim_region *region = w.regions[sim_random(w.sim, 4)];
		uint64_t first = sim_random(w.sim, 1600);
		uint64_t n = 1 + sim_random(w.sim, 1600 - first);

		assert_true(pdd_region_unmerge(&region->region, first, n,
					       1 + sim_random(w.sim, 9)) >= 0);
		sim_verify(w.sim);
		sim_step(w.sim, 1 + sim_random(w.sim, 2000));
	}
	sim_passes(w.sim, 2); /* the end of this one, and one that comes by all */
	sim_settle(w.sim, 10);
	assert_int_equal(all_merged(&w), MERGED);
	while (unmerge_all(&w, 9))
		;
	destroy(&w);
}

/* KSM's run = 2: nothing is known of any page, the passes count from 0, and it takes two looks
 * again. */
static void test_everything(void **unused)
{
	for (unsigned mid_pass = 0; mid_pass < 2; mid_pass++) {
		struct world w = create(4);
		struct pdd_stats stats;

		if (mid_pass)
			sim_step(w.sim, 1000);
		assert_int_equal(unmerge_all(&w, UINT64_MAX), MERGED);
		assert_int_equal(sim_stats(w.sim).full_scans, 3);
		assert_int_equal(unmerge_all(&w, UINT64_MAX), 0);
		sim_verify(w.sim);
		stats = sim_stats(w.sim);
		assert_int_equal(stats.full_scans, 0);
		assert_int_equal(stats.counts.ksm_rmap_items, 0);
		assert_int_equal(stats.counts.pages_due, 0);
		/* of the regions with arrays; of the sparse ones there is no record */
		assert_int_equal(stats.counts.reasons[PDD_REASON_NEW], 2 * 35);
		assert_int_equal(stats.counts.reasons[PDD_REASON_ABSENT], 2 * 1565);
		assert_int_equal(stats.counts.reasons[PDD_REASON_NO_RECORD], 2 * 1600);
		assert_int_equal(w.regions[1]->nblocks + w.regions[3]->nblocks, 0);
		if (mid_pass)
			sim_pass(w.sim, UINT64_MAX);
		sim_pass(w.sim, UINT64_MAX);
		assert_int_equal(sim_stats(w.sim).full_scans, 1 + mid_pass);
		assert_true(mid_pass || all_merged(&w) == 0);
		stats = sim_stats(w.sim);
		assert_int_equal(stats.counts.merges + stats.counts.zero_merges,
				 MERGED + all_merged(&w));
		while (unmerge_all(&w, UINT64_MAX))
			;
		destroy(&w);
	}
}

/* 3.2 unmerge_discarded, and holes of a sparse region: no hook is called for them, however large
 * they are. */
static void test_holes(void **unused)
{
	struct world w = create(0);
	struct pdd_region huge = { 0 };
	uint64_t calls, runs;

	assert_int_equal(pdd_region_add(&w.regions[0]->space->space, &huge, 0, PDD_REGION_PAGES_MAX,
					NULL, NULL),
			 0);
	for (uint64_t i = 1520; i < 1536; i++)
		sim_discard(w.regions[1], i);
	runs = 0;
	for (uint64_t i = 0; i < 1600; i++)
		runs += merged(w.regions[0], i, i + 1) && !merged(w.regions[0], i + 1, i + 2);
	calls = w.sim->calls[SIM_FRAMES_UNMAP];
	assert_int_equal(sim_unmerge(w.regions[0], 0, 1600), MERGED / 4);
	assert_int_equal(w.sim->calls[SIM_FRAMES_UNMAP] - calls, runs);
	assert_int_equal(pdd_region_unmerge(&huge, 0, PDD_REGION_PAGES_MAX, 1), 0);
	assert_int_equal(sim_unmerge(w.regions[1], 0, 1600), MERGED / 4);
	for (unsigned r = 0; r < 2; r++) {
		calls = w.sim->calls[SIM_FRAMES_UNMAP];
		assert_int_equal(sim_unmerge(w.regions[r], 0, 1600), 0);
		assert_int_equal(w.sim->calls[SIM_FRAMES_UNMAP], calls);
	}
	assert_int_equal(pdd_region_remove(&huge), 0);
	sim_pass(w.sim, UINT64_MAX); /* finds that nothing is there, and those are forgotten */
	assert_int_equal(sim_reason(w.regions[1], 1521), PDD_REASON_NO_RECORD);
	sim_destroy(w.sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),	       cmocka_unit_test(test_budgets),
		cmocka_unit_test(test_failures),       cmocka_unit_test(test_nothing_done),
		cmocka_unit_test(test_between_passes), cmocka_unit_test(test_everything),
		cmocka_unit_test(test_holes),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
