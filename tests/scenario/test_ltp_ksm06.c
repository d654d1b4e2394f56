/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ltp_ksm06.c - LTP's ksm06 (ksm-behaviour 3.4): equal pages on several NUMA nodes share one
 * frame, or one on each node, as merge_across_nodes says; and when that may be changed (section 2).
 *
 * As there: P pages on each of n nodes, all bytes 10, max_page_sharing = P * n, first across the
 * nodes, then, after run = 2, each for itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define TENS UINT64_C(0x0a0a0a0a0a0a0a0a) /* a page of 8 bytes */
#define NODES_MAX 4u

/* Their numbers: the first and the last that there can be, and some between. */
static const uint16_t nodes[NODES_MAX] = { 0, PDD_NODES_MAX - 1, 1, 512 };

struct world {
	struct sim *sim;
	struct sim_region *regions[NODES_MAX]; /* the memory on each node */
	unsigned nnodes;
	uint64_t each; /* pages */
};

static struct world world_of(unsigned nnodes, uint64_t each, bool apart)
{
	struct world world = { .nnodes = nnodes, .each = each };
	struct sim_space *space;

	world.sim = sim_create(&(struct sim_options){
		.page_shift = 3,
		.limit = (uint32_t)(nnodes * each),
		.aging = PDD_AGING_NONE,
		.nodes_apart = apart,
	});
	space = sim_space_add(world.sim, 0);
	for (unsigned n = 0; n < nnodes; n++) {
		world.regions[n] = sim_region_add(space, each);
		for (uint64_t i = 0; i < each; i++) {
			sim_write(world.regions[n], i, TENS);
			sim_migrate(world.regions[n], i, nodes[n]);
		}
	}
	return world;
}

/* Write to the knob. */
static int set_across(struct sim *sim, uint32_t across)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	int err;

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &tunables), 0);
	tunables.merge_across_nodes = across;
	err = pdd_scanner_set_tunables(&sim->scanner, &tunables);
	if (!err)
		sim->options.nodes_apart = !across;
	sim_verify(sim);
	return err;
}

static uint32_t get_across(const struct sim *sim)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &tunables), 0);
	return tunables.merge_across_nodes;
}

static void assert_figures(const struct world *world, uint64_t shared)
{
	struct pdd_stats stats = sim_stats(world->sim);

	assert_int_equal(stats.pages_shared, shared);
	assert_int_equal(stats.pages_sharing, shared ? world->each * world->nnodes - shared : 0);
	assert_int_equal(stats.counts.pages_volatile, 0);
	assert_int_equal(stats.counts.pages_unshared, 0);
	assert_int_equal(stats.hook_errors, 0);
}

/* Each page shows the frame of its node, or all the same one. */
static void assert_frames(const struct world *world, bool across)
{
	for (unsigned n = 0; n < world->nnodes; n++) {
		const struct sim_frame *frame = world->regions[across ? 0 : n]->pages[0].frame;

		assert_true(across || frame->node == nodes[n]);
		for (uint64_t i = 0; i < world->each; i++)
			assert_ptr_equal(world->regions[n]->pages[i].frame, frame);
	}
}

static void unmerge_all(struct world *world)
{
	int64_t n;

	do {
		n = pdd_scanner_unmerge(&world->sim->scanner, 1 + world->each / 3);
		assert_true(n >= 0);
		sim_verify(world->sim);
	} while (n);
	assert_figures(world, 0);
}

static void run(unsigned nnodes, uint64_t each)
{
	struct world world = world_of(nnodes, each, false);

	sim_passes(world.sim, 3);
	assert_figures(&world, 1);
	assert_frames(&world, true);
	unmerge_all(&world);

	assert_int_equal(set_across(world.sim, 0), 0);
	sim_passes(world.sim, 3);
	assert_figures(&world, nnodes);
	assert_frames(&world, false);
	unmerge_all(&world);

	assert_int_equal(set_across(world.sim, 1), 0);
	sim_passes(world.sim, 3);
	assert_figures(&world, 1);
	sim_destroy(world.sim);
}

