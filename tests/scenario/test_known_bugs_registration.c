/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_registration.c - what KSM got wrong about who is registered: policies that
 * were lost (21, 22), and neighbours that were not joined (27).
 *
 * Each known bug of KSM that can be had here has a property test, named by its number:
 *
 *	1, 23, 24, 25   test_known_bugs_teardown.c; 1 also test_ltp_ksm05.c
 *	2, 5            test_known_bugs_failures.c
 *	3, 4, 35        test_known_bugs_chains.c
 *	6, 10, 36       test_known_bugs_locks.c; 6 and 36 also test_busy.c
 *	7, 26           test_known_bugs_pins.c
 *	8, 9, 32        test_known_bugs_search.c
 *	11              test_known_bugs_zero.c
 *	12, 29          test_known_bugs_rmap.c, test_rmap.c
 *	13, 34          test_known_bugs_unmerge.c, test_unmerge.c; 13 also test_unmerge_vetoed.c
 *	14, 15, 20      test_known_bugs_counters.c; 14 and 20 also test_ksm_functional_fork.c
 *	16              test_known_bugs_looks.c
 *	17              test_known_bugs_flags.c
 *	18, 19          test_known_bugs_sparse.c
 *	21, 22, 27      test_known_bugs_registration.c
 *	28, 30          test_known_bugs_aging.c; 28 also test_aging_passes.c
 *	33              test_known_bugs_moved.c
 *
 * Not applicable:
 *
 *	31  A panic because an architecture lacked a helper that tells huge entries of a page table
 *	    from others. The library walks no page tables; what stands at a page is what pages_get
 *	    says, and hooks that are missing are refused by pdd_scanner_init().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

/* ---- 21, 22: policies ---- */

/* Settings that are unlike the defaults. */
static void set_tunables(struct sim *sim, struct pdd_tunables *tunables)
{
	pdd_tunables_init(tunables);
	tunables->max_page_sharing = 3;
	tunables->chain_prune_ms = 17;
	tunables->use_zero_pages = 0;
	tunables->max_period_passes = 16;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, tunables), 0);
}

static void assert_tunables(const struct sim *sim, const struct pdd_tunables *tunables)
{
	struct pdd_tunables now = { .size = sizeof(now) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &now), 0);
	assert_memory_equal(&now, tunables, sizeof(now));
}

static struct sim_region *add_filled(struct sim_space *space, uint64_t npages)
{
	struct sim_region *region = sim_region_add(space, npages);

	for (uint64_t i = 0; i < npages; i++)
		sim_write(region, i, 5);
	return region;
}

static void assert_all_shared(const struct sim_region *region, bool shared)
{
	for (uint64_t i = 0; i < region->npages; i++)
		assert_int_equal(sim_is_shared(region, i), shared);
}

/* Known bug 21: after an exec the process was on no list, its policy was lost. Here an owner is
 * taken off and added again, wherever a pass stands: it is scanned from the next pass on, and
 * shares with its domain, by the settings that hold. */
static void test_21_owner_comes_again(void **unused)
{
	for (unsigned steps = 0; steps < 14; steps++) {
		struct sim *sim = sim_create(NULL);
		struct sim_space *owner = sim_space_add(sim, 7), *other = sim_space_add(sim, 8);
		struct sim_region *a = add_filled(owner, 2), *b = add_filled(other, 1);
		struct pdd_tunables tunables;

		add_filled(sim_space_add(sim, 7), 1);
		set_tunables(sim, &tunables);
		sim_passes(sim, 2);
		assert_all_shared(a, true);
		for (unsigned i = 0; i < steps; i++)
			sim_step(sim, 1);
		sim_region_remove(a);
		assert_int_equal(pdd_space_remove(&owner->space), 0);
		assert_int_equal(pdd_space_add(&sim->scanner, &owner->space, 7), 0);
		a = add_filled(owner, 2);
		assert_int_equal(pdd_space_domain(&owner->space), 7);
		if (sim->scanner.priv.in_pass)
			sim_pass(sim, UINT64_MAX);
		sim_passes(sim, 2);
		assert_all_shared(a, true);
		assert_all_shared(b, false);
		assert_int_equal(sim_stats(sim).pages_shared, 1);
		assert_tunables(sim, &tunables);
		sim_destroy(sim);
	}
}

