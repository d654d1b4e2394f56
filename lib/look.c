/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look.c - what a pass does with a page: read it, or skip it, and decide.
 *
 *	not written, known ... left alone, or, if it waits for its second look, taken for unchanged
 *	absent ............... an item at the zero page stays so, all others are forgotten
 *	still its frame ...... done, unless that moved to another NUMA node
 *	another frame ........ a clone's page: it becomes a sharer of that frame
 *	private, but shared .. its copy was broken by a write: it starts as new
 *	young, due, or the
 *	pass of its phase .... read; else skipped
 *
 * What is read goes into the batch (batch.c), and is decided about when that is read (decide.c).
 */
#include "scanner_internal.h"

/* A page is written, says its kind: what it shared is shared no more. */
static void unshare(struct pdd_scanner *scanner, struct pdd_item *item)
{
	if (item_state(item) == ITEM_SHARER) {
		item_counts(item)->unshares++;
		item->priv.region->priv.unshares++;
		pddi_stable_leave(scanner, item, PDD_REASON_NEW);
		pddi_trace(scanner, PDD_EVENT_UNSHARED, item->priv.region, item_page(item), 1);
	} else if (item_state(item) == ITEM_ZERO) {
		pddi_item_reset(item, PDD_REASON_NEW);
	}
}

/* Note on which NUMA node the page lies: that is part of its key. */
static void note_node(struct pdd_scanner *scanner, struct pdd_item *item, uint16_t node)
{
	if (item_node(item) == pddi_node(scanner, node))
		return;
	if (item_state(item) == ITEM_INDEXED) {
		pddi_item_detach(scanner, item, item_reason(item));
		item_set_due(item, true);
	}
	item_set_node(item, pddi_node(scanner, node));
}

/* A page that the pass comes by without a look. Where the index is rebuilt, and among collisions
 * (search.c), it leaves the index. */
static void leave_index(struct pdd_scanner *scanner, struct pdd_item *item)
{
	if (item_state(item) == ITEM_INDEXED &&
	    (pddi_rebuilds(scanner) ||
	     (scanner->priv.compare_passes && !pddi_search_is_alone(scanner, item))))
		pddi_item_detach(scanner, item, item_reason(item));
}

/* Whether it is the turn of a page that was read before. */
static bool is_its_turn(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return scanner->priv.tunables.aging == PDD_AGING_NONE || item_is_due(item) ||
	       pdd_aging_look((enum pdd_aging)scanner->priv.tunables.aging, item_age(item),
			      scanner->priv.epoch, item->priv.node.checksum,
			      pddi_max_period(scanner));
}

static void grow_older(const struct pdd_scanner *scanner, struct pdd_item *item)
{
	item_set_age(item, pdd_aging_next((enum pdd_aging)scanner->priv.tunables.aging,
					  item_age(item), pddi_max_period(scanner)));
}

/* One page that has memory of its own. */
static void look_private(struct pdd_scanner *scanner, struct pdd_worker *worker,
			 struct pdd_item *item, const void *content, uint16_t node)
{
	bool look;

	unshare(scanner, item);
	note_node(scanner, item, node);
	if (pddi_is_at_rest(scanner, item)) {
		item_counts(item)->pages_clean++;
		return;
	}
	look = item_state(item) == ITEM_NEW || is_its_turn(scanner, item);
	grow_older(scanner, item);
	if (!look) {
		item_counts(item)->pages_skipped++;
		leave_index(scanner, item);
		return;
	}
	pddi_batch_add(scanner, worker, item, content,
		       pddi_is_clean(scanner, item) ? LOOK_CLEAN
						    : pddi_look_intent(scanner, item_state(item)));
}

/* Whether every page that has memory of its own is read, whatever is known of it. */
static bool reads_all(const struct pdd_scanner *scanner)
{
	return scanner->priv.tunables.aging == PDD_AGING_NONE && !scanner->priv.ops.pages_written &&
	       !pddi_nodes_apart(scanner);
}

/* Pages that have memory of their own. */
static void look_at_private(struct pdd_scanner *scanner, struct pdd_worker *worker,
			    struct pdd_extent *extent, uint64_t first, const struct pdd_view *view)
{
	const unsigned char *content = view->content;
	struct pdd_item *item = pddi_extent_item(extent, first);
	bool all = reads_all(scanner);

