/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * index.h - a forest of red-black trees, ordered by checksum first.
 *
 * Some bits of the checksum pick one of many roots; each root is a tree ordered by checksum, and
 * among nodes of equal checksum by whatever order the caller keeps. The library orders those by
 * (domain, kind, content). With about one root per node a descent visits one or two nodes.
 *
 * The table of roots grows with the nodes, by linear hashing: one root more for each node that is
 * linked while there are more nodes than roots, so nobody ever waits for a table to be rebuilt. The
 * caller gives room for as many as there may ever be; those that are not in use are not touched, so
 * that room costs him addresses only, if he maps it.
 *
 * The checksum is recorded in the node, so the order is exact whatever the pages do meanwhile, and
 * a search reads nodes only, no pages.
 *
 * Locking: none; the caller keeps the forest to itself.
 */
#ifndef PAGEDEDUP_INDEX_H
#define PAGEDEDUP_INDEX_H

#include <pagededup/rbtree.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PDD_PREFETCH(address) __builtin_prefetch(address, 1) /* to be written, too */
#define PDD_PREFETCH_READ(address) __builtin_prefetch(address)
#else
#define PDD_PREFETCH(address) ((void)(address))
#define PDD_PREFETCH_READ(address) ((void)(address))
#endif

/** What a node is part of: the tag of its rbnode, and the order of kinds of equal checksum and
 * domain. */
enum pdd_kind {
	PDD_KIND_FRAME = 0, /* struct pdd_frame: the leader of a chain */
	PDD_KIND_ITEM = 1,  /* struct pdd_item */
	PDD_KIND_GROUP = 2, /* struct pdd_group */
};

/** A node of the index. Out of the index its owner uses the words of the tree node as links. */
struct pdd_index_node {
	union {
		struct pdd_rbnode rb;
		struct {
			void *owner; /* the frame that the item shares, or the group it is in */
			struct pdd_item *next;
			struct pdd_item **pprev;
		} member;
		struct {
			struct pdd_frame *next; /* a ring */
			struct pdd_frame *prev;
		} dup;
	} u;
	uint64_t checksum;
};

/** The forest. Private fields. */
struct pdd_index {
	struct pdd_rbroot *roots;
	uint64_t nroots; /* in use */
	uint64_t mask;   /* as many ones as the number of the last root has bits */
	uint64_t room;
	uint64_t nnodes;
};

/** Where a search ended, good for pdd_index_link() until the tree changes. */
struct pdd_index_slot {
	struct pdd_rbroot *root;
	struct pdd_rbnode *parent;
	struct pdd_rbnode **slot;
	bool beside; /* nodes of this checksum are there already */
};

/**
 * @param roots   room for @p room roots, all zero, which lives as long as the index
 * @param room    at least 1; about one for each node is best
 * @param nroots  of them in use from the start, 1 .. @p room; more are used as nodes come
 * @return 0, or -EINVAL
 * Complexity: O(1); touches no root. Since: 0.1
 */
PDD_API int pdd_index_init(struct pdd_index *index, struct pdd_rbroot *roots, uint64_t room,
			   uint64_t nroots);

/* What picks the root, and orders a tree, the lowest bit first: the middle of the checksum on, since
 * aging picks the pages of a pass by the low bits. Private. */
static inline uint64_t pdd_index_key(uint64_t checksum)
{
	return checksum >> 32 | checksum << 32;
}

/** The tree that holds nodes of this checksum. Complexity: O(1). Since: 0.1 */
static inline struct pdd_rbroot *pdd_index_root(const struct pdd_index *index, uint64_t checksum)
{
	uint64_t number = pdd_index_key(checksum) & index->mask;

	/* Those behind the last one are with the root of one bit less, which is to be split yet. */
	return &index->roots[number < index->nroots ? number : number & index->mask >> 1];
}

/** Whether nodes of checksum @p a stand behind those of @p b. Complexity: O(1). Since: 0.1 */
static inline bool pdd_index_is_behind(uint64_t a, uint64_t b)
{
	uint64_t differ = pdd_index_key(a ^ b);

	return (pdd_index_key(a) & differ & -differ) != 0;
}

/**
 * Order of what is searched for (or inserted) against a node of equal checksum: < 0 before it,
 * > 0 behind it, 0 equal. It must order all nodes of one checksum in one way.
 */
typedef int (*pdd_index_order_fn)(void *ctx, const struct pdd_index_node *other);

/**
 * Find the first node, in order, of this checksum for which the order is 0.
 *
 * @param slot   out, may be NULL: where to link a node of this key; meaningful only if NULL is
 *               returned. With an order that is never 0 it is always meaningful.
 * @param order  called for nodes of equal checksum on the way down; NULL: all of them are equal
 * @return NULL if there is none
 * Complexity: O(log n) of the tree, expected O(1) with about one root for each node. Since: 0.1
 */
