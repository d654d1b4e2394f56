/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_interval.c - the tree finds what a plain array finds, in the same order, under random
 * operations and at the edges; and pdd_interval_tree_check finds every kind of corruption.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pagededup/interval.h>

#define NENTRIES 160u
#define NOPERATIONS 20000u
#define NQUERIES 4u

static uint64_t state;

static uint64_t next_random(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* The model: intervals in the order that the tree should have, and what was asked for them. */
struct model {
	struct pdd_interval *sorted[NENTRIES];
	uint64_t first[NENTRIES];
	uint64_t last[NENTRIES];
	unsigned n;
};

static void model_insert(struct model *model, struct pdd_interval *interval, uint64_t first,
			 uint64_t last)
{
	unsigned at = model->n++;

	for (; at && model->first[at - 1] > first; at--) {
		model->sorted[at] = model->sorted[at - 1];
		model->first[at] = model->first[at - 1];
		model->last[at] = model->last[at - 1];
	}
	model->sorted[at] = interval;
	model->first[at] = first;
	model->last[at] = last;
}

static struct pdd_interval *model_remove(struct model *model, unsigned at)
{
	struct pdd_interval *interval = model->sorted[at];
	size_t behind = --model->n - at;

	memmove(model->sorted + at, model->sorted + at + 1, behind * sizeof(*model->sorted));
	memmove(model->first + at, model->first + at + 1, behind * sizeof(*model->first));
	memmove(model->last + at, model->last + at + 1, behind * sizeof(*model->last));
	return interval;
}

/* The first overlapping one from this place on. */
static struct pdd_interval *model_find(const struct model *model, unsigned from, uint64_t first,
				       uint64_t last)
{
	for (unsigned i = from; i < model->n; i++) {
		if (model->first[i] <= last && first <= model->last[i])
			return model->sorted[i];
	}
	return NULL;
}

/* A range of one of many kinds: short or long, of small numbers, large or any. */
static void random_range(uint64_t *first, uint64_t *last)
{
	uint64_t kind = next_random(), spread = UINT64_MAX >> kind % 64, swapped;

	*first = next_random() & spread;
	*last = next_random() & spread;
	if (kind >> 6 & 1) {
		*first = ~*first;
		*last = ~*last;
	}
	if ((kind >> 7 & 3) == 0)
		*last = *first;
	if (*first > *last) {
		swapped = *first;
		*first = *last;
		*last = swapped;
	}
	if ((kind >> 9 & 3) == 0 && *last - *first > 8)
		*last = *first + (kind >> 11 & 7);
}

static void assert_finds(const struct pdd_interval_tree *tree, const struct model *model,
			 uint64_t first, uint64_t last)
{
	assert_ptr_equal(pdd_interval_find_first(tree, first, last),
			 model_find(model, 0, first, last));
	for (unsigned i = 0; i < model->n; i++)
		assert_ptr_equal(pdd_interval_find_next(model->sorted[i], first, last),
				 model_find(model, i + 1, first, last));
}

static void assert_holds(const struct pdd_interval_tree *tree, const struct model *model)
{
	struct pdd_interval *interval = pdd_interval_find_first(tree, 0, UINT64_MAX);
	const char *why = "untouched";

	assert_int_equal(pdd_interval_tree_check(tree, &why), model->n);
	assert_null(why);
	for (unsigned i = 0; i < model->n; i++) {
		assert_ptr_equal(interval, model->sorted[i]);
		assert_true(pdd_interval_first(interval) == model->first[i]);
		assert_true(pdd_interval_last(interval) == model->last[i]);
		interval = pdd_interval_find_next(interval, 0, UINT64_MAX);
	}
	assert_null(interval);
}

static void test_random_operations(void **unused)
{
	static struct pdd_interval intervals[NENTRIES];
	static struct model model;
	struct pdd_interval *outside[NENTRIES];
	struct pdd_interval_tree tree;
	uint64_t first, last;

	memset(&tree, 0, sizeof(tree));
	for (unsigned i = 0; i < NENTRIES; i++)
		outside[i] = &intervals[i];

	for (unsigned op = 0; op < NOPERATIONS; op++) {
		/* the share of insertions swings, so that the tree fills and empties */
		bool grow = next_random() % 8 < (op / 1000 % 2 ? 3u : 5u);

		if (grow && model.n < NENTRIES) {
			struct pdd_interval *interval = outside[NENTRIES - model.n - 1];

			random_range(&first, &last);
			memset(interval, 0xa5, sizeof(*interval));
			assert_int_equal(pdd_interval_insert(&tree, interval, first, last), 0);
			model_insert(&model, interval, first, last);
		} else if (model.n) {
			unsigned at = (unsigned)(next_random() % model.n);
			struct pdd_interval *interval = model_remove(&model, at);

			pdd_interval_remove(&tree, interval);
			memset(interval, 0x5a, sizeof(*interval));
			outside[NENTRIES - model.n - 1] = interval;
		}
		assert_holds(&tree, &model);
		for (unsigned i = 0; i < NQUERIES; i++) {
			random_range(&first, &last);
			assert_finds(&tree, &model, first, last);
		}
	}
	while (model.n) {
		pdd_interval_remove(&tree, model_remove(&model, 0));
		assert_holds(&tree, &model);
	}
}

static void test_empty(void **unused)
{
	const struct pdd_interval_tree tree = {{{NULL}}};

	assert_null(pdd_interval_find_first(&tree, 0, UINT64_MAX));
	assert_null(pdd_interval_find_first(&tree, 0, 0));
	assert_null(pdd_interval_find_first(&tree, UINT64_MAX, UINT64_MAX));
	assert_int_equal(pdd_interval_tree_check(&tree, NULL), 0);
}

/* One interval of each kind of edge, asked for at, before and behind its ends. */
static void test_edges(void **unused)
{
	static const uint64_t ranges[][2] = {
		{0, 0},
		{0, 1},
		{0, UINT64_MAX},
		{1, 1},
		{7, 9},
		{7, UINT64_MAX},
		{UINT64_MAX - 1, UINT64_MAX},
		{UINT64_MAX, UINT64_MAX},
	};

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const uint64_t first = ranges[i][0], last = ranges[i][1];
		struct pdd_interval_tree tree = {{{NULL}}};
		struct pdd_interval one;

		assert_int_equal(pdd_interval_insert(&tree, &one, first, last), 0);
		assert_ptr_equal(pdd_interval_find_first(&tree, 0, UINT64_MAX), &one);
		assert_ptr_equal(pdd_interval_find_first(&tree, first, last), &one);
		assert_ptr_equal(pdd_interval_find_first(&tree, 0, first), &one);
		assert_ptr_equal(pdd_interval_find_first(&tree, first, first), &one);
		assert_ptr_equal(pdd_interval_find_first(&tree, last, last), &one);
		assert_ptr_equal(pdd_interval_find_first(&tree, last, UINT64_MAX), &one);
		if (first > 0) /* adjacent is not overlapping */
			assert_null(pdd_interval_find_first(&tree, 0, first - 1));
		if (last < UINT64_MAX)
			assert_null(pdd_interval_find_first(&tree, last + 1, UINT64_MAX));
		assert_null(pdd_interval_find_next(&one, 0, UINT64_MAX));
		assert_int_equal(pdd_interval_tree_check(&tree, NULL), 1);
		pdd_interval_remove(&tree, &one);
		assert_null(pdd_interval_find_first(&tree, 0, UINT64_MAX));
	}
}