/* "-n 100", "-n 10", "-n 8000": pages on each node. */
static void test_rows(void **unused)
{
	for (unsigned nnodes = 2; nnodes <= NODES_MAX; nnodes++) {
		run(nnodes, 100);
		run(nnodes, 10);
		run(nnodes, 8000);
	}
}

/* Both ways: while pages are shared the knob is refused, and nothing changes. What was refused
 * is the whole call, other settings included. The same value is no change. */
static void test_busy_while_shared(void **unused)
{
	for (uint32_t across = 0; across < 2; across++) {
		struct world world = world_of(2, 10, !across);
		struct pdd_tunables tunables = { .size = sizeof(tunables) };

		sim_passes(world.sim, 2);
		assert_int_equal(set_across(world.sim, !across), -EBUSY);
		assert_int_equal(set_across(world.sim, across), 0);
		assert_int_equal(get_across(world.sim), across);

		pdd_scanner_get_tunables(&world.sim->scanner, &tunables);
		tunables.merge_across_nodes = !across;
		tunables.max_page_sharing = 7;
		assert_int_equal(pdd_scanner_set_tunables(&world.sim->scanner, &tunables), -EBUSY);
		pdd_scanner_get_tunables(&world.sim->scanner, &tunables);
		assert_int_equal(tunables.max_page_sharing, 20);
		tunables.merge_across_nodes = 2;
		assert_int_equal(pdd_scanner_set_tunables(&world.sim->scanner, &tunables), -EINVAL);

		sim_passes(world.sim, 2);
		assert_figures(&world, across ? 1 : 2);
		assert_frames(&world, across);
		sim_destroy(world.sim);
	}
}

/* One frame is enough to refuse it: all pages but one are unmerged, in the middle of a pass. */
static void test_busy_until_last(void **unused)
{
	struct world world = world_of(2, 10, false);

	sim_passes(world.sim, 2);
	sim_step(world.sim, 5);
	assert_int_equal(sim_unmerge(world.regions[0], 0, 10), 10);
	assert_int_equal(sim_unmerge(world.regions[1], 0, 9), 9);
	assert_int_equal(set_across(world.sim, 0), -EBUSY);
	assert_int_equal(sim_unmerge(world.regions[1], 9, 1), 1);
	assert_int_equal(set_across(world.sim, 0), 0);
	sim_passes(world.sim, 3);
	assert_figures(&world, 2);
	assert_frames(&world, false);
	sim_destroy(world.sim);
}

/* Nothing is shared, but all pages are in the index as they were with the other setting: different
 * ones, and of each content one on either node. They are found again. */
static void test_index_is_rebuilt(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nodes_apart = true });
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 50);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 50);

	for (uint64_t i = 0; i < 50; i++) {
		sim_write(a, i, 1 + i);
		sim_write(b, i, 1 + i);
		sim_migrate(b, i, 3);
	}
	sim_passes(sim, 70); /* they are old: looked at once in 64 passes */
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 100);
	assert_int_equal(set_across(sim, 1), 0);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 50);
	assert_int_equal(sim_stats(sim).pages_sharing, 50);
	sim_destroy(sim);
}

/* "A stable node is still mapped": by a clone at which no pass has looked yet. */
static void test_busy_while_mapped(void **unused)
{
	struct world world = world_of(2, 10, false);
	struct sim_space *clone;

	sim_passes(world.sim, 2);
	clone = sim_space_clone(world.regions[0]->space);
	sim_unmerge(world.regions[0], 0, 10);
	sim_unmerge(world.regions[1], 0, 10);
	assert_int_equal(sim_stats(world.sim).pages_shared, 0);
	assert_int_equal(sim_stats(world.sim).frames_kept, 1);
	assert_int_equal(set_across(world.sim, 0), -EBUSY);
	sim_space_remove(clone);
	sim_prune(world.sim); /* the frame is asked for, and goes back */
	assert_int_equal(set_across(world.sim, 0), 0);
	sim_passes(world.sim, 3);
	assert_figures(&world, 2);
	sim_destroy(world.sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_busy_while_shared),
		cmocka_unit_test(test_busy_until_last),
		cmocka_unit_test(test_index_is_rebuilt),
		cmocka_unit_test(test_busy_while_mapped),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
