/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_moved.c - known bug 33: a frame moves to another NUMA node.
 *
 * KSM puts such a node on a list until its page is scanned, and a proposed change kept the key
 * where the list had its links: it was lost, and the node was inserted anywhere. Here a frame
 * goes from one part of the index to the other at once. Its key is what its content says (the
 * simulation checks that after each step, and pdd_scanner_check() the order by it).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "scanner_internal.h"
#include "sim.h"

#define FRAMES 3u

/* What is on the other node already. */
enum there {
	NOTHING = 0,
	ROOM = 1,  /* a frame of this content, which takes one more */
	FULL = 2,  /* one that does not */
	WAITING = 3, /* a page of this content, in the index */
	THERES = 4,
};

struct world {
	struct sim *sim;
	struct sim_region *a, *b; /* pages of node 0, of node 1 */
	struct sim_frame *frames[FRAMES];
	unsigned nframes;
};

/* A chain of `n` frames of content 1 on node 0, two sharers each, and other contents on both nodes
 * before and behind it, some of the same checksum. */
static struct world create(enum sim_checksum checksum, unsigned n, enum there there)
{
	struct world w = { .sim = sim_create(&(struct sim_options){
		.limit = 2, .no_refile = true, .nodes_apart = true, .checksum = checksum,
		.nroots = 1, .aging = PDD_AGING_NONE }) };

	w.a = sim_region_add(sim_space_add(w.sim, 0), 16);
	w.b = sim_region_add(sim_space_add(w.sim, 0), 16);
	for (uint64_t i = 0; i < 16; i++) {
		sim_migrate(w.b, i, 1);
		if (i >= 8) {
			sim_write(w.a, i, 10 + i / 2);
			sim_write(w.b, i, 10 + i / 2);
		}
	}
	for (uint64_t i = 0; i < 2 * n; i++)
		sim_write(w.a, i, 1);
	for (uint64_t i = 0; i < 2 && there != NOTHING; i++)
		if (i == 0 || there != WAITING)
			sim_write(w.b, i, 1);
	sim_settle(w.sim, 80);
	for (uint64_t i = 0; i < 2 * n; i++) {
		unsigned f = 0;

		while (f < w.nframes && w.frames[f] != w.a->pages[i].frame)
			f++;
		if (f == w.nframes)
			w.frames[w.nframes++] = w.a->pages[i].frame;
	}
	assert_int_equal(w.nframes, n);
	if (there == ROOM) {
		sim_write(w.b, 1, 30);
		sim_pass(w.sim, UINT64_MAX);
	}
	return w;
}

/* The number of frames of a content on a node; 0 if there are none. Whether `that` is one of
 * them. */
static unsigned chain_length(struct world *w, const struct sim_frame *that, uint16_t node,
			     bool *found)
{
	const struct pdd_frame *leader = pddi_stable_find(&w->sim->scanner,
							  that->frame.priv.node.checksum,
							  partition_of(0, node), that->data, NULL);
	const struct pdd_frame *frame = leader;
	int64_t n = leader ? pdd_chain_check(leader, NULL) : 0;

	*found = false;
	for (int64_t i = 0; i < n; i++) {
		assert_int_equal(frame->priv.numa_node, node);
		*found |= frame == &that->frame;
		frame = i == 0 ? leader->priv.dups : frame->priv.node.u.dup.next;
	}
	return (unsigned)n;
}

static void assert_moved(struct world *w, const struct sim_frame *moved, enum there there)
{
	unsigned before = there == ROOM || there == FULL;
	struct pdd_stats stats = sim_stats(w->sim);
	bool found;

	assert_int_equal(chain_length(w, moved, 1, &found), before + 1);
	assert_true(found);
	assert_int_equal(chain_length(w, moved, 0, &found), w->nframes - 1);
	assert_false(found);
	assert_int_equal(stats.moved_frames, 1);
	assert_int_equal(stats.stable_node_chains, (before == 1) + (w->nframes > 2));
	assert_int_equal(stats.stable_node_dups,
			 (before == 1 ? 2 : 0) + (w->nframes > 2 ? w->nframes - 1 : 0));
	for (uint64_t i = 0; i < 2 * w->nframes; i++) {
		assert_true(sim_is_shared(w->a, i));
		assert_int_equal(item_node(sim_item(w->a, i)), w->a->pages[i].frame == moved);
	}
}

