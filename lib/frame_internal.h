/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame_internal.h - flags of frames, the ring of dups, and lists of items (sharers of a frame,
 * members of a group).
 */
#ifndef PDD_FRAME_INTERNAL_H
#define PDD_FRAME_INTERNAL_H

#include <pagededup/chain.h>

enum {
	FRAME_DUP = 1u << 0,    /* hangs off a leader */
	FRAME_LISTED = 1u << 1, /* in the index, or a dup of one that is */
	FRAME_GONE = 1u << 2,   /* said its embedder; reserved places are only given back */
	FRAME_KEPT = 1u << 3,   /* no sharer is known, but clones still map it, see stable.c */
};

static inline void item_list_insert(struct pdd_item **head, struct pdd_item *item)
{
	item->priv.node.u.member.next = *head;
	item->priv.node.u.member.pprev = head;
	if (*head)
		(*head)->priv.node.u.member.pprev = &item->priv.node.u.member.next;
	*head = item;
}

static inline void item_list_remove(struct pdd_item *item)
{
	*item->priv.node.u.member.pprev = item->priv.node.u.member.next;
	if (item->priv.node.u.member.next)
		item->priv.node.u.member.next->priv.node.u.member.pprev =
			item->priv.node.u.member.pprev;
}

/* ---- the ring of a leader's dups ---- */

static inline struct pdd_frame *next_dup(const struct pdd_frame *dup)
{
	return dup->priv.node.u.dup.next;
}

static inline struct pdd_frame *prev_dup(const struct pdd_frame *dup)
{
	return dup->priv.node.u.dup.prev;
}

/* Put a dup between two neighbours of the ring. */
static inline void ring_insert(struct pdd_frame *prev, struct pdd_frame *dup, struct pdd_frame *next)
{
	dup->priv.node.u.dup.prev = prev;
	dup->priv.node.u.dup.next = next;
	prev->priv.node.u.dup.next = dup;
	next->priv.node.u.dup.prev = dup;
}

static inline void ring_remove(struct pdd_frame *leader, struct pdd_frame *dup)
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
static inline void ring_append(struct pdd_frame *leader, struct pdd_frame *dup)
{
	struct pdd_frame *first = leader->priv.dups;

	if (!first) {
		leader->priv.dups = dup;
		ring_insert(dup, dup, dup);
	} else {
		ring_insert(prev_dup(first), dup, first);
	}
}

#endif
