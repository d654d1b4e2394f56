/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_statistics_rare.c - counters of what happens rarely: clones, prunes, lost and moved frames,
 * stale twins, collisions. Failures: test_statistics_failures.c. Each exactly, in a world
 * in which it happens as often as one can count by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"



/* Pages of one content each: `n` regions of one page, every one in a space of its own. */
static struct sim *world(const struct sim_options *options, struct sim_region **regions, unsigned n)
{
	struct sim *sim = sim_create(options);

	for (unsigned i = 0; i < n; i++) {
		regions[i] = sim_region_add(sim_space_add(sim, 0), 1);
		sim_write(regions[i], 0, 1);
	}
	return sim;
}

/* Pages of clones that share a frame, or are at the zero page; those beyond the limit among them.
 * */
static void test_adoptions(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 4 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 10), *clone;
	struct pdd_counts counts;

	for (uint64_t i = 0; i < 10; i++)
		sim_write(region, i, i < 4 ? 1 : i < 6 ? 2 : i < 8 ? 0 : i);
	sim_passes(sim, 2);
	clone = sim_space_clone(region->space)->regions;
	assert_int_equal(sim_stats(sim).counts.adoptions, 0);
	sim_pass(sim, UINT64_MAX);
	counts = sim_counts(clone->space);
	assert_int_equal(counts.adoptions, 8);
	assert_int_equal(counts.adoptions_over_limit, 4);
	assert_int_equal(counts.merges + counts.zero_merges, 0);
	assert_int_equal(counts.ksm_merging_pages, 6);
	assert_int_equal(counts.ksm_zero_pages, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 10);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.adoptions, 8);
	assert_int_equal(sim_counts(region->space).adoptions, 0);
	sim_space_remove(clone->space);
	assert_int_equal(sim_stats(sim).counts.adoptions, 8);
	assert_int_equal(sim_stats(sim).counts.adoptions_over_limit, 4);
	sim_destroy(sim);
}

/* Frames that only clones map, as far as is not known: kept until one of them is looked at. */
static void test_kept(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 6);
	struct sim_space *clone;

	for (uint64_t i = 0; i < 6; i++)
		sim_write(region, i, 1 + i / 2);
	sim_passes(sim, 2);
	clone = sim_space_clone(region->space);
	assert_int_equal(sim_unmerge(region, 0, 4), 4);
	assert_int_equal(sim_stats(sim).frames_kept, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	sim_discard(clone->regions, 0);
	sim_discard(clone->regions, 1);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).frames_kept, 1);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	assert_int_equal(sim_stats(sim).counts.adoptions, 4);
	sim_destroy(sim);
}

/* Three of four sharers of each of four frames leave: the rest moves into one of them. */
static void test_refiles(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 4, .prune_ms = 1000 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 16);

	sim->now = 1;
	for (uint64_t i = 0; i < 16; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).stable_node_dups, 4);
	for (uint64_t i = 0; i < 16; i++) {
		bool first = true; /* of the pages that show its frame */

		for (uint64_t other = 0; other < i; other++)
			first &= region->pages[other].frame != region->pages[i].frame;
		if (!first)
			sim_write(region, i, 100 + i);
	}
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_shared, 4);
	assert_int_equal(sim_stats(sim).counts.unshares, 12);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).prunes, 1);
	assert_int_equal(sim_stats(sim).counts.refiles, 3);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	assert_int_equal(sim_stats(sim).stable_node_chains, 0);
	assert_int_equal(sim_stats(sim).stable_node_dups, 0);
	assert_int_equal(sim_stats(sim).counts.merges, 16);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).prunes, 2);
	assert_int_equal(sim_stats(sim).counts.refiles, 3);
	sim_destroy(sim);
}

/* A frame that is gone is counted once, however many pages shared it, when it is found out. */
static void test_stale_frames(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 3 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 9);

	for (uint64_t i = 0; i < 9; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	region->pages[0].frame->gone = true;
	region->pages[8].frame->gone = true;
	assert_int_equal(sim_stats(sim).stale_frames, 0);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).stale_frames, 2);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_STALE], 6);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).counts.unshares, 0);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).stale_frames, 2);
	sim_destroy(sim);
}

