/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_augment_shapes.c - every red-black tree of up to 13 nodes, with every insertion, removal and
 * replacement by the augmented functions; and random changes of a large tree.
 *
 * The value of a node is a digest that depends on the shape of its subtree and on every node of it,
 * so that none can be left out of date unseen. After each change every value is derived anew, and
 * the tree is the one that the plain function makes. The callback itself sees that the values below
 * are right by then, that it is called for nodes of the tree only, and at most once for each.
 *
 * 13 nodes are the fewest for which a hole that was handed up one level meets all of R1, R3 and R4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pagededup/rbtree.h>

#include "check_internal.h"
#include "depth.h"

#define USUAL_NODES 13u
#define NODES (USUAL_NODES + DEPTH_MAX)
#define HEIGHTS 4u /* black heights of up to 14 nodes: 0 .. 3 */
#define LARGE 700u

struct entry {
	struct pdd_rbnode rb;
	uint64_t value;
	unsigned calls;
	bool in;
};

enum change {
	INSERT,
	REMOVE,
	REPLACE,
};

/* entries[i] stands at place i of the order; the spare one is for insertions and replacements */
static struct entry entries[LARGE];
static unsigned calls;
static unsigned cases; /* trees */
static bool values_below_are_checked;

static struct entry *entry_of(struct pdd_rbnode *rb)
{
	return pddi_container_of(rb, struct entry, rb);
}

static uint64_t value_of(struct pdd_rbnode *rb)
{
	return rb ? entry_of(rb)->value : 1;
}

/* Nothing cancels out: left, right and the node itself count differently. */
static uint64_t digest(uint64_t left, struct pdd_rbnode *rb, uint64_t right)
{
	uint64_t z = left * UINT64_C(0x9e3779b97f4a7c15) + right * UINT64_C(0xc2b2ae3d27d4eb4f) +
		     (uint64_t)(entry_of(rb) - entries);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	return z ^ z >> 31;
}

static uint64_t derive(struct pdd_rbnode *rb)
{
	return rb ? digest(derive(rb->left), rb, derive(rb->right)) : 1;
}

static void augment(struct pdd_rbnode *rb)
{
	assert_true(entry_of(rb)->in);
	assert_true(entry_of(rb)->calls++ == 0);
	calls++;
	if (values_below_are_checked) {
		assert_true(value_of(rb->left) == derive(rb->left));
		assert_true(value_of(rb->right) == derive(rb->right));
	}
	entry_of(rb)->value = digest(value_of(rb->left), rb, value_of(rb->right));
}

/* All values of a subtree are right. Returns that of its top, derived anew. */
static uint64_t assert_augmented(struct pdd_rbnode *rb)
{
	uint64_t value;

	if (!rb)
		return 1;
	value = assert_augmented(rb->left);
	value = digest(value, rb, assert_augmented(rb->right));
	if (value_of(rb) != value)
		fail_msg("the value of node %u is not right", (unsigned)(entry_of(rb) - entries));
	return value;
}

/* Number of trees of n nodes and this black height, by the colour of their root. */
static unsigned counts[NODES + 1][HEIGHTS][2];

static void count_trees(void)
{
	counts[0][0][0] = 1;
	for (unsigned n = 1; n <= NODES; n++) {
		for (unsigned h = 0; h < HEIGHTS; h++) {
			for (unsigned left = 0; left < n; left++) {
				unsigned right = n - 1 - left;
				const unsigned *l = counts[left][h], *r = counts[right][h];

				counts[n][h][1] += l[0] * r[0];
				if (h + 1 < HEIGHTS)
					counts[n][h + 1][0] += (l[0] + l[1]) * (r[0] + r[1]);
			}
		}
	}
}

/* The rank-th of the trees that counts[n][h][red] counts, of the entries from `first` on. */
static struct pdd_rbnode *build(unsigned first, unsigned n, unsigned h, bool red, unsigned rank,
				const struct pdd_rbnode *parent)
{
	unsigned below = red ? h : h - 1;

	if (n == 0)
		return NULL;
	for (unsigned left = 0; left < n; left++) {
		for (unsigned colours = 0; colours < (red ? 1u : 4u); colours++) {
			unsigned lefts = counts[left][below][colours & 1];
			unsigned rights = counts[n - 1 - left][below][colours >> 1];
			struct entry *top = &entries[first + left];

			if (rank >= lefts * rights) {
				rank -= lefts * rights;
				continue;
			}
			top->rb.parent = (uintptr_t)parent | red;
			top->rb.left =
				build(first, left, below, colours & 1, rank / rights, &top->rb);
			top->rb.right = build(first + left + 1, n - 1 - left, below, colours >> 1,
					      rank % rights, &top->rb);
			top->value =
				digest(value_of(top->rb.left), &top->rb, value_of(top->rb.right));
			return &top->rb;
		}
	}
	fail_msg("there is no such tree");
	return NULL;
}

