/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chain.h - frames, their sharers, and chains of frames with equal content.
 *
 * A frame takes at most a given number of sharers, so that a reverse walk of it is bounded. When
 * equal content needs another frame, that becomes a dup of the first: the *leader* stands in the
 * index, the dups hang off it in a ring. A leader that leaves hands its place and its ring to a
 * dup. There is no node for the chain itself: a chain of one is just a frame.
 *
 * The dups do not know their leader, so that a handover touches two frames, however many dups
 * there are; who needs the leader finds it in the index. Dups with room stand first in the ring,
 * the fullest first, approximately; exactly after pdd_chain_sort().
 *
 * A place in a frame is *reserved* for a page whose merge is decided but not carried out yet.
 *
 * Locking: none; the caller keeps a chain to itself.
 */
#ifndef PAGEDEDUP_CHAIN_H
#define PAGEDEDUP_CHAIN_H

#include <pagededup/item.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sharers per frame, by default, as KSM's max_page_sharing. */
#define PDD_MAX_PAGE_SHARING 256u

/** A shared, immutable page (KSM: stable node), 64 bytes; embedded in the embedder's descriptor. */
struct pdd_frame {
	struct {
		struct pdd_index_node node; /* leader: in the index; dup: in the ring */
		struct pdd_frame *dups;     /* leader: first of the ring, NULL for a chain of one */
		struct pdd_item *sharers;
		uint32_t nsharers;
		uint32_t nreserved; /* places promised to pages whose merge is pending */
		uint32_t domain;
		uint16_t numa_node; /* 0 where nodes are not kept apart */
		uint16_t flags;
	} priv;
};

/** Make a frame that is in no chain and has no sharer. Complexity: O(1). Since: 0.1 */
PDD_API void pdd_frame_init(struct pdd_frame *frame, uint64_t checksum, uint32_t domain,
			    uint16_t numa_node);

/** Sharers it has. Complexity: O(1). Since: 0.1 */
static inline uint32_t pdd_frame_sharers(const struct pdd_frame *frame)
{
	return frame->priv.nsharers;
}

/** Sharers it has, and places reserved. Complexity: O(1). Since: 0.1 */
static inline uint64_t pdd_frame_places(const struct pdd_frame *frame)
{
	return (uint64_t)frame->priv.nsharers + frame->priv.nreserved;
}

/**
 * Whether one more may join. One that has neither sharer nor reservation takes none: its memory is
 * about to go.
 * @param limit  at least 2
 * Complexity: O(1). Since: 0.1
 */
static inline bool pdd_frame_has_room(const struct pdd_frame *frame, uint32_t limit)
{
	return pdd_frame_places(frame) - 1 < limit - UINT64_C(1);
}

/** Reserve a place, whatever the limit; give a reservation up. The chain wants to be told with
 * pdd_chain_update(). O(1). Since: 0.1 */
PDD_API void pdd_frame_reserve(struct pdd_frame *frame);
PDD_API void pdd_frame_unreserve(struct pdd_frame *frame);

/** Whether the frame hangs off a leader. O(1). Since: 0.1 */
PDD_API bool pdd_frame_is_dup(const struct pdd_frame *frame);

/** Link an item that is in no list as a sharer, unlink one that is. O(1). Since: 0.1 */
PDD_API void pdd_frame_insert_sharer(struct pdd_frame *frame, struct pdd_item *item);
PDD_API void pdd_frame_remove_sharer(struct pdd_frame *frame, struct pdd_item *item);

/**
 * The frame of the chain that the next page of this content should join: the fuller one of the leader
 * and the first dup.
 * @return NULL if none has room. After a change of the limit it may miss a place, until
 *         pdd_chain_sort()
 * Complexity: O(1). Since: 0.1
 */
PDD_API struct pdd_frame *pdd_chain_pick(struct pdd_frame *leader, uint32_t limit);

/** Hang a frame that is in no chain off a leader: first if it has room, else last. O(1). Since: 0.1 */
PDD_API void pdd_chain_insert(struct pdd_frame *leader, struct pdd_frame *dup, uint32_t limit);

/** Take a dup out of its leader's ring. O(1). Since: 0.1 */
PDD_API void pdd_chain_remove(struct pdd_frame *leader, struct pdd_frame *dup);

/**
 * Tell the chain that a frame of it gained or lost a place: a dup that got room goes to the head, one
 * that has none goes last, all others move one step at most. To be called after each change, before
 * the next one; frames that got no room may be told together.
 * @param frame  the leader itself or one of its dups
 * Complexity: O(1). Since: 0.1
 */
PDD_API void pdd_chain_update(struct pdd_frame *leader, struct pdd_frame *frame, uint32_t limit);

/**
 * Put the dups in exact order: first those with room, the fullest first, then the others.
 * To be called after a change of the limit, and before pdd_chain_plan_refile().
 * Complexity: O(n log n) of the dups with room, O(n) of all. Since: 0.1
 */
PDD_API void pdd_chain_sort(struct pdd_frame *leader, uint32_t limit);

/**
 * Which frame of a chain should be emptied, and where its sharers should go: from the emptiest that
 * has room, and no reservation, to the fullest that has room, if all the others together have room
 * for all of its sharers. Frames over the limit are left alone. After the sharers were moved, and
 * pdd_chain_update() of both, the chain is asked again. When there is nothing left to move and
 * nothing is reserved, the sharers are in the fewest frames possible.
 *
 * @param source  out: the frame to be emptied
 * @param target  out: one with room
 * @return whether there is something to move; if not, @p source and @p target are untouched
 * Complexity: O(dups with room). Since: 0.1
 */
PDD_API bool pdd_chain_plan_refile(struct pdd_frame *leader, struct pdd_frame **source,
				   struct pdd_frame **target, uint32_t limit);

/**
 * The leader leaves: its ring goes to the first dup, which takes its place.
 * @return the new leader, to be put into the index in the old one's place; NULL if there is no dup
 * Complexity: O(1). Since: 0.1
 */
PDD_API struct pdd_frame *pdd_chain_handover(struct pdd_frame *leader);

/**
 * Prove the invariants of a chain: ring links, flags, equal checksum, domain and NUMA node, sharer
 * counts. The order is not checked, since it depends on the limit.
 * @param why  out, may be NULL: a static string
 * @return number of frames in the chain, or -EUCLEAN
 * Complexity: O(dups + sharers). Since: 0.1
 */
PDD_API int64_t pdd_chain_check(const struct pdd_frame *leader, const char **why);

#ifdef __cplusplus
}
#endif
#endif
