/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge.c - the merge protocol for one run of neighbouring pages: hold, compare, replace.
 *
 * The one rule: a page is replaced only by a frame (or the zero page) that was compared with it,
 * byte by byte, while the page was held. So no write is lost, whatever was guessed before.
 *
 * A run may contain pages about which nothing was decided, between others (carry_out.c says why).
 * They are held with the run and released as they are.
 *
 * Invariants
 *  1. Every page that hold() gave is ended by exactly one of frames_map, zero_map, release.
 *  2. When pddi_merge_run() returns, none of its items is PENDING: each decision became a sharer
 *     or a zero page, or was cancelled with a reason. What was not decided is as it was.
 *
 * Locking: the space of the run is locked by the caller.
 */
#include "content.h"
#include "scanner_internal.h"

void pddi_pending_withdraw(struct pdd_scanner *scanner, struct pdd_item *item)
{
	struct pdd_group *group = item_group(item);
	struct pdd_frame *frame = group ? NULL : item_frame(item);

	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	if (group && group->twin == item)
		group->twin = NULL;
	else if (group)
		group->nmembers--;
	item_set(item, ITEM_SEEN, item_reason(item));
	if (frame)
		pddi_stable_unreserve(scanner, frame);
}

void pddi_pending_cancel(struct pdd_scanner *scanner, struct pdd_item *item,
			 enum pdd_reason reason)
{
	pddi_pending_withdraw(scanner, item);
	pddi_item_fail(item, reason);
}

/* What is to become of a page of a run. */
enum fate {
	FATE_FRAME = 0, /* pending: to show its frame */
	FATE_ZERO = 1,  /* seen to be zero: to show the zero page */
	FATE_NONE = 2,  /* nothing, it only lies between others */
};

static enum fate fate_of(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	if (item_state(item) == ITEM_PENDING)
		return FATE_FRAME;
	/* An item in the index may be evicted while its run is carried out: that decides nothing. */
	return item_state(item) == ITEM_SEEN && item_class(item) == PDD_CLASS_ZERO &&
			       pddi_merges_zero(scanner)
		       ? FATE_ZERO
		       : FATE_NONE;
}

bool pddi_merge_is_decided(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return fate_of(scanner, item) != FATE_NONE;
}

void pddi_merge_cancel(struct pdd_scanner *scanner, struct pdd_item *const *items, uint64_t n,
		       enum pdd_reason reason)
{
	for (uint64_t i = 0; i < n; i++) {
		enum fate fate = fate_of(scanner, items[i]);

		if (fate == FATE_FRAME)
			pddi_pending_cancel(scanner, items[i], reason);
		else if (fate == FATE_ZERO)
			pddi_item_fail(items[i], reason);
	}
}

/* Whether the frame that an item was to share is gone. */
static bool is_frame_gone(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return fate_of(scanner, item) == FATE_FRAME && item_frame(item)->priv.flags & FRAME_GONE;
}

static bool count_compare(struct pdd_scanner *scanner, bool equal)
{
	if (equal)
		scanner->priv.stats.held_compares_equal++;
	else
		scanner->priv.stats.held_compares_unequal++;
	return equal;
}

/* Whether a page lies on another NUMA node than the frame that it was to share. */
static bool is_far(const struct pdd_scanner *scanner, const struct pdd_item *item, uint16_t node)
{
	return fate_of(scanner, item) == FATE_FRAME &&
	       item_frame(item)->priv.numa_node != pddi_node(scanner, node);
}

/* Whether a held page is what it is to be replaced by; true if that is nothing. */
static bool is_equal(struct pdd_scanner *scanner, const struct pdd_item *item, const void *content,
		     uint16_t node)
{
	size_t size = scanner->priv.page_size;
	const void *shared;

	switch (fate_of(scanner, item)) {
	case FATE_NONE:
		return true;
	case FATE_ZERO:
		return count_compare(scanner, pddi_content_class(content, size) == PDD_CLASS_ZERO);
	case FATE_FRAME:
		break;
	}
	if (is_frame_gone(scanner, item) || is_far(scanner, item, node))
		return false;
	shared = pddi_frame_content(scanner, item_frame(item));
	if (!shared) {
		pddi_stable_gone(scanner, item_frame(item));
		return false;
	}
	return count_compare(scanner, pddi_content_equal(content, shared, size));
}

/* A held page is not what was expected. If it still has its recorded checksum, two contents have
 * the same, and they are compared in searches from now on; else it changed, which was a look. */
