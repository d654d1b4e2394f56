/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check.c - walk everything and prove it.
 *
 * Proven: the shape of all trees and their order by (checksum, partition, kind, set), for frames
 * also by content; that what stands in the index are exactly the leaders and the items that say so;
 * chains and lists of sharers, and that the sharers of all frames are exactly the items that say
 * so; that frames without a sharer are kept ones; no decision pending; gauges and per-extent
 * numbers recounted; the live extents of sparse regions; the places of the pass.
 *
 * Not proven: that a sharer's page still shows its frame (the page may be written at any time), and
 * the order of items by content (their pages change; see search.c).
 */
#include <string.h>

#include "content.h"
#include "scanner_internal.h"

struct census {
	uint64_t beside;    /* nodes behind another one of their key */
	uint64_t indexed;   /* items that stand in the index */
	uint64_t sharers;   /* of all frames */
	uint64_t shared;    /* frames with sharers */
	uint64_t kept;      /* and without */
	uint64_t chains;
	uint64_t dups;
	uint64_t items_indexed; /* items that say so */
	uint64_t items_sharing;
};

static int broken(const char **why, const char *what)
{
	if (why)
		*why = what;
	return -EUCLEAN;
}

static int check_chain(const struct pdd_frame *leader,
		       struct census *census, const char **why)
{
	const struct pdd_frame *frame = leader;
	int64_t n = pdd_chain_check(leader, why);

	if (n < 0)
		return (int)n;
	census->chains += n > 1;
	census->dups += n > 1 ? (uint64_t)n : 0;
	for (int64_t i = 0; i < n; i++) {
		if (!(frame->priv.flags & FRAME_LISTED) || frame->priv.nreserved)
			return broken(why, "check: a frame in the index is unlisted or reserved");
		if ((frame->priv.nsharers == 0) != !!(frame->priv.flags & FRAME_KEPT))
			return broken(why, "check: a frame without a sharer is not a kept one");
		census->sharers += frame->priv.nsharers;
		census->shared += frame->priv.nsharers != 0;
		census->kept += frame->priv.nsharers == 0;
		frame = i == 0 ? leader->priv.dups : frame->priv.node.u.dup.next;
	}
	return 0;
}

/* Two neighbours of equal checksum. */
static int check_order(const struct pdd_scanner *scanner, const struct pdd_index_node *a,
		       const struct pdd_index_node *b, const char **why)
{
	uint64_t pa = pddi_node_partition(a), pb = pddi_node_partition(b);
	const void *ca, *cb;

	if (pa != pb)
		return pa < pb ? 0 : broken(why, "check: nodes are not ordered by partition");
	if (pdd_index_kind(a) != pdd_index_kind(b))
		return pdd_index_kind(a) < pdd_index_kind(b)
			       ? 0
			       : broken(why, "check: nodes are not ordered by kind");
	if (pdd_index_kind(a) != PDD_KIND_FRAME)
		return pddi_node_is_fresh(a) <= pddi_node_is_fresh(b)
			       ? 0
			       : broken(why, "check: items are not ordered by set");
	ca = pddi_frame_content(scanner, frame_of(a));
	cb = pddi_frame_content(scanner, frame_of(b));
	if (ca && cb && pddi_content_compare(ca, cb, scanner->priv.page_size) >= 0)
		return broken(why, "check: frames are not ordered by content");
	return 0;
}

static int check_node(const struct pdd_scanner *scanner, const struct pdd_index_node *node,
		      struct census *census, const char **why)
{
	const struct pdd_index_node *next = pdd_index_next_equal(node);
	int err = 0;

	census->beside += pddi_has_same_key(node, next);
	switch (pdd_index_kind(node)) {
	case PDD_KIND_FRAME:
		err = check_chain(frame_of(node), census, why);
		break;
	case PDD_KIND_ITEM:
		if (item_state(item_of(node)) != ITEM_INDEXED)
			err = broken(why, "check: an item in the index does not say so");
		census->indexed++;
		break;
	case PDD_KIND_GROUP:
		err = broken(why, "check: a group outlived its step");
		break;
	}
	return err || !next ? err : check_order(scanner, node, next, why);
}

