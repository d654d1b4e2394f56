/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * micro_interval.c - which regions contain a page? The interval tree against an array that is gone
 * through, and against BSD's red-black tree ordered by the first page, whose walk from the first
 * one ends behind the page and leaves out what ends before it.
 *
 * The intervals are as regions of an object: runs of 32 pages side by side, each twice (a clone
 * maps the same), and one in 256 that spans 8192 pages.
 *
 *	find    all intervals that contain a page, for 256 random pages
 *	insert  n intervals into an empty tree, in random order; BSD's keeps no largest end
 *	remove  each, in another order
 */
#include <stdlib.h>

#include <bsd/sys/tree.h>

#include <pagededup/interval.h>

#include "micro.h"

#define QUERIES 256u
#define RUN_PAGES 32u
#define LONG_PAGES 8192u
#define LONG_EVERY 256u

static const uint64_t sizes[] = { 64, 1024, 16384, 0 };

struct bsd_interval {
	RB_ENTRY(bsd_interval) link;
	uint64_t first, last;
};

RB_HEAD(bsd_intervals, bsd_interval);

/* The memory of all contenders: it is small. */
struct state {
	uint64_t n;
	uint32_t *order, *removal;
	uint64_t expected; /* result of all queries */
	uint64_t pages[QUERIES];
	struct pdd_interval *own;
	struct pdd_interval_tree tree;
	struct bsd_interval *bsd;
	struct bsd_intervals bsd_tree;
	bool full;
};

/* Of equal ones any order will do. */
static inline int bsd_order(const struct bsd_interval *a, const struct bsd_interval *b)
{
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return (a > b) - (a < b);
}

RB_GENERATE_INTERNAL(bsd_intervals, bsd_interval, link, bsd_order, __attribute__((unused)) static)

/* What is told of an interval that was found. */
static inline uint64_t told(uint64_t first, uint64_t last)
{
	return 1 + 3 * first + 5 * last;
}

/* ---- what is measured ---- */

static uint64_t own_find(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t page = s->pages[i];
		const struct pdd_interval *found = pdd_interval_find_first(&s->tree, page, page);

		for (; found; found = pdd_interval_find_next(found, page, page))
			sum += told(pdd_interval_first(found), pdd_interval_last(found));
	}
	return sum;
}

static uint64_t bsd_find(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t page = s->pages[i];
		struct bsd_interval *each;

		RB_FOREACH(each, bsd_intervals, &s->bsd_tree) {
			if (each->first > page)
				break;
			if (each->last >= page)
				sum += told(each->first, each->last);
		}
	}
	return sum;
}

static uint64_t array_find(void *state, uint64_t n)
{
	const struct state *s = state;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < s->n; j++)
			if (s->bsd[j].first <= s->pages[i] && s->pages[i] <= s->bsd[j].last)
				sum += told(s->bsd[j].first, s->bsd[j].last);
	return sum;
}

static uint64_t own_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t j = s->order[i];

		inserted += !pdd_interval_insert(&s->tree, &s->own[j], s->bsd[j].first,
						 s->bsd[j].last);
	}
	return inserted;
}

static uint64_t bsd_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t inserted = 0;

	for (uint64_t i = 0; i < n; i++)
		inserted += !RB_INSERT(bsd_intervals, &s->bsd_tree, &s->bsd[s->order[i]]);
	return inserted;
}

static uint64_t own_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		pdd_interval_remove(&s->tree, &s->own[s->removal[i]]);
	return n;
}

static uint64_t bsd_remove(void *state, uint64_t n)
{
	struct state *s = state;

	s->full = false;
	for (uint64_t i = 0; i < n; i++)
		RB_REMOVE(bsd_intervals, &s->bsd_tree, &s->bsd[s->removal[i]]);
	return n;
}

/* ---- before and after ---- */

static void teardown(void *state)
{
	struct state *s = state;

	free(s->order);
	free(s->removal);
	free(s->own);
	free(s->bsd);
	free(s);
}

static void place(struct bsd_interval *interval, uint64_t i)
{
	uint64_t npages = i % LONG_EVERY == LONG_EVERY - 1 ? LONG_PAGES : RUN_PAGES;

	interval->first = i / 2 * RUN_PAGES;
	interval->last = interval->first + npages - 1;
}

static void *setup(uint64_t n, uint64_t *iterations)
{
	struct state *s = calloc(1, sizeof(*s));

	*iterations = n;
	if (!s)
		return NULL;
	s->n = n;
	s->order = micro_shuffled(n);
	s->removal = calloc(n, sizeof(*s->removal));
	s->own = calloc(n, sizeof(*s->own));
	s->bsd = calloc(n, sizeof(*s->bsd));
	if (!s->order || !s->removal || !s->own || !s->bsd) {
		teardown(s);
		return NULL;
	}
	for (uint64_t i = 0; i < n; i++) {
		s->removal[i] = s->order[s->order[i]];
		place(&s->bsd[i], i);
	}
	for (uint64_t i = 0; i < QUERIES; i++)
		s->pages[i] = micro_key(i) % (n / 2 * RUN_PAGES);
	s->expected = array_find(s, QUERIES);
	return s;
}

static void *setup_queries(uint64_t n, uint64_t *iterations)
{
	void *state = setup(n, iterations);

	*iterations = QUERIES;
	return state;
}

static void prepare_empty(void *state)
{
	struct state *s = state;

	s->tree = (struct pdd_interval_tree){ .priv = { .root = { NULL } } };
	RB_INIT(&s->bsd_tree);
}

static void prepare_full(void *state)
{
	struct state *s = state;

	if (s->full)
		return;
	prepare_empty(s);
	(void)own_insert(s, s->n);
	(void)bsd_insert(s, s->n);
	s->full = true;
}

static bool found_all(void *state, uint64_t result)
{
	return result == ((const struct state *)state)->expected;
}

static bool own_inserted_all(void *state, uint64_t result)
{
	struct state *s = state;

	return result == s->n && pdd_interval_tree_check(&s->tree, NULL) == (int64_t)s->n &&
	       found_all(s, own_find(s, QUERIES));
}

static bool bsd_inserted_all(void *state, uint64_t result)
{
	struct state *s = state;

	return result == s->n && found_all(s, bsd_find(s, QUERIES));
}

static bool own_removed_all(void *state, uint64_t result)
{
	const struct state *s = state;

	return result == s->n && !pdd_interval_find_first(&s->tree, 0, UINT64_MAX);
}

static bool bsd_removed_all(void *state, uint64_t result)
{
	const struct state *s = state;

	return result == s->n && RB_EMPTY(&s->bsd_tree);
}

#define CASE(operation, contender, setup, prepare, run, check) \
	{ "interval/" operation "/" contender, sizes, setup, prepare, run, check, teardown }

static const struct micro_case cases[] = {
	CASE("find", "pagededup", setup_queries, prepare_full, own_find, found_all),
	CASE("find", "bsd", setup_queries, prepare_full, bsd_find, found_all),
	CASE("find", "array", setup_queries, prepare_full, array_find, found_all),
	CASE("insert", "pagededup", setup, prepare_empty, own_insert, own_inserted_all),
	CASE("insert", "bsd", setup, prepare_empty, bsd_insert, bsd_inserted_all),
	CASE("remove", "pagededup", setup, prepare_full, own_remove, own_removed_all),
	CASE("remove", "bsd", setup, prepare_full, bsd_remove, bsd_removed_all),
};
MICRO_CASES(cases)
