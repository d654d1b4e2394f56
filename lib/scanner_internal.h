/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner_internal.h - what the files of the engine call of each other.
 *
 *	scanner.c   passes and steps                calls pass, visit, prune
 *	pass.c      the order of a pass
 *	visit.c     a pass at one extent            calls written, look, batch, group, carry_out,
 *	                                            extent
 *	written.c   which pages were written        calls extent
 *	look.c      what a pass does with a page    calls batch, stable, item
 *	batch.c     reading pages                   calls decide
 *	decide.c    what was read                   calls search, group, item
 *	search.c    finding equal content           calls stable
 *	carry_out.c decisions in runs               calls merge, group
 *	merge.c     hold, compare, replace a run    calls pending, stable
 *	pending.c   how a decision ends             calls stable, item
 *	group.c     pages that found a frame        calls pending, stable, search
 *	prune.c     chains in order, frames emptied calls stable
 *	stable.c    frames and their places         calls the index and chains, claim
 *	claim.c     who works where
 *	space.c     spaces and regions              calls pass, extent, item
 *	unmerge.c   pages get their own memory      calls extent, item, forget
 *	keep_out.c  pin and exclude                 calls extent, item, unmerge
 *	forget.c    forget and discard              calls extent, item
 *	item.c      an item leaves what it is in    calls stable, pending
 *	extent.c    finding extents, on demand too
 *	tunables.c  settings                        calls item
 */
#ifndef PDD_SCANNER_INTERNAL_H
#define PDD_SCANNER_INTERNAL_H

#include <errno.h>

#include "frame_internal.h"
#include "item_internal.h"

/* ---- the scanner's lock ----
 *
 * Every function of the library holds it but where it says otherwise; public ones take it. It is
 * released around hooks that may sleep and around reading pages. Whatever is not claimed or locked
 * may change meanwhile: an item at hand may leave the index, a twin may be withdrawn from its
 * group, a frame may be gone.
 */

static inline void pddi_lock(const struct pdd_scanner *scanner)
{
	if (scanner->priv.ops.lock)
		scanner->priv.ops.lock(scanner->priv.ctx);
}

static inline void pddi_unlock(const struct pdd_scanner *scanner)
{
	if (scanner->priv.ops.unlock)
		scanner->priv.ops.unlock(scanner->priv.ctx);
}

/* In long work: let others have it. */
static inline void pddi_breathe(const struct pdd_scanner *scanner)
{
	pddi_unlock(scanner);
	pddi_lock(scanner);
}

/* ---- claim.c ---- */

void pddi_visit_begin(struct pdd_scanner *scanner, struct pdd_visit *visit);
void pddi_visit_end(struct pdd_scanner *scanner, struct pdd_visit *visit);
/* Whether a visit but this one, which may be NULL, has claimed the extent of a page. */
bool pddi_is_claimed(const struct pdd_scanner *scanner, const struct pdd_visit *mine,
		     const struct pdd_region *region, uint64_t page);
/* Claim the extent of a page, unless another visit did; the visit may have it already. */
bool pddi_claim(const struct pdd_scanner *scanner, struct pdd_visit *visit, struct pdd_claim *claim,
		const struct pdd_region *region, uint64_t page);
void pddi_unclaim(struct pdd_claim *claim);
/* Give a frame back, as soon as no visit may know it any more; give back those for which it is
 * time, with the lock released around the hook. */
void pddi_frame_free(struct pdd_scanner *scanner, struct pdd_frame *frame);
void pddi_frames_flush(struct pdd_scanner *scanner);

/* The end of a public function that may have freed frames. */
static inline void pddi_leave(struct pdd_scanner *scanner)
{
	pddi_frames_flush(scanner);
	pddi_unlock(scanner);
}

/* ---- hooks that need a word around them ---- */

static inline uint64_t pddi_now(const struct pdd_scanner *scanner)
{
	return scanner->priv.ops.now_ns ? scanner->priv.ops.now_ns(scanner->priv.ctx) : 0;
}

