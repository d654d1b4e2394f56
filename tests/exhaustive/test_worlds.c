/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_worlds.c - small worlds: every order of operations up to a bound, for up to 4 pages of 8
 * bytes with checksums of 2 bits.
 *
 * Operations are the write of one of some contents to a page, a step of one page, a whole pass,
 * unmerging a page or everything, a pin that comes or goes, a clone, a discard, and a region that
 * is removed. After each of them all that sim_verify() proves must hold: contents, structures,
 * statistics. Behind the last one everything is left alone for some passes, and then exactly that
 * must be shared which follows from the contents.
 *
 * A world is played from the start for each sequence; what it begins with does not count as
 * operations. Left out are sequences that differ from others in nothing that the library is told:
 * it does not see writes, so of writes in a row only the ascending order of pages counts, and of
 * two to one page only the later one. An operation that finds nothing to be done is none.
 *
 * PDD_DEPTH makes all sequences longer by so many operations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scanner_internal.h"
#include "sim.h"

#define DEPTH_MAX 16u
#define REGIONS_MAX 4u
#define CONTENTS_MAX 3u
#define QUIET_PASSES 20u

/* Operations behind the writes, which are numbered from 0. */
enum {
	STEP = 0,
	PASS = 1,
	UNMERGE_PAGE = 2,
	UNMERGE_ALL = 3,
	PIN = 4,
	CLONE = 5,
	DISCARD = 6,
	REMOVE = 7,
	OTHERS = 8,
};

struct world {
	const char *name;
	struct sim_options options;
	unsigned nregions; /* each in a space of its own */
	uint64_t npages;   /* of each */
	unsigned ncontents;
	uint64_t contents[CONTENTS_MAX]; /* those of one checksum: 0 and 3; 1 and 4 */
	bool one_space; /* all of them in one */
	bool sparse;
	const char *begin; /* pages by number of content, '-': absent; then passes */
	unsigned begin_passes;
	unsigned depth;
};

/* What is played. */
static const struct world *world;
static unsigned sequence[DEPTH_MAX], depth;

static struct {
	struct sim *sim;
	struct sim_region *regions[REGIONS_MAX]; /* NULL: removed */
	unsigned nregions;
	bool pinned;
	bool cloned;
} play;

static unsigned nwrites(void)
{
	return world->nregions * (unsigned)world->npages * world->ncontents;
}

/* ---- operations; each says whether there was anything to do ---- */

static bool write_one(unsigned number)
{
	unsigned content = number % world->ncontents, page = number / world->ncontents;
	struct sim_region *region = play.regions[page / world->npages];

	if (!region)
		return false;
	sim_write(region, page % world->npages, world->contents[content]);
	return true;
}

static bool has_own_memory(const struct sim_region *region, uint64_t page)
{
	return region->pages[page].kind != PDD_PAGE_SHARED &&
	       region->pages[page].kind != PDD_PAGE_ZERO;
}

static bool pin(void)
{
	struct sim_region *region = play.regions[0];

	if (!region)
		return false;
	play.pinned = !play.pinned;
	assert_int_equal(play.pinned ? pdd_region_pin(&region->region, 0, 1)
				     : pdd_region_unpin(&region->region, 0, 1), 0);
	if (play.pinned && !has_own_memory(region, 0))
		sim_fail("a pinned page has no memory of its own");
	return true;
}

/* Once, of the space of the first region. */
static bool clone(void)
{
	if (play.cloned || world->options.no_clones || !play.regions[0])
		return false;
	play.cloned = true;
	sim_space_clone(play.regions[0]->space);
	return true;
}

static bool discard(void)
{
	struct sim_region *region = play.regions[0];

	if (!region || region->pages[0].kind == PDD_PAGE_ABSENT || play.pinned)
		return false;
	assert_int_equal(pdd_region_discard(&region->region, 0, 1), 0);
	return true;
}

/* The last one that is left, but not the only one. */
static bool remove_last(void)
{
	for (unsigned i = world->nregions; i-- > 1;) {
		if (play.regions[i]) {
			sim_region_remove(play.regions[i]);
			play.regions[i] = NULL;
			return true;
		}
	}
	return false;
}

static bool operate(unsigned number)
{
	struct sim *sim = play.sim;

	if (number < nwrites())
		return write_one(number);
	switch (number - nwrites()) {
	case STEP: sim_step(sim, 1); return true;
	case PASS: sim_step(sim, UINT64_MAX); return true;
	case UNMERGE_PAGE:
		return play.regions[0] && pdd_region_unmerge(&play.regions[0]->region, 0, 1, 1) > 0;
	case UNMERGE_ALL: return pdd_scanner_unmerge(&sim->scanner, UINT64_MAX) > 0;
	case PIN: return pin();
	case CLONE: return clone();
	case DISCARD: return discard();
	case REMOVE: return remove_last();
	}
	return false;
}

/* ---- a sequence ---- */

static void begin(void)
{
	struct sim_options options = world->options;
	struct sim_space *space = NULL;

	options.page_shift = 3;
	options.nroots = 4;
	options.checksum = SIM_CHECKSUM_2_BITS;
	options.aging = PDD_AGING_NONE;
	play.sim = sim_create(&options);
	play.pinned = play.cloned = false;
	for (unsigned i = 0; i < world->nregions; i++) {
		if (!space || !world->one_space)
			space = sim_space_add(play.sim, 0);
		play.regions[i] = sim_region_add_with(space, world->npages, world->npages,
						      world->sparse);
	}
	for (unsigned i = 0; world->begin && world->begin[i]; i++)
		if (world->begin[i] != '-')
			sim_write(play.regions[i / world->npages], i % world->npages,
				  world->contents[world->begin[i] - '0']);
	sim_passes(play.sim, world->begin_passes);
}

