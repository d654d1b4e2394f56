/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rbtree_shapes.c - every red-black tree of up to 8 nodes, with every insertion, removal and
 * replacement and cut; every order of insertion of up to 8 nodes; every order of removal of up to 6.
 *
 * The trees are found by trying all shapes and all colourings, and asking pdd_rb_check. How many
 * must pass is computed by a recurrence that knows nothing of pointers, so the check is proven not
 * to be too lax or too strict on any of them. PDD_DEPTH: see depth.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>

#include <pagededup/rbtree.h>

#include "depth.h"

#define USUAL_NODES 8u
#define ORDERED_REMOVALS 6u
#define NODES (USUAL_NODES + DEPTH_MAX)

/* nodes[i] stands at place i of the order; the spare one is for insertions and replacements */
static struct pdd_rbnode nodes[NODES + 1];
static unsigned cases; /* trees and orders that were tried */

static unsigned shapes(unsigned n)
{
	unsigned sum = 0;

	if (n == 0)
		return 1;
	for (unsigned left = 0; left < n; left++)
		sum += shapes(left) * shapes(n - 1 - left);
	return sum;
}

static unsigned tag_of(unsigned i)
{
	return (i + i / 4) & PDD_RB_TAG_MAX;
}

/* The rank-th shape of the n nodes from `first` on, coloured by the bits of `colours`. */
static struct pdd_rbnode *build(unsigned first, unsigned n, unsigned rank, unsigned colours,
				const struct pdd_rbnode *parent)
{
	struct pdd_rbnode *node;
	unsigned left = 0, rights, top;

	if (n == 0)
		return NULL;
	while (rank >= shapes(left) * shapes(n - 1 - left)) {
		rank -= shapes(left) * shapes(n - 1 - left);
		left++;
	}
	rights = shapes(n - 1 - left);
	top = first + left;
	node = &nodes[top];
	node->parent = (uintptr_t)parent | tag_of(top) << 1 | (colours >> top & 1);
	node->left = build(first, left, rank / rights, colours, node);
	node->right = build(top + 1, n - 1 - left, rank % rights, colours, node);
	return node;
}

/* Number of trees of n nodes and this black height, by the colour of their root. */
static unsigned count(unsigned n, unsigned black_height, bool red)
{
	unsigned sum = 0, below = red ? black_height : black_height - 1;

	if (n == 0)
		return !red && black_height == 0;
	if (!red && black_height == 0)
		return 0;
	for (unsigned left = 0; left < n; left++) {
		unsigned right = n - 1 - left;

		sum += (count(left, below, false) + (red ? 0 : count(left, below, true))) *
		       (count(right, below, false) + (red ? 0 : count(right, below, true)));
	}
	return sum;
}

/* The tree holds these n nodes in this order, and is valid. */
static void assert_holds(const struct pdd_rbroot *root, struct pdd_rbnode *const *order, unsigned n)
{
	struct pdd_rbnode *node = pdd_rb_first(root);

	if (pdd_rb_check(root, NULL) != n)
		fail_msg("not valid, or not %u nodes", n);
	for (unsigned i = 0; i < n; i++, node = pdd_rb_next(node)) {
		if (node != order[i] || pdd_rb_tag(node) != tag_of((unsigned)(node - nodes)))
			fail_msg("wrong node or tag at place %u of %u", i, n);
	}
	assert_null(node);
}

/* Where a descent to place `at` ends. */
static struct pdd_rbnode **find_place(struct pdd_rbroot *root, struct pdd_rbnode **parent,
				      unsigned at)
{
	struct pdd_rbnode **slot = &root->node;

	*parent = NULL;
	while (*slot) {
		*parent = *slot;
		slot = at <= (unsigned)(*parent - nodes) ? &(*parent)->left : &(*parent)->right;
	}
	return slot;
}

/* Link nodes[NODES] so that it comes at place `at`. */
static void insert_at(struct pdd_rbroot *root, unsigned at)
{
	struct pdd_rbnode *parent, **slot = find_place(root, &parent, at);

	pdd_rb_link(root, &nodes[NODES], parent, slot, tag_of(NODES));
}

/* Cut before place `at`, and look at both parts. */
static void split_at(struct pdd_rbroot *root, unsigned at, unsigned n)
{
	struct pdd_rbnode *parent, **slot = find_place(root, &parent, at), *order[NODES];
	struct pdd_rbroot behind = {NULL};

	for (unsigned i = 0; i < n; i++)
		order[i] = &nodes[i];
	pdd_rb_split(root, parent, slot, &behind);
	assert_holds(root, order, at);
	assert_holds(&behind, order + at, n - at);
}

