/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * visit.c - a pass at one extent: ask what stands at its pages, look, carry out.
 *
 * Invariants
 *  1. No hook is called for a page that is kept out, save pages_written, which only tells.
 *  2. When pddi_visit() returns the space is unlocked, nothing is got or held, nothing is pending.
 *  3. Every page of the range was come by: looked at, skipped, not written, refused or counted as
 *     busy. One whose look was lost because something was locked is due.
 *  4. An extent in which all pages are settled and none was written is left alone: none of its
 *     items is touched.
 *
 * Holes. A view of absent pages may reach far beyond the extent; the cursor follows it as far as
 * nothing is known of the pages there. So a pass over a region costs what is present in it, and one
 * test for each 512 pages of its arrays, if it has arrays.
 *
 * Locking: the space of the region is locked, and unlocked here. The extent is claimed, before the
 * scanner's lock is released for the first time. It is released around the hooks, and while pages
 * are read.
 */
#include <string.h>

#include "scanner_internal.h"

/* What a visit is about. */
struct visit {
	struct pdd_scanner *scanner;
	struct pdd_worker *worker;
	struct pdd_region *region;
	struct pdd_extent *extent; /* NULL: a sparse region has none here */
	uint64_t reach; /* nothing stands before this page, from the last one come by on */
	bool is_any_aside; /* marks of written pages are, see take_dirty() */
};

/* A page that pages_get cannot describe. Those behind it may be described, unless all are busy. */
static uint64_t look_at_undescribed(const struct visit *visit, uint64_t page, int err)
{
	enum pdd_reason reason = pddi_reason(visit->scanner, PDD_HOOK_PAGES_GET, err);

	if (err == -EBUSY)
		return 0;
	if (reason == PDD_REASON_BUSY)
		pddi_visit_miss(visit->region, page, 1);
	else if (visit->extent)
		pddi_item_refused(visit->scanner, pddi_extent_item(visit->extent, page), reason);
	return 1;
}

/* Whether something stands at the pages that these views describe. */
static bool is_anything(const struct pdd_view *views, uint32_t nviews)
{
	for (uint32_t i = 0; i < nviews; i++)
		if (views[i].kind != PDD_PAGE_ABSENT)
			return true;
	return false;
}

/* Cut the views to the range; the number of pages they describe. */
static uint64_t clip(struct visit *visit, struct pdd_view *views, uint32_t nviews, uint64_t first,
		     uint64_t npages)
{
	uint64_t described = 0;

	for (uint32_t i = 0; i < nviews; i++) {
		/* What is not understood is left alone. */
		if (views[i].kind > PDD_PAGE_ZEROED || views[i].node >= PDD_NODES_MAX ||
		    (views[i].kind == PDD_PAGE_PRIVATE && !views[i].content)) {
			views[i].kind = PDD_PAGE_REFUSED;
			views[i].reason = PDD_REASON_SPECIAL;
		}
		if (views[i].kind == PDD_PAGE_ABSENT && views[i].npages > npages - described)
			visit->reach = first + described + views[i].npages;
		pddi_view_clip(&views[i], npages - described);
		described += views[i].npages;
	}
	return described;
}

/* The dirty marks of pages that pages_get is about to describe are set aside: of what it finds
 * there the library knows what it needs to know. A mark that comes while it works is one of a write
 * that it may not have seen, and stays. */
static void take_dirty(struct visit *visit, uint64_t first, uint64_t npages)
{
	uint64_t *dirty = visit->worker->priv.dirty;

	visit->is_any_aside = visit->extent && visit->extent->priv.dirty;
	memset(dirty, 0, sizeof(visit->worker->priv.dirty));
	for (uint64_t i = 0; visit->is_any_aside && i < npages; i++) {
		struct pdd_item *item = pddi_extent_item(visit->extent, first + i);
		uint64_t at = (first + i) % PDD_EXTENT_PAGES;

		if (item_is_dirty(item))
			dirty[at / 64] |= UINT64_C(1) << at % 64;
		item_set_dirty(item, false);
	}
}

