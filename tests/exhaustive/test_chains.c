/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_chains.c - every chain of up to 6 frames with the limits 2 to 4, by the number of sharers
 * of each frame; with the limits 5 to 7 the dups come in one order only. Every chain of up to 3
 * frames (4 with the limit 2) that have reservations too, and may be over the limit by one.
 *
 * Each of them is sorted and refiled, and each single operation is tried on each, as it is and
 * after sorting; with up to 5 frames also each pair of pages that come or go at once. PDD_DEPTH: see
 * depth.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>

#include <pagededup/chain.h>

#include "depth.h"

#define USUAL_FRAMES 6u
#define FRAMES (USUAL_FRAMES + DEPTH_MAX)
#define PLACES 8u
#define PAIRS 5u /* up to this many, two frames change at once */

enum change {
	JOIN = 0,
	LEAVE = 1,
	RESERVE = 2,
	UNRESERVE = 3,
	CHANGES = 4,
};

/* The chain that is tried: the first frame leads, the others are inserted in this order. */
static unsigned nframes, nsharers[FRAMES], nreserved[FRAMES];
static uint32_t limit;

/* It is built here, again and again; each frame has a spare item. */
static struct pdd_frame frames[FRAMES], *leader;
static struct pdd_item items[FRAMES][PLACES + 1];
static unsigned chained; /* frames that are in it */

static struct pdd_frame *next_of(const struct pdd_frame *dup)
{
	return dup->priv.node.u.dup.next;
}

static unsigned ring(struct pdd_frame **order)
{
	struct pdd_frame *dup = leader->priv.dups;
	unsigned n = 0;

	if (!dup)
		return 0;
	do {
		order[n++] = dup;
		dup = next_of(dup);
	} while (dup != leader->priv.dups && n < FRAMES);
	return n;
}

/* What sorting goes by: the places of a frame that has room, the others are all equal. */
static uint64_t fullness(const struct pdd_frame *frame)
{
	return pdd_frame_has_room(frame, limit) ? pdd_frame_places(frame) : 0;
}

/* The chain is valid, its dups with room are a prefix, picking is right. */
static void verify(void)
{
	struct pdd_frame *order[FRAMES], *pick = pdd_chain_pick(leader, limit);
	bool room = pdd_frame_has_room(leader, limit);
	unsigned n = ring(order);

	if (pdd_chain_check(leader, NULL) != chained || n + 1 != chained)
		fail_msg("not valid, or not %u frames", chained);
	for (unsigned i = 0; i < n; i++) {
		if (i && pdd_frame_has_room(order[i], limit) &&
		    !pdd_frame_has_room(order[i - 1], limit))
			fail_msg("dup %u has room, the one before has none", i);
		room |= pdd_frame_has_room(order[i], limit);
	}
	if (pick ? !pdd_frame_has_room(pick, limit) : room)
		fail_msg("picked one without room, or none though there is room");
}

/* The dups are in order; picking takes the fullest, of equals the leader. */
static bool is_sorted(void)
{
	struct pdd_frame *order[FRAMES], *pick = pdd_chain_pick(leader, limit);
	uint64_t fullest = fullness(leader);
	unsigned n = ring(order);

	for (unsigned i = 0; i < n; i++) {
		if (i && fullness(order[i]) > fullness(order[i - 1]))
			return false;
		if (fullness(order[i]) > fullest)
			fullest = fullness(order[i]);
	}
	return !pick ||
	       (fullness(pick) == fullest && (pick == leader || fullness(leader) < fullest));
}

static void sort(void)
{
	struct pdd_frame *was[FRAMES], *is[FRAMES];
	unsigned at[FRAMES], n = ring(was);

	pdd_chain_sort(leader, limit);
	verify();
	if (!is_sorted() || ring(is) != n)
		fail_msg("not sorted");
	for (unsigned i = 0; i < n; i++)
		at[was[i] - frames] = i;
	for (unsigned i = 1; i < n; i++) {
		if (fullness(is[i]) == fullness(is[i - 1]) &&
		    at[is[i] - frames] < at[is[i - 1] - frames])
			fail_msg("equal dups changed their order");
	}
}

static void build(uint32_t limit_then)
{
	for (unsigned i = 0; i < nframes; i++) {
		pdd_frame_init(&frames[i], 1, 2, 3);
		for (unsigned k = 0; k < nsharers[i]; k++)
			pdd_frame_insert_sharer(&frames[i], &items[i][k]);
		for (unsigned k = 0; k < nreserved[i]; k++)
			pdd_frame_reserve(&frames[i]);
		if (i)
			pdd_chain_insert(&frames[0], &frames[i], limit_then);
	}
	leader = &frames[0];
	chained = nframes;
}

