/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking_device.c - write tracking: writes that are never told of, as by a device. They cost
 * savings and nothing else: what differs from what is recorded is found out when it is held or
 * compared, is read again, and merges then as what it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "item_internal.h"
#include "reads.h"
#include "sim.h"

/* The page changes, and pages_written will not tell. */
static void device_write(struct sim_region *region, uint64_t page, uint64_t content)
{
	bool written = region->pages[page].written;

	sim_write(region, page, content);
	region->pages[page].written = written;
}

/* Unique pages 1 .. n, at rest. */
static struct sim *world(struct sim_region **region, uint64_t n, enum sim_checksum checksum)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .tracked = true, .checksum = checksum, .nroots = 1 });

	*region = sim_region_add(sim_space_add(sim, 0), n);
	for (uint64_t i = 0; i < n; i++)
		sim_write(*region, i, 1 + i);
	if (checksum == SIM_CHECKSUM_DEFAULT)
		reads_watch(sim, *region);
	sim_passes(sim, 3);
	/* from here on sim_verify() must not expect that writes are told of, and what holding does
	 * is not told of either */
	sim->options.tracked = false;
	reads_clear();
	return sim;
}

static void destroy(struct sim *sim)
{
	reads_end();
	sim_destroy(sim);
}

/* A twin in the index is not what it was: found changed under hold. It is due and read in the next
 * pass, once, and merges with what it equals by now. The page that found it takes its place. */
static void test_twin(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 20, SIM_CHECKSUM_DEFAULT);

	device_write(region, 3, 12); /* as page 11 */
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(reads_total, 0);
	sim_write(region, 7, 4); /* as page 3 was */
	sim_passes(sim, 2);
	assert_int_equal(sim_reason(region, 3), PDD_REASON_CHANGED);
	assert_int_equal(sim_reason(region, 7), PDD_REASON_UNIQUE);
	assert_int_equal(sim_stats(sim).stale_twins, 1);
	assert_int_equal(sim_stats(sim).counts.pages_due, 1);
	assert_true(item_is_dirty(sim_item(region, 3)));
	assert_int_equal(reads_of[3], 0); /* but while it was held */
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(reads_of[3], 1);
	assert_ptr_equal(region->pages[3].frame, region->pages[11].frame);
	assert_true(sim_is_shared(region, 3));
	sim_write(region, 8, 4);
	sim_passes(sim, 2);
	assert_true(sim_is_shared(region, 7) && sim_is_shared(region, 8));
	assert_int_equal(reads_of[3], 1);
	destroy(sim);
}

/* The page at hand is not what it was, between its first look and the second one that reads
 * nothing: the frame that is copied from it is not used. Or a frame is there, and differs. */
static void test_page_at_hand(void **unused)
{
	for (unsigned framed = 0; framed < 2; framed++) {
		struct sim_region *region;
		struct sim *sim = world(&region, 20, SIM_CHECKSUM_DEFAULT);

		sim_write(region, 5, 1);
		if (framed)
			sim_write(region, 6, 1);
		sim_passes(sim, 2);
		assert_true(sim_is_shared(region, 0));
		sim_write(region, 7, framed ? 1 : 9); /* page 8 has 9 */
		sim_pass(sim, UINT64_MAX);
		device_write(region, 7, 12); /* as page 11 */
		reads_clear();
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_reason(region, 7), PDD_REASON_CHANGED);
		assert_true(item_is_dirty(sim_item(region, 7)));
		assert_int_equal(sim_reason(region, 8), PDD_REASON_UNIQUE);
		assert_int_equal(reads_of[7], 0);
		sim_passes(sim, 2);
		assert_int_equal(reads_of[7], 1);
		assert_true(sim_is_shared(region, 7) && sim_is_shared(region, 11));
		assert_ptr_equal(region->pages[7].frame, region->pages[11].frame);
		assert_int_equal(sim_stats(sim).collisions, 0);
		destroy(sim);
	}
}

/* A page that was zero is not, when it is to be replaced; one that was not is, and is not missed
 * for ever if anybody asks for its old content. */
