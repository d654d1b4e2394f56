/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_chains.c - known bugs 3, 4 and 35: chains of frames that collapse while
 * somebody is at them, and chains that get more sharers than they may. (33:
 * test_known_bugs_moved.c.)
 *
 * KSM had a node for each chain, which went when one frame was left; who still held a pointer to
 * it used freed memory. Here a frame leads, and what may become stale is which one that is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scanner_internal.h"
#include "sim.h"

#define LIMIT 2u
#define CHAIN_MAX 512u

static bool is_live(const struct sim *sim, const struct pdd_frame *frame)
{
	for (const struct sim_frame *f = sim->frames; f; f = f->next)
		if (&f->frame == frame)
			return !f->freed;
	return false;
}

/* The frames of a chain, and whether one of them is that. */
static bool collect(struct pdd_frame *leader, struct pdd_frame **chain, unsigned *n,
		    const struct pdd_frame *that)
{
	struct pdd_frame *dup = leader->priv.dups;
	bool found = leader == that;

	*n = 0;
	chain[(*n)++] = leader;
	while (dup && (*n == 1 || dup != leader->priv.dups)) {
		assert_in_range(*n, 1, CHAIN_MAX - 1);
		chain[(*n)++] = dup;
		found |= dup == that;
		dup = dup->priv.node.u.dup.next;
	}
	return found;
}

/* Known bug 4: the two pointers that a lookup gave, chain and frame, were confused. Whoever asks
 * for the leader of a frame gets one that lives; it is the frame itself if and only if that is no
 * dup; a search by content finds the same one; and what is picked there has room, if any has. */
static void assert_leader(struct sim *sim, struct sim_frame *f)
{
	struct pdd_frame *frame = &f->frame, *leader = pddi_stable_leader(&sim->scanner, frame);
	struct pdd_frame *chain[CHAIN_MAX], *picked;
	uint32_t limit = sim->options.limit;
	bool room = false;
	unsigned n;

	assert_true(is_live(sim, leader));
	assert_false(pdd_frame_is_dup(leader));
	assert_int_equal(leader == frame, !pdd_frame_is_dup(frame));
	assert_ptr_equal(pddi_stable_find(&sim->scanner, frame->priv.node.checksum,
					  frame_partition(frame), f->data, NULL),
			 leader);
	assert_true(collect(leader, chain, &n, frame));
	for (unsigned i = 0; i < n; i++) {
		assert_true(is_live(sim, chain[i]));
		room |= pdd_frame_has_room(chain[i], limit);
	}
	picked = pdd_chain_pick(leader, limit);
	assert_int_equal(picked != NULL, room);
	if (picked)
		assert_true(is_live(sim, picked) && pdd_frame_has_room(picked, limit));
}

static void assert_leaders(struct sim *sim)
{
	struct sim_frame *f;

	for (f = sim->frames; f; f = f->next)
		if (f->gone && !f->freed)
			return; /* to ask for it would change the chain */
	for (f = sim->frames; f; f = f->next)
		if (!f->freed)
			assert_leader(sim, f);
}

/* Sharers beyond the limit, of all frames. */
static uint64_t excess(const struct sim *sim, uint32_t limit)
{
	uint64_t n = 0;

	for (const struct sim_frame *f = sim->frames; f; f = f->next)
		if (!f->dropped && pdd_frame_sharers(&f->frame) > limit)
			n += pdd_frame_sharers(&f->frame) - limit;
	return n;
}

/* ---- 3, 4: chains collapse ---- */

/* `n` frames of one content, two sharers each; frame `room` is to lose one; those in `gone` are
 * gone when the search for another page of that content meets them. */
