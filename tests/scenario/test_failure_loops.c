/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_failure_loops.c - the k-th call of a hook that may fail does so, for every k and in every
 * way, while chains grow, shrink and are pruned, among collisions, where writes are tracked, where
 * the index is rebuilt, and while everything is torn down in the middle of a pass. Merging as such
 * is told of in test_failures.c, and what owners do in test_failures_lifecycle.c.
 *
 * After each step all is valid. Behind the failure a few passes complete the story: what is shared
 * then is exactly what follows from the contents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failure_stories.h"

static struct sim_region *region_of_space(const struct sim *sim, unsigned n)
{
	const struct sim_space *space = sim->spaces; /* the last one that was added comes first */

	while (n--)
		space = space->next;
	return space->regions;
}

static void settled(struct sim *sim)
{
	sim_prune(sim);
	sim_settle(sim, 10);
	sim_assert_settled(sim);
}

/* ---- chain growth: equal pages come a few at a time, in frames of two ---- */

static void two_spaces(struct sim *sim)
{
	sim_region_add(sim_space_add(sim, 0), 12);
	sim_region_add(sim_space_add(sim, 0), 12);
}

static void growth_act(struct sim *sim)
{
	struct sim_region *a = region_of_space(sim, 0), *b = region_of_space(sim, 1);

	for (uint64_t n = 0; n < 3; n++) {
		for (uint64_t i = 0; i < 3; i++) {
			sim_write(a, 4 * n + i, 1);
			sim_write(b, 11 - 4 * n - i, 1 + i / 2);
		}
		sim_step(sim, 7);
		sim_passes(sim, 2);
	}
}

static void growth_check(struct sim *sim)
{
	settled(sim);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 14 + 2); /* 15 and 3 */
	assert_int_equal(sim_stats(sim).stable_node_dups, 7);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 2);
}

/* ---- writes leave places in all frames of a chain, and a prune empties some of them ---- */

static void chain_begin(struct sim *sim)
{
	two_spaces(sim);
	for (uint64_t i = 0; i < 12; i++) {
		sim_write(region_of_space(sim, 0), i, 1);
		sim_write(region_of_space(sim, 1), i, 1);
	}
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).stable_node_dups, 6);
}

static void chain_act(struct sim *sim)
{
	for (uint64_t i = 0; i < 12; i++)
		if (i % 4 != 1)
			sim_write(region_of_space(sim, 0), i, i % 2 ? 2 : 100 + i);
	sim_pass(sim, 5);
	sim_prune(sim);
	sim_write(region_of_space(sim, 1), 0, 0);
	sim_passes(sim, 2);
}

/* ---- pages that were read and are written, whatever pages_written could tell of it ---- */

static void tracked_begin(struct sim *sim)
{
	two_spaces(sim);
	for (uint64_t i = 0; i < 12; i++) {
		sim_write(region_of_space(sim, 0), i, i % 4);
		sim_write(region_of_space(sim, 1), i, i % 5);
	}
	sim_pass(sim, UINT64_MAX);
}

static void tracked_act(struct sim *sim)
{
	sim_write(region_of_space(sim, 0), 1, 3);
	sim_step(sim, 13);
	sim_write(region_of_space(sim, 1), 2, 7);
	sim_pass(sim, UINT64_MAX);
	sim_write(region_of_space(sim, 1), 3, 0);
	sim_passes(sim, 2);
}

/* ---- everything goes away in the middle of a pass, a clone later than what it was made of ---- */

static void teardown_begin(struct sim *sim)
{
	struct sim_region *sparse;

	chain_begin(sim);
	sparse = sim_region_add_with(sim_space_add(sim, 1), 600, 600, true);
	for (uint64_t i = 0; i < 6; i++)
		sim_write(sparse, 509 + i, i / 2);
	sim_pass(sim, UINT64_MAX);
}

static void teardown_act(struct sim *sim)
{
	struct sim_space *first = sim->spaces->next->next;
	struct sim_region *sparse = sim->spaces->regions;

	sim_space_clone(first);
	for (uint64_t i = 0; i < 6; i++)
		sim_write(first->regions, i, 3 + i / 2);
	sim_pass(sim, UINT64_MAX);
	sim_step(sim, 300);
	(void)sim_unmerge(sparse, 509, 3); /* may fail: what is left goes as it is */
	(void)pdd_region_discard(&sparse->region, 512, 2);
	sim_region_resize(sparse, 511);
	sim_step(sim, 200);
	sim_space_remove(first);
	sim_step(sim, 5);
	(void)pdd_space_unmerge(&sim->spaces->space, UINT64_MAX);
	sim_verify(sim);
	sim_space_remove(sim->spaces); /* the clone */
	sim_region_remove(sparse);
	sim_pass(sim, 10);
	while (sim->spaces)
		sim_space_remove(sim->spaces);
	sim_region_add(sim_space_add(sim, 0), 2); /* so that there is a pass to come */
}

static void teardown_check(struct sim *sim)
{
	sim_prune(sim);
	assert_null(sim->frames);
	assert_int_equal(sim_stats(sim).counts.ksm_rmap_items, 0);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
}

/* ---- the whole ---- */

static const struct story growth = {{.limit = 2}, two_spaces, growth_act, growth_check};
static const struct story chain = {{.limit = 4}, chain_begin, chain_act, settled};
static const struct story tracked = {
	{.limit = 4, .tracked = true}, tracked_begin, tracked_act, settled};
static const struct story rebuilt = {
	{.limit = 4, .index = PDD_INDEX_REBUILT, .keep_zero_pages = true},
	tracked_begin,
	tracked_act,
	settled};
static const struct story teardown = {{.limit = 4}, teardown_begin, teardown_act, teardown_check};
static const struct story collisions = {
	{.limit = 2, .checksum = SIM_CHECKSUM_2_BITS}, tracked_begin, tracked_act, settled};

/* One call fails; two in a row, so that what is tried again fails as well; all from one on. */
static void every_call(const struct story *story)
{
	uint64_t told = tell_of_all(story, 0, 1, false) + tell_of_all(story, 0, 2, false) +
			tell_of_all(story, 0, UINT64_MAX, false) + tell_of_all(story, 0, 1, true);

	assert_true(told > 100);
	print_message("told %u times.\n", (unsigned)told);
}

static void test_growth(void **unused)
{
	every_call(&growth);
}

static void test_chain(void **unused)
{
	every_call(&chain);
}

static void test_tracked(void **unused)
{
	every_call(&tracked);
}

static void test_rebuilt(void **unused)
{
	every_call(&rebuilt);
}

static void test_teardown(void **unused)
{
	every_call(&teardown);
}

/* The checksum hook has one way to fail: the page is left alone. */
static void test_collisions(void **unused)
{
	uint64_t k = 1;

	every_call(&collisions);
	while (tell(&collisions, BIT(SIM_CHECKSUM), k, &outcomes[0], 1, false))
		k++;
	assert_true(k > 50);
}

/* A frame is lost, at every look at it: what showed it is the embedder's business, all else goes
 * on. */
static void test_lost_frames(void **unused)
{
	const struct story *const stories[] = {&growth, &chain, &tracked, &teardown, &collisions};

	for (unsigned i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
		tell_of_lost_frames(stories[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growth),	    cmocka_unit_test(test_chain),
		cmocka_unit_test(test_tracked),	    cmocka_unit_test(test_rebuilt),
		cmocka_unit_test(test_teardown),    cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_lost_frames),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
