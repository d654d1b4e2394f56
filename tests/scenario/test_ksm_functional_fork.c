/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ksm_functional_fork.c - ksm-behaviour 3.2 fork_ksm_merging_page_count, and known bugs 20
 * and 14: a child that was just forked shows pages of the parent, but its own figures are 0. (KSM
 * copied the parent's, and its global count of zero pages drifted.)
 *
 * Here the first look at the child makes what it shows its own: its pages become sharers of the
 * frames, above the limit if need be, and its zero pages are counted like those of the parent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define PAGES 512u /* of one byte, that is two full frames, and as many zero pages */
#define LONE 3u    /* that are like no other */
#define ALL (2 * PAGES + LONE)

static struct sim_region *parent_of(struct sim *sim)
{
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), ALL);

	for (uint64_t i = 0; i < PAGES; i++) {
		sim_write(region, i, UINT64_C(0xcfcfcfcfcfcfcfcf));
		sim_write(region, PAGES + i, 0);
	}
	for (uint64_t i = 2 * PAGES; i < ALL; i++)
		sim_write(region, i, i);
	sim_passes(sim, 2);
	return region;
}

static struct sim *world(struct sim_region **parent)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .page_shift = 3, .aging = PDD_AGING_NONE });

	*parent = parent_of(sim);
	return sim;
}

/* What the library counts of a space; whatever was done, the sums of the spaces are the totals. */
static void assert_space(const struct sim_space *space, uint64_t merging, uint64_t zero)
{
	struct pdd_stats stats = sim_stats(space->sim);
	uint64_t all_merging = 0, all_zero = 0, all_items = 0;

	assert_int_equal(sim_counts(space).ksm_merging_pages, merging);
	assert_int_equal(sim_counts(space).ksm_zero_pages, zero);
	for (const struct sim_space *s = space->sim->spaces; s; s = s->next) {
		all_merging += sim_counts(s).ksm_merging_pages;
		all_zero += sim_counts(s).ksm_zero_pages;
		all_items += sim_counts(s).ksm_rmap_items;
	}
	assert_int_equal(stats.counts.ksm_merging_pages, all_merging);
	assert_int_equal(stats.pages_shared + stats.pages_sharing, all_merging);
	assert_int_equal(stats.counts.ksm_zero_pages, all_zero);
	assert_int_equal(stats.counts.ksm_rmap_items, all_items);
}

static void assert_shared(const struct sim *sim, uint64_t shared, uint64_t sharing, uint64_t zero)
{
	assert_int_equal(sim_stats(sim).pages_shared, shared);
	assert_int_equal(sim_stats(sim).pages_sharing, sharing);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, zero);
}

static void assert_nothing_left(const struct sim *sim)
{
	assert_shared(sim, 0, 0, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 0);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_null(sim->frames);
}

/* Right after the clone, and at the first look. */
static void test_fork_ksm_merging_page_count(void **unused)
{
	struct sim_region *parent;
	struct sim *sim = world(&parent);
	struct pdd_counts before = sim_stats(sim).counts, after;
	uint64_t holds = sim->calls[SIM_HOLD];
	struct sim_space *child;

	assert_shared(sim, 2, 510, 512);
	child = sim_space_clone(parent->space);
	sim_verify(sim);
	assert_space(child, 0, 0);
	assert_space(parent->space, 512, 512);
	assert_shared(sim, 2, 510, 512);
	assert_int_equal(sim_counts(child).ksm_rmap_items, 0);
	assert_int_equal(sim_counts(child).ksm_process_profit_bytes, 0);
	assert_int_equal(sim_counts(child).reasons[PDD_REASON_NEW], ALL);

	sim_pass(sim, UINT64_MAX);
	assert_space(child, 512, 512);
	assert_space(parent->space, 512, 512);
	assert_shared(sim, 2, 1022, 1024);
	after = sim_stats(sim).counts;
	assert_int_equal(after.adoptions, 1024);
	assert_int_equal(after.adoptions_over_limit, 512);
	assert_int_equal(after.merges, before.merges);
	assert_int_equal(after.zero_merges, before.zero_merges);
	assert_int_equal(sim->calls[SIM_HOLD], holds); /* what is shown is shared already */

	sim_pass(sim, UINT64_MAX); /* the second look at the others */
	assert_shared(sim, 2 + LONE, 1022 + LONE, 1024);
	sim_destroy(sim);
}

