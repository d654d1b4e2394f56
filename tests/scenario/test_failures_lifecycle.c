/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_failures_lifecycle.c - s40, s47: the k-th call of a hook that may fail fails, for every k,
 * in each way, in the stories beyond merging: clone and adopt, refile, unmerge, a sparse region,
 * pages and frames that move to other NUMA nodes, pins, discard. After each step all is valid, and
 * the passes that follow complete the story. Merging itself: test_failures.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "failure_stories.h"

static uint64_t shared(const struct sim *sim)
{
	return sim_stats(sim).pages_shared;
}

static uint64_t sharing(const struct sim *sim)
{
	return sim_stats(sim).counts.ksm_merging_pages;
}

static void write_pages(struct sim_region *region, uint64_t first, uint64_t n, uint64_t contents)
{
	for (uint64_t i = 0; i < n; i++)
		sim_write(region, first + i, i % (contents + 1));
}

/* ---- clone and adopt: a fork of shared and zero pages, the parent writes and goes ---- */

static void clone_begin(struct sim *sim)
{
	write_pages(sim_region_add(sim_space_add(sim, 0), 24), 0, 24, 3);
	sim_passes(sim, 2);
}

static void clone_act(struct sim *sim)
{
	struct sim_space *parent = sim->spaces, *child = sim_space_clone(parent);

	sim_step(sim, 10);
	for (uint64_t i = 0; i < 12; i++)
		sim_write(parent->regions, i, 100 + i);
	sim_passes(sim, 2);
	sim_space_clone(child);
	sim_space_remove(parent);
	sim_passes(sim, 2);
}

static void clone_check(struct sim *sim)
{
	uint64_t alone = sim_stats(sim).counts.pages_unshared;

	assert_int_equal(sim_stats(sim).counts.pages, 2 * 24);
	/* Of each of three contents one page may be left beside frames that clones filled beyond the
	 * limit. */
	assert_in_range(alone, 0, 3);
	assert_int_equal(sharing(sim) + alone, 2 * 18);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 2 * 6);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	for (struct sim_space *space = sim->spaces; space; space = space->next)
		for (uint64_t i = 0; i < 24; i++)
			assert_int_equal(space->regions->pages[i].expected, i % 4);
}

/* ---- refile: frames lose most of their sharers, a prune empties what is left ---- */

static void refile_begin(struct sim *sim)
{
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);
	struct sim_region *other = sim_region_add(sim_space_add(sim, 0), 8);

	for (uint64_t i = 0; i < 40; i++)
		sim_write(region, i, 1);
	for (uint64_t i = 0; i < 8; i++)
		sim_write(other, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(shared(sim), 12);
}

static void refile_act(struct sim *sim)
{
	for (uint64_t i = 0; i < 40; i++)
		if (i % 4)
			sim_write(sim->spaces->next->regions, i, 100 + i);
	sim_passes(sim, 2);
	sim_prune(sim);
}

static void refile_check(struct sim *sim)
{
	sim_prune(sim);
	assert_int_equal(sharing(sim), 18);
	assert_int_equal(shared(sim), 5);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 30);
}

/* ---- unmerge: of a range, of everything, and merged again ---- */

static void merged_begin(struct sim *sim)
{
	write_pages(sim_region_add(sim_space_add(sim, 0), 532), 490, 36, 2);
	write_pages(sim_region_add(sim_space_add(sim, 0), 24), 0, 24, 2);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], 60);
}

static void unmerge_act(struct sim *sim)
{
	struct sim_region *region = sim->spaces->next->regions;

	while (pdd_region_unmerge(&region->region, 495, 30, 7) > 0)
		sim_verify(sim);
	sim_step(sim, 300);
	while (pdd_scanner_unmerge(&sim->scanner, 10) > 0)
		sim_verify(sim);
	sim_passes(sim, 2);
}

static void merged_check(struct sim *sim)
{
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 20);
	assert_int_equal(sharing(sim), 40);
	while (pdd_scanner_unmerge(&sim->scanner, 10) > 0)
		sim_verify(sim);
	assert_null(sim->frames);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
}

/* ---- a sparse region: pages come in several extents, some go ---- */

static void sparse_begin(struct sim *sim)
{
	sim_region_add_with(sim_space_add(sim, 0), 1200, 1200, true);
}

static void sparse_act(struct sim *sim)
{
	struct sim_region *region = sim->spaces->regions;

	write_pages(region, 505, 12, 2);
	sim_passes(sim, 2);
	write_pages(region, 1100, 12, 2);
	sim_step(sim, 700);
	sim_pass(sim, UINT64_MAX);
	sim_region_resize(region, 1105);
	(void)pdd_region_discard(&region->region, 505, 3);
	sim_passes(sim, 2);
}

static void sparse_check(struct sim *sim)
{
	struct sim_region *region = sim->spaces->regions;

	assert_int_equal(pdd_region_discard(&region->region, 505, 3), 0);
	sim_passes(sim, 2);
	assert_int_equal(region->nblocks, 3);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], 9 + 5);
	assert_int_equal(pdd_region_discard(&region->region, 0, 1024), 0);
	assert_int_equal(region->nblocks, 1);
}

