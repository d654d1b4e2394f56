/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interval.c - intrusive interval trees.
 *
 * Invariants, true before and after each public call; pdd_interval_tree_check re-derives them:
 *
 *  I1  The nodes are a red-black tree (rbtree.c).
 *  I2  first <= last in every interval.
 *  I3  In order, `first` never decreases.
 *  I4  subtree_last of a node is the largest `last` in its subtree, its own included.
 *
 * The hard case is to find overlaps without looking at much else. An interval overlaps [first,
 * last] if its `last` is not below `first`, say it *reaches* the range, and its `first` is not
 * above `last`. The two conditions need not be searched for together:
 *
 *  - Let c be the first interval in order that reaches (of all, or of those behind some interval).
 *    If c.first <= last it overlaps, and it is the first one that does, since all that overlap
 *    reach. If c.first > last nothing overlaps: those before c do not reach, and those behind it
 *    have a `first` as large or larger (I3).
 *  - So there is one search, for the first that reaches, and one comparison of what it found.
 *  - A subtree has an interval that reaches if and only if the subtree_last of its top is not
 *    below `first` (I4). So the search enters only subtrees that hold what it looks for. In such a
 *    one the first that reaches is in the left subtree if anything there reaches, else it is the
 *    top if that reaches, else it is in the right subtree: one way down, no way back.
 *  - Behind an interval come, in this order: its right subtree; then, for each node above of whose
 *    left subtree it is a part, from the lowest on, that node and the right subtree of it. The
 *    search for the next goes up past these until one of them reaches or holds one that does, and
 *    then down there: one way up and one way down.
 *
 * Neither asks whether the interval it begins behind overlaps, and neither can come upon the same
 * one twice.
 *
 * Cost: each way is as long as the tree is high, at most 2 log2(n + 1). A walk over neighbours in
 * order uses each link of the tree at most once in each direction.
 *
 * Locking: none; see interval.h. Nothing is allocated, and nothing recurses.
 */
#include <pagededup/interval.h>

#include <errno.h>

#include "check_internal.h"

_Static_assert(offsetof(struct pdd_interval, priv.rb) == 0, "entry() casts");
_Static_assert(sizeof(void *) != 8 || sizeof(struct pdd_interval) == 48, "as documented");

static inline struct pdd_interval *entry(struct pdd_rbnode *rb)
{
	/* The tree node is the first member. */
	return (struct pdd_interval *)(void *)rb;
}

/* What subtree_last has to be, by those of the children (I4). */
static uint64_t derive_subtree_last(struct pdd_rbnode *rb)
{
	uint64_t largest = entry(rb)->priv.last;

	if (rb->left && entry(rb->left)->priv.subtree_last > largest)
		largest = entry(rb->left)->priv.subtree_last;
	if (rb->right && entry(rb->right)->priv.subtree_last > largest)
		largest = entry(rb->right)->priv.subtree_last;
	return largest;
}

static void augment(struct pdd_rbnode *rb)
{
	entry(rb)->priv.subtree_last = derive_subtree_last(rb);
}

int pdd_interval_insert(struct pdd_interval_tree *tree, struct pdd_interval *interval,
			uint64_t first, uint64_t last)
{
	struct pdd_rbnode *parent = NULL, **slot;

	PDD_ASSERT(tree && interval);
	if (first > last)
		return -EINVAL;
	for (slot = &tree->priv.root.node; *slot;) {
		parent = *slot;
		slot = first < entry(parent)->priv.first ? &parent->left : &parent->right;
	}
	interval->priv.first = first;
	interval->priv.last = last;
	pdd_rb_link_augmented(&tree->priv.root, &interval->priv.rb, parent, slot, 0, augment);
	return 0;
}

void pdd_interval_remove(struct pdd_interval_tree *tree, struct pdd_interval *interval)
{
	PDD_ASSERT(tree && interval);
	pdd_rb_remove_augmented(&tree->priv.root, &interval->priv.rb, augment);
}

static inline bool reaches(const struct pdd_interval *interval, uint64_t first)
{
	return interval->priv.last >= first;
}

static inline bool holds_one_that_reaches(struct pdd_rbnode *subtree, uint64_t first)
{
	return subtree && entry(subtree)->priv.subtree_last >= first;
}

/* The first of the subtree that reaches; there must be one. */
static struct pdd_interval *first_below(struct pdd_rbnode *subtree, uint64_t first)
{
	for (;;) {
		PDD_COUNT_VISIT();
		PDD_INVARIANT(holds_one_that_reaches(subtree, first));
		if (holds_one_that_reaches(subtree->left, first))
			subtree = subtree->left;
		else if (reaches(entry(subtree), first))
			return entry(subtree);
		else
			subtree = subtree->right;
	}
}

/* The first behind this node that reaches, NULL if there is none. */
static struct pdd_interval *first_behind(const struct pdd_rbnode *rb, uint64_t first)
{
	struct pdd_rbnode *parent;

	if (holds_one_that_reaches(rb->right, first))
		return first_below(rb->right, first);
	for (; (parent = pdd_rb_parent(rb)); rb = parent) {
		if (parent->right == rb)
			continue; /* the parent and what is to its left are before rb */
		if (reaches(entry(parent), first))
			return entry(parent);
		if (holds_one_that_reaches(parent->right, first))
			return first_below(parent->right, first);
	}
	return NULL;
}

/* Of the first that reaches, or NULL: it, if it overlaps; if it does not, nothing does. */
static struct pdd_interval *if_overlaps(struct pdd_interval *found, uint64_t first, uint64_t last)
{
	return found && found->priv.first <= last && first <= last ? found : NULL;
}

struct pdd_interval *pdd_interval_find_first(const struct pdd_interval_tree *tree, uint64_t first,
					     uint64_t last)
{
	struct pdd_rbnode *top;

	PDD_ASSERT(tree);
	top = tree->priv.root.node;
	if (!holds_one_that_reaches(top, first))
		return NULL;
	return if_overlaps(first_below(top, first), first, last);
}

struct pdd_interval *pdd_interval_find_next(const struct pdd_interval *interval, uint64_t first,
					    uint64_t last)
{
	PDD_ASSERT(interval);
	return if_overlaps(first_behind(&interval->priv.rb, first), first, last);
}

/* What is wrong with this interval; NULL if nothing is. `next` is the one behind, or NULL. */
static const char *wrong_at(struct pdd_rbnode *rb, struct pdd_rbnode *next)
{
	if (entry(rb)->priv.first > entry(rb)->priv.last)
		return "interval: an interval ends before it begins";
	if (next && entry(next)->priv.first < entry(rb)->priv.first)
		return "interval: intervals are not ordered by their first number";
	/* If this is so at every node, then I4 holds at the lowest ones, and so at those above. */
	if (entry(rb)->priv.subtree_last != derive_subtree_last(rb))
		return "interval: the largest last number of a subtree is wrong";
	return NULL;
}

int64_t pdd_interval_tree_check(const struct pdd_interval_tree *tree, const char **why)
{
	struct pdd_rbnode *rb, *next;
	int64_t n;

	PDD_ASSERT(tree);
	n = pdd_rb_check(&tree->priv.root, why);
	if (n < 0)
		return n;
	for (rb = pdd_rb_first(&tree->priv.root); rb; rb = next) {
		const char *wrong;

		next = pdd_rb_next(rb);
		wrong = wrong_at(rb, next);
		if (wrong) {
			if (why)
				*why = wrong;
			return -EUCLEAN;
		}
	}
	return n;
}
