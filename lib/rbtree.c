/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rbtree.c - intrusive red-black trees.
 *
 * Invariants, true before and after each public call; pdd_rb_check re-derives every one of them:
 *
 *  I1  The root has no parent. Every other node is the left or the right child, not both, of the
 *      node that its parent word names.
 *  I2  The root is black.
 *  I3  A red node has no red child.
 *  I4  All paths from a node down to a missing child pass the same number of black nodes: the
 *      black height of the node. A missing child counts as black, with black height 0.
 *
 * Order is not among them: no function here compares nodes. A rotation and the splice of a
 * successor keep the sequence of the nodes, so the order is whatever the caller's descents made it.
 * The tag of a node lies beside its colour and survives both.
 *
 * Height. By I3 at least half of the nodes on a path are black, and by I4 a tree of black height b
 * has at least 2^b - 1 nodes. So n nodes are at most 2 log2(n + 1) high: 128 for any n that fits
 * an address space.
 *
 * The hard cases are the two repairs. Each is a loop with one defect, in one place, which every
 * round either mends for good (with the rotations counted there) or hands up the tree at the cost
 * of repainting; repaint_up and refill_up prove this case by case. Repainting frees the nodes that
 * it passes from the colouring that made it pass, hence O(1) amortised after the search.
 *
 * Augmented trees are a layer on top: the change as of a plain tree, then the values; see refresh.
 *
 * Left and right are mirror images, so each case is written once and takes the side as an argument:
 * false is left, true is right.
 *
 * Locking: none; see rbtree.h. Nothing is allocated, and nothing recurses.
 */
#include "rbtree_internal.h"

#include <errno.h>

static inline void paint_as(struct pdd_rbnode *node, const struct pdd_rbnode *model)
{
	node->parent = (node->parent & ~RED) | (model->parent & RED);
}

/* The pointer that holds a node of this parent: a child of it, or the root. */
static inline struct pdd_rbnode **slot_of(struct pdd_rbroot *root, const struct pdd_rbnode *node,
					  struct pdd_rbnode *parent)
{
	if (!parent)
		return &root->node;
	return child(parent, parent->right == node);
}

/*
 * Lift the child on this side of `top` over it. With side = left (the mirror image likewise):
 *
 *	     top              up
 *	    /   \            /  \
 *	  up     c   --->   a    top
 *	 /  \                   /   \
 *	a    b                 b     c
 *
 * a up b top c is the sequence on both sides. Colours and tags stay with their nodes.
 */
static void rotate(struct pdd_rbroot *root, struct pdd_rbnode *top, bool side)
{
	struct pdd_rbnode *up = *child(top, side);
	struct pdd_rbnode *inner = *child(up, !side);
	struct pdd_rbnode *parent = pdd_rb_parent(top);

	*slot_of(root, top, parent) = up;
	set_parent(up, parent);
	*child(up, !side) = top;
	set_parent(top, up);
	*child(top, side) = inner;
	if (inner)
		set_parent(inner, top);
}

/*
 * Repair after linking. All invariants hold but for one defect: `node` is red, and is the root (I2)
 * or its parent is red, too (I3). Each round:
 *
 *  L1  node is the root. Painting it black adds one to every path alike (I4). Done.
 *  L2  The parent is black: there is no defect. Done.
 *
 * Otherwise the parent is red, so it is not the root (I2): there is a grandparent, and it is black,
 * since the defect was the only one. Black heights: node's, its sibling's and the uncle's subtrees
 * agree as far as I4 asks.
 *
 *  L3  The uncle is red. Trade colours between the grandparent and its two children: each path
 *      through the grandparent passes one black node of these as before. The only node that became
 *      red is the grandparent, so the defect, if there still is one, is there, two levels up.
 *  L4  The uncle is black and node the inner grandchild. Lift it over its parent: two red nodes
 *      trade places, black heights stay, and the former parent is the lower of the red pair, an
 *      outer grandchild: L5.
 *  L5  The uncle is black and node the outer grandchild. Lift the parent over the grandparent and
 *      trade their colours. What hangs below has a black top (children of red nodes other than the
 *      pair; the uncle), so the grandparent may be red; the black node on top is passed by all
 *      paths once, as the grandparent was. Done.
 *
 * Rotations: none in L1 to L3; L4 and L5 end the loop: at most 2. True: it ended with L1.
 */
