/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * micro_rbtree.c - a red-black tree of random 64-bit keys, against RB_ of BSD's sys/tree.h.
 *
 *	insert  n nodes into an empty tree; nodes are neighbours in memory, their keys random
 *	find    each key, in another random order
 *	remove  each node, in that order, from the full tree
 *	walk    all in order
 *
 * A node of this library is 24 bytes, colour and tag inside; one of BSD's is 32. With the key they
 * are 32 and 40. Both descents are inlined, and find compares in the same way. Since here the
 * caller writes it, "select" shows what another way is worth: no branch that is mispredicted at
 * every other node, so that the loads of several searches overlap (as compiled by gcc 12).
 */
#include <stdlib.h>

#include <bsd/sys/tree.h>

#include <pagededup/rbtree.h>

#include "micro.h"

static const uint64_t sizes[] = { 1024, 32768, 1048576, 0 };

struct own_node {
	struct pdd_rbnode rb;
	uint64_t key;
};

struct bsd_node {
	RB_ENTRY(bsd_node) link;
	uint64_t key;
};

RB_HEAD(bsd_tree, bsd_node);

struct state {
	uint64_t n;
	uint32_t *order;
	uint64_t sum;   /* of all keys */
	uint64_t chain; /* of all keys in order, see chained() */
	struct own_node *own;
	struct pdd_rbroot root;
	struct bsd_node *bsd;
	struct bsd_tree tree;
	bool full;
};

static inline struct own_node *own_of(struct pdd_rbnode *rb)
{
	return (struct own_node *)(void *)rb;
}

_Static_assert(offsetof(struct own_node, rb) == 0, "own_of() casts");

static inline int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static inline int bsd_order(const struct bsd_node *a, const struct bsd_node *b)
{
	return compare(a->key, b->key);
}

RB_GENERATE_INTERNAL(bsd_tree, bsd_node, link, bsd_order, __attribute__((unused)) static)

/* A sum that depends on the order. */
static inline uint64_t chained(uint64_t sum, uint64_t key)
{
	return sum * 31 + key;
}

/* ---- what is measured ---- */

static uint64_t own_insert(void *state, uint64_t n)
{
	struct state *s = state;

	for (uint64_t i = 0; i < n; i++) {
		struct pdd_rbnode *parent = NULL, **slot = &s->root.node;
		uint64_t key = s->own[i].key;

		while (*slot) {
			parent = *slot;
			slot = key < own_of(parent)->key ? &parent->left : &parent->right;
		}
		pdd_rb_link(&s->root, &s->own[i].rb, parent, slot, 0);
	}
	return n;
}

static uint64_t bsd_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t i = 0; i < n; i++)
		inserted += !RB_INSERT(bsd_tree, &s->tree, &s->bsd[i]);
	return inserted;
}

static struct own_node *own_find_one(const struct state *s, uint64_t key)
{
	struct pdd_rbnode *rb = s->root.node;

	while (rb) {
		int order = compare(key, own_of(rb)->key);

		if (order < 0)
			rb = rb->left;
		else if (order > 0)
			rb = rb->right;
		else
			return own_of(rb);
	}
	return NULL;
}

/* The same, written so that the compiler may choose the child without a branch. */
static struct own_node *own_select_one(const struct state *s, uint64_t key)
{
	struct pdd_rbnode *rb = s->root.node;

	while (rb && own_of(rb)->key != key)
		rb = key < own_of(rb)->key ? rb->left : rb->right;
	return rb ? own_of(rb) : NULL;
}

static uint64_t own_find(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct own_node *node = own_find_one(s, micro_key(s->order[i]));

		sum += node ? node->key : 0;
	}
	return sum;
}

static uint64_t own_select(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct own_node *node = own_select_one(s, micro_key(s->order[i]));

		sum += node ? node->key : 0;
	}
	return sum;
}

static uint64_t bsd_find(void *state, uint64_t n)
{
	struct state *s = state;
	struct bsd_node wanted;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct bsd_node *node;

		wanted.key = micro_key(s->order[i]);
		node = RB_FIND(bsd_tree, &s->tree, &wanted);
		sum += node ? node->key : 0;
	}
	return sum;
}

