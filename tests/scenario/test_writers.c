/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_writers.c - no write is lost: a page at hand, a twin or a sharer is written exactly between
 * two hooks, or while one acts, at every such place of a scan in turn.
 *
 * The simulation compares every page with what was written last, after each step. In the end all
 * that is equal shares, and every counter is exact: a write undoes one merge at most, no compare is
 * lost or done twice. The same if the page gets its content back some hooks later, so that it was
 * another one only in between.
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
	uint64_t back; /* hooks later it gets its content back; 0: never */
	uint64_t was;
	bool done;
	unsigned broken; /* frames that a write found there */
} writer;

static void write_now(struct sim *sim, uint64_t content)
{
	struct sim_region *region = writer.regions[writer.page / PAGES];
	const struct sim_page *page = &region->pages[writer.page % PAGES];

	writer.was = page->expected;
	writer.broken += page->kind == PDD_PAGE_SHARED;
	sim_write(region, writer.page % PAGES, content);
}

static void write_at(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!sim->stepping)
		return;
	if (writer.done && writer.back && --writer.back == 0)
		write_now(sim, writer.was);
	if (writer.done || writer.countdown-- > 0)
		return;
	writer.done = true;
	write_now(sim, writer.content);
}

/* What was done and undone comes to what is there. */
static void assert_counters(const struct sim *sim, unsigned nwrites)
{
	struct pdd_stats stats = sim_stats(sim);
	const struct pdd_counts *counts = &stats.counts;

	assert_int_equal(counts->merges, counts->ksm_merging_pages + counts->unshares);
	assert_in_range(counts->unshares, writer.broken, nwrites);
	assert_in_range(counts->zero_merges - counts->ksm_zero_pages, 0, nwrites);
	assert_int_equal(stats.held_compares_equal, counts->merges + counts->zero_merges);
	assert_int_equal(stats.hook_errors + stats.stale_frames + stats.space_lock_misses, 0);
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

/* Whether the writes came before the scan was over. */
static bool run(enum sim_checksum checksum, uint64_t page, uint64_t content, uint64_t countdown,
		uint64_t back)
{
	struct sim *sim = world(checksum);

	writer.page = page;
	writer.content = content;
	writer.countdown = countdown;
	writer.back = back;
	writer.done = false;
	writer.broken = 0;
	sim->at = write_at;
	sim_passes(sim, 4);
	sim->at = NULL;
	sim_passes(sim, checksum ? 40 : 6);
	assert_counters(sim, back ? 2 : 1);
	for (unsigned r = 0; r < 2; r++) /* those of which no page was written */
		for (uint64_t i = 1; i < 4; i++)
			if (i != page % PAGES)
				assert_true(sim_is_shared(writer.regions[r], i));
	sim_prune(sim);
	sim_settle(sim, 10);
	/* Among collisions a page that becomes zero unnoticed may found a frame. */
	if (!checksum || content)
		sim_assert_settled(sim);
	assert_counters(sim, back ? 2 : 1);
	sim_destroy(sim);
	return writer.done && (!back || !writer.back);
}

static void run_everywhere(enum sim_checksum checksum)
{
	static const uint64_t contents[] = {0, 1, 2, 50};

	for (unsigned c = 0; c < 4; c++)
		for (uint64_t page = 0; page < 2 * PAGES; page++)
			for (uint64_t countdown = checksum ? (sim_seed() + page) % 7 : 0;
			     run(checksum, page, contents[c], countdown, 0);)
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

static void test_written_and_written_back(void **unused)
{
	static const uint64_t contents[] = {1, 50};

	for (uint64_t back = 1; back <= 8; back *= 2)
		for (uint64_t page = 0; page < 2 * PAGES; page++)
			for (uint64_t countdown = 0; run(SIM_CHECKSUM_DEFAULT, page,
							 contents[page % 2], countdown, back);)
				countdown++;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_between_hooks),
		cmocka_unit_test(test_under_collisions),
		cmocka_unit_test(test_written_and_written_back),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
