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
 *	first look ........... remember the checksum, and come back in the next pass
 *	changed .............. volatile: remember the new checksum, leave the index
 *	unchanged ............ in the index already: done
 *	                       zero: to be replaced by the zero page
 *	                       else search: a frame with room, a twin, or into the index
 *
 * Pages are collected in a batch, checksummed together while the roots that they need are being
 * loaded, and decided one by one in their order; the result is as without batches.
 *
 * Decisions only mark items and promise places. merge.c carries them out.
 */
#include "scanner_internal.h"

/* Nodes of a search that are loaded ahead; with one root for each node few trees are deeper. */
#define LEVELS_AHEAD 4u

static void decide(struct pdd_worker *worker, struct pdd_item *item)
{
	worker->priv.decided[worker->priv.ndecided++] = item;
}

static void reserve(struct pdd_worker *worker, struct pdd_item *item, struct pdd_frame *frame)
{
	item_set(item, ITEM_PENDING, item_reason(item));
	item->priv.node.u.member.owner = frame;
	item->priv.node.u.member.pprev = NULL;
	decide(worker, item);
}

/* An unchanged page that is neither shared nor in the index. */
static void search(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_item *item,
		   const void *content)
{
	enum pdd_reason reason = item_reason(item);
	struct pdd_index_slot slot;
	struct pdd_index_node *node;

	switch (pddi_search(scanner, &worker->priv.visit, &node, &slot, item, content)) {
	case SEARCH_RESERVED:
		reserve(worker, item, frame_of(node));
		break;
	case SEARCH_TWIN:
		pddi_group_found(scanner, worker, item_of(node), item, content);
		decide(worker, item);
		break;
	case SEARCH_GROUP:
		pddi_group_join(scanner, group_of(node), item);
		decide(worker, item);
		break;
	case SEARCH_NOTHING:
		if (!pddi_reason_stays(reason))
			reason = PDD_REASON_UNIQUE;
		pddi_search_link(scanner, &slot, item, reason);
		break;
	case SEARCH_GIVE_UP:
		pddi_item_fail(item, PDD_REASON_COLLISION);
		break;
	case SEARCH_BUSY:
		pddi_item_fail(item, PDD_REASON_BUSY);
		item_set_due(item, true);
		break;
	}
}

/* The first look, or one that found another checksum: remember it. */
static void remember(struct pdd_scanner *scanner, struct pdd_item *item,
		     const struct pdd_checksum *checksum)
{
	enum pdd_reason before = item_reason(item);
	bool first = item_state(item) == ITEM_NEW;

	if (!first)
		pddi_item_detach(scanner, item, PDD_REASON_VOLATILE);
	item->priv.node.checksum = checksum->value;
	item_set_all(item, ITEM_SEEN, checksum->class_,
		     first ? PDD_REASON_FIRST_LOOK : PDD_REASON_VOLATILE);
	/* A page that changes all the time is left to its age. */
	item_set_due(item, first || before != PDD_REASON_VOLATILE);
}

static void look(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_item *item,
		 const void *content, const struct pdd_checksum *checksum)
{
	bool zero = checksum->class_ == PDD_CLASS_ZERO && pddi_merges_zero(scanner);
	enum item_state state = item_state(item);

	item_counts(item)->pages_scanned++;
	if (state == ITEM_NEW || checksum->value != item->priv.node.checksum ||
	    checksum->class_ != item_class(item)) {
		remember(scanner, item, checksum);
		if (state != ITEM_NEW || !scanner->priv.tunables.one_look)
			return;
	}
	item_set_due(item, false);
	if (state == ITEM_PENDING) /* the twin of a page before it in the batch */
		return;
	if (state == ITEM_INDEXED) {
		if (!zero && !pddi_rebuilds(scanner) && pddi_search_is_alone(scanner, item))
			return;
		/* Zero pages are replaced only since a setting changed. Or the index is rebuilt.
		 * Or, among collisions, the order is as good as the contents when they were
		 * inserted: searching anew finds what was missed, and heals it (search.c). */
		pddi_item_detach(scanner, item, item_reason(item));
	}
	if (zero)
		decide(worker, item);
	else
		search(scanner, worker, item, content);
}

/* What the loop that reads pages has to know of one: it must not look at items. */
enum intent {
	INTENT_CLEAN = 0,  /* it is known to be as it was: not to be read */
	INTENT_READ = 1,   /* to be read; no search is likely to follow */
	INTENT_SECOND = 2, /* the same, but if it has its recorded checksum it is searched for */
	INTENT_SEARCH = 3, /* the same, and whatever it is it is searched for */
};

static enum intent intent_of(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	switch (item_state(item)) {
	case ITEM_NEW: return scanner->priv.tunables.one_look ? INTENT_SEARCH : INTENT_READ;
	case ITEM_SEEN: return pddi_is_clean(scanner, item) ? INTENT_CLEAN : INTENT_SECOND;
	default: return pddi_is_clean(scanner, item) ? INTENT_CLEAN : INTENT_READ;
	}
}

/* Checksum the pages of the batch, and ask for the roots of the searches that will follow: the
 * processor loads them meanwhile. The number of these searches. Without the scanner's lock. */