static uint64_t own_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		pdd_rb_remove(&s->root, &s->own[s->order[i]].rb);
	return n;
}

static uint64_t bsd_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		RB_REMOVE(bsd_tree, &s->tree, &s->bsd[s->order[i]]);
	return n;
}

static uint64_t own_walk(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (struct pdd_rbnode *rb = pdd_rb_first(&s->root); rb; rb = pdd_rb_next(rb))
		sum = chained(sum, own_of(rb)->key);
	return sum;
}

static uint64_t bsd_walk(void *state, uint64_t n)
{
	struct state *s = state;
	struct bsd_node *node;
	uint64_t sum = 0;

	RB_FOREACH(node, bsd_tree, &s->tree)
		sum = chained(sum, node->key);
	return sum;
}

/* ---- before and after ---- */

static int compare_keys(const void *a, const void *b)
{
	return compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void teardown(void *state)
{
	struct state *s = state;

	free(s->order);
	free(s->own);
	free(s->bsd);
	free(s);
}

/* Nodes of one contender only, so that neither pays for the other's memory. */
static struct state *setup(uint64_t n, bool bsd)
{
	struct state *s = calloc(1, sizeof(*s));
	uint64_t *keys = malloc(n * sizeof(*keys));

	if (!s || !keys) {
		free(keys);
		free(s);
		return NULL;
	}
	s->n = n;
	s->order = micro_shuffled(n);
	s->own = bsd ? NULL : calloc(n, sizeof(*s->own));
	s->bsd = bsd ? calloc(n, sizeof(*s->bsd)) : NULL;
	if (!s->order || !(bsd ? (void *)s->bsd : (void *)s->own)) {
		free(keys);
		teardown(s);
		return NULL;
	}
	for (uint64_t i = 0; i < n; i++) {
		keys[i] = micro_key(i);
		*(bsd ? &s->bsd[i].key : &s->own[i].key) = keys[i];
		s->sum += keys[i];
	}
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (uint64_t i = 0; i < n; i++)
		s->chain = chained(s->chain, keys[i]);
	free(keys);
	return s;
}

static void *own_setup(uint64_t size, uint64_t *iterations)
{
	*iterations = size;
	return setup(size, false);
}

static void *bsd_setup(uint64_t size, uint64_t *iterations)
{
	*iterations = size;
	return setup(size, true);
}

static void prepare_empty(void *state)
{
	struct state *s = state;

	s->root.node = NULL;
	RB_INIT(&s->tree);
}

static void prepare_full(void *state)
{
	struct state *s = state;

	if (s->full)
		return;
	prepare_empty(s);
	(void)(s->own ? own_insert(s, s->n) : bsd_insert(s, s->n));
	s->full = true;
}

static bool inserted_all(void *state, uint64_t result)
{
	struct state *s = state;

	if (s->own && pdd_rb_check(&s->root, NULL) != (int64_t)s->n)
		return false;
	return result == s->n && (s->own ? own_walk(s, 0) : bsd_walk(s, 0)) == s->chain;
}

static bool found_all(void *state, uint64_t result)
{
	return result == ((const struct state *)state)->sum;
}

static bool removed_all(void *state, uint64_t result)
{
	const struct state *s = state;

	return result == s->n && !s->root.node && RB_EMPTY(&s->tree);
}

static bool walked_all(void *state, uint64_t result)
{
	return result == ((const struct state *)state)->chain;
}

#define BOTH(operation, prepare, check) \
	{ "rbtree/" #operation "/pagededup", sizes, own_setup, prepare, own_##operation, check, \
	  teardown }, \
	{ "rbtree/" #operation "/bsd", sizes, bsd_setup, prepare, bsd_##operation, check, teardown }

static const struct micro_case cases[] = {
	BOTH(insert, prepare_empty, inserted_all),
	BOTH(find, prepare_full, found_all),
	{ "rbtree/find/pagededup_select", sizes, own_setup, prepare_full, own_select, found_all,
	  teardown },
	BOTH(remove, prepare_full, removed_all),
	BOTH(walk, prepare_full, walked_all),
};
MICRO_CASES(cases)