/* Equal ranges, and equal `first`: found in the order of insertion, each once, gone one by one. */
static void test_duplicates(void **unused)
{
	struct pdd_interval_tree tree = {{{NULL}}};
	struct pdd_interval equal[40], longer, *interval;

	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(pdd_interval_insert(&tree, &equal[39 - i], 5, 6), 0);
	assert_int_equal(pdd_interval_insert(&tree, &longer, 5, 100), 0);

	interval = pdd_interval_find_first(&tree, 6, 6);
	for (unsigned i = 40; i-- > 0;) {
		assert_ptr_equal(interval, &equal[i]);
		interval = pdd_interval_find_next(interval, 6, 6);
	}
	assert_ptr_equal(interval, &longer);
	assert_null(pdd_interval_find_next(interval, 6, 6));
	assert_ptr_equal(pdd_interval_find_first(&tree, 7, 7), &longer);

	for (unsigned i = 40; i-- > 0;) {
		pdd_interval_remove(&tree, &equal[i]);
		assert_int_equal(pdd_interval_tree_check(&tree, NULL), i + 1);
		assert_ptr_equal(pdd_interval_find_first(&tree, 5, 5), i ? &equal[i - 1] : &longer);
	}
}

/* A range that ends before it begins is refused by insert, and overlaps nothing. */
static void test_reversed_ranges(void **unused)
{
	struct pdd_interval_tree tree = {{{NULL}}}, tree_before;
	struct pdd_interval all, refused, before;

	assert_int_equal(pdd_interval_insert(&tree, &all, 0, UINT64_MAX), 0);
	memset(&refused, 0xa5, sizeof(refused));
	before = refused;
	tree_before = tree;
	assert_int_equal(pdd_interval_insert(&tree, &refused, 1, 0), -EINVAL);
	assert_int_equal(pdd_interval_insert(&tree, &refused, UINT64_MAX, 0), -EINVAL);
	assert_int_equal(pdd_interval_insert(&tree, &refused, UINT64_MAX, UINT64_MAX - 1), -EINVAL);
	assert_memory_equal(&refused, &before, sizeof(refused));
	assert_memory_equal(&tree, &tree_before, sizeof(tree));
	assert_int_equal(pdd_interval_tree_check(&tree, NULL), 1);

	assert_int_equal(pdd_interval_insert(&tree, &refused, 8, 9), 0);
	assert_null(pdd_interval_find_first(&tree, 9, 8));
	assert_null(pdd_interval_find_first(&tree, UINT64_MAX, 0));
	assert_null(pdd_interval_find_next(&all, 9, 8));
}

