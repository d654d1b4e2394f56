/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain.c - frames, their sharers, and chains of frames with equal content.
 *
 * Invariants
 *  1. A leader's `dups` is the first frame of a ring of at least one dup, or NULL. A frame with
 *     FRAME_DUP is in exactly one ring; the ring's frames have FRAME_DUP, their `dups` is NULL.
 *  2. All frames of a chain have equal checksum, domain, NUMA node and content.
 *  3. nsharers is the length of the list of sharers; each of them has the frame as its owner.
 *  4. The dups with room form a prefix of the ring, as seen from the leader's `dups`. The leader
 *     is no part of that: it may have room or not.
 *
 * Why 4 holds with O(1) work: an operation moves one dup at most, and those with room come first
 * among the others whatever it does with that one. So only the place of that dup matters. Without
 * room it becomes the last. With room it goes to the head, or stays where it is if it is the first
 * or the one before it has room. Two neighbours that both have room may also be swapped. A handover
 * takes the first out, and what happens to the leader's places concerns no dup.
 *
 * Between a change of a frame's places and pdd_chain_update() that frame may violate 4. Several may
 * wait to be told, as the two of a refile do, if none of them got room: one that keeps its place
 * had room all along, so that what stood before it had room as well, has it still, or will become
 * the last when it is told.
 *
 * A change of the limit may violate 4 everywhere, until pdd_chain_sort(). Only this relies on 4:
 * that picking and refiling find a place if there is one. Missing one costs a frame, nothing else.
 *
 * Fullest first: a dup with room that is emptier than the next one swaps places with it, and so
 * does one that is fuller than the one before it. One step for one change keeps the order
 * approximately, which is all that picking needs.
 *
 * Locking: none.
 */
#include <pagededup/chain.h>

#include <errno.h>

#include "check_internal.h"
#include "frame_internal.h"

_Static_assert(sizeof(struct pdd_frame) == 64, "frozen layout");
_Static_assert(sizeof(struct pdd_item) == 48, "frozen layout");
_Static_assert(sizeof(struct pdd_extent) == 64, "frozen layout");

void pdd_frame_init(struct pdd_frame *frame, uint64_t checksum, uint32_t domain,
		    uint16_t numa_node)
{
	*frame = (struct pdd_frame){
		.priv = {
			.node = { .checksum = checksum },
			.domain = domain,
			.numa_node = numa_node,
		},
	};
}

bool pdd_frame_is_dup(const struct pdd_frame *frame)
{
	return frame->priv.flags & FRAME_DUP;
}

void pdd_frame_reserve(struct pdd_frame *frame)
{
	frame->priv.nreserved++;
	PDD_ASSERT(frame->priv.nreserved > 0);
}

void pdd_frame_unreserve(struct pdd_frame *frame)
{
	PDD_ASSERT(frame->priv.nreserved > 0);
	frame->priv.nreserved--;
}

void pdd_frame_insert_sharer(struct pdd_frame *frame, struct pdd_item *item)
{
	item_list_insert(&frame->priv.sharers, item);
	item->priv.node.u.member.owner = frame;
	frame->priv.nsharers++;
}

void pdd_frame_remove_sharer(struct pdd_frame *frame, struct pdd_item *item)
{
	PDD_ASSERT(item->priv.node.u.member.owner == frame && frame->priv.nsharers > 0);
	item_list_remove(item);
	frame->priv.nsharers--;
}

struct pdd_frame *pdd_chain_pick(struct pdd_frame *leader, uint32_t limit)
{
	struct pdd_frame *first = leader->priv.dups;
	bool leader_has_room = pdd_frame_has_room(leader, limit);

	PDD_ASSERT(!pdd_frame_is_dup(leader) && limit >= 2);
	if (!first || !pdd_frame_has_room(first, limit))
		return leader_has_room ? leader : NULL;
	if (leader_has_room && pdd_frame_places(leader) >= pdd_frame_places(first))
		return leader;
	return first;
}

static void ring_move_to_end(struct pdd_frame *leader, struct pdd_frame *dup)
{
	ring_remove(leader, dup);
	ring_append(leader, dup);
}

/* Put a dup behind the next one. */
static void ring_step_back(struct pdd_frame *leader, struct pdd_frame *dup)
{
	struct pdd_frame *next = next_dup(dup);

	ring_remove(leader, dup);
	ring_insert(next, dup, next_dup(next));
}

static bool same_key(const struct pdd_frame *a, const struct pdd_frame *b)
{
	return a->priv.node.checksum == b->priv.node.checksum && a->priv.domain == b->priv.domain &&
	       a->priv.numa_node == b->priv.numa_node;
}

