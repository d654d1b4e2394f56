/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge.c - carrying out what was decided about an extent: the merge protocol.
 *
 *	make the frames of the groups (pages are copied, nothing is held)
 *	pages_put
 *	the twins, in runs: their space by try, hold, compare, map
 *	the pages at hand, in runs: hold, compare, map
 *	settle the groups
 *
 * The one rule: a page is replaced only by a frame (or the zero page) that was compared with it,
 * byte by byte, while the page was held. So no write is lost, whatever was guessed before.
 *
 * Invariants
 *  1. Every page that hold() gave is ended by exactly one of frames_map, zero_map, release.
 *  2. When pddi_merge() returns, nothing is PENDING: each decision became a sharer or a zero page,
 *     or was cancelled with a reason.
 *  3. The twin of a group is settled before its members: a stale twin costs no mapping, and a page
 *     that has nobody left to share with is not mapped.
 *
 * At the deadline what is left is cancelled and due; one run is carried out in any case.
 *
 * Locking: the space at hand is locked by the caller; one other space at a time is tried beside it.
 * Tries cannot deadlock.
 */
#include "content.h"
#include "scanner_internal.h"

void pddi_pending_cancel(struct pdd_scanner *scanner, struct pdd_item *item,
			 enum pdd_reason reason)
{
	struct pdd_group *group = item_group(item);
	struct pdd_frame *frame = group ? NULL : item_frame(item);

	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	if (group && group->twin != item)
		group->nmembers--;
	pddi_item_fail(item, reason);
	if (frame)
		pddi_stable_unreserve(scanner, frame);
}

/* A decision is a pending item, or a zero page that was only seen. */
static bool is_pending(const struct pdd_item *item)
{
	return item_state(item) == ITEM_PENDING;
}

static void cancel(struct pdd_scanner *scanner, struct pdd_item *const *items, uint64_t n,
		   enum pdd_reason reason)
{
	for (uint64_t i = 0; i < n; i++) {
		if (is_pending(items[i]))
			pddi_pending_cancel(scanner, items[i], reason);
		else
			pddi_item_fail(items[i], reason);
	}
}

/* Whether the frame that an item was to share is gone. */
static bool is_frame_gone(const struct pdd_item *item)
{
	return is_pending(item) && item_frame(item)->priv.flags & FRAME_GONE;
}

/* Whether a held page is what it is to be replaced by. */
static bool is_equal(struct pdd_scanner *scanner, const struct pdd_item *item, const void *content)
{
	size_t size = scanner->priv.page_size;
	const void *shared;

	if (!is_pending(item))
		return pddi_content_class(content, size) == PDD_CLASS_ZERO;
	if (is_frame_gone(item))
		return false;
	shared = pddi_frame_content(scanner, item_frame(item));
	if (!shared) {
		pddi_stable_gone(scanner, item_frame(item));
		return false;
	}
	return pddi_content_equal(content, shared, size);
}

/* A held page is not what was expected. If it still has its recorded checksum, two contents have
 * the same, and it is searched with compares from now on; else it changed, which was a look. */
static void settle_unequal(struct pdd_scanner *scanner, struct pdd_item *item, const void *content)
{
	struct pdd_checksum now;

	if (is_frame_gone(item) || pddi_checksum(scanner, &now, content) != 0) {
		cancel(scanner, &item, 1, PDD_REASON_HOOK_FAILED);
	} else if (now.value == item->priv.node.checksum) {
		scanner->priv.stats.collisions++;
		cancel(scanner, &item, 1, PDD_REASON_COLLISION);
		item->priv.word |= ITEM_COLLIDES;
	} else {
		scanner->priv.stats.stale_twins++;
		cancel(scanner, &item, 1, PDD_REASON_CHANGED);
		item->priv.node.checksum = now.value;
		item_set_class(item, now.class_);
	}
}

static void replaced(struct pdd_scanner *scanner, struct pdd_item *item)
{
	struct pdd_frame *frame;

	if (!is_pending(item)) {
		item_set(item, ITEM_ZERO, PDD_REASON_NONE);
		item_counts(item)->zero_merges++;
		return;
	}
	frame = item_frame(item);
	if (item->priv.node.u.member.pprev)
		item_list_remove(item);
	pddi_stable_join(scanner, frame, item);
}