/* A sharer of the moved frame leaves it; then one page of that content comes on each node. */
static void assert_newcomers_part(struct world *w, const struct sim_frame *moved, enum there there)
{
	uint64_t sharer = 0;

	while (w->a->pages[sharer].frame != moved)
		sharer++;
	sim_write(w->a, sharer, 31);
	sim_write(w->b, 5, 1);
	sim_write(w->a, 7, 1);
	sim_passes(w->sim, 4);
	assert_true(sim_is_shared(w->b, 5) || there == WAITING);
	assert_true(there == ROOM || moved->maps == 2);
	/* All places on node 0 are taken. */
	assert_false(sim_is_shared(w->a, 7));
	sim_settle(w->sim, 80);
}

static void move(enum sim_checksum checksum, unsigned n, unsigned which, enum there there,
		 bool told)
{
	struct world w = create(checksum, n, there);
	struct sim_frame *moved = w.frames[which];
	uint64_t sharer = 0;

	while (w.a->pages[sharer].frame != moved)
		sharer++;
	sim_migrate(w.a, sharer, 1);
	if (told) {
		assert_int_equal(pdd_frame_moved(&w.sim->scanner, &moved->frame, 1), 0);
		sim_verify(w.sim);
		assert_moved(&w, moved, there);
		/* Told again, nothing happens, nor when the pass finds it. */
		assert_int_equal(pdd_frame_moved(&w.sim->scanner, &moved->frame, 1), 0);
	}
	sim_pass(w.sim, 1);
	assert_moved(&w, moved, there);
	assert_newcomers_part(&w, moved, there);
	sim_destroy(w.sim);
}

static void test_33_frame_moves(void **unused)
{
	for (enum sim_checksum checksum = 0; checksum <= SIM_CHECKSUM_2_BITS; checksum++)
		for (unsigned n = 1; n <= FRAMES; n++)
			for (unsigned which = 0; which < n; which++)
				for (enum there there = 0; there < THERES; there++)
					for (unsigned told = 0; told < 2; told++)
						move(checksum, n, which, there, told);
}

/* A frame with room that comes calls for the page of its content that waits on that node: it joins
 * at the next look at it, which is in the next pass, however old the page is. */
static void test_33_calls_who_waits(void **unused)
{
	for (unsigned told = 0; told < 2; told++) {
		struct sim *sim = sim_create(&(struct sim_options){ .nodes_apart = true });
		struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 2);
		struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 1);

		sim_write(a, 0, 1);
		sim_write(a, 1, 1);
		sim_write(b, 0, 1);
		sim_migrate(b, 0, 1);
		sim_passes(sim, 150);
		assert_int_equal(sim_reason(b, 0), PDD_REASON_UNIQUE);
		sim_migrate(a, 0, 1);
		if (told)
			assert_int_equal(pdd_frame_moved(&sim->scanner,
							 &a->pages[0].frame->frame, 1),
					 0);
		else
			sim_step(sim, 1); /* page 0 of a is come by */
		assert_int_equal(sim_stats(sim).counts.pages_due, 1);
		sim_pass(sim, UINT64_MAX);
		assert_true(sim_is_shared(b, 0));
		assert_ptr_equal(b->pages[0].frame, a->pages[0].frame);
		assert_int_equal(pdd_frame_moved(&sim->scanner, &a->pages[0].frame->frame,
						 PDD_NODES_MAX),
				 -EINVAL);
		sim_destroy(sim);
	}
}

/* Frames go to and fro between all nodes that there can be, and back. */
static void test_33_to_and_fro(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 3, .nodes_apart = true,
		.checksum = SIM_CHECKSUM_2_BITS, .nroots = 2, .aging = PDD_AGING_NONE });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);

	for (uint64_t i = 0; i < 40; i++)
		sim_write(region, i, 1 + i % 5);
	sim_settle(sim, 80);
	for (unsigned round = 0; round < 1500; round++) {
		uint64_t page = sim_random(sim, 40);
		uint16_t node = round % 3 ? (uint16_t)sim_random(sim, 3)
					  : (uint16_t)sim_random(sim, PDD_NODES_MAX);

		sim_migrate(region, page, node);
		if (region->pages[page].frame && round % 2)
			assert_int_equal(pdd_frame_moved(&sim->scanner,
							 &region->pages[page].frame->frame, node),
					 0);
		else
			sim_step(sim, 1 + sim_random(sim, 40));
		sim_verify(sim);
		if (round % 8 == 0)
			sim_write(region, page, 1 + sim_random(sim, 5));
	}
	for (uint64_t i = 0; i < 40; i++)
		sim_migrate(region, i, 7);
	sim_passes(sim, 3);
	sim_settle(sim, 80);
	assert_true(sim_stats(sim).counts.pages_unshared <= 5); /* one of each content */
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_33_frame_moves),
		cmocka_unit_test(test_33_calls_who_waits),
		cmocka_unit_test(test_33_to_and_fro),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
