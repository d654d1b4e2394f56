/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_back_off.c - s47 (core): holding, or replacing, fails for half of the ranges, for ever. The
 * others merge as if nothing were. Those that failed are tried again: in the next pass the first
 * time, after that whenever their age lets them be looked at, so more and more rarely; and they
 * merge when it works again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "item_internal.h"
#include "sim.h"

#define RANGES 64u
#define EACH 8u /* pages of a range */
#define PAGES (RANGES * EACH)

/* What fails, in ranges of odd numbers. */
enum fault {
	NOTHING = 0,
	HOLD = 1,
	HOLD_REFUSED = 2,
	MAP = 3, /* and zero_map */
};

static struct {
	struct sim_region *regions[RANGES]; /* of each range, ... */
	uint64_t first[RANGES];             /* ... and where it begins there */
	enum fault fault;
	int err;
	unsigned tries[PAGES]; /* in this pass */
} w;

static unsigned range_at(const struct pdd_region *region, uint64_t page)
{
	for (unsigned r = 0; r < RANGES; r++)
		if (region == &w.regions[r]->region && page - w.first[r] < EACH)
			return r;
	fail();
	return 0;
}

/* A run that cannot be replaced may be tried in several calls; a page that cannot be held, once. */
static void try(uint64_t page)
{
	if (w.fault != MAP || !w.tries[page])
		w.tries[page]++;
}

/* How many of the pages work; 0: the first one does not, and is counted as tried, perhaps
 * with all of its range that is asked for. */
static uint64_t working(enum fault fault, struct pdd_region *region, uint64_t first,
			uint64_t npages)
{
	uint64_t n = 0;

	if (w.fault != fault)
		return npages;
	while (n < npages && range_at(region, first + n) % 2 == 0)
		n++;
	for (uint64_t i = first; n == 0 && i < first + npages; i++) {
		unsigned range = range_at(region, i);

		if (range != range_at(region, first) || (fault == HOLD && i > first))
			break;
		try(range * EACH + i - w.first[range]);
	}
	return n;
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	uint64_t n = working(HOLD, region, first, npages);

	for (uint64_t i = first; w.fault == HOLD_REFUSED && i < first + npages; i++) {
		unsigned range = range_at(region, i);

		w.tries[range * EACH + i - w.first[range]] += range % 2;
	}
	return n ? sim_ops.hold(ctx, region, views, nviews, first, n) : w.err;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	uint64_t n = working(MAP, region, first, npages);

	return n ? sim_ops.frames_map(ctx, region, first, frames, n) : w.err;
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	uint64_t n = working(MAP, region, first, npages);

	return n ? sim_ops.zero_map(ctx, region, first, n) : w.err;
}

/* Each content is in four ranges, two of which fail; a zero page in each. In one region, where what
 * works and what does not are neighbours, or in one for each range. */
static struct sim *world(bool apart)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 256 });
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *all = apart ? NULL : sim_region_add(space, PAGES);

	sim->scanner.priv.ops.hold = hold;
	sim->scanner.priv.ops.frames_map = frames_map;
	sim->scanner.priv.ops.zero_map = zero_map;
	for (unsigned r = 0; r < RANGES; r++) {
		w.regions[r] = apart ? sim_region_add(space, EACH) : all;
		w.first[r] = apart ? 0 : r * EACH;
		for (uint64_t i = 0; i < EACH; i++)
			sim_write(w.regions[r], w.first[r] + i, i ? r / 4 * EACH + i : 0);
	}
	return sim;
}

static struct sim_page *page_of(uint64_t i)
{
	return &w.regions[i / EACH]->pages[w.first[i / EACH] + i % EACH];
}

static struct pdd_explanation explain(uint64_t i)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&w.regions[i / EACH]->region,
					    w.first[i / EACH] + i % EACH, &explanation),
			 0);
	return explanation;
}

static bool fails(uint64_t i)
{
	return w.fault != NOTHING && i / EACH % 2;
}

static void assert_merged(void)
{
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(page_of(i)->kind, fails(i)       ? PDD_PAGE_PRIVATE
						   : i % EACH == 0 ? PDD_PAGE_ZERO
								   : PDD_PAGE_SHARED);
}

/* A pass in which each page that fails is tried once if it is due or it is its turn, else not; it
 * is due afterwards only if it did not fail before. Returns the number of tries. */
static uint64_t pass(struct sim *sim, enum pdd_reason reason)
{
	struct pdd_explanation before[PAGES];
	uint64_t tries = 0;

	for (uint64_t i = 0; i < PAGES; i++)
		before[i] = explain(i);
	memset(w.tries, 0, sizeof(w.tries));
	sim_pass(sim, UINT64_MAX);
	assert_merged();
	for (uint64_t i = 0; i < PAGES; i++) {
		bool looked = before[i].next_look_passes == 0;

		if (!fails(i))
			continue;
		tries += w.tries[i];
		assert_int_equal(explain(i).reason, reason);
		assert_int_equal(w.tries[i], looked);
		assert_int_equal(explain(i).due, before[i].reason == PDD_REASON_FIRST_LOOK);
	}
	return tries;
}