static inline bool repaint_up(struct pdd_rbroot *root, struct pdd_rbnode *node)
{
	for (;;) {
		struct pdd_rbnode *parent = pdd_rb_parent(node), *grand, *uncle;
		bool side;

		if (!parent) { /* L1 */
			paint_black(node);
			return true;
		}
		if (!is_red(parent)) /* L2 */
			return false;

		grand = pdd_rb_parent(parent);
		PDD_INVARIANT(grand && !is_red(grand));
		side = grand->right == parent;
		uncle = *child(grand, !side);

		if (is_red(uncle)) { /* L3 */
			paint_black(parent);
			paint_black(uncle);
			paint_red(grand);
			node = grand;
			continue;
		}
		if (*child(parent, !side) == node) { /* L4 */
			rotate(root, parent, !side);
			parent = node;
		}
		paint_black(parent); /* L5 */
		paint_red(grand);
		rotate(root, grand, side);
		return false;
	}
}

bool pddi_rb_repaint(struct pdd_rbroot *root, struct pdd_rbnode *node)
{
	return repaint_up(root, node);
}

/*
 * Repair after a black node was taken out. All invariants hold but for one defect: the paths
 * through the place on this side of `parent` (a black subtree, maybe a missing one) pass one black
 * node less than I4 asks: call it the hole. Each round:
 *
 * The hole's sibling exists: its subtree's black height is one more than the hole's, at least 1.
 *
 *  R1  The sibling is red; so the parent is black, and both children of the sibling are black, and
 *      exist. Lift the sibling over the parent and trade their colours: all paths pass as many
 *      black nodes as before, and the hole has a black sibling now (the sibling's inner child), and
 *      a red parent: R2 ends the loop, and so do R3 and R4.
 *
 * From here on the sibling is black.
 *
 *  R2  No child of the sibling is red. Paint it red: now the paths through it lack one black node,
 *      too. If the parent is red, painting it black gives all of them one: done. Otherwise the
 *      whole subtree of the parent lacks one: it is the hole, one level up; if it is the root, all
 *      paths are shorter by one alike, which I4 allows: done.
 *  R3  The sibling's inner child alone is red. Lift it over the sibling and trade their colours:
 *      black heights stay, since the children of the red node were black with the height of the
 *      outer child. The hole has a new black sibling with a red outer child: R4.
 *  R4  The sibling's outer child is red. Lift the sibling over the parent; the sibling takes the
 *      parent's colour, the parent and the outer child become black. The hole's paths pass one
 *      black node, the parent, in addition: mended. The inner child's paths pass a node of the
 *      parent's old colour and a black one as before; it may be red, its new parent is black. The
 *      outer child's paths lose the black sibling and gain the outer child itself. Done.
 *
 * Rotations: R1, R3 and R4 happen at most once each, since after R1 the parent is red: at most 3.
 */
static void refill_up(struct pdd_rbroot *root, struct pdd_rbnode *parent, bool side)
{
	for (;;) {
		struct pdd_rbnode *sibling = *child(parent, !side), *outer, *inner, *hole;

		PDD_INVARIANT(sibling);
		if (is_red(sibling)) { /* R1 */
			paint_black(sibling);
			paint_red(parent);
			rotate(root, parent, !side);
			sibling = *child(parent, !side);
			PDD_INVARIANT(sibling && !is_red(sibling));
		}

		outer = *child(sibling, !side);
		inner = *child(sibling, side);
		if (!is_red(outer) && !is_red(inner)) { /* R2 */
			paint_red(sibling);
			if (is_red(parent)) {
				paint_black(parent);
				return;
			}
			hole = parent;
			parent = pdd_rb_parent(hole);
			if (!parent)
				return;
			side = parent->right == hole;
			continue;
		}
		if (!is_red(outer)) { /* R3 */
			paint_black(inner);
			paint_red(sibling);
			rotate(root, sibling, side);
			outer = sibling;
			sibling = inner;
		}
		paint_as(sibling, parent); /* R4 */
		paint_black(parent);
		paint_black(outer);
		rotate(root, parent, !side);
		return;
	}
}

void pdd_rb_link(struct pdd_rbroot *root, struct pdd_rbnode *node, struct pdd_rbnode *parent,
		 struct pdd_rbnode **slot, unsigned tag)
{
	PDD_ASSERT(root && node && slot && !*slot);
	PDD_ASSERT(((uintptr_t)node & WORD_BITS) == 0);
	PDD_ASSERT(tag <= PDD_RB_TAG_MAX);
	PDD_ASSERT(parent ? slot == &parent->left || slot == &parent->right : slot == &root->node);

	node->parent = (uintptr_t)parent | (uintptr_t)tag << TAG_SHIFT | RED;
	node->left = NULL;
	node->right = NULL;
	*slot = node;
	repaint_up(root, node);
}

