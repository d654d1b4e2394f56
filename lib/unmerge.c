/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unmerge.c - what an embedder does to pages: unmerge, pin, exclude, discard, forget.
 *
 * Invariants
 *  1. All of them work extent by extent, and only on extents that are live. An extent knows how many
 *     of its pages are merged and how many are kept out; where none is it is passed over at once.
 *  2. A page stops showing a frame (frames_unmap, pages_discard) before its item leaves the frame:
 *     so a frame that goes back is shown by no page that the library knew.
 *  3. After any failure each page either is as it was or is done; nothing is in between. A call that
 *     is made again goes on.
 *  4. A page that is kept out is NEW: it has memory of its own, is in no list and no tree, and no
 *     pass asks for it. So a step that decided about it before finds that it is not pending any more.
 *
 * Locking: the caller's, see space.h.
 */
#include "scanner_internal.h"

/* A part of a range that lies in one extent. */
struct part {
	struct pdd_extent *extent;
	uint64_t first, end;
};

/* The next part of [first, end), in a live extent; false if there is none. */
static bool next_part(const struct pdd_region *region, struct part *part, uint64_t first,
		      uint64_t end)
{
	struct pdd_extent *extent;

	if (first >= end)
		return false;
	extent = pddi_extent_next(region, first / PDD_EXTENT_PAGES, pdd_region_extents(end));
	if (!extent)
		return false;
	part->extent = extent;
	part->first = pddi_extent_first(extent) > first ? pddi_extent_first(extent) : first;
	part->end = pddi_extent_end(region, extent) < end ? pddi_extent_end(region, extent) : end;
	return true;
}

/* ---- unmerge ---- */

static bool is_merged(const struct pdd_extent *extent, uint64_t page)
{
	enum item_state state = item_state(pddi_extent_item(extent, page));

	return state == ITEM_SHARER || state == ITEM_ZERO;
}

/* The first run of merged pages of a part, at most `most` of them. */
static bool merged_run(const struct part *part, uint64_t *first, uint64_t *npages, uint64_t most)
{
	uint64_t page = part->first, end;

	if (!part->extent->priv.merged)
		return false;
	while (page < part->end && !is_merged(part->extent, page))
		page++;
	for (end = page; end < part->end && end - page < most && is_merged(part->extent, end);)
		end++;
	*first = page;
	*npages = end - page;
	return end > page;
}

/* Unmerge a run; the number of pages done, a prefix, or -errno. */
static int unmerge_run(struct pdd_region *region, struct pdd_extent *extent, uint64_t first,
		       uint64_t npages)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	int n = scanner->priv.ops.frames_unmap(scanner->priv.ctx, region, first, npages);

	if (n <= 0) {
		(void)pddi_reason(scanner, PDD_HOOK_FRAMES_UNMAP, n);
		return n ? n : -EBUSY;
	}
	if ((uint64_t)n > npages)
		n = (int)npages;
	for (uint64_t page = first; page < first + (uint64_t)n; page++)
		pddi_item_detach(scanner, pddi_extent_item(extent, page), PDD_REASON_UNMERGED);
	return n;
}

int64_t pdd_region_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages,
			   uint64_t budget)
{
	struct part part;
	uint64_t done = 0, run;

	if (!pddi_range_is_valid(region, first, npages) || budget == 0)
		return -EINVAL;
	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (uint64_t end = first + npages; next_part(region, &part, first, end);
	     first = part.end) {
		while (done < budget && merged_run(&part, &part.first, &run, budget - done)) {
			int n = unmerge_run(region, part.extent, part.first, run);

			if (n < 0)
				return done ? (int64_t)done : n;
			part.first += (uint64_t)n;
			done += (uint64_t)n;
		}
		if (done == budget)
			break;
	}
	return (int64_t)done;
}

int64_t pdd_space_unmerge(struct pdd_space *space, uint64_t budget)
{
	int64_t done = 0;

	if (!space || !space->priv.scanner || budget == 0)
		return -EINVAL;
	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (struct pdd_region *region = space->priv.regions; region && done < (int64_t)budget;
	     region = region->priv.next) {
		int64_t n = pdd_region_unmerge(region, 0, region->priv.npages,
					       budget - (uint64_t)done);

		if (n < 0)
			return done ? done : n;
		done += n;
	}
	return done;
}

/* What run = 2 leaves: nothing is known of any page. */
static void forget_all(struct pdd_scanner *scanner)
{
	for (struct pdd_space *space = scanner->priv.spaces; space; space = space->priv.next)
		for (struct pdd_region *region = space->priv.regions; region;
		     region = region->priv.next)
			pddi_forget(region, 0, region->priv.npages, PDD_REASON_NEW);
	scanner->priv.stats.full_scans = 0;
}

