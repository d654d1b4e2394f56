/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * micro_index.c - the forest with one root for each node, against one tree by checksum: this
 * library's, and BSD's.
 *
 *	insert  n nodes into an empty index, neighbours in memory, with random checksums; a search
 *	        comes first, as in a pass that finds nothing equal. "ahead": in batches of 128 whose
 *	        roots are loaded ahead, as a step does it
 *	find    each checksum, in another random order
 *	remove  each node, in that order
 *
 * Nodes lie in items of 48 bytes, or as many bytes in BSD's, so all tread on the same memory. The
 * roots of the forest are cleared before each run, so they may be in the cache.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/tree.h>

#include <pagededup/index.h>

#include "micro.h"

#define AHEAD 128u

static const uint64_t sizes[] = { 1024, 32768, 1048576, 0 };

struct own_item {
	struct pdd_index_node node;
	uint64_t rest[2];
};

struct bsd_item {
	RB_ENTRY(bsd_item) link;
	uint64_t checksum;
	uint64_t rest;
};

_Static_assert(sizeof(struct own_item) == sizeof(struct bsd_item), "the same memory");

RB_HEAD(bsd_index, bsd_item);

struct state {
	uint64_t n;
	uint32_t *order;
	uint64_t sum; /* of all checksums */
	struct pdd_index index;
	struct pdd_rbroot *roots;
	uint64_t nroots;
	struct own_item *own;
	struct bsd_item *bsd;
	struct bsd_index tree;
	bool full;
};

static inline int bsd_order(const struct bsd_item *a, const struct bsd_item *b)
{
	return (a->checksum > b->checksum) - (a->checksum < b->checksum);
}

RB_GENERATE_INTERNAL(bsd_index, bsd_item, link, bsd_order, __attribute__((unused)) static)

/* ---- what is measured ---- */

static inline uint64_t own_insert_one(struct state *s, uint64_t i)
{
	struct pdd_index_node *node = &s->own[i].node;
	struct pdd_index_slot slot;

	if (pdd_index_find_slot(&s->index, &slot, node->checksum, NULL, NULL))
		return 0;
	pdd_index_link(&s->index, &slot, node, PDD_KIND_ITEM);
	return 1;
}

static uint64_t own_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t i = 0; i < n; i++)
		inserted += own_insert_one(s, i);
	return inserted;
}

static uint64_t own_insert_ahead(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t begin = 0; begin < n; begin += AHEAD) {
		uint64_t end = begin + AHEAD < n ? begin + AHEAD : n;

		for (uint64_t i = begin; i < end; i++)
			pdd_index_prefetch(&s->index, s->own[i].node.checksum);
		for (uint64_t i = begin; i < end; i++)
			inserted += own_insert_one(s, i);
	}
	return inserted;
}

/* It searches as it inserts. */
static uint64_t bsd_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t i = 0; i < n; i++)
		inserted += !RB_INSERT(bsd_index, &s->tree, &s->bsd[i]);
	return inserted;
}

static uint64_t own_find(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct pdd_index_node *node = pdd_index_find_slot(
			&s->index, NULL, micro_key(s->order[i]), NULL, NULL);

		sum += node ? node->checksum : 0;
	}
	return sum;
}

static uint64_t bsd_find(void *state, uint64_t n)
{
	struct state *s = state;
	struct bsd_item wanted;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct bsd_item *item;

		wanted.checksum = micro_key(s->order[i]);
		item = RB_FIND(bsd_index, &s->tree, &wanted);
		sum += item ? item->checksum : 0;
	}
	return sum;
}

static uint64_t own_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		pdd_index_remove(&s->index, &s->own[s->order[i]].node);
	return n;
}

static uint64_t bsd_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		RB_REMOVE(bsd_index, &s->tree, &s->bsd[s->order[i]]);
	return n;
}

/* ---- before and after ---- */

static void teardown(void *state)
{
	struct state *s = state;

	free(s->order);
	free(s->roots);
	free(s->own);
	free(s->bsd);
	free(s);
}

static struct state *setup(uint64_t n, uint64_t nroots, bool bsd)
{
	struct state *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->n = n;
	s->nroots = nroots;
	s->order = micro_shuffled(n);
	s->roots = calloc(nroots, sizeof(*s->roots));
	s->own = bsd ? NULL : calloc(n, sizeof(*s->own));
	s->bsd = bsd ? calloc(n, sizeof(*s->bsd)) : NULL;
	if (!s->order || !s->roots || !(bsd ? (void *)s->bsd : (void *)s->own) ||
	    pdd_index_init(&s->index, s->roots, nroots, nroots)) {
		teardown(s);
		return NULL;
	}
	for (uint64_t i = 0; i < n; i++) {
		*(bsd ? &s->bsd[i].checksum : &s->own[i].node.checksum) = micro_key(i);
		s->sum += micro_key(i);
	}
	return s;
}

/* Sizes are powers of two, as numbers of roots have to be. */
static void *forest_setup(uint64_t size, uint64_t *iterations)
{
	*iterations = size;
	return setup(size, size, false);
}

static void *single_setup(uint64_t size, uint64_t *iterations)
{
	*iterations = size;
	return setup(size, 1, false);
}

static void *bsd_setup(uint64_t size, uint64_t *iterations)
{
	*iterations = size;
	return setup(size, 1, true);
}

static void prepare_empty(void *state)
{
	struct state *s = state;

	memset(s->roots, 0, s->nroots * sizeof(*s->roots));
	(void)pdd_index_init(&s->index, s->roots, s->nroots, s->nroots); /* as it did before */
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
	struct bsd_item *item;
	uint64_t n = 0;

	RB_FOREACH(item, bsd_index, &s->tree)
		n++;
	if (s->own)
		n = (uint64_t)pdd_index_check(&s->index, NULL);
	return result == s->n && n == s->n;
}

static bool found_all(void *state, uint64_t result)
{
	return result == ((const struct state *)state)->sum;
}

static bool removed_all(void *state, uint64_t result)
{
	const struct state *s = state;

	for (uint64_t i = 0; i < s->nroots; i++)
		if (s->roots[i].node)
			return false;
	return result == s->n && RB_EMPTY(&s->tree);
}

#define CASE(operation, contender, setup, run, prepare, check) \
	{ "index/" operation "/" contender, sizes, setup, prepare, run, check, teardown }

static const struct micro_case cases[] = {
	CASE("insert", "forest", forest_setup, own_insert, prepare_empty, inserted_all),
	CASE("insert", "forest_ahead", forest_setup, own_insert_ahead, prepare_empty, inserted_all),
	CASE("insert", "single", single_setup, own_insert, prepare_empty, inserted_all),
	CASE("insert", "bsd", bsd_setup, bsd_insert, prepare_empty, inserted_all),
	CASE("find", "forest", forest_setup, own_find, prepare_full, found_all),
	CASE("find", "single", single_setup, own_find, prepare_full, found_all),
	CASE("find", "bsd", bsd_setup, bsd_find, prepare_full, found_all),
	CASE("remove", "forest", forest_setup, own_remove, prepare_full, removed_all),
	CASE("remove", "single", single_setup, own_remove, prepare_full, removed_all),
	CASE("remove", "bsd", bsd_setup, bsd_remove, prepare_full, removed_all),
};
MICRO_CASES(cases)
