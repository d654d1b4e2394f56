/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sharing_table.c - N equal pages under a limit of L sharers per frame: KSM's exact figures
 * after two passes, however the pages are spread and the passes are cut into steps.
 *
 * With q = N / L and r = N mod L: shared q + (r >= 2), sharing N - (r == 1) - shared, unshared
 * (r == 1), chains (shared > 1), dups shared if there is a chain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "sim.h"

struct figures {
	uint64_t shared, sharing, unshared, chains, dups;
};

static const struct {
	uint32_t n, limit;
	struct figures figures;
} table[] = {
	{ 2, 256, { 1, 1, 0, 0, 0 } },      { 10, 256, { 1, 9, 0, 0, 0 } },
	{ 257, 256, { 1, 255, 1, 0, 0 } },  { 258, 256, { 2, 256, 0, 1, 2 } },
	{ 513, 256, { 2, 510, 1, 1, 2 } },  { 514, 256, { 3, 511, 0, 1, 3 } },
	{ 11, 10, { 1, 9, 1, 0, 0 } },      { 12, 10, { 2, 10, 0, 1, 2 } },
	{ 100, 10, { 10, 90, 0, 1, 10 } },  { 7, 2, { 3, 3, 1, 1, 3 } },
	{ 1000, 3, { 333, 666, 1, 1, 333 } },
};

/* How the pages are spread. */
enum layout {
	ONE_REGION = 0,
	MANY_SPACES = 1,
	AMONG_OTHERS = 2, /* of one region, with different pages between them */
};

static struct figures by_formula(uint64_t n, uint64_t limit)
{
	struct figures f = { .shared = n / limit + (n % limit >= 2), .unshared = n % limit == 1 };

	f.sharing = n - f.unshared - f.shared;
	f.chains = f.shared > 1;
	f.dups = f.chains ? f.shared : 0;
	return f;
}

static void scatter(struct sim *sim, uint32_t n)
{
	struct sim_region *regions[5];

	for (unsigned i = 0; i < 5; i++)
		regions[i] = sim_region_add(sim_space_add(sim, 7), n + 5);
	for (uint32_t i = 0; i < n; i++) {
		struct sim_region *region = regions[sim_random(sim, 5)];
		uint64_t page;

		do {
			page = sim_random(sim, region->npages);
		} while (region->pages[page].kind != PDD_PAGE_ABSENT);
		sim_write(region, page, 1);
	}
}

/* The number of other pages. */
static uint64_t spread(struct sim *sim, enum layout layout, uint32_t n)
{
	struct sim_region *region;
	uint64_t others = 0, first;

	if (layout == MANY_SPACES) {
		scatter(sim, n);
		return 0;
	}
	/* across the border of two extents */
	first = layout == ONE_REGION ? PDD_EXTENT_PAGES * 2 - n / 2 : 0;
	region = sim_region_add(sim_space_add(sim, 7), first + 2 * n);
	for (uint32_t i = 0; i < n; i++) {
		if (layout == ONE_REGION) {
			sim_write(region, first + i, 1);
			continue;
		}
		sim_write(region, 2 * i, 1);
		if (sim_random(sim, 2))
			sim_write(region, 2 * i + 1, 1000 + others++);
	}
	return others;
}

static void run(uint32_t n, uint32_t limit, const struct figures *expected, enum layout layout,
		uint64_t step)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit });
	uint64_t others = spread(sim, layout, n);
	struct pdd_stats stats;

	sim_pass(sim, step);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	sim_pass(sim, step);
	stats = sim_stats(sim);
	if (stats.pages_shared != expected->shared || stats.pages_sharing != expected->sharing)
		print_error("N %u, L %u, layout %d, step %llu\n", n, limit, (int)layout,
			    (unsigned long long)step);
	assert_int_equal(stats.pages_shared, expected->shared);
	assert_int_equal(stats.pages_sharing, expected->sharing);
	assert_int_equal(stats.counts.pages_unshared, expected->unshared + others);
	assert_int_equal(stats.counts.pages_volatile, 0);
	assert_int_equal(stats.stable_node_chains, expected->chains);
	assert_int_equal(stats.stable_node_dups, expected->dups);
	assert_int_equal(stats.counts.merges, expected->shared + expected->sharing);
	assert_int_equal(sim->traced[PDD_EVENT_MERGED], stats.counts.merges);
	assert_int_equal(stats.counts.ksm_rmap_items, n + others);
	assert_int_equal(stats.hook_errors + stats.stale_twins + stats.collisions, 0);

	/* and nothing changes any more */
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.merges, stats.counts.merges);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	sim_destroy(sim);
}

static void run_all(uint32_t n, uint32_t limit, const struct figures *expected)
{
	run(n, limit, expected, ONE_REGION, UINT64_MAX);
	run(n, limit, expected, ONE_REGION, 100);
	run(n, limit, expected, MANY_SPACES, UINT64_MAX);
	run(n, limit, expected, MANY_SPACES, 3);
	run(n, limit, expected, AMONG_OTHERS, UINT64_MAX);
	run(n, limit, expected, AMONG_OTHERS, 1);
}

static void test_table(void **unused)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct figures formula = by_formula(table[i].n, table[i].limit);

		assert_memory_equal(&formula, &table[i].figures, sizeof(formula));
		run(table[i].n, table[i].limit, &formula, ONE_REGION, UINT64_MAX);
		run(table[i].n, table[i].limit, &formula, MANY_SPACES, UINT64_MAX);
		run(table[i].n, table[i].limit, &formula, AMONG_OTHERS, 100);
	}
}

static void test_formula(void **unused)
{
	for (uint32_t n = 1; n <= 40; n++) {
		for (uint32_t limit = 2; limit <= 9; limit++) {
			struct figures formula = by_formula(n, limit);

			run_all(n, limit, &formula);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_formula),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
