/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * item_internal.h - an item's last word, its states, and the gauges that follow them.
 *
 * States, and what the links of the item are in them:
 *
 *	NEW      nothing is known                             none
 *	SEEN     read; its checksum is recorded               none
 *	INDEXED  in the index, waiting for an equal page      tree node
 *	PENDING  decided in a step under way: its owner is a  list of the group, or none
 *	         group that it is to found a frame with, or
 *	         a frame in which it has a place reserved
 *	SHARER   shows its owner, a frame                     list of the frame
 *	ZERO     replaced by the zero page                    none
 *
 * SEEN, INDEXED, PENDING and SHARER come with the class of the content.
 *
 * Every change goes through item_set() and its like, which keep the gauges of the space and the
 * extent exact: they are never recounted. Items that are kept out are NEW.
 */
#ifndef PDD_ITEM_INTERNAL_H
#define PDD_ITEM_INTERNAL_H

#include <pagededup/scanner.h>

#include "check_internal.h"

/* In the word the last four stand at 4 * class + state, which costs no division to take apart. */
enum item_state {
	ITEM_NEW = 0,
	ITEM_ZERO = 1,
	ITEM_SEEN = 4,
	ITEM_INDEXED = 5,
	ITEM_PENDING = 6,
	ITEM_SHARER = 7,
};

/* The last word: where its fields begin, and their width. */
enum {
	ITEM_PAGE_BITS = 34,
	ITEM_AGE_SHIFT = 34,
	ITEM_AGE_BITS = 7,
	ITEM_STATE_SHIFT = 41,
	ITEM_STATE_BITS = 4,
	ITEM_REASON_SHIFT = ITEM_STATE_SHIFT + ITEM_STATE_BITS, /* both are set at once */
	ITEM_REASON_BITS = 5,
	ITEM_NODE_SHIFT = 50,
	ITEM_NODE_BITS = 10,
};

#define ITEM_DUE (UINT64_C(1) << 60)      /* the next pass looks at it, whatever its age */
#define ITEM_FRESH (UINT64_C(1) << 61)    /* its place among true collisions, see search.c */
#define ITEM_KEPT_OUT (UINT64_C(1) << 62) /* pinned or excluded */
#define ITEM_DIRTY (UINT64_C(1) << 63)    /* its page was written since it was read, see written.c */

/* Of an item that is kept out, the field of the NUMA node says why: it is not in the index. */
#define ITEM_EXCLUDED (UINT64_C(1) << (ITEM_NODE_SHIFT + 9))
enum {
	ITEM_PINS_BITS = 9,
	ITEM_PINS_MAX = (1 << ITEM_PINS_BITS) - 1,
};

_Static_assert(PDD_REASONS <= 1 << ITEM_REASON_BITS, "reasons fit");
_Static_assert(PDD_REASONS_MAX == 1 << ITEM_REASON_BITS, "arrays have room for all");
_Static_assert(PDD_NODES_MAX == 1 << ITEM_NODE_BITS, "nodes fit");
_Static_assert(PDD_AGE_MAX < 1 << ITEM_AGE_BITS, "ages fit");
_Static_assert(PDD_REGION_PAGES_MAX == UINT64_C(1) << ITEM_PAGE_BITS, "pages fit");
_Static_assert(ITEM_SHARER + 4 * PDD_CLASS_ZERO < 1 << ITEM_STATE_BITS, "states fit");

static inline uint64_t item_field(const struct pdd_item *item, unsigned shift, unsigned bits)
{
	return item->priv.word >> shift & ((UINT64_C(1) << bits) - 1);
}

static inline void item_field_set(struct pdd_item *item, unsigned shift, unsigned bits,
				  uint64_t value)
{
	uint64_t mask = ((UINT64_C(1) << bits) - 1) << shift;

	item->priv.word = (item->priv.word & ~mask) | (value << shift & mask);
}

static inline uint64_t item_page(const struct pdd_item *item)
{
	return item_field(item, 0, ITEM_PAGE_BITS);
}

