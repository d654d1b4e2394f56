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
	return item_state(item) == ITEM_SEEN && item_class(item) == PDD_CLASS_ZERO &&
			       pddi_merges_zero(scanner)
		       ? FATE_ZERO
		       : FATE_NONE;
}

bool pddi_merge_is_decided(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return fate_of(scanner, item) != FATE_NONE;
}

void pddi_merge_collect(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
			struct pdd_item *item)
{
	worker->priv.run[at] = item;
	worker->priv.fates[at] = (uint8_t)fate_of(scanner, item);
}

/* What is still to become of a page of the run. What was not decided when the run was collected is
 * not, whatever happens to its item meanwhile. */
static enum fate fate_at(const struct pdd_scanner *scanner, const struct pdd_worker *worker,
			 uint64_t at)
{
	return worker->priv.fates[at] == FATE_NONE ? FATE_NONE
						   : fate_of(scanner, worker->priv.run[at]);
}

void pddi_merge_cancel(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
		       uint64_t n, enum pdd_reason reason)
{
	for (uint64_t end = at + n; at < end; at++) {
		enum fate fate = fate_at(scanner, worker, at);

		if (fate == FATE_FRAME)
			pddi_pending_cancel(scanner, worker->priv.run[at], reason);
		else if (fate == FATE_ZERO)
			pddi_item_fail(worker->priv.run[at], reason);
	}
}

/* ---- comparing ---- */

enum verdict {
	VERDICT_EQUAL = 0, /* or nothing is to become of it */
	VERDICT_UNEQUAL = 1,
	VERDICT_GONE = 2,    /* its frame's content is */
	VERDICT_COMPARE = 3, /* to be compared */
};

static bool is_frame_gone(const struct pdd_frame *frame)
{
	return frame && frame->priv.flags & FRAME_GONE;
}

/* Whether a page lies on another NUMA node than the frame that it was to share. */
static bool is_far(const struct pdd_scanner *scanner, const struct pdd_frame *frame, uint16_t node)
{
	return frame && frame->priv.numa_node != pddi_node(scanner, node);
}

/* What has to be compared of the pages of a view. */
static void prepare(const struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
		    const struct pdd_view *view)
{
	for (uint64_t end = at + view->npages; at < end; at++) {
		enum fate fate = fate_at(scanner, worker, at);
		struct pdd_frame *frame =
			fate == FATE_FRAME ? item_promised(worker->priv.run[at]) : NULL;
		enum verdict verdict = VERDICT_COMPARE;

		if (fate == FATE_NONE)
			verdict = VERDICT_EQUAL;
		else if (is_frame_gone(frame) || is_far(scanner, frame, view->node))
			verdict = VERDICT_UNEQUAL;
		worker->priv.fates[at] = (uint8_t)fate;
		worker->priv.frames[at] = frame;
		worker->priv.verdicts[at] = (uint8_t)verdict;
	}
}

/* Whether a held page is what it is to be replaced by. Without the lock: a promised place keeps a
 * frame. */
static enum verdict compare(const struct pdd_scanner *scanner, struct pdd_frame *frame,
			    const void *content)
{
	size_t size = scanner->priv.page_size;
	const void *shared;

	if (!frame)
		return pddi_content_class(content, size) == PDD_CLASS_ZERO ? VERDICT_EQUAL
									   : VERDICT_UNEQUAL;
	shared = pddi_frame_content(scanner, frame);
	if (!shared)
		return VERDICT_GONE;
	return pddi_content_equal(content, shared, size) ? VERDICT_EQUAL : VERDICT_UNEQUAL;
}

/* A page is held and has the content whose checksum is recorded, so what is in it is known; a write
 * that is told of later is a later one. But contents of one checksum may be of several classes. */
static void found_equal(const struct pdd_scanner *scanner, struct pdd_item *item, const void *content)
{
	if (item_is_dirty(item) &&
	    item_class(item) == pddi_content_class(content, scanner->priv.page_size))
		item_set_dirty(item, false);
}

/* Compare the held pages of a view. */
static void compare_pages(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
			  const struct pdd_view *view)
{
	const unsigned char *content = view->content;
	uint8_t *verdicts = &worker->priv.verdicts[at];
	struct pdd_frame **frames = &worker->priv.frames[at];
	uint64_t nequal = 0, nunequal = 0;

	prepare(scanner, worker, at, view);
	pddi_unlock(scanner);
	for (uint64_t i = 0; i < view->npages; i++, content += scanner->priv.page_size) {
		if (verdicts[i] != VERDICT_COMPARE)
			continue;
		verdicts[i] = (uint8_t)compare(scanner, frames[i], content);
		nequal += verdicts[i] == VERDICT_EQUAL;
		nunequal += verdicts[i] == VERDICT_UNEQUAL;
	}
	pddi_lock(scanner);
	scanner->priv.stats.held_compares_equal += nequal;
	scanner->priv.stats.held_compares_unequal += nunequal;
	for (uint64_t i = 0; i < view->npages; i++) {
		if (verdicts[i] == VERDICT_GONE)
			pddi_stable_gone(scanner, frames[i]);
		else if (verdicts[i] == VERDICT_EQUAL && worker->priv.fates[at + i] != FATE_NONE)
			found_equal(scanner, worker->priv.run[at + i],
				    (const unsigned char *)view->content +
					    i * scanner->priv.page_size);
	}
}

