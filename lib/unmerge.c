/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unmerge.c - give pages memory of their own: of a range, a space, or all.
 *
 * Invariants
 *  1. Works extent by extent, and only on extents that are live. An extent knows how many of its
 *     pages are merged; where none is it is passed over at once.
 *  2. A page stops showing a frame (frames_unmap) before its item leaves the frame: so a frame that
 *     goes back is shown by no page that the library knew.
 *  3. After any failure each page either is as it was or is done; nothing is in between. A call
 *     that is made again goes on.
 *
 * Locking: the caller's, see space.h.
 */
#include "scanner_internal.h"

static bool is_merged(const struct pdd_extent *extent, uint64_t page)
{
	enum item_state state = item_state(pddi_extent_item(extent, page));

	return state == ITEM_SHARER || state == ITEM_ZERO;
}

/* The first run of merged pages of a part, at most `most` of them. */
static bool merged_run(const struct pddi_part *part, uint64_t *first, uint64_t *npages, uint64_t most)
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
	int n;

	pddi_unlock(scanner);
	n = scanner->priv.ops.frames_unmap(scanner->priv.ctx, region, first, npages);
	pddi_lock(scanner);
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

int64_t pddi_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages, uint64_t budget)
{
	struct pddi_part part;
	uint64_t done = 0, run;

	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (uint64_t end = first + npages; pddi_part_next(region, &part, first, end);
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

int64_t pdd_region_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages,
			   uint64_t budget)
{
	struct pdd_scanner *scanner;
	int64_t done;

	if (!pddi_range_is_valid(region, first, npages) || budget == 0)
		return -EINVAL;
	scanner = region->priv.space->priv.scanner;
	pddi_lock(scanner);
	done = pddi_unmerge(region, first, npages, budget);
	pddi_leave(scanner);
	return done;
}

static int64_t unmerge_space(const struct pdd_space *space, uint64_t budget)
{
	int64_t done = 0;

	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (struct pdd_region *region = space->priv.regions; region && done < (int64_t)budget;
	     region = region->priv.next) {
		int64_t n = pddi_unmerge(region, 0, region->priv.npages, budget - (uint64_t)done);

		if (n < 0)
			return done ? done : n;
		done += n;
	}
	return done;
}

int64_t pdd_space_unmerge(struct pdd_space *space, uint64_t budget)
{
	struct pdd_scanner *scanner = space ? space->priv.scanner : NULL;
	int64_t done;

	if (!scanner || budget == 0)
		return -EINVAL;
	pddi_lock(scanner);
	done = unmerge_space(space, budget);
	pddi_leave(scanner);
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
	if (scanner->priv.stats.frames_kept)
		scanner->priv.prune_forced = true;
}

static int64_t unmerge_all(struct pdd_scanner *scanner, uint64_t budget)
{
	int64_t done = 0;

	if (budget > INT64_MAX)
		budget = INT64_MAX;
	for (const struct pdd_space *space = scanner->priv.spaces; space && done < (int64_t)budget;
	     space = space->priv.next) {
		int64_t n = unmerge_space(space, budget - (uint64_t)done);

		if (n < 0)
			return done ? done : n;
		done += n;
	}
	if (done == 0)
		forget_all(scanner);
	return done;
}

int64_t pdd_scanner_unmerge(struct pdd_scanner *scanner, uint64_t budget)
{
	int64_t done;

	if (!scanner || budget == 0)
		return -EINVAL;
	pddi_lock(scanner);
	done = unmerge_all(scanner, budget);
	pddi_leave(scanner);
	return done;
}
