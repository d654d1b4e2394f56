/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_chain.c - chains at random: pages join, places are reserved and given back, sharers leave,
 * dups and leaders come and go, the limit changes, sharers are refiled. The invariants of chain.c
 * hold after each operation; above all, if any frame has room, picking finds one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include <pagededup/chain.h>

#include "frame_internal.h"
#include "sim.h"

#define FRAMES 12u
#define ITEMS 80u
#define MANY 1000u

static struct pdd_frame frames[FRAMES], *leader;
static bool chained[FRAMES]; /* in the chain, the leader included */
static struct pdd_item items[ITEMS];
static bool sharing[ITEMS];
static uint64_t state;
static uint32_t limit;
static bool unsorted; /* the limit changed since the chain was sorted */

static uint64_t dice(uint64_t below)
{
	return sim_random_of(&state) % below;
}

static struct pdd_frame *owner(const struct pdd_item *item)
{
	return item->priv.node.u.member.owner;
}

/* The dups in the order of the ring. */
static unsigned ring(const struct pdd_frame *of, struct pdd_frame **order)
{
	unsigned n = 0;

	if (!of->priv.dups)
		return 0;
	do {
		order[n] = n ? order[n - 1]->priv.node.u.dup.next : of->priv.dups;
		n++;
	} while (order[n - 1]->priv.node.u.dup.next != of->priv.dups);
	return n;
}

/* What sorting goes by: the places of a frame that has room, the others are all equal. */
static uint64_t fullness(const struct pdd_frame *frame)
{
	return pdd_frame_has_room(frame, limit) ? pdd_frame_places(frame) : 0;
}

static void verify_pick(unsigned ndups, struct pdd_frame *const *dups)
{
	struct pdd_frame *pick = pdd_chain_pick(leader, limit);
	bool room = pdd_frame_has_room(leader, limit);

	if (pick)
		assert_true(pdd_frame_has_room(pick, limit));
	if (unsorted)
		return;
	for (unsigned i = 0; i < ndups; i++) {
		bool dup_has_room = pdd_frame_has_room(dups[i], limit);

		if (i && dup_has_room && !pdd_frame_has_room(dups[i - 1], limit))
			fail_msg("dup %u has room, the one before has none", i);
		room |= dup_has_room;
	}
	assert_int_equal(pick != NULL, room);
}

static void verify(void)
{
	struct pdd_frame *dups[FRAMES];
	int64_t n = 0;
	const char *why = NULL;

	for (unsigned i = 0; i < FRAMES; i++) {
		n += chained[i];
		assert_int_equal(pdd_frame_is_dup(&frames[i]), chained[i] && &frames[i] != leader);
		if (pdd_frame_sharers(&frames[i]) == 0)
			assert_null(frames[i].priv.sharers);
	}
	if (!leader) {
		assert_int_equal(n, 0);
		return;
	}
	assert_int_equal(pdd_chain_check(leader, &why), n);
	verify_pick(ring(leader, dups), dups);
}

/* Link a page to any frame of the chain: over the limit too, as after a fork. */
static void adopt(struct pdd_frame *frame)
{
	uint64_t i = dice(ITEMS);

	if (!frame || sharing[i])
		return;
	pdd_frame_insert_sharer(frame, &items[i]);
	sharing[i] = true;
	if (chained[frame - frames])
		pdd_chain_update(leader, frame, limit);
}

static void unreserve(struct pdd_frame *frame)
{
	if (!frame->priv.nreserved)
		return;
	pdd_frame_unreserve(frame);
	if (chained[frame - frames])
		pdd_chain_update(leader, frame, limit);
}

/* A frame takes a page: a place is reserved first, and sometimes kept for a while. */
static void join(struct pdd_frame *frame)
{
	uint64_t i = dice(ITEMS);

	if (!frame || sharing[i])
		return;
	pdd_frame_reserve(frame);
	if (dice(2) || !pdd_frame_has_room(frame, limit) || unsorted)
		pdd_chain_update(leader, frame, limit);
	verify();
	switch (dice(8)) {
	case 0:
		break;
	case 1:
		unreserve(frame);
		break;
	default: /* its places remain the same */
		pdd_frame_unreserve(frame);
		pdd_frame_insert_sharer(frame, &items[i]);
		sharing[i] = true;
	}
}

static void leave(uint64_t i)
{
	struct pdd_frame *frame = owner(&items[i]);

	if (!sharing[i])
		return;
	pdd_frame_remove_sharer(frame, &items[i]);
	sharing[i] = false;
	if (chained[frame - frames])
		pdd_chain_update(leader, frame, limit);
}

static void add(unsigned i)
{
	uint64_t n = dice(limit + 1);

	if (chained[i])
		return;
	while (n--)
		adopt(&frames[i]);
	if (leader)
		pdd_chain_insert(leader, &frames[i], limit);
	else
		leader = &frames[i];
	chained[i] = true;
}