static void settle_unequal(struct pdd_scanner *scanner, struct pdd_item *item, const void *content,
			   uint16_t node)
{
	struct pdd_checksum now;
	enum pdd_reason reason;

	if (is_far(scanner, item, node)) { /* the next look notes where it is */
		pddi_merge_cancel(scanner, &item, 1, PDD_REASON_CHANGED);
		return;
	}
	reason = is_frame_gone(scanner, item) ? PDD_REASON_HOOK_FAILED
					      : pddi_checksum(scanner, &now, content);
	if (reason != PDD_REASON_NONE) {
		pddi_merge_cancel(scanner, &item, 1, reason);
	} else if (now.value == item->priv.node.checksum) {
		pddi_search_collided(scanner);
		pddi_merge_cancel(scanner, &item, 1, PDD_REASON_COLLISION);
		item_set_all(item, ITEM_SEEN, now.class_, PDD_REASON_COLLISION);
		item_set_due(item, true); /* whatever failed before: it cannot fail so again */
	} else {
		scanner->priv.stats.stale_twins++;
		pddi_merge_cancel(scanner, &item, 1, PDD_REASON_CHANGED);
		item->priv.node.checksum = now.value;
		item_set_all(item, ITEM_SEEN, now.class_, item_reason(item));
	}
}

static void replaced(struct pdd_scanner *scanner, struct pdd_item *item)
{
	struct pdd_frame *frame;

	item_set_due(item, false);
	item_set_dirty(item, false); /* what it shows now is known */
	if (fate_of(scanner, item) == FATE_ZERO) {
		item_set(item, ITEM_ZERO, PDD_REASON_NONE);
		item_counts(item)->zero_merges++;
		return;
	}
	frame = item_frame(item);
	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	pddi_stable_join(scanner, frame, item);
}

/* Replace held pages by what they are to show: the hooks frames_map and zero_map. */
static int replace(struct pdd_scanner *scanner, struct pdd_worker *worker,
		   struct pdd_region *region, uint64_t first, uint64_t done, uint64_t n, bool zero)
{
	const struct pdd_ops *ops = &scanner->priv.ops;

	if (zero)
		return ops->zero_map(scanner->priv.ctx, region, first + done, n - done);
	return ops->frames_map(scanner->priv.ctx, region, first + done, &worker->priv.frames[done],
			       n - done);
}

static bool is_used_up(enum pdd_reason reason)
{
	return reason == PDD_REASON_MAPPING_BUDGET || reason == PDD_REASON_NO_MEMORY;
}

/* The hook did nothing for n pages. How many of them fail: all, if something is used up, or if it
 * became busy in the middle of its work, which the next pass then goes on with. Else only the first,
 * which would keep those behind it from being merged for ever. */
static uint64_t fail_pages(struct pdd_scanner *scanner, struct pdd_item *const *items, uint64_t n,
			   enum pdd_reason reason, bool at_work)
{
	bool all = is_used_up(reason) || (at_work && reason == PDD_REASON_BUSY);
	uint64_t failed = all ? n : 1;

	pddi_merge_cancel(scanner, items, failed, reason);
	/* Those behind the first were not tried by themselves. */
	for (uint64_t i = 1; i < failed && !is_used_up(reason); i++)
		item_set_due(items[i], true);
	return failed;
}

/* Replace held pages, all equal to their frames or all zero. What cannot be is released. */
static void map_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_region *region, struct pdd_item *const *items, uint64_t n)
{
	bool zero = fate_of(scanner, items[0]) == FATE_ZERO;
	uint64_t first = item_page(items[0]), done = 0;
	bool at_work = false; /* the last call did something */

	for (uint64_t i = 0; !zero && i < n; i++)
		worker->priv.frames[i] = item_frame(items[i]);
	while (done < n) {
		int k = replace(scanner, worker, region, first, done, n, zero);
		uint64_t before = done;

		for (int i = 0; i < k && done < n; i++)
			replaced(scanner, items[done++]);
		if (k > 0) {
			pddi_trace(scanner, zero ? PDD_EVENT_ZEROED : PDD_EVENT_MERGED, region,
				   first + before, done - before);
		} else {
			enum pdd_reason reason = pddi_reason(
				scanner, zero ? PDD_HOOK_ZERO_MAP : PDD_HOOK_FRAMES_MAP, k);
			uint64_t failed =
				fail_pages(scanner, &items[done], n - done, reason, at_work);

			scanner->priv.ops.release(scanner->priv.ctx, region, first + done, failed);
			done += failed;
		}
		at_work = k > 0;
	}
}

