/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_teardown.c - what KSM got wrong when somebody went: 1, 23, 24, 25.
 *
 * There, several threads met. Here all calls on a scanner come from one thread at a time, and hooks
 * must not call it (space.h, ops.h). So owners go between any two steps, pieces of a prune or of an
 * unmerge, at every such place in turn; and inside of them, between any two hooks, happens what
 * programs may do at any time: they write.
 *
 * The simulation frees what goes at once, and the library clears it: whoever still uses it is seen
 * by what he does, or by AddressSanitizer and Valgrind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

#define SPACES 3u
#define PAGES 4u

static struct sim_space *spaces[SPACES];

/* Whether a space is one of those that are added. */
static bool is_added(const struct sim *sim, const struct pdd_space *space)
{
	for (const struct sim_space *s = sim->spaces; s; s = s->next)
		if (&s->space == space)
			return true;
	return false;
}

static bool trylock_of_added(void *ctx, struct pdd_space *space)
{
	assert_true(is_added(ctx, space));
	return sim_ops.space_trylock(ctx, space);
}

/* `n` spaces that share three contents, in chains since the limit is 2, and have a page of their own
 * each. */
static struct sim *world(unsigned n)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 2, .aging = PDD_AGING_NONE });

	sim->scanner.priv.ops.space_trylock = trylock_of_added;
	for (unsigned i = 0; i < n; i++) {
		struct sim_region *region;

		spaces[i] = sim_space_add(sim, 0);
		region = sim_region_add(spaces[i], PAGES);
		for (uint64_t page = 0; page < PAGES; page++)
			sim_write(region, page, page ? page : 100 + i);
	}
	sim_passes(sim, 2);
	return sim;
}

/* ---- 1 ---- */

/* How the last ones go. */
enum going {
	FORWARD = 0,  /* spaces, in the order in which they came */
	BACKWARD = 1,
	REGIONS_ONLY = 2, /* their spaces stay, empty */
	REMOVED_PIECEWISE = 3, /* with a step after each */
	GOINGS = 4,
};

static void all_go(struct sim *sim, unsigned n, enum going going)
{
	for (unsigned i = 0; i < n; i++) {
		struct sim_space *space = spaces[going == BACKWARD ? n - 1 - i : i];

		sim_region_remove(space->regions);
		if (going != REGIONS_ONLY)
			sim_space_remove(space);
		if (going == REMOVED_PIECEWISE && i + 1 < n)
			sim_step(sim, 1);
	}
}

/* Known bug 1: the list was found empty before its lock was taken, and not again after it, so its
 * head was taken for a process. The last ones go after any number of steps: in a pass, before
 * one, in a prune. The pass that was under way ends, then there is nothing to do; who comes is
 * scanned. */
static void test_1_last_one_goes(void **unused)
{
	for (unsigned round = 0; round < GOINGS * SPACES * 40; round++) {
		unsigned n = 1 + round / GOINGS % SPACES, steps = round / GOINGS / SPACES;
		struct sim *sim = world(n);
		enum pdd_step result;
		struct sim_region *region;
		unsigned more = 0;

		for (unsigned i = 0; i < n; i++) /* frames lose sharers: a prune comes */
			sim_write(spaces[i]->regions, 1 + i, 200);
		for (unsigned i = 0; i < steps; i++)
			sim_step(sim, 1);
		all_go(sim, n, round % GOINGS);
		do {
			result = sim_step(sim, 1);
		} while (result != PDD_STEP_IDLE && ++more <= 3);
		assert_int_equal(result, PDD_STEP_IDLE);
		assert_int_equal(sim_step(sim, UINT64_MAX), PDD_STEP_IDLE);
		region = sim_region_add(sim->spaces ? sim->spaces : sim_space_add(sim, 0), 2);
		sim_write(region, 0, 1);
		sim_write(region, 1, 1);
		sim_passes(sim, 2);
		assert_true(sim_is_shared(region, 0) && sim_is_shared(region, 1));
		sim_destroy(sim);
	}
}