static inline uint32_t item_age(const struct pdd_item *item)
{
	return (uint32_t)item_field(item, ITEM_AGE_SHIFT, ITEM_AGE_BITS);
}

static inline enum pdd_reason item_reason(const struct pdd_item *item)
{
	return (enum pdd_reason)item_field(item, ITEM_REASON_SHIFT, ITEM_REASON_BITS);
}

/* The state without the class. */
static inline enum item_state item_state(const struct pdd_item *item)
{
	unsigned state = (unsigned)item_field(item, ITEM_STATE_SHIFT, ITEM_STATE_BITS);

	return (enum item_state)(state < ITEM_SEEN ? state : ITEM_SEEN | state % 4);
}

static inline enum pdd_class item_class(const struct pdd_item *item)
{
	unsigned state = (unsigned)item_field(item, ITEM_STATE_SHIFT, ITEM_STATE_BITS);

	return state < ITEM_SEEN ? PDD_CLASS_OTHER : (enum pdd_class)(state / 4 - 1);
}

#define ITEM_FIELD(shift, bits) (((UINT64_C(1) << (bits)) - 1) << (shift))

/* For item_is(). */
#define ITEM_ANY_REASON PDD_REASONS

/* Whether an item has this state, content of no special class, this reason or any, and is due or
 * not: one comparison. */
static inline bool item_is(const struct pdd_item *item, enum item_state state,
			   enum pdd_reason reason, bool due)
{
	uint64_t mask = ITEM_FIELD(ITEM_STATE_SHIFT, ITEM_STATE_BITS) | ITEM_DUE;
	uint64_t value = (uint64_t)state << ITEM_STATE_SHIFT | (due ? ITEM_DUE : 0);

	if (reason != ITEM_ANY_REASON) {
		mask |= ITEM_FIELD(ITEM_REASON_SHIFT, ITEM_REASON_BITS);
		value |= (uint64_t)reason << ITEM_REASON_SHIFT;
	}
	return (item->priv.word & mask) == value;
}

/* Become INDEXED, content of no special class, UNIQUE, not due, with this mark (ITEM_FRESH or 0).
 * What that changes in the gauges is the caller's. */
static inline void item_become_unique(struct pdd_item *item, uint64_t fresh)
{
	uint64_t mask = ITEM_FIELD(ITEM_STATE_SHIFT, ITEM_STATE_BITS) |
			ITEM_FIELD(ITEM_REASON_SHIFT, ITEM_REASON_BITS) | ITEM_DUE | ITEM_FRESH;

	item->priv.word = (item->priv.word & ~mask) |
			  (uint64_t)ITEM_INDEXED << ITEM_STATE_SHIFT |
			  (uint64_t)PDD_REASON_UNIQUE << ITEM_REASON_SHIFT | fresh;
}

static inline bool item_is_due(const struct pdd_item *item)
{
	return item->priv.word & ITEM_DUE;
}

static inline bool item_is_fresh(const struct pdd_item *item)
{
	return item->priv.word & ITEM_FRESH;
}

static inline bool item_is_dirty(const struct pdd_item *item)
{
	return item->priv.word & ITEM_DIRTY;
}

static inline bool item_is_kept_out(const struct pdd_item *item)
{
	return item->priv.word & ITEM_KEPT_OUT;
}

static inline bool item_is_excluded(const struct pdd_item *item)
{
	return item_is_kept_out(item) && item->priv.word & ITEM_EXCLUDED;
}

static inline uint32_t item_pins(const struct pdd_item *item)
{
	return item_is_kept_out(item)
		       ? (uint32_t)item_field(item, ITEM_NODE_SHIFT, ITEM_PINS_BITS)
		       : 0;
}

/* The NUMA node that is part of its key; 0 where nodes are not kept apart. */
static inline uint16_t item_node(const struct pdd_item *item)
{
	return item_is_kept_out(item)
		       ? 0
		       : (uint16_t)item_field(item, ITEM_NODE_SHIFT, ITEM_NODE_BITS);
}