static void collapse(enum sim_checksum checksum, unsigned n, unsigned gone, unsigned room)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = LIMIT, .no_refile = true,
		.checksum = checksum, .nroots = 1, .aging = PDD_AGING_NONE });
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 2 * n);
	struct sim_region *others = sim_region_add(sim_space_add(sim, 0), 4);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 2);

	for (uint64_t i = 0; i < 2 * n; i++)
		sim_write(a, i, 1);
	for (uint64_t i = 0; i < 4; i++) /* if checksums collide, on the way */
		sim_write(others, i, 10 + i / 2);
	sim_settle(sim, 80);
	assert_int_equal(sim_stats(sim).stable_node_dups, n == 1 ? 0 : n);
	assert_leaders(sim);
	sim_write(b, 0, 1);
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 0, seen = 0; i < 2 * n; i++) { /* the second sharer of each frame */
		bool second = false;

		for (uint64_t j = 0; j < i; j++)
			second |= a->pages[j].frame == a->pages[i].frame;
		if (second && seen == room)
			sim_write(a, i, 20);
		else if (second && gone >> seen & 1)
			a->pages[i].frame->gone = true;
		seen += second;
	}
	for (unsigned i = 0; i < 4; i++) {
		sim_pass(sim, 3);
		assert_leaders(sim);
	}
	assert_true(sim_is_shared(b, 0));
	assert_false(b->pages[0].frame->gone);
	assert_int_equal(excess(sim, LIMIT), 0);
	sim_destroy(sim);
}

static void test_3_collapse_in_search(void **unused)
{
	for (unsigned n = 1; n <= 5; n++)
		for (unsigned gone = 0; gone < 1u << n; gone++)
			for (unsigned room = 0; room < n; room++)
				for (enum sim_checksum c = 0; c <= SIM_CHECKSUM_2_BITS; c++)
					if (!(gone >> room & 1))
						collapse(c, n, gone, room);
}

/* The same when a prune empties frames: of `n` frames with 4 sharers each all lose one, and number
 * `emptiest` all but one. That one moves to another frame, and if its own was the leader, another
 * leads while the prune is still at the chain. */
static void empty_one(unsigned n, unsigned emptiest, uint64_t budget)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 4, .aging = PDD_AGING_NONE });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 4 * n);
	const struct sim_frame *frames[8];
	unsigned nframes = 0, lost[8] = { 0 };
	uint64_t prunes;

	for (uint64_t i = 0; i < 4 * n; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < 4 * n; i++) {
		unsigned f = 0;

		while (f < nframes && frames[f] != region->pages[i].frame)
			f++;
		if (f == nframes)
			frames[nframes++] = region->pages[i].frame;
		if (lost[f] < (f == emptiest ? 3 : 1)) {
			lost[f]++;
			sim_write(region, i, 10 + i);
		}
	}
	sim_pass(sim, UINT64_MAX);
	prunes = sim_stats(sim).prunes;
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	while (sim_stats(sim).prunes == prunes) {
		sim_step(sim, budget);
		assert_leaders(sim);
	}
	assert_int_equal(sim_stats(sim).counts.refiles, 1);
	assert_int_equal(sim_stats(sim).pages_shared, n - 1);
	sim_destroy(sim);
}

static void test_4_leader_is_emptied(void **unused)
{
	for (unsigned n = 2; n <= 5; n++)
		for (unsigned emptiest = 0; emptiest < n; emptiest++)
			for (uint64_t budget = 1; budget <= 100; budget *= 10)
				empty_one(n, emptiest, budget);
}

/* ---- 3, 4, 35: the reproducer from 2017 ---- */

/* What happens to one of the processes: it is written, moved to another node, or killed and started
 * again; or its frame is moved by somebody who tells. */
static void befall(struct sim *sim, uint64_t processes, uint64_t values)
{
	uint64_t victim = sim_random(sim, processes);
	struct sim_space *space = sim->spaces;
	struct sim_region *region;
	uint16_t node = (uint16_t)sim_random(sim, 4);

	while (victim--)
		space = space->next;
	region = space->regions;
	switch (sim_random(sim, 8)) {
	case 0:
		sim_space_remove(space);
		region = sim_region_add(sim_space_add(sim, 0), 1);
		sim_write(region, 0, 1 + sim_random(sim, values));
		break;
	case 1:
	case 2:
		sim_migrate(region, 0, node);
		break;
	case 3:
		sim_migrate(region, 0, node);
		if (region->pages[0].frame && !region->pages[0].frame->dropped)
			assert_int_equal(pdd_frame_moved(&sim->scanner,
							 &region->pages[0].frame->frame, node),
					 0);
		break;
	case 4:
		if (region->pages[0].frame && sim_random(sim, 20) == 0)
			region->pages[0].frame->gone = true;
		break;
	default:
		sim_write(region, 0, 1 + sim_random(sim, values));
	}
}

