/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_interval_shapes.c - every order of insertion of up to 7 intervals with every removal; every
 * sequence of up to 6 ranges over few points with every question about them.
 *
 * The largest `last` of each subtree is derived here, without help of the library, after each step.
 * What a question has to find is taken from a plain list. PDD_DEPTH: see depth.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <pagededup/interval.h>

#include "check_internal.h"
#include "depth.h"

#define USUAL_MOST 7u
#define MOST (USUAL_MOST + DEPTH_MAX)

static struct pdd_interval intervals[MOST];
static struct pdd_interval_tree tree;
static unsigned cases; /* orders and sequences that were tried */

static struct pdd_interval *interval_of(struct pdd_rbnode *rb)
{
	return pddi_container_of(rb, struct pdd_interval, priv.rb);
}

/* Every subtree_last of this subtree is right. Returns the number of its nodes. */
static unsigned assert_maxima(struct pdd_rbnode *rb, uint64_t *largest)
{
	uint64_t left = 0, right = 0;
	unsigned n;

	*largest = 0;
	if (!rb)
		return 0;
	n = 1 + assert_maxima(rb->left, &left) + assert_maxima(rb->right, &right);
	*largest = pdd_interval_last(interval_of(rb));
	if (left > *largest)
		*largest = left;
	if (right > *largest)
		*largest = right;
	if (interval_of(rb)->priv.subtree_last != *largest)
		fail_msg("the largest last number of a subtree is wrong");
	return n;
}

static void assert_valid(unsigned n)
{
	uint64_t largest;

	if (assert_maxima(tree.priv.root.node, &largest) != n)
		fail_msg("not %u nodes", n);
	if (pdd_interval_tree_check(&tree, NULL) != n)
		fail_msg("not valid, or not %u nodes", n);
}

static void insert(unsigned i, uint64_t first, uint64_t last)
{
	if (pdd_interval_insert(&tree, &intervals[i], first, last) != 0)
		fail_msg("insert failed");
}

/* The tree and all that is in it, to be put back as they were. */
struct saved {
	struct pdd_interval intervals[MOST];
	struct pdd_interval_tree tree;
};

static void save(struct saved *saved)
{
	memcpy(saved->intervals, intervals, sizeof(intervals));
	saved->tree = tree;
}

static void restore(const struct saved *saved)
{
	memcpy(intervals, saved->intervals, sizeof(intervals));
	tree = saved->tree;
}

/* The next permutation in lexical order; false after the last one. */
static bool permute(unsigned *places, unsigned n)
{
	unsigned tail = n - 1, greater = n - 1, swapped;

	while (tail > 0 && places[tail - 1] > places[tail])
		tail--;
	if (tail == 0)
		return false;
	while (places[greater] < places[tail - 1])
		greater--;
	swapped = places[greater];
	places[greater] = places[tail - 1];
	places[tail - 1] = swapped;
	for (unsigned last = n - 1; tail < last; tail++, last--) {
		swapped = places[tail];
		places[tail] = places[last];
		places[last] = swapped;
	}
	return true;
}

static void identity(unsigned *places, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		places[i] = i;
}

/* Intervals [i, 100 + lasts[i]] come in this order; then each of them goes, from the same tree. */
static void insert_and_remove_each(const unsigned *order, const unsigned *lasts, unsigned n)
{
	struct saved saved;

	cases++;
	memset(&tree, 0, sizeof(tree));
	for (unsigned i = 0; i < n; i++) {
		insert(order[i], order[i], 100 + lasts[order[i]]);
		assert_valid(i + 1);
	}
	save(&saved);
	for (unsigned gone = 0; gone < n; gone++) {
		pdd_interval_remove(&tree, &intervals[gone]);
		assert_valid(n - 1);
		restore(&saved);
	}
}

/* Every order of insertion, every ranking of the last numbers. */
static void test_every_order_and_ranking(void **unused)
{
	for (unsigned n = 1; n <= 5; n++) {
		unsigned order[MOST], lasts[MOST];

		identity(order, n);
		do {
			identity(lasts, n);
			do
				insert_and_remove_each(order, lasts, n);
			while (permute(lasts, n));
		} while (permute(order, n));
	}
}

