/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_index.c - the index against an array that is sorted by checksum and rank, under checksums
 * that the input chooses; pdd_index_check() after each operation.
 *
 * Nodes of equal checksum are ordered by their rank, of which there are few, so that some are equal
 * in both: those stand before or behind each other as they were linked. Nothing is assumed of the
 * order of different checksums.
 *
 * Input: a byte for the number of roots and the form of checksums, then operations: a byte for the
 * kind and the node, and what it needs.
 */
#include <string.h>

#include <pagededup/index.h>

#include "fuzz.h"

#define NODES 32u
#define ROOTS_MAX 16u
#define RANKS 4u

struct entry {
	struct pdd_index_node node;
	unsigned rank;
	unsigned kind;
	bool linked;
};

/* What is searched for, or linked. */
struct key {
	uint64_t checksum;
	unsigned rank;
	int if_equal; /* 0 to find, else on which side of equal ones */
};

struct world {
	struct pdd_index index;
	struct pdd_rbroot roots[ROOTS_MAX];
	struct entry entries[NODES];
	struct entry *sorted[NODES]; /* those that are linked */
	unsigned n;
	unsigned form; /* of checksums */
	struct fuzz_bytes bytes;
};

static void start(struct world *world, uint64_t nroots)
{
	fuzz_require(pdd_index_init(&world->index, world->roots, ROOTS_MAX, nroots) == 0);
}

/* Few different ones, that differ in high bits, in low ones, in all; or any. */
static uint64_t checksum(struct world *world)
{
	uint64_t byte = fuzz_byte(&world->bytes), all = byte;

	switch (world->form) {
	case 0: return byte >> 4 << 60 | (byte & 15);
	case 1: return byte << 56 | (byte & 1);
	case 2: return byte * UINT64_C(0x9e3779b97f4a7c15);
	default:
		for (unsigned i = 1; i < 8; i++)
			all = all << 8 | fuzz_byte(&world->bytes);
		return all;
	}
}

static struct key read_key(struct world *world, int if_equal)
{
	struct key key = { .checksum = checksum(world), .if_equal = if_equal };

	key.rank = fuzz_byte(&world->bytes) % RANKS;
	return key;
}

static int order(void *ctx, const struct pdd_index_node *other)
{
	const struct entry *entry = (const struct entry *)(const void *)other;
	const struct key *key = ctx;

	fuzz_require(entry->linked && other->checksum == key->checksum);
	if (key->rank != entry->rank)
		return key->rank < entry->rank ? -1 : 1;
	return key->if_equal;
}

/* ---- the array ---- */

/* The place of the first entry that is not before the key; with if_equal 1 of one behind it. */
static unsigned place_of(const struct world *world, const struct key *key)
{
	unsigned i = 0;

	for (; i < world->n; i++) {
		const struct entry *entry = world->sorted[i];

		if (entry->node.checksum > key->checksum)
			break;
		if (entry->node.checksum == key->checksum &&
		    (entry->rank > key->rank || (entry->rank == key->rank && key->if_equal <= 0)))
			break;
	}
	return i;
}

static const struct pdd_index_node *node_at(const struct world *world, unsigned i,
					    uint64_t checksum)
{
	if (i >= world->n || world->sorted[i]->node.checksum != checksum)
		return NULL;
	return &world->sorted[i]->node;
}

static void array_remove(struct world *world, unsigned at)
{
	world->n--;
	memmove(&world->sorted[at], &world->sorted[at + 1],
		(world->n - at) * sizeof(world->sorted[0]));
}

static unsigned array_find(const struct world *world, const struct entry *entry)
{
	unsigned i = 0;

	while (world->sorted[i] != entry)
		i++;
	return i;
}

/* ---- operations ---- */

static void insert(struct world *world, struct entry *entry, bool behind)
{
	struct key key = read_key(world, behind ? 1 : -1);
	const struct key first = { key.checksum, 0, 0 };
	unsigned at = place_of(world, &key);
	struct pdd_index_slot slot;

	fuzz_require(!pdd_index_find_slot(&world->index, &slot, key.checksum, order, &key));
	fuzz_require(slot.beside ==
		     (node_at(world, place_of(world, &first), key.checksum) != NULL));
	entry->node.checksum = key.checksum;
	entry->rank = key.rank;
	entry->kind = key.rank % (PDD_KIND_GROUP + 1);
	pdd_index_link(&world->index, &slot, &entry->node, (enum pdd_kind)entry->kind);
	entry->linked = true;
	memmove(&world->sorted[at + 1], &world->sorted[at],
		(world->n - at) * sizeof(world->sorted[0]));
	world->sorted[at] = entry;
	world->n++;
}