/* Many processes of one page each, on 4 nodes kept apart, a limit of 2, a prune after each pass. */
static void reproduce(enum sim_checksum checksum, uint64_t processes, uint64_t values,
		      unsigned rounds)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = LIMIT, .nodes_apart = true,
		.checksum = checksum, .nroots = 16, .aging = PDD_AGING_NONE });
	bool chained = false;

	for (uint64_t i = 0; i < processes; i++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1);

		sim_write(region, 0, 1 + sim_random(sim, values));
		sim_migrate(region, 0, (uint16_t)sim_random(sim, 4));
	}
	for (unsigned i = 0; i < rounds; i++) {
		for (uint64_t n = sim_random(sim, 12); n; n--)
			befall(sim, processes, values);
		sim_step(sim, 1 + sim_random(sim, processes));
		assert_leaders(sim);
		assert_int_equal(excess(sim, LIMIT), 0);
		chained |= sim_stats(sim).stable_node_chains > 0;
	}
	assert_true(chained && sim_stats(sim).moved_frames);
	sim_destroy(sim);
}

/* Known bug 3: the lookup collapsed a chain, its caller went on with the chain's node. Known bug
 * 35: a frame that came from another node was put into a chain without being counted. */
static void test_3_reproducer(void **unused)
{
	reproduce(SIM_CHECKSUM_DEFAULT, 256, 32, 400);
	reproduce(SIM_CHECKSUM_2_BITS, 48, 6, 600);
	reproduce(SIM_CHECKSUM_ZERO, 32, 4, 600);
}

/* ---- 35: no frame over the limit, save by forks ---- */

/* Two full frames are cloned, so that each has more sharers than it may, and one of them moves to
 * another node, into a chain that is there. Nobody else joins it, all that are beyond the limit
 * were counted, and pages that come find places elsewhere. */
static void fork_and_move(uint32_t limit, unsigned forks, bool told)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit, .nodes_apart = true,
		.aging = PDD_AGING_NONE });
	struct sim_space *parent = sim_space_add(sim, 0);
	struct sim_region *a = sim_region_add(parent, 2 * limit);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 2 * limit - 1);
	struct sim_frame *moved;

	for (uint64_t i = 0; i < 2 * limit; i++)
		sim_write(a, i, 1);
	for (uint64_t i = 0; i < limit; i++) { /* a chain of one on node 1, full */
		sim_write(b, i, 1);
		sim_migrate(b, i, 1);
	}
	sim_passes(sim, 2);
	for (unsigned i = 0; i < forks; i++)
		sim_space_clone(parent);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.adoptions, 2 * limit * forks);
	assert_int_equal(sim_stats(sim).counts.adoptions_over_limit, 2 * limit * forks);
	assert_int_equal(excess(sim, limit), 2 * limit * forks);
	moved = a->pages[0].frame;
	sim_migrate(a, 0, 1);
	if (told)
		assert_int_equal(pdd_frame_moved(&sim->scanner, &moved->frame, 1), 0);
	for (uint64_t i = limit; i < 2 * limit - 1; i++) {
		sim_write(b, i, 1);
		sim_migrate(b, i, 1);
	}
	sim_passes(sim, 3);
	assert_int_equal(pdd_frame_sharers(&moved->frame), limit * (1 + forks));
	assert_int_equal(excess(sim, limit), 2 * limit * forks);
	for (uint64_t i = limit; i < 2 * limit - 1; i++) /* a lone page finds no partner */
		assert_int_equal(sim_is_shared(b, i), limit > 2);
	sim_write(a, 0, 2); /* it has still too many */
	sim_passes(sim, 2);
	assert_int_equal(pdd_frame_sharers(&moved->frame), limit * (1 + forks) - 1);
	sim_destroy(sim);
}

static void test_35_only_forks_exceed_the_limit(void **unused)
{
	for (uint32_t limit = 2; limit <= 4; limit++)
		for (unsigned forks = 1; forks <= 3; forks++)
			for (unsigned told = 0; told < 2; told++)
				fork_and_move(limit, forks, told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_3_collapse_in_search),
		cmocka_unit_test(test_4_leader_is_emptied),
		cmocka_unit_test(test_3_reproducer),
		cmocka_unit_test(test_35_only_forks_exceed_the_limit),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