/* Every order of insertion of more; the largest last number is at each place in turn. */
static void test_every_order(void **unused)
{
	for (unsigned n = 6; n <= USUAL_MOST + depth(); n++) {
		unsigned order[MOST], lasts[MOST];

		identity(order, n);
		do {
			for (unsigned turn = 0; turn < n; turn++) {
				for (unsigned i = 0; i < n; i++)
					lasts[i] = (i + turn) % n;
				insert_and_remove_each(order, lasts, n);
			}
		} while (permute(order, n));
	}
}

/* Intervals by number in the order that they should have: by first, then by insertion. */
static void sort(unsigned *sorted, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned at = i;

		for (; at && pdd_interval_first(&intervals[sorted[at - 1]]) >
				     pdd_interval_first(&intervals[i]);
		     at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = i;
	}
}

static const struct pdd_interval *expect(const unsigned *sorted, unsigned from, unsigned n,
					 unsigned gone, uint64_t first, uint64_t last)
{
	for (unsigned i = from; i < n; i++) {
		const struct pdd_interval *interval = &intervals[sorted[i]];

		if (sorted[i] != gone && pdd_interval_first(interval) <= last &&
		    pdd_interval_last(interval) >= first)
			return interval;
	}
	return NULL;
}

/* Every range of these points: the first that overlaps, and the next one behind every interval. */
static void ask_all(const unsigned *sorted, unsigned n, unsigned gone, const uint64_t *points,
		    unsigned npoints)
{
	for (unsigned a = 0; a < npoints; a++) {
		for (unsigned b = a; b < npoints; b++) {
			uint64_t first = points[a], last = points[b];

			if (pdd_interval_find_first(&tree, first, last) !=
			    expect(sorted, 0, n, gone, first, last))
				fail_msg("find_first");
			for (unsigned i = 0; i < n; i++) {
				if (sorted[i] != gone &&
				    pdd_interval_find_next(&intervals[sorted[i]], first, last) !=
					    expect(sorted, i + 1, n, gone, first, last))
					fail_msg("find_next");
			}
		}
	}
}

/* Every sequence of n ranges of these points, equal ones and all. */
static void try_sequences(unsigned n, const uint64_t *points, unsigned npoints)
{
	unsigned nranges = 0, sequences = 1, sorted[MOST];
	uint64_t ranges[16][2];
	struct saved saved;

	for (unsigned a = 0; a < npoints; a++) {
		for (unsigned b = a; b < npoints; b++, nranges++) {
			ranges[nranges][0] = points[a];
			ranges[nranges][1] = points[b];
		}
	}
	for (unsigned i = 0; i < n; i++)
		sequences *= nranges;

	for (unsigned sequence = 0; sequence < sequences; sequence++) {
		memset(&tree, 0, sizeof(tree));
		for (unsigned i = 0, rest = sequence; i < n; i++, rest /= nranges)
			insert(i, ranges[rest % nranges][0], ranges[rest % nranges][1]);
		assert_valid(n);
		sort(sorted, n);
		ask_all(sorted, n, MOST, points, npoints);

		save(&saved);
		for (unsigned gone = 0; gone < n; gone++) {
			pdd_interval_remove(&tree, &intervals[gone]);
			assert_valid(n - 1);
			ask_all(sorted, n, gone, points, npoints);
			restore(&saved);
		}
	}
	printf("%u ranges of %u points: %u sequences\n", n, npoints, sequences);
	cases += sequences;
}

static void test_every_sequence(void **unused)
{
	static const uint64_t three[] = {0, 1, UINT64_MAX};
	static const uint64_t four[] = {0, 6, 7, UINT64_MAX};

	for (unsigned n = 0; n <= 6; n++)
		try_sequences(n, three, 3);
	for (unsigned n = 0; n <= 4 + depth(); n++)
		try_sequences(n, four, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order_and_ranking),
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_every_sequence),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	printf("depth %u: %u cases\n", depth(), cases);
	return failed;
}
