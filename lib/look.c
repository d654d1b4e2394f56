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

/* What is loaded of a page ahead, in lines of the cache. */
#define AHEAD_BYTES ((size_t)4096)
#define LINE_BYTES ((size_t)64)

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

/* An unchanged page that is neither shared nor in the index; its checksum is recorded. */
static void search(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_item *item,
		   enum pdd_class class_, const void *content)
{
	enum pdd_reason reason = item_reason(item);
	struct pdd_index_slot slot;
	struct pdd_index_node *node;
	enum search_result result =
		pddi_search(scanner, &worker->priv.visit, &node, &slot, item, content);

	if (result != SEARCH_NOTHING && item_state(item) == ITEM_NEW)
		item_set_all(item, ITEM_SEEN, class_, PDD_REASON_FIRST_LOOK);
	switch (result) {
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
		pddi_search_link(scanner, &slot, item, class_, reason);
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

/* A page that has the checksum that is recorded, or needs no second look to be taken for unchanged. */
static void decide_unchanged(struct pdd_scanner *scanner, struct pdd_worker *worker,
			     const struct pdd_look *look)
{
	bool zero = look->checksum.class_ == PDD_CLASS_ZERO && pddi_merges_zero(scanner);
	struct pdd_item *item = look->item;

	item_set_due(item, false);
	if (item_state(item) == ITEM_PENDING) /* the twin of a page before it in the batch */
		return;
	if (item_state(item) == ITEM_INDEXED) {
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
		search(scanner, worker, item, look->checksum.class_, look->content);
}

/* A page was read: decide about it. */
static void decide_page(struct pdd_scanner *scanner, struct pdd_worker *worker,
			const struct pdd_look *look)
{
	const struct pdd_checksum *checksum = &look->checksum;
	bool zero = checksum->class_ == PDD_CLASS_ZERO && pddi_merges_zero(scanner);
	struct pdd_item *item = look->item;
	bool first = item_state(item) == ITEM_NEW;

	if (first && scanner->priv.tunables.one_look && !zero) {
		item->priv.node.checksum = checksum->value; /* mostly it goes straight into the index */
	} else if (first || checksum->value != item->priv.node.checksum ||
		   checksum->class_ != item_class(item)) {
		remember(scanner, item, checksum);
		if (!first || !scanner->priv.tunables.one_look)
			return;
	}
	decide_unchanged(scanner, worker, look);
}

/* What the loop that reads pages has to know of one: it must not look at items (pdd_look.intent). */
enum intent {
	INTENT_CLEAN = 0,  /* it is known to be as it was: not to be read */
	INTENT_READ = 1,   /* to be read; no search is likely to follow */
	INTENT_SECOND = 2, /* the same, but if it has its recorded checksum it is searched for */
	INTENT_SEARCH = 3, /* the same, and whatever it is it is searched for */
};

static inline enum intent intent_of(const struct pdd_scanner *scanner, enum item_state state)
{
	if (state == ITEM_NEW)
		return scanner->priv.tunables.one_look ? INTENT_SEARCH : INTENT_READ;
	return state == ITEM_SEEN ? INTENT_SECOND : INTENT_READ;
}

/* The page that is read after this one; behind the last of a batch that is likely to be its neighbour.
 * NULL: it is not to be read. */
static const char *next_content(const struct pdd_scanner *scanner, const struct pdd_look *look,
				const struct pdd_look *end)
{
	if (look + 1 == end)
		return (const char *)look->content + scanner->priv.page_size;
	return look[1].intent == INTENT_CLEAN ? NULL : look[1].content;
}

/* Checksum the pages of the batch, and ask for the roots of the searches that will follow: the
 * processor loads them meanwhile. The number of these searches. Without the scanner's lock. */
static uint32_t read_pages(const struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_search_ahead *searches = worker->priv.searches;
	struct pdd_look *look = worker->priv.batch, *end = look + worker->priv.nbatch;
	size_t ahead = scanner->priv.page_size < AHEAD_BYTES ? scanner->priv.page_size : AHEAD_BYTES;
	uint32_t nsearches = 0;

	for (; look < end; look++) {
		const char *next = next_content(scanner, look, end);
		uint64_t recorded = look->checksum.value;

		/* The processor's own prefetcher stops at each page. (In a function of its own this
		 * loop is taken for one without effect, and goes.) */
		for (size_t at = 0; next && at < ahead; at += LINE_BYTES)
			PDD_PREFETCH_READ(next + at);
		look->err = look->intent == INTENT_CLEAN
				    ? 0
				    : pddi_checksum_read(scanner, &look->checksum, look->content);
		if (look->intent == INTENT_SEARCH ||
		    (look->intent == INTENT_SECOND && look->checksum.value == recorded)) {
			pdd_index_prefetch(&scanner->priv.index, look->checksum.value);
			searches[nsearches++].checksum = look->checksum.value;
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

/* ---- what most looks find ----
 *
 * A page of a later pass is in the index, and unchanged; one that is new is put there, as nothing has its
 * checksum. Both are decided here without a call for each step of it, and what is counted of them is
 * counted once for the batch. All others are decide_page()'s.
 */

struct common {
	struct pdd_scanner *scanner;
	struct pdd_extent *extent;
	struct pdd_counts *counts;
	uint64_t fresh;    /* the mark of items that are inserted now */
	bool one_look;
	uint16_t nfirst;  /* pages that were NEW and are in the index now */
	uint16_t nsecond; /* that were SEEN for the first time, and due */
};

/* All pages of a batch are of one extent. */
static void begin_common(struct common *common, struct pdd_scanner *scanner,
			 const struct pdd_item *item)
{
	*common = (struct common){
		.scanner = scanner,
		.extent = item_extent(item),
		.counts = item_counts(item),
		.fresh = pddi_search_fresh_mark(scanner),
		.one_look = scanner->priv.tunables.one_look,
	};
}

static void end_common(struct common *common)
{
	struct pdd_counts *counts = common->counts;
	struct pdd_extent *extent = common->extent;
	unsigned n = common->nfirst + common->nsecond;

	counts->reasons[PDD_REASON_NEW] -= common->nfirst;
	counts->reasons[PDD_REASON_FIRST_LOOK] -= common->nsecond;
	counts->reasons[PDD_REASON_UNIQUE] += n;
	counts->ksm_rmap_items += common->nfirst;
	counts->pages_unshared += n;
	counts->pages_due -= common->nsecond;
	extent->priv.due = (uint16_t)(extent->priv.due - common->nsecond);
	extent->priv.unsettled = (uint16_t)(extent->priv.unsettled - n);
	common->nfirst = common->nsecond = 0;
}

/* Whether pages that are in the index and unchanged are left alone. */
static bool leaves_indexed_alone(const struct pdd_scanner *scanner)
{
	return !scanner->priv.nbeside && !pddi_rebuilds(scanner);
}

/* Decide about a page, if it is one of these: it has content of no special class. */
static bool decide_common(struct common *common, const struct pdd_look *look)
{
	struct pdd_item *item = look->item;
	uint64_t value = look->checksum.value;
	struct pdd_index_slot slot;
	bool first;

	if (look->checksum.class_ != PDD_CLASS_OTHER)
		return false;
	if (item_is(item, ITEM_INDEXED, ITEM_ANY_REASON, false))
		return value == item->priv.node.checksum && leaves_indexed_alone(common->scanner);
	first = common->one_look && item_is(item, ITEM_NEW, PDD_REASON_NEW, false);
	if (!first && !(item_is(item, ITEM_SEEN, PDD_REASON_FIRST_LOOK, true) &&
			value == item->priv.node.checksum))
		return false;
	if (pdd_index_find_slot(&common->scanner->priv.index, &slot, value, NULL, NULL))
		return false;
	item->priv.node.checksum = value;
	item_become_unique(item, common->fresh);
	pddi_index_link(common->scanner, &slot, &item->priv.node, PDD_KIND_ITEM);
	common->nfirst += first;
	common->nsecond += !first;
	return true;
}

void pddi_look_flush(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_look *look = worker->priv.batch, *end = look + worker->priv.nbatch;
	struct common common;
	uint32_t nsearches;

	if (look == end)
		return;
	pddi_unlock(scanner);
	nsearches = read_pages(scanner, worker);
	pddi_lock(scanner);
	load_ahead(scanner, worker->priv.searches, nsearches);
	begin_common(&common, scanner, look->item);
	for (; look < end; look++) {
		if (look->err) {
			pddi_look_refused(scanner, look->item,
					  pddi_reason(scanner, PDD_HOOK_CHECKSUM, look->err));
			continue;
		}
		common.counts->pages_scanned++;
		common.counts->pages_hashed += look->intent != INTENT_CLEAN &&
					       look->checksum.class_ == PDD_CLASS_OTHER;
		if (!decide_common(&common, look))
			decide_page(scanner, worker, look);
	}
	end_common(&common);
	worker->priv.nbatch = 0;
}

/* Put a page into the batch. From here on a write that is told of is one after the reading. */
static inline void collect(struct pdd_scanner *scanner, struct pdd_worker *worker,
			   struct pdd_item *item, const void *content, enum intent intent)
{
	struct pdd_look *look = &worker->priv.batch[worker->priv.nbatch];

	look->item = item;
	look->content = content;
	look->checksum.value = item->priv.node.checksum;
	look->checksum.class_ = item_class(item);
	look->intent = (uint8_t)intent;
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
	collect(scanner, worker, item, content,
		pddi_is_clean(scanner, item) ? INTENT_CLEAN
					     : intent_of(scanner, item_state(item)));
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
		if (all && (state == ITEM_NEW || state == ITEM_SEEN || state == ITEM_INDEXED)) {
			item_grow_older(item);
			collect(scanner, worker, item, content, intent_of(scanner, state));
		} else {
			look_private(scanner, worker, item, content, view->node);
		}
	}
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

	if (view->kind == PDD_PAGE_PRIVATE) {
		look_at_private(scanner, worker, extent, first, view);
		return;
	}
	for (uint64_t i = 0; i < view->npages; i++) {
		struct pdd_item *item = pddi_extent_item(extent, first + i);

		/* The twin of a page that stands before it: decided, and to be held and compared. */
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