/* The end of the longest run of equal pages of one fate. */
static uint64_t equal_run(struct pdd_scanner *scanner, struct pdd_item *const *items,
			  const struct pdd_view *view, uint64_t begin, uint64_t n)
{
	const unsigned char *content = view->content;
	size_t size = scanner->priv.page_size;
	enum fate fate = fate_of(scanner, items[begin]);
	uint64_t end = begin;

	while (end < n && fate_of(scanner, items[end]) == fate &&
	       is_equal(scanner, items[end], content + end * size, view->node))
		end++;
	/* A frame that turned out to be gone may be that of pages before, too. */
	if (end < n && is_frame_gone(scanner, items[end]))
		for (uint64_t i = begin; i < end; i++)
			if (is_frame_gone(scanner, items[i]))
				end = i;
	return end;
}

/* Compare and replace pages that are held. */
static void merge_held(struct pdd_scanner *scanner, struct pdd_worker *worker,
		       struct pdd_region *region, struct pdd_item *const *items,
		       const struct pdd_view *view)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	const unsigned char *content = view->content;
	size_t size = scanner->priv.page_size;
	uint64_t first = item_page(items[0]), begin = 0, end, n = view->npages;

	while (begin < n) {
		enum fate fate = fate_of(scanner, items[begin]);

		if (pddi_is_late(scanner, worker)) {
			ops->release(scanner->priv.ctx, region, first + begin, n - begin);
			pddi_merge_cancel(scanner, &items[begin], n - begin, PDD_REASON_DEADLINE);
			return;
		}
		end = equal_run(scanner, items, view, begin, n);
		if (end > begin && fate == FATE_NONE)
			ops->release(scanner->priv.ctx, region, first + begin, end - begin);
		else if (end > begin)
			map_run(scanner, worker, region, &items[begin], end - begin);
		if (end < n && fate_of(scanner, items[end]) == fate) { /* it ended the run */
			settle_unequal(scanner, items[end], content + end * size, view->node);
			ops->release(scanner->priv.ctx, region, first + end, 1);
			end++;
		}
		worker->priv.runs += fate != FATE_NONE;
		begin = end;
	}
}

/* Pages that are not held. */
static void refused(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_item *const *items, uint64_t n, enum pdd_reason reason)
{
	worker->priv.runs++;
	pddi_merge_cancel(scanner, items, n, reason);
}

/* Settle what hold said of some pages. */
static void settle_view(struct pdd_scanner *scanner, struct pdd_worker *worker,
			struct pdd_region *region, struct pdd_item *const *items,
			const struct pdd_view *view)
{
	enum pdd_reason reason = PDD_REASON_CHANGED;

	if (view->kind == PDD_PAGE_PRIVATE && view->content) {
		merge_held(scanner, worker, region, items, view);
		return;
	}
	if (view->kind == PDD_PAGE_PRIVATE) { /* held, but nobody knows where */
		scanner->priv.ops.release(scanner->priv.ctx, region, item_page(items[0]),
					  view->npages);
		reason = PDD_REASON_HOOK_FAILED;
	} else if (view->kind == PDD_PAGE_REFUSED) {
		reason = (enum pdd_reason)view->reason;
	}
	refused(scanner, worker, items, view->npages, reason);
}

void pddi_merge_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_item *const *items, uint64_t n)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	struct pdd_region *region = items[0]->priv.region;
	struct pdd_view *views = worker->priv.views;
	uint64_t first = item_page(items[0]), done = 0;

	while (done < n) {
		uint64_t before = done;
		int nviews;

		if (pddi_is_late(scanner, worker)) {
			pddi_merge_cancel(scanner, &items[done], n - done, PDD_REASON_DEADLINE);
			return;
		}
		nviews = ops->hold(scanner->priv.ctx, region, views, PDD_WORKER_VIEWS, first + done,
				   n - done);
		for (int i = 0; i < nviews && i < (int)PDD_WORKER_VIEWS && done < n; i++) {
			pddi_view_clip(&views[i], n - done);
			settle_view(scanner, worker, region, &items[done], &views[i]);
			done += views[i].npages;
		}
		/* It is the first page that cannot be held; those behind it may be. */
		if (done == before)
			refused(scanner, worker, &items[done++], 1,
				pddi_reason(scanner, PDD_HOOK_HOLD, nviews < 0 ? nviews : 0));
	}
}
