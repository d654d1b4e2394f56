/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * extent.c - finding the extents of a region: in an array, or, in a sparse region, on demand.
 *
 * Invariants
 *  1. A region with arrays has all extents of its pages. A sparse one has those in its tree,
 *     ordered by number; nlive is how many.
 *  2. An extent on demand is followed by its items, so that an item finds its extent without a
 *     search (item_extent()).
 *  3. Pages of a sparse region without an extent are counted under PDD_REASON_NO_RECORD.
 *  4. Between two calls of the library a sparse region has an extent only where something is known
 *     of a page: each call that may have forgotten the last page of an extent gives it back.
 *
 * Complexity: O(1) with arrays, else O(log live extents). Locking: the caller's, see space.h:
 * extents come and go only where they are claimed, or the space is locked exclusively; so what is
 * asked of the embedder, without the scanner's lock, is asked for each extent by one thread.
 */
#include "scanner_internal.h"

static struct pdd_extent *entry(struct pdd_rbnode *rb)
{
	return (struct pdd_extent *)(void *)rb; /* the first member */
}

_Static_assert(offsetof(struct pdd_extent, priv.rb) == 0, "entry() casts");
_Static_assert(sizeof(struct pdd_extent_block) == 64 + 48 * PDD_EXTENT_PAGES, "as documented");

struct pdd_extent *pddi_extent_next(const struct pdd_region *region, uint64_t number, uint64_t end)
{
	struct pdd_rbnode *rb = region->priv.live.node;
	struct pdd_extent *found = NULL;

	if (region->priv.extents)
		return number < end ? &region->priv.extents[number] : NULL;
	while (rb) {
		if (entry(rb)->priv.number >= number) {
			found = entry(rb);
			rb = rb->left;
		} else {
			rb = rb->right;
		}
	}
	return found && found->priv.number < end ? found : NULL;
}

struct pdd_extent *pddi_extent_find(const struct pdd_region *region, uint64_t number)
{
	if (region->priv.extents)
		return &region->priv.extents[number];
	return pddi_extent_next(region, number, number + 1);
}

void pddi_extent_init_items(struct pdd_region *region, struct pdd_extent *extent, uint64_t first,
			    uint64_t end)
{
	struct pdd_counts *counts = &region->priv.space->priv.counts;

	for (uint64_t page = first; page < end; page++) {
		struct pdd_item *item = pddi_extent_item(extent, page);

		item->priv.region = region;
		item->priv.word = page;
		item_field_set(item, ITEM_REASON_SHIFT, ITEM_REASON_BITS, PDD_REASON_NEW);
	}
	counts->reasons[PDD_REASON_NEW] += end - first;
	extent->priv.unsettled = (uint16_t)(extent->priv.unsettled + (end - first));
	extent->priv.known = (uint16_t)(extent->priv.known + (end - first));
}

/* Link an extent into the tree of a sparse region, which has none of its number. */
static void insert_live(struct pdd_region *region, struct pdd_extent *extent)
{
	struct pdd_rbnode *parent = NULL, **slot = &region->priv.live.node;

	while (*slot) {
		parent = *slot;
		slot = extent->priv.number < entry(parent)->priv.number ? &parent->left
									: &parent->right;
	}
	pdd_rb_link(&region->priv.live, &extent->priv.rb, parent, slot, 0);
	region->priv.nlive++;
}

struct pdd_extent *pddi_extent_get(struct pdd_region *region, uint64_t number)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	struct pdd_extent *extent = pddi_extent_find(region, number);
	struct pdd_extent_block *block;
	uint64_t end;

	if (extent)
		return extent;
	pddi_unlock(scanner);
	block = scanner->priv.ops.extent_get(scanner->priv.ctx, region, number);
	pddi_lock(scanner);
	if (!block) {
		scanner->priv.stats.hook_errors++;
		scanner->priv.stats.hook_errors_by_hook[PDD_HOOK_EXTENT_GET]++;
		return NULL;
	}
	extent = &block->extent;
	extent->priv.number = number;
	extent->priv.items = block->items;
	insert_live(region, extent);
	end = pddi_extent_end(region, extent);
	pddi_extent_init_items(region, extent, pddi_extent_first(extent), end);
	region->priv.space->priv.counts.reasons[PDD_REASON_NO_RECORD] -=
		end - pddi_extent_first(extent);
	return extent;
}

void pddi_extent_put(struct pdd_region *region, struct pdd_extent *extent)
{
	struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	struct pdd_counts *counts = &region->priv.space->priv.counts;
	uint64_t npages = pddi_extent_end(region, extent) - pddi_extent_first(extent);
	uint64_t number = extent->priv.number;

	if (region->priv.extents || extent->priv.known || extent->priv.due)
		return;
	counts->reasons[PDD_REASON_ABSENT] -= npages;
	counts->reasons[PDD_REASON_NO_RECORD] += npages;
	pdd_rb_remove(&region->priv.live, &extent->priv.rb);
	region->priv.nlive--;
	pddi_unlock(scanner);
	scanner->priv.ops.extent_put(scanner->priv.ctx, region, number,
				     (struct pdd_extent_block *)(void *)extent);
	pddi_lock(scanner);
}

bool pddi_part_next(const struct pdd_region *region, struct pddi_part *part, uint64_t first,
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
