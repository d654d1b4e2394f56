/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame_internal.h - flags of frames, and lists of items (sharers of a frame, members of a group).
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

#endif
