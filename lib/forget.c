/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forget.c - forget pages, and discard their memory.
 *
 * Invariants
 *  1. A page stops showing a frame (pages_discard) before its item leaves the frame.
 *  2. What is kept out stays so, unless its page leaves the region.
 *  3. An extent on demand of which nothing is known any more goes back.
 *
 * Locking: the caller's, see space.h.
 */
#include "scanner_internal.h"

/* Forget a page. `going`: it is about to leave its region, so nothing keeps it out any more. */
static void forget_page(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason,
			bool going)
{
	if (item_is_kept_out(item)) {
		if (!going)
			return;
		item->priv.word &= ~ITEM_KEPT_OUT;
		item_extent(item)->priv.kept_out--;
		item_extent(item)->priv.unsettled++;
	}
	item_set_dirty(item, false);
	/* Where nothing is, nothing new is. */
	if (item_state(item) == ITEM_NEW && item_reason(item) == PDD_REASON_ABSENT)
		return;
	pddi_item_detach(scanner, item, reason);
	pddi_item_reset(item, reason);
}

static void forget_range(struct pdd_region *region, uint64_t first, uint64_t end,
			 enum pdd_reason wanted, bool going)
{
	struct pddi_part part;

	for (; pddi_part_next(region, &part, first, end); first = part.end) {
		/* An extent on demand of which nothing remains needs no record. */
		bool remains = region->priv.extents || part.extent->priv.kept_out;
		enum pdd_reason reason = remains ? wanted : PDD_REASON_ABSENT;

		for (uint64_t page = part.first;
		     (part.extent->priv.known || part.extent->priv.dirty) && page < part.end;
		     page++)
			forget_page(region->priv.space->priv.scanner,
				    pddi_extent_item(part.extent, page), reason, going);
		pddi_extent_put(region, part.extent);
		pddi_breathe(region->priv.space->priv.scanner);
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
	struct pddi_part part;

	for (; pddi_part_next(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; part.extent->priv.kept_out && page < part.end;
		     page++)
			if (item_pins(pddi_extent_item(part.extent, page)))
				return true;
	return false;
}

/* Discard pages of a range; the number done, a prefix, or -errno. */
static int64_t discard_some(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	int64_t n = (int64_t)npages;

	if (scanner->priv.ops.pages_discard) {
		pddi_unlock(scanner);
		n = scanner->priv.ops.pages_discard(scanner->priv.ctx, region, first, npages);
		pddi_lock(scanner);
	}
	if (n <= 0) {
		int err = n < INT32_MIN ? -EIO : (int)n;

		(void)pddi_reason(scanner, PDD_HOOK_PAGES_DISCARD, err);
		return err ? err : -EBUSY;
	}
	if ((uint64_t)n > npages)
		n = (int64_t)npages;
	pddi_forget(region, first, first + (uint64_t)n, PDD_REASON_ABSENT);
	return n;
}

int pdd_region_discard(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_scanner *scanner;
	uint64_t end = first + npages;
	int64_t n = 0;

	if (!pddi_range_is_valid(region, first, npages))
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	pddi_lock(scanner);
	if (is_any_pinned(region, first, end))
		n = -EBUSY;
	for (; n >= 0 && first < end; first += (uint64_t)(n > 0 ? n : 0))
		n = discard_some(region, first, end - first);
	pddi_leave(scanner);
	return n < 0 ? (int)n : 0;
}