static void test_zero(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 20, SIM_CHECKSUM_DEFAULT);

	sim_write(region, 5, 0);
	sim_pass(sim, UINT64_MAX);
	device_write(region, 5, 12);
	device_write(region, 3, 0);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(region, 5), PDD_REASON_CHANGED);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
	sim_pass(sim, UINT64_MAX);
	assert_true(sim_is_shared(region, 5) && sim_is_shared(region, 11));
	sim_write(region, 6, 4); /* as page 3 was */
	sim_passes(sim, 3);
	assert_int_equal(region->pages[3].kind, PDD_PAGE_ZERO);
	destroy(sim);
}

/* The first page from `first` on that shares nothing and has this checksum, or any other one. */
static uint64_t find(const struct sim_region *region, uint64_t first, uint64_t checksum, bool other)
{
	uint64_t i = first;

	while (i < region->npages &&
	       (sim_is_shared(region, i) ||
		(sim_item(region, i)->priv.node.checksum == checksum) == other))
		i++;
	assert_true(i < region->npages);
	return i;
}

/* Among collisions an item that a search finds to be stale is evicted, due and read. */
static void test_evicted(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 60, SIM_CHECKSUM_2_BITS);
	uint64_t page, equal, checksum, stale;

	sim_passes(sim, 70);
	page = find(region, 0, UINT64_MAX, true);
	checksum = sim_item(region, page)->priv.node.checksum;
	(void)find(region, page + 1, checksum, false); /* that will meet it */
	equal = find(region, page + 1, checksum, true);
	stale = sim_stats(sim).stale_twins;
	device_write(region, page, region->pages[equal].expected);
	sim_passes(sim, 3 * PDD_AGING_PERIOD_MAX);
	assert_true(sim_stats(sim).stale_twins > stale);
	assert_ptr_equal(region->pages[page].frame, region->pages[equal].frame);
	assert_true(sim_is_shared(region, page));
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_STALE], 0);
	destroy(sim);
}

/* A page that was zero has another content by a write that nobody told of, and its checksum is the
 * same. Its class is not: it must not be tried as a zero page for ever, and merges with its equal. */
static void test_zero_collides(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 4, SIM_CHECKSUM_ZERO);

	sim_write(region, 0, 0);
	for (unsigned pass = 0; item_class(sim_item(region, 0)) != PDD_CLASS_ZERO; pass++) {
		assert_in_range(pass, 0, PDD_AGING_PERIOD_MAX);
		sim_pass(sim, UINT64_MAX);
	}
	device_write(region, 0, 2); /* as page 1 */
	sim_passes(sim, 3 * PDD_AGING_PERIOD_MAX);
	assert_true(sim_is_shared(region, 0) && sim_is_shared(region, 1));
	destroy(sim);
}

/* A device writes into random pages all the time. No content is lost or mixed up; when it stops,
 * and all that it wrote is told of at last, all merges. */
static void test_busy_device(void **unused)
{
	for (unsigned checksum = 0; checksum <= SIM_CHECKSUM_2_BITS; checksum++) {
		struct sim_region *region;
		struct sim *sim = world(&region, 60, (enum sim_checksum)checksum);

		for (unsigned pass = 0; pass < 100; pass++) {
			for (unsigned i = 0; i < 6; i++)
				device_write(region, sim_random(sim, 60), sim_random(sim, 8));
			sim_write(region, sim_random(sim, 60), sim_random(sim, 8));
			sim_step(sim, 1 + sim_random(sim, 60));
		}
		for (uint64_t i = 0; i < 60; i++)
			region->pages[i].written = true;
		sim_passes(sim, 3 * PDD_AGING_PERIOD_MAX);
		for (uint64_t i = 0; i < 60; i++)
			for (uint64_t j = 0; j < i; j++)
				if (region->pages[i].expected == region->pages[j].expected)
					assert_true(region->pages[i].kind != PDD_PAGE_PRIVATE &&
						    region->pages[j].kind != PDD_PAGE_PRIVATE);
		destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twin),	      cmocka_unit_test(test_page_at_hand),
		cmocka_unit_test(test_zero),	      cmocka_unit_test(test_evicted),
		cmocka_unit_test(test_zero_collides), cmocka_unit_test(test_busy_device),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