/* All that can be done to one tree, each time to a fresh copy of it. */
static void try_all(unsigned n, unsigned rank, unsigned colours)
{
	struct pdd_rbnode *order[NODES + 1];
	struct pdd_rbroot root;

	for (unsigned at = 0; at <= n; at++) {
		for (unsigned i = 0; i <= n; i++)
			order[i] = &nodes[i == at ? NODES : i < at ? i : i - 1];
		root.node = build(0, n, rank, colours, NULL);
		insert_at(&root, at);
		assert_holds(&root, order, n + 1);
		if (n) {
			root.node = build(0, n, rank, colours, NULL);
			split_at(&root, at, n);
		}
	}
	for (unsigned at = 0; at < n; at++) {
		for (unsigned i = 0; i < n - 1; i++)
			order[i] = &nodes[i < at ? i : i + 1];
		root.node = build(0, n, rank, colours, NULL);
		pdd_rb_remove(&root, &nodes[at]);
		assert_holds(&root, order, n - 1);

		for (unsigned i = 0; i < n; i++)
			order[i] = &nodes[i == at ? NODES : i];
		root.node = build(0, n, rank, colours, NULL);
		pdd_rb_replace(&root, &nodes[at], &nodes[NODES], tag_of(NODES));
		assert_holds(&root, order, n);
	}
}

static void test_every_tree(void **unused)
{
	(void)unused;
	for (unsigned n = 0; n <= USUAL_NODES + depth(); n++) {
		unsigned expected = 0, valid = 0;

		for (unsigned black_height = 0; black_height <= n; black_height++)
			expected += count(n, black_height, false);
		for (unsigned rank = 0; rank < shapes(n); rank++) {
			for (unsigned colours = 0; colours < 1u << n; colours++) {
				struct pdd_rbroot root = {build(0, n, rank, colours, NULL)};

				if (pdd_rb_check(&root, NULL) < 0)
					continue;
				valid++;
				try_all(n, rank, colours);
			}
		}
		printf("%u nodes: %u trees\n", n, valid);
		assert_int_equal(valid, expected);
		cases += valid;
	}
}

static void insert_sorted(struct pdd_rbroot *root, unsigned i)
{
	struct pdd_rbnode *parent = NULL, **slot = &root->node;

	while (*slot) {
		parent = *slot;
		slot = &nodes[i] < parent ? &parent->left : &parent->right;
	}
	pdd_rb_link(root, &nodes[i], parent, slot, tag_of(i));
}

static void swap(unsigned *a, unsigned *b)
{
	unsigned swapped = *a;

	*a = *b;
	*b = swapped;
}

/* The next permutation in lexical order; false after the last one. */
static bool permute(unsigned *places, unsigned n)
{
	unsigned tail = n - 1, greater = n - 1;

	while (tail > 0 && places[tail - 1] > places[tail])
		tail--;
	if (tail == 0)
		return false;
	while (places[greater] < places[tail - 1])
		greater--;
	swap(&places[tail - 1], &places[greater]);
	for (unsigned last = n - 1; tail < last; tail++, last--)
		swap(&places[tail], &places[last]);
	return true;
}

/* The nodes that are in, in order. */
static unsigned collect(struct pdd_rbnode **order, unsigned in)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NODES; i++) {
		if (in >> i & 1)
			order[n++] = &nodes[i];
	}
	return n;
}

static void plant(struct pdd_rbroot *root, const unsigned *places, unsigned n)
{
	root->node = NULL;
	for (unsigned i = 0; i < n; i++)
		insert_sorted(root, places[i]);
}

static void test_every_order_of_insertion(void **unused)
{
	(void)unused;
	for (unsigned n = 1; n <= USUAL_NODES + depth(); n++) {
		unsigned places[NODES], orders = 0, factorial = 1;

		for (unsigned i = 0; i < n; i++) {
			places[i] = i;
			factorial *= i + 1;
		}
		do {
			struct pdd_rbroot root = {NULL};
			struct pdd_rbnode *order[NODES];
			unsigned in = 0;

			orders++;
			for (unsigned i = 0; i < n; i++) {
				insert_sorted(&root, places[i]);
				in |= 1u << places[i];
				assert_holds(&root, order, collect(order, in));
			}
			for (unsigned gone = 0; gone < n; gone++) {
				if (gone)
					plant(&root, places, n);
				pdd_rb_remove(&root, &nodes[gone]);
				assert_holds(&root, order, collect(order, in & ~(1u << gone)));
			}
		} while (permute(places, n));
		assert_int_equal(orders, factorial);
		cases += orders;
	}
}

static void test_every_order_of_removal(void **unused)
{
	(void)unused;
	for (unsigned n = 1; n <= ORDERED_REMOVALS + depth(); n++) {
		unsigned places[NODES], gone[NODES];

		for (unsigned i = 0; i < n; i++)
			places[i] = i;
		do {
			for (unsigned i = 0; i < n; i++)
				gone[i] = i;
			do {
				struct pdd_rbroot root;
				struct pdd_rbnode *order[NODES];
				unsigned in = (1u << n) - 1;

				cases++;
				plant(&root, places, n);
				for (unsigned i = 0; i < n; i++) {
					pdd_rb_remove(&root, &nodes[gone[i]]);
					in &= ~(1u << gone[i]);
					assert_holds(&root, order, collect(order, in));
				}
			} while (permute(gone, n));
		} while (permute(places, n));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_tree),
		cmocka_unit_test(test_every_order_of_insertion),
		cmocka_unit_test(test_every_order_of_removal),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	printf("depth %u: %u cases\n", depth(), cases);
	return failed;
}