PDD_API struct pdd_index_node *pdd_index_find_slot(const struct pdd_index *index,
						   struct pdd_index_slot *slot, uint64_t checksum,
						   pdd_index_order_fn order, void *ctx);

/** The node behind @p node if it has the same checksum, else NULL. O(log n). Since: 0.1 */
PDD_API struct pdd_index_node *pdd_index_next_equal(const struct pdd_index_node *node);

/** The node before @p node if it has the same checksum, else NULL. O(log n). Since: 0.1 */
PDD_API struct pdd_index_node *pdd_index_prev_equal(const struct pdd_index_node *node);

/**
 * Link at a slot that pdd_index_find_slot() gave for node->checksum, with nothing linked or removed
 * in between, and make one root more if there are more nodes than roots.
 * Complexity: O(1) amortised; O(log n) of a tree with a new root. Since: 0.1
 */
PDD_API void pdd_index_link(struct pdd_index *index, const struct pdd_index_slot *slot,
			    struct pdd_index_node *node, enum pdd_kind kind);

/** Remove a node that is in the index. Complexity: O(log n). Since: 0.1 */
PDD_API void pdd_index_remove(struct pdd_index *index, struct pdd_index_node *node);

/** Put @p node in the place of @p old, which has the same checksum. Complexity: O(1). Since: 0.1 */
PDD_API void pdd_index_replace(struct pdd_index *index, struct pdd_index_node *old,
			       struct pdd_index_node *node, enum pdd_kind kind);

/*
 * Loading ahead. A search waits for one line of the cache after the other: root, node, node below.
 * With many searches at hand each of these can be asked for all of them before the first is needed:
 *
 *	for each: pdd_index_prefetch(index, checksum);
 *	for each: node = pdd_index_prefetch_first(index, checksum);
 *	for each that has a node, a few times: node = pdd_index_prefetch_below(node, checksum);
 *	for each: pdd_index_find_slot(...);
 */

/** Ask the processor for the root of a search. Complexity: O(1). Since: 0.1 */
static inline void pdd_index_prefetch(const struct pdd_index *index, uint64_t checksum)
{
	PDD_PREFETCH(pdd_index_root(index, checksum));
}

/* Where a node has its left or right child; without a branch. Private. */
static inline struct pdd_rbnode **pdd_index_child(struct pdd_rbnode *rb, bool right)
{
	const size_t left = offsetof(struct pdd_rbnode, left);
	const size_t step = offsetof(struct pdd_rbnode, right) - left;

	return (struct pdd_rbnode **)(void *)((unsigned char *)rb + left + step * right);
}

/* What a search reads of a node may lie on two lines. Where there is no node, something is asked
 * for that is there already: address 0 would cost a walk through the page tables, and a branch
 * would be guessed wrong half the time. Private. */
static inline const struct pdd_index_node *pdd_index_prefetch_node(const struct pdd_rbnode *rb,
								   const void *instead)
{
	const unsigned char *at = rb ? (const unsigned char *)rb : (const unsigned char *)instead;

	PDD_PREFETCH(at + offsetof(struct pdd_rbnode, left));
	PDD_PREFETCH(at + offsetof(struct pdd_index_node, checksum));
	return (const struct pdd_index_node *)(const void *)rb;
}

/** Ask for the first node of a search, NULL if there is none. Reads the root. O(1). Since: 0.1 */
static inline const struct pdd_index_node *
pdd_index_prefetch_first(const struct pdd_index *index, uint64_t checksum)
{
	const struct pdd_rbroot *root = pdd_index_root(index, checksum);

	return pdd_index_prefetch_node(root->node, root);
}

/** Ask for the node of the search behind this one, NULL if there is none. Reads @p node, which is
 * in the index. Complexity: O(1). Since: 0.1 */
static inline const struct pdd_index_node *
pdd_index_prefetch_below(const struct pdd_index_node *node, uint64_t checksum)
{
	struct pdd_rbnode *rb = (struct pdd_rbnode *)(uintptr_t)&node->u.rb;

	return pdd_index_prefetch_node(
		*pdd_index_child(rb, pdd_index_is_behind(checksum, node->checksum)), node);
}

static inline enum pdd_kind pdd_index_kind(const struct pdd_index_node *node)
{
	return (enum pdd_kind)pdd_rb_tag(&node->u.rb);
}

/**
 * Prove the shape of all trees, that every node is in the tree of its checksum, the order by
 * checksum, and the number of nodes.
 * @param why  out, may be NULL: a static string
 * @return the number of nodes, or -EUCLEAN
 * Complexity: O(roots in use + nodes). Since: 0.1
 */
PDD_API int64_t pdd_index_check(const struct pdd_index *index, const char **why);

#ifdef __cplusplus
}
#endif
#endif