/* Known bug 22: the scanner took a policy away from an owner that had nothing to scan yet. Here it
 * comes by empty spaces, and by pages that are not there, as often as it can: the domain, what is
 * excluded or pinned, and the settings stay. */
static void test_22_nothing_to_scan_yet(void **unused)
{
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim *sim = sim_create(NULL);
		struct sim_space *owner = sim_space_add(sim, 7);
		struct sim_region *region;
		struct pdd_tunables tunables;

		set_tunables(sim, &tunables);
		for (unsigned i = 0; i < 50; i++)
			assert_int_equal(sim_step(sim, 1), PDD_STEP_IDLE);
		region = sim_region_add_with(owner, 1500, 1500, sparse);
		assert_int_equal(pdd_region_exclude(&region->region, 600, 5), 0);
		assert_int_equal(pdd_region_pin(&region->region, 1200, 5), 0);
		for (unsigned i = 0; i < 50; i++)
			sim_pass(sim, 1 + i);
		assert_int_equal(pdd_region_discard(&region->region, 0, 1200), 0);
		assert_int_equal(pdd_scanner_unmerge(&sim->scanner, 1), 0);
		for (uint64_t i = 595; i < 1210; i++)
			sim_write(region, i, 5);
		sim_passes(sim, 4);
		for (uint64_t i = 595; i < 1210; i++)
			assert_int_equal(sim_is_shared(region, i),
					 (i < 600 || i >= 605) && (i < 1200 || i >= 1205));
		assert_int_equal(sim_reason(region, 602), PDD_REASON_EXCLUDED);
		assert_int_equal(sim_reason(region, 1202), PDD_REASON_PINNED);
		assert_int_equal(pdd_space_domain(&owner->space), 7);
		assert_tunables(sim, &tunables);
		sim_destroy(sim);
	}
}

/* ---- 27: adjacent regions ---- */

/* How many calls of frames_map replaced pages on both sides of a place. */
static uint64_t old_end, across;

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	across += first < old_end && old_end < first + npages;
	return sim_ops.frames_map(ctx, region, first, frames, npages);
}

/* A region of one object grows from `old_end` pages, before a pass or in the middle of one. */
static void grow(struct sim *sim, bool in_pass)
{
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *region = sim_region_add_with(space, old_end, old_end + 40, false);
	struct pdd_object object = { 0 };

	assert_int_equal(pdd_region_attach(&region->region, &object, 1000), 0);
	for (uint64_t page = 0; page < old_end; page++)
		sim_write(region, page, 10 + page);
	if (in_pass)
		sim_step(sim, 1);
	sim_region_resize(region, old_end + 40);
	if (in_pass) /* it does not come by the new pages */
		sim_pass(sim, UINT64_MAX);
	for (uint64_t page = 0; page < region->npages; page++)
		sim_write(region, page, 5);
	across = 0;
	sim_passes(sim, 2);
	assert_all_shared(region, true);
	assert_ptr_equal(space->space.priv.regions, space->space.priv.last);
	assert_int_equal(pdd_object_regions(&object), 1);
	assert_int_equal(pdd_interval_last(&region->region.priv.interval),
			 1000 + region->npages - 1);
	sim_region_remove(region);
}

/* Known bug 27: what was registered piece by piece never became one mapping. Here a region that
 * grows in place stays one region, of one object, and a run of pages that merge goes across the
 * old end, unless that is the end of an extent. */
static void test_27_grown_region_is_one(void **unused)
{
	static const uint64_t ends[] = { 2, 3, 127, 128, 129, 300, 511, 512, 513, 1023, 1024 };

	for (unsigned i = 0; i < 2 * sizeof(ends) / sizeof(ends[0]); i++) {
		struct sim *sim = sim_create(&(struct sim_options){ .limit = 4096 });

		sim->scanner.priv.ops.frames_map = frames_map;
		old_end = ends[i / 2];
		grow(sim, i % 2);
		assert_int_equal(across, old_end % PDD_EXTENT_PAGES != 0);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_21_owner_comes_again),
		cmocka_unit_test(test_22_nothing_to_scan_yet),
		cmocka_unit_test(test_27_grown_region_is_one),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