/* ---- 23 ---- */

/* What is open: spaces in the order in which they were locked, ranges that were got. */
static struct {
	const void *spaces[4];
	unsigned nspaces;
	struct {
		const void *region;
		uint64_t first, npages;
	} gets[4];
	unsigned ngets;
	uint64_t locks;
} opened;

static bool lock(void *ctx, struct pdd_space *space)
{
	if (!sim_ops.space_trylock(ctx, space))
		return false;
	assert_in_range(opened.nspaces, 0, 3);
	opened.spaces[opened.nspaces++] = space;
	opened.locks++;
	return true;
}

static void unlock(void *ctx, struct pdd_space *space)
{
	assert_int_not_equal(opened.nspaces, 0);
	assert_ptr_equal(opened.spaces[--opened.nspaces], space);
	sim_ops.space_unlock(ctx, space);
}

static int get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
	       uint64_t first, uint64_t npages)
{
	int n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	uint64_t described = 0;

	if (n <= 0)
		return n;
	for (int i = 0; i < n; i++)
		described += views[i].npages;
	assert_in_range(opened.ngets, 0, 3);
	opened.gets[opened.ngets].region = region;
	opened.gets[opened.ngets].first = first;
	opened.gets[opened.ngets++].npages = described < npages ? described : npages;
	return n;
}

static void put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	assert_int_not_equal(opened.ngets, 0);
	opened.ngets--;
	assert_ptr_equal(opened.gets[opened.ngets].region, region);
	assert_int_equal(opened.gets[opened.ngets].first, first);
	assert_int_equal(opened.gets[opened.ngets].npages, npages);
	sim_ops.pages_put(ctx, region, first, npages);
}

/* Extents that the library has, by their number in the only sparse region. */
static struct pdd_extent_block *blocks[4];

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *region, uint64_t number)
{
	assert_null(blocks[number]);
	return blocks[number] = sim_ops.extent_get(ctx, region, number);
}

static void extent_put(void *ctx, struct pdd_region *region, uint64_t number,
		       struct pdd_extent_block *block)
{
	assert_ptr_equal(blocks[number], block);
	blocks[number] = NULL;
	sim_ops.extent_put(ctx, region, number, block);
}

static void write_some(struct sim_region *region, uint64_t from, uint64_t end)
{
	struct sim *sim = region->space->sim;

	for (uint64_t page = from; page < end; page++)
		if (sim_random(sim, 3) == 0)
			sim_write(region, page, 1 + sim_random(sim, 8));
		else if (sim_random(sim, 9) == 0)
			sim_discard(region, page);
}

static uint64_t refile_errors(const struct sim *sim)
{
	return sim_stats(sim).hook_errors_by_hook[PDD_HOOK_FRAMES_REMAP];
}

/* Known bug 23: a loop moved its pointer on and unlocked what was there then. What is unlocked, put
 * and given back is exactly what was locked, got and taken, the last first, on every path: any hook
 * fails at any time, in part too, and contents collide, so that searches lock and get as well. */
static void test_23_unlocks_what_was_locked(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.limit = 3, .nroots = 4, .checksum = SIM_CHECKSUM_2_BITS });
	struct pdd_ops *ops = &sim->scanner.priv.ops;
	struct sim_region *sparse, *flat;

	memset(&opened, 0, sizeof(opened));
	ops->space_trylock = lock;
	ops->space_unlock = unlock;
	ops->pages_get = get;
	ops->pages_put = put;
	ops->extent_get = extent_get;
	ops->extent_put = extent_put;
	sparse = sim_region_add_with(sim_space_add(sim, 0), 1400, 1400, true);
	flat = sim_region_add(sim_space_add(sim, 0), 530);
	sim->fail_chance = 0.2;
	sim->partial = true;
	for (unsigned pass = 0; pass < 150 || refile_errors(sim) < 3; pass++) {
		sim->max_views = sim_random(sim, 5);
		sim->single_views = sim_random(sim, 2);
		write_some(sparse, 505, 515);
		write_some(sparse, 1020, 1030);
		write_some(flat, 508, 520);
		flat->space->busy = sim_random(sim, 4) == 0;
		sim_pass(sim, 1 + sim_random(sim, 1500));
		assert_int_equal(opened.nspaces + opened.ngets, 0);
	}
	assert_true(sim_stats(sim).search_compares && sim_stats(sim).counts.merges);
	assert_int_equal(opened.locks, sim->calls[SIM_UNLOCK]);
	sim_destroy(sim);
	for (unsigned i = 0; i < 4; i++)
		assert_null(blocks[i]);
}

