/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ltp_phases.c - the phases of LTP's KSM tests: three processes fill their memory anew, some
 * bytes apart, and the figures are exact each time; then all is unmerged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define EACH 2048u
#define ALL (3 * EACH)

static struct sim_region *children[3];

static void fill(const char *contents)
{
	for (unsigned child = 0; child < 3; child++)
		for (uint64_t i = 0; i < EACH; i++)
			sim_write(children[child], i, SIM_FILLED | (uint64_t)contents[child]);
}

static void assert_figures(const struct sim *sim, uint64_t shared, uint64_t sharing,
			   uint64_t unshared)
{
	struct pdd_stats stats = sim_stats(sim);

	assert_int_equal(stats.pages_shared, shared);
	assert_int_equal(stats.pages_sharing, sharing);
	assert_int_equal(stats.counts.pages_volatile, 0);
	assert_int_equal(stats.counts.pages_unshared, unshared);
}

static void test_phases(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = ALL, .nroots = 1 });

	for (unsigned child = 0; child < 3; child++)
		children[child] = sim_region_add(sim_space_add(sim, 0), EACH);
	fill("caa");
	sim_passes(sim, 3);
	assert_figures(sim, 2, ALL - 2, 0);
	fill("cba");
	sim_passes(sim, 3);
	assert_figures(sim, 3, ALL - 3, 0);
	fill("ddd");
	sim_passes(sim, 3);
	assert_figures(sim, 1, ALL - 1, 0);
	sim_write(children[1], EACH - 1, 'e');
	sim_passes(sim, 3);
	assert_figures(sim, 1, ALL - 2, 1);
	for (unsigned child = 0; child < 3; child++)
		assert_true(sim_unmerge(children[child], 0, EACH) >= EACH - 1);
	assert_int_equal(sim_stats(sim).pages_shared + sim_stats(sim).pages_sharing, 0);
	sim_destroy(sim);
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
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_long_chain),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
