/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_savings.c - s44, s56 and s61: what is counted as saved is what was saved by the library,
 * once, and each class of pages is counted as what it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

/* s56: 3 equal pages are one shared and two sharing, of which two are saved; of 3 zero pages three
 * are. */
static void test_three_and_three(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .page_shift = 12 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 6);
	struct pdd_counts counts;
	struct pdd_stats stats;

	for (uint64_t i = 0; i < 6; i++)
		sim_write(region, i, i < 3 ? 1 : 0);
	sim_passes(sim, 2);
	stats = sim_stats(sim);
	counts = sim_counts(region->space);
	assert_int_equal(stats.pages_shared, 1);
	assert_int_equal(stats.pages_sharing, 2);
	assert_int_equal(counts.ksm_merging_pages, 3);
	assert_int_equal(counts.ksm_zero_pages, 3);
	assert_int_equal(counts.ksm_rmap_items, 6);
	assert_int_equal(counts.reasons[PDD_REASON_NONE], 6);
	assert_int_equal(stats.bytes_if_all_unshared, (2 + 3) * 4096);
	assert_int_equal(stats.general_profit_bytes, (2 + 3) * 4096 - 6 * 48);
	assert_int_equal(stats.net_profit_bytes, (2 + 3) * 4096 - (int64_t)stats.metadata_bytes);
	/* of a space: its pages that share, the first of the frame included */
	assert_int_equal(counts.ksm_process_profit_bytes, (3 + 3) * 4096 - 6 * 48);

	/* One of each is written. */
	sim_write(region, 0, 2);
	sim_write(region, 3, 3);
	sim_passes(sim, 2);
	stats = sim_stats(sim);
	assert_int_equal(stats.pages_shared, 1);
	assert_int_equal(stats.pages_sharing, 1);
	assert_int_equal(stats.counts.ksm_zero_pages, 2);
	assert_int_equal(stats.bytes_if_all_unshared, (1 + 2) * 4096);
	sim_destroy(sim);
}

/* Fill a page with two words in turn. */
static void fill(struct sim_region *region, uint64_t page, uint64_t even, uint64_t odd)
{
	uint64_t words[512];

	sim_write(region, page, 1);
	for (size_t i = 0; i < 512; i++)
		words[i] = i % 2 ? odd : even;
	memcpy(sim_memory(region, page), words, sizeof(words));
}

/* The simulation does not know these contents, so without its proof of them. */
static void pass(struct sim *sim)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	sim->stepping = true;
	assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &budget), PDD_STEP_PASS);
	sim->stepping = false;
	assert_int_equal(pdd_scanner_check(&sim->scanner, NULL), 0);
}

/* s61: 100 pages of 0xFF, 100 zero pages, 100 in which two words take turns. Only these are hashed.
 * The filled ones merge like any others. */
static void test_classes(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .page_shift = 12 });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 300);
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	for (uint64_t i = 0; i < 100; i++) {
		fill(region, i, UINT64_MAX, UINT64_MAX);
		fill(region, 100 + i, 0, 0);
		fill(region, 200 + i, UINT64_C(0xaaaaaaaaaaaaaaaa), UINT64_C(0xbbbbbbbbbbbbbbbb));
	}
	for (uint64_t n = 1; n <= 2; n++) {
		pass(sim);
		assert_int_equal(sim_stats(sim).counts.pages_zero_filled, 100);
		assert_int_equal(sim_stats(sim).counts.pages_same_filled, 100);
		assert_int_equal(sim_stats(sim).counts.pages_scanned, 300 * n);
		assert_int_equal(sim_stats(sim).counts.pages_hashed, 100 * n);
	}
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 100);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 2 * 99);
	for (uint64_t i = 0; i < 300; i++) {
		static const enum pdd_class classes[] = {
			PDD_CLASS_FILLED, PDD_CLASS_ZERO, PDD_CLASS_OTHER,
		};

		assert_int_equal(pdd_region_explain(&region->region, i, &explanation), 0);
		if (i / 100 != 1) /* the zero page says it all */
			assert_int_equal(explanation.class_, classes[i / 100]);
		assert_int_equal(explanation.state,
				 i / 100 == 1 ? PDD_STATE_ZERO : PDD_STATE_SHARED);
	}
	sim_destroy(sim);
}

/* The gauges follow what becomes of pages. */
static void test_classes_change(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 90);

	for (unsigned round = 0; round < 30; round++) {
		uint64_t zero = 0, filled = 0;

		for (uint64_t i = 0; i < 90; i++) {
			static const uint64_t contents[] = { 0, SIM_FILLED | 1, SIM_FILLED | 2, 7 };

			if (sim_random(sim, 3) == 0)
				sim_write(region, i, contents[sim_random(sim, 4)]);
			else if (sim_random(sim, 9) == 0)
				assert_int_equal(pdd_region_discard(&region->region, i, 1), 0);
			if (region->pages[i].kind != PDD_PAGE_ABSENT) {
				zero += region->pages[i].expected == 0;
				filled += (region->pages[i].expected & SIM_FILLED) != 0;
			}
		}
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_stats(sim).counts.pages_zero_filled, zero);
		assert_int_equal(sim_stats(sim).counts.pages_same_filled, filled);
	}
	sim_destroy(sim);
}

/* s44: two regions whose hook reports one foreign frame: nothing is saved by us. */
static void test_foreign_frame(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_frame *frame = sim_foreign_frame(sim, 1);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 4);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 4);

	for (uint64_t i = 0; i < 4; i++) {
		sim_show_foreign(a, i, frame);
		sim_show_foreign(b, i, frame);
	}
	sim_passes(sim, 70);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_FOREIGN_FRAME], 8);
	assert_int_equal(sim_stats(sim).bytes_if_all_unshared, 0);
	assert_int_equal(sim_stats(sim).counts.merges + sim_stats(sim).counts.adoptions, 0);
	assert_int_equal(sim->held_pages, 0);
	sim_destroy(sim);
}

/* s44: the regions of clones report the frame that the first two pages share. Each is counted once,
 * as a sharer, and none is merged again in however many passes. */
static void test_clones_share_already(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *region = sim_region_add(space, 2);
	uint64_t held;

	sim_write(region, 0, 1);
	sim_write(region, 1, 1);
	sim_passes(sim, 2);
	sim_space_clone(space);
	sim_space_clone(sim->spaces);
	held = sim->held_pages;
	for (unsigned n = 0; n < 70; n++) {
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_stats(sim).pages_shared, 1);
		assert_int_equal(sim_stats(sim).pages_sharing, 6 - 1);
		assert_int_equal(sim_stats(sim).counts.merges, 2);
		assert_int_equal(sim_stats(sim).counts.adoptions, 4);
	}
	assert_int_equal(sim->held_pages, held);
	assert_int_equal(sim->calls[SIM_FRAMES_CREATE], 1);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three_and_three),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_classes_change),
		cmocka_unit_test(test_foreign_frame),
		cmocka_unit_test(test_clones_share_already),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
