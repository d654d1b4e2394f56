/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pending.c - how a decision about a page ends: withdrawn by its owner, cancelled, or carried out.
 *
 * A pending item has a place promised in a frame, or is a twin or a member of a group. Whatever
 * ends that, the group and the worker's list of twins forget a twin at once: its space may not be
 * locked, and its region be gone the next moment.
 */
#include "scanner_internal.h"

/* A group's twin is not pending any more: its owner withdrew it, or it is settled. */
static void forget_twin(struct pdd_group *group)
{
	group->twin = NULL;
	if (group->entry)
		*group->entry = NULL;
	group->entry = NULL;
}

static bool is_twin(const struct pdd_item *item)
{
	const struct pdd_group *group = item_group(item);

	return group && group->twin == item;
}

void pddi_pending_withdraw(struct pdd_scanner *scanner, struct pdd_item *item)
{
	struct pdd_group *group = item_group(item);
	struct pdd_frame *frame = item_promised(item);

	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	if (is_twin(item))
		forget_twin(group);
	else if (group)
		group->nmembers--;
	item_set(item, ITEM_SEEN, item_reason(item));
	if (frame)
		pddi_stable_unreserve(scanner, frame);
}

void pddi_pending_cancel(struct pdd_scanner *scanner, struct pdd_item *item,
			 enum pdd_reason reason)
{
	if (is_twin(item))
		item_group(item)->twin_reason = (uint8_t)reason;
	pddi_pending_withdraw(scanner, item);
	pddi_item_fail(item, reason);
}

void pddi_pending_join(struct pdd_scanner *scanner, struct pdd_item *item)
{
	struct pdd_frame *frame = item_promised(item);

	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	if (is_twin(item)) {
		item_group(item)->joined = true;
		forget_twin(item_group(item));
	}
	pddi_stable_join(scanner, frame, item);
}
