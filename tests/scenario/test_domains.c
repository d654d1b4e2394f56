/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_domains.c - s62: nothing is shared across domains, not even under checksum collisions, and
 * the pages of each domain merge as if the others were not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

static void run(enum sim_checksum checksum, uint32_t limit)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .checksum = checksum, .limit = limit, .nroots = 1 });
	struct sim_region *regions[6];

	/* domain 0: two spaces, domain 1: three, domain 2^32 - 1: one */
	for (unsigned i = 0; i < 6; i++) {
		static const uint32_t domains[] = { 0, 1, UINT32_MAX, 1, 0, 1 };

		regions[i] = sim_region_add(sim_space_add(sim, domains[i]), 3);
		for (uint64_t page = 0; page < 3; page++)
			sim_write(regions[i], page, 10 + page);
	}
	sim_passes(sim, 12);
	for (uint64_t page = 0; page < 3; page++) {
		for (unsigned i = 0; i < 6; i++)
			if (i != 2)
				assert_true(sim_is_shared(regions[i], page));
		assert_ptr_not_equal(regions[0]->pages[page].frame, regions[1]->pages[page].frame);
	}
	if (checksum == SIM_CHECKSUM_DEFAULT) {
		assert_int_equal(sim_stats(sim).pages_shared, 6);
		assert_int_equal(sim_stats(sim).pages_sharing, 3 * (1 + 2));
		assert_int_equal(sim_counts(regions[2]->space).pages_unshared, 3);
	}
	sim_destroy(sim);
}

static void test_domains(void **unused)
{
	run(SIM_CHECKSUM_DEFAULT, 0);
	run(SIM_CHECKSUM_ZERO, 0);
}

/* The same page in two domains, and twice in one. */
static void test_same_page(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 1), 2);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 2), 1);

	sim_write(a, 0, 5);
	sim_write(a, 1, 5);
	sim_write(b, 0, 5);
	sim_settle(sim, 4);
	assert_true(sim_is_shared(a, 0) && sim_is_shared(a, 1) && !sim_is_shared(b, 0));
	assert_int_equal(sim_counts(b->space).ksm_merging_pages, 0);
	assert_int_equal(sim_counts(a->space).ksm_merging_pages, 2);
	sim_destroy(sim);
}

/* Pages of equal content in several domains do not stand beside each other: if they did, each look
 * at any page would have to find out about its neighbours. */
static void test_no_neighbours(void **unused)
{
	struct sim *sim = sim_create(NULL);

	for (uint32_t domain = 0; domain < 3; domain++)
		sim_write(sim_region_add(sim_space_add(sim, domain), 1), 0, 5);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 3);
	assert_int_equal(sim->scanner.priv.nbeside, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_domains),
		cmocka_unit_test(test_same_page),
		cmocka_unit_test(test_no_neighbours),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