	for (uint64_t n = view->npages; n; n--, item++, content += scanner->priv.page_size) {
		enum item_state state = item_state(item);

		if (state == ITEM_PENDING) /* the twin of a page that stands before it */
			continue;
		if (worker->priv.only_due && !item_is_due(item))
			continue;
		if (all && !item_node(item) &&
		    (state == ITEM_NEW || state == ITEM_SEEN || state == ITEM_INDEXED)) {
			item_grow_older(item);
			pddi_batch_add(scanner, worker, item, content,
				       pddi_look_intent(scanner, state));
		} else {
			look_private(scanner, worker, item, content, view->node);
		}
	}
}

/* It shows a frame of ours: its own still, or another one, which it is to share. False: it must
 * not, or the frame is gone. */
static bool look_frame(struct pdd_scanner *scanner, struct pdd_item *item, struct pdd_frame *frame,
		       uint16_t node)
{
	if (item_state(item) != ITEM_SHARER || item_frame(item) != frame) {
		pddi_item_detach(scanner, item, PDD_REASON_FOREIGN_FRAME);
		pddi_item_reset(item, PDD_REASON_FOREIGN_FRAME);
		if (!frame || !pddi_stable_adopt(scanner, frame, item))
			return false;
	}
	pddi_stable_move(scanner, frame, pddi_node(scanner, node));
	return item_state(item) == ITEM_SHARER;
}

/* It shows what frames_map put there. */
static void look_shared(struct pdd_scanner *scanner, struct pdd_item *item, uint16_t node)
{
	if (item_state(item) == ITEM_SHARER)
		pddi_stable_move(scanner, item_frame(item), pddi_node(scanner, node));
	else
		pddi_item_refused(scanner, item, PDD_REASON_FOREIGN_FRAME);
}

/* It shows the zero page by our doing. */
static void look_zeroed(struct pdd_scanner *scanner, struct pdd_item *item)
{
	if (item_state(item) == ITEM_ZERO)
		return;
	pddi_item_detach(scanner, item, PDD_REASON_NEW);
	pddi_item_reset(item, PDD_REASON_NEW);
	item_set(item, ITEM_ZERO, PDD_REASON_NONE);
	item_counts(item)->adoptions++;
}

/* Nothing to read there. */
static void look_nothing(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	if (item_state(item) == ITEM_ZERO)
		return;
	pddi_item_detach(scanner, item, reason);
	pddi_item_reset(item, reason);
}

void pddi_look(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_extent *extent,
	       uint64_t first, const struct pdd_view *view)
{
	struct pdd_frame *frame = view->kind == PDD_PAGE_FRAME ? view->frame : NULL;

	if (view->kind == PDD_PAGE_PRIVATE) {
		look_at_private(scanner, worker, extent, first, view);
		return;
	}
	for (uint64_t i = 0; i < view->npages; i++) {
		struct pdd_item *item = pddi_extent_item(extent, first + i);
		bool dirty = item_is_dirty(item);

		/* The twin of a page that stands before it: decided, and to be held and compared.
		 */
		if (item_state(item) == ITEM_PENDING)
			continue;
		switch ((enum pdd_page_kind)view->kind) {
		case PDD_PAGE_PRIVATE: /* above */
			break;
		case PDD_PAGE_SHARED:
			look_shared(scanner, item, view->node);
			break;
		case PDD_PAGE_FRAME:
			if (!look_frame(scanner, item, frame, view->node))
				frame = NULL;
			break;
		case PDD_PAGE_ABSENT:
			look_nothing(scanner, item, PDD_REASON_ABSENT);
			break;
		case PDD_PAGE_ZERO:
			look_nothing(scanner, item, PDD_REASON_KERNEL_ZERO);
			break;
		case PDD_PAGE_ZEROED:
			look_zeroed(scanner, item);
			break;
		case PDD_PAGE_REFUSED:
			pddi_item_refused(scanner, item, (enum pdd_reason)view->reason);
			break;
		}
		/* A mark that came since pages_get is one of a write that it may not have seen. */
		if (dirty)
			item_set_dirty(item, true);
	}
}

/* One page that is locked. */
static void miss(struct pdd_scanner *scanner, struct pdd_item *item)
{
	if (item_is_kept_out(item))
		return;
	if (item_state(item) == ITEM_NEW) { /* it will be looked at in any case */
		if (item_reason(item) == PDD_REASON_NEW)
			item_set(item, ITEM_NEW, PDD_REASON_BUSY);
		return;
	}
	if (item_state(item) != ITEM_SEEN && item_state(item) != ITEM_INDEXED)
		return;
	/* Though it may be clean: what was written meanwhile was not asked for. */
	if (is_its_turn(scanner, item))
		item_set_due(item, true);
	leave_index(scanner, item);
}

void pddi_look_missed(struct pdd_scanner *scanner, struct pdd_extent *extent, uint64_t first,
		      uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		miss(scanner, pddi_extent_item(extent, first + i));
}