/* ---- settling ---- */

static void release(struct pdd_scanner *scanner, struct pdd_region *region, uint64_t first,
		    uint64_t npages)
{
	pddi_unlock(scanner);
	scanner->priv.ops.release(scanner->priv.ctx, region, first, npages);
	pddi_lock(scanner);
}

/* The checksum of a held page, read without the lock. */
static enum pdd_reason checksum_held(struct pdd_scanner *scanner, struct pdd_checksum *checksum,
				     const void *content)
{
	int err;

	pddi_unlock(scanner);
	err = pddi_checksum_read(scanner, checksum, content);
	pddi_lock(scanner);
	return err ? pddi_reason(scanner, PDD_HOOK_CHECKSUM, err) : PDD_REASON_NONE;
}

/* A held page is not what was expected. If it still has its recorded checksum, two contents have
 * the same, and they are compared in searches from now on; else it changed, which was a look. */
static void settle_unequal(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
			   const void *content, uint16_t node)
{
	struct pdd_item *item = worker->priv.run[at];
	struct pdd_frame *frame = worker->priv.frames[at];
	struct pdd_checksum now;
	enum pdd_reason reason;

	if (is_far(scanner, frame, node)) { /* the next look notes where it is */
		pddi_merge_cancel(scanner, worker, at, 1, PDD_REASON_CHANGED);
		return;
	}
	reason = is_frame_gone(frame) ? PDD_REASON_HOOK_FAILED
				      : checksum_held(scanner, &now, content);
	if (reason != PDD_REASON_NONE) {
		pddi_merge_cancel(scanner, worker, at, 1, reason);
	} else if (now.value == item->priv.node.checksum) {
		pddi_search_collided(scanner);
		pddi_merge_cancel(scanner, worker, at, 1, PDD_REASON_COLLISION);
		item_set_all(item, ITEM_SEEN, now.class_, PDD_REASON_COLLISION);
		item_set_due(item, true); /* whatever failed before: it cannot fail so again */
	} else {
		scanner->priv.stats.stale_twins++;
		pddi_merge_cancel(scanner, worker, at, 1, PDD_REASON_CHANGED);
		item->priv.node.checksum = now.value;
		item_set_all(item, ITEM_SEEN, now.class_, item_reason(item));
	}
}

/* A page shows what it was to show. */
static void replaced(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at)
{
	struct pdd_item *item = worker->priv.run[at];
	struct pdd_frame *frame = worker->priv.frames[at];

	if (is_frame_gone(frame)) { /* while it was mapped: as other sharers of it */
		pddi_merge_cancel(scanner, worker, at, 1, PDD_REASON_STALE);
		return;
	}
	item_set_due(item, false);
	if (!frame) {
		item_set(item, ITEM_ZERO, PDD_REASON_NONE);
		item_counts(item)->zero_merges++;
		return;
	}
	pddi_pending_join(scanner, item);
}

/* ---- replacing ---- */

/* Replace held pages by what they are to show: the hooks frames_map and zero_map. */
static int replace(struct pdd_scanner *scanner, struct pdd_worker *worker,
		   struct pdd_region *region, uint64_t at, uint64_t n)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	uint64_t first = item_page(worker->priv.run[at]);
	int k;

	pddi_unlock(scanner);
	if (worker->priv.frames[at])
		k = ops->frames_map(scanner->priv.ctx, region, first, &worker->priv.frames[at], n);
	else
		k = ops->zero_map(scanner->priv.ctx, region, first, n);
	pddi_lock(scanner);
	return k;
}

static bool is_used_up(enum pdd_reason reason)
{
	return reason == PDD_REASON_MAPPING_BUDGET || reason == PDD_REASON_NO_MEMORY;
}

/* The hook did nothing for n pages. How many of them fail: all, if something is used up, or if it
 * became busy in the middle of its work, which the next pass then goes on with. Else only the
 * first, which would keep those behind it from being merged for ever. */
static uint64_t fail_pages(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
			   uint64_t n, enum pdd_reason reason, bool at_work)
{
	bool all = is_used_up(reason) || (at_work && reason == PDD_REASON_BUSY);
	uint64_t failed = all ? n : 1;

	pddi_merge_cancel(scanner, worker, at, failed, reason);
	/* Those behind the first were not tried by themselves. */
	for (uint64_t i = 1; i < failed && !is_used_up(reason); i++)
		item_set_due(worker->priv.run[at + i], true);
	return failed;
}

