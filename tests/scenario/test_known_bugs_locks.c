/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_locks.c - known bugs 6, 10 and 36: what somebody else has locked stopped KSM, or
 * kept others apart; and so did what it held itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "scanner_internal.h"
#include "sim.h"

static uint64_t hook_calls(const struct sim *sim)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SIM_HOOKS; i++)
		n += i == SIM_FRAME_CONTENT ? 0 : sim->calls[i]; /* asked by the checks, too */
	return n;
}

/* ---- 6: one page is locked ---- */

#define PAGES 40u
#define LOCKED 13u /* the page, of the second space */

/* Who says that it is locked, and how. */
enum lock {
	UNLOCKED = 0,
	SPACE = 1,    /* its whole space */
	GET = 2,      /* pages_get refuses it, ... */
	GET_BUSY = 3, /* ... fails there, and nothing behind it can be seen */
	HOLD = 4,
	HOLD_BUSY = 5,
	MAP_BUSY = 6,
};

static struct {
	enum lock lock;
	const struct sim_region *region;
	uint64_t tries; /* to hold it */
} six;

/* How much of a range comes before the locked page; all, if that is locked in another way. */
static uint64_t before_lock(const struct pdd_region *region, enum lock lock, uint64_t first,
			    uint64_t npages)
{
	if (six.lock != lock || region != &six.region->region || first > LOCKED ||
	    first + npages <= LOCKED)
		return npages;
	return LOCKED - first;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	uint64_t n = before_lock(region, GET_BUSY, first, npages);

	return n ? sim_ops.pages_get(ctx, region, views, nviews, first, n) : -EBUSY;
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	uint64_t n = before_lock(region, HOLD_BUSY, first, npages);

	six.tries += region == &six.region->region && first <= LOCKED &&
		     (n == 0 || first + n > LOCKED);
	return n ? sim_ops.hold(ctx, region, views, nviews, first, n) : -EBUSY;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	uint64_t n = before_lock(region, MAP_BUSY, first, npages);

	return n ? sim_ops.frames_map(ctx, region, first, frames, n) : -EBUSY;
}

static struct sim *world_of_locks(enum lock lock)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
	struct sim_region *region = NULL;

	sim->scanner.priv.ops.pages_get = pages_get;
	sim->scanner.priv.ops.hold = hold;
	sim->scanner.priv.ops.frames_map = frames_map;
	for (unsigned i = 0; i < 3; i++) {
		region = sim_region_add(sim_space_add(sim, 0), PAGES);
		if (i == 1)
			six.region = region;
		for (uint64_t page = 0; page < PAGES; page++)
			sim_write(region, page, 1 + (page + i) % 10);
	}
	region = sim->spaces->next->regions;
	region->space->busy = lock == SPACE;
	region->pages[LOCKED].refuse = lock == GET ? PDD_REASON_LOCKED : PDD_REASON_NONE;
	region->pages[LOCKED].hold_refuse = lock == HOLD ? PDD_REASON_LOCKED : PDD_REASON_NONE;
	six.lock = lock;
	six.tries = 0;
	return sim;
}

/* Whether the lock costs this page its merge. */
static bool is_concerned(enum lock lock, const struct sim_region *region, uint64_t page)
{
	if (lock == UNLOCKED || region != six.region)
		return false;
	return lock == SPACE || page == LOCKED || (lock == GET_BUSY && page > LOCKED);
}

static void assert_others_merged(const struct sim *sim, enum lock lock)
{
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (uint64_t i = 0; i < PAGES; i++)
			assert_int_equal(sim_is_shared(space->regions, i),
					 !is_concerned(lock, space->regions, i));
}

/* 12 passes with a lock; the number of hook calls in each, or a check that they are hardly more. */
static void scan_with(enum lock lock, uint64_t calls[12])
{
	struct sim *sim = world_of_locks(lock);
	struct sim_region *region = sim->spaces->next->regions;

	for (unsigned pass = 0; pass < 12; pass++) {
		uint64_t before = hook_calls(sim), tries = six.tries;

		sim_pass(sim, UINT64_MAX);
		if (lock == UNLOCKED)
			calls[pass] = hook_calls(sim) - before;
		else
			assert_in_range(hook_calls(sim) - before, 1, calls[pass] + 8);
		assert_in_range(six.tries - tries, 0, 1);
		if (pass > 1)
			assert_others_merged(sim, lock);
	}
	region->space->busy = false;
	region->pages[LOCKED].refuse = region->pages[LOCKED].hold_refuse = PDD_REASON_NONE;
	six.lock = UNLOCKED;
	sim_passes(sim, 2);
	assert_others_merged(sim, UNLOCKED);
	sim_destroy(sim);
}

/* Known bug 6: the search waited for the lock of a page, and the scan with it. Here, while one page
 * is locked for ever, each pass ends after hardly more calls of hooks than without that, all others
 * merge as soon, and the page is not tried more than once in a pass. When it is free it merges. */
static void test_6_one_page_is_locked(void **unused)
{
	uint64_t calls[12] = { 0 };

	for (enum lock lock = UNLOCKED; lock <= HOLD_BUSY; lock++)
		scan_with(lock, calls);
}

/* The same for a page that is held, but cannot be replaced: those behind it in the run can. */
static void test_6_one_page_cannot_be_mapped(void **unused)
{
	uint64_t calls[12] = { 0 };

	scan_with(UNLOCKED, calls);
	scan_with(MAP_BUSY, calls);
}

