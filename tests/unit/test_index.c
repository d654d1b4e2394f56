/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_index.c - the forest against a plain list: order, first of equal ones, slots, replacing; for
 * numbers of roots from 1 to more than nodes, checksums from all different to all equal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/index.h>

#include "sim.h"

#define NODES 200u
#define OPERATIONS 3000u

/* Ordered by checksum, then by rank. */
struct entry {
	struct pdd_index_node node;
	uint64_t rank;
	bool linked;
};

static struct entry entries[NODES];
static uint64_t state;

static int by_rank(void *ctx, const struct pdd_index_node *other)
{
	const struct entry *entry = (const struct entry *)(const void *)other;
	uint64_t rank = *(const uint64_t *)ctx;

	return (rank > entry->rank) - (rank < entry->rank);
}

/* The first linked one, in order, of this checksum and rank (any rank if NULL). */
static struct entry *expected(uint64_t checksum, const uint64_t *rank)
{
	struct entry *first = NULL;

	for (unsigned i = 0; i < NODES; i++) {
		struct entry *entry = &entries[i];

		if (entry->linked && entry->node.checksum == checksum &&
		    (!rank || entry->rank == *rank) && (!first || entry->rank < first->rank))
			first = entry;
	}
	return first;
}

/* The linked one behind an entry of the same checksum. */
static struct entry *expected_next(const struct entry *entry)
{
	struct entry *next = NULL;

	for (unsigned i = 0; i < NODES; i++)
		if (entries[i].linked && entries[i].node.checksum == entry->node.checksum &&
		    entries[i].rank > entry->rank && (!next || entries[i].rank < next->rank))
			next = &entries[i];
	return next;
}

static void insert(struct pdd_index *index, struct entry *entry)
{
	struct pdd_index_slot slot;

	pdd_index_prefetch(index, entry->node.checksum);
	assert_null(pdd_index_find_slot(index, &slot, entry->node.checksum, by_rank, &entry->rank));
	pdd_index_link(index, &slot, &entry->node, (enum pdd_kind)(entry->rank % 3));
	entry->linked = true;
}

static void replace(struct pdd_index *index, struct entry *old, struct entry *entry)
{
	entry->node.checksum = old->node.checksum;
	entry->rank = old->rank;
	pdd_index_replace(index, &old->node, &entry->node, PDD_KIND_GROUP);
	assert_int_equal(pdd_index_kind(&entry->node), PDD_KIND_GROUP);
	entry->linked = true;
	old->linked = false;
}

static void assert_found(struct pdd_index *index, struct entry *entry)
{
	uint64_t checksum = entry->node.checksum;
	struct pdd_index_node *next = entry->linked ? pdd_index_next_equal(&entry->node) : NULL;
	struct pdd_index_slot slot;

	assert_ptr_equal(pdd_index_find_slot(index, NULL, checksum, NULL, NULL),
			 expected(checksum, NULL));
	assert_ptr_equal(pdd_index_find_slot(index, &slot, checksum, by_rank, &entry->rank),
			 expected(checksum, &entry->rank));
	if (entry->linked)
		assert_ptr_equal(next, expected_next(entry));
}

static void run(uint64_t room, uint64_t nroots, uint64_t checksum_mask)
{
	struct pdd_rbroot *roots = calloc(room, sizeof(*roots));
	struct pdd_index index;
	int64_t linked = 0;

	assert_int_equal(pdd_index_init(&index, roots, room, nroots), 0);
	for (unsigned i = 0; i < NODES; i++)
		entries[i] = (struct entry){ .rank = i * 7 };
	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct entry *entry = &entries[sim_random_of(&state) % NODES];
		struct entry *other = &entries[sim_random_of(&state) % NODES];

		if (!entry->linked) {
			entry->node.checksum = sim_random_of(&state) & checksum_mask;
			entry->rank = (uint64_t)(entry - entries) * 7 + 1 + i * (NODES * 7);
			insert(&index, entry);
			linked++;
		} else if (!other->linked && i % 2) {
			replace(&index, entry, other);
		} else {
			pdd_index_remove(&index, &entry->node);
			entry->linked = false;
			linked--;
		}
		assert_found(&index, entry);
		assert_found(&index, other);
		assert_int_equal(pdd_index_check(&index, NULL), linked);
	}
	free(roots);
}

/* Bits that pick the root begin at bit 32. */
static const uint64_t masks[] = {
	UINT64_MAX, UINT64_C(0x8000000700000007), UINT64_C(3) << 32, 3, UINT64_C(1) << 31, 0,
};