static void remove_entry(struct world *world, struct entry *entry)
{
	pdd_index_remove(&world->index, &entry->node);
	memset(&entry->node.u, 0xa5, sizeof(entry->node.u));
	entry->linked = false;
	array_remove(world, array_find(world, entry));
}

/* Another node takes the place of this one, if there is one that is not linked. */
static void replace(struct world *world, struct entry *old)
{
	struct entry *entry = world->entries;

	while (entry < world->entries + NODES && entry->linked)
		entry++;
	if (entry == world->entries + NODES)
		return;
	entry->node.checksum = old->node.checksum;
	entry->rank = old->rank;
	entry->kind = (old->kind + 1) % (PDD_KIND_GROUP + 1);
	pdd_index_replace(&world->index, &old->node, &entry->node, (enum pdd_kind)entry->kind);
	memset(&old->node.u, 0xa5, sizeof(old->node.u));
	world->sorted[array_find(world, old)] = entry;
	entry->linked = true;
	old->linked = false;
}

/* What a search loads ahead are nodes of its way, or nothing. */
static void load_ahead(const struct world *world, uint64_t checksum)
{
	const struct pdd_index_node *node;

	pdd_index_prefetch(&world->index, checksum);
	node = pdd_index_prefetch_first(&world->index, checksum);
	for (unsigned i = 0; node; i++) {
		fuzz_require(i < NODES);
		fuzz_require(((const struct entry *)(const void *)node)->linked);
		node = pdd_index_prefetch_below(node, checksum);
	}
}

static void find(struct world *world)
{
	struct key key = read_key(world, 0);
	const struct key first = { key.checksum, 0, 0 };
	unsigned at = place_of(world, &key);
	const struct pdd_index_node *expected = node_at(world, at, key.checksum);

	if (expected && world->sorted[at]->rank != key.rank)
		expected = NULL;
	load_ahead(world, key.checksum);
	fuzz_require(pdd_index_find_slot(&world->index, NULL, key.checksum, order, &key) ==
		     expected);
	fuzz_require(pdd_index_find_slot(&world->index, NULL, key.checksum, NULL, NULL) ==
		     node_at(world, place_of(world, &first), key.checksum));
}

static void check_neighbours(const struct world *world, const struct entry *entry)
{
	unsigned at = array_find(world, entry);
	uint64_t checksum = entry->node.checksum;

	fuzz_require(pdd_index_next_equal(&entry->node) == node_at(world, at + 1, checksum));
	fuzz_require(pdd_index_prev_equal(&entry->node) ==
		     (at ? node_at(world, at - 1, checksum) : NULL));
	fuzz_require(pdd_index_kind(&entry->node) == entry->kind);
}

static void operate(struct world *world)
{
	unsigned byte = fuzz_byte(&world->bytes);
	struct entry *entry = &world->entries[byte % NODES];
	const char *why = NULL;

	if (!entry->linked && byte / NODES < 6)
		insert(world, entry, byte / NODES % 2);
	else if (!entry->linked || byte / NODES < 2)
		find(world);
	else if (byte / NODES < 3)
		replace(world, entry);
	else if (byte / NODES < 6)
		check_neighbours(world, entry);
	else
		remove_entry(world, entry);
	fuzz_require(pdd_index_check(&world->index, &why) == (int64_t)world->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world world = { .bytes = fuzz_bytes(data, size) };
	unsigned byte = fuzz_byte(&world.bytes);

	world.form = byte / 8 % 4;
	start(&world, UINT64_C(1) << byte % 8 % 5);
	while (fuzz_left(&world.bytes))
		operate(&world);
	for (unsigned i = 0; i < world.n; i++)
		check_neighbours(&world, world.sorted[i]);
	return 0;
}
