/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space.c - spaces and regions coming and going, items leaving whatever they are linked in.
 *
 * Invariants
 *  1. The scanner's list of spaces, and each space's list of regions, are in the order in which
 *     they were added; a pass walks them in that order.
 *  2. The cursor is a region that is added, or NULL: in a pass, when nothing is left of it.
 *  3. The gauges of a space are the sums over its items (item_set keeps them), and `pages` is the
 *     sum of its regions' pages.
 *
 * Locking: the caller's, see scanner.h.
 */
#include "scanner_internal.h"

int pdd_space_add(struct pdd_scanner *scanner, struct pdd_space *space, uint32_t domain)
{
	if (space->priv.scanner)
		return -EBUSY;
	*space = (struct pdd_space){
		.priv = { .scanner = scanner, .prev = scanner->priv.last, .domain = domain },
	};
	if (space->priv.prev)
		space->priv.prev->priv.next = space;
	else
		scanner->priv.spaces = space;
	scanner->priv.last = space;
	return 0;
}

int pdd_space_remove(struct pdd_space *space)
{
	struct pdd_scanner *scanner = space->priv.scanner;

	if (!scanner)
		return -EINVAL;
	if (space->priv.regions)
		return -EBUSY;
	/* What it counted stays in the totals; its gauges are 0. */
	pddi_counts_add(&scanner->priv.stats.counts, &space->priv.counts);
	if (space->priv.prev)
		space->priv.prev->priv.next = space->priv.next;
	else
		scanner->priv.spaces = space->priv.next;
	if (space->priv.next)
		space->priv.next->priv.prev = space->priv.prev;
	else
		scanner->priv.last = space->priv.prev;
	*space = (struct pdd_space){ 0 };
	return 0;
}

/* Number the items of a region and count them as new. */
static void init_items(struct pdd_region *region, struct pdd_item *items)
{
	uint64_t npages = region->priv.npages;

	for (uint64_t page = 0; page < npages; page++) {
		items[page].priv.region = region;
		items[page].priv.word = page;
		item_field_set(&items[page], ITEM_REASON_SHIFT, ITEM_REASON_BITS, PDD_REASON_NEW);
	}
	for (uint64_t i = 0; i < pdd_region_extents(npages); i++) {
		uint64_t left = npages - i * PDD_EXTENT_PAGES;

		region->priv.extents[i].priv.items = &items[i * PDD_EXTENT_PAGES];
		region->priv.extents[i].priv.unsettled =
			(uint16_t)(left < PDD_EXTENT_PAGES ? left : PDD_EXTENT_PAGES);
	}
}

int pdd_region_add(struct pdd_space *space, struct pdd_region *region, uint64_t first_page,
		   uint64_t npages, struct pdd_extent *extents, struct pdd_item *items)
{
	if (region->priv.space)
		return -EBUSY;
	if (!space->priv.scanner || !extents || !items || npages == 0 ||
	    npages > PDD_REGION_PAGES_MAX || first_page > UINT64_MAX - npages)
		return -EINVAL;
	*region = (struct pdd_region){
		.priv = {
			.space = space,
			.prev = space->priv.last,
			.first_page = first_page,
			.npages = npages,
			.extents = extents,
		},
	};
	init_items(region, items);
	if (region->priv.prev)
		region->priv.prev->priv.next = region;
	else
		space->priv.regions = region;
	space->priv.last = region;
	space->priv.counts.pages += npages;
	space->priv.counts.reasons[PDD_REASON_NEW] += npages;
	return 0;
}

struct pdd_region *pddi_region_first(const struct pdd_space *space)
{
	for (; space; space = space->priv.next)
		if (space->priv.regions)
			return space->priv.regions;
	return NULL;
}

struct pdd_region *pddi_region_next(const struct pdd_region *region)
{
	return region->priv.next ? region->priv.next
				 : pddi_region_first(region->priv.space->priv.next);
}

