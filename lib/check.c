/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check.c - walk everything and prove it.
 *
 * Proven: the shape of all trees and their order by (checksum, domain, kind), for frames also by
 * content; that what stands in the index are exactly the leaders and the items that say so; chains
 * and lists of sharers, and that the sharers of all frames are exactly the items that say so; no
 * decision pending; gauges and per-extent numbers recounted.
 *
 * Not proven: that a sharer's page still shows its frame (the page may be written at any time), and
 * the order of items by content (their pages change; see search.c).
 */
#include <string.h>

#include "content.h"
#include "scanner_internal.h"

struct census {
	uint64_t indexed;   /* items that stand in the index */
	uint64_t sharers;   /* of all frames */
	uint64_t shared;    /* frames with sharers */
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
		if (frame->priv.nsharers == 0)
			return broken(why, "check: a frame in the index has no sharer");
		census->sharers += frame->priv.nsharers;
		census->shared++;
		frame = i == 0 ? leader->priv.dups : frame->priv.node.u.dup.next;
	}
	return 0;
}

/* Two neighbours of equal checksum. */
static int check_order(const struct pdd_scanner *scanner, const struct pdd_index_node *a,
		       const struct pdd_index_node *b, const char **why)
{
	uint32_t da = pddi_node_domain(a), db = pddi_node_domain(b);
	const void *ca, *cb;

	if (da != db)
		return da < db ? 0 : broken(why, "check: nodes are not ordered by domain");
	if (pdd_index_kind(a) != pdd_index_kind(b))
		return pdd_index_kind(a) < pdd_index_kind(b)
			       ? 0
			       : broken(why, "check: nodes are not ordered by kind");
	if (pdd_index_kind(a) != PDD_KIND_FRAME)
		return 0;
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

static int check_item(struct pdd_item *item, const struct pdd_region *region, uint64_t page,
		      struct pdd_counts *counts, const char **why)
{
	enum item_state state = item_state(item);
	uint64_t *gauge = state_gauge(counts, state);
	const struct pdd_frame *frame = item->priv.node.u.member.owner; /* of a sharer */

	if (item->priv.region != region || item_page(item) != page)
		return broken(why, "check: an item does not know its page");
	if (state == ITEM_PENDING)
		return broken(why, "check: a decision outlived its step");
	if (state == ITEM_SHARER && frame->priv.domain != region->priv.space->priv.domain)
		return broken(why, "check: an item shares a frame of another domain");
	if (state == ITEM_SHARER && frame->priv.node.checksum != item->priv.node.checksum)
		return broken(why, "check: an item shares a frame of another checksum");
	if (gauge)
		++*gauge;
	counts->ksm_rmap_items += state != ITEM_NEW;
	counts->pages_due += item_is_due(item);
	counts->reasons[item_reason(item)]++;
	counts->pages++;
	return 0;
}

static int check_extent(const struct pdd_region *region, uint64_t i, struct pdd_counts *counts,
			const char **why)
{
	const struct pdd_extent *extent = &region->priv.extents[i];
	uint64_t first = i * PDD_EXTENT_PAGES, due = 0, unsettled = 0;

	for (uint64_t page = first; page < region->priv.npages && page < first + PDD_EXTENT_PAGES;
	     page++) {
		struct pdd_item *item = pddi_item_at(region, page);
		int err = check_item(item, region, page, counts, why);

		if (err)
			return err;
		due += item_is_due(item);
		unsettled += item_unsettled(item_state(item), item_reason(item));
	}
	if (due != extent->priv.due || unsettled != extent->priv.unsettled)
		return broken(why, "check: the numbers of an extent are wrong");
	return 0;
}

static int check_space(const struct pdd_space *space, struct census *census, const char **why)
{
	const struct pdd_counts *said = &space->priv.counts;
	struct pdd_counts counts = { 0 };

	for (const struct pdd_region *region = space->priv.regions; region;
	     region = region->priv.next) {
		for (uint64_t i = 0; i < pdd_region_extents(region->priv.npages); i++) {
			int err = check_extent(region, i, &counts, why);

			if (err)
				return err;
		}
	}
	if (counts.pages != said->pages || counts.ksm_rmap_items != said->ksm_rmap_items ||
	    counts.ksm_merging_pages != said->ksm_merging_pages ||
	    counts.ksm_zero_pages != said->ksm_zero_pages ||
	    counts.pages_unshared != said->pages_unshared ||
	    counts.pages_due != said->pages_due ||
	    memcmp(counts.reasons, said->reasons, sizeof(counts.reasons)) != 0)
		return broken(why, "check: the gauges of a space are wrong");
	census->items_indexed += counts.pages_unshared;
	census->items_sharing += counts.ksm_merging_pages;
	return 0;
}

int pdd_scanner_check(const struct pdd_scanner *scanner, const char **why)
{
	const struct pdd_stats *stats = &scanner->priv.stats;
	struct census census = { 0 };
	int err = check_index(scanner, &census, why);

	for (const struct pdd_space *space = scanner->priv.spaces; space && !err;
	     space = space->priv.next)
		err = check_space(space, &census, why);
	if (err)
		return err;
	if (census.indexed != census.items_indexed)
		return broken(why, "check: an item says that it is in the index, and is not");
	if (census.sharers != census.items_sharing)
		return broken(why, "check: an item says that it shares a frame, and does not");
	if (census.shared != stats->pages_shared ||
	    census.sharers - census.shared != stats->pages_sharing)
		return broken(why, "check: shared or sharing is wrong");
	if (census.chains != stats->stable_node_chains || census.dups != stats->stable_node_dups)
		return broken(why, "check: the number of chains or dups is wrong");
	return 0;
}
