/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain.c - frames, their sharers, and chains of frames with equal content.
 *
 * Invariants
 *  1. A leader's `dups` is the first frame of a ring of at least one dup, or NULL. A frame with
 *     FRAME_DUP is in exactly one ring; the ring's frames have FRAME_DUP, their `dups` is NULL.
 *  2. All frames of a chain have equal checksum, domain and content.
 *  3. nsharers is the length of the list of sharers; each of them has the frame as its owner.
 *  4. If any dup of the ring has room, the first has.
 *
 * Why 4 holds with O(1) work: pages are reserved at the first dup only, so it alone can become full
 * by joining; the ring is then turned by one, which puts it last, behind the others. A frame that
 * was full and gets room is moved to the head. All other changes leave the set of frames with room
 * as it was. (A change of the limit breaks 4 until frames change again; picking then may miss a
 * place, which costs a frame and no correctness.)
 *
 * Fullest-first: a dup that lost sharers and is emptier than the next one with room swaps places
 * with it. One step for one loss keeps the order approximately, which is all that picking needs.
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

	if (pdd_frame_has_room(leader, limit))
		return leader;
	return first && pdd_frame_has_room(first, limit) ? first : NULL;
}

static struct pdd_frame *next_dup(const struct pdd_frame *dup)
{
	return dup->priv.node.u.dup.next;
}

static struct pdd_frame *prev_dup(const struct pdd_frame *dup)
{
	return dup->priv.node.u.dup.prev;
}

/* Put a dup between two neighbours of the ring. */
static void ring_insert(struct pdd_frame *prev, struct pdd_frame *dup, struct pdd_frame *next)
{
	dup->priv.node.u.dup.prev = prev;
	dup->priv.node.u.dup.next = next;
	prev->priv.node.u.dup.next = dup;
	next->priv.node.u.dup.prev = dup;
}

static void ring_remove(struct pdd_frame *leader, struct pdd_frame *dup)
{
	struct pdd_frame *next = next_dup(dup), *prev = prev_dup(dup);

	if (next == dup) {
		leader->priv.dups = NULL;
		return;
	}
	prev->priv.node.u.dup.next = next;
	next->priv.node.u.dup.prev = prev;
	if (leader->priv.dups == dup)
		leader->priv.dups = next;
}

/* Insert as last of the ring, which is between the last and the first. */
static void ring_append(struct pdd_frame *leader, struct pdd_frame *dup)
{
	struct pdd_frame *first = leader->priv.dups;

	if (!first) {
		leader->priv.dups = dup;
		ring_insert(dup, dup, dup);
	} else {
		ring_insert(prev_dup(first), dup, first);
	}
}

void pdd_chain_insert(struct pdd_frame *leader, struct pdd_frame *dup, uint32_t limit)
{
	PDD_ASSERT(!pdd_frame_is_dup(leader) && !pdd_frame_is_dup(dup) && !dup->priv.dups);
	PDD_ASSERT(leader->priv.node.checksum == dup->priv.node.checksum);
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

void pdd_chain_update(struct pdd_frame *leader, struct pdd_frame *frame, uint32_t limit)
{
	struct pdd_frame *first = leader->priv.dups, *next;

	if (frame == leader)
		return;
	next = next_dup(frame);
	if (!pdd_frame_has_room(frame, limit)) {
		/* Turning the ring puts the first last. */
		if (frame == first) {
			leader->priv.dups = next;
		} else {
			ring_remove(leader, frame);
			ring_append(leader, frame);
		}
	} else if (frame != first && !pdd_frame_has_room(prev_dup(frame), limit)) {
		ring_remove(leader, frame);
		ring_append(leader, frame);
		leader->priv.dups = frame;
	} else if (next != first && pdd_frame_has_room(next, limit) &&
		   frame->priv.nsharers < next->priv.nsharers) {
		ring_remove(leader, frame);
		ring_insert(next, frame, next_dup(next));
	}
}

struct pdd_frame *pdd_chain_handover(struct pdd_frame *leader)
{
	struct pdd_frame *heir = leader->priv.dups;

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

static int64_t frame_check(const struct pdd_frame *leader, const struct pdd_frame *frame,
			   const char **why)
{
	const struct pdd_item *item;
	uint64_t n = 0;

	if (frame->priv.node.checksum != leader->priv.node.checksum ||
	    frame->priv.domain != leader->priv.domain)
		return broken(why, "chain: a dup has another checksum or domain than its leader");
	if (pdd_frame_is_dup(frame) != (frame != leader))
		return broken(why, "chain: flags do not say who leads");
	for (item = frame->priv.sharers; item; item = item->priv.node.u.member.next) {
		if (item->priv.node.u.member.owner != frame ||
		    *item->priv.node.u.member.pprev != item)
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
		if (prev_dup(next_dup(dup)) != dup)
			return broken(why, "chain: the ring is torn");
		n++;
		dup = next_dup(dup);
	} while (dup != leader->priv.dups);
	return n;
}