int64_t pdd_scanner_unmerge(struct pdd_scanner *scanner, uint64_t budget)
{
	int64_t done = 0;

	if (!scanner || budget == 0)
		return -EINVAL;
	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (struct pdd_space *space = scanner->priv.spaces; space && done < (int64_t)budget;
	     space = space->priv.next) {
		int64_t n = pdd_space_unmerge(space, budget - (uint64_t)done);

		if (n < 0)
			return done ? done : n;
		done += n;
	}
	if (done == 0)
		forget_all(scanner);
	return done;
}

/* ---- keep out ---- */

/* Keep the library away from the page of an item that is not merged. */
static void keep_out(struct pdd_scanner *scanner, struct pdd_item *item, bool exclude)
{
	if (!item_is_kept_out(item)) {
		pddi_item_detach(scanner, item, PDD_REASON_PINNED);
		pddi_item_reset(item, PDD_REASON_PINNED);
		item->priv.word |= ITEM_KEPT_OUT;
		item_extent(item)->priv.kept_out++;
	}
	if (exclude)
		item->priv.word |= ITEM_EXCLUDED;
	else
		item_field_set(item, ITEM_NODE_SHIFT, ITEM_PINS_BITS, item_pins(item) + 1);
	if (item_is_excluded(item))
		item_set(item, ITEM_NEW, PDD_REASON_EXCLUDED);
}

/* Take back one reason to keep out. */
static void let_in(struct pdd_item *item, bool exclude)
{
	if (exclude)
		item->priv.word &= ~ITEM_EXCLUDED;
	else
		item_field_set(item, ITEM_NODE_SHIFT, ITEM_PINS_BITS, item_pins(item) - 1);
	if (item_is_excluded(item))
		return;
	if (item_pins(item)) {
		item_set(item, ITEM_NEW, PDD_REASON_PINNED);
	} else {
		item->priv.word &= ~ITEM_KEPT_OUT;
		item_extent(item)->priv.kept_out--;
		item_set(item, ITEM_NEW, PDD_REASON_NEW);
	}
}

/* Whether a page of the range has as many pins, or is not recorded. */
static bool has_pins(const struct pdd_region *region, uint64_t first, uint64_t end, uint32_t npins)
{
	struct part part;

	for (; first < end; first = part.end) {
		bool live = next_part(region, &part, first, end);

		if (npins == 0 && (!live || part.first > first))
			return true;
		if (!live)
			return false;
		for (uint64_t page = part.first; page < part.end; page++)
			if (item_pins(pddi_extent_item(part.extent, page)) == npins)
				return true;
	}
	return false;
}

/* Make all extents of the range live. */
static int get_extents(struct pdd_region *region, uint64_t first, uint64_t end)
{
	if (region->priv.extents || first == end)
		return 0;
	for (uint64_t i = first / PDD_EXTENT_PAGES; i < pdd_region_extents(end); i++)
		if (!pddi_extent_get(region, i))
			return -ENOMEM;
	return 0;
}

/* Whether the page may show a frame though nobody knows: that of a clone, before its first look. */
static bool may_show_frame(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return scanner->priv.ops.frame_is_mapped && item_state(item) == ITEM_NEW &&
	       item_reason(item) != PDD_REASON_ABSENT &&
	       item_reason(item) != PDD_REASON_UNMERGED && !item_is_kept_out(item);
}

/* Give pages of one extent memory of their own that may show a frame unknown to us. 0 or -errno. */
static int unmerge_unknown(struct pdd_region *region, const struct part *part)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	uint64_t page = part->first;

	while (page < part->end) {
		uint64_t run = 0;
		int n = 1;

		while (page + run < part->end &&
		       may_show_frame(scanner, pddi_extent_item(part->extent, page + run)))
			run++;
		if (run)
			n = scanner->priv.ops.frames_unmap(scanner->priv.ctx, region, page, run);
		if (n <= 0) {
			(void)pddi_reason(scanner, PDD_HOOK_FRAMES_UNMAP, n);
			return n ? n : -EBUSY;
		}
		if ((uint64_t)n < run)
			run = (uint64_t)n;
		/* So that the next call, should this one fail, does not ask for it again. */
		for (uint64_t end = page + run; page < end; page++)
			item_set(pddi_extent_item(part->extent, page), ITEM_NEW,
				 PDD_REASON_UNMERGED);
		page += !run;
	}
	return 0;
}