/* Of these pages it found out nothing, or they are to be read. */
static void put_back_dirty(const struct visit *visit, uint64_t first, uint64_t npages)
{
	const uint64_t *dirty = visit->worker->priv.dirty;

	for (uint64_t i = 0; visit->is_any_aside && i < npages; i++) {
		uint64_t at = (first + i) % PDD_EXTENT_PAGES;

		if (dirty[at / 64] >> at % 64 & 1)
			item_set_dirty(pddi_extent_item(visit->extent, first + i), true);
	}
}

static void put_back_dirty_views(const struct visit *visit, const struct pdd_view *views,
				 uint32_t nviews, uint64_t first)
{
	for (uint32_t i = 0; i < nviews; first += views[i++].npages)
		if (views[i].kind == PDD_PAGE_PRIVATE || views[i].kind == PDD_PAGE_REFUSED)
			put_back_dirty(visit, first, views[i].npages);
}

/* Look at pages as far as one call of pages_get describes them, and carry out what was decided. The
 * number of pages come by, 0 if none could be described. */
static uint64_t visit_views(struct visit *visit, uint64_t first, uint64_t npages)
{
	struct pdd_scanner *scanner = visit->scanner;
	const struct pdd_ops *ops = &scanner->priv.ops;
	struct pdd_view *views = visit->worker->priv.views;
	struct pdd_region *region = visit->region;
	uint64_t described, done = 0, number = scanner->priv.visit_number;
	bool alone = scanner->priv.visits == scanner->priv.last_visit;
	int n;

	take_dirty(visit, first, npages);
	pddi_unlock(scanner);
	n = ops->pages_get(scanner->priv.ctx, region, views, PDD_WORKER_VIEWS, first, npages);
	pddi_lock(scanner);
	if (n <= 0) {
		put_back_dirty(visit, first, npages);
		return look_at_undescribed(visit, first, n);
	}
	if (n > (int)PDD_WORKER_VIEWS)
		n = (int)PDD_WORKER_VIEWS;
	described = clip(visit, views, (uint32_t)n, first, npages);
	put_back_dirty_views(visit, views, (uint32_t)n, first);
	put_back_dirty(visit, first + described, npages - described);
	if (!visit->extent && is_anything(views, (uint32_t)n)) {
		visit->extent = pddi_extent_get(region, first / PDD_EXTENT_PAGES);
		if (!visit->extent)
			region->priv.space->priv.counts.pages_busy += described;
		/* Others may have been told of writes meanwhile, and found no items to mark. */
		alone = alone && scanner->priv.visit_number == number;
		for (uint64_t i = 0;
		     visit->extent && !alone && ops->pages_written && i < described; i++)
			item_set_dirty(pddi_extent_item(visit->extent, first + i), true);
	}
	for (int i = 0; visit->extent && i < n; i++) {
		pddi_look(scanner, visit->worker, visit->extent, first + done, &views[i]);
		done += views[i].npages;
	}
	pddi_batch_flush(scanner, visit->worker);
	pddi_groups_create_frames(scanner, visit->worker);
	pddi_unlock(scanner);
	ops->pages_put(scanner->priv.ctx, region, first, described);
	pddi_lock(scanner);
	pddi_carry_out(scanner, visit->worker, region->priv.space);
	return described;
}

/* Whether a pass has nothing to do at an extent. Where nothing is known at all pages_get is asked:
 * it may say how far that goes on. */
static bool is_at_rest(const struct pdd_scanner *scanner, const struct pdd_extent *extent)
{
	return extent && pddi_may_rest(scanner) && !extent->priv.unsettled && !extent->priv.due &&
	       !extent->priv.dirty && extent->priv.known;
}