/* Put `node` where `old` stands, with its links and its colour; the tag of `node` is kept. */
static void take_place(struct pdd_rbroot *root, const struct pdd_rbnode *old,
		       struct pdd_rbnode *node)
{
	struct pdd_rbnode *parent = pdd_rb_parent(old);

	*slot_of(root, old, parent) = node;
	set_parent(node, parent);
	paint_as(node, old);
	node->left = old->left;
	if (node->left)
		set_parent(node->left, node);
	node->right = old->right;
	if (node->right)
		set_parent(node->right, node);
}

/*
 * Take out a node with at most one child. If there is a child, it is red and has none of its own,
 * since by I4 its black height is that of the missing side, 0; and the node is black by I3. So the
 * child, painted black, replaces the node for every path. Without a child, a black node leaves a
 * hole (unless it was all of the tree), a red one leaves none.
 */
static void unlink_outer(struct pdd_rbroot *root, struct pdd_rbnode *node)
{
	struct pdd_rbnode *parent = pdd_rb_parent(node);
	struct pdd_rbnode *only = node->left ? node->left : node->right;
	struct pdd_rbnode **slot = slot_of(root, node, parent);
	bool side = parent && slot == &parent->right;

	PDD_INVARIANT(!node->left || !node->right);
	*slot = only;
	if (only) {
		PDD_INVARIANT(is_red(only) && !is_red(node));
		set_parent(only, parent);
		paint_black(only);
	} else if (parent && !is_red(node)) {
		refill_up(root, parent, side);
	}
}

/*
 * In place of a node with two children its successor, which has no left child, is taken out, and
 * then put where the node stands: the order is the same. By then the tree is whole, so it does not
 * matter where the repair has moved the node, nor that it may have fewer children than before.
 */
void pdd_rb_remove(struct pdd_rbroot *root, struct pdd_rbnode *node)
{
	struct pdd_rbnode *successor;

	PDD_ASSERT(root && node);
	PDD_ASSERT(*slot_of(root, node, pdd_rb_parent(node)) == node);

	if (!node->left || !node->right) {
		unlink_outer(root, node);
		return;
	}
	for (successor = node->right; successor->left; successor = successor->left)
		;
	unlink_outer(root, successor);
	take_place(root, node, successor);
}

void pdd_rb_replace(struct pdd_rbroot *root, struct pdd_rbnode *old, struct pdd_rbnode *node,
		    unsigned tag)
{
	PDD_ASSERT(root && old && node && old != node);
	PDD_ASSERT(((uintptr_t)node & WORD_BITS) == 0);
	PDD_ASSERT(tag <= PDD_RB_TAG_MAX);
	PDD_ASSERT(*slot_of(root, old, pdd_rb_parent(old)) == old);

	node->parent = (uintptr_t)tag << TAG_SHIFT;
	take_place(root, old, node);
}

static struct pdd_rbnode *outermost(struct pdd_rbnode *node, bool side)
{
	while (node && *child(node, side))
		node = *child(node, side);
	return node;
}

struct pdd_rbnode *pdd_rb_first(const struct pdd_rbroot *root)
{
	PDD_ASSERT(root);
	return outermost(root->node, false);
}

struct pdd_rbnode *pdd_rb_last(const struct pdd_rbroot *root)
{
	PDD_ASSERT(root);
	return outermost(root->node, true);
}

/*
 * The neighbour is the innermost node below on that side, else the first node above that has this
 * one on its other side. A walk over the tree uses each link once in each direction.
 */
static struct pdd_rbnode *neighbour(const struct pdd_rbnode *node, bool side)
{
	struct pdd_rbnode *below = side ? node->right : node->left, *parent;

	if (below)
		return outermost(below, !side);
	while ((parent = pdd_rb_parent(node)) && *child(parent, side) == node)
		node = parent;
	return parent;
}

struct pdd_rbnode *pdd_rb_next(const struct pdd_rbnode *node)
{
	PDD_ASSERT(node);
	return neighbour(node, true);
}

struct pdd_rbnode *pdd_rb_prev(const struct pdd_rbnode *node)
{
	PDD_ASSERT(node);
	return neighbour(node, false);
}

