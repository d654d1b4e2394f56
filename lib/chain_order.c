/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain_order.c - a chain in exact order, and which of its frames to empty.
 *
 * Sorting takes the ring apart and puts it together again: so it also mends what a change of the
 * limit did to the order (invariant 4 of chain.c).
 *
 * Why refiling frees a frame for each source, and ends with the fewest frames: let R be the room of
 * all frames with room together, and s the sharers of a source, which has no reservation. Its own
 * room is limit - s, so the others have room for all of its sharers if and only if R >= limit,
 * whichever frame it is. A move does not change R, and the source remains the one with the fewest
 * sharers; so what was begun goes on until it is empty and has no room, which takes limit from R.
 * When R < limit, the k frames that are not over the limit have more than (k - 1) * limit sharers
 * and reservations, which do not fit in fewer. (If R >= limit still and all that have room have
 * reservations, it waits for those.) It ends: a move into a frame with reservations leaves fewer
 * sharers in those without; one among those without makes the sum of their squares greater.
 *
 * Complexity: sorting O(n log n) of the dups with room and O(n) of all; planning O(dups with room).
 *
 * Locking: none.
 */
#include <pagededup/chain.h>

#include "check_internal.h"
#include "frame_internal.h"

/* Lists, for sorting: dups linked by `next` only, up to NULL. */

/* Make one list of two that are in order; of equals those of the first come first. */
static struct pdd_frame *list_merge(struct pdd_frame *a, struct pdd_frame *b)
{
	/* cppcheck-suppress unassignedVariable ; it is, through `end` */
	struct pdd_frame *head, **end = &head;

	while (a && b) {
		struct pdd_frame **list = pdd_frame_places(a) >= pdd_frame_places(b) ? &a : &b;

		*end = *list;
		end = &(*list)->priv.node.u.dup.next;
		*list = *end;
	}
	*end = a ? a : b;
	return head;
}

/*
 * Merge sort, fullest first. What was taken from the list so far is in runs of 2^i dups, at most
 * one for each i, the longer ones with what came earlier; adding a dup is counting up by one. There
 * are less than 2^58 frames, of 64 bytes.
 */
static struct pdd_frame *list_sort(struct pdd_frame *list)
{
	struct pdd_frame *runs[58] = {NULL}, *run, *sorted = NULL;
	unsigned i, nruns = 0;

	while (list) {
		run = list;
		list = next_dup(run);
		run->priv.node.u.dup.next = NULL;
		for (i = 0; runs[i]; i++) {
			run = list_merge(runs[i], run);
			runs[i] = NULL;
		}
		runs[i] = run;
		nruns = i < nruns ? nruns : i + 1;
	}
	for (i = 0; i < nruns; i++)
		sorted = list_merge(runs[i], sorted);
	return sorted;
}

static void ring_append_list(struct pdd_frame *leader, struct pdd_frame *list)
{
	while (list) {
		struct pdd_frame *dup = list;

		list = next_dup(dup);
		ring_append(leader, dup);
	}
}

void pdd_chain_sort(struct pdd_frame *leader, uint32_t limit)
{
	struct pdd_frame *with_room = NULL, *others = NULL;

	PDD_ASSERT(!pdd_frame_is_dup(leader) && limit >= 2);
	/* From the end, so that both lists keep the order of the ring. */
	while (leader->priv.dups) {
		struct pdd_frame *dup = prev_dup(leader->priv.dups);
		struct pdd_frame **list = pdd_frame_has_room(dup, limit) ? &with_room : &others;

		ring_remove(leader, dup);
		dup->priv.node.u.dup.next = *list;
		*list = dup;
	}
	ring_append_list(leader, list_sort(with_room));
	ring_append_list(leader, others);
}

/* The next dup with room behind a frame of the chain; the leader counts as the first frame. */
static struct pdd_frame *next_with_room(const struct pdd_frame *leader,
					const struct pdd_frame *frame, uint32_t limit)
{
	struct pdd_frame *first = leader->priv.dups, *next = first;

	if (frame != leader) {
		next = next_dup(frame);
		if (next == first)
			return NULL;
	}
	return next && pdd_frame_has_room(next, limit) ? next : NULL;
}

bool pdd_chain_plan_refile(struct pdd_frame *leader, struct pdd_frame **source,
			   struct pdd_frame **target, uint32_t limit)
{
	struct pdd_frame *frame, *emptiest = NULL, *fullest = NULL;
	uint64_t room = 0; /* R of the argument on top */

	PDD_ASSERT(!pdd_frame_is_dup(leader) && limit >= 2);
	/* Of equals a dup is emptied, and the leader filled: so it need not leave the index. */
	for (frame = leader; frame; frame = next_with_room(leader, frame, limit)) {
		if (!pdd_frame_has_room(frame, limit))
			continue; /* the leader */
		room += limit - pdd_frame_places(frame);
		if (!frame->priv.nreserved &&
		    (!emptiest || frame->priv.nsharers <= emptiest->priv.nsharers))
			emptiest = frame;
	}
	if (!emptiest || room < limit)
		return false;
	for (frame = leader; frame; frame = next_with_room(leader, frame, limit)) {
		if (frame != emptiest && pdd_frame_has_room(frame, limit) &&
		    (!fullest || pdd_frame_places(frame) > pdd_frame_places(fullest)))
			fullest = frame;
	}
	PDD_INVARIANT(fullest); /* the source has less room than limit */
	*source = emptiest;
	*target = fullest;
	return true;
}