static void assert_broken(const struct pdd_interval_tree *tree, const char *part_of_why)
{
	const char *why = NULL;

	assert_int_equal(pdd_interval_tree_check(tree, &why), -EUCLEAN);
	assert_non_null(why);
	if (!strstr(why, part_of_why))
		fail_msg("expected \"%s\", got \"%s\"", part_of_why, why);
	assert_int_equal(pdd_interval_tree_check(tree, NULL), -EUCLEAN);
}

/* Each case breaks one thing, at each of the intervals, sees it reported, and mends it. */
static void test_check_finds_corruption(void **unused)
{
	struct pdd_interval_tree tree = {{{NULL}}};
	struct pdd_interval intervals[40];

	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(pdd_interval_insert(&tree, &intervals[i], 10 * i + 7,
						     10 * i + 7 + (i % 7 == 3 ? 500 : 0)),
				 0);
	for (unsigned i = 0; i < 40; i++) {
		struct pdd_interval saved = intervals[i], *broken = &intervals[i];

		broken->priv.subtree_last++;
		assert_broken(&tree, "largest last");
		broken->priv.subtree_last -= 2;
		assert_broken(&tree, "largest last");
		*broken = saved;

		broken->priv.first = broken->priv.last + 1;
		assert_broken(&tree, "ends before");
		*broken = saved;

		if (i > 0) {
			broken->priv.first = intervals[i - 1].priv.first - 1;
			assert_broken(&tree, "not ordered");
			*broken = saved;
		}

		broken->priv.rb.parent ^= 1; /* the colour */
		assert_broken(&tree, "rbtree");
		*broken = saved;

		broken->priv.rb.right = (struct pdd_rbnode *)1; /* not to be followed */
		assert_broken(&tree, "rbtree");
		*broken = saved;
	}
	assert_int_equal(pdd_interval_tree_check(&tree, NULL), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_reversed_ranges),
		cmocka_unit_test(test_check_finds_corruption),
	};
	const char *seed = getenv("PDD_SEED");

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("PDD_SEED=%" PRIu64 "\n", state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