/*
 * Compute values anew after a change at a place: that of a new node, which is `node`, or a place
 * that became empty below `node`. The path is `node` and all above it.
 *
 * A value can be wrong only if its node, or one below, was given another child. That happens to
 * nodes of the path, and to children of such nodes, as follows; and it happens to nothing below a
 * child that is off the path, so that the values needed for such a child are right already.
 *
 *  - L3 and R2 link nothing. A rotation also gives a child to the node above it, which is above
 *    the place.
 *  - L4 and L5 shuffle three nodes: one ends on top, the two others as its children. The top one
 *    is on the path: in L5 it was above the place already; in L4 it is the node of the defect,
 *    which is the new one or above it.
 *  - R1 lifts the sibling over the parent: both are above the hole now, and so above the place.
 *  - R4 puts a node on top which has, as its children, the parent, which is above the hole, and,
 *    if R3 came before, the one other node that was given another child.
 *  - A successor stands where the removed node was, on the path, or is its lowest node.
 *
 * So it is enough to compute both children of each node of the path, upwards, and the root in the
 * end. It goes up to the root even if a value comes out as before: whether the nodes above were
 * given other children is not known here.
 */
static void refresh(struct pdd_rbnode *node, pdd_rb_augment_fn augment)
{
	struct pdd_rbnode *top = NULL;

	for (; node; node = pdd_rb_parent(node)) {
		if (node->left)
			augment(node->left);
		if (node->right)
			augment(node->right);
		top = node;
	}
	if (top)
		augment(top);
}

void pdd_rb_link_augmented(struct pdd_rbroot *root, struct pdd_rbnode *node,
			   struct pdd_rbnode *parent, struct pdd_rbnode **slot, unsigned tag,
			   pdd_rb_augment_fn augment)
{
	PDD_ASSERT(augment);
	pdd_rb_link(root, node, parent, slot, tag);
	refresh(node, augment);
}

/* The place that becomes empty is that of the node or, if it has two children, of its successor. */
void pdd_rb_remove_augmented(struct pdd_rbroot *root, struct pdd_rbnode *node,
			     pdd_rb_augment_fn augment)
{
	struct pdd_rbnode *leaves = node, *above;

	PDD_ASSERT(root && node && augment);
	if (node->left && node->right)
		leaves = outermost(node->right, false);
	above = pdd_rb_parent(leaves);
	if (above == node)
		above = leaves; /* which takes its place */
	pdd_rb_remove(root, node);
	refresh(above, augment);
}

void pdd_rb_replace_augmented(struct pdd_rbroot *root, struct pdd_rbnode *old,
			      struct pdd_rbnode *node, unsigned tag, pdd_rb_augment_fn augment)
{
	PDD_ASSERT(augment);
	pdd_rb_replace(root, old, node, tag);
	refresh(node, augment);
}

/* What is wrong with this node, or with the links to its children; NULL if nothing is. */
static const char *wrong_at(const struct pdd_rbnode *node)
{
	const struct pdd_rbnode *left = node->left, *right = node->right;

	/* before anything is read through them */
	if (((uintptr_t)left | (uintptr_t)right) & WORD_BITS)
		return "rbtree: a child pointer is not aligned";
	if (left && left == right)
		return "rbtree: a node is both children of its parent";
	if ((left && pdd_rb_parent(left) != node) || (right && pdd_rb_parent(right) != node))
		return "rbtree: a child does not name its parent";
	if (is_red(node) && (is_red(left) || is_red(right)))
		return "rbtree: a red node has a red child";
	return NULL;
}

/*
 * A walk in preorder that keeps only where it is and the number of black nodes above. It ends, also
 * in a corrupt tree: it goes down only to nodes that name the node it comes from as their parent,
 * so no node is entered from two others, and the root from none (it names none); nor twice from one
 * (children differ). So it never comes back to a node, save on its way up.
 */
int64_t pdd_rb_check(const struct pdd_rbroot *root, const char **why)
{
	const struct pdd_rbnode *node, *from, *parent;
	const char *wrong = NULL;
	int64_t nodes = 0, black = 0, height = -1;

	PDD_ASSERT(root);
	node = root->node;
	if ((uintptr_t)node & WORD_BITS)
		wrong = "rbtree: the root pointer is not aligned";
	else if (node && pdd_rb_parent(node))
		wrong = "rbtree: the root has a parent";
	else if (is_red(node))
		wrong = "rbtree: the root is red";

	while (node && !wrong) {
		wrong = wrong_at(node);
		nodes++;
		black += !is_red(node);
		if (!node->left || !node->right) {
			if (height < 0)
				height = black;
			if (black != height)
				wrong = wrong ? wrong : "rbtree: black heights differ";
		}
		if (wrong)
			break;
		if (node->left || node->right) {
			node = node->left ? node->left : node->right;
			continue;
		}
		/* up, to the first node with a right child that was not entered */
		do {
			black -= !is_red(node);
			from = node;
			parent = pdd_rb_parent(node);
			node = parent;
		} while (parent && (parent->right == from || !parent->right));
		if (parent)
			node = parent->right;
	}

	if (why)
		*why = wrong;
	return wrong ? -(int64_t)EUCLEAN : nodes;
}