/* Replace held pages, all equal to their frames or all zero. What cannot be replaced is released. */
static void map_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_region *region, struct pdd_item *const *items, uint64_t n)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	bool zero = !is_pending(items[0]);
	uint64_t first = item_page(items[0]), done = 0;
	int k = 0;

	for (uint64_t i = 0; !zero && i < n; i++)
		worker->priv.frames[i] = item_frame(items[i]);
	while (done < n) {
		if (zero)
			k = ops->zero_map(scanner->priv.ctx, region, first + done, n - done);
		else
			k = ops->frames_map(scanner->priv.ctx, region, first + done,
					    &worker->priv.frames[done], n - done);
		if (k <= 0)
			break;
		for (int i = 0; i < k; i++)
			replaced(scanner, items[done++]);
	}
	if (done)
		pddi_trace(scanner, zero ? PDD_EVENT_ZEROED : PDD_EVENT_MERGED, region, first,
			   done);
	if (done < n) {
		ops->release(scanner->priv.ctx, region, first + done, n - done);
		cancel(scanner, &items[done], n - done, pddi_reason(scanner, k));
	}
}

/* The end of the longest run of equal pages of one sort. */
static uint64_t equal_run(struct pdd_scanner *scanner, struct pdd_item *const *items,
			  const unsigned char *content, uint64_t begin, uint64_t n)
{
	size_t size = scanner->priv.page_size;
	bool pending = is_pending(items[begin]);
	uint64_t end = begin;

	while (end < n && is_pending(items[end]) == pending &&
	       is_equal(scanner, items[end], content + end * size))
		end++;
	/* A frame that turned out to be gone may be that of pages before, too. */
	if (end < n && is_frame_gone(items[end]))
		for (uint64_t i = begin; i < end; i++)
			if (is_frame_gone(items[i]))
				end = i;
	return end;
}

/* Compare and replace pages that are held. */
static void merge_held(struct pdd_scanner *scanner, struct pdd_worker *worker,
		       struct pdd_region *region, struct pdd_item *const *items,
		       const unsigned char *content, uint64_t n)
{
	size_t size = scanner->priv.page_size;
	uint64_t begin = 0, end;

	while (begin < n) {
		bool pending = is_pending(items[begin]);

		end = equal_run(scanner, items, content, begin, n);
		if (end > begin)
			map_run(scanner, worker, region, &items[begin], end - begin);
		if (end < n && is_pending(items[end]) == pending) { /* it ended the run */
			settle_unequal(scanner, items[end], content + end * size);
			scanner->priv.ops.release(scanner->priv.ctx, region,
						  item_page(items[0]) + end, 1);
			end++;
		}
		begin = end;
	}
}

/* Hold a run of neighbouring pages and merge what can be. */
static void merge_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      struct pdd_region *region, struct pdd_item *const *items, uint64_t n)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	struct pdd_view *views = worker->priv.views;
	uint64_t first = item_page(items[0]), done = 0;

	worker->priv.runs++;
	while (done < n) {
		int nviews = ops->hold(scanner->priv.ctx, region, views, PDD_WORKER_VIEWS,
				       first + done, n - done);

		if (nviews <= 0) {
			cancel(scanner, &items[done], n - done, pddi_reason(scanner, nviews));
			return;
		}
		for (int i = 0; i < nviews && done < n; i++) {
			pddi_view_clip(&views[i], n - done);
			if (views[i].kind == PDD_PAGE_PRIVATE)
				merge_held(scanner, worker, region, &items[done], views[i].content,
					   views[i].npages);
			else
				cancel(scanner, &items[done], views[i].npages,
				       views[i].kind == PDD_PAGE_REFUSED ? views[i].reason
									 : PDD_REASON_CHANGED);
			done += views[i].npages;
		}
	}
}

/* Whether the step should begin no more run. */
static bool is_late(const struct pdd_scanner *scanner, const struct pdd_worker *worker)
{
	return worker->priv.deadline_ns && worker->priv.runs &&
	       pddi_now(scanner) >= worker->priv.deadline_ns;
}

static bool twin_before(const struct pdd_group *a, const struct pdd_group *b)
{
	if (a->twin->priv.region != b->twin->priv.region)
		return (uintptr_t)a->twin->priv.region < (uintptr_t)b->twin->priv.region;
	return item_page(a->twin) < item_page(b->twin);
}