/* The child writes; then both exit, in either order. What is left is the other's. */
static void test_exit(void **unused)
{
	for (unsigned order = 0; order < 2; order++) {
		struct sim_region *parent;
		struct sim *sim = world(&parent);
		struct sim_space *child = sim_space_clone(parent->space);
		struct sim_space *first = order ? child : parent->space;
		struct sim_space *last = order ? parent->space : child;

		sim_pass(sim, UINT64_MAX);
		for (uint64_t i = 0; i < 100; i++) {
			sim_write(child->regions, i, 5000 + i);
			sim_write(child->regions, PAGES + i, 5100 + i);
		}
		sim_pass(sim, UINT64_MAX);
		assert_space(child, 412 + LONE, 412);
		assert_space(parent->space, 512 + LONE, 512);
		assert_shared(sim, 2 + LONE, 922 + LONE, 924);

		sim_space_remove(first);
		sim_verify(sim);
		assert_space(last, order ? 512 + LONE : 412 + LONE, order ? 512 : 412);
		sim_passes(sim, 2);
		assert_space(last, order ? 512 + LONE : 412 + LONE, order ? 512 : 412);
		sim_space_remove(last);
		assert_nothing_left(sim);
		sim_destroy(sim);
	}
}

/* One of them exits, or writes all it has, before the first look at the child. Frames that only the
 * child shows are kept for it; they are nobody's in the figures. */
static void test_exit_before_look(void **unused)
{
	for (unsigned way = 0; way < 3; way++) {
		struct sim_region *parent;
		struct sim *sim = world(&parent);
		struct sim_space *child = sim_space_clone(parent->space);

		if (way == 0) {
			sim_space_remove(child);
			sim_pass(sim, UINT64_MAX);
			assert_space(parent->space, 512, 512);
			sim_space_remove(parent->space);
		} else {
			for (uint64_t i = 0; way == 1 && i < ALL; i++)
				sim_write(parent, i, 5000 + i);
			if (way == 1)
				assert_int_equal(sim_unmerge(parent, 0, ALL), 1024);
			else
				sim_space_remove(parent->space);
			sim_verify(sim);
			assert_int_equal(sim_stats(sim).frames_kept, 2);
			assert_shared(sim, 0, 0, 0);
			assert_space(child, 0, 0);
			sim_pass(sim, UINT64_MAX);
			assert_int_equal(sim_stats(sim).frames_kept, 0);
			assert_space(child, 512, 512);
			assert_shared(sim, 2, 510, 512);
			while (sim->spaces)
				sim_space_remove(sim->spaces);
		}
		assert_nothing_left(sim);
		sim_destroy(sim);
	}
}

/* Forks of forks, at random moments of a pass, that write and exit: after each step the sums are
 * right, and at the end nothing is left. */
static void test_family(void **unused)
{
	struct sim_region *parent;
	struct sim *sim = world(&parent);
	unsigned nspaces = 1;

	for (unsigned round = 0; round < 200; round++) {
		struct sim_space *space = sim->spaces;

		for (uint64_t i = sim_random(sim, nspaces); i; i--)
			space = space->next;
		if (nspaces < 5 && sim_random(sim, 2)) {
			sim_space_clone(space);
			nspaces++;
		} else if (nspaces > 1 && sim_random(sim, 3) == 0) {
			sim_space_remove(space);
			nspaces--;
			space = sim->spaces;
		}
		for (unsigned i = 0; i < 20; i++)
			sim_write(space->regions, sim_random(sim, ALL), sim_random(sim, 2) * round);
		sim_step(sim, 1 + sim_random(sim, 2 * ALL));
		assert_space(space, sim_counts(space).ksm_merging_pages,
			     sim_counts(space).ksm_zero_pages);
	}
	while (sim->spaces)
		sim_space_remove(sim->spaces);
	sim_prune(sim);
	assert_nothing_left(sim);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork_ksm_merging_page_count),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_exit_before_look),
		cmocka_unit_test(test_family),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
