/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking.c - write tracking saves reading: what was not written is not read again, an
 * extent that is at rest costs three calls of hooks, and a page that was written is read once, in
 * its turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "item_internal.h"
#include "reads.h"
#include "sim.h"

#define EXTENT PDD_EXTENT_PAGES

static uint64_t calls[SIM_HOOKS]; /* in steps */

static void count_calls(struct sim *sim, enum sim_hook hook, bool before)
{
	if (before && sim->stepping)
		calls[hook]++;
}

/* A pass in which calls and reads are counted from 0. */
static void counted_pass(struct sim *sim)
{
	memset(calls, 0, sizeof(calls));
	reads_clear();
	sim_pass(sim, UINT64_MAX);
}

static uint64_t unlike(uint64_t page)
{
	return 1 + page;
}

/* Zero, same-filled and other pages, none equal to another one but the zero pages. */
static uint64_t of_all_classes(uint64_t page)
{
	if (page % 7 == 0)
		return 0;
	return page % 7 == 1 ? SIM_FILLED | (1 + page) : 1 + page;
}

static struct sim *world(struct sim_region **region, uint64_t npages,
			 uint64_t (*content)(uint64_t page))
{
	struct sim *sim = sim_create(&(struct sim_options){ .tracked = true, .nroots = 1024 });

	*region = sim_region_add(sim_space_add(sim, 0), npages);
	for (uint64_t i = 0; i < npages; i++)
		sim_write(*region, i, content(i));
	reads_watch(sim, *region);
	sim->at = count_calls;
	return sim;
}

static void destroy(struct sim *sim)
{
	sim->at = NULL;
	reads_end();
	sim_destroy(sim);
}

/* The second look at a page that was not written reads nothing, whatever class it is of, and
 * decides all the same: into the index, to a twin, to the zero page. */
static void test_second_look(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, EXTENT, of_all_classes);
	uint64_t hashed;

	sim_write(region, 8, region->pages[2].expected);
	counted_pass(sim);
	assert_int_equal(reads_total, EXTENT);
	for (uint64_t i = 0; i < EXTENT; i++)
		assert_int_equal(reads_of[i], 1);
	hashed = sim_stats(sim).counts.pages_hashed;
	counted_pass(sim);
	assert_int_equal(reads_total, 0);
	assert_int_equal(sim_stats(sim).counts.pages_scanned, 2 * EXTENT);
	assert_int_equal(sim_stats(sim).counts.pages_hashed, hashed);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, (EXTENT + 6) / 7);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
	assert_true(sim_is_shared(region, 2) && sim_is_shared(region, 8));
	for (uint64_t i = 0; i < EXTENT; i++)
		if (i % 7 && !sim_is_shared(region, i))
			assert_int_equal(sim_reason(region, i), PDD_REASON_UNIQUE);
	destroy(sim);
}

/* Of those that were written between the two looks, one that has its old content again is read, and
 * has its second look; one that has another starts anew. */
static void test_written_between_looks(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 100, unlike);

	counted_pass(sim);
	sim_write(region, 10, region->pages[10].expected);
	sim_write(region, 11, 5000);
	counted_pass(sim);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(reads_of[i], i == 10 || i == 11);
		assert_int_equal(sim_reason(region, i),
				 i == 11 ? PDD_REASON_VOLATILE : PDD_REASON_UNIQUE);
	}
	counted_pass(sim);
	assert_int_equal(reads_total, 0);
	assert_int_equal(sim_reason(region, 11), PDD_REASON_UNIQUE);
	destroy(sim);
}

static void assert_calls(uint64_t tries, uint64_t asked, uint64_t gets)
{
	for (unsigned hook = 0; hook < SIM_HOOKS; hook++) {
		uint64_t n = 0;

		if (hook == SIM_LOCK_SCANNER || hook == SIM_UNLOCK_SCANNER)
			continue;
		if (hook == SIM_TRYLOCK || hook == SIM_UNLOCK)
			n = tries;
		else if (hook == SIM_PAGES_WRITTEN)
			n = asked;
		else if (hook == SIM_PAGES_GET || hook == SIM_PAGES_PUT)
			n = gets;
		assert_int_equal(calls[hook], n);
	}
}

/* An extent with pages of all kinds, in which nothing is unsettled and nothing was written: no hook
 * but the three, no item is touched, and all its pages count as clean. */