/* Collect the groups that have a frame, by the place of their twins. Mostly they are in order
 * already, since equal pages tend to come in equal runs; Shell's sort is quick then, and never
 * slow for 512. */
static uint32_t sort_twins(struct pdd_worker *worker)
{
	static const uint32_t gaps[] = { 301, 132, 57, 23, 10, 4, 1 };
	struct pdd_group **twins = worker->priv.twins;
	uint32_t n = 0;

	for (uint32_t i = 0; i < worker->priv.ngroups; i++)
		if (worker->priv.groups[i].frame)
			twins[n++] = &worker->priv.groups[i];
	for (uint32_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
		for (uint32_t i = gaps[g]; i < n; i++) {
			struct pdd_group *group = twins[i];
			uint32_t j = i;

			for (; j >= gaps[g] && twin_before(group, twins[j - gaps[g]]); j -= gaps[g])
				twins[j] = twins[j - gaps[g]];
			twins[j] = group;
		}
	}
	return n;
}

/* Whether b's page stands right behind a's, in the same extent. */
static bool is_behind(const struct pdd_item *a, const struct pdd_item *b)
{
	return a->priv.region == b->priv.region && item_page(a) + 1 == item_page(b) &&
	       item_page(b) % PDD_EXTENT_PAGES != 0;
}

/* A run of twins in one region; their space is tried unless it is the one at hand. */
static void merge_twin_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
			   const struct pdd_space *at_hand, uint64_t n)
{
	struct pdd_item **run = worker->priv.run;
	struct pdd_region *region = run[0]->priv.region;
	struct pdd_space *space = region->priv.space;

	if (is_late(scanner, worker)) {
		cancel(scanner, run, n, PDD_REASON_DEADLINE);
		return;
	}
	if (space != at_hand && !scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		scanner->priv.stats.space_lock_misses++;
		cancel(scanner, run, n, PDD_REASON_BUSY);
		return;
	}
	merge_run(scanner, worker, region, run, n);
	if (space != at_hand)
		scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
}

static void merge_twins(struct pdd_scanner *scanner, struct pdd_worker *worker,
			const struct pdd_space *at_hand)
{
	struct pdd_group **twins = worker->priv.twins;
	uint32_t ntwins = sort_twins(worker), i = 0;

	while (i < ntwins) {
		uint64_t n = 0;

		do {
			worker->priv.run[n++] = twins[i++]->twin;
		} while (i < ntwins && is_behind(twins[i - 1]->twin, twins[i]->twin));
		merge_twin_run(scanner, worker, at_hand, n);
	}
	for (i = 0; i < ntwins; i++)
		if (item_state(twins[i]->twin) != ITEM_SHARER)
			pddi_group_twin_failed(scanner, twins[i], item_reason(twins[i]->twin));
}

/* What is left of the decisions, without those that were cancelled meanwhile. */
static uint32_t pack_decided(const struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	bool zero = pddi_merges_zero(scanner);
	uint32_t n = 0;

	for (uint32_t i = 0; i < worker->priv.ndecided; i++) {
		struct pdd_item *item = worker->priv.decided[i];

		if (is_pending(item) || (zero && item_class(item) == PDD_CLASS_ZERO))
			worker->priv.run[n++] = item;
	}
	return n;
}

static void merge_at_hand(struct pdd_scanner *scanner, struct pdd_worker *worker,
			  struct pdd_region *region)
{
	struct pdd_item **items = worker->priv.run;
	uint32_t total = pack_decided(scanner, worker), begin = 0, end;

	for (; begin < total; begin = end) {
		for (end = begin + 1; end < total; end++)
			if (!is_behind(items[end - 1], items[end]))
				break;
		if (is_late(scanner, worker))
			cancel(scanner, &items[begin], end - begin, PDD_REASON_DEADLINE);
		else
			merge_run(scanner, worker, region, &items[begin], end - begin);
	}
}

void pddi_merge(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_region *region)
{
	merge_twins(scanner, worker, region->priv.space);
	merge_at_hand(scanner, worker, region);
	pddi_groups_settle(scanner, worker);
	worker->priv.ndecided = 0;
}