/* Whether steps are to begin nothing new: pdd_scanner_quiesce(). */
static inline bool pddi_is_quiescing(const struct pdd_scanner *scanner)
{
	return __atomic_load_n(&scanner->priv.quiescing, __ATOMIC_RELAXED);
}

/* Whether the step should begin no more work on pages that it holds: every step does some, unless
 * all is to be quiet. */
static inline bool pddi_is_late(const struct pdd_scanner *scanner, const struct pdd_worker *worker)
{
	if (pddi_is_quiescing(scanner))
		return true;
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

/* Checksum and class of a content, by the hook if there is one. 0 or its -errno. Needs no lock. */
int pddi_checksum_by_hook(const struct pdd_scanner *scanner, struct pdd_checksum *checksum,
			  const void *content);
static inline int pddi_checksum_read(const struct pdd_scanner *scanner,
				     struct pdd_checksum *checksum, const void *content)
{
	if (scanner->priv.ops.checksum)
		return pddi_checksum_by_hook(scanner, checksum, content);
	*checksum = scanner->priv.checksum_page(content, scanner->priv.page_size,
						scanner->priv.secret, scanner->priv.secret_len);
	return 0;
}
/* The same; if it fails, the reason; counted. */
enum pdd_reason pddi_checksum(struct pdd_scanner *scanner, struct pdd_checksum *checksum,
			      const void *content);

/* The reason that a hook's -errno (or 0, "nothing done") stands for; counts errors. */
enum pdd_reason pddi_reason(struct pdd_scanner *scanner, enum pdd_hook hook, int err);

/* A view may reach beyond what was asked for; the library only uses what it asked for. Its reason
 * comes from a hook, and counts are indexed by it. */
static inline void pddi_view_clip(struct pdd_view *view, uint64_t npages)
{
	if (view->npages > npages)
		view->npages = npages;
	if (view->reason == PDD_REASON_NONE || view->reason >= PDD_REASONS)
		view->reason = PDD_REASON_SPECIAL;
}

/* Whether pages of different NUMA nodes may not share a frame. */
static inline bool pddi_nodes_apart(const struct pdd_scanner *scanner)
{
	return !scanner->priv.tunables.merge_across_nodes;
}

/* The NUMA node that counts. */
static inline uint16_t pddi_node(const struct pdd_scanner *scanner, uint16_t node)
{
	return pddi_nodes_apart(scanner) ? node : 0;
}

/* The longest period of aging, in passes. */
static inline uint32_t pddi_max_period(const struct pdd_scanner *scanner)
{
	const struct pdd_tunables *t = &scanner->priv.tunables;

	if (t->max_period_passes)
		return t->max_period_passes;
	return t->aging == PDD_AGING_PHASE && t->index == PDD_INDEX_RETAINED ? PDD_AGING_PERIOD_MAX
									      : 8;
}

/* Whether a page leaves the index when a pass comes by it. */
static inline bool pddi_rebuilds(const struct pdd_scanner *scanner)
{
	return scanner->priv.tunables.index == PDD_INDEX_REBUILT;
}

static inline bool pddi_merges_zero(const struct pdd_scanner *scanner)
{
	return scanner->priv.ops.zero_map && scanner->priv.tunables.use_zero_pages;
}

/* ---- nodes of the index ----
 *
 * The scanner counts the nodes that stand beside another one of their key (checksum and partition),
 * the first of each key left out. Where there is none, nobody needs to look for neighbours: that
 * reads nodes all over the memory.
 */

/* Domain and NUMA node of a node's key. */
uint64_t pddi_node_partition(const struct pdd_index_node *node);

static inline bool pddi_has_same_key(const struct pdd_index_node *node,
				     const struct pdd_index_node *neighbour)
{
	return neighbour && pddi_node_partition(neighbour) == pddi_node_partition(node);
}

/* Whether another node has the key of a node in the index: then one stands next to it. */
static inline bool pddi_is_beside(const struct pdd_index_node *node)
{
	return pddi_has_same_key(node, pdd_index_prev_equal(node)) ||
	       pddi_has_same_key(node, pdd_index_next_equal(node));
}

static inline void pddi_index_link(struct pdd_scanner *scanner, const struct pdd_index_slot *slot,
				   struct pdd_index_node *node, enum pdd_kind kind)
{
	pdd_index_link(&scanner->priv.index, slot, node, kind);
	if (slot->beside)
		scanner->priv.nbeside += pddi_is_beside(node);
}

static inline void pddi_index_remove(struct pdd_scanner *scanner, struct pdd_index_node *node)
{
	if (scanner->priv.nbeside)
		scanner->priv.nbeside -= pddi_is_beside(node);
	pdd_index_remove(&scanner->priv.index, node);
}

/* ---- extent.c ---- */

/* The first live extent from this number on, and below the end; NULL if there is none. */
struct pdd_extent *pddi_extent_next(const struct pdd_region *region, uint64_t number, uint64_t end);
/* The extent of this number; NULL if a sparse region has none there. */
struct pdd_extent *pddi_extent_find(const struct pdd_region *region, uint64_t number);
/* The same, and ask the embedder for it if need be; NULL if it says no. */
struct pdd_extent *pddi_extent_get(struct pdd_region *region, uint64_t number);
/* Give it back to the embedder if nothing is known of its pages any more. */
void pddi_extent_put(struct pdd_region *region, struct pdd_extent *extent);
/* Number and count the items of pages [first, end), all of one extent. */
void pddi_extent_init_items(struct pdd_region *region, struct pdd_extent *extent, uint64_t first,
			    uint64_t end);

/* A part of a range that lies in one extent. */
struct pddi_part {
	struct pdd_extent *extent;
	uint64_t first, end;
};

/* The next part of [first, end), in a live extent; false if there is none. */
bool pddi_part_next(const struct pdd_region *region, struct pddi_part *part, uint64_t first,
		    uint64_t end);

/* The extent's first page and the one behind its last. */
static inline uint64_t pddi_extent_first(const struct pdd_extent *extent)
{
	return extent->priv.number * PDD_EXTENT_PAGES;
}

static inline uint64_t pddi_extent_end(const struct pdd_region *region,
				       const struct pdd_extent *extent)
{
	uint64_t end = pddi_extent_first(extent) + PDD_EXTENT_PAGES;

	return end < region->priv.npages ? end : region->priv.npages;
}

static inline struct pdd_item *pddi_extent_item(const struct pdd_extent *extent, uint64_t page)
{
	return &extent->priv.items[page % PDD_EXTENT_PAGES];
}

/* The item of a page whose extent is live. */
static inline struct pdd_item *pddi_item_at(const struct pdd_region *region, uint64_t page)
{
	return pddi_extent_item(pddi_extent_find(region, page / PDD_EXTENT_PAGES), page);
}

/* Whether [first, first + npages) lies in a region that is added. */
static inline bool pddi_range_is_valid(const struct pdd_region *region, uint64_t first,
				       uint64_t npages)
{
	return region && region->priv.space && first <= region->priv.npages &&
	       npages <= region->priv.npages - first;
}

/* ---- stats.c ---- */

/* Add up gauges and counters, without those that are derived. */
void pddi_counts_add(struct pdd_counts *total, const struct pdd_counts *counts);

/* ---- stable.c ---- */

/* The leader of the frames of this content. content NULL: the first of this checksum and partition;
 * *several tells then whether there are more, of other content. */
struct pdd_frame *pddi_stable_find(struct pdd_scanner *scanner, uint64_t checksum,
				   uint64_t partition, const void *content, bool *several);
/* Who leads the chain of a listed frame. */
struct pdd_frame *pddi_stable_leader(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* Put a frame with sharers among the others of its content. */
void pddi_stable_insert(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* Promise a place in a frame of this chain, NULL if none has room; take a promise back. */
struct pdd_frame *pddi_stable_reserve(struct pdd_scanner *scanner, struct pdd_frame *leader);
void pddi_stable_unreserve(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* Turn a promised place into a sharer. */
void pddi_stable_join(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item);
/* A page was found to show this frame: make its item, which is NEW, a sharer. False: it must not.
 */
bool pddi_stable_adopt(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item);
/* Let a frame go if nothing is left of it. */
void pddi_stable_drop_empty(struct pdd_scanner *scanner, struct pdd_frame *frame);
/* The page of a sharer of the source shows the target now, another frame of its chain. */
void pddi_stable_refile(struct pdd_scanner *scanner, struct pdd_item *item, struct pdd_frame *source,
			struct pdd_frame *target);
/* The frame lies on another NUMA node: put it among the frames there. */
void pddi_stable_move(struct pdd_scanner *scanner, struct pdd_frame *frame, uint16_t node);
/* Ask for all frames of a chain, drop those that are gone, and put the others in order. Who leads
 * them afterwards, NULL if none is left; *nframes: how many were asked for. */
struct pdd_frame *pddi_stable_tidy(struct pdd_scanner *scanner, struct pdd_frame *leader,
				   uint64_t *nframes);
/* Take a sharer out of its frame, which goes back with the last one. The item becomes NEW. */
void pddi_stable_leave(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
/* The frame is gone, says its embedder: reset its sharers. It goes back with its last promise. */
void pddi_stable_gone(struct pdd_scanner *scanner, struct pdd_frame *frame);

/* ---- search.c ---- */

/* Which set of items or groups of its key a node is in. */
bool pddi_node_is_fresh(const struct pdd_index_node *node);

enum search_result {
	SEARCH_NOTHING = 0, /* nothing equal: *slot is where the item belongs */
	SEARCH_TWIN = 1,    /* *node is an item of equal key */
	SEARCH_GROUP = 2,   /* *node is an open group of equal key */
	SEARCH_RESERVED = 3, /* a place in the frame *node is promised to the item */
	SEARCH_GIVE_UP = 4, /* too many stale items on the way: try again in another pass */
	SEARCH_BUSY = 5,    /* another thread is at what was found: the same */
};
enum search_result pddi_search(struct pdd_scanner *scanner, const struct pdd_visit *visit,
			       struct pdd_index_node **node, struct pdd_index_slot *slot,
			       struct pdd_item *item, const void *content);
/* ITEM_FRESH or 0: the mark of items that are inserted now. */
static inline uint64_t pddi_search_fresh_mark(const struct pdd_scanner *scanner)
{
	return scanner->priv.epoch & 1 ? ITEM_FRESH : 0;
}

/* Put an item, SEEN or NEW, into the index where a search for it ended. */
void pddi_search_link(struct pdd_scanner *scanner, const struct pdd_index_slot *slot,
		      struct pdd_item *item, enum pdd_class class_, enum pdd_reason reason);
/* Whether no other item, group or frame has the key of an item in the index. */
bool pddi_search_is_alone(const struct pdd_scanner *scanner, const struct pdd_item *item);
/* Put a SEEN item into the index if no other item of its key is there; says whether. */
bool pddi_search_insert(struct pdd_scanner *scanner, struct pdd_item *item,
			enum pdd_reason reason);
/* Take the item of this key out of the index and make it due, if there is one, and no other. */
void pddi_search_evict(struct pdd_scanner *scanner, uint64_t checksum, uint64_t partition);
/* Two contents of equal checksum were met: searches compare at once for some time. */
void pddi_search_collided(struct pdd_scanner *scanner);

/* ---- pass.c ---- */

/* Where a pass stops next: pages [first, end) of a region, or some of them. */
struct pddi_stop {
	struct pdd_region *region;
	uint64_t first, end;
	bool was_put_off;
	bool last_try; /* in this pass */
};

/* Begin one; false: there are no pages. */
bool pddi_pass_begin(struct pdd_scanner *scanner);
/* Where it goes on; false: it is over. Asking again changes nothing. */
bool pddi_pass_next(struct pdd_scanner *scanner, struct pddi_stop *stop);
/* It came by the pages from the stop's first to this one. */
void pddi_pass_came_by(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page);
/* Nothing stands behind what was come by at a stop, from this page on to that one. Its space is
 * still locked. */
void pddi_pass_skip(const struct pddi_stop *stop, uint64_t from, uint64_t to);
/* Pages of an extent are due since another thread was at what they need: come by them once more
 * before the pass ends. Where the pass does that next; false: nowhere. It did, up to a page. */
void pddi_pass_again(struct pdd_scanner *scanner, struct pdd_region *region, uint64_t page);
bool pddi_pass_next_again(const struct pdd_scanner *scanner, struct pddi_stop *stop);
void pddi_pass_take_again(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page);
/* The space is locked. True: its walk is put off; false: pages of the stop are to be missed, ... */
bool pddi_pass_put_off(struct pdd_scanner *scanner, const struct pddi_stop *stop);
/* ... and they were, from the first to this one. */
void pddi_pass_missed(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page);
/* Pages of a region from this one on go; a space goes, which has no region. */
void pddi_pass_clip(const struct pdd_region *region, uint64_t end);
void pddi_pass_forget(struct pdd_scanner *scanner, const struct pdd_space *space);
/* Pages of a region, from the first on, that the pass comes by: not those by which it grew. */
uint64_t pddi_region_pass_pages(const struct pdd_region *region);

/* ---- item.c ---- */

/* Forget all that is known of an unlinked item's page, save that it is kept out. */
void pddi_item_reset(struct pdd_item *item, enum pdd_reason reason);
/* Take an item out of wherever it is linked: it becomes SEEN, or NEW if it was shared or zero. */
void pddi_item_detach(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
/* Its page must not be touched, or cannot be read: it is forgotten, so that no search finds it;
 * what it shares it keeps. */
void pddi_item_refused(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason);
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

/* ---- pending.c ---- */

/* A pending item gets back to SEEN, its place or its part in a group given back. */
void pddi_pending_withdraw(struct pdd_scanner *scanner, struct pdd_item *item);
/* The same, since its merge failed. */
void pddi_pending_cancel(struct pdd_scanner *scanner, struct pdd_item *item,
			 enum pdd_reason reason);
/* It shows the frame in which it had a place promised: it becomes a sharer. */
void pddi_pending_join(struct pdd_scanner *scanner, struct pdd_item *item);

/* ---- merge.c ---- */

/* Whether something is decided about an item: to share a frame, or to become the zero page. */
bool pddi_merge_is_decided(const struct pdd_scanner *scanner, const struct pdd_item *item);
/* Put an item into the worker's run, at this place. */
void pddi_merge_collect(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
			struct pdd_item *item);
/* Cancel the decisions among n items of the run, from a place on. */
void pddi_merge_cancel(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t at,
		       uint64_t n, enum pdd_reason reason);
/* Hold the n pages of the run, which are neighbours in one extent, and carry out their decisions.
 * Their space is locked, and the extent claimed. */
void pddi_merge_run(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t n);

/* ---- carry_out.c ---- */

/* Carry out what the worker has decided about pages of a space, which is locked. */
void pddi_carry_out(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    const struct pdd_space *at_hand);

/* ---- decide.c ---- */

/* Decide about the pages of the batch, which were read. */
void pddi_decide_batch(struct pdd_scanner *scanner, struct pdd_worker *worker);

/* ---- batch.c ---- */

/* What the loop that reads pages has to know of one: it must not look at items (pdd_look.intent).
 */
enum pddi_intent {
	LOOK_CLEAN = 0,  /* it is known to be as it was: not to be read */
	LOOK_READ = 1,   /* to be read; no search is likely to follow */
	LOOK_SECOND = 2, /* the same, but if it has its recorded checksum it is searched for */
	LOOK_SEARCH = 3, /* the same, and whatever it is it is searched for */
};

static inline enum pddi_intent pddi_look_intent(const struct pdd_scanner *scanner,
						enum item_state state)
{
	if (state == ITEM_NEW)
		return scanner->priv.tunables.one_look ? LOOK_SEARCH : LOOK_READ;
	return state == ITEM_SEEN ? LOOK_SECOND : LOOK_READ;
}

/* Read the pages of the batch, and decide about them. */
void pddi_batch_flush(struct pdd_scanner *scanner, struct pdd_worker *worker);

/* Put a page into the batch, all of which are of one extent; flush it when it is full. From here on
 * a write that is told of is one after the reading. */
static inline void pddi_batch_add(struct pdd_scanner *scanner, struct pdd_worker *worker,
				  struct pdd_item *item, const void *content,
				  enum pddi_intent intent)
{
	struct pdd_look *look = &worker->priv.batch[worker->priv.nbatch];

	look->item = item;
	look->content = content;
	look->checksum.value = item->priv.node.checksum;
	look->checksum.class_ = item_class(item);
	look->intent = (uint8_t)intent;
	item_set_dirty(item, false);
	if (++worker->priv.nbatch == PDD_BATCH_PAGES)
		pddi_batch_flush(scanner, worker);
}

/* ---- look.c ---- */

/* Come by the pages of one extent that a view describes. */
void pddi_look(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_extent *extent,
	       uint64_t first, const struct pdd_view *view);
/* A pass comes by pages of one extent that it cannot look at, since something is locked. Those
 * whose look is lost by that are due. */
void pddi_look_missed(struct pdd_scanner *scanner, struct pdd_extent *extent, uint64_t first,
		      uint64_t npages);

/* ---- written.c ---- */

/* Ask which of the pages from the first on were written, about as many as the step will come by,
 * and keep the answers in their items; unless that was asked in this pass. */
void pddi_written_ask(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      struct pdd_region *region, uint64_t first, uint64_t npages);

/* Whether a page is known to be as it was when it was read. */
static inline bool pddi_is_clean(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return scanner->priv.ops.pages_written && !item_is_dirty(item) &&
	       item_state(item) != ITEM_NEW;
}

/* Whether a pass may leave alone what was not written and is settled. It may not while the index is
 * rebuilt, or collisions are to be set in order (search.c), or memory may move to another NUMA node
 * without a write, or a change of settings has to come round to all pages. */
static inline bool pddi_may_rest(const struct pdd_scanner *scanner)
{
	return scanner->priv.ops.pages_written && !pddi_rebuilds(scanner) &&
	       !scanner->priv.compare_passes && !pddi_nodes_apart(scanner) &&
	       !scanner->priv.restless_passes;
}

/* Whether a page waits in the index, and is not looked at before it is written. */
static inline bool pddi_is_at_rest(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return item_state(item) == ITEM_INDEXED && !item_is_due(item) && pddi_may_rest(scanner) &&
	       pddi_is_clean(scanner, item);
}

/* ---- visit.c ---- */

/* Come by pages of a stop, from its first on, none beyond their extent; the step goes on up to
 * `ahead` pages further. Their space is locked, and unlocked here. */
void pddi_visit(struct pdd_scanner *scanner, struct pdd_worker *worker, const struct pddi_stop *stop,
		uint64_t npages, uint64_t ahead);
/* Pages of one extent are not looked at in this pass, since something is locked. */
void pddi_visit_miss(struct pdd_region *region, uint64_t first, uint64_t npages);

/* ---- prune.c ---- */

/* Whether a prune is due between two passes. */
bool pddi_prune_is_due(const struct pdd_scanner *scanner);
/* Begin or go on with a prune; takes from the budget what it uses. True: it is done. */
bool pddi_prune_step(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t *left);

/* ---- tunables.c ---- */

/* pdd_scanner_set_tunables(). */
int pddi_tunables_set(struct pdd_scanner *scanner, const struct pdd_tunables *tunables);

/* ---- unmerge.c ---- */

/* pdd_region_unmerge() of a valid range. */
int64_t pddi_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages, uint64_t budget);

/* ---- forget.c ---- */

/* Forget all pages [first, end), whatever they show, save those that are kept out. Extents of a
 * sparse region go back. */
void pddi_forget(struct pdd_region *region, uint64_t first, uint64_t end, enum pdd_reason reason);
/* The same for pages that leave their region: those that are kept out, too. */
void pddi_forget_going(struct pdd_region *region, uint64_t first, uint64_t end);

/* ---- rmap.c ---- */

/* A sharer leaves its frame: walks that stand there move on. */
void pddi_cursors_leave(struct pdd_scanner *scanner, const struct pdd_item *item);
/* The region's pages changed: tell its object, if it is attached to one. */
void pddi_region_reattach(struct pdd_region *region);

#endif
