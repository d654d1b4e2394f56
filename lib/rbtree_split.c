/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rbtree_split.c - cut a red-black tree in two. I1 to I4 are those of rbtree.c.
 *
 * The path from the place of the cut to the root takes the tree apart: each of its nodes is on one
 * side of the cut, together with its subtree away from the path. From the bottom to the top these
 * are put together again, all that is before the cut into one tree and all that is behind it into
 * another: the tree so far, then the node, then its subtree, in order or the other way round.
 *
 * Putting together, with black heights L <= T: go down along the side of the taller tree that is
 * next to the node until a black subtree (maybe a missing one) of height L. The node takes its place
 * there, in red, with it and the lower tree as children. Both are black and of height L, so I4
 * holds; all that can be wrong is that the node is the root or has a red parent: the defect that
 * pddi_rb_repaint mends.
 *
 * Heights: all children of one node have the same black height (I4), so that of the subtree away
 * from the path is known on the way up. Loose, its root is painted black, which adds one if it was
 * red.
 *
 * Cost: a step down for each black level between T and L, and the repair, which ends after as many.
 * Heights of subtrees grow along the path, so the steps of all levels together are O(log n).
 */
#include "rbtree_internal.h"

/* A tree by itself. */
struct part {
	struct pdd_rbroot root;
	unsigned height; /* black height */
};

/* A subtree of this black height, cut loose. */
static struct part cut_loose(struct pdd_rbnode *node, unsigned height)
{
	struct part part = { { node }, height };

	if (!node)
		return part;
	set_parent(node, NULL);
	part.height += is_red(node);
	paint_black(node);
	return part;
}

/* Put a node and another tree on this side of a tree. */
static void put_together(struct part *tree, struct pdd_rbnode *node, struct part *other, bool side)
{
	bool other_is_low = tree->height >= other->height;
	struct part *tall = other_is_low ? tree : other, *low = other_is_low ? other : tree;
	struct pdd_rbnode *parent = NULL, *below = tall->root.node;
	unsigned height = tall->height;

	if (!other_is_low)
		side = !side;
	while (height > low->height || is_red(below)) {
		height -= !is_red(below);
		parent = below;
		below = *child(below, side);
	}
	*child(node, !side) = below;
	*child(node, side) = low->root.node;
	if (below)
		set_parent(below, node);
	if (low->root.node)
		set_parent(low->root.node, node);
	*(parent ? child(parent, side) : &tall->root.node) = node;
	set_parent(node, parent);
	paint_red(node);
	tall->height += pddi_rb_repaint(&tall->root, node);
	*tree = *tall;
}

void pdd_rb_split(struct pdd_rbroot *root, struct pdd_rbnode *parent, struct pdd_rbnode **slot,
		  struct pdd_rbroot *behind)
{
	struct part before = { { NULL }, 0 }, after = { { NULL }, 0 };
	struct pdd_rbnode *node = parent, *above;
	bool side; /* of the node on which the cut is */
	unsigned height = 0;

	PDD_ASSERT(root && root->node && parent && slot && !*slot && behind && !behind->node);
	PDD_ASSERT(slot == &parent->left || slot == &parent->right);

	side = slot == &parent->right;
	while (node) {
		struct part away = cut_loose(*child(node, !side), height);

		above = pdd_rb_parent(node);
		height += !is_red(node);
		put_together(side ? &before : &after, node, &away, !side);
		side = above && above->right == node;
		node = above;
	}
	*root = before.root;
	*behind = after.root;
}