/* Everything is left alone: then all is shared that can be. */
static void quiet_phase(void)
{
	struct sim *sim = play.sim;

	if (play.pinned)
		assert_int_equal(pdd_region_unpin(&play.regions[0]->region, 0, 1), 0);
	sim_passes(sim, 3); /* the end of one, and two looks */
	sim_settle(sim, QUIET_PASSES);
	sim_prune(sim);
	sim_settle(sim, QUIET_PASSES);
	/* Clones may fill frames beyond the limit, and so leave places elsewhere. */
	if (!sim_stats(sim).counts.adoptions_over_limit)
		sim_assert_settled(sim);
}

/* Whether a write comes to the same as one in another order. */
static bool is_repeated(unsigned at)
{
	return at && sequence[at] < nwrites() && sequence[at - 1] < nwrites() &&
	       sequence[at] / world->ncontents <= sequence[at - 1] / world->ncontents;
}

/* Play the sequence; where it came to an operation that is none, or `depth`. */
static unsigned play_it(void)
{
	unsigned at = 0;

	for (; at < depth; at++)
		if (is_repeated(at))
			return at;
	begin();
	for (at = 0; at < depth && operate(sequence[at]); at++)
		sim_verify(play.sim);
	if (at == depth)
		quiet_phase();
	sim_destroy(play.sim);
	return at;
}

/* The next sequence that differs at this place, or before it; false: there is none. */
static bool advance(unsigned at)
{
	for (unsigned i = at + 1; i < depth; i++)
		sequence[i] = 0;
	while (++sequence[at] == nwrites() + OTHERS) {
		sequence[at] = 0;
		if (at-- == 0)
			return false;
	}
	return true;
}

static void show(void)
{
	static const char *const names[OTHERS] = { "step", "pass", "unmerge page", "unmerge",
						   "pin", "clone", "discard", "remove" };

	print_error("world \"%s\":", world->name);
	for (unsigned i = 0; i < depth; i++)
		if (sequence[i] < nwrites())
			print_error(" write(%u, %u)", sequence[i] / world->ncontents,
				    sequence[i] % world->ncontents);
		else
			print_error(" %s", names[sequence[i] - nwrites()]);
	print_error("\n");
}

static int show_after_failure(void **unused)
{
	if (world) /* it did not come to its end */
		show();
	return 0;
}

#define WORLDS (sizeof(worlds) / sizeof(worlds[0]))

static const struct world worlds[] = {
	{ "three pages of three contents, one look", { .limit = 2, .one_look = true }, 1, 3, 3,
	  { 0, 1, 4 }, .depth = 4 },
	{ "a page in each of two spaces", { .limit = 2 }, 2, 1, 2, { 1, 4 }, .depth = 5 },
	{ "a chain, no clones", { .limit = 2, .no_clones = true }, 2, 2, 2, { 1, 4 },
	  .begin = "0000", .begin_passes = 2, .depth = 4 },
	{ "a chain and clones", { .limit = 2 }, 2, 2, 2, { 1, 4 }, .begin = "0010",
	  .begin_passes = 3, .depth = 4 },
	{ "clones below the limit", { .limit = 8, .one_look = true }, 2, 2, 2, { 1, 4 },
	  .begin = "0110", .begin_passes = 2, .depth = 4 },
	{ "zero pages replaced", { .limit = 2 }, 1, 3, 2, { 0, 3 }, .begin = "010",
	  .begin_passes = 2, .depth = 4 },
	{ "zero pages kept", { .limit = 2, .keep_zero_pages = true }, 1, 3, 2, { 0, 3 },
	  .begin = "010", .begin_passes = 2, .depth = 4 },
	{ "the index rebuilt", { .limit = 2, .index = PDD_INDEX_REBUILT }, 2, 2, 2, { 1, 4 },
	  .begin = "0-01", .begin_passes = 1, .depth = 4 },
	{ "tracked writes", { .limit = 2, .tracked = true }, 2, 2, 2, { 1, 4 }, .begin = "0-01",
	  .begin_passes = 2, .depth = 4 },
	{ "sparse regions of one space", { .limit = 2 }, 2, 2, 2, { 0, 1 }, .one_space = true,
	  .sparse = true, .begin = "1-10", .begin_passes = 2, .depth = 4 },
};

static uint64_t total;
static unsigned deeper;

static void test_worlds(void **unused)
{
	for (unsigned i = 0; i < WORLDS; i++) {
		uint64_t n = 0;
		unsigned at;

		world = &worlds[i];
		depth = world->depth + deeper;
		assert_true(depth <= DEPTH_MAX);
		for (unsigned j = 0; j < depth; j++)
			sequence[j] = 0;
		do {
			at = play_it();
			n += at == depth;
		} while (advance(at < depth ? at : depth - 1));
		print_message("%" PRIu64 " sequences of %u: %s\n", n, depth, world->name);
		total += n;
	}
	world = NULL;
	print_message("depth %u: %" PRIu64 " cases\n", deeper, total);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_worlds, show_after_failure),
	};
	const char *given = getenv("PDD_DEPTH");

	deeper = given ? (unsigned)strtoul(given, NULL, 0) : 0;
	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
