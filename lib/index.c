/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * index.c - a forest of red-black trees, ordered by checksum first.
 *
 * Invariants
 *  1. A node stands in the tree that the top bits of its checksum pick; so the trees, taken in the
 *     order of the roots, are one sequence ordered by checksum.
 *  2. Within a tree nodes are ordered by checksum, and among equal ones as the caller's order says.
 *  3. A checksum does not change while its node is linked.
 *
 * Cost: checksums are evenly spread (keyed XXH3, or mixed), so n nodes over n roots make trees of
 * 1 node on average, and a descent visits 1 to 2 nodes. An adversary who finds equal checksums
 * makes one tree deeper: O(log n), never a list.
 *
 * Locking: none.
 */
#include <pagededup/index.h>

#include <errno.h>

#include "check_internal.h"

static struct pdd_index_node *entry(struct pdd_rbnode *rb)
{
	/* The tree node is the first member. */
	return (struct pdd_index_node *)(void *)rb;
}

_Static_assert(offsetof(struct pdd_index_node, u.rb) == 0, "entry() casts");

int pdd_index_init(struct pdd_index *index, struct pdd_rbroot *roots, uint64_t nroots)
{
	uint32_t bits = 0;

	if (!roots || nroots == 0 || (nroots & (nroots - 1)) != 0)
		return -EINVAL;
	while (nroots >> bits != 1)
		bits++;
	index->roots = roots;
	index->nroots = nroots;
	index->shift = 64 - bits;
	return 0;
}

struct pdd_index_node *pdd_index_find_slot(const struct pdd_index *index,
					   struct pdd_index_slot *slot, uint64_t checksum,
					   pdd_index_order_fn order, void *ctx)
{
	struct pdd_rbroot *root = pdd_index_root(index, checksum);
	struct pdd_rbnode *parent = NULL, **link = &root->node;
	struct pdd_index_node *found = NULL;
	bool beside = false;

	while (*link) {
		struct pdd_index_node *node = entry(*link);
		bool right;

		PDD_COUNT_VISIT();
		parent = *link;
		right = checksum > node->checksum;
		if (checksum == node->checksum) {
			int cmp = order ? order(ctx, node) : 0;

			beside = true;
			/* The first of the equal ones is this or to the left of it. */
			if (cmp == 0)
				found = node;
			right = cmp > 0;
		}
		link = pdd_index_child(parent, right); /* a branch would be guessed wrong half the time */
	}
	if (slot)
		*slot = (struct pdd_index_slot){
			.root = root, .parent = parent, .slot = link, .beside = beside
		};
	return found;
}

struct pdd_index_node *pdd_index_next_equal(const struct pdd_index_node *node)
{
	struct pdd_rbnode *next = pdd_rb_next(&node->u.rb);

	return next && entry(next)->checksum == node->checksum ? entry(next) : NULL;
}

struct pdd_index_node *pdd_index_prev_equal(const struct pdd_index_node *node)
{
	struct pdd_rbnode *prev = pdd_rb_prev(&node->u.rb);

	return prev && entry(prev)->checksum == node->checksum ? entry(prev) : NULL;
}

void pdd_index_link(const struct pdd_index_slot *slot, struct pdd_index_node *node,
		    enum pdd_kind kind)
{
	pdd_rb_link(slot->root, &node->u.rb, slot->parent, slot->slot, kind);
}

void pdd_index_remove(struct pdd_index *index, struct pdd_index_node *node)
{
	pdd_rb_remove(pdd_index_root(index, node->checksum), &node->u.rb);
}

void pdd_index_replace(struct pdd_index *index, struct pdd_index_node *old,
		       struct pdd_index_node *node, enum pdd_kind kind)
{
	PDD_ASSERT(old->checksum == node->checksum);
	pdd_rb_replace(pdd_index_root(index, old->checksum), &old->u.rb, &node->u.rb, kind);
}

int64_t pdd_index_check(const struct pdd_index *index, const char **why)
{
	int64_t total = 0;

	for (uint64_t i = 0; i < index->nroots; i++) {
		const struct pdd_rbroot *root = &index->roots[i];
		struct pdd_rbnode *rb, *next;
		int64_t n = pdd_rb_check(root, why);

		if (n < 0)
			return n;
		total += n;
		for (rb = pdd_rb_first(root); rb; rb = next) {
			next = pdd_rb_next(rb);
			if (pdd_index_root(index, entry(rb)->checksum) != root) {
				if (why)
					*why = "index: a node stands in another checksum's tree";
				return -EUCLEAN;
			}
			if (next && entry(next)->checksum < entry(rb)->checksum) {
				if (why)
					*why = "index: nodes are not ordered by checksum";
				return -EUCLEAN;
			}
		}
	}
	return total;
}
