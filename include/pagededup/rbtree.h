/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rbtree.h - intrusive red-black trees with two spare bits in every node.
 *
 * The tree knows neither keys nor order: the caller descends by itself, remembers the place
 * (`parent` and the child pointer `slot` at which its search fell off the tree), and links there,
 * so that a search and an insertion are one descent and nothing is allocated:
 *
 *	struct pdd_rbnode *parent = NULL, **slot = &root->node;
 *	while (*slot) {
 *		parent = *slot;
 *		slot = key < key_of(parent) ? &parent->left : &parent->right;
 *	}
 *	pdd_rb_link(root, node, parent, slot, tag);
 *
 * A node has a tag of 0 to 3, kept in its parent word beside the colour. The index uses it to tell
 * frames, items and groups apart without another byte.
 *
 * A tree may be augmented: each node keeps, in the caller's struct, a value that sums up the
 * subtree below it, such as its size or the largest of its keys. Such a tree is changed by the
 * functions called *_augmented only, always with the same callback. The plain ones know nothing of
 * values, and do no work for them.
 *
 * Locking: none; the caller keeps a tree to itself, or keeps it from changing while it reads.
 */
#ifndef PAGEDEDUP_RBTREE_H
#define PAGEDEDUP_RBTREE_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A node, embedded in the caller's struct; at least 8-byte aligned. All fields are private. */
struct pdd_rbnode {
	uintptr_t parent; /* address of the parent | tag << 1 | colour */
	struct pdd_rbnode *left;
	struct pdd_rbnode *right;
};

/** A tree. All zero is an empty one. */
struct pdd_rbroot {
	struct pdd_rbnode *node;
};

#define PDD_RB_TAG_MAX 3u

/** The tag given when the node was linked. Complexity: O(1). */
static inline unsigned pdd_rb_tag(const struct pdd_rbnode *node)
{
	return (unsigned)(node->parent >> 1) & PDD_RB_TAG_MAX;
}

/** The node above one that is in a tree, NULL for the root. Complexity: O(1). Since: 0.1 */
static inline struct pdd_rbnode *pdd_rb_parent(const struct pdd_rbnode *node)
{
	return (struct pdd_rbnode *)(node->parent & ~(uintptr_t)(PDD_RB_TAG_MAX << 1 | 1));
}

/**
 * Link a node where a descent ended, and rebalance.
 *
 * @param root    the tree
 * @param node    a node that is in no tree; its fields need not be initialised
 * @param parent  the node at which the descent ended, NULL if the tree is empty
 * @param slot    `&root->node`, `&parent->left` or `&parent->right`; it must hold NULL
 * @param tag     0 .. PDD_RB_TAG_MAX
 * Complexity: O(1) amortised after the descent, at most 2 rotations. Since: 0.1
 */
PDD_API void pdd_rb_link(struct pdd_rbroot *root, struct pdd_rbnode *node,
			 struct pdd_rbnode *parent, struct pdd_rbnode **slot, unsigned tag);

/**
 * Remove a node that is in the tree. Its fields are undefined afterwards.
 * Complexity: O(log n), at most 3 rotations. Since: 0.1
 */
PDD_API void pdd_rb_remove(struct pdd_rbroot *root, struct pdd_rbnode *node);

/**
 * Put another node in the place of one that is in the tree. The caller vouches for the order.
 *
 * @param old  in the tree; undefined afterwards
 * @param node in no tree; takes links and colour of @p old, and the tag @p tag
 * Complexity: O(1). Since: 0.1
 */
PDD_API void pdd_rb_replace(struct pdd_rbroot *root, struct pdd_rbnode *old,
			    struct pdd_rbnode *node, unsigned tag);

/**
 * Cut a tree in two at the place where a descent ended: what is before that place stays, what is
 * behind it is the tree @p behind afterwards. Not for augmented trees.
 *
 * @param root    the tree, not empty
 * @param parent  the node at which the descent ended
 * @param slot    `&parent->left` or `&parent->right`; it must hold NULL
 * @param behind  an empty tree
 * Complexity: O(log n). Since: 0.1
 */