static int check_index(const struct pdd_scanner *scanner, struct census *census, const char **why)
{
	const struct pdd_index *index = &scanner->priv.index;
	int64_t n = pdd_index_check(index, why);

	if (n < 0)
		return (int)n;
	for (uint64_t i = 0; i < index->nroots; i++) {
		const struct pdd_rbnode *rb = pdd_rb_first(&index->roots[i]);

		for (; rb; rb = pdd_rb_next(rb)) {
			int err = check_node(scanner, (const struct pdd_index_node *)(const void *)rb,
					     census, why);
			if (err)
				return err;
		}
	}
	return 0;
}

static int check_sharer(const struct pdd_item *item, const char **why)
{
	const struct pdd_frame *frame = item_frame(item);

	if (frame_partition(frame) != item_partition(item))
		return broken(why, "check: an item shares a frame of another domain or node");
	if (frame->priv.node.checksum != item->priv.node.checksum)
		return broken(why, "check: an item shares a frame of another checksum");
	return 0;
}

/* What its extent counts. */
struct numbers {
	unsigned known, unsettled, due, merged, kept_out, dirty;
};

static int check_item(struct pdd_item *item, const struct pdd_region *region, uint64_t page,
		      struct pdd_counts *counts, struct numbers *n, const char **why)
{
	enum item_state state = item_state(item);
	enum pdd_class class_ = item_class(item);

	if (item->priv.region != region || item_page(item) != page)
		return broken(why, "check: an item does not know its page");
	if (state == ITEM_PENDING)
		return broken(why, "check: a decision outlived its step");
	if (item_is_kept_out(item) &&
	    (state != ITEM_NEW || (!item_pins(item) && !item_is_excluded(item))))
		return broken(why, "check: a page that is kept out is known, or not kept out");
	counts->pages_unshared += state == ITEM_INDEXED;
	counts->ksm_merging_pages += state == ITEM_SHARER;
	counts->ksm_zero_pages += state == ITEM_ZERO;
	counts->pages_zero_filled += item_zero_filled(state, class_);
	counts->pages_same_filled += state != ITEM_NEW && class_ == PDD_CLASS_FILLED;
	counts->ksm_rmap_items += state != ITEM_NEW;
	counts->pages_due += item_is_due(item);
	counts->reasons[item_reason(item)]++;
	counts->pages++;
	n->known += item_known(state, item_reason(item));
	n->unsettled += item_unsettled(state, item_reason(item)) && !item_is_kept_out(item);
	n->due += item_is_due(item);
	n->merged += state == ITEM_SHARER || state == ITEM_ZERO;
	n->kept_out += item_is_kept_out(item);
	n->dirty += item_is_dirty(item);
	return state == ITEM_SHARER ? check_sharer(item, why) : 0;
}

static int check_extent(const struct pdd_region *region, const struct pdd_extent *extent,
			struct pdd_counts *counts, const char **why)
{
	struct numbers n = { 0 };

	for (uint64_t page = pddi_extent_first(extent); page < pddi_extent_end(region, extent);
	     page++) {
		int err = check_item(pddi_extent_item(extent, page), region, page, counts, &n, why);

		if (err)
			return err;
	}
	if (n.due != extent->priv.due || n.unsettled != extent->priv.unsettled ||
	    n.known != extent->priv.known || n.merged != extent->priv.merged ||
	    n.kept_out != extent->priv.kept_out || n.dirty != extent->priv.dirty)
		return broken(why, "check: the numbers of an extent are wrong");
	if (!region->priv.extents && !n.known)
		return broken(why, "check: a sparse region has an extent of which nothing is known");
	return 0;
}

