/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_keep_out_pending.c - pages about which a step has decided, but whose space it does not hold,
 * are pinned, excluded, discarded or unmerged in the middle of that step: at each hook call at
 * which their space is not locked, as by a thread that has it exclusively. The decision is off, no
 * hook is called for pages that are kept out from then on, and the others merge.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

#define PAGES 30u

/* What the other thread does to the pages of region a, and when. */
struct act {
	int (*call)(struct pdd_region *region, uint64_t first, uint64_t npages);
	uint64_t first, npages;
	uint64_t at;        /* its turn is the at-th hook call, from 1 */
	uint64_t calls;     /* at which a's space was not locked */
	bool locks;         /* only before the scanner is locked, or at all other hooks */
	bool done;
	struct sim_region *a;
};

static struct act act;

static int unmerge(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return (int)pdd_region_unmerge(region, first, npages, UINT64_MAX);
}

static int (*const calls[])(struct pdd_region *region, uint64_t first, uint64_t npages) = {
	pdd_region_pin,
	pdd_region_exclude,
	pdd_region_discard,
	unmerge,
};

static bool keeps_out(void)
{
	return act.call == pdd_region_pin || act.call == pdd_region_exclude;
}

static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	bool lock = hook == SIM_LOCK_SCANNER && before;

	if (!sim->stepping || act.done || act.a->space->locked || lock != act.locks ||
	    sim->scanner_locked || ++act.calls != act.at)
		return;
	act.done = true;
	sim->stepping = false; /* hooks that it calls are called by that thread */
	assert_true(act.call(&act.a->region, act.first, act.npages) >= 0);
	sim->stepping = true;
}

static void check_kept_out(const struct pdd_region *region, uint64_t first, uint64_t npages)
{
	if (act.done && keeps_out() && region == &act.a->region && first < act.first + act.npages &&
	    act.first < first + npages)
		fail_msg("a hook is called for pages that are kept out");
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	check_kept_out(region, first, npages);
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	check_kept_out(region, first, npages);
	return sim_ops.hold(ctx, region, views, nviews, first, npages);
}

/* Region a is in the index; b finds its pages there as twins, some of them twice, in the step that
 * follows. */
static struct sim *world(uint32_t limit, struct sim_region **b)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .limit = limit, .aging = PDD_AGING_NONE });

	act.a = sim_region_add(sim_space_add(sim, 0), PAGES);
	*b = sim_region_add(sim_space_add(sim, 0), PAGES + 10);
	for (uint64_t i = 0; i < PAGES; i++) {
		sim_write(act.a, i, 1 + i);
		sim_write(*b, i, 1 + i);
	}
	for (uint64_t i = 0; i < 10; i++)
		sim_write(*b, PAGES + i, 1 + i);
	(*b)->space->busy = true;
	sim_passes(sim, 2);
	(*b)->space->busy = false;
	act.a->space->busy = true;
	sim_pass(sim, UINT64_MAX);
	act.a->space->busy = false;
	sim_step(sim, PAGES); /* a: nothing new */
	assert_int_equal(sim_stats(sim).counts.merges, 0);
	sim->scanner.priv.ops.pages_get = pages_get;
	sim->scanner.priv.ops.hold = hold;
	return sim;
}

/* Pages of b whose twin left share with each other, where there are two; one alone does if its twin
 * shared with it before. */
static void check_merged(const struct sim *sim, const struct sim_region *b)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		bool left = i >= act.first && i < act.first + act.npages && act.call != unmerge;

		assert_int_equal(sim_is_shared(act.a, i), !left);
		assert_true(sim_is_shared(b, i) || (left && i >= 10));
		if (i < 10)
			assert_true(sim_is_shared(b, PAGES + i));
	}
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
}