static void take_out(unsigned i)
{
	if (!chained[i])
		return;
	if (&frames[i] == leader)
		leader = pdd_chain_handover(leader);
	else
		pdd_chain_remove(leader, &frames[i]);
	chained[i] = false;
	while (frames[i].priv.sharers)
		leave((uint64_t)(frames[i].priv.sharers - items));
	while (frames[i].priv.nreserved)
		unreserve(&frames[i]);
}

/* Sorting does what a stable insertion sort does. */
static void sort(void)
{
	struct pdd_frame *expected[FRAMES], *dups[FRAMES];
	unsigned n;

	if (!leader)
		return;
	n = ring(leader, expected);
	for (unsigned i = 1; i < n; i++) {
		for (unsigned k = i; k && fullness(expected[k]) > fullness(expected[k - 1]); k--) {
			struct pdd_frame *swapped = expected[k];

			expected[k] = expected[k - 1];
			expected[k - 1] = swapped;
		}
	}
	pdd_chain_sort(leader, limit);
	assert_int_equal(ring(leader, dups), n);
	for (unsigned i = 0; i < n; i++)
		assert_ptr_equal(dups[i], expected[i]);
	unsorted = false;
}

/* The frames in use, and how few would do for all sharers of those that are not over the limit. */
static void count(unsigned *used, unsigned *needed, bool *reserved)
{
	uint64_t within = 0;

	*used = *needed = 0;
	*reserved = false;
	for (unsigned i = 0; i < FRAMES; i++) {
		uint64_t n = chained[i] ? pdd_frame_sharers(&frames[i]) : 0;

		*used += n != 0;
		*needed += n > limit;
		within += n > limit ? 0 : n;
		*reserved |= chained[i] && frames[i].priv.nreserved;
	}
	*needed += (unsigned)((within + limit - 1) / limit);
}

static void refile(void)
{
	struct pdd_frame *source, *target;
	unsigned used, needed, used_after, needed_after;
	bool reserved;

	if (!leader)
		return;
	if (unsorted || dice(2)) /* the prefix is enough */
		sort();
	count(&used, &needed, &reserved);
	while (pdd_chain_plan_refile(leader, &source, &target, limit)) {
		struct pdd_item *item = source->priv.sharers;
		bool target_first = dice(2);

		assert_true(chained[source - frames] && chained[target - frames]);
		pdd_frame_remove_sharer(source, item);
		pdd_frame_insert_sharer(target, item);
		pdd_chain_update(leader, target_first ? target : source, limit);
		pdd_chain_update(leader, target_first ? source : target, limit);
		verify();
	}
	count(&used_after, &needed_after, &reserved);
	assert_int_equal(needed_after, needed); /* so nothing rose above the limit */
	assert_true(used_after <= used);
	if (!reserved)
		assert_int_equal(used_after, needed);
}

static void set_limit(void)
{
	limit = (uint32_t)(2 + dice(6));
	unsorted = true;
	if (dice(2))
		sort();
}

static struct pdd_frame *any(void)
{
	uint64_t i = dice(FRAMES);

	return chained[i] ? &frames[i] : NULL;
}

static void act(void)
{
	uint64_t what = dice(100);

	if (what < 40)
		join(leader ? pdd_chain_pick(leader, limit) : NULL);
	else if (what < 45)
		adopt(any());
	else if (what < 72)
		leave(dice(ITEMS));
	else if (what < 77)
		unreserve(&frames[dice(FRAMES)]);
	else if (what < 85)
		add((unsigned)dice(FRAMES));
	else if (what < 92)
		take_out((unsigned)dice(FRAMES));
	else if (what < 95)
		refile();
	else if (what < 98)
		sort();
	else
		set_limit();
}

static void test_random(void **unused)
{
	limit = 4;
	for (unsigned i = 0; i < FRAMES; i++)
		pdd_frame_init(&frames[i], 42, 7, 3);
	for (unsigned n = 0; n < 200000; n++) {
		act();
		verify();
	}
	while (leader)
		take_out((unsigned)(leader - frames));
}

/* Many dups, in an order in which the limit has no part: sorted, and equal ones as they were. */
static void test_sort_many(void **unused)
{
	static struct pdd_frame many[MANY], *order[MANY];
	static unsigned was_at[MANY];

	limit = 50;
	for (unsigned i = 0; i < MANY; i++) {
		pdd_frame_init(&many[i], 1, 0, 0);
		for (uint64_t n = dice(60); n; n--)
			pdd_frame_reserve(&many[i]);
		if (i)
			pdd_chain_insert(&many[0], &many[i], dice(2) ? limit : UINT32_MAX);
	}
	assert_int_equal(ring(&many[0], order), MANY - 1);
	for (unsigned i = 0; i < MANY - 1; i++)
		was_at[order[i] - many] = i;
	pdd_chain_sort(&many[0], limit);
	assert_int_equal(ring(&many[0], order), MANY - 1);
	assert_int_equal(pdd_chain_check(&many[0], NULL), MANY);
	for (unsigned i = 1; i < MANY - 1; i++) {
		uint64_t before = fullness(order[i - 1]), behind = fullness(order[i]);

		if (before < behind ||
		    (before == behind && was_at[order[i - 1] - many] > was_at[order[i] - many]))
			fail_msg("dups %u and %u are in the wrong order", i - 1, i);
	}
}