/* Build a chain that keeps its invariants: as it is inserted, or sorted. */
static void build_valid(bool sorted)
{
	/* Inserted without limit, it is in an order that must be changed. */
	build(sorted ? UINT32_MAX : limit);
	if (sorted)
		sort();
	else
		verify();
}

/* Change the places of frame i, if that is possible; the chain is not told. */
static bool change(unsigned i, enum change what)
{
	switch (what) {
	case JOIN:
		pdd_frame_insert_sharer(&frames[i], &items[i][nsharers[i]]);
		return true;
	case LEAVE:
		if (nsharers[i])
			pdd_frame_remove_sharer(&frames[i], &items[i][0]);
		return nsharers[i];
	case RESERVE:
		pdd_frame_reserve(&frames[i]);
		return true;
	case UNRESERVE:
		if (nreserved[i])
			pdd_frame_unreserve(&frames[i]);
		return nreserved[i];
	case CHANGES:
		break;
	}
	return false;
}

/*
 * Whether one step restores the order when frame i has changed: it then has to pass one neighbour
 * at most. One that had no places comes to the head.
 */
static bool one_step_is_enough(unsigned i)
{
	unsigned with_room = 0, equal = 0;

	for (unsigned k = 1; k < nframes; k++) {
		with_room += nsharers[k] + nreserved[k] - 1 < limit - 1;
		equal += nsharers[k] + nreserved[k] == nsharers[i] + nreserved[i];
	}
	return nsharers[i] + nreserved[i] ? equal <= 2 : with_room <= 1;
}

static void try_changes(bool sorted)
{
	for (unsigned i = 0; i < nframes; i++) {
		for (unsigned what = 0; what < CHANGES; what++) {
			build_valid(sorted);
			if (!change(i, (enum change)what))
				continue;
			pdd_chain_update(leader, &frames[i], limit);
			verify();
			if (sorted && (i == 0 || one_step_is_enough(i)) && !is_sorted())
				fail_msg("change %u of frame %u broke the order", what, i);
		}
	}
}

/* A page comes to or leaves frame i, which must not get room by that; the chain is not told. */
static bool change_without_new_room(unsigned i, enum change what)
{
	bool had_room = pdd_frame_has_room(&frames[i], limit);

	return change(i, what) && (had_room || !pdd_frame_has_room(&frames[i], limit));
}

/* Frames that changed but got no room may be told together, in any order. */
static void try_pairs(bool sorted)
{
	for (unsigned n = 0; n < nframes * nframes * 4; n++) {
		unsigned i = n / 4 / nframes, k = n / 4 % nframes;

		if (i == k)
			continue;
		build_valid(sorted);
		if (!change_without_new_room(i, n & 1 ? JOIN : LEAVE) ||
		    !change_without_new_room(k, n & 2 ? JOIN : LEAVE))
			continue;
		pdd_chain_update(leader, &frames[i], limit);
		pdd_chain_update(leader, &frames[k], limit);
		verify();
	}
}

/* A frame leaves the chain; it is a chain of its own then. */
static void take_out(struct pdd_frame *frame)
{
	if (frame == leader)
		leader = pdd_chain_handover(leader);
	else
		pdd_chain_remove(leader, frame);
	chained--;
	if (pdd_chain_check(frame, NULL) != 1)
		fail_msg("a frame that left is not alone");
	if (leader)
		verify();
	else if (chained)
		fail_msg("no heir");
}

static void try_removals(bool sorted)
{
	for (unsigned i = 0; i < nframes; i++) {
		build_valid(sorted);
		take_out(&frames[i]);
		if (!leader)
			continue;
		if (sorted && !is_sorted() && i)
			fail_msg("removal of dup %u broke the order", i);
		pdd_chain_insert(leader, &frames[i], limit);
		chained++;
		verify();
		while (leader)
			take_out(leader);
	}
}

/* Whether there is a frame of which all sharers would fit into the others. */
static bool can_refile(void)
{
	for (unsigned i = 0; i < nframes; i++) {
		uint64_t room = 0;

		if (frames[i].priv.nreserved || !pdd_frame_has_room(&frames[i], limit))
			continue;
		for (unsigned k = 0; k < nframes; k++) {
			if (k != i && pdd_frame_has_room(&frames[k], limit))
				room += limit - pdd_frame_places(&frames[k]);
		}
		if (room >= pdd_frame_sharers(&frames[i]))
			return true;
	}
	return false;
}

/* The plan names an emptiest frame without reservations, and a fullest other one with room. */
static void verify_plan(const struct pdd_frame *source, const struct pdd_frame *target)
{
	bool good = can_refile() && source != target && !source->priv.nreserved &&
		    pdd_frame_has_room(source, limit) && pdd_frame_has_room(target, limit);

	for (unsigned i = 0; i < nframes; i++) {
		if (!frames[i].priv.nreserved && pdd_frame_has_room(&frames[i], limit))
			good &= pdd_frame_sharers(source) <= pdd_frame_sharers(&frames[i]);
		if (&frames[i] != source)
			good &= fullness(target) >= fullness(&frames[i]);
	}
	if (!good)
		fail_msg("the plan to refile is bad");
}

