/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space.c - spaces and regions come, grow, shrink, move and go.
 *
 * Invariants
 *  1. The scanner's list of spaces, and each space's list of regions, are in the order in which
 *     they were added.
 *  2. A pass keeps no place of a page that is gone (pddi_pass_clip()).
 *  3. The gauges of a space are the sums over its items (item_set keeps them), and `pages` is the
 *     sum of its regions' pages.
 *
 * Locking: the caller's, see space.h.
 */
#include "scanner_internal.h"

int pdd_space_add(struct pdd_scanner *scanner, struct pdd_space *space, uint32_t domain)
{
	if (!scanner || !space)
		return -EINVAL;
	if (space->priv.scanner)
		return -EBUSY;
	pddi_lock(scanner);
	*space = (struct pdd_space){
		.priv = { .scanner = scanner, .prev = scanner->priv.last, .domain = domain },
	};
	if (space->priv.prev)
		space->priv.prev->priv.next = space;
	else
		scanner->priv.spaces = space;
	scanner->priv.last = space;
	pddi_unlock(scanner);
	return 0;
}

int pdd_space_remove(struct pdd_space *space)
{
	struct pdd_scanner *scanner = space ? space->priv.scanner : NULL;

	if (!scanner)
		return -EINVAL;
	if (space->priv.regions)
		return -EBUSY;
	pddi_lock(scanner);
	pddi_pass_forget(scanner, space);
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
	pddi_unlock(scanner);
	return 0;
}

/* ---- pages come ---- */

static bool place_is_valid(uint64_t first_page, uint64_t npages)
{
	return npages > 0 && npages <= PDD_REGION_PAGES_MAX && first_page <= UINT64_MAX - npages;
}

/* Record that pages [from, to) came. */
static void add_pages(struct pdd_region *region, uint64_t from, uint64_t to)
{
	struct pdd_counts *counts = &region->priv.space->priv.counts;
	uint64_t number = from / PDD_EXTENT_PAGES, end = pdd_region_extents(to);

	region->priv.npages = to;
	counts->pages += to - from;
	if (!region->priv.extents)
		counts->reasons[PDD_REASON_NO_RECORD] += to - from;
	for (; number < end; number++) {
		struct pdd_extent *extent = pddi_extent_next(region, number, end);
		uint64_t first;

		if (!extent)
			return;
		number = extent->priv.number;
		first = pddi_extent_first(extent) < from ? from : pddi_extent_first(extent);
		if (!region->priv.extents)
			counts->reasons[PDD_REASON_NO_RECORD] -=
				pddi_extent_end(region, extent) - first;
		pddi_extent_init_items(region, extent, first, pddi_extent_end(region, extent));
	}
}

static void init_extents(struct pdd_extent *extents, struct pdd_item *items, uint64_t from,
			 uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		extents[i].priv.number = i;
		extents[i].priv.items = &items[i * PDD_EXTENT_PAGES];
	}
}

int pdd_region_add(struct pdd_space *space, struct pdd_region *region, uint64_t first_page,
		   uint64_t npages, struct pdd_extent *extents, struct pdd_item *items)
{
	struct pdd_scanner *scanner;

	if (!space || !region || !space->priv.scanner || !extents != !items ||
	    !place_is_valid(first_page, npages))
		return -EINVAL;
	scanner = space->priv.scanner;
	if (!extents && !scanner->priv.ops.extent_get)
		return -EINVAL;
	if (region->priv.space)
		return -EBUSY;
	pddi_lock(scanner);
	*region = (struct pdd_region){
		.priv = {
			.space = space,
			.prev = space->priv.last,
			.first_page = first_page,
			.extents = extents,
			.first_pass = scanner->priv.epoch + scanner->priv.in_pass,
		},
	};
	if (extents)
		init_extents(extents, items, 0, pdd_region_extents(npages));
	add_pages(region, 0, npages);
	if (region->priv.prev)
		region->priv.prev->priv.next = region;
	else
		space->priv.regions = region;
	space->priv.last = region;
	pddi_unlock(scanner);
	return 0;
}

