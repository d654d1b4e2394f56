/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_forced_collisions.c - s28: the checksum of every page is 0 (or one of four values). Whatever
 * was written before, and whatever order that left in the index, one pass that looks at all pages
 * finds every duplicate, and nothing is merged falsely (the simulation's frames_map compares).
 *
 * The argument is that of search.c: a pass orders the items that it inserts among themselves, so
 * the second of two equal pages that it comes by finds the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sim.h"

#define SPACES_MAX 5u

struct world {
	struct sim *sim;
	uint64_t random; /* of its own, so that the library's calls do not change the round */
	uint64_t npages; /* of each region */
	uint64_t ncontents;
	unsigned nregions;
	struct sim_region *regions[SPACES_MAX];
};

/* What became of the pages of one content. */
struct census {
	uint64_t unshared;
	uint64_t places; /* that are left in their frames */
};

static uint64_t roll(struct world *world, uint64_t below)
{
	return sim_random_of(&world->random) % below;
}

static void create(struct world *world, uint64_t seed, uint64_t npages, bool one_look,
		   enum sim_checksum checksum)
{
	struct sim_options options = {
		.checksum = checksum,
		.nroots = 1,
		.aging = PDD_AGING_NONE,
		.one_look = one_look,
	};

	*world = (struct world){ .random = seed };
	sim_seed_set(seed);
	options.limit = 2 + (uint32_t)roll(world, 5);
	world->sim = sim_create(&options);
	world->nregions = 1 + (unsigned)roll(world, SPACES_MAX);
	world->npages = npages / world->nregions + 1;
	world->ncontents = roll(world, 2) ? 2 + roll(world, 8) : 2 * npages + roll(world, npages);
	for (unsigned i = 0; i < world->nregions; i++)
		world->regions[i] = sim_region_add(sim_space_add(world->sim, 0), world->npages);
}

static void write_some(struct world *world, uint64_t n)
{
	while (n--)
		sim_write(world->regions[roll(world, world->nregions)], roll(world, world->npages),
			  1 + roll(world, world->ncontents));
}

/* Writes before every step of many passes, of which the last one is completed. */
static void write_and_scan(struct world *world, unsigned passes)
{
	uint64_t all = world->nregions * world->npages;

	write_some(world, 4 * all);
	while (passes) {
		write_some(world, roll(world, all / 4));
		passes -= sim_step(world->sim, 1 + roll(world, all)) == PDD_STEP_PASS;
	}
}

static void count_page(const struct world *world, struct census *census,
		       const struct sim_page *page)
{
	uint32_t limit = world->sim->options.limit;

	if (page->kind == PDD_PAGE_PRIVATE)
		census[page->expected].unshared++;
	/* Once for each sharer of the frame; whether it is 0 is all that counts. */
	if (page->kind == PDD_PAGE_SHARED)
		census[page->expected].places += limit - pdd_frame_sharers(&page->frame->frame);
}

static struct census *take_census(const struct world *world)
{
	struct census *census = calloc(world->ncontents + 1, sizeof(*census));

	for (unsigned i = 0; i < world->nregions; i++)
		for (uint64_t page = 0; page < world->npages; page++)
			count_page(world, census, &world->regions[i]->pages[page]);
	return census;
}

/* No two pages of one content are unshared. */
static void assert_found(const struct world *world, unsigned passes)
{
	struct census *census = take_census(world);

	for (uint64_t content = 0; content <= world->ncontents; content++)
		if (census[content].unshared > 1)
			sim_fail("%" PRIu64 " pages of content %" PRIu64 " missed each other in "
				 "%u passes",
				 census[content].unshared, content, passes);
	free(census);
}

/* Nor does a page wait for a frame that has room. */
static void assert_complete(const struct world *world)
{
	struct census *census = take_census(world);

	for (uint64_t content = 0; content <= world->ncontents; content++)
		if (census[content].unshared > 1 ||
		    (census[content].unshared && census[content].places))
			sim_fail("a page of content %" PRIu64 " waits, with room in a frame",
				 content);
	free(census);
}

/* With one look: in the first pass after the last write. */
static void test_one_pass(void **unused)
{
	uint64_t seed = sim_seed();

	for (unsigned round = 0; round < 600; round++) {
		struct world world;

		create(&world, seed + round, 10 + round % 60, true, SIM_CHECKSUM_ZERO);
		write_and_scan(&world, 2 + round % 12);
		sim_pass(world.sim, 1 + roll(&world, 100));
		assert_found(&world, 1);
		sim_pass(world.sim, UINT64_MAX); /* for places that came free behind the cursor */
		assert_complete(&world);
		sim_destroy(world.sim);
	}
	sim_seed_set(seed);
}

/* With two looks the first pass records what is new, the second one completes it. */
static void test_two_passes(void **unused)
{
	uint64_t seed = sim_seed();

	for (unsigned round = 0; round < 600; round++) {
		struct world world;

		create(&world, seed + round, 10 + round % 60, false,
		       round % 2 ? SIM_CHECKSUM_2_BITS : SIM_CHECKSUM_ZERO);
		write_and_scan(&world, 2 + round % 12);
		sim_pass(world.sim, 1 + roll(&world, 100));
		sim_pass(world.sim, 1 + roll(&world, 100));
		assert_found(&world, 2);
		sim_pass(world.sim, UINT64_MAX);
		assert_complete(&world);
		sim_destroy(world.sim);
	}
	sim_seed_set(seed);
}

/* The same with regions of several extents. */
static void test_extents(void **unused)
{
	uint64_t seed = sim_seed();

	for (unsigned round = 0; round < 4; round++) {
		struct world world;

		create(&world, seed + round, 1500, round % 2, SIM_CHECKSUM_ZERO);
		write_and_scan(&world, 4);
		sim_passes(world.sim, round % 2 ? 1 : 2);
		assert_found(&world, round % 2 ? 1 : 2);
		sim_destroy(world.sim);
	}
	sim_seed_set(seed);
}

/*
 * A place in a frame comes free, and that calls for a page of the same content, not of any content
 * with its checksum: pages 0 to 9 are of other contents, and gone before the next pass.
 */
static void test_place_comes_free(void **unused)
{
	for (uint64_t content = 1; content <= 20; content++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.checksum = SIM_CHECKSUM_ZERO,
			.nroots = 1,
			.aging = PDD_AGING_NONE,
			.limit = 2,
		});
		struct sim_region *waits = sim_region_add(sim_space_add(sim, 0), 11);
		struct sim_region *shares = sim_region_add(sim_space_add(sim, 0), 2);

		sim_write(shares, 0, content);
		sim_write(shares, 1, content);
		sim_passes(sim, 3);
		for (uint64_t i = 0; i < 10; i++)
			sim_write(waits, i, 100 + i);
		sim_write(waits, 10, content);
		sim_passes(sim, 6);
		assert_true(sim_is_shared(shares, 1) && !sim_is_shared(waits, 10));
		sim_discard(shares, 1);
		sim_pass(sim, UINT64_MAX); /* sees it when it has come by the others */
		for (uint64_t i = 0; i < 10; i++)
			sim_discard(waits, i);
		sim_passes(sim, 2);
		assert_true(sim_is_shared(waits, 10));
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_pass),
		cmocka_unit_test(test_two_passes),
		cmocka_unit_test(test_extents),
		cmocka_unit_test(test_place_comes_free),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
