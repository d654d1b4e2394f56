/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interval.h - intrusive interval trees: which of many ranges overlap a given one.
 *
 * An interval is a closed range [first, last] of 64-bit numbers, so that one can end at UINT64_MAX
 * and none is empty. Intervals of a tree may overlap, contain one another and be equal. Their order
 * is by `first`; those of equal `first` stand in the order in which they were inserted.
 *
 * All intervals that overlap [a, b], in order:
 *
 *	for (i = pdd_interval_find_first(tree, a, b); i; i = pdd_interval_find_next(i, a, b))
 *		...
 *
 * With [0, UINT64_MAX] these are all intervals of the tree. Who removes intervals in such a loop
 * finds the next one before.
 *
 * Locking: none; the caller keeps a tree to itself, or keeps it from changing while it reads.
 */
#ifndef PAGEDEDUP_INTERVAL_H
#define PAGEDEDUP_INTERVAL_H

#include <pagededup/rbtree.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An interval, embedded in the caller's struct: 48 bytes where pointers have 8. */
struct pdd_interval {
	struct {
		struct pdd_rbnode rb;
		uint64_t first;
		uint64_t last;
		uint64_t subtree_last; /* the largest `last` of this one and all below it */
	} priv;
};

/** A set of intervals. All zero is an empty one. */
struct pdd_interval_tree {
	struct {
		struct pdd_rbroot root;
	} priv;
};

/** The first number in an interval that is in a tree. Complexity: O(1). Since: 0.1 */
static inline uint64_t pdd_interval_first(const struct pdd_interval *interval)
{
	return interval->priv.first;
}

/** The last number in an interval that is in a tree. Complexity: O(1). Since: 0.1 */
static inline uint64_t pdd_interval_last(const struct pdd_interval *interval)
{
	return interval->priv.last;
}

/**
 * Insert an interval, behind all that have the same `first`.
 *
 * @param tree      the tree
 * @param interval  in no tree; its fields need not be initialised
 * @param first     the first number in it, any
 * @param last      the last number in it, @p first .. UINT64_MAX
 * @return 0, or -EINVAL if @p first > @p last: swap them. Nothing is changed then.
 * Locking: none; the caller keeps the tree to itself.
 * Complexity: O(log n). Since: 0.1
 */
PDD_API int pdd_interval_insert(struct pdd_interval_tree *tree, struct pdd_interval *interval,
				uint64_t first, uint64_t last);

/**
 * Remove an interval.
 *
 * @param tree      the tree
 * @param interval  in this tree; its fields are undefined afterwards
 * Locking: none; the caller keeps the tree to itself.
 * Complexity: O(log n). Since: 0.1
 */
PDD_API void pdd_interval_remove(struct pdd_interval_tree *tree, struct pdd_interval *interval);

/**
 * Find the first interval, in order, that has a number in common with [first, last].
 *
 * @param tree   the tree
 * @param first  the first number asked for, any
 * @param last   the last number asked for; if it is below @p first nothing is asked for
 * @return NULL if there is none
 * Locking: none; the caller keeps the tree from changing.
 * Complexity: O(log n). Since: 0.1
 */
PDD_API struct pdd_interval *pdd_interval_find_first(const struct pdd_interval_tree *tree,
						     uint64_t first, uint64_t last);

/**
 * Find the next interval, in order, that has a number in common with [first, last].
 *
 * @param interval  in a tree; those behind it are searched. It need not overlap [first, last]
 * @param first     the first number asked for, any
 * @param last      the last number asked for; if it is below @p first nothing is asked for
 * @return NULL if there is none
 * Locking: none; the caller keeps the tree from changing.
 * Complexity: O(log n). A walk over k intervals is O(k log n) at worst, and O(log n + k) if few
 * others stand between them. Since: 0.1
 */
PDD_API struct pdd_interval *pdd_interval_find_next(const struct pdd_interval *interval,
						    uint64_t first, uint64_t last);

/**
 * Re-derive every invariant of the tree: its shape, that no interval ends before it begins, their
 * order, and the largest `last` of every subtree.
 *
 * @param tree  the tree
 * @param why   out: what is wrong, a static string; may be NULL
 * @return the number of intervals, or -EUCLEAN (-117) if an invariant is broken
 * Locking: none; the caller keeps the tree from changing.
 * Complexity: O(n). Since: 0.1
 */
PDD_API int64_t pdd_interval_tree_check(const struct pdd_interval_tree *tree, const char **why);

#ifdef __cplusplus
}
#endif
#endif
