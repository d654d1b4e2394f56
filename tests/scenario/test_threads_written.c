/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads_written.c - a write of which the tracking hook tells another thread while the first
 * one is at that very page: anywhere between its question what stands there and the end of its
 * visit. The hook tells of a write once, so the mark must outlive whatever the first thread finds
 * out about the page before it: a later pass reads the page again.
 *
 * How another thread comes to ask: the pass before missed the second extent of a region, so this
 * one begins with it. The other thread goes on behind it, which is the first extent, and with
 * budget enough asks for all of the region.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interleaved.h"

#define EXTENT PDD_EXTENT_PAGES
#define ALL UINT64_MAX
#define WANTED 7u /* a content that is shared */

static struct race {
	struct sim_region *region;
	uint64_t page, content; /* to be written */
	bool told;		/* the other thread was, of this write */
} race;

enum world {
	WORLD_ARRAYS = 0,
	WORLD_SPARSE = 1, /* nothing is known of the second extent, but something is there */
	WORLD_CLONE = 2,  /* the region shows frames of another one */
};

/* The other thread. */
static void write_and_tell(struct sim *sim)
{
	struct sim_page *page = &race.region->pages[race.page];
	bool waits = page->held != NULL;

	sim_write(race.region, race.page, race.content);
	step_of(sim, plan.worker, ALL);
	race.told = !page->written && !waits;
}

/* What stands at the one page of the second extent that is not settled and at rest: whatever else
 * had to be looked at there would find out about it. */
enum page {
	PAGE_SHARED = 0,
	PAGE_ZEROED = 1, /* by the library */
	PAGE_UNIQUE = 2,
	PAGE_TO_JOIN = 3,
	PAGE_TO_ZERO = 4,
	PAGE_TO_FOUND = 5,  /* its twin is in the first extent, */
	PAGE_TO_FOLLOW = 6, /* in this one */
	PAGE_ABSENT = 7,
	PAGE_KERNEL_ZERO = 8,
	PAGE_NEW = 9,
	PAGES = 10,
};

static const uint64_t anchor = EXTENT + PAGES, second_of_pair = EXTENT + PAGES + 1;

/* Before it is looked at for the first time, in the worlds in which it is. */
static void write_first(struct sim_region *region, enum world world, enum page page)
{
	for (uint64_t i = 0; i < 3; i++)
		sim_write(region, i, WANTED);
	sim_write(region, 3, 8);
	if (world == WORLD_SPARSE)
		return;
	sim_write(region, anchor, 9);
	if (page <= PAGE_UNIQUE)
		sim_write(region, EXTENT + page, page == PAGE_SHARED ? WANTED : page * 100 - 100);
}

/* Before the pass that looks at it for the first time, if it is not settled. */
static void write_second(struct sim_region *region, enum page page)
{
	static const uint64_t contents[] = {
		[PAGE_TO_JOIN] = WANTED, [PAGE_TO_FOUND] = 8, [PAGE_TO_FOLLOW] = 10};

	if (page >= PAGE_TO_JOIN && page <= PAGE_TO_FOLLOW)
		sim_write(region, EXTENT + page, contents[page]);
	if (page == PAGE_TO_FOLLOW)
		sim_write(region, second_of_pair, 10);
	if (page == PAGE_KERNEL_ZERO)
		region->pages[EXTENT + page].kind = PDD_PAGE_ZERO;
}

/* A pass that misses the second extent. */
static void miss_second(struct sim *sim, struct sim_space *space)
{
	enum pdd_step result;

	do {
		result = sim_step(sim, EXTENT);
		space->busy = true;
	} while (result == PDD_STEP_MORE);
	space->busy = false;
	assert_int_equal(result, PDD_STEP_PASS);
}

static struct sim *create(enum world world, enum page page)
{
	struct sim *sim =
		sim_create(&(struct sim_options){.tracked = true,
						 .aging = PDD_AGING_NONE,
						 .nroots = 8,
						 /* so that what is new is at rest after one pass */
						 .one_look = world != WORLD_ARRAYS});
	struct sim_space *space = sim_space_add(sim, 0);
	uint64_t npages = second_of_pair + 1;

	race.region = sim_region_add_with(space, npages, npages, world == WORLD_SPARSE);
	write_first(race.region, world, page);
	sim_passes(sim, 3);
	if (world == WORLD_CLONE) {
		race.region = sim_space_clone(space)->regions;
		sim_space_remove(space);
		miss_second(sim, race.region->space);
		return sim;
	}
	write_second(race.region, page);
	sim_passes(sim, world == WORLD_ARRAYS && page != PAGE_NEW);
	if (page == PAGE_NEW)
		sim_write(race.region, EXTENT + page, 11);
	miss_second(sim, race.region->space);
	if (world == WORLD_SPARSE)
		sim_write(race.region, anchor, 9);
	return sim;
}

/* False: there is no such point. */
static bool race_at(enum world world, uint64_t k, enum page page, uint64_t content, uint64_t *ntold)
{
	struct sim *sim = create(world, page);
	bool happened;

	race.page = EXTENT + page;
	race.content = content;
	race.told = false;
	plan_begin(sim, k, write_and_tell);
	plan.armed = true;
	step_of(sim, sim->worker, EXTENT);
	happened = plan_end(sim);
	*ntold += race.told;
	sim_verify(sim);
	sim_pass(sim, ALL); /* the rest of that pass */
	sim_settle(sim, 20);
	if (happened)
		sim_assert_settled(sim);
	sim_destroy(sim);
	return happened;
}

static void race_in(enum world world)
{
	static const uint64_t contents[] = {0, WANTED, 1000};
	uint64_t ntold = 0, n = 0;

	for (unsigned page = 0; page < PAGES; page++)
		for (unsigned c = 0; c < 3; c++)
			for (uint64_t k = 1;
			     race_at(world, k, (enum page)page, contents[c], &ntold); k++)
				n++;
	print_message("%u races, in %u the other thread was told.\n", (unsigned)n, (unsigned)ntold);
	assert_true(ntold > n / 4);
}

static void test_arrays(void **unused)
{
	race_in(WORLD_ARRAYS);
}

static void test_sparse(void **unused)
{
	race_in(WORLD_SPARSE);
}

static void test_clone(void **unused)
{
	race_in(WORLD_CLONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_clone),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