/* One act; false: there are not so many hook calls in the step. */
static bool one_act(uint32_t limit)
{
	struct sim_region *b;
	struct sim *sim;

	act.done = false;
	act.calls = 0;
	sim = world(limit, &b);
	sim->at = at_hook;
	sim_step(sim, UINT64_MAX);
	sim->at = NULL;
	if (act.done) {
		sim_verify(sim);
		for (uint64_t i = act.first; i < act.first + act.npages; i++)
			if (keeps_out())
				assert_int_equal(act.a->pages[i].kind, PDD_PAGE_PRIVATE);
		sim_settle(sim, 10);
		if (limit > 3)
			check_merged(sim, b);
		act.done = false; /* let in */
		assert_int_equal(pdd_region_include(&act.a->region, 0, PAGES), 0);
		if (act.call == pdd_region_pin)
			assert_int_equal(pdd_region_unpin(&act.a->region, act.first,
							  act.npages),
					 0);
		for (uint64_t i = 0; i < PAGES; i++)
			if (act.a->pages[i].kind == PDD_PAGE_ABSENT)
				sim_write(act.a, i, 1 + i);
		sim_settle(sim, 10);
		if (limit > 3)
			assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2 * PAGES + 10);
		act.done = true;
	}
	sim_destroy(sim);
	return act.done;
}

/* Every act at every hook call. */
static void every_act(bool locks)
{
	static const struct {
		uint64_t first, npages;
	} ranges[] = { { 0, 1 }, { 5, 1 }, { 12, 1 }, { 7, 8 }, { 0, PAGES } };

	for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
		for (unsigned r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
			act = (struct act){
				.call = calls[c],
				.first = ranges[r].first,
				.npages = ranges[r].npages,
				.locks = locks,
			};
			for (act.at = 1; one_act(2 + (r + c) % 3); act.at++)
				;
			assert_true(act.at > 1);
		}
	}
}

/* At pages_put, frames_create, frame_content and so on. */
static void test_between_hooks(void **unused)
{
	every_act(false);
}

/* ---- between two batches: the groups are founded, their frames are not made ---- */

#define MANY (PDD_BATCH_PAGES + 40)

static uint64_t checksums_left; /* until the act */

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const struct sim *sim = ctx;
	const uint64_t *words = content;

	if (sim->stepping && checksums_left && --checksums_left == 0) {
		act.done = true;
		assert_int_equal(act.call(&act.a->region, act.first, act.npages), 0);
	}
	*value = words[0] ^ words[1];
	return 0;
}

static void test_between_batches(void **unused)
{
	for (unsigned c = 0; c < 3; c++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.aging = PDD_AGING_NONE, .no_discard = true });
		struct sim_region *b;

		act = (struct act){ .call = calls[c], .first = 3, .npages = 50 };
		act.a = sim_region_add(sim_space_add(sim, 0), MANY);
		b = sim_region_add(sim_space_add(sim, 0), MANY);
		sim->scanner.priv.ops.pages_get = pages_get;
		sim->scanner.priv.ops.hold = hold;
		sim->scanner.priv.ops.checksum = checksum;
		for (uint64_t i = 0; i < MANY; i++)
			sim_write(act.a, i, 1 + i);
		sim_passes(sim, 2);
		for (uint64_t i = 0; i < MANY; i++)
			sim_write(b, i, i == 20 ? 20 : 1 + i); /* 19 and 20 are equal */
		sim_pass(sim, UINT64_MAX);
		sim_step(sim, MANY);
		checksums_left = PDD_BATCH_PAGES + 20;
		sim_step(sim, MANY);
		assert_true(act.done);
		for (uint64_t i = 0; i < MANY; i++) {
			bool left = i >= 3 && i < 53;

			assert_int_equal(sim_is_shared(act.a, i), !left);
			assert_int_equal(sim_is_shared(b, i), !left || i == 19 || i == 20);
			if (left && i != 19 && i != 20) /* it takes its twin's place */
				assert_int_equal(sim_reason(b, i), PDD_REASON_UNIQUE);
		}
		assert_int_equal(sim_stats(sim).counts.pages_due, 0);
		sim_destroy(sim);
	}
}

/* At the last moment: when the step locks the scanner, to go on with what it decided. */
static void test_before_the_lock(void **unused)
{
	every_act(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_hooks),
		cmocka_unit_test(test_between_batches),
		cmocka_unit_test(test_before_the_lock),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