static void plant(struct pdd_rbroot *root, unsigned n, unsigned h, unsigned rank)
{
	memset(entries, 0xa5, (NODES + 1) * sizeof(*entries));
	root->node = build(0, n, h, false, rank, NULL);
	for (unsigned i = 0; i <= NODES; i++) {
		entries[i].calls = 0;
		entries[i].in = i < n;
	}
}

static void insert(struct pdd_rbroot *root, unsigned at, struct pdd_rbnode *rb, bool augmented)
{
	struct pdd_rbnode *parent = NULL, **slot = &root->node;

	while (*slot) {
		parent = *slot;
		slot = at <= (unsigned)(entry_of(parent) - entries) ? &parent->left
								    : &parent->right;
	}
	if (augmented)
		pdd_rb_link_augmented(root, rb, parent, slot, 2, augment);
	else
		pdd_rb_link(root, rb, parent, slot, 2);
}

static void apply(struct pdd_rbroot *root, enum change change, unsigned at, bool augmented)
{
	struct pdd_rbnode *rb = &entries[at].rb, *spare = &entries[NODES].rb;

	if (change != INSERT)
		entries[at].in = false;
	if (change != REMOVE)
		entries[NODES].in = true;

	if (change == INSERT)
		insert(root, at, spare, augmented);
	else if (change == REMOVE && augmented)
		pdd_rb_remove_augmented(root, rb, augment);
	else if (change == REMOVE)
		pdd_rb_remove(root, rb);
	else if (augmented)
		pdd_rb_replace_augmented(root, rb, spare, 3, augment);
	else
		pdd_rb_replace(root, rb, spare, 3);
}

/* One change of a tree, in both ways. */
static void try_change(unsigned n, unsigned h, unsigned rank, enum change change, unsigned at)
{
	struct pdd_rbroot plain, root;
	struct entry expected[NODES + 1];

	plant(&plain, n, h, rank);
	apply(&plain, change, at, false);
	memcpy(expected, entries, sizeof(expected));

	plant(&root, n, h, rank);
	apply(&root, change, at, true);
	assert_ptr_equal(root.node, plain.node);
	for (unsigned i = 0; i <= NODES; i++) {
		if (entries[i].in)
			assert_memory_equal(&entries[i].rb, &expected[i].rb, sizeof(entries[i].rb));
	}
	assert_augmented(root.node);
}

static void test_every_tree(void **unused)
{
	values_below_are_checked = true;
	count_trees();
	for (unsigned n = 0; n <= USUAL_NODES + depth(); n++) {
		unsigned trees = 0;

		for (unsigned h = 0; h < HEIGHTS; h++) {
			for (unsigned rank = 0; rank < counts[n][h][0]; rank++, trees++) {
				struct pdd_rbroot root;

				plant(&root, n, h, rank);
				assert_int_equal(pdd_rb_check(&root, NULL), n);
				for (unsigned at = 0; at <= n; at++)
					try_change(n, h, rank, INSERT, at);
				for (unsigned at = 0; at < n; at++) {
					try_change(n, h, rank, REMOVE, at);
					try_change(n, h, rank, REPLACE, at);
				}
			}
		}
		printf("%u nodes: %u trees\n", n, trees);
		cases += trees;
	}
}

static void assert_large(const struct pdd_rbroot *root, unsigned n)
{
	unsigned most = 1;

	/* both children of at most 2 log2(n + 1) nodes, and the root */
	for (unsigned power = 1; power < n + 2; power *= 2)
		most += 4;
	assert_true(calls <= most);
	assert_int_equal(pdd_rb_check(root, NULL), n);
	assert_augmented(root->node);
	calls = 0;
	for (unsigned i = 0; i < LARGE; i++)
		entries[i].calls = 0;
}

static void shuffle(unsigned *places)
{
	for (unsigned i = 0; i < LARGE; i++) {
		unsigned other = (unsigned)rand() % (i + 1);

		if (other != i)
			places[i] = places[other];
		places[other] = i;
	}
}

static void test_large_tree(void **unused)
{
	struct pdd_rbroot root = {NULL};
	unsigned places[LARGE];

	values_below_are_checked = false;
	memset(entries, 0, sizeof(entries));
	calls = 0;
	shuffle(places);
	for (unsigned i = 0; i < LARGE; i++) {
		entries[places[i]].in = true;
		insert(&root, places[i], &entries[places[i]].rb, true);
		assert_large(&root, i + 1);
	}
	shuffle(places);
	for (unsigned i = 0; i < LARGE; i++) {
		entries[places[i]].in = false;
		pdd_rb_remove_augmented(&root, &entries[places[i]].rb, augment);
		assert_large(&root, LARGE - 1 - i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_tree),
		cmocka_unit_test(test_large_tree),
	};
	const char *given = getenv("PDD_SEED");
	unsigned seed = given ? (unsigned)strtoull(given, NULL, 0) : (unsigned)time(NULL);
	int failed;

	printf("PDD_SEED=%u\n", seed);
	srand(seed);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	printf("depth %u: %u cases\n", depth(), cases);
	return failed;
}