/* Take a region out of its space's list, and off the cursor. */
static void unlink_region(struct pdd_scanner *scanner, struct pdd_region *region)
{
	struct pdd_space *space = region->priv.space;

	if (scanner->priv.cursor == region) {
		scanner->priv.cursor = pddi_region_next(region);
		scanner->priv.cursor_page = 0;
	}
	if (region->priv.prev)
		region->priv.prev->priv.next = region->priv.next;
	else
		space->priv.regions = region->priv.next;
	if (region->priv.next)
		region->priv.next->priv.prev = region->priv.prev;
	else
		space->priv.last = region->priv.prev;
}

int pdd_region_remove(struct pdd_region *region)
{
	struct pdd_space *space = region->priv.space;
	struct pdd_scanner *scanner;

	if (!space)
		return -EINVAL;
	scanner = space->priv.scanner;
	for (uint64_t page = 0; page < region->priv.npages; page++) {
		struct pdd_item *item = pddi_item_at(region, page);

		pddi_item_detach(scanner, item, PDD_REASON_NEW);
		pddi_item_reset(item, PDD_REASON_NEW);
	}
	unlink_region(scanner, region);
	space->priv.counts.pages -= region->priv.npages;
	space->priv.counts.reasons[PDD_REASON_NEW] -= region->priv.npages;
	*region = (struct pdd_region){ 0 };
	return 0;
}

/* Pages from `first` on that share a frame, up to the end of their extent. */
static uint64_t sharing_run(const struct pdd_region *region, uint64_t first, uint64_t end)
{
	uint64_t page = first;

	do {
		if (item_state(pddi_item_at(region, page)) != ITEM_SHARER)
			break;
		page++;
	} while (page < end && page % PDD_EXTENT_PAGES != 0);
	return page - first;
}

int64_t pdd_region_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_scanner *scanner;
	int64_t done = 0;
	uint64_t end;

	if (!region->priv.space || first > region->priv.npages ||
	    npages > region->priv.npages - first)
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	end = first + npages;
	while (first < end) {
		uint64_t run = sharing_run(region, first, end);
		int n = 1;

		if (run) {
			n = scanner->priv.ops.frames_unmap(scanner->priv.ctx, region, first, run);
			if (n <= 0)
				return n ? n : -EIO;
			if ((uint64_t)n > run)
				n = (int)run;
			for (int i = 0; i < n; i++)
				pddi_stable_leave(scanner, pddi_item_at(region, first + (uint64_t)i),
						  PDD_REASON_UNMERGED);
			done += n;
		}
		first += (uint64_t)n;
	}
	return done;
}

void pddi_item_reset(struct pdd_item *item, enum pdd_reason reason)
{
	item_set_due(item, false);
	item_set(item, ITEM_NEW, reason);
	item->priv.node.checksum = 0;
	item->priv.word &= ~ITEM_COLLIDES;
	item_field_set(item, ITEM_AGE_SHIFT, ITEM_AGE_BITS, 0);
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
		pdd_index_remove(&scanner->priv.index, &item->priv.node);
		item_set(item, ITEM_SEEN, reason);
		break;
	case ITEM_SEEN:
		item_set(item, ITEM_SEEN, reason);
		break;
	case ITEM_PENDING:
		pddi_pending_cancel(scanner, item, reason);
		break;
	case ITEM_SHARER:
		pddi_stable_leave(scanner, item, reason);
		break;
	}
}

bool pddi_reason_is_general(enum pdd_reason reason)
{
	return reason == PDD_REASON_MAPPING_BUDGET || reason == PDD_REASON_NO_MEMORY ||
	       reason == PDD_REASON_NO_HOLD || reason == PDD_REASON_HOOK_FAILED;
}

bool pddi_reason_stays(enum pdd_reason reason)
{
	return pddi_reason_is_general(reason) || reason == PDD_REASON_PINNED ||
	       reason == PDD_REASON_PINS_UNSEEN;
}

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

	item_set(item, ITEM_SEEN, reason);
	item_set_due(item, first);
}