/* Found out when a page of a clone is to adopt it. */
static void test_stale_for_a_clone(void **unused)
{
	struct sim_region *r[2], *clone;
	struct sim *sim = world(NULL, r, 2);

	sim_passes(sim, 2);
	clone = sim_space_clone(r[0]->space)->regions;
	r[0]->pages[0].frame->gone = true;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).stale_frames, 1);
	assert_int_equal(sim_stats(sim).counts.adoptions, 0);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_reason(clone, 0), PDD_REASON_FOREIGN_FRAME);
	assert_int_equal(sim_reason(r[0], 0), PDD_REASON_STALE);
	sim_destroy(sim);
}

/* Told, or found out in a pass; nothing where nodes are not kept apart. */
static void test_moved_frames(void **unused)
{
	for (unsigned apart = 0; apart < 2; apart++) {
		struct sim_region *r[4];
		struct sim *sim = world(&(struct sim_options){ .nodes_apart = apart }, r, 4);
		struct pdd_frame *frame;

		sim_migrate(r[2], 0, 1);
		sim_migrate(r[3], 0, 1);
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).pages_shared, 1 + apart);
		frame = &r[0]->pages[0].frame->frame;
		sim_migrate(r[0], 0, 1);
		assert_int_equal(pdd_frame_moved(&sim->scanner, frame, 1), 0);
		assert_int_equal(sim_stats(sim).moved_frames, apart);
		assert_int_equal(sim_stats(sim).stable_node_dups, 2 * apart);
		assert_int_equal(pdd_frame_moved(&sim->scanner, frame, 1), 0);
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_stats(sim).moved_frames, apart);
		sim_migrate(r[2], 0, 7);
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_stats(sim).moved_frames, 2 * apart);
		assert_int_equal(sim_stats(sim).stable_node_dups, 0);
		sim_destroy(sim);
	}
}

/* A twin that was written since it was put into the index. */
static void test_stale_twins(void **unused)
{
	struct sim_region *r[2];
	struct sim *sim = world(NULL, r, 2);
	struct pdd_stats stats;

	sim_write(r[0], 0, 9);
	sim_passes(sim, 2);
	sim_write(r[0], 0, 1);
	sim_pass(sim, UINT64_MAX); /* its first look; the other one is in the index */
	sim_write(r[1], 0, 5);
	sim_pass(sim, UINT64_MAX);
	stats = sim_stats(sim);
	assert_int_equal(stats.stale_twins, 1);
	assert_int_equal(stats.held_compares_unequal, 1);
	assert_int_equal(stats.held_compares_equal, 0);
	assert_int_equal(stats.collisions, 0);
	assert_int_equal(stats.search_compares, 0);
	assert_int_equal(stats.counts.failures[PDD_REASON_CHANGED], 1);
	assert_int_equal(stats.hook_errors, 0);
	sim_destroy(sim);
}

/* Two contents of one checksum: the first time they are taken for equal, afterwards compared. */
static void test_collisions(void **unused)
{
	struct sim_region *r[2];
	struct sim *sim = world(&(struct sim_options){ .checksum = SIM_CHECKSUM_ZERO }, r, 2);
	struct pdd_stats stats;

	sim_write(r[1], 0, 2);
	sim_passes(sim, 2);
	stats = sim_stats(sim);
	assert_int_equal(stats.collisions, 1);
	assert_int_equal(stats.search_compares, 0);
	assert_int_equal(stats.held_compares_unequal, 1);
	assert_int_equal(stats.counts.failures[PDD_REASON_COLLISION], 1);
	sim_pass(sim, UINT64_MAX);
	stats = sim_stats(sim);
	assert_true(stats.search_compares > 0);
	assert_true(stats.collisions > 1);
	assert_int_equal(stats.held_compares_unequal, 1);
	assert_int_equal(stats.counts.pages_unshared, 2);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adoptions),     cmocka_unit_test(test_kept),
		cmocka_unit_test(test_refiles),	      cmocka_unit_test(test_stale_frames),
		cmocka_unit_test(test_moved_frames),  cmocka_unit_test(test_stale_twins),
		cmocka_unit_test(test_stale_for_a_clone),
		cmocka_unit_test(test_collisions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