/* ---- pages go ---- */

/* Forget pages [from, npages) and record that they are gone. No pass keeps a place among them: not
 * when it begins, so that none is come by meanwhile, nor when it ends, since other threads may have
 * begun a walk. */
static void drop_pages(struct pdd_region *region, uint64_t from)
{
	struct pdd_counts *counts = &region->priv.space->priv.counts;
	uint64_t npages = region->priv.npages - from, end = pdd_region_extents(region->priv.npages);
	uint64_t recorded = 0;
	struct pdd_extent *extent, *last = NULL;

	pddi_pass_clip(region, from);
	pddi_forget_going(region, from, region->priv.npages);
	for (uint64_t number = from / PDD_EXTENT_PAGES;
	     (extent = pddi_extent_next(region, number, end)) != NULL;
	     number = extent->priv.number + 1) {
		uint64_t page = pddi_extent_first(extent) < from ? from : pddi_extent_first(extent);

		/* Zeroed, as it has to be when the region grows again. */
		for (; page < pddi_extent_end(region, extent); page++, recorded++)
			*pddi_extent_item(extent, page) = (struct pdd_item){ 0 };
		last = extent;
	}
	pddi_pass_clip(region, from);
	counts->reasons[PDD_REASON_ABSENT] -= recorded;
	counts->reasons[PDD_REASON_NO_RECORD] -= npages - recorded;
	counts->pages -= npages;
	region->priv.npages = from;
	if (last && !region->priv.extents)
		pddi_extent_put(region, last);
}

static void shrink(struct pdd_region *region, uint64_t npages)
{
	struct pdd_extent *extents = region->priv.extents;
	uint64_t after = pdd_region_extents(npages), before = pdd_region_extents(region->priv.npages);

	region->priv.pass_pages = pddi_region_pass_pages(region);
	if (region->priv.pass_pages > npages)
		region->priv.pass_pages = npages;
	drop_pages(region, npages);
	for (uint64_t i = after; extents && i < before; i++)
		extents[i] = (struct pdd_extent){ 0 };
}

static void grow(struct pdd_region *region, uint64_t npages)
{
	const struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	struct pdd_extent *extents = region->priv.extents;
	uint64_t old = region->priv.npages;

	region->priv.pass_pages = pddi_region_pass_pages(region);
	region->priv.grown_pass = scanner->priv.in_pass ? scanner->priv.epoch + 1 : 0;
	if (extents)
		init_extents(extents, extents[0].priv.items, pdd_region_extents(old),
			     pdd_region_extents(npages));
	add_pages(region, old, npages);
}

int pdd_region_resize(struct pdd_region *region, uint64_t npages)
{
	struct pdd_scanner *scanner;

	if (!region || !region->priv.space || !place_is_valid(region->priv.first_page, npages))
		return -EINVAL;
	if (region->priv.object &&
	    pdd_interval_first(&region->priv.interval) > UINT64_MAX - (npages - 1))
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	pddi_lock(scanner);
	if (npages < region->priv.npages)
		shrink(region, npages);
	else
		grow(region, npages);
	pddi_region_reattach(region);
	pddi_leave(scanner);
	return 0;
}

int pdd_region_move(struct pdd_region *region, uint64_t first_page)
{
	if (!region || !region->priv.space || !place_is_valid(first_page, region->priv.npages))
		return -EINVAL;
	pddi_lock(region->priv.space->priv.scanner);
	region->priv.first_page = first_page;
	pddi_unlock(region->priv.space->priv.scanner);
	return 0;
}

static void unlink_region(struct pdd_space *space, struct pdd_region *region)
{
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
	struct pdd_space *space = region ? region->priv.space : NULL;
	struct pdd_scanner *scanner;

	if (!space)
		return -EINVAL;
	scanner = space->priv.scanner;
	if (region->priv.object)
		pdd_region_detach(region);
	pddi_lock(scanner);
	drop_pages(region, 0);
	unlink_region(space, region);
	*region = (struct pdd_region){ 0 };
	pddi_leave(scanner);
	return 0;
}
