/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ltp_phases.c - the phases of LTP's ksm01 to ksm04 (ksm-behaviour 3.4): three processes of
 * 128 MiB fill their memory anew, some bytes apart, and the figures are exact each time; then all
 * is unmerged.
 *
 * As there: smart scan is off, max_page_sharing is the number of all pages, each phase waits for
 * three full scans, figures are read between passes, and all look at their bytes afterwards. A
 * page is 8 bytes here, so that each of them can be given: only the number of pages matters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

#define PAGES_PER_MIB 256u
_Static_assert(3 * 128 * PAGES_PER_MIB == 98304, "the N of the table");
#define CHILDREN_MAX 4u
#define UNITS_MAX 128u

struct child {
	struct sim_region *units[UNITS_MAX]; /* its mappings */
	unsigned nunits;
	uint64_t word; /* what all of its pages are to be */
	uint64_t last; /* the last one */
};

struct world {
	struct sim *sim;
	struct child children[CHILDREN_MAX];
	unsigned nchildren;
	uint64_t npages; /* of all */
	bool touch_all;  /* children write all pages in each phase, or those that change */
};

static const struct phase {
	const char *bytes; /* of children 0, 1 and 2; more of them do as child 0 */
	char last;         /* the last byte of child 1, if it differs */
	uint64_t shared, unshared;
} phases[] = {
	{ "caa", 0, 2, 0 },
	{ "cba", 0, 3, 0 },
	{ "ddd", 0, 1, 0 },
	{ "ddd", 'e', 1, 1 },
};

/* A page of `byte`, whose last byte is `last`. */
static uint64_t page_of(char byte, char last)
{
	unsigned char bytes[sizeof(uint64_t)];
	uint64_t word;

	memset(bytes, byte, sizeof(bytes));
	bytes[sizeof(bytes) - 1] = (unsigned char)last;
	memcpy(&word, bytes, sizeof(word));
	return word;
}

static struct world world_of(unsigned nchildren, uint64_t mib, uint64_t unit, bool touch_all)
{
	struct world world = {
		.nchildren = nchildren,
		.npages = nchildren * mib * PAGES_PER_MIB,
		.touch_all = touch_all,
	};

	world.sim = sim_create(&(struct sim_options){
		.page_shift = 3,
		.limit = (uint32_t)world.npages,
		.aging = PDD_AGING_NONE,
	});
	for (unsigned c = 0; c < nchildren; c++) {
		struct sim_space *space = sim_space_add(world.sim, 0);

		world.children[c].nunits = (unsigned)(mib / unit);
		for (unsigned u = 0; u < world.children[c].nunits; u++)
			world.children[c].units[u] = sim_region_add(space, unit * PAGES_PER_MIB);
	}
	return world;
}

/* The page of a child's mapping. */
static uint64_t expected(const struct child *child, unsigned unit, uint64_t page)
{
	bool last = unit == child->nunits - 1 && page == child->units[unit]->npages - 1;

	return last ? child->last : child->word;
}

static void fill(struct world *world, const struct phase *phase)
{
	for (unsigned c = 0; c < world->nchildren; c++) {
		struct child *child = &world->children[c], old = *child;
		bool all = world->touch_all;
		char byte = phase->bytes[c < 3 ? c : 0];

		child->word = page_of(byte, byte);
		child->last = page_of(byte, c == 1 && phase->last ? phase->last : byte);
		for (unsigned u = 0; u < child->nunits; u++)
			for (uint64_t i = 0; i < child->units[u]->npages; i++)
				if (all || expected(child, u, i) != expected(&old, u, i))
					sim_write(child->units[u], i, expected(child, u, i));
	}
}

/* Each child's bytes are what it wrote. */
static void assert_bytes(const struct world *world)
{
	for (unsigned c = 0; c < world->nchildren; c++) {
		const struct child *child = &world->children[c];

		for (unsigned u = 0; u < child->nunits; u++) {
			for (uint64_t i = 0; i < child->units[u]->npages; i++) {
				uint64_t word = expected(child, u, i);

				assert_memory_equal(sim_content(child->units[u], i), &word,
						    sizeof(word));
			}
		}
	}
}

static void assert_figures(const struct world *world, uint64_t shared, uint64_t sharing,
			   uint64_t unshared)
{
	struct pdd_stats stats = sim_stats(world->sim);

	assert_int_equal(stats.pages_shared, shared);
	assert_int_equal(stats.pages_sharing, sharing);
	assert_int_equal(stats.counts.pages_volatile, 0);
	assert_int_equal(stats.counts.pages_unshared, unshared);
	assert_bytes(world);
}

/* run = 2: in pieces, until nothing is merged. */
static void unmerge_all(const struct world *world, uint64_t merged)
{
	uint64_t done = 0, piece = world->npages / 7;
	int64_t n;

	do {
		assert_true(sim_stats(world->sim).full_scans > 0);
		n = pdd_scanner_unmerge(&world->sim->scanner, piece);
		assert_true(n >= 0 && n <= (int64_t)piece);
		done += (uint64_t)n;
		sim_verify(world->sim);
	} while (n);
	assert_int_equal(done, merged);
	assert_figures(world, 0, 0, 0);
	assert_int_equal(sim_stats(world->sim).full_scans, 0);
	assert_int_equal(sim_stats(world->sim).counts.ksm_rmap_items, 0);
	assert_null(world->sim->frames);
}

static void run(unsigned nchildren, uint64_t mib, uint64_t unit, bool touch_all)
{
	struct world world = world_of(nchildren, mib, unit, touch_all);
	const unsigned nphases = sizeof(phases) / sizeof(phases[0]);

	for (unsigned i = 0; i < nphases; i++) {
		const struct phase *phase = &phases[i];

		fill(&world, phase);
		sim_passes(world.sim, 3);
		assert_figures(&world, phase->shared,
			       world.npages - phase->shared - phase->unshared, phase->unshared);
		assert_int_equal(sim_stats(world.sim).full_scans, 3 * (i + 1));
	}
	unmerge_all(&world, world.npages - 1);
	/* run = 1 again: as before. */
	sim_passes(world.sim, 2);
	assert_figures(&world, 1, world.npages - 2, 1);
	sim_destroy(world.sim);
}

/* ksm01_1 to ksm04_1: each process has one mapping. */
static void test_unit_128(void **unused)
{
	run(3, 128, 128, true);
}

/* ksm01 to ksm04: mappings of 1 MiB. Pages that a process fills with what they are stay shared. */
static void test_unit_1(void **unused)
{
	run(3, 128, 1, false);
}

/* A fourth process does as the first one. */
static void test_more_children(void **unused)
{
	run(4, 8, 8, true);
	run(4, 8, 1, false);
}

/* s26: a chain of many dups; its leader leaves again and again. */
static void test_long_chain(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 2, .nroots = 1 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 98304);

	for (uint64_t i = 0; i < region->npages; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 49152);
	assert_int_equal(sim_stats(sim).stable_node_dups, 49152);
	assert_int_equal(sim_unmerge(region, 0, region->npages), 98304);
	assert_int_equal(sim_stats(sim).stable_node_dups, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unit_128),
		cmocka_unit_test(test_unit_1),
		cmocka_unit_test(test_more_children),
		cmocka_unit_test(test_long_chain),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