/* ---- NUMA: pages and frames move to other nodes ---- */

static void node_begin(struct sim *sim)
{
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 24);

	for (uint64_t i = 0; i < 24; i++) {
		sim_write(region, i, 1 + i % 2);
		sim_migrate(region, i, (uint16_t)(i / 12));
	}
	sim_passes(sim, 2);
	assert_int_equal(shared(sim), 4);
}

static void node_act(struct sim *sim)
{
	struct sim_region *region = sim->spaces->regions;
	struct sim_frame *frame = region->pages[0].frame;

	sim_migrate(region, 0, 1); /* the frame of six pages */
	assert_int_equal(pdd_frame_moved(&sim->scanner, &frame->frame, 1), 0);
	sim_migrate(region, 23, 0); /* another, found out by a pass */
	sim_passes(sim, 2);
	sim_write(region, 5, 1);
	sim_migrate(region, 5, 3);
	sim_write(region, 6, 1);
	sim_migrate(region, 6, 3);
	sim_passes(sim, 2);
	sim_migrate(region, 6, 0); /* the frame of those two */
	sim_passes(sim, 2);
}

static uint16_t node_of(const struct sim_page *page)
{
	return page->frame ? page->frame->node : page->node;
}

/* All equal pages of one node share; a failure may have left one of the two on a node of its own.
 * */
static void node_check(struct sim *sim)
{
	const struct sim_page *pages = sim->spaces->regions->pages;

	for (uint64_t i = 0; i < 24; i++) {
		if (pages[i].frame)
			assert_int_equal(pages[i].frame->frame.priv.numa_node, node_of(&pages[i]));
		for (uint64_t other = 0; other < i; other++)
			if (pages[i].expected == pages[other].expected &&
			    node_of(&pages[i]) == node_of(&pages[other]))
				assert_true(pages[i].frame && pages[other].frame);
	}
	assert_true(sharing(sim) >= 22);
}

/* ---- pins, exclusion and discard ---- */

static void pin_act(struct sim *sim)
{
	struct sim_region *region = sim->spaces->next->regions;
	bool pinned = pdd_region_pin(&region->region, 500, 20) == 0;
	bool excluded = pdd_region_exclude(&region->region, 510, 20) == 0;
	struct pdd_counts counts = sim_stats(sim).counts;

	assert_int_equal(counts.reasons[PDD_REASON_PINNED],
			 !pinned ? 0 : excluded ? 10 : 20);
	assert_int_equal(counts.reasons[PDD_REASON_EXCLUDED], excluded ? 20 : 0);
	for (uint64_t i = 500; i < 530; i++)
		if ((pinned && i < 520) || (excluded && i >= 510))
			assert_true(region->pages[i].kind == PDD_PAGE_PRIVATE ||
				    region->pages[i].kind == PDD_PAGE_ABSENT);
	sim_verify(sim);
	sim_passes(sim, 2);
	if (pinned)
		assert_int_equal(pdd_region_unpin(&region->region, 500, 20), 0);
	assert_int_equal(pdd_region_include(&region->region, 0, 532), 0);
	sim_passes(sim, 2);
}

static const struct story stories[] = {
	{ { .limit = 5 }, clone_begin, clone_act, clone_check },
	{ { .limit = 4 }, refile_begin, refile_act, refile_check },
	{ { .limit = 5 }, merged_begin, unmerge_act, merged_check },
	{ { .limit = 5 }, merged_begin, pin_act, merged_check },
	{ { .limit = 30 }, sparse_begin, sparse_act, sparse_check },
	{ { .limit = 30, .nodes_apart = true }, node_begin, node_act, node_check },
};

static void tell_all(uint64_t mask, bool partial)
{
	for (unsigned s = 0; s < sizeof(stories) / sizeof(stories[0]); s++)
		assert_true(tell_of_all(&stories[s], mask, 1, partial) > 0);
}

static void test_every_call(void **unused)
{
	tell_all(0, false);
}

static void test_every_call_and_partial_results(void **unused)
{
	tell_all(0, true);
}

static void test_every_frame_is_lost(void **unused)
{
	for (unsigned s = 0; s < sizeof(stories) / sizeof(stories[0]); s++)
		tell_of_lost_frames(&stories[s]);
}

/* Half of all calls fail, for the whole story, told again and again. */
static void test_half_of_all_calls(void **unused)
{
	for (unsigned i = 0; i < 40 * sizeof(stories) / sizeof(stories[0]); i++) {
		const struct story *story = &stories[i / 40];
		struct sim_options options = story->options;
		struct sim *sim;

		options.aging = PDD_AGING_NONE;
		sim = sim_create(&options);
		sim->random += i;
		story->begin(sim);
		sim->fail_chance = i % 2 ? 0.5 : 0.1;
		sim->partial = true;
		story->act(sim);
		sim_verify(sim);
		sim_passes(sim, 3);
		sim->fail_chance = 0;
		sim->partial = false;
		sim_passes(sim, 2);
		sim_settle(sim, 10);
		story->check(sim);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call),
		cmocka_unit_test(test_every_call_and_partial_results),
		cmocka_unit_test(test_every_frame_is_lost),
		cmocka_unit_test(test_half_of_all_calls),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
