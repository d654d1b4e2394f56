/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_compares.c - s29: how often contents are compared. To find equal ones only among true
 * collisions, however alike the pages are; while held once for each page that is mapped, and once
 * for each that is refused because it is not what was expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "scanner_internal.h"
#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

static uint64_t nheld; /* pages about which something was decided */

/* Between decided pages others may be held, which are not compared. */
static int count_held(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		      uint64_t first, uint64_t npages)
{
	const struct sim_region *r = (struct sim_region *)(void *)region;
	int n = sim_ops.hold(ctx, region, views, nviews, first, npages);

	for (int i = 0; i < n; i++)
		for (uint64_t page = 0; page < views[i].npages; page++, first++)
			nheld += views[i].kind == PDD_PAGE_PRIVATE &&
				 pddi_merge_is_decided(&r->space->sim->scanner, sim_item(r, first));
	return n;
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	nheld = 0;
	sim->scanner.priv.ops.hold = count_held;
	return sim;
}

/* Each page that was held was compared once, and mapped or refused. */
static void assert_held_compares(const struct sim *sim, bool can_be_mapped)
{
	struct pdd_stats stats = sim_stats(sim);
	uint64_t mapped = sim->traced[PDD_EVENT_MERGED] + sim->traced[PDD_EVENT_ZEROED];

	assert_int_equal(stats.held_compares_equal + stats.held_compares_unequal, nheld);
	assert_int_equal(stats.counts.merges + stats.counts.zero_merges, mapped);
	if (can_be_mapped)
		assert_int_equal(stats.held_compares_equal, mapped);
	else
		assert_true(stats.held_compares_equal > mapped);
}

/* Passes without the simulation's proofs, whose contents these pages do not have. */
static void scan(struct sim *sim, unsigned passes)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	sim->stepping = true;
	while (passes--)
		assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &budget),
				 PDD_STEP_PASS);
	sim->stepping = false;
	assert_int_equal(pdd_scanner_check(&sim->scanner, NULL), 0);
}

/* A page of ones, but for its first word. */
static void write_first_word(struct sim_region *region, uint64_t page, uint64_t word)
{
	unsigned char *memory = sim_memory(region, page);

	sim_write(region, page, 1);
	memset(memory, 1, region->space->sim->page_size);
	memcpy(memory, &word, sizeof(word));
}

/* 24 bits of the first word: some of 65,536 pages collide. */
static int short_checksum(void *ctx, uint64_t *value, const void *content)
{
	uint64_t word;

	memcpy(&word, content, sizeof(word));
	*value = sim_random_of(&word) & 0xffffff;
	return 0;
}

/* 65,536 pages that differ in the first word only. */
static void test_first_word(void **unused)
{
	for (unsigned collide = 0; collide < 2; collide++) {
		struct sim *sim = world(&(struct sim_options){ .nroots = 1 });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 65536);
		struct pdd_stats stats;

		if (collide)
			sim->scanner.priv.ops.checksum = short_checksum;
		for (uint64_t i = 0; i < region->npages; i++)
			write_first_word(region, i, 2 + i);
		scan(sim, collide ? 70 : 8);
		stats = sim_stats(sim);
		assert_true(stats.search_compares <= stats.collisions);
		if (collide)
			assert_true(stats.collisions > 0);
		else
			assert_int_equal(stats.search_compares + stats.collisions +
					 stats.held_compares_equal + stats.held_compares_unequal +
					 sim->held_pages, 0);
		assert_held_compares(sim, true);
		sim_destroy(sim);
	}
}

/* Every other page is one of 128 contents: no search compares, each duplicate is held and compared
 * once. */
static void test_duplicates(void **unused)
{
	struct sim *sim = world(&(struct sim_options){ .nroots = 1 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 65536);

	for (uint64_t i = 0; i < region->npages; i++)
		write_first_word(region, i, 2 + (i % 2 ? i / 2 % 128 : 1000 + i));
	scan(sim, 8);
	assert_int_equal(sim_stats(sim).search_compares + sim_stats(sim).collisions, 0);
	assert_int_equal(sim_stats(sim).held_compares_equal, 32768);
	assert_int_equal(sim_stats(sim).held_compares_unequal, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 32768);
	assert_held_compares(sim, true);
	sim_destroy(sim);
}

/* The same when more pages are equal than a frame takes: what a chain costs is no search. */
static void test_chains(void **unused)
{
	struct sim *sim = world(&(struct sim_options){ .limit = 4 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 400);

	for (uint64_t i = 0; i < region->npages; i++)
		sim_write(region, i, 1 + i % 10);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_shared, 100);
	assert_held_compares(sim, true);
	assert_true(sim_stats(sim).search_compares <= sim_stats(sim).collisions);
	sim_destroy(sim);
}

static struct sim_region *target;

/* Pages are written while they are being merged. */
static void write_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook == SIM_HOLD && before && sim_random(sim, 3) == 0)
		sim_write(target, sim_random(sim, target->npages), 1 + sim_random(sim, 50));
}

/* Duplicates, zero pages, writes at any time, with frames that cannot always be mapped. */
static void mixed(struct sim *sim, double fail_chance)
{
	target = sim_region_add(sim_space_add(sim, 0), 300);
	sim->at = write_before_hold;
	sim->fail_mask = BIT(SIM_FRAMES_MAP) | BIT(SIM_ZERO_MAP);
	sim->fail_chance = fail_chance;
	sim->partial = true;
	for (unsigned pass = 0; pass < 60; pass++) {
		for (uint64_t n = sim_random(sim, 40); n; n--)
			sim_write(target, sim_random(sim, 300), sim_random(sim, 50));
		sim_pass(sim, 1 + sim_random(sim, 300));
	}
	assert_held_compares(sim, fail_chance == 0);
	assert_true(sim_stats(sim).counts.merges > 100);
	assert_true(sim_stats(sim).counts.zero_merges > 0);
	assert_true(sim_stats(sim).held_compares_unequal > 0);
	sim->at = NULL;
	sim_destroy(sim);
}

static void test_mixed(void **unused)
{
	for (unsigned round = 0; round < 24; round++) {
		struct sim *sim = world(&(struct sim_options){
			.aging = PDD_AGING_NONE,
			.limit = 2 + round % 5,
			.checksum = round % 3 ? SIM_CHECKSUM_DEFAULT : SIM_CHECKSUM_2_BITS,
		});

		sim->random += round;
		mixed(sim, round % 2 ? 0 : 0.2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_word),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_mixed),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
