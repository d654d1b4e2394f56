/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * keep_out.c - keep the library away from pages: pin and exclude, and undo both.
 *
 * Invariants
 *  1. A page that is kept out is NEW: it has memory of its own, is in no list and no tree, and no
 *     pass asks for it. So a step that decided about it before finds that it is not pending any
 *     more.
 *  2. Nothing is kept out before all pages of the range have memory of their own; so a call that
 *     fails keeps nothing out.
 *
 * Locking: the caller's, see space.h.
 */
#include "scanner_internal.h"

/* Keep the library away from the page of an item that is not merged. */
static void keep_out(struct pdd_scanner *scanner, struct pdd_item *item, bool exclude)
{
	if (!item_is_kept_out(item)) {
		pddi_item_detach(scanner, item, PDD_REASON_PINNED);
		pddi_item_reset(item, PDD_REASON_PINNED);
		item->priv.word |= ITEM_KEPT_OUT;
		item_extent(item)->priv.kept_out++;
		item_extent(item)->priv.unsettled--; /* no pass has to come by it */
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
		item_extent(item)->priv.unsettled++;
		item_set(item, ITEM_NEW, PDD_REASON_NEW);
	}
}

/* Whether a page of the range has as many pins, or is not recorded. */
static bool has_pins(const struct pdd_region *region, uint64_t first, uint64_t end, uint32_t npins)
{
	struct pddi_part part;

	for (; first < end; first = part.end) {
		bool live = pddi_part_next(region, &part, first, end);

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
static int unmerge_unknown(struct pdd_region *region, const struct pddi_part *part)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	uint64_t page = part->first;

	while (page < part->end) {
		uint64_t run = 0;
		int n = 1;

		while (page + run < part->end &&
		       may_show_frame(scanner, pddi_extent_item(part->extent, page + run)))
			run++;
		if (run) {
			pddi_unlock(scanner);
			n = scanner->priv.ops.frames_unmap(scanner->priv.ctx, region, page, run);
			pddi_lock(scanner);
		}
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
	struct pddi_part part;
	int64_t n;

	do
		n = npages ? pddi_unmerge(region, first, npages, npages) : 0;
	while (n > 0);
	for (uint64_t end = first + npages; n == 0 && pddi_part_next(region, &part, first, end);
	     first = part.end)
		n = unmerge_unknown(region, &part);
	return (int)n;
}

typedef int (*range_fn)(struct pdd_region *region, uint64_t first, uint64_t npages);

/* Do something with a range, if it is one, under the lock. */
static int with_range(struct pdd_region *region, uint64_t first, uint64_t npages, range_fn work)
{
	struct pdd_scanner *scanner;
	int err;

	if (!pddi_range_is_valid(region, first, npages))
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	pddi_lock(scanner);
	err = work(region, first, npages);
	pddi_leave(scanner);
	return err;
}

static int keep_out_range(struct pdd_region *region, uint64_t first, uint64_t npages, bool exclude)
{
	uint64_t end = first + npages;
	struct pddi_part part;
	int err;

	if (!exclude && has_pins(region, first, end, ITEM_PINS_MAX))
		return -EOVERFLOW;
	if (get_extents(region, first, end))
		return -ENOMEM;
	err = make_private(region, first, npages);
	if (err)
		return err;
	for (; pddi_part_next(region, &part, first, end); first = part.end) {
		for (uint64_t page = part.first; page < part.end; page++)
			keep_out(region->priv.space->priv.scanner,
				 pddi_extent_item(part.extent, page), exclude);
		pddi_breathe(region->priv.space->priv.scanner);
	}
	return 0;
}

static int pin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return keep_out_range(region, first, npages, false);
}

static int exclude(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return keep_out_range(region, first, npages, true);
}

static int unpin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pddi_part part;

	if (has_pins(region, first, first + npages, 0))
		return -EINVAL;
	for (uint64_t end = first + npages; pddi_part_next(region, &part, first, end);
	     first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			let_in(pddi_extent_item(part.extent, page), false);
	return 0;
}

static int include(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pddi_part part;

	for (uint64_t end = first + npages; pddi_part_next(region, &part, first, end);
	     first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			if (item_is_excluded(pddi_extent_item(part.extent, page)))
				let_in(pddi_extent_item(part.extent, page), true);
	return 0;
}

int pdd_region_pin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return with_range(region, first, npages, pin);
}

int pdd_region_exclude(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return with_range(region, first, npages, exclude);
}

int pdd_region_unpin(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return with_range(region, first, npages, unpin);
}

int pdd_region_include(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return with_range(region, first, npages, include);
}