static inline struct pdd_item *item_of(const struct pdd_index_node *node)
{
	return (struct pdd_item *)(uintptr_t)node; /* first member */
}

static inline struct pdd_frame *frame_of(const struct pdd_index_node *node)
{
	return (struct pdd_frame *)(uintptr_t)node;
}

static inline struct pdd_group *group_of(const struct pdd_index_node *node)
{
	return (struct pdd_group *)(uintptr_t)node;
}

_Static_assert(offsetof(struct pdd_item, priv.node) == 0, "item_of casts");
_Static_assert(offsetof(struct pdd_frame, priv.node) == 0, "frame_of casts");
_Static_assert(offsetof(struct pdd_group, node) == 0, "group_of casts");

/* Of a region without arrays, the items of an extent lie behind it. */
static inline struct pdd_extent *item_extent(const struct pdd_item *item)
{
	const struct pdd_region *region = item->priv.region;
	uint64_t page = item_page(item);
	uintptr_t items = (uintptr_t)(item - page % PDD_EXTENT_PAGES);

	if (region->priv.extents)
		return &region->priv.extents[page / PDD_EXTENT_PAGES];
	return (struct pdd_extent *)(items - offsetof(struct pdd_extent_block, items));
}

_Static_assert(offsetof(struct pdd_extent_block, extent) == 0, "item_extent casts");

static inline struct pdd_counts *item_counts(const struct pdd_item *item)
{
	return &item->priv.region->priv.space->priv.counts;
}

/* What only pages of equal value may share: domain and NUMA node. */
static inline uint64_t partition_of(uint32_t domain, uint16_t node)
{
	return (uint64_t)domain << 16 | node;
}

static inline uint64_t item_partition(const struct pdd_item *item)
{
	return partition_of(item->priv.region->priv.space->priv.domain, item_node(item));
}

static inline uint64_t frame_partition(const struct pdd_frame *frame)
{
	return partition_of(frame->priv.domain, frame->priv.numa_node);
}

/* Whether a pass must come by an item, though nothing was written: it is not at rest yet. */
static inline bool item_unsettled(enum item_state state, enum pdd_reason reason)
{
	if (state == ITEM_NEW)
		return reason != PDD_REASON_ABSENT && reason != PDD_REASON_KERNEL_ZERO;
	return state == ITEM_SEEN || state == ITEM_PENDING;
}

/* Whether anything is known of a page but that nothing is there. */
static inline bool item_known(enum item_state state, enum pdd_reason reason)
{
	return state != ITEM_NEW || reason != PDD_REASON_ABSENT;
}

static inline bool item_merged(enum item_state state)
{
	return state == ITEM_SHARER || state == ITEM_ZERO;
}

static inline bool item_zero_filled(enum item_state state, enum pdd_class class_)
{
	return state == ITEM_ZERO || (state != ITEM_NEW && class_ == PDD_CLASS_ZERO);
}

/* Count an item of a state, class and reason in its space, or no longer. */
static inline void item_account(struct pdd_counts *counts, enum item_state state,
				enum pdd_class class_, enum pdd_reason reason, uint64_t by)
{
	counts->reasons[reason] += by;
	if (state == ITEM_NEW)
		return;
	counts->ksm_rmap_items += by;
	if (state == ITEM_INDEXED)
		counts->pages_unshared += by;
	else if (state == ITEM_SHARER)
		counts->ksm_merging_pages += by;
	else if (state == ITEM_ZERO)
		counts->ksm_zero_pages += by;
	if (item_zero_filled(state, class_))
		counts->pages_zero_filled += by;
	else if (class_ == PDD_CLASS_FILLED)
		counts->pages_same_filled += by;
}

/* Change the state, the class and the reason. A NEW or ZERO item has no class. */
static inline void item_set_all(struct pdd_item *item, enum item_state state,
				enum pdd_class class_, enum pdd_reason reason)
{
	enum item_state before = item_state(item);
	enum pdd_reason reason_before = item_reason(item);
	struct pdd_counts *counts = item_counts(item);
	struct pdd_extent *extent = item_extent(item);