/* One sharer moves; an emptied frame leaves. Returns the source if it has more. */
static struct pdd_frame *move(struct pdd_frame *source, struct pdd_frame *target)
{
	struct pdd_item *item = source->priv.sharers;

	pdd_frame_remove_sharer(source, item);
	pdd_frame_insert_sharer(target, item);
	if (pdd_frame_places(target) > limit)
		fail_msg("moved above the limit");
	pdd_chain_update(leader, source, limit);
	pdd_chain_update(leader, target, limit);
	verify();
	if (pdd_frame_sharers(source))
		return source;
	take_out(source);
	return NULL;
}

/* What is left over cannot be stored in fewer frames; those over the limit stay as they were. */
static void verify_refiled(bool reserved)
{
	unsigned within = 0, sharers = 0, used = 0, needed = 0;

	for (unsigned i = 0; i < nframes; i++) {
		bool over = nsharers[i] + nreserved[i] > limit;

		if (over && pdd_frame_sharers(&frames[i]) != nsharers[i])
			fail_msg("a frame over the limit was touched");
		if (!over)
			within += nsharers[i];
		needed += over && nsharers[i];
		used += pdd_frame_sharers(&frames[i]) != 0;
		sharers += nsharers[i] - pdd_frame_sharers(&frames[i]);
	}
	needed += (within + limit - 1) / limit;
	if (sharers || can_refile() || (!reserved && used != needed))
		fail_msg("%u frames where %u would do, or something was lost", used, needed);
}

static void try_refile(bool sorted)
{
	struct pdd_frame *source, *target, *begun = NULL;
	unsigned moves = 0;
	bool reserved = false;

	build_valid(sorted);
	for (unsigned i = 0; i < nframes; i++)
		reserved |= nreserved[i];
	while (leader && pdd_chain_plan_refile(leader, &source, &target, limit)) {
		verify_plan(source, target);
		if (begun && begun != source)
			fail_msg("another source, and the one before is not empty");
		begun = move(source, target);
		if (sorted && !reserved && !is_sorted())
			fail_msg("a move broke the order");
		if (++moves > FRAMES * PLACES)
			fail_msg("refiling does not end");
	}
	verify_refiled(reserved);
}

static unsigned tried;
static unsigned cases; /* chains that were tried */

/* Try all chains of nframes frames that begin with the first i. */
static void try_all(unsigned i, bool one_order, unsigned places_max, bool reservations)
{
	if (i == nframes) {
		tried++;
		cases++;
		for (unsigned sorted = 0; sorted < 2; sorted++) {
			try_changes(sorted);
			try_removals(sorted);
			if (nframes <= PAIRS)
				try_pairs(sorted);
			try_refile(sorted);
		}
		return;
	}
	for (unsigned n = one_order && i > 1 ? nsharers[i - 1] : 0; n <= places_max; n++) {
		for (unsigned r = 0; r <= (reservations ? places_max - n : 0); r++) {
			nsharers[i] = n;
			nreserved[i] = r;
			try_all(i + 1, one_order, places_max, reservations);
		}
	}
}

static void test_every_order(void **unused)
{
	for (limit = 2; limit <= 4; limit++) {
		unsigned expected = 1;

		for (nframes = 1; nframes <= USUAL_FRAMES + depth(); nframes++) {
			tried = 0;
			try_all(0, false, limit, false);
			expected *= limit + 1;
			assert_int_equal(tried, expected);
		}
		printf("limit %u: %u chains of %u frames\n", limit, tried,
		       USUAL_FRAMES + depth());
	}
}

static void test_larger_limits(void **unused)
{
	for (limit = 5; limit <= 7; limit++) {
		for (nframes = 1; nframes <= USUAL_FRAMES + depth(); nframes++) {
			tried = 0;
			try_all(0, true, limit, false);
		}
		printf("limit %u: %u chains of %u frames\n", limit, tried,
		       USUAL_FRAMES + depth());
	}
	/* The leader; and 5 or 6 of 8 numbers, with repetition. */
	assert_int_equal(tried, 8 * (depth() ? 1716 : 792));
}

static void test_reservations(void **unused)
{
	for (limit = 2; limit <= 4; limit++) {
		unsigned last = limit == 2 ? 4 : 3;

		for (nframes = 1; nframes <= last; nframes++) {
			tried = 0;
			try_all(0, false, limit + 1, true);
		}
		printf("limit %u: %u chains of %u frames\n", limit, tried, last);
	}
	assert_int_equal(tried, 21 * 21 * 21);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_larger_limits),
		cmocka_unit_test(test_reservations),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	printf("depth %u: %u cases\n", depth(), cases);
	return failed;
}
