/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner_internal.h - what the files of the engine call of each other.
 *
 *	scanner.c   passes and steps                calls look, group, carry_out
 *	look.c      what a pass does with a page    calls search, group, stable
 *	search.c    finding equal content           calls stable
 *	carry_out.c decisions in runs               calls merge, group
 *	merge.c     hold, compare, replace a run    calls stable
 *	group.c     pages that found a frame        calls stable, search
 *	stable.c    frames and their places         calls the index and chains
 *	space.c     spaces, regions, items leaving  calls stable
 */
#ifndef PDD_SCANNER_INTERNAL_H
#define PDD_SCANNER_INTERNAL_H

#include <errno.h>

#include "frame_internal.h"
#include "item_internal.h"

/* ---- hooks that need a word around them ---- */

static inline uint64_t pddi_now(const struct pdd_scanner *scanner)
{
	return scanner->priv.ops.now_ns ? scanner->priv.ops.now_ns(scanner->priv.ctx) : 0;
}

/* Whether the step should begin no more work on pages that it holds: every step does some. */
static inline bool pddi_is_late(const struct pdd_scanner *scanner, const struct pdd_worker *worker)
{
	return worker->priv.deadline_ns && worker->priv.runs &&
	       pddi_now(scanner) >= worker->priv.deadline_ns;
}

static inline void pddi_trace(const struct pdd_scanner *scanner, enum pdd_event event,
			      struct pdd_region *region, uint64_t first, uint64_t npages)
{
	if (scanner->priv.ops.trace)
		scanner->priv.ops.trace(scanner->priv.ctx, event, region, first, npages);
}

static inline const void *pddi_frame_content(const struct pdd_scanner *scanner,
					     struct pdd_frame *frame)
{
	return scanner->priv.ops.frame_content(scanner->priv.ctx, frame);
}

/* Checksum and class of a content, by the hook if there is one. 0 or -errno of the hook. */
int pddi_checksum(const struct pdd_scanner *scanner, struct pdd_checksum *checksum,
		  const void *content);

/* The reason that a hook's -errno (or 0, "nothing done") stands for; counts errors. */
enum pdd_reason pddi_reason(struct pdd_scanner *scanner, int err);

/* A view may reach beyond what was asked for; the library only uses what it asked for. Its reason
 * comes from a hook, and counts are indexed by it. */
static inline void pddi_view_clip(struct pdd_view *view, uint64_t npages)
{
	if (view->npages > npages)
		view->npages = npages;
	if (view->reason == PDD_REASON_NONE || view->reason >= PDD_REASONS)
		view->reason = PDD_REASON_SPECIAL;
}

static inline bool pddi_merges_zero(const struct pdd_scanner *scanner)
{
	return scanner->priv.ops.zero_map && !(scanner->priv.flags & PDD_SCANNER_KEEP_ZERO_PAGES);
}

static inline struct pdd_item *pddi_item_at(const struct pdd_region *region, uint64_t page)
{
	return &region->priv.extents[page / PDD_EXTENT_PAGES].priv.items[page % PDD_EXTENT_PAGES];
}

/* ---- stats.c ---- */

/* Add up gauges and counters, without those that are derived. */
void pddi_counts_add(struct pdd_counts *total, const struct pdd_counts *counts);

/* ---- stable.c ---- */

/* The leader of the frames of this content. content NULL: the first of this checksum and domain;
 * *several tells then whether there are more, of other content. */
struct pdd_frame *pddi_stable_find(struct pdd_scanner *scanner, uint64_t checksum, uint32_t domain,
				   const void *content, bool *several);