/* ---- 10: pages that are pinned as a group ---- */

#define GROUP 8u

static struct {
	struct sim_region *region;
	bool huge;
	unsigned wanted; /* how often it was to be split */
} ten;

/* Pages 0 to 7 are one huge page. Who wants to hold one of them starts to split it, which takes
 * until the next step, and fails if anybody refers to any of them. */
static void split(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_HOLD || before || !ten.huge)
		return;
	for (uint64_t i = 0; i < GROUP; i++)
		if (ten.region->pages[i].gets || ten.region->pages[i].held)
			return;
	ten.wanted++;
}

static void step_and_split(struct sim *sim)
{
	sim_pass(sim, UINT64_MAX);
	if (!ten.wanted)
		return;
	ten.huge = false;
	for (uint64_t i = 0; i < GROUP; i++)
		ten.region->pages[i].hold_refuse = PDD_REASON_NONE;
}

/* Known bug 10: two equal pages of one huge page never merged, as the references that KSM itself
 * had to them kept it from being split. Here a page is not referred to when another is held, so
 * equal pages of the same group merge in a later pass, by twos or with others outside of it. */
static void test_10_equal_pages_of_a_group(void **unused)
{
	for (unsigned first = 0; first < GROUP; first++) {
		for (unsigned second = first + 1; second < GROUP + 2; second++) {
			struct sim *sim = sim_create(NULL);

			ten.region = sim_region_add(sim_space_add(sim, 0), GROUP + 2);
			ten.huge = true;
			ten.wanted = 0;
			for (uint64_t i = 0; i < GROUP + 2; i++) {
				sim_write(ten.region, i, i == first || i == second ? 1 : 10 + i);
				if (i < GROUP)
					ten.region->pages[i].hold_refuse = PDD_REASON_HUGE;
			}
			sim->at = split;
			for (unsigned pass = 0; pass < 4; pass++)
				step_and_split(sim);
			assert_true(sim_is_shared(ten.region, first));
			assert_true(sim_is_shared(ten.region, second));
			assert_int_equal(sim_stats(sim).pages_shared, 1);
			sim->at = NULL;
			sim_destroy(sim);
		}
	}
}

/* ---- 36: the root node is contended ---- */

#define SPACES 100u

static struct sim_space *owner_of(const struct pdd_rbnode *rb)
{
	const struct pdd_item *item = item_of((const struct pdd_index_node *)(const void *)rb);

	return (struct sim_space *)(void *)item->priv.region->priv.space;
}

/* The spaces of the nodes at the top of the tree, `levels` deep, are busy. */
static void lock_top(const struct pdd_rbnode *rb, unsigned levels)
{
	if (!rb || !levels)
		return;
	if (pdd_index_kind((const struct pdd_index_node *)(const void *)rb) == PDD_KIND_ITEM)
		owner_of(rb)->busy = true;
	lock_top(rb->left, levels - 1);
	lock_top(rb->right, levels - 1);
}

/* Pairs of victims come by turns; in between, whatever is at the top of the tree then gets
 * locked, and others are freed. Each pair is to merge within `passes`. */
static void contend(enum sim_checksum checksum, unsigned levels, unsigned passes)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 1, .checksum = checksum,
							    .aging = PDD_AGING_NONE });
	struct sim_region *victims[2];

	victims[0] = sim_region_add(sim_space_add(sim, 0), 1);
	for (unsigned i = 0; i < SPACES; i++)
		sim_write(sim_region_add(sim_space_add(sim, 0), 1), 0, 1 + i);
	victims[1] = sim_region_add(sim_space_add(sim, 0), 1);
	sim_passes(sim, checksum ? 8 : 2);
	for (unsigned round = 0; round < 20; round++) {
		sim_write(victims[0], 0, 1000 + round);
		sim_write(victims[1], 0, 1000 + round);
		for (unsigned pass = 0; pass < passes; pass++) {
			for (struct sim_space *space = sim->spaces; space; space = space->next)
				space->busy = false;
			lock_top(sim->roots[0].node, levels);
			victims[0]->space->busy = victims[1]->space->busy = false;
			sim_pass(sim, UINT64_MAX);
		}
		assert_true(sim_is_shared(victims[0], 0) && sim_is_shared(victims[1], 0));
		assert_ptr_equal(victims[0]->pages[0].frame, victims[1]->pages[0].frame);
	}
	assert_true(sim_stats(sim).space_lock_misses > 0);
	sim_destroy(sim);
}

/* Known bug 36: with try-locks, a search that met a busy node gave up, so that while the root node
 * was contended nothing came into the tree at all. Here a search takes no lock, and two equal pages
 * merge at their second look; even if all checksums are equal and it has to, soon after. */
static void test_36_contended_root(void **unused)
{
	for (unsigned levels = 1; levels <= 8; levels++) {
		contend(SIM_CHECKSUM_DEFAULT, levels, 2);
		contend(SIM_CHECKSUM_ZERO, levels, 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_6_one_page_is_locked),
		cmocka_unit_test(test_6_one_page_cannot_be_mapped),
		cmocka_unit_test(test_10_equal_pages_of_a_group),
		cmocka_unit_test(test_36_contended_root),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