/* A chain of three frames that have this many sharers, with the limit of 4. */
static void three(unsigned a, unsigned b, unsigned c)
{
	const unsigned n[] = {a, b, c};
	unsigned item = 0;

	limit = 4;
	for (unsigned i = 0; i < 3; i++) {
		pdd_frame_init(&frames[i], 1, 0, 0);
		for (unsigned k = 0; k < n[i]; k++)
			pdd_frame_insert_sharer(&frames[i], &items[item++]);
		if (i)
			pdd_chain_insert(&frames[0], &frames[i], limit);
	}
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 3);
}

/* The heir takes over the ring, and a chain of one has none. */
static void test_handover(void **unused)
{
	pdd_frame_init(&frames[0], 1, 0, 0);
	assert_null(pdd_chain_handover(&frames[0]));
	three(1, 1, 1);
	assert_ptr_equal(pdd_chain_handover(&frames[0]), &frames[2]);
	assert_int_equal(pdd_chain_check(&frames[2], NULL), 2);
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 1);
	assert_ptr_equal(pdd_chain_handover(&frames[2]), &frames[1]);
	assert_int_equal(pdd_chain_check(&frames[1], NULL), 1);
	three(1, 1, 4); /* the heir is one with room, if there is one */
	assert_ptr_equal(pdd_chain_handover(&frames[0]), &frames[1]);
}

/* Fuller frames are filled first: one step for each page that comes or goes. */
static void test_fuller_first(void **unused)
{
	three(4, 2, 2);
	for (unsigned i = 1; i <= 2; i++) { /* equals stay where they are */
		pdd_chain_update(&frames[0], &frames[i], limit);
		assert_ptr_equal(frames[0].priv.dups, &frames[2]);
	}
	pdd_frame_remove_sharer(&frames[2], frames[2].priv.sharers);
	pdd_chain_update(&frames[0], &frames[2], limit);
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[1]);
	for (unsigned i = 0; i < 2; i++)
		pdd_frame_reserve(&frames[2]);
	pdd_chain_update(&frames[0], &frames[2], limit);
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[2]);

	three(2, 3, 0);
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[1]);
	three(3, 3, 0); /* of equals the leader, which is at hand anyway */
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[0]);
}

/* A chain of four frames whose dups have so many places and stand in this order. */
static void ring_of(uint32_t max, uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t n[] = {max, c, b, a};

	limit = max;
	for (unsigned i = 0; i < 4; i++) {
		pdd_frame_init(&frames[i], 1, 0, 0);
		for (uint32_t k = 0; k < n[i]; k++)
			pdd_frame_reserve(&frames[i]);
		if (i)
			pdd_chain_insert(&frames[0], &frames[i], limit);
	}
}

static void assert_ring(const struct pdd_frame *a, const struct pdd_frame *b,
			const struct pdd_frame *c)
{
	struct pdd_frame *order[FRAMES];

	assert_int_equal(ring(&frames[0], order), 3);
	assert_ptr_equal(order[0], a);
	assert_ptr_equal(order[1], b);
	assert_ptr_equal(order[2], c);
}

/* A dup that got fuller than the one before goes one step, but with one place left to the head. */
static void test_last_place_goes_first(void **unused)
{
	ring_of(8, 3, 2, 2);
	assert_ring(&frames[3], &frames[2], &frames[1]);
	pdd_frame_reserve(&frames[1]);
	pdd_chain_update(&frames[0], &frames[1], limit);
	assert_ring(&frames[3], &frames[1], &frames[2]);

	ring_of(4, 2, 2, 2);
	pdd_frame_reserve(&frames[1]);
	pdd_chain_update(&frames[0], &frames[1], limit);
	assert_ring(&frames[1], &frames[3], &frames[2]);
}