	item_account(counts, before, item_class(item), reason_before, UINT64_MAX);
	item_account(counts, state, class_, reason, 1);
	extent->priv.unsettled = (uint16_t)(extent->priv.unsettled +
					    item_unsettled(state, reason) -
					    item_unsettled(before, reason_before));
	extent->priv.known = (uint16_t)(extent->priv.known + item_known(state, reason) -
					item_known(before, reason_before));
	extent->priv.merged =
		(uint16_t)(extent->priv.merged + item_merged(state) - item_merged(before));
	item_field_set(item, ITEM_STATE_SHIFT, ITEM_STATE_BITS + ITEM_REASON_BITS,
		       ((uint64_t)state + (state < ITEM_SEEN ? 0 : 4 * (uint64_t)class_)) |
			       (uint64_t)reason << ITEM_STATE_BITS);
}

/* Change the state and the reason, keep the class. */
static inline void item_set(struct pdd_item *item, enum item_state state, enum pdd_reason reason)
{
	item_set_all(item, state, item_class(item), reason);
}

/* Note the NUMA node of an item that is in no list and no tree. */
static inline void item_set_node(struct pdd_item *item, uint16_t node)
{
	PDD_INVARIANT(item_state(item) == ITEM_NEW || item_state(item) == ITEM_SEEN);
	item_field_set(item, ITEM_NODE_SHIFT, ITEM_NODE_BITS, node);
}

/* Set or clear the due mark. */
static inline void item_set_due(struct pdd_item *item, bool due)
{
	struct pdd_extent *extent = item_extent(item);

	if (due == item_is_due(item))
		return;
	item->priv.word ^= ITEM_DUE;
	extent->priv.due = (uint16_t)(due ? extent->priv.due + 1 : extent->priv.due - 1);
	if (due)
		item_counts(item)->pages_due++;
	else
		item_counts(item)->pages_due--;
}

/* Set or clear the mark that the page was written since it was read. */
static inline void item_set_dirty(struct pdd_item *item, bool dirty)
{
	struct pdd_extent *extent = item_extent(item);

	if (dirty == item_is_dirty(item))
		return;
	item->priv.word ^= ITEM_DIRTY;
	extent->priv.dirty = (uint16_t)(dirty ? extent->priv.dirty + 1 : extent->priv.dirty - 1);
}

static inline void item_set_age(struct pdd_item *item, uint32_t age)
{
	item_field_set(item, ITEM_AGE_SHIFT, ITEM_AGE_BITS, age);
}

/* What pdd_aging_next() does, but for PDD_AGING_COUNTDOWN. */
static inline void item_grow_older(struct pdd_item *item)
{
	if (item_age(item) < PDD_AGE_MAX)
		item->priv.word += UINT64_C(1) << ITEM_AGE_SHIFT;
}

/* What a pending item is bound to: a frame, or a group, told apart by the lowest bit. */
static inline void item_bind_group(struct pdd_item *item, struct pdd_group *group)
{
	item->priv.node.u.member.owner = (void *)((uintptr_t)group | 1);
}

static inline struct pdd_group *item_group(const struct pdd_item *item)
{
	uintptr_t owner = (uintptr_t)item->priv.node.u.member.owner;

	return owner & 1 ? (struct pdd_group *)(owner & ~(uintptr_t)1) : NULL;
}

/* The frame in which a pending item has a place; NULL: its group has none yet. */
static inline struct pdd_frame *item_promised(const struct pdd_item *item)
{
	const struct pdd_group *group = item_group(item);

	return group ? group->frame : item->priv.node.u.member.owner;
}

/* The frame of a sharer. */
static inline struct pdd_frame *item_frame(const struct pdd_item *item)
{
	PDD_INVARIANT(!item_group(item));
	return item->priv.node.u.member.owner;
}

#endif
