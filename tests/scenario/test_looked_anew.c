/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_looked_anew.c - a look does away with what was known of a page before it: the NUMA node of a
 * time when nodes were kept apart, and why a page was refused before it could be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

static void apart_then_across(enum pdd_aging aging)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .aging = aging, .nodes_apart = true });
	struct sim_region *r = sim_region_add(sim_space_add(sim, 0), 2);
	struct pdd_tunables t = { .size = sizeof(t) };

	sim_write(r, 0, 7);
	sim_write(r, 1, 7);
	sim_migrate(r, 1, 3);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 2);
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	t.merge_across_nodes = 1;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
	sim->options.nodes_apart = false;
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 1);
	sim_destroy(sim);
}

static void test_nodes(void **unused)
{
	apart_then_across(PDD_AGING_NONE);
	apart_then_across(PDD_AGING_PHASE);
}

static void refused_then_read(bool one_look)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .aging = PDD_AGING_NONE, .one_look = one_look });
	struct sim_region *r = sim_region_add(sim_space_add(sim, 0), 4);

	for (uint64_t i = 0; i < 4; i++)
		sim_write(r, i, 5 + i);
	r->pages[1].refuse = PDD_REASON_HUGE;
	r->space->busy = true;
	sim_pass(sim, UINT64_MAX);
	r->space->busy = false;
	r->pages[2].refuse = PDD_REASON_LOCKED;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(r, 1), PDD_REASON_HUGE);
	assert_int_equal(sim_reason(r, 2), PDD_REASON_LOCKED);
	r->pages[1].refuse = r->pages[2].refuse = PDD_REASON_NONE;
	sim_passes(sim, 3);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(sim_reason(r, i), PDD_REASON_UNIQUE);
	sim_destroy(sim);
}

static void test_reasons(void **unused)
{
	refused_then_read(false);
	refused_then_read(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_reasons),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
