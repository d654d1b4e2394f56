/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_merge.c - the half of the model of KSM's scan that is about frames: the stable tree, and how
 * pages come to share. See ksm_scan.h.
 */
#include "ksm_scan_internal.h"

#include <stdlib.h>
#include <string.h>

#include <pagededup/chain.h>

/* A frame and the pages that show it (stable_node). */
struct ksm_stable {
	struct pdd_rbnode node;
	struct pdd_frame *frame;
	struct ksm_item *sharers;
};

_Static_assert(offsetof(struct ksm_stable, node) == 0, "stable_of casts");

static struct ksm_stable *stable_of(struct pdd_rbnode *node)
{
	return (struct ksm_stable *)(void *)node;
}

/* ---- locks ---- */

/* Lock a space, as the options say. False: it is taken, and locks are only tried. */
static bool lock(struct ksm_scan *scan, struct pdd_space *space)
{
	if (scan->ops.space_trylock(scan->ctx, space))
		return true;
	if (!scan->options.space_lock) {
		scan->counters.lock_misses++;
		return false;
	}
	scan->counters.lock_waits++;
	scan->options.space_lock(scan->ctx, space);
	return true;
}

static void unlock(struct ksm_scan *scan, struct pdd_space *space)
{
	scan->ops.space_unlock(scan->ctx, space);
}

bool ksm_get_page(struct ksm_scan *scan, const struct ksm_item *item, struct pdd_view *view)
{
	struct ksm_region *pages = item->region;
	int n;

	if (!lock(scan, pages->space))
		return false;
	n = scan->ops.pages_get(scan->ctx, pages->region, view, 1, ksm_page_of(item), 1);
	unlock(scan, pages->space);
	return n > 0;
}

void ksm_put_page(struct ksm_scan *scan, const struct ksm_item *item)
{
	scan->ops.pages_put(scan->ctx, item->region->region, ksm_page_of(item), 1);
}

/* ---- the stable tree ---- */

static void stable_remove(struct ksm_scan *scan, struct ksm_stable *stable)
{
	pdd_rb_remove(&scan->stable, &stable->node);
	free(stable);
}

void ksm_leave(struct ksm_scan *scan, struct ksm_item *item)
{
	struct ksm_stable *stable = item->stable;

	*item->pprev = item->next;
	if (item->next)
		item->next->pprev = item->pprev;
	item->stable = NULL;
	item->checksum = 0;
	item->age = item->skips = 0;
	if (!stable->sharers) {
		scan->ops.frame_free(scan->ctx, stable->frame);
		stable_remove(scan, stable);
	}
}

static void join(struct ksm_item *item, struct ksm_stable *stable)
{
	item->stable = stable;
	item->pprev = &stable->sharers;
	item->next = stable->sharers;
	if (item->next)
		item->next->pprev = &item->next;
	stable->sharers = item;
}

/* The frame of a node is gone: forget it. */
static void stable_stale(struct ksm_scan *scan, struct ksm_stable *stable)
{
	for (struct ksm_item *item = stable->sharers; item; item = item->next)
		item->stable = NULL;
	stable_remove(scan, stable);
}

struct ksm_stable *ksm_stable_search(struct ksm_scan *scan, const void *content,
				     struct pdd_rbnode **parent, struct pdd_rbnode ***slot)
{
	*parent = NULL;
	*slot = &scan->stable.node;
	while (**slot) {
		struct ksm_stable *stable = stable_of(**slot);
		const void *other = scan->ops.frame_content(scan->ctx, stable->frame);
		int order;

		if (!other) { /* from the start: the tree has another shape now */
			stable_stale(scan, stable);
			*parent = NULL;
			*slot = &scan->stable.node;
			continue;
		}
		scan->counters.stable_compares++;
		order = memcmp(content, other, scan->options.page_size);
		if (order == 0)
			return stable;
		*parent = **slot;
		*slot = order < 0 ? &(*parent)->left : &(*parent)->right;
	}
	return NULL;
}

/* ---- merging ---- */

/* Let a page show a frame, if it has that content while it is held. Its space is locked. */
static bool replace(struct ksm_scan *scan, const struct ksm_item *item, struct pdd_frame *frame)
{
	struct pdd_region *region = item->region->region;
	const void *content = scan->ops.frame_content(scan->ctx, frame);
	struct pdd_view view;

	if (!content || scan->ops.hold(scan->ctx, region, &view, 1, ksm_page_of(item), 1) <= 0 ||
	    view.kind != PDD_PAGE_PRIVATE)
		return false;
	if (memcmp(view.content, content, scan->options.page_size) == 0 &&
	    scan->ops.frames_map(scan->ctx, region, ksm_page_of(item), &frame, 1) == 1) {
		scan->counters.merges++;
		return true;
	}
	scan->ops.release(scan->ctx, region, ksm_page_of(item), 1);
	return false;
}

static bool merge_one(struct ksm_scan *scan, const struct ksm_item *item, struct pdd_frame *frame)
{
	bool merged;

	if (!lock(scan, item->region->space))
		return false;
	merged = replace(scan, item, frame);
	unlock(scan, item->region->space);
	return merged;
}

void ksm_merge_with(struct ksm_scan *scan, struct ksm_item *item, struct ksm_stable *stable)
{
	if (merge_one(scan, item, stable->frame))
		join(item, stable);
}

/* Make a frame of a page, and let the page show it. The kernel does that without a copy. */
static struct pdd_frame *merge_first(struct ksm_scan *scan, const struct ksm_item *item,
				     const struct ksm_item *twin, const void *content)
{
	struct pdd_frame_wish wish = {
		.content = content, .region = twin->region->region, .page = ksm_page_of(twin),
	};
	struct pdd_frame *frame = NULL;

	if (!lock(scan, item->region->space))
		return NULL;
	if (scan->ops.frames_create(scan->ctx, &frame, &wish, 1, 0) == 1) {
		pdd_frame_init(frame, 0, 0, 0);
		if (!replace(scan, item, frame)) {
			scan->ops.frame_free(scan->ctx, frame);
			frame = NULL;
		}
	}
	unlock(scan, item->region->space);
	return frame;
}

/* Give a page its own memory back, before anybody else shows its frame. */
static bool break_cow(struct ksm_scan *scan, const struct ksm_item *item)
{
	bool done;

	if (!lock(scan, item->region->space))
		return false;
	done = scan->ops.frames_unmap(scan->ctx, item->region->region, ksm_page_of(item), 1) == 1;
	unlock(scan, item->region->space);
	return done;
}

void ksm_merge_two(struct ksm_scan *scan, struct ksm_item *item, struct ksm_item *twin,
		   const void *content)
{
	struct pdd_frame *frame = merge_first(scan, item, twin, content);
	struct pdd_rbnode *parent, **slot;
	struct ksm_stable *stable;
	bool merged;

	if (!frame)
		return;
	merged = merge_one(scan, twin, frame);
	if (!merged && break_cow(scan, item)) {
		scan->ops.frame_free(scan->ctx, frame);
		return;
	}
	stable = calloc(1, sizeof(*stable));
	if (!stable ||
	    ksm_stable_search(scan, scan->ops.frame_content(scan->ctx, frame), &parent, &slot))
		abort(); /* the search before found nothing, and a benchmark has memory */
	stable->frame = frame;
	pdd_rb_link(&scan->stable, &stable->node, parent, slot, 0);
	if (merged) {
		pdd_rb_remove(&scan->unstable, &twin->node);
		join(twin, stable);
	}
	join(item, stable);
}
