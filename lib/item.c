/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * item.c - an item leaves what it is linked in, is forgotten, or failed to be merged.
 *
 * An item leaves the index by its node, never by its key: whatever its page contains by now, the
 * node that is taken out is its own.
 */
#include "scanner_internal.h"

void pddi_item_reset(struct pdd_item *item, enum pdd_reason reason)
{
	item_set_due(item, false);
	item_set_dirty(item, false);
	item_set_all(item, ITEM_NEW, PDD_CLASS_OTHER, reason);
	item->priv.node.checksum = 0;
	item->priv.word &= ~ITEM_FRESH;
	item_set_age(item, 0);
	if (!item_is_kept_out(item))
		item_set_node(item, 0);
}

void pddi_item_detach(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	switch (item_state(item)) {
	case ITEM_NEW:
		item_set(item, ITEM_NEW, reason);
		break;
	case ITEM_ZERO:
		pddi_item_reset(item, reason);
		break;
	case ITEM_INDEXED:
		pddi_index_remove(scanner, &item->priv.node);
		item_set(item, ITEM_SEEN, reason);
		break;
	case ITEM_SEEN:
		item_set(item, ITEM_SEEN, reason);
		break;
	case ITEM_PENDING:
		pddi_pending_withdraw(scanner, item);
		item_set(item, ITEM_SEEN, reason);
		break;
	case ITEM_SHARER:
		pddi_stable_leave(scanner, item, reason);
		break;
	}
}

void pddi_item_refused(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	if (item_state(item) == ITEM_SHARER || item_state(item) == ITEM_ZERO)
		return;
	pddi_item_detach(scanner, item, reason);
	pddi_item_reset(item, reason);
}

bool pddi_reason_is_general(enum pdd_reason reason)
{
	return reason == PDD_REASON_MAPPING_BUDGET || reason == PDD_REASON_NO_MEMORY ||
	       reason == PDD_REASON_NO_HOLD || reason == PDD_REASON_HOOK_FAILED;
}

bool pddi_reason_stays(enum pdd_reason reason)
{
	return reason == PDD_REASON_BUSY ||
	       (reason >= PDD_REASON_PINNED && reason <= PDD_REASON_HOOK_FAILED);
}

_Static_assert(PDD_REASON_PINNED == 10 && PDD_REASON_HOOK_FAILED == 21,
	       "between them are the reasons of hooks that refuse or fail, the general ones too");

/* What a look at the page itself says of it; all other reasons are failures to merge it. */
static bool is_observation(enum pdd_reason reason)
{
	return reason == PDD_REASON_NEW || reason == PDD_REASON_FIRST_LOOK ||
	       reason == PDD_REASON_VOLATILE || reason == PDD_REASON_UNIQUE ||
	       reason == PDD_REASON_STALE || reason == PDD_REASON_UNMERGED;
}

void pddi_item_fail(struct pdd_item *item, enum pdd_reason reason)
{
	bool first = is_observation(item_reason(item)) || reason == PDD_REASON_DEADLINE;

	item_counts(item)->failures[reason]++;
	item_set(item, ITEM_SEEN, reason);
	item_set_due(item, first);
	if (reason == PDD_REASON_CHANGED)
		item_set_dirty(item, true); /* whoever wrote it: it must be read */
}
