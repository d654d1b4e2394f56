/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decide.c - what is decided about pages that were read.
 *
 *	first look ....... remember the checksum, and come back in the next pass
 *	changed .......... volatile: remember the new checksum, leave the index
 *	unchanged ........ in the index already: done
 *	                   zero: to be replaced by the zero page
 *	                   else search: a frame with room, a twin, or into the index
 *
 * Pages of a batch are decided one by one in their order; the result is as without batches.
 * Decisions only mark items and promise places; carry_out.c and merge.c carry them out.
 */
#include "scanner_internal.h"

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
	/* Why it was refused before it could be read does not matter any more. */
	enum pdd_reason reason =
		item_state(item) == ITEM_NEW ? PDD_REASON_FIRST_LOOK : item_reason(item);
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
		pddi_pass_again(scanner, item->priv.region, item_page(item));
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

/* A page that has the checksum that is recorded, or needs no second look to be taken for unchanged.
 */
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

/* ---- what most looks find ----
 *
 * A page of a later pass is in the index, and unchanged; one that is new is put there, as nothing
 * has its checksum. Both are decided here without a call for each step of it, and what is counted
 * of them is counted once for the batch. All others are decide_page()'s.
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

void pddi_decide_batch(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_look *look = worker->priv.batch, *end = look + worker->priv.nbatch;
	struct common common;

	begin_common(&common, scanner, look->item);
	for (; look < end; look++) {
		if (look->err) {
			pddi_item_refused(scanner, look->item,
					  pddi_reason(scanner, PDD_HOOK_CHECKSUM, look->err));
			continue;
		}
		common.counts->pages_scanned++;
		common.counts->pages_hashed += look->intent != LOOK_CLEAN &&
					       look->checksum.class_ == PDD_CLASS_OTHER;
		if (!decide_common(&common, look))
			decide_page(scanner, worker, look);
	}
	end_common(&common);
}
