/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking_settings.c - write tracking lets a pass leave alone what nobody wrote. Here are
 * the changes that come without a write: of settings, of the NUMA node, of what is pinned, of the
 * room in frames; and true collisions. Each has to come round to the pages that it concerns,
 * without reading them; afterwards all is at rest again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "item_internal.h"
#include "reads.h"
#include "sim.h"

#define EXTENT PDD_EXTENT_PAGES

static void set(struct sim *sim, uint32_t *setting, uint32_t value)
{
	struct pdd_tunables t = sim->scanner.priv.tunables;

	*(uint32_t *)((char *)&t + ((char *)setting - (char *)&sim->scanner.priv.tunables)) = value;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
}

#define SET(sim, name, value) set(sim, &(sim)->scanner.priv.tunables.name, value)

/* Pages grow old while they are written with what they contain. In the end none is dirty. */
static void make_old(struct sim *sim)
{
	for (unsigned pass = 0; pass < 70; pass++) {
		for (struct sim_space *space = sim->spaces; space; space = space->next)
			for (struct sim_region *r = space->regions; r; r = r->next)
				for (uint64_t i = 0; i < r->npages; i++)
					if (r->pages[i].kind == PDD_PAGE_PRIVATE)
						sim_write(r, i, r->pages[i].expected);
		sim_pass(sim, UINT64_MAX);
	}
	sim_passes(sim, PDD_AGING_PERIOD_MAX + 1);
}

/* Whether a pass reads nothing, and gets no page. */
static bool is_at_rest(struct sim *sim)
{
	uint64_t gets = sim->calls[SIM_PAGES_GET];

	reads_clear();
	sim_pass(sim, UINT64_MAX);
	return sim->calls[SIM_PAGES_GET] == gets && reads_total == 0;
}

/* ---- zero pages ---- */

#define DOMAINS 8u

/* A zero page in each domain, so that they do not merge, in an extent of others. */
static struct sim *world_of_zero_pages(enum pdd_aging aging, struct sim_region **regions)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.tracked = true, .keep_zero_pages = true, .aging = aging });

	for (uint32_t d = 0; d < DOMAINS; d++) {
		regions[d] = sim_region_add(sim_space_add(sim, d), 20);
		for (uint64_t i = 0; i < 20; i++)
			sim_write(regions[d], i, i == d ? 0 : 1 + i);
	}
	reads_watch(sim, NULL);
	make_old(sim);
	assert_true(is_at_rest(sim));
	return sim;
}

static uint64_t zeroed(struct sim *sim)
{
	return sim_stats(sim).counts.ksm_zero_pages;
}

/* Passes until all zero pages are replaced, and then until all is at rest. */
static void zero_them(struct sim *sim, struct sim_region **regions, unsigned most)
{
	unsigned passes;

	reads_clear();
	for (passes = 0; zeroed(sim) < DOMAINS; passes++) {
		assert_in_range(passes, 0, most);
		sim_pass(sim, UINT64_MAX);
	}
	assert_int_equal(reads_total, 0);
	for (uint32_t d = 0; d < DOMAINS; d++)
		assert_int_equal(regions[d]->pages[d].kind, PDD_PAGE_ZERO);
	for (; passes < PDD_AGING_PERIOD_MAX + 2; passes++)
		sim_pass(sim, UINT64_MAX);
	assert_true(is_at_rest(sim));
}

/* use_zero_pages is switched on: the zero pages that wait in the index, however old, are replaced
 * without being read, with every policy. */
static void test_zero_pages_later(void **unused)
{
	struct sim_region *regions[DOMAINS];

	for (uint32_t aging = 0; aging <= PDD_AGING_EPOCH; aging++) {
		struct sim *sim = world_of_zero_pages((enum pdd_aging)aging, regions);

		/* for PHASE and EPOCH, begin where their turn is the farthest */
		while (aging == PDD_AGING_EPOCH && sim->scanner.priv.epoch % 64 != 1)
			sim_pass(sim, UINT64_MAX);
		SET(sim, use_zero_pages, 1);
		zero_them(sim, regions, PDD_AGING_PERIOD_MAX);
		reads_end();
		sim_destroy(sim);
	}
}

/* It is switched on in every pass of a period, in the middle of the pass. */
static void test_zero_pages_phases(void **unused)
{
	struct sim_region *regions[DOMAINS];

	for (unsigned wait = 0; wait < PDD_AGING_PERIOD_MAX; wait += 3) {
		struct sim *sim = world_of_zero_pages(PDD_AGING_PHASE, regions);

		sim_passes(sim, wait);
		sim_step(sim, 75);
		SET(sim, use_zero_pages, 1);
		zero_them(sim, regions, PDD_AGING_PERIOD_MAX);
		SET(sim, use_zero_pages, 0); /* and off: nothing has to come round */
		assert_true(is_at_rest(sim));
		assert_int_equal(zeroed(sim), DOMAINS);
		reads_end();
		sim_destroy(sim);
	}
}

/* ---- NUMA nodes ---- */

/* Where nodes are kept apart a page may become equal to another one by moving to its node. Nothing
 * is written, nor read; the page merges all the same. */
