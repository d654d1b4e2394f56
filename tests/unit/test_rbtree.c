/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rbtree.c - the tree keeps order, tags and its invariants under random operations; and
 * pdd_rb_check finds every kind of corruption.
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

#include <pagededup/rbtree.h>

#include "check_internal.h"

#define NENTRIES 256u
#define NOPERATIONS 20000u
#define RED ((uintptr_t)1)

struct entry {
	uint64_t key;
	unsigned tag;
	struct pdd_rbnode node;
};

static uint64_t state;

static uint64_t next_random(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static struct entry *entry_of(struct pdd_rbnode *node)
{
	return pddi_container_of(node, struct entry, node);
}

static void insert(struct pdd_rbroot *root, struct entry *entry)
{
	struct pdd_rbnode *parent = NULL, **slot = &root->node;

	while (*slot) {
		parent = *slot;
		slot = entry->key < entry_of(parent)->key ? &parent->left : &parent->right;
	}
	pdd_rb_link(root, &entry->node, parent, slot, entry->tag);
}

/* A tree of the keys 0 .. n-1 in entries of an array, inserted in this order or the reverse. */
static void plant(struct pdd_rbroot *root, struct entry *entries, unsigned n, bool reverse)
{
	root->node = NULL;
	for (unsigned i = 0; i < n; i++) {
		struct entry *entry = &entries[reverse ? n - 1 - i : i];

		*entry = (struct entry){.key = (uint64_t)(entry - entries)};
		insert(root, entry);
	}
}

/* The tree must hold exactly these entries, in this order, in both directions. */
static void assert_holds(const struct pdd_rbroot *root, struct entry *const *sorted, unsigned n)
{
	const char *why = "untouched";
	struct pdd_rbnode *node;

	assert_int_equal(pdd_rb_check(root, &why), n);
	assert_null(why);

	node = pdd_rb_first(root);
	for (unsigned i = 0; i < n; i++, node = pdd_rb_next(node)) {
		assert_ptr_equal(node, &sorted[i]->node);
		assert_int_equal(pdd_rb_tag(node), sorted[i]->tag);
	}
	assert_null(node);
	node = pdd_rb_last(root);
	for (unsigned i = n; i-- > 0; node = pdd_rb_prev(node))
		assert_ptr_equal(node, &sorted[i]->node);
	assert_null(node);
}

static void test_random_operations(void **unused)
{
	static struct entry entries[NENTRIES];
	struct entry *sorted[NENTRIES], *outside[NENTRIES];
	struct pdd_rbroot root = {NULL};
	unsigned inside = 0, n = NENTRIES;

	(void)unused;
	for (unsigned i = 0; i < NENTRIES; i++)
		outside[i] = &entries[i];

	for (unsigned op = 0; op < NOPERATIONS; op++) {
		/* the share of insertions swings, so that the tree fills and empties */
		bool grow = next_random() % 8 < (op / 1000 % 2 ? 3u : 5u);

		if (grow && inside < NENTRIES) {
			unsigned pick = (unsigned)(next_random() % (n - inside)), at = inside;
			struct entry *entry = outside[pick];

			outside[pick] = outside[n - inside - 1];
			entry->key = next_random() % 1024; /* some are equal */
			entry->tag = (unsigned)next_random() & PDD_RB_TAG_MAX;
			memset(&entry->node, 0xa5, sizeof(entry->node));
			while (at && sorted[at - 1]->key > entry->key) {
				sorted[at] = sorted[at - 1];
				at--;
			}
			sorted[at] = entry;
			inside++;
			insert(&root, entry);
		} else if (inside && next_random() % 4) {
			unsigned pick = (unsigned)(next_random() % inside);
			struct entry *entry = sorted[pick];

			inside--;
			memmove(sorted + pick, sorted + pick + 1,
				(inside - pick) * sizeof(*sorted));
			outside[n - inside - 1] = entry;
			pdd_rb_remove(&root, &entry->node);
		} else if (inside && inside < NENTRIES) {
			unsigned pick = (unsigned)(next_random() % inside);
			struct entry *old = sorted[pick], *entry = outside[0];

			entry->key = old->key;
			entry->tag = (unsigned)next_random() & PDD_RB_TAG_MAX;
			memset(&entry->node, 0x5a, sizeof(entry->node));
			pdd_rb_replace(&root, &old->node, &entry->node, entry->tag);
			memset(&old->node, 0xff, sizeof(old->node));
			sorted[pick] = entry;
			outside[0] = old;
		}
		assert_holds(&root, sorted, inside);
	}
	while (inside) {
		pdd_rb_remove(&root, &sorted[--inside]->node);
		assert_holds(&root, sorted, inside);
	}
	assert_null(root.node);
}

static void test_empty(void **unused)
{
	struct pdd_rbroot root = {NULL};

	(void)unused;
	assert_null(pdd_rb_first(&root));
	assert_null(pdd_rb_last(&root));
	assert_int_equal(pdd_rb_check(&root, NULL), 0);
}

static unsigned height(const struct pdd_rbnode *node)
{
	unsigned left, right;

	if (!node)
		return 0;
	left = height(node->left);
	right = height(node->right);
	return 1 + (left > right ? left : right);
}

/* Sorted insertions, the worst for a plain search tree: no path is above 2 log2(n + 1). */
static void test_height(void **unused)
{
	static struct entry entries[4095];
	struct pdd_rbroot root;

	(void)unused;
	for (unsigned reverse = 0; reverse < 2; reverse++) {
		plant(&root, entries, 4095, reverse);
		assert_int_equal(pdd_rb_check(&root, NULL), 4095);
		assert_in_range(height(root.node), 12, 24);
	}
}

/* Each node of a tree is replaced: root, leaves and all between. */
static void test_replace_everywhere(void **unused)
{
	struct entry entries[15], other, *sorted[15];
	struct pdd_rbroot root;

	(void)unused;
	for (unsigned victim = 0; victim < 15; victim++) {
		plant(&root, entries, 15, false);
		for (unsigned i = 0; i < 15; i++)
			sorted[i] = &entries[i];
		other = (struct entry){.key = victim, .tag = PDD_RB_TAG_MAX};
		pdd_rb_replace(&root, &entries[victim].node, &other.node, other.tag);
		sorted[victim] = &other;
		assert_holds(&root, sorted, 15);
	}
}

static void assert_broken(const struct pdd_rbroot *root, const char *part_of_why)
{
	const char *why = NULL;

	assert_int_equal(pdd_rb_check(root, &why), -EUCLEAN);
	assert_non_null(why);
	if (!strstr(why, part_of_why))
		fail_msg("expected \"%s\", got \"%s\"", part_of_why, why);
	assert_int_equal(pdd_rb_check(root, NULL), -EUCLEAN);
}

/* Each case breaks one thing, sees it reported, and mends it. */
/* Trees of up to 200 nodes, grown upwards, downwards, and with every third node gone, cut at every
 * place. */
static void test_split_everywhere(void **unused)
{
	static struct entry entries[200];
	struct entry *sorted[200];

	(void)unused;
	for (unsigned n = 1; n <= 200; n += n < 20 ? 1 : 37) {
		for (unsigned at = 0; at < 3 * (n + 1); at++) {
			struct pdd_rbroot root, behind = {NULL};
			struct pdd_rbnode *parent = NULL, **slot = &root.node;
			unsigned left = 0, place = at / 3, before = 0;

			plant(&root, entries, n, at % 3 == 1);
			for (unsigned i = 0; i < n; i++) {
				if (at % 3 == 2 && i % 3 == 1) {
					pdd_rb_remove(&root, &entries[i].node);
					continue;
				}
				before += i < place;
				sorted[left++] = &entries[i];
			}
			while (*slot) {
				parent = *slot;
				slot = entry_of(parent)->key < place ? &parent->right : &parent->left;
			}
			pdd_rb_split(&root, parent, slot, &behind);
			assert_holds(&root, sorted, before);
			assert_holds(&behind, sorted + before, left - before);
		}
	}
}

static void test_check_finds_corruption(void **unused)
{
	struct entry entries[31];
	struct pdd_rbroot root;
	struct pdd_rbnode *top, *left, *saved;
	uintptr_t word;

	(void)unused;
	plant(&root, entries, 31, false);
	assert_int_equal(pdd_rb_check(&root, NULL), 31);
	top = root.node;
	left = top->left;

	root.node = (struct pdd_rbnode *)((uintptr_t)top + 4);
	assert_broken(&root, "root pointer is not aligned");
	root.node = left;
	assert_broken(&root, "root has a parent");
	root.node = top;

	top->parent |= RED;
	assert_broken(&root, "root is red");
	top->parent &= ~RED;

	saved = left->right;
	left->right = (struct pdd_rbnode *)((uintptr_t)saved + 1);
	assert_broken(&root, "child pointer is not aligned");
	left->right = left->left;
	assert_broken(&root, "both children");
	left->right = saved;

	word = left->parent;
	left->parent = (uintptr_t)top->right | (word & 7);
	assert_broken(&root, "does not name its parent");
	left->parent = word & 7;
	assert_broken(&root, "does not name its parent");
	left->parent = word;

	assert_int_equal(pdd_rb_check(&root, NULL), 31);
}

/* Links that lead back into the tree: the walk must end, and report them. */
static void test_check_ends_on_cycles(void **unused)
{
	struct entry entries[31];
	struct pdd_rbroot root;

	(void)unused;
	plant(&root, entries, 31, false);
	for (unsigned i = 0; i < 31; i++) {
		struct pdd_rbnode *node = &entries[i].node;
		struct pdd_rbnode *left = node->left, *right = node->right;

		for (unsigned j = 0; j < 31; j++) {
			if (&entries[j].node != left) {
				node->left = &entries[j].node;
				assert_int_equal(pdd_rb_check(&root, NULL), -EUCLEAN);
				node->left = left;
			}
			if (&entries[j].node != right) {
				node->right = &entries[j].node;
				assert_int_equal(pdd_rb_check(&root, NULL), -EUCLEAN);
				node->right = right;
			}
		}
	}
	assert_int_equal(pdd_rb_check(&root, NULL), 31);
}

/* One node of the other colour: a red pair, a red root or unequal black heights, always. */
static void test_check_finds_every_flipped_colour(void **unused)
{
	struct entry entries[40];
	struct pdd_rbroot root;
	unsigned pairs = 0, heights = 0;

	(void)unused;
	plant(&root, entries, 40, false);
	for (unsigned i = 0; i < 40; i++) {
		const char *why = NULL;

		entries[i].node.parent ^= RED;
		assert_int_equal(pdd_rb_check(&root, &why), -EUCLEAN);
		pairs += strstr(why, "red child") != NULL;
		heights += strstr(why, "black heights") != NULL;
		entries[i].node.parent ^= RED;
	}
	assert_true(pairs > 0 && heights > 0);
	assert_int_equal(pairs + heights, 39); /* and the root */
}

/* A red leaf below each red leaf, on either side: nothing but the red pair is wrong. */
static void test_check_finds_red_pairs(void **unused)
{
	struct entry entries[40], extra = {.key = 0};
	struct pdd_rbroot root;
	unsigned found = 0;

	(void)unused;
	plant(&root, entries, 40, false);
	for (unsigned i = 0; i < 40; i++) {
		struct pdd_rbnode *leaf = &entries[i].node;

		if (!(leaf->parent & RED) || leaf->left || leaf->right)
			continue;
		extra.node = (struct pdd_rbnode){.parent = (uintptr_t)leaf | RED};
		leaf->left = &extra.node;
		assert_broken(&root, "a red node has a red child");
		leaf->left = NULL;
		leaf->right = &extra.node;
		assert_broken(&root, "a red node has a red child");
		leaf->right = NULL;
		found++;
	}
	assert_true(found > 0);
}

/* A lost subtree: its black height is missed; only a red leaf can go unseen, but is not counted. */
static void test_check_misses_no_subtree(void **unused)
{
	struct entry entries[40];
	struct pdd_rbroot root;

	(void)unused;
	plant(&root, entries, 40, false);
	for (unsigned i = 0; i < 40; i++) {
		struct pdd_rbnode *node = &entries[i].node;
		struct pdd_rbnode *parent = (struct pdd_rbnode *)(node->parent & ~(uintptr_t)7);
		bool red_leaf = (node->parent & RED) && !node->left && !node->right;
		struct pdd_rbnode **slot;

		if (!parent)
			continue;
		slot = parent->left == node ? &parent->left : &parent->right;
		*slot = NULL;
		assert_int_equal(pdd_rb_check(&root, NULL), red_leaf ? 39 : -EUCLEAN);
		*slot = node;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_height),
		cmocka_unit_test(test_replace_everywhere),
		cmocka_unit_test(test_split_everywhere),
		cmocka_unit_test(test_check_finds_corruption),
		cmocka_unit_test(test_check_ends_on_cycles),
		cmocka_unit_test(test_check_finds_every_flipped_colour),
		cmocka_unit_test(test_check_finds_red_pairs),
		cmocka_unit_test(test_check_misses_no_subtree),
	};
	const char *seed = getenv("PDD_SEED");

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("PDD_SEED=%" PRIu64 "\n", state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