static void test_extents_at_rest(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 3 * EXTENT - 100, of_all_classes);
	uint64_t npages = region->npages;
	struct pdd_item *items = calloc(npages, sizeof(*items));
	struct pdd_counts before, after;

	for (uint64_t i = 0; i < npages; i += 10)
		sim_write(region, i, 9999); /* to be shared */
	for (uint64_t i = 3; i < npages; i += 10)
		sim_discard(region, i);
	region->pages[5].kind = PDD_PAGE_ZERO;
	region->pages[5].expected = 0;
	sim_passes(sim, 5);
	memcpy(items, region->items, npages * sizeof(*items));
	for (unsigned pass = 0; pass < 150; pass++) {
		before = sim_stats(sim).counts;
		counted_pass(sim);
		after = sim_stats(sim).counts;
		assert_calls(3, 1, 0);
		assert_int_equal(after.pages_clean - before.pages_clean, npages);
		assert_int_equal(after.pages_scanned, before.pages_scanned);
		assert_int_equal(after.pages_skipped, before.pages_skipped);
		assert_memory_equal(items, region->items, npages * sizeof(*items));
	}
	assert_int_equal(reads_total, 0);
	free(items);
	destroy(sim);
}

/* One page in an extent at rest is written: it is read, once; its neighbours are come by and
 * counted as clean, the other extents left alone. Wherever it stands. */
static void test_one_written_page(void **unused)
{
	static const uint64_t where[] = { 0, 1, 63, 64, EXTENT - 1, EXTENT, EXTENT + 130,
					  3 * EXTENT - 101 };
	struct sim_region *region;
	struct sim *sim = world(&region, 3 * EXTENT - 100, unlike);

	sim_passes(sim, 3);
	for (unsigned i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		struct pdd_counts before = sim_stats(sim).counts, after;

		sim_write(region, where[i], region->pages[where[i]].expected);
		counted_pass(sim);
		after = sim_stats(sim).counts;
		assert_calls(3, 1, 1);
		assert_int_equal(reads_total, 1);
		assert_int_equal(reads_of[where[i]], 1);
		assert_int_equal(after.pages_scanned - before.pages_scanned, 1);
		assert_int_equal(after.pages_clean - before.pages_clean, region->npages - 1);
		counted_pass(sim);
		assert_calls(3, 1, 0);
	}
	destroy(sim);
}

static uint32_t next_look(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&region->region, page, &explanation), 0);
	return explanation.next_look_passes;
}

/* Pages grow old while they are written with what they contain. */
static void make_old(struct sim *sim, struct sim_region *region, unsigned passes)
{
	while (passes--) {
		for (uint64_t i = 0; i < region->npages; i++)
			sim_write(region, i, region->pages[i].expected);
		sim_pass(sim, UINT64_MAX);
	}
}

/* Old pages are written once, which the hook tells once. That is kept until they are looked at,
 * each in the pass of its phase, up to 63 passes later; then it is read, and only then. */
static void test_answer_is_kept(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 200, unlike);
	uint32_t when[200], latest = 0;

	sim_passes(sim, 3);
	make_old(sim, region, 70);
	sim_passes(sim, 64);
	for (uint64_t i = 0; i < 200; i++)
		assert_false(item_is_dirty(sim_item(region, i)));
	for (uint64_t i = 0; i < 200; i++) {
		when[i] = next_look(region, i);
		latest = when[i] > latest ? when[i] : latest;
		sim_write(region, i, 1000 + i);
	}
	assert_in_range(latest, 32, 63);
	for (uint32_t pass = 0; pass <= latest; pass++) {
		counted_pass(sim);
		for (uint64_t i = 0; i < 200; i++) {
			assert_int_equal(reads_of[i], when[i] == pass);
			assert_int_equal(item_is_dirty(sim_item(region, i)), when[i] > pass);
			assert_false(region->pages[i].written);
		}
	}
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(sim_reason(region, i), PDD_REASON_UNIQUE);
	assert_int_equal(sim_stats(sim).stale_twins, 0);
	destroy(sim);
}

