/* SPDX-License-Identifier: BSD-2-Clause */
/* rbtree_internal.h - colours and links of a red-black tree, for the files that rebalance one. */
#ifndef PDD_RBTREE_INTERNAL_H
#define PDD_RBTREE_INTERNAL_H

#include <pagededup/rbtree.h>

#include "check_internal.h"

#define RED ((uintptr_t)1)
#define TAG_SHIFT 1
#define WORD_BITS ((uintptr_t)7) /* colour and tag; the others are the address */

_Static_assert((PDD_RB_TAG_MAX << TAG_SHIFT | RED) == WORD_BITS, "colour and tag fill three bits");

/* A missing child is black (I4). */
static inline bool is_red(const struct pdd_rbnode *node)
{
	return node && (node->parent & RED);
}

static inline void set_parent(struct pdd_rbnode *node, const struct pdd_rbnode *parent)
{
	node->parent = (uintptr_t)parent | (node->parent & WORD_BITS);
}

static inline void paint_red(struct pdd_rbnode *node)
{
	node->parent |= RED;
}

static inline void paint_black(struct pdd_rbnode *node)
{
	node->parent &= ~RED;
}

static inline struct pdd_rbnode **child(struct pdd_rbnode *node, bool side)
{
	return side ? &node->right : &node->left;
}

/* Repair the tree after a red node with a whole tree on either side was put where the black heights
 * are right; true: the black height of the tree is one more than before. */
bool pddi_rb_repaint(struct pdd_rbroot *root, struct pdd_rbnode *node);

#endif