void pddi_visit_miss(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_extent *extent = pddi_extent_find(region, first / PDD_EXTENT_PAGES);

	region->priv.space->priv.counts.pages_busy += npages;
	if (extent)
		pddi_look_missed(region->priv.space->priv.scanner, extent, first, npages);
}

/* The pages from the first on that are not kept out, after *skipped that are. */
static uint64_t open_run(const struct visit *visit, uint64_t *skipped, uint64_t first,
			 uint64_t npages)
{
	const struct pdd_extent *extent = visit->extent;
	uint64_t n = 0, end;

	*skipped = 0;
	if (!extent || !extent->priv.kept_out)
		return npages;
	while (n < npages && item_is_kept_out(pddi_extent_item(extent, first + n)))
		n++;
	for (end = n; end < npages && !item_is_kept_out(pddi_extent_item(extent, first + end));)
		end++;
	*skipped = n;
	return end - n;
}

/* Come by pages of one extent, whose space is locked. The number of those that were. */
static uint64_t visit_extent(struct visit *visit, uint64_t first, uint64_t npages)
{
	uint64_t done = 0;

	while (done < npages) {
		uint64_t skipped, run, n = 0;

		run = open_run(visit, &skipped, first + done, npages - done);
		done += skipped;
		while (n < run) {
			uint64_t some = visit_views(visit, first + done + n, run - n);

			if (!some)
				return done + n;
			n += some;
		}
		done += run;
	}
	return done;
}

/* How far the cursor may move on from `end`, if nothing stands before `reach`. */
static uint64_t skip_hole(const struct pdd_region *region, uint64_t end, uint64_t reach)
{
	if (reach > region->priv.npages)
		reach = region->priv.npages;
	/* Within an extent, the rest of it may be known. */
	while (end < reach && end % PDD_EXTENT_PAGES == 0) {
		const struct pdd_extent *extent =
			pddi_extent_next(region, end / PDD_EXTENT_PAGES, pdd_region_extents(reach));

		if (!extent)
			return reach;
		if (pddi_extent_first(extent) > end) {
			end = pddi_extent_first(extent);
		} else {
			if (extent->priv.known || pddi_extent_end(region, extent) > reach)
				return end;
			end = pddi_extent_end(region, extent);
		}
	}
	return end;
}

/* Come by the pages; how far the pass may move on. */
static uint64_t visit_pages(struct visit *visit, uint64_t first, uint64_t npages)
{
	uint64_t done = visit_extent(visit, first, npages);

	if (done < npages)
		pddi_visit_miss(visit->region, first + done, npages - done);
	if (visit->extent)
		pddi_extent_put(visit->region, visit->extent);
	return done < npages ? first + npages
			     : skip_hole(visit->region, first + npages, visit->reach);
}

void pddi_visit(struct pdd_scanner *scanner, struct pdd_worker *worker, const struct pddi_stop *stop,
		uint64_t npages, uint64_t ahead)
{
	struct pdd_region *region = stop->region;
	struct pdd_space *space = region->priv.space;
	struct visit visit = { .scanner = scanner, .worker = worker, .region = region };
	uint64_t first = stop->first;

	pddi_visit_begin(scanner, &worker->priv.visit);
	scanner->priv.nstepping++;
	(void)pddi_claim(scanner, &worker->priv.visit, &worker->priv.visit.at, region, first);
	pddi_written_ask(scanner, worker, region, first, ahead);
	visit.extent = pddi_extent_find(region, first / PDD_EXTENT_PAGES);
	if (is_at_rest(scanner, visit.extent))
		space->priv.counts.pages_clean += npages;
	else
		pddi_pass_skip(stop, first + npages, visit_pages(&visit, first, npages));
	pddi_visit_end(scanner, &worker->priv.visit);
	pddi_frames_flush(scanner);
	pddi_unlock(scanner);
	scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
	pddi_lock(scanner);
	/* Not before: the step goes on with the pass, which nobody may have ended meanwhile, nor
	 * begun a prune. */
	scanner->priv.nstepping--;
}