void pdd_chain_insert(struct pdd_frame *leader, struct pdd_frame *dup, uint32_t limit)
{
	PDD_ASSERT(!pdd_frame_is_dup(leader) && !pdd_frame_is_dup(dup) && !dup->priv.dups);
	PDD_ASSERT(same_key(leader, dup) && limit >= 2);
	ring_append(leader, dup);
	if (pdd_frame_has_room(dup, limit))
		leader->priv.dups = dup;
	dup->priv.flags |= FRAME_DUP;
}

void pdd_chain_remove(struct pdd_frame *leader, struct pdd_frame *dup)
{
	PDD_ASSERT(pdd_frame_is_dup(dup));
	ring_remove(leader, dup);
	dup->priv.flags &= (uint16_t)~FRAME_DUP;
}

/* Whether, of two dups, the one behind has room and is fuller than the one before. */
static bool is_fuller(const struct pdd_frame *behind, const struct pdd_frame *before,
		      uint32_t limit)
{
	return pdd_frame_has_room(behind, limit) &&
	       pdd_frame_places(behind) > pdd_frame_places(before);
}

void pdd_chain_update(struct pdd_frame *leader, struct pdd_frame *frame, uint32_t limit)
{
	struct pdd_frame *prev;

	if (frame == leader)
		return;
	PDD_ASSERT(pdd_frame_is_dup(frame) && leader->priv.dups && limit >= 2);
	if (!pdd_frame_has_room(frame, limit)) {
		/* Turning the ring puts the first last. */
		if (frame == leader->priv.dups)
			leader->priv.dups = next_dup(frame);
		else
			ring_move_to_end(leader, frame);
		return;
	}
	prev = prev_dup(frame);
	if (frame != leader->priv.dups) {
		bool fuller = is_fuller(frame, prev, limit);

		/* With one place left it is as full as any; it may have got that place just now. */
		if (!pdd_frame_has_room(prev, limit) ||
		    (fuller && pdd_frame_places(frame) + 1 == limit)) {
			ring_move_to_end(leader, frame);
			leader->priv.dups = frame;
		} else if (fuller) {
			ring_step_back(leader, prev);
		}
	}
	/* Also behind the head: one that had no sharer and got its first is the emptiest. */
	if (next_dup(frame) != leader->priv.dups && is_fuller(next_dup(frame), frame, limit))
		ring_step_back(leader, frame);
}

struct pdd_frame *pdd_chain_handover(struct pdd_frame *leader)
{
	struct pdd_frame *heir = leader->priv.dups;

	PDD_ASSERT(!pdd_frame_is_dup(leader));
	if (!heir)
		return NULL;
	pdd_chain_remove(leader, heir);
	heir->priv.dups = leader->priv.dups;
	leader->priv.dups = NULL;
	return heir;
}

static int64_t broken(const char **why, const char *what)
{
	if (why)
		*why = what;
	return -EUCLEAN;
}

/* The flags say who hangs off whom, and a frame that is kept has nothing else to keep it. */
static bool flags_are_right(const struct pdd_frame *leader, const struct pdd_frame *frame)
{
	uint16_t flags = frame->priv.flags;

	if (pdd_frame_is_dup(frame) != (frame != leader) ||
	    (flags & FRAME_LISTED) != (leader->priv.flags & FRAME_LISTED))
		return false;
	if (flags & FRAME_GONE && (flags & FRAME_LISTED || leader->priv.dups))
		return false;
	return !(flags & FRAME_KEPT) || pdd_frame_places(frame) == 0;
}

static int64_t frame_check(const struct pdd_frame *leader, const struct pdd_frame *frame,
			   const char **why)
{
	struct pdd_item *const *link = &frame->priv.sharers;
	uint64_t n = 0;

	if (!same_key(frame, leader))
		return broken(why, "chain: a dup has another checksum, domain or node");
	if (!flags_are_right(leader, frame))
		return broken(why, "chain: the flags of a frame are wrong");
	for (; *link; link = &(*link)->priv.node.u.member.next) {
		if ((*link)->priv.node.u.member.owner != frame ||
		    (*link)->priv.node.u.member.pprev != link)
			return broken(why, "chain: links of a sharer are wrong");
		if (++n > frame->priv.nsharers)
			break;
	}
	if (n != frame->priv.nsharers)
		return broken(why, "chain: number of sharers is wrong");
	return 0;
}

int64_t pdd_chain_check(const struct pdd_frame *leader, const char **why)
{
	const struct pdd_frame *dup = leader->priv.dups;
	int64_t n = 1, err = frame_check(leader, leader, why);

	if (err || !dup)
		return err ? err : n;
	do {
		err = frame_check(leader, dup, why);
		if (err)
			return err;
		if (dup->priv.dups)
			return broken(why, "chain: a dup leads a ring");
		if (!next_dup(dup) || prev_dup(next_dup(dup)) != dup)
			return broken(why, "chain: the ring is torn");
		n++;
		dup = next_dup(dup);
	} while (dup != leader->priv.dups);
	return n;
}
