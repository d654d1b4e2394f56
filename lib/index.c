/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * index.c - a forest of red-black trees, ordered by checksum first.
 *
 * Let the key be the checksum with its halves exchanged, r the number of roots, 2^b the next power
 * of two that is not below r.
 *
 * Invariants
 *  1. A node stands in the tree whose number is the low b bits of its key; if that is no number
 *     below r, the low b - 1 bits.
 *  2. Within a tree nodes are ordered by key, the lowest bit counting most, and among equal ones as
 *     the caller's order says.
 *  3. A checksum does not change while its node is linked.
 *  4. Roots from r on were not touched.
 *
 * Growing from r to r + 1 roots (linear hashing, W. Litwin 1980): root r takes from root r less its
 * highest bit, 2^k, the nodes whose key has bit k. The nodes of that tree agree in the bits below k,
 * so by 2 those with the bit are the last ones of the tree: it is cut at one place, in O(log n)
 * whatever it holds, and equal checksums stay together.
 *
 * Cost: checksums are evenly spread (keyed XXH3, or mixed), so n nodes over n roots make trees of
 * 1 node on average, and a descent visits 1 to 2 nodes. An adversary who finds equal checksums
 * makes one tree deeper: O(log n), never a list. The tree that is cut next is asked for one link
 * ahead: it is anywhere in memory.
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

int pdd_index_init(struct pdd_index *index, struct pdd_rbroot *roots, uint64_t room,
		   uint64_t nroots)
{
	if (!roots || nroots == 0 || room < nroots || room > SIZE_MAX / sizeof(*roots))
		return -EINVAL;
	*index = (struct pdd_index){ .roots = roots, .nroots = nroots, .room = room };
	while (index->mask < nroots - 1)
		index->mask = index->mask << 1 | 1;
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
		right = pdd_index_is_behind(checksum, node->checksum);
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

/* Give the new root the nodes of a tree whose key has this bit. */
static void split(struct pdd_rbroot *root, struct pdd_rbroot *fresh, uint64_t bit)
{
	struct pdd_rbnode *parent = NULL, **link = &root->node;

	while (*link) {
		parent = *link;
		link = pdd_index_child(parent, !(pdd_index_key(entry(parent)->checksum) & bit));
	}
	if (parent)
		pdd_rb_split(root, parent, link, fresh);
}

/* One root more. */
static void grow(struct pdd_index *index)
{
	uint64_t number = index->nroots++;
	uint64_t bit;
	struct pdd_rbroot *root;

	index->mask |= number; /* only a power of two brings another bit */
	bit = index->mask ^ index->mask >> 1;
	root = &index->roots[number ^ bit];
	split(root, &index->roots[number], bit);
	pdd_index_prefetch_node(root[1].node, root);
}

void pdd_index_link(struct pdd_index *index, const struct pdd_index_slot *slot,
		    struct pdd_index_node *node, enum pdd_kind kind)
{
	/* A link since the search may have moved nodes of this checksum to a new root. */
	PDD_ASSERT(slot->root == pdd_index_root(index, node->checksum));
	pdd_rb_link(slot->root, &node->u.rb, slot->parent, slot->slot, kind);
	if (++index->nnodes > index->nroots && index->nroots < index->room)
		grow(index);
}

void pdd_index_remove(struct pdd_index *index, struct pdd_index_node *node)
{
	index->nnodes--;
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
			if (next && pdd_index_is_behind(entry(rb)->checksum, entry(next)->checksum)) {
				if (why)
					*why = "index: nodes are not ordered by checksum";
				return -EUCLEAN;
			}
		}
	}
	if ((uint64_t)total != index->nnodes) {
		if (why)
			*why = "index: the number of nodes is wrong";
		return -EUCLEAN;
	}
	return total;
}