static void back_off(bool apart, enum fault fault, int err, enum pdd_reason reason)
{
	struct sim *sim = world(apart);
	uint64_t tries = 0, errors, old;

	w.fault = fault;
	w.err = err;
	for (uint64_t i = 0; i < PAGES; i++)
		if (fault == HOLD_REFUSED && fails(i))
			page_of(i)->hold_refuse = reason;
	sim_pass(sim, UINT64_MAX);
	for (unsigned n = 0; n < 140; n++)
		tries += pass(sim, reason);
	assert_in_range(tries, PAGES / 2 * 6, PAGES / 2 * 14);
	old = 0;
	for (unsigned n = 0; n < PDD_AGING_PERIOD_MAX; n++)
		old += pass(sim, reason);
	assert_int_equal(old, PAGES / 2);
	errors = sim_stats(sim).hook_errors;
	if (fault == HOLD_REFUSED)
		assert_int_equal(errors, 0);
	else
		assert_in_range(errors, PAGES / 2 / EACH, tries + old);
	assert_int_equal(sim_stats(sim).counts.failures[reason], tries + old);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	/* It works again. */
	w.fault = NOTHING;
	for (uint64_t i = 0; i < PAGES; i++)
		page_of(i)->hold_refuse = PDD_REASON_NONE;
	sim_passes(sim, PDD_AGING_PERIOD_MAX);
	assert_merged();
	assert_int_equal(sim_stats(sim).pages_shared, RANGES / 4 * (EACH - 1));
	sim_destroy(sim);
}

/* Known from the field: the call that protects answers ENOMEM, which nobody expects. */
static void test_hold_fails(void **unused)
{
	for (unsigned apart = 0; apart < 2; apart++) {
		back_off(apart, HOLD, -ENOMEM, PDD_REASON_NO_MEMORY);
		back_off(apart, HOLD, -ENOSPC, PDD_REASON_MAPPING_BUDGET);
		back_off(apart, HOLD, -EIO, PDD_REASON_HOOK_FAILED);
		back_off(apart, HOLD_REFUSED, 0, PDD_REASON_PINNED);
		back_off(apart, HOLD_REFUSED, 0, PDD_REASON_NO_HOLD);
	}
}

/* If something is used up, the rest of the run is not tried, so ranges lie apart. */
static void test_replacing_fails(void **unused)
{
	back_off(false, MAP, -EIO, PDD_REASON_HOOK_FAILED);
	back_off(true, MAP, -EIO, PDD_REASON_HOOK_FAILED);
	back_off(true, MAP, -ENOMEM, PDD_REASON_NO_MEMORY);
	back_off(true, MAP, -ENOSPC, PDD_REASON_MAPPING_BUDGET);
}

/* In one run, pages that can be replaced and pages that cannot are neighbours. Those that can
 * merge at once: what failed says nothing of them. Behind a page that is busy the rest of the run
 * waits for the next pass, but is due then however often that happens: each pass gets by one range
 * of pages that fail. */
static void assert_others_due(void)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		struct pdd_explanation e = { .size = sizeof(e) };

		if (fails(i) || page_of(i)->kind != PDD_PAGE_PRIVATE)
			continue;
		assert_int_equal(pdd_region_explain(&w.regions[0]->region, i, &e), 0);
		assert_true(e.due);
	}
}

static void test_neighbours(void **unused)
{
	static const int errors[] = { -EIO, -EAGAIN };

	for (unsigned e = 0; e < 2; e++) {
		struct sim *sim = world(false);

		w.fault = MAP;
		w.err = errors[e];
		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(w.regions[0], i, 1 + i % (PAGES / 4));
		sim_passes(sim, 2);
		for (unsigned n = 0; n < (errors[e] == -EAGAIN ? RANGES / 2 : 1); n++) {
			assert_others_due();
			sim_pass(sim, UINT64_MAX);
		}
		for (uint64_t i = 0; i < PAGES; i++)
			assert_int_equal(page_of(i)->kind,
					 fails(i) ? PDD_PAGE_PRIVATE : PDD_PAGE_SHARED);
		w.fault = NOTHING;
		sim_destroy(sim);
	}
}

/* A page that was found changed is new to it: it is due after its next failure, however often it
 * failed before. */
static void test_written_between(void **unused)
{
	struct sim *sim = world(true);
	unsigned due = 0;

	w.fault = HOLD;
	w.err = -EIO;
	sim_passes(sim, 60);
	for (unsigned n = 0; n < 3 * PDD_AGING_PERIOD_MAX; n++) {
		uint64_t one = EACH + 1;

		if (n == 0)
			sim_write(w.regions[1], 1, 3);
		sim_pass(sim, UINT64_MAX);
		due += explain(one).reason == PDD_REASON_HOOK_FAILED && explain(one).due;
	}
	assert_int_equal(due, 1);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	w.fault = NOTHING;
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hold_fails),
		cmocka_unit_test(test_replacing_fails),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_written_between),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