/* Put a frame with sharers among the others of its content. */
void pddi_stable_insert(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* Promise a place in a frame of this chain, NULL if none has room; take a promise back. */
struct pdd_frame *pddi_stable_reserve(struct pdd_scanner *scanner, struct pdd_frame *leader);
void pddi_stable_unreserve(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* Turn a promised place into a sharer. */
void pddi_stable_join(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item);
/* Take a sharer out of its frame, which goes back with the last one. The item becomes NEW. */
void pddi_stable_leave(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
/* The frame is gone, says its embedder: reset its sharers. It goes back with its last promise. */
void pddi_stable_gone(struct pdd_scanner *scanner, struct pdd_frame *frame);

/* ---- search.c ---- */

uint32_t pddi_node_domain(const struct pdd_index_node *node);

enum search_result {
	SEARCH_NOTHING = 0, /* nothing equal: *slot is where the item belongs */
	SEARCH_TWIN = 1,    /* *node is an item of equal key */
	SEARCH_GROUP = 2,   /* *node is an open group of equal key */
	SEARCH_RESERVED = 3, /* a place in the frame *node is promised to the item */
	SEARCH_GIVE_UP = 4, /* too many stale items on the way: try again in another pass */
};
enum search_result pddi_search(struct pdd_scanner *scanner, struct pdd_index_node **node,
			       struct pdd_index_slot *slot, struct pdd_item *item,
			       const void *content);
/* Whether no other item has the key of one in the index. */
bool pddi_search_is_alone(const struct pdd_item *item);
/* Put a SEEN item into the index if no other item of its key is there; says whether. */
bool pddi_search_insert(struct pdd_scanner *scanner, struct pdd_item *item,
			enum pdd_reason reason);
/* Take an item of this key (not a group) out of the index and make it due, if there is one. */
void pddi_search_evict(struct pdd_scanner *scanner, uint64_t checksum, uint32_t domain);

/* ---- space.c ---- */

/* The first region of this space or those behind it; the region behind another. Or NULL. */
struct pdd_region *pddi_region_first(const struct pdd_space *space);
struct pdd_region *pddi_region_next(const struct pdd_region *region);

/* Forget all that is known of an unlinked item's page. */
void pddi_item_reset(struct pdd_item *item, enum pdd_reason reason);
/* Take an item out of wherever it is linked: it becomes SEEN, or NEW if it was shared or zero. */
void pddi_item_detach(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
/* A SEEN item's merge failed: due if the last thing it did was no failure as well. */
void pddi_item_fail(struct pdd_item *item, enum pdd_reason reason);
/* Whether a reason is a failure that another page of equal content would meet as well. */
bool pddi_reason_is_general(enum pdd_reason reason);
/* Whether a reason for which a merge failed stays that of an item that goes into the index. If two
 * equal pages that cannot be held forgot it there, each would be due when the other finds it, and
 * they would found a frame in every pass. */
bool pddi_reason_stays(enum pdd_reason reason);

/* ---- group.c ---- */

/* Found a group of a twin and the page at hand, or join one that is open. */
void pddi_group_found(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      struct pdd_item *twin, struct pdd_item *item, const void *content);
void pddi_group_join(struct pdd_scanner *scanner, struct pdd_group *group, struct pdd_item *item);
/* Make the frames of all groups; their items have places reserved in them afterwards. */
void pddi_groups_create_frames(struct pdd_scanner *scanner, struct pdd_worker *worker);
/* The twin of a group is settled: if it failed and one page is left, that takes its place. */
void pddi_group_twin_failed(struct pdd_scanner *scanner, struct pdd_group *group,
			    enum pdd_reason reason);
/* Frames that somebody joined go into the index, the others back. */
void pddi_groups_settle(struct pdd_scanner *scanner, struct pdd_worker *worker);

/* ---- merge.c ---- */

/* A pending item gets back to SEEN, its place or its part in a group given back. */
void pddi_pending_cancel(struct pdd_scanner *scanner, struct pdd_item *item,
			 enum pdd_reason reason);
/* Cancel the decisions among these items. */
void pddi_merge_cancel(struct pdd_scanner *scanner, struct pdd_item *const *items, uint64_t n,
		       enum pdd_reason reason);
/* Hold neighbouring pages of one extent, whose space is locked, and carry out their decisions. */
void pddi_merge_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    struct pdd_item *const *items, uint64_t n);

/* ---- carry_out.c ---- */

/* Carry out what the worker has decided about pages of a space, which is locked. */
void pddi_carry_out(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    const struct pdd_space *at_hand);

/* ---- look.c ---- */

/* Come by the pages that a view describes. */
void pddi_look(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_region *region,
	       uint64_t first, const struct pdd_view *view);
/* A page that must not be touched, or cannot be read: it leaves the index; what it shares it keeps. */
void pddi_look_refused(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
/* Decide about the pages that are collected in the batch. */
void pddi_look_flush(struct pdd_scanner *scanner, struct pdd_worker *worker);

#endif