static void test_random(void **unused)
{
	for (uint64_t room = 1; room <= 1024; room *= 4)
		for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
			run(room, room, masks[i]);
}

/* The table grows while all that goes on; NODES are enough for each room here. */
static void test_random_growing(void **unused)
{
	static const uint64_t rooms[] = { 2, 3, 7, 8, 9, 40 };

	for (unsigned r = 0; r < sizeof(rooms) / sizeof(rooms[0]); r++)
		for (unsigned i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
			run(rooms[r], 1 + r / 2, masks[i]);
}

/* The root of a checksum by the definition of linear hashing. */
static uint64_t expected_root(uint64_t checksum, uint64_t nroots)
{
	uint64_t key = checksum >> 32 | checksum << 32, size = 1;

	while (size < nroots)
		size *= 2;
	return key % size < nroots ? key % size : key % (size / 2);
}

/* Every number of roots from each first one on: as many as nodes while there is room, and no more;
 * those behind are not touched; nodes stay where their checksums say. */
static void test_growing(void **unused)
{
	enum { N = 600, ROOM = 500 };
	static struct entry many[N];
	static const uint64_t firsts[] = { 1, 2, 3, 64, 65, 499, 500 };

	for (unsigned f = 0; f < sizeof(firsts) / sizeof(firsts[0]); f++) {
		static struct pdd_rbroot roots[ROOM + 1];
		struct pdd_index index;

		memset(roots, 0, sizeof(roots));
		assert_int_equal(pdd_index_init(&index, roots, ROOM, firsts[f]), 0);
		for (uint64_t i = 0; i < N; i++) {
			uint64_t nroots = i + 1 < firsts[f] ? firsts[f] : i + 1 < ROOM ? i + 1 : ROOM;

			many[i] = (struct entry){ .rank = i };
			many[i].node.checksum = i % 5 ? sim_random_of(&state) : 0;
			insert(&index, &many[i]);
			assert_int_equal(index.nroots, nroots);
			for (uint64_t r = nroots; r <= ROOM; r++)
				assert_null(roots[r].node);
			assert_int_equal(pdd_index_check(&index, NULL), i + 1);
			for (uint64_t j = 0; j <= i; j += 7)
				assert_ptr_equal(pdd_index_root(&index, many[j].node.checksum),
						 &roots[expected_root(many[j].node.checksum, nroots)]);
		}
		/* It stays as large as it was. */
		for (uint64_t i = 0; i < N; i++)
			pdd_index_remove(&index, &many[i].node);
		assert_int_equal(pdd_index_check(&index, NULL), 0);
		assert_int_equal(index.nroots, ROOM);
	}
}

static void test_init(void **unused)
{
	struct pdd_rbroot roots[4] = { { 0 } };
	struct pdd_index index;

	assert_int_equal(pdd_index_init(&index, NULL, 4, 4), -EINVAL);
	assert_int_equal(pdd_index_init(&index, roots, 4, 0), -EINVAL);
	assert_int_equal(pdd_index_init(&index, roots, 3, 4), -EINVAL);
	assert_int_equal(pdd_index_init(&index, roots, UINT64_MAX, 4), -EINVAL);
	assert_int_equal(pdd_index_init(&index, roots, 3, 3), 0);
}

static void test_check_finds_corruption(void **unused)
{
	struct pdd_rbroot roots[2] = { { 0 } };
	struct pdd_index index;
	const char *why = NULL;

	assert_int_equal(pdd_index_init(&index, roots, 2, 2), 0);
	for (unsigned i = 0; i < 3; i++) {
		entries[i] = (struct entry){ .node = { .checksum = i }, .rank = i };
		insert(&index, &entries[i]);
	}
	assert_int_equal(pdd_index_check(&index, &why), 3);
	entries[1].node.checksum = 0; /* out of order: the order is 0, 2, 1 */
	assert_true(pdd_index_check(&index, &why) < 0);
	assert_non_null(why);
	entries[1].node.checksum = 1;
	index.nnodes++;
	why = NULL;
	assert_true(pdd_index_check(&index, &why) < 0);
	assert_non_null(why);
	index.nnodes--;
	entries[2].node.checksum = UINT64_MAX; /* in the wrong tree */
	why = NULL;
	assert_true(pdd_index_check(&index, &why) < 0);
	assert_non_null(why);
	entries[2].node.checksum = 2;
	assert_int_equal(pdd_index_check(&index, NULL), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_growing),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_check_finds_corruption),
	};

	state = sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