PDD_API void pdd_rb_split(struct pdd_rbroot *root, struct pdd_rbnode *parent,
			  struct pdd_rbnode **slot, struct pdd_rbroot *behind);

/**
 * Compute the value of one node of an augmented tree, and store it.
 *
 * It may use what the caller keeps in the struct around @p node, and the values of the nodes
 * `node->left` and `node->right`, either of which may be NULL: nothing else, so neither tag nor
 * colour nor what is above. It is called for a node only when the values below are right, at most
 * once within one change of the tree, also for nodes whose value cannot have changed. It must not
 * change the tree.
 */
typedef void (*pdd_rb_augment_fn)(struct pdd_rbnode *node);

/**
 * pdd_rb_link() for an augmented tree: on return the value of every node is right.
 *
 * @param root, node, parent, slot, tag  as for pdd_rb_link(); what the value of @p node depends on
 *                must be set already, the value itself need not be
 * @param augment computes the value of a node; not NULL
 * Locking: none; the caller keeps the tree to itself.
 * Calls hooks: @p augment, for each node on the path to the root, and each child of one.
 * Complexity: O(log n), at most 2 rotations. Since: 0.1
 */
PDD_API void pdd_rb_link_augmented(struct pdd_rbroot *root, struct pdd_rbnode *node,
				   struct pdd_rbnode *parent, struct pdd_rbnode **slot,
				   unsigned tag, pdd_rb_augment_fn augment);

/**
 * pdd_rb_remove() for an augmented tree: on return the value of every node that is left is right.
 *
 * @param root    the tree
 * @param node    in the tree; its fields are undefined afterwards
 * @param augment computes the value of a node; not NULL
 * Locking: none; the caller keeps the tree to itself.
 * Calls hooks: @p augment, for each node on the path from the place that became empty to the
 *              root, and each child of one; never for @p node.
 * Complexity: O(log n), at most 3 rotations. Since: 0.1
 */
PDD_API void pdd_rb_remove_augmented(struct pdd_rbroot *root, struct pdd_rbnode *node,
				     pdd_rb_augment_fn augment);

/**
 * pdd_rb_replace() for an augmented tree: on return the value of every node is right.
 *
 * @param root, old, node, tag  as for pdd_rb_replace(); what the value of @p node depends on must
 *                be set already
 * @param augment computes the value of a node; not NULL
 * Locking: none; the caller keeps the tree to itself.
 * Calls hooks: @p augment, for each node on the path to the root, and each child of one.
 * Complexity: O(log n), where pdd_rb_replace() is O(1). Since: 0.1
 */
PDD_API void pdd_rb_replace_augmented(struct pdd_rbroot *root, struct pdd_rbnode *old,
				      struct pdd_rbnode *node, unsigned tag,
				      pdd_rb_augment_fn augment);

/** First and last node in order, NULL if the tree is empty. Complexity: O(log n). Since: 0.1 */
PDD_API struct pdd_rbnode *pdd_rb_first(const struct pdd_rbroot *root);
PDD_API struct pdd_rbnode *pdd_rb_last(const struct pdd_rbroot *root);

/** Neighbour in order, NULL at the end. Complexity: O(log n), O(1) amortised. Since: 0.1 */
PDD_API struct pdd_rbnode *pdd_rb_next(const struct pdd_rbnode *node);
PDD_API struct pdd_rbnode *pdd_rb_prev(const struct pdd_rbnode *node);

/**
 * Re-derive every invariant of the tree: parent links, no red child of a red node, equal black
 * heights, a black root.
 *
 * @param why  out: what is wrong, a static string; may be NULL
 * @return the number of nodes, or -EUCLEAN (-117) if an invariant is broken
 * Complexity: O(n). Since: 0.1
 */
PDD_API int64_t pdd_rb_check(const struct pdd_rbroot *root, const char **why);

#ifdef __cplusplus
}
#endif
#endif
