/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rewritten.c - s25: pages that are rewritten all the time are not read all the time, and what
 * they unshare is counted by region.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

static uint64_t nread;

/* Counts what is read: the library reads a page to checksum it, and else only while it is held. */
static int count_reads(void *ctx, uint64_t *value, const void *content)
{
	const struct sim *sim = ctx;
	uint64_t word, sum = 0;

	for (size_t at = 0; at < sim->page_size; at += sizeof(word)) {
		memcpy(&word, (const char *)content + at, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	}
	*value = sum;
	nread++;
	return 0;
}

/* From pass 100 on no pass reads more than 1/8 of a region that is rewritten before every pass, and
 * the pages beside it are none the worse for it. */
static void rewritten(uint64_t npages, uint32_t max_period)
{
	struct sim *sim = sim_create(&(struct sim_options){ .max_period = max_period });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), npages);

	sim->scanner.priv.ops.checksum = count_reads;
	for (uint64_t pass = 0; pass < 300; pass++) {
		uint64_t scanned = sim_stats(sim).counts.pages_scanned;

		for (uint64_t i = 0; i < npages; i++)
			sim_write(region, i, 1 + pass * npages + i);
		nread = 0;
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(nread, sim_stats(sim).counts.pages_scanned - scanned);
		if (pass >= 100)
			assert_in_range(nread, 0, npages / 8);
		assert_int_equal(sim->held_pages, 0);
	}
	assert_int_equal(pdd_region_unshares(&region->region), 0);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	assert_int_equal(sim_stats(sim).counts.merges, 0);
	sim_destroy(sim);
}

static void test_reads(void **unused)
{
	rewritten(640, 0);
	rewritten(512, 64);
	rewritten(2000, 32);
}

static uint64_t first_shared(const struct sim_region *region)
{
	uint64_t page = 0;

	while (!sim_is_shared(region, page))
		page++;
	return page;
}

/* Pages that merge are rewritten before they do it again: each time that is one unshare, of this
 * region and no other. */
static void test_unshares(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *changing = sim_region_add(space, 50);
	struct sim_region *steady = sim_region_add(space, 50);
	uint64_t unshares = 0;

	for (uint64_t i = 0; i < 50; i++)
		sim_write(steady, i, 1 + i);
	for (unsigned round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 50; i++) {
			unshares += sim_is_shared(changing, i);
			sim_write(changing, i, sim_random(sim, 2) ? 1 + i : 1000 + 50 * round + i);
		}
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(pdd_region_unshares(&changing->region), unshares);
		sim_pass(sim, UINT64_MAX);
	}
	assert_true(unshares > 100);
	assert_int_equal(pdd_region_unshares(&steady->region), 0);
	assert_int_equal(sim_counts(space).unshares, unshares);
	assert_int_equal(sim->traced[PDD_EVENT_UNSHARED], unshares);
	sim_write(steady, first_shared(steady), 5000);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(pdd_region_unshares(&steady->region), 1);
	/* Unmerging and discarding is no write. */
	assert_int_equal(sim_unmerge(steady, first_shared(steady), 1), 1);
	assert_int_equal(pdd_region_discard(&steady->region, first_shared(steady), 1), 0);
	sim_passes(sim, 2);
	assert_int_equal(pdd_region_unshares(&steady->region), 1);
	sim_region_remove(changing);
	assert_int_equal(sim_stats(sim).counts.unshares, unshares + 1); /* in all it stays */
	sim_destroy(sim);
}

/* A region that is not added any more, or never was, has none. */
static void test_not_added(void **unused)
{
	struct pdd_region region = { 0 };

	assert_int_equal(pdd_region_unshares(&region), 0);
	assert_int_equal(pdd_region_unshares(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_unshares),
		cmocka_unit_test(test_not_added),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