/* ---- 24 ---- */

static void write_at_unmap(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_FRAMES_UNMAP)
		return;
	for (struct sim_space *space = sim->spaces; space; space = space->next)
		sim_write(space->regions, sim_random(sim, PAGES), 300 + sim_random(sim, 3));
}

/* Known bug 24: unmerging everything went on to the mappings of a process that was exiting. Owners
 * go after each piece of it, others write while it is at work: it ends, and nothing is merged. */
static void test_24_unmerge_while_owners_go(void **unused)
{
	for (unsigned round = 0; round < SPACES * 2 * 3 * 12; round++) {
		unsigned goes = round % SPACES, whole = round / SPACES % 2;
		uint64_t budget = 1 + round / SPACES / 2 % 3;
		unsigned pieces = round / SPACES / 2 / 3;
		struct sim *sim = world(SPACES);
		int64_t n = 1;

		sim->at = write_at_unmap;
		for (unsigned i = 0; n > 0; i++) {
			if (i == pieces && whole)
				sim_space_remove(spaces[goes]);
			else if (i == pieces)
				sim_region_remove(spaces[goes]->regions);
			if (i == pieces && !whole) /* the others go on */
				sim_region_add(spaces[goes], PAGES);
			n = pdd_scanner_unmerge(&sim->scanner, budget);
			assert_in_range(n, 0, budget);
			assert_in_range(i, 0, SPACES * PAGES + 1);
			sim_verify(sim);
		}
		sim->at = NULL;
		assert_int_equal(n, 0);
		assert_int_equal(sim_stats(sim).pages_shared, 0);
		assert_int_equal(sim_stats(sim).counts.ksm_rmap_items, 0);
		assert_null(sim->frames);
		sim_settle(sim, 8);
		sim_destroy(sim);
	}
}

/* ---- 25 ---- */

/* Known bug 25: a process was used after the lock that kept it was given up. An owner goes after
 * any step, however short: the one that was just unlocked, one that was come by before, or one
 * that the pass is about to come by. Clones make it last: frames are kept for them. */
static void test_25_owner_goes_after_any_step(void **unused)
{
	for (unsigned round = 0; round < SPACES * 2 * 30; round++) {
		unsigned goes = round % SPACES, cloned = round / SPACES % 2;
		unsigned steps = round / SPACES / 2;
		struct sim *sim = world(SPACES);

		if (cloned)
			sim_space_clone(spaces[goes]);
		sim_write(spaces[1]->regions, 1, 2);
		sim_write(spaces[2]->regions, 2, 1);
		for (unsigned i = 0; i < steps; i++)
			sim_step(sim, 1);
		sim_space_remove(spaces[goes]);
		sim_verify(sim);
		for (unsigned i = 0; i < 5; i++)
			sim_step(sim, 1);
		sim_settle(sim, 8);
		for (const struct sim_space *space = sim->spaces; space; space = space->next)
			assert_int_equal(sim_counts(space).pages_volatile, 0);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_1_last_one_goes),
		cmocka_unit_test(test_23_unlocks_what_was_locked),
		cmocka_unit_test(test_24_unmerge_while_owners_go),
		cmocka_unit_test(test_25_owner_goes_after_any_step),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