static uint32_t read_pages(const struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_checksum *checksums = worker->priv.checksums;
	uint32_t nsearches = 0;

	for (uint32_t i = 0; i < worker->priv.nbatch; i++) {
		enum intent intent = (enum intent)worker->priv.intents[i];
		uint64_t recorded = checksums[i].value;

		worker->priv.errors[i] =
			intent == INTENT_CLEAN
				? 0
				: pddi_checksum_read(scanner, &checksums[i],
						     worker->priv.contents[i]);
		if (intent == INTENT_SEARCH ||
		    (intent == INTENT_SECOND && checksums[i].value == recorded)) {
			pdd_index_prefetch(&scanner->priv.index, checksums[i].value);
			worker->priv.searches[nsearches++].checksum = checksums[i].value;
		}
	}
	return nsearches;
}

/* Load what these searches will read. */
static void load_ahead(const struct pdd_scanner *scanner, struct pdd_search_ahead *searches,
		       uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t checksum = searches[i].checksum;
		const struct pdd_index_node *node =
			pdd_index_prefetch_first(&scanner->priv.index, checksum);

		searches[left] = (struct pdd_search_ahead){ checksum, node };
		left += node != NULL;
	}
	for (uint32_t level = 1; left && level < LEVELS_AHEAD; level++) {
		n = left;
		left = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t checksum = searches[i].checksum;
			const struct pdd_index_node *node =
				pdd_index_prefetch_below(searches[i].node, checksum);

			searches[left] = (struct pdd_search_ahead){ checksum, node };
			left += node != NULL;
		}
	}
}

void pddi_look_flush(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	uint32_t n = worker->priv.nbatch, nsearches;

	if (!n)
		return;
	pddi_unlock(scanner);
	nsearches = read_pages(scanner, worker);
	pddi_lock(scanner);
	load_ahead(scanner, worker->priv.searches, nsearches);
	for (uint32_t i = 0; i < n; i++) {
		struct pdd_item *item = worker->priv.batch[i];
		int err = worker->priv.errors[i];

		if (err) {
			pddi_look_refused(scanner, item,
					  pddi_reason(scanner, PDD_HOOK_CHECKSUM, err));
			continue;
		}
		item_counts(item)->pages_hashed += worker->priv.intents[i] != INTENT_CLEAN &&
						   worker->priv.checksums[i].class_ ==
							   PDD_CLASS_OTHER;
		look(scanner, worker, item, worker->priv.contents[i], &worker->priv.checksums[i]);
	}
	worker->priv.nbatch = 0;
}

/* Put a page into the batch. From here on a write that is told of is one after the reading. */
static void collect(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_item *item,
		    const void *content)
{
	uint32_t i = worker->priv.nbatch;

	worker->priv.batch[i] = item;
	worker->priv.contents[i] = content;
	worker->priv.intents[i] = (uint8_t)intent_of(scanner, item);
	worker->priv.checksums[i] =
		(struct pdd_checksum){ item->priv.node.checksum, item_class(item) };
	item_set_dirty(item, false);
	if (++worker->priv.nbatch == PDD_BATCH_PAGES)
		pddi_look_flush(scanner, worker);
}

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
	return item_is_due(item) ||
	       pdd_aging_look((enum pdd_aging)scanner->priv.tunables.aging, item_age(item),
			      scanner->priv.epoch, item->priv.node.checksum,
			      pddi_max_period(scanner));
}

static void grow_older(const struct pdd_scanner *scanner, struct pdd_item *item)
{
	item_set_age(item, pdd_aging_next((enum pdd_aging)scanner->priv.tunables.aging,
					  item_age(item), pddi_max_period(scanner)));
}

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
	collect(scanner, worker, item, content);
}

/* It shows a frame of ours: its own still, or another one, which it is to share. False: it must not,
 * or the frame is gone. */
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
		pddi_look_refused(scanner, item, PDD_REASON_FOREIGN_FRAME);
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

/* Not to be touched: it is forgotten, so that no search finds it. What it shares it keeps. */
void pddi_look_refused(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	if (item_state(item) == ITEM_SHARER || item_state(item) == ITEM_ZERO)
		return;
	pddi_item_detach(scanner, item, reason);
	pddi_item_reset(item, reason);
}

void pddi_look(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_extent *extent,
	       uint64_t first, const struct pdd_view *view)
{
	struct pdd_frame *frame = view->kind == PDD_PAGE_FRAME ? view->frame : NULL;
	const unsigned char *content = view->content;

	for (uint64_t i = 0; i < view->npages; i++) {
		struct pdd_item *item = pddi_extent_item(extent, first + i);

		/* The twin of a page that stands before it: decided, and to be held and compared. */
		if (item_state(item) == ITEM_PENDING)
			continue;
		/* What stands there is known now. A page that is read clears the mark itself, and
		 * of one that is refused nothing is known. */
		if (view->kind != PDD_PAGE_PRIVATE && view->kind != PDD_PAGE_REFUSED)
			item_set_dirty(item, false);
		switch ((enum pdd_page_kind)view->kind) {
		case PDD_PAGE_PRIVATE:
			look_private(scanner, worker, item, content + i * scanner->priv.page_size,
				     view->node);
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
			pddi_look_refused(scanner, item, (enum pdd_reason)view->reason);
			break;
		}
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
