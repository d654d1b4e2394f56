/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_chain.c - chains at random: pages join, places are promised and given back, sharers leave,
 * dups and leaders come and go. The invariants of chain.c hold after each operation; above all, if
 * any frame has room, picking finds one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagededup/chain.h>

#include "sim.h"

#define FRAMES 12u
#define ITEMS 60u

static struct pdd_frame frames[FRAMES], *leader;
static bool chained[FRAMES]; /* in the chain, the leader included */
static struct pdd_item items[ITEMS];
static bool sharing[ITEMS];
static uint64_t state;
static uint32_t limit;

static uint64_t dice(uint64_t below)
{
	return sim_random_of(&state) % below;
}

static struct pdd_frame *owner(const struct pdd_item *item)
{
	return item->priv.node.u.member.owner;
}

static void verify(void)
{
	int64_t n = 0;
	bool room = false, dup_has_room = false;
	const char *why = NULL;

	for (unsigned i = 0; i < FRAMES; i++) {
		n += chained[i];
		room |= chained[i] && pdd_frame_has_room(&frames[i], limit);
		dup_has_room |= chained[i] && &frames[i] != leader &&
				pdd_frame_has_room(&frames[i], limit);
		assert_int_equal(pdd_frame_is_dup(&frames[i]), chained[i] && &frames[i] != leader);
	}
	if (!leader) {
		assert_int_equal(n, 0);
		return;
	}
	assert_int_equal(pdd_chain_check(leader, &why), n);
	if (dup_has_room) /* invariant 4 */
		assert_true(pdd_frame_has_room(leader->priv.dups, limit));
	if (room) {
		assert_non_null(pdd_chain_pick(leader, limit));
		assert_true(pdd_frame_has_room(pdd_chain_pick(leader, limit), limit));
	} else {
		assert_null(pdd_chain_pick(leader, limit));
	}
}

/* A frame takes a page: promised first, as the engine does it. */
static void join(struct pdd_frame *frame)
{
	uint64_t i = dice(ITEMS);

	if (!frame || sharing[i])
		return;
	frame->priv.nreserved++;
	if (!pdd_frame_has_room(frame, limit))
		pdd_chain_update(leader, frame, limit);
	verify();
	frame->priv.nreserved--;
	if (dice(4)) {
		pdd_frame_insert_sharer(frame, &items[i]);
		sharing[i] = true;
	} else {
		pdd_chain_update(leader, frame, limit);
	}
}

static void leave(uint64_t i)
{
	struct pdd_frame *frame = owner(&items[i]);

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
	for (unsigned k = 0; k < ITEMS && n; k++) {
		if (!sharing[k] && pdd_frame_has_room(&frames[i], limit)) {
			pdd_frame_insert_sharer(&frames[i], &items[k]);
			sharing[k] = true;
			n--;
		}
	}
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
}

static void test_random(void **unused)
{
	for (limit = 2; limit <= 6; limit++) {
		leader = NULL;
		for (unsigned i = 0; i < FRAMES; i++) {
			pdd_frame_init(&frames[i], 42, 7, 0);
			chained[i] = false;
		}
		for (unsigned i = 0; i < ITEMS; i++)
			sharing[i] = false;
		for (unsigned n = 0; n < 20000; n++) {
			uint64_t what = dice(10), i = dice(ITEMS);

			if (what < 5)
				join(leader ? pdd_chain_pick(leader, limit) : NULL);
			else if (what < 8 && sharing[i])
				leave(i);
			else if (what == 8)
				add((unsigned)dice(FRAMES));
			else if (what == 9)
				take_out((unsigned)dice(FRAMES));
			verify();
		}
	}
}

/* The heir takes over the ring, and a chain of one has none. */
static void test_handover(void **unused)
{
	for (unsigned i = 0; i < 3; i++)
		pdd_frame_init(&frames[i], 1, 0, 0);
	assert_null(pdd_chain_handover(&frames[0]));
	pdd_chain_insert(&frames[0], &frames[1], 2);
	pdd_chain_insert(&frames[0], &frames[2], 2);
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 3);
	assert_ptr_equal(pdd_chain_handover(&frames[0]), &frames[2]);
	assert_int_equal(pdd_chain_check(&frames[2], NULL), 2);
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 1);
	assert_ptr_equal(pdd_chain_handover(&frames[2]), &frames[1]);
	assert_int_equal(pdd_chain_check(&frames[1], NULL), 1);
}

/* A frame that is emptier than its neighbour steps back: fuller ones are filled first. */
static void test_fuller_first(void **unused)
{
	limit = 4;
	for (unsigned i = 0; i < 3; i++)
		pdd_frame_init(&frames[i], 1, 0, 0);
	for (unsigned i = 0; i < 4 + 3 + 2; i++)
		pdd_frame_insert_sharer(&frames[i < 4 ? 0 : i < 7 ? 1 : 2], &items[i]);
	pdd_chain_insert(&frames[0], &frames[1], limit);
	pdd_chain_insert(&frames[0], &frames[2], limit);
	pdd_frame_remove_sharer(&frames[2], &items[8]);
	pdd_chain_update(&frames[0], &frames[2], limit);
	assert_ptr_equal(pdd_chain_pick(&frames[0], limit), &frames[1]);
}

static void test_check_finds_corruption(void **unused)
{
	const char *why = NULL;

	for (unsigned i = 0; i < 2; i++)
		pdd_frame_init(&frames[i], 1, 0, 0);
	pdd_chain_insert(&frames[0], &frames[1], 2);
	pdd_frame_insert_sharer(&frames[1], &items[0]);
	assert_int_equal(pdd_chain_check(&frames[0], &why), 2);
	frames[1].priv.nsharers = 2;
	assert_true(pdd_chain_check(&frames[0], &why) < 0);
	assert_non_null(why);
	frames[1].priv.nsharers = 0;
	assert_true(pdd_chain_check(&frames[0], NULL) < 0);
	frames[1].priv.nsharers = 1;
	frames[1].priv.domain = 1;
	assert_true(pdd_chain_check(&frames[0], NULL) < 0);
	frames[1].priv.domain = 0;
	items[0].priv.node.u.member.owner = &frames[0];
	assert_true(pdd_chain_check(&frames[0], NULL) < 0);
	items[0].priv.node.u.member.owner = &frames[1];
	frames[1].priv.dups = &frames[1];
	assert_true(pdd_chain_check(&frames[0], NULL) < 0);
	frames[1].priv.dups = NULL;
	assert_int_equal(pdd_chain_check(&frames[0], NULL), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_handover),
		cmocka_unit_test(test_fuller_first),
		cmocka_unit_test(test_check_finds_corruption),
	};

	state = sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