static int check_region(const struct pdd_region *region, struct pdd_counts *counts,
			const char **why)
{
	uint64_t end = pdd_region_extents(region->priv.npages), recorded = counts->pages, n = 0;
	const struct pdd_extent *extent;

	if (!region->priv.extents && pdd_rb_check(&region->priv.live, why) < 0)
		return -EUCLEAN;
	for (uint64_t i = 0; (extent = pddi_extent_next(region, i, end)) != NULL; i++, n++) {
		int err = check_extent(region, extent, counts, why);

		if (err)
			return err;
		i = extent->priv.number;
	}
	if (!region->priv.extents && n != region->priv.nlive)
		return broken(why, "check: the number of live extents is wrong");
	recorded = counts->pages - recorded;
	counts->reasons[PDD_REASON_NO_RECORD] += region->priv.npages - recorded;
	counts->pages += region->priv.npages - recorded;
	return 0;
}

static bool counts_differ(const struct pdd_counts *a, const struct pdd_counts *b)
{
	return a->pages != b->pages || a->ksm_rmap_items != b->ksm_rmap_items ||
	       a->ksm_merging_pages != b->ksm_merging_pages ||
	       a->ksm_zero_pages != b->ksm_zero_pages || a->pages_unshared != b->pages_unshared ||
	       a->pages_due != b->pages_due || a->pages_zero_filled != b->pages_zero_filled ||
	       a->pages_same_filled != b->pages_same_filled ||
	       memcmp(a->reasons, b->reasons, sizeof(a->reasons)) != 0;
}

static int check_space(const struct pdd_space *space, struct census *census, const char **why)
{
	struct pdd_counts counts = { 0 };
	int err = 0;

	for (const struct pdd_region *region = space->priv.regions; region && !err;
	     region = region->priv.next)
		err = check_region(region, &counts, why);
	if (err)
		return err;
	if (counts_differ(&counts, &space->priv.counts))
		return broken(why, "check: the gauges of a space are wrong");
	census->items_indexed += counts.pages_unshared;
	census->items_sharing += counts.ksm_merging_pages;
	return 0;
}

static bool is_place_valid(const struct pdd_space *space, const struct pdd_place *place)
{
	return !place->region ||
	       (place->region->priv.space == space && place->page < place->region->priv.npages);
}

static int check_walks(const struct pdd_scanner *scanner, const char **why)
{
	for (const struct pdd_space *space = scanner->priv.spaces; space; space = space->priv.next)
		if (!is_place_valid(space, &space->priv.walk.at) ||
		    !is_place_valid(space, &space->priv.walk.begin) ||
		    !is_place_valid(space, &space->priv.walk.resume))
			return broken(why, "check: a pass keeps a place that is gone");
	for (const struct pdd_space *space = scanner->priv.put_off; space && scanner->priv.in_pass;
	     space = space->priv.walk.next)
		if (space->priv.scanner != scanner)
			return broken(why, "check: a space that was put off is gone");
	return 0;
}

int pdd_scanner_check(const struct pdd_scanner *scanner, const char **why)
{
	const struct pdd_stats *stats = &scanner->priv.stats;
	struct census census = { 0 };
	int err = check_index(scanner, &census, why);

	if (!err)
		err = check_walks(scanner, why);
	for (const struct pdd_space *space = scanner->priv.spaces; space && !err;
	     space = space->priv.next)
		err = check_space(space, &census, why);
	if (err)
		return err;
	if (census.beside != scanner->priv.nbeside)
		return broken(why, "check: the number of nodes beside others is wrong");
	if (census.indexed != census.items_indexed)
		return broken(why, "check: an item says that it is in the index, and is not");
	if (census.sharers != census.items_sharing)
		return broken(why, "check: an item says that it shares a frame, and does not");
	if (census.shared != stats->pages_shared ||
	    census.sharers - census.shared != stats->pages_sharing)
		return broken(why, "check: shared or sharing is wrong");
	if (census.kept != stats->frames_kept ||
	    census.shared + census.kept != scanner->priv.nframes)
		return broken(why, "check: the number of frames is wrong");
	if (census.chains != stats->stable_node_chains || census.dups != stats->stable_node_dups)
		return broken(why, "check: the number of chains or dups is wrong");
	return 0;
}