/* Replace held pages, all equal to their frames or all zero. What cannot be is released. */
static void map_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_region *region, uint64_t at, uint64_t n)
{
	bool zero = !worker->priv.frames[at];
	bool at_work = false; /* the last call did something */

	for (uint64_t end = at + n; at < end;) {
		uint64_t first = item_page(worker->priv.run[at]), before = at;
		int k = replace(scanner, worker, region, at, end - at);

		for (int i = 0; i < k && at < end; i++)
			replaced(scanner, worker, at++);
		if (k > 0) {
			pddi_trace(scanner, zero ? PDD_EVENT_ZEROED : PDD_EVENT_MERGED, region,
				   first, at - before);
		} else {
			enum pdd_reason reason = pddi_reason(
				scanner, zero ? PDD_HOOK_ZERO_MAP : PDD_HOOK_FRAMES_MAP, k);
			uint64_t failed =
				fail_pages(scanner, worker, at, end - at, reason, at_work);

			release(scanner, region, first, failed);
			at += failed;
		}
		at_work = k > 0;
	}
}

/* Whether a held page may be replaced: the frame may have gone since it was compared. */
static bool is_equal(const struct pdd_worker *worker, uint64_t at)
{
	return worker->priv.verdicts[at] == VERDICT_EQUAL && !is_frame_gone(worker->priv.frames[at]);
}

/* Compare and replace pages that are held. */
static void merge_held(struct pdd_scanner *scanner, struct pdd_worker *worker,
		       struct pdd_region *region, uint64_t at, const struct pdd_view *view)
{
	const uint8_t *fates = worker->priv.fates;
	const unsigned char *content = view->content;
	uint64_t first = item_page(worker->priv.run[at]), begin = at, stop = at + view->npages, end;

	compare_pages(scanner, worker, at, view);
	for (; begin < stop; begin = end) {
		enum fate fate = (enum fate)fates[begin];

		if (pddi_is_late(scanner, worker)) {
			release(scanner, region, first + (begin - at), stop - begin);
			pddi_merge_cancel(scanner, worker, begin, stop - begin, PDD_REASON_DEADLINE);
			return;
		}
		for (end = begin; end < stop && fates[end] == fate && is_equal(worker, end);)
			end++;
		if (end > begin && fate == FATE_NONE)
			release(scanner, region, first + (begin - at), end - begin);
		else if (end > begin)
			map_run(scanner, worker, region, begin, end - begin);
		if (end < stop && fates[end] == fate) { /* it ended the run */
			settle_unequal(scanner, worker, end,
				       content + (end - at) * scanner->priv.page_size, view->node);
			release(scanner, region, first + (end - at), 1);
			end++;
		}
		worker->priv.runs += fate != FATE_NONE;
	}
}

/* ---- a run ---- */

/* Pages that are not held. */
static void refused(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at, uint64_t n,
		    enum pdd_reason reason)
{
	worker->priv.runs++;
	pddi_merge_cancel(scanner, worker, at, n, reason);
}

/* Settle what hold said of some pages. */
static void settle_view(struct pdd_scanner *scanner, struct pdd_worker *worker,
			struct pdd_region *region, uint64_t at, const struct pdd_view *view)
{
	enum pdd_reason reason = PDD_REASON_CHANGED;

	if (view->kind == PDD_PAGE_PRIVATE && view->content) {
		merge_held(scanner, worker, region, at, view);
		return;
	}
	if (view->kind == PDD_PAGE_PRIVATE) { /* held, but nobody knows where */
		release(scanner, region, item_page(worker->priv.run[at]), view->npages);
		reason = PDD_REASON_HOOK_FAILED;
	} else if (view->kind == PDD_PAGE_REFUSED) {
		reason = (enum pdd_reason)view->reason;
	}
	refused(scanner, worker, at, view->npages, reason);
}

/* Hold pages of the run from this one on; the number of views, 0 or -errno. */
static int hold(const struct pdd_scanner *scanner, struct pdd_worker *worker,
		struct pdd_region *region, uint64_t at, uint64_t n)
{
	uint64_t first = item_page(worker->priv.run[at]);
	int nviews;

	pddi_unlock(scanner);
	nviews = scanner->priv.ops.hold(scanner->priv.ctx, region, worker->priv.views,
					PDD_WORKER_VIEWS, first, n - at);
	pddi_lock(scanner);
	return nviews < (int)PDD_WORKER_VIEWS ? nviews : (int)PDD_WORKER_VIEWS;
}

void pddi_merge_run(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t n)
{
	struct pdd_region *region = worker->priv.run[0]->priv.region;
	struct pdd_view *views = worker->priv.views;
	uint64_t done = 0;

	while (done < n) {
		uint64_t before = done;
		int nviews;

		if (pddi_is_late(scanner, worker)) {
			pddi_merge_cancel(scanner, worker, done, n - done, PDD_REASON_DEADLINE);
			return;
		}
		nviews = hold(scanner, worker, region, done, n);
		for (int i = 0; i < nviews && done < n; i++) {
			pddi_view_clip(&views[i], n - done);
			settle_view(scanner, worker, region, done, &views[i]);
			done += views[i].npages;
		}
		/* It is the first page that cannot be held; those behind it may be. */
		if (done == before)
			refused(scanner, worker, done++, 1,
				pddi_reason(scanner, PDD_HOOK_HOLD, nviews < 0 ? nviews : 0));
	}
}