/* A frame without sharers takes none, and comes back as the emptiest with its first. */
static void test_frame_without_sharers(void **unused)
{
	three(0, 0, 2);
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[2]);
	for (unsigned i = 0; i < 2; i++)
		pdd_frame_remove_sharer(&frames[2], &items[i]);
	pdd_chain_update(&frames[0], &frames[2], limit);
	assert_null(pdd_chain_pick(&frames[0], limit));
	for (unsigned i = 0; i < 2; i++)
		pdd_frame_insert_sharer(&frames[2], &items[i]);
	pdd_chain_update(&frames[0], &frames[2], limit);
	assert_ptr_equal(frames[0].priv.dups, &frames[2]);
	pdd_frame_reserve(&frames[1]);
	pdd_chain_update(&frames[0], &frames[1], limit);
	assert_ptr_equal(frames[0].priv.dups, &frames[2]);
	pdd_frame_unreserve(&frames[1]);
	pdd_chain_update(&frames[0], &frames[1], limit);
	pdd_frame_insert_sharer(&frames[0], &items[ITEMS - 1]);
	pdd_chain_update(&frames[0], &frames[0], limit);
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 3);
}

/* Of equals, a dup is emptied and the leader filled, so that the leader need not be replaced. */
static void test_refile_keeps_the_leader(void **unused)
{
	struct pdd_frame *source, *target;

	three(2, 2, 4);
	assert_true(pdd_chain_plan_refile(&frames[0], &source, &target, limit));
	assert_ptr_equal(source, &frames[1]);
	assert_ptr_equal(target, &frames[0]);
	pdd_frame_init(&frames[1], 1, 0, 0);
	assert_false(pdd_chain_plan_refile(&frames[1], &source, &target, limit));
}

/* Behind the first dup without room nothing is read. */
static void test_refile_looks_at_the_prefix_only(void **unused)
{
	struct pdd_frame *source, *target;

	three(1, 2, 4); /* room for 3 and 2: both pages of the dup fit */
	frames[2].priv.node.u.dup.next = NULL;
	assert_true(pdd_chain_plan_refile(&frames[0], &source, &target, limit));
	three(1, 4, 4);
	pdd_frame_init(&frames[3], 1, 0, 0);
	pdd_frame_reserve(&frames[3]);
	frames[1].priv.node.u.dup.next = &frames[3];
	frames[3].priv.node.u.dup.next = &frames[1];
	assert_false(pdd_chain_plan_refile(&frames[0], &source, &target, limit));
}

#define assert_broken(expression)                                                      \
	do {                                                                           \
		const char *why = NULL;                                                \
		assert_int_equal(pdd_chain_check(&frames[0], &why), 3);                \
		expression;                                                            \
		assert_true(pdd_chain_check(&frames[0], &why) < 0);                    \
		assert_non_null(why);                                                  \
		memcpy(frames, whole_frames, sizeof(frames));                          \
		memcpy(items, whole_items, sizeof(items));                             \
	} while (0)

static void test_check_finds_corruption(void **unused)
{
	static struct pdd_frame whole_frames[FRAMES];
	static struct pdd_item whole_items[ITEMS];
	struct pdd_frame *dup = &frames[1];

	three(2, 0, 3);
	memcpy(whole_frames, frames, sizeof(frames));
	memcpy(whole_items, items, sizeof(items));
	assert_broken(frames[2].priv.nsharers = 2);
	assert_broken(frames[2].priv.nsharers = 4);
	assert_broken(frames[0].priv.nsharers = 1);
	assert_broken(dup->priv.node.checksum++);
	assert_broken(dup->priv.domain++);
	assert_broken(dup->priv.numa_node++);
	assert_broken(items[0].priv.node.u.member.owner = dup);
	assert_broken(items[2].priv.node.u.member.pprev = &dup->priv.sharers);
	assert_broken(items[4].priv.node.u.member.pprev = &whole_frames[2].priv.sharers);
	assert_broken(dup->priv.dups = dup);
	assert_broken(dup->priv.node.u.dup.prev = dup);
	assert_broken(dup->priv.node.u.dup.next = NULL);
	assert_broken(frames[0].priv.dups = &frames[0]);
	assert_broken(dup->priv.flags = 0);
	assert_broken(frames[0].priv.flags = FRAME_DUP);
	assert_broken(frames[0].priv.flags = FRAME_LISTED);
	assert_broken(dup->priv.flags |= FRAME_LISTED);
	assert_broken(dup->priv.flags |= FRAME_GONE);
	assert_broken(frames[0].priv.flags |= FRAME_GONE);
	assert_broken(frames[2].priv.flags |= FRAME_KEPT);
	dup->priv.flags |= FRAME_KEPT;
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 3);
	pdd_frame_reserve(dup);
	assert_int_equal(pdd_chain_check(&frames[0], NULL), -EUCLEAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_sort_many),
		cmocka_unit_test(test_handover),
		cmocka_unit_test(test_fuller_first),
		cmocka_unit_test(test_last_place_goes_first),
		cmocka_unit_test(test_frame_without_sharers),
		cmocka_unit_test(test_refile_keeps_the_leader),
		cmocka_unit_test(test_refile_looks_at_the_prefix_only),
		cmocka_unit_test(test_check_finds_corruption),
	};

	state = sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