/* Give all pages of a range memory of their own. 0 or -errno. */
static int make_private(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct part part;
	int64_t n;

	do
		n = npages ? pdd_region_unmerge(region, first, npages, npages) : 0;
	while (n > 0);
	for (uint64_t end = first + npages; n == 0 && next_part(region, &part, first, end);
	     first = part.end)
		n = unmerge_unknown(region, &part);
	return (int)n;
}

static int keep_out_range(struct pdd_region *region, uint64_t first, uint64_t npages, bool exclude)
{
	uint64_t end = first + npages;
	struct part part;
	int err;

	if (!pddi_range_is_valid(region, first, npages))
		return -EINVAL;
	if (!exclude && has_pins(region, first, end, ITEM_PINS_MAX))
		return -EOVERFLOW;
	if (get_extents(region, first, end))
		return -ENOMEM;
	err = make_private(region, first, npages);
	if (err)
		return err;
	for (; next_part(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			keep_out(region->priv.space->priv.scanner,
				 pddi_extent_item(part.extent, page), exclude);
	return 0;
}

int pdd_region_pin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return keep_out_range(region, first, npages, false);
}

int pdd_region_exclude(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return keep_out_range(region, first, npages, true);
}

int pdd_region_unpin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct part part;

	if (!pddi_range_is_valid(region, first, npages) ||
	    has_pins(region, first, first + npages, 0))
		return -EINVAL;
	for (uint64_t end = first + npages; next_part(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			let_in(pddi_extent_item(part.extent, page), false);
	return 0;
}

int pdd_region_include(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct part part;

	if (!pddi_range_is_valid(region, first, npages))
		return -EINVAL;
	for (uint64_t end = first + npages; next_part(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			if (item_is_excluded(pddi_extent_item(part.extent, page)))
				let_in(pddi_extent_item(part.extent, page), true);
	return 0;
}

/* ---- forget and discard ---- */

/* Forget a page. `going`: it is about to leave its region, so nothing keeps it out any more. */
static void forget_page(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason,
			bool going)
{
	if (item_is_kept_out(item)) {
		if (!going)
			return;
		item->priv.word &= ~ITEM_KEPT_OUT;
		item_extent(item)->priv.kept_out--;
	}
	/* Where nothing is, nothing new is. */
	if (item_state(item) == ITEM_NEW && item_reason(item) == PDD_REASON_ABSENT)
		return;
	pddi_item_detach(scanner, item, reason);
	pddi_item_reset(item, reason);
}

static void forget_range(struct pdd_region *region, uint64_t first, uint64_t end,
			 enum pdd_reason wanted, bool going)
{
	struct part part;

	for (; next_part(region, &part, first, end); first = part.end) {
		/* An extent on demand of which nothing remains needs no record. */
		bool remains = region->priv.extents || part.extent->priv.kept_out;
		enum pdd_reason reason = remains ? wanted : PDD_REASON_ABSENT;

		for (uint64_t page = part.first; part.extent->priv.known && page < part.end; page++)
			forget_page(region->priv.space->priv.scanner,
				    pddi_extent_item(part.extent, page), reason, going);
		pddi_extent_put(region, part.extent);
	}
}

void pddi_forget(struct pdd_region *region, uint64_t first, uint64_t end, enum pdd_reason reason)
{
	forget_range(region, first, end, reason, false);
}

void pddi_forget_going(struct pdd_region *region, uint64_t first, uint64_t end)
{
	forget_range(region, first, end, PDD_REASON_ABSENT, true);
}

static bool is_any_pinned(const struct pdd_region *region, uint64_t first, uint64_t end)
{
	struct part part;

	for (; next_part(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; part.extent->priv.kept_out && page < part.end;
		     page++)
			if (item_pins(pddi_extent_item(part.extent, page)))
				return true;
	return false;
}

int pdd_region_discard(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_scanner *scanner;
	uint64_t end = first + npages;

	if (!pddi_range_is_valid(region, first, npages))
		return -EINVAL;
	if (is_any_pinned(region, first, end))
		return -EBUSY;
	scanner = region->priv.space->priv.scanner;
	while (first < end) {
		int64_t n = (int64_t)(end - first);

		if (scanner->priv.ops.pages_discard)
			n = scanner->priv.ops.pages_discard(scanner->priv.ctx, region, first,
							    end - first);
		if (n <= 0) {
			int err = n < INT32_MIN ? -EIO : (int)n;

			(void)pddi_reason(scanner, PDD_HOOK_PAGES_DISCARD, err);
			return err ? err : -EBUSY;
		}
		if ((uint64_t)n > end - first)
			n = (int64_t)(end - first);
		pddi_forget(region, first, first + (uint64_t)n, PDD_REASON_ABSENT);
		first += (uint64_t)n;
	}
	return 0;
}