/* Such a page is a twin before it is looked at: it is found changed while held, and is due then. */
static void test_kept_answer_of_a_twin(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 3, unlike);

	make_old(sim, region, 70);
	sim_passes(sim, 64 - (unsigned)sim->scanner.priv.epoch % 64); /* so: none is dirty */
	for (unsigned pass = 0; next_look(region, 0) < 10; pass++) {
		assert_in_range(pass, 0, PDD_AGING_PERIOD_MAX);
		sim_pass(sim, UINT64_MAX);
	}
	sim_write(region, 0, 77);
	sim_write(region, 1, unlike(0));
	sim_write(region, 2, 77);
	item_set_due((struct pdd_item *)(uintptr_t)sim_item(region, 1), true);
	item_set_due((struct pdd_item *)(uintptr_t)sim_item(region, 2), true);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).stale_twins, 1);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_CHANGED);
	assert_int_equal(sim_stats(sim).counts.pages_due, 1);
	counted_pass(sim);
	assert_int_equal(reads_of[0], 1);
	assert_true(sim_is_shared(region, 0) && sim_is_shared(region, 2));
	assert_int_equal(sim_reason(region, 1), PDD_REASON_UNIQUE);
	destroy(sim);
}

/* What is not settled is come by though nobody writes: pages that changed all the time and are
 * left to their age, and pages that pages_get refuses, until it does not. */
static void test_unsettled_pages(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 2 * EXTENT, unlike);

	for (uint64_t i = 0; i < 20; i++)
		region->pages[EXTENT + i].refuse = PDD_REASON_LOCKED;
	for (unsigned pass = 0; pass < 30; pass++) {
		for (uint64_t i = 0; i < 20; i++)
			sim_write(region, i, 10000 + 100 * pass + i);
		sim_pass(sim, UINT64_MAX);
	}
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_VOLATILE], 20);
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_LOCKED], 20);
	for (uint64_t i = 0; i < 20; i++)
		region->pages[EXTENT + i].refuse = PDD_REASON_NONE;
	reads_clear();
	sim_passes(sim, 2 * PDD_AGING_PERIOD_MAX);
	assert_int_equal(sim_counts(region->space).pages_unshared, 2 * EXTENT);
	for (uint64_t i = 0; i < 2 * EXTENT; i++)
		assert_in_range(reads_of[i], i >= EXTENT && i < EXTENT + 20,
				i % EXTENT < 20); /* the last write may have been read */
	destroy(sim);
}

/* A page that shares a frame is written, and told of, while pages_get refuses it: nothing can be
 * known of it then. It is found to have a copy of its own as soon as it is not refused any more. */
static void test_refused_sharer(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, EXTENT, unlike);

	sim_write(region, 1, 1);
	sim_passes(sim, 3);
	assert_true(sim_is_shared(region, 1));
	region->pages[1].refuse = PDD_REASON_LOCKED;
	sim_write(region, 1, 5000);
	sim_passes(sim, 5);
	assert_int_equal(sim_stats(sim).pages_sharing, 1);
	region->pages[1].refuse = PDD_REASON_NONE;
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 0);
	assert_int_equal(sim_stats(sim).counts.unshares, 1);
	assert_int_equal(sim_reason(region, 1), PDD_REASON_UNIQUE);
	destroy(sim);
}

/* Where the index is rebuilt all pages are come by, and looked at in their turns; but what was not
 * written is not read. */
static void test_rebuilt_index(void **unused)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .tracked = true, .index = PDD_INDEX_REBUILT });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 300);

	for (uint64_t i = 0; i < 300; i++)
		sim_write(region, i, 1 + i);
	reads_watch(sim, region);
	sim_passes(sim, 40);
	assert_int_equal(reads_total, 300);
	assert_true(sim_stats(sim).counts.pages_scanned > 300 * 40 / 8);
	assert_int_equal(sim_stats(sim).counts.pages_clean, 0);
	sim_write(region, 7, 8);
	sim_passes(sim, 8);
	assert_int_equal(reads_of[7], 2);
	assert_int_equal(reads_total, 301);
	destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_look),
		cmocka_unit_test(test_written_between_looks),
		cmocka_unit_test(test_extents_at_rest),
		cmocka_unit_test(test_one_written_page),
		cmocka_unit_test(test_answer_is_kept),
		cmocka_unit_test(test_kept_answer_of_a_twin),
		cmocka_unit_test(test_unsettled_pages),
		cmocka_unit_test(test_refused_sharer),
		cmocka_unit_test(test_rebuilt_index),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