static void test_migration(void **unused)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .tracked = true, .nodes_apart = true });
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 20);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 20);

	for (uint64_t i = 0; i < 20; i++) {
		sim_write(a, i, 1 + i);
		sim_write(b, i, 1 + i);
		sim_migrate(b, i, 1);
	}
	reads_watch(sim, NULL);
	make_old(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	for (uint64_t i = 0; i < 20; i++) {
		reads_clear();
		sim_migrate(b, i, 0);
		sim_pass(sim, UINT64_MAX);
		assert_true(sim_is_shared(a, i) && sim_is_shared(b, i));
		assert_int_equal(reads_total, 0);
	}
	/* and a frame moves, with a sharer that nobody wrote: both go along */
	sim_migrate(a, 0, 2);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).moved_frames, 1);
	reads_end();
	sim_destroy(sim);
}

/* Nodes are no longer kept apart: what waits in the index is due, and merges. */
static void test_nodes_together(void **unused)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .tracked = true, .nodes_apart = true });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);

	for (uint64_t i = 0; i < 40; i++) {
		sim_write(region, i, 1 + i / 2);
		sim_migrate(region, i, i % 2);
	}
	reads_watch(sim, NULL);
	make_old(sim);
	reads_clear();
	SET(sim, merge_across_nodes, 1);
	sim->options.nodes_apart = false;
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 40);
	assert_int_equal(reads_total, 0);
	sim_passes(sim, 3); /* holding may have been told of as a write */
	assert_true(is_at_rest(sim));
	reads_end();
	sim_destroy(sim);
}

/* ---- room in frames ---- */

/* A frame gets room, or the limit is raised: a page that found none joins; nobody wrote it. */
static void test_room(void **unused)
{
	for (unsigned raise = 0; raise < 2; raise++) {
		struct sim *sim = sim_create(&(struct sim_options){ .tracked = true, .limit = 8 });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 9);

		for (uint64_t i = 0; i < 9; i++)
			sim_write(region, i, 1);
		reads_watch(sim, region);
		make_old(sim);
		assert_int_equal(sim_stats(sim).counts.pages_unshared, 1);
		assert_true(is_at_rest(sim));
		if (raise)
			SET(sim, max_page_sharing, 9);
		else
			sim_write(region, sim_is_shared(region, 0) ? 0 : 1, 2);
		sim_passes(sim, raise ? 1 : 2);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 8 + raise);
		assert_int_equal(reads_total, !raise); /* that which was written */
		reads_end();
		sim_destroy(sim);
	}
}

/* ---- pinned pages ---- */

/* A pinned page that is written meanwhile is read when it is let in again, once for each of its
 * looks; its neighbours are not read at all. */
static void test_pins(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .tracked = true });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), EXTENT);

	for (uint64_t i = 0; i < EXTENT; i++)
		sim_write(region, i, 1 + i);
	reads_watch(sim, region);
	sim_passes(sim, 3);
	reads_clear();
	assert_int_equal(pdd_region_pin(&region->region, 10, 20), 0);
	for (unsigned pass = 0; pass < 5; pass++) {
		sim_write(region, 11, 1000 + pass);
		sim_pass(sim, UINT64_MAX);
	}
	/* Nor do they keep the others awake. */
	assert_true(is_at_rest(sim));
	sim_write(region, 12, 1);
	assert_int_equal(reads_total, 0);
	assert_int_equal(pdd_region_unpin(&region->region, 10, 20), 0);
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 0; i < EXTENT; i++)
		assert_int_equal(reads_of[i], i >= 10 && i < 30);
	sim_passes(sim, 2);
	assert_int_equal(reads_total, 20);
	assert_true(sim_is_shared(region, 0) && sim_is_shared(region, 12));
	sim_passes(sim, 2);
	assert_true(is_at_rest(sim));
	reads_end();
	sim_destroy(sim);
}

/* ---- true collisions ---- */

/* All checksums are equal: pages that nobody writes are searched for anew in every pass, as
 * without tracking, since equal ones would miss each other; all merge, and only what was written
 * is read. */
static void test_collisions(void **unused)
{
	for (unsigned bits = SIM_CHECKSUM_ZERO; bits <= SIM_CHECKSUM_2_BITS; bits++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.tracked = true, .checksum = (enum sim_checksum)bits, .nroots = 1 });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 60);
		uint64_t hashed;

		sim->options.tracked = false; /* what is held is not written by that, here */
		for (uint64_t i = 0; i < 60; i++)
			sim_write(region, i, 1 + i % 30);
		sim_passes(sim, 2);
		hashed = sim_stats(sim).counts.pages_hashed;
		sim_passes(sim, 80);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 60);
		assert_int_equal(sim_stats(sim).pages_shared, 30);
		assert_true(sim_stats(sim).collisions > 0);
		assert_in_range(sim_stats(sim).counts.pages_hashed, 60, hashed);
		/* two more that are equal, in between many that are not */
		sim_write(region, 0, 100);
		for (uint64_t i = 1; i < 30; i++)
			sim_write(region, i, 200 + i);
		sim_passes(sim, 20);
		sim_write(region, 59, 100);
		sim_passes(sim, 20);
		assert_true(sim_is_shared(region, 0) && sim_is_shared(region, 59));
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zero_pages_later), cmocka_unit_test(test_zero_pages_phases),
		cmocka_unit_test(test_migration),	 cmocka_unit_test(test_nodes_together),
		cmocka_unit_test(test_room),		 cmocka_unit_test(test_pins),
		cmocka_unit_test(test_collisions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
