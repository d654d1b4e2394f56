/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_writers.c - no write is lost: a page at hand, a twin or a sharer is written exactly between
 * two hooks, or while one acts, at every such place of a scan in turn.
 *
 * The simulation compares every page with what was written last, after each step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define PAGES 7u

static struct {
	struct sim_region *regions[2];
	uint64_t countdown; /* to the write */
	uint64_t page;      /* of both regions, counted through */
	uint64_t content;
	bool done;
} writer;

static void write_at(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!sim->stepping || writer.done || writer.countdown-- > 0)
		return;
	writer.done = true;
	sim_write(writer.regions[writer.page / PAGES], writer.page % PAGES, writer.content);
}

/* Pages 0 to 3 merge as twins of each other's space, 4 joins a frame, 5 is zero, 6 unique. */
static struct sim *world(enum sim_checksum checksum)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .checksum = checksum, .limit = 3, .aging = PDD_AGING_NONE });

	for (unsigned r = 0; r < 2; r++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

		for (uint64_t i = 0; i < 4; i++)
			sim_write(region, i, 1 + i);
		sim_write(region, 4, 1);
		sim_write(region, 5, 0);
		sim_write(region, 6, 100 + r);
		writer.regions[r] = region;
	}
	return sim;
}

/* Whether the write came before the scan was over. */
static bool run(enum sim_checksum checksum, uint64_t page, uint64_t content, uint64_t countdown)
{
	struct sim *sim = world(checksum);

	writer.page = page;
	writer.content = content;
	writer.countdown = countdown;
	writer.done = false;
	sim->at = write_at;
	sim_passes(sim, 4);
	sim->at = NULL;
	sim_passes(sim, checksum ? 40 : 6);
	if (!checksum)
		assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	for (unsigned r = 0; r < 2; r++) /* those of which no page was written */
		for (uint64_t i = 1; i < 4; i++)
			if (i != page % PAGES)
				assert_true(sim_is_shared(writer.regions[r], i));
	sim_destroy(sim);
	return writer.done;
}

static void run_everywhere(enum sim_checksum checksum)
{
	static const uint64_t contents[] = { 0, 1, 2, 50 };

	for (unsigned c = 0; c < 4; c++)
		for (uint64_t page = 0; page < 2 * PAGES; page++)
			for (uint64_t countdown = 0; run(checksum, page, contents[c], countdown);)
				countdown += checksum ? 7 : 1;
}

static void test_written_between_hooks(void **unused)
{
	run_everywhere(SIM_CHECKSUM_DEFAULT);
}

static void test_under_collisions(void **unused)
{
	run_everywhere(SIM_CHECKSUM_ZERO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_between_hooks),
		cmocka_unit_test(test_under_collisions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
