/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_retune.c - s17: settings that change in the middle of a pass are in force from the next step
 * on, for the pages that are come by from there; what was done before stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

static struct pdd_tunables get(const struct sim *sim)
{
	struct pdd_tunables t = { .size = sizeof(t) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	return t;
}

static void set(struct sim *sim, const struct pdd_tunables *t)
{
	if (t->max_page_sharing < get(sim).max_page_sharing)
		sim->limit_lowered = true;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, t), 0);
	sim_verify(sim);
}

/* One region of n pages, each with the content that is given by its number. */
static struct sim *world(const struct sim_options *options, struct sim_region **region, uint64_t n,
			 uint64_t (*content)(uint64_t page))
{
	struct sim *sim = sim_create(options);

	*region = sim_region_add(sim_space_add(sim, 0), n);
	for (uint64_t i = 0; i < n; i++)
		sim_write(*region, i, content(i));
	return sim;
}

static uint64_t zero(uint64_t page)
{
	return 0;
}

static uint64_t same(uint64_t page)
{
	return 1;
}

static uint64_t unlike(uint64_t page)
{
	return 1 + page;
}

/* use_zero_pages concerns later merges only, either way. */
static void test_use_zero_pages(void **unused)
{
	for (uint32_t use = 0; use < 2; use++) {
		struct sim_region *region;
		struct sim *sim = world(&(struct sim_options){ .keep_zero_pages = !use }, &region,
					40, zero);
		struct pdd_tunables t = get(sim);

		sim_pass(sim, UINT64_MAX);
		sim_step(sim, 20);
		t.use_zero_pages = !use;
		set(sim, &t);
		sim_step(sim, 20);
		for (uint64_t i = 0; i < 40; i++)
			assert_int_equal(region->pages[i].kind, (i < 20) == use ? PDD_PAGE_ZERO
										: PDD_PAGE_SHARED);
		sim_passes(sim, 3);
		assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 20);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 20);
		sim_destroy(sim);
	}
}

/* Without the hook zero_map it is meant to be 0, whatever it says. */
static void test_no_zero_map(void **unused)
{
	struct sim_region *region;
	struct sim *sim =
		world(&(struct sim_options){ .no_zero_map = true }, &region, 10, zero);

	assert_int_equal(get(sim).use_zero_pages, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
	assert_int_equal(sim_stats(sim).pages_sharing, 9);
	sim_destroy(sim);
}

/* A lower limit: frames that have more keep them, those that are founded from the next step on have
 * no more than it. */
static void test_lower_limit(void **unused)
{
	struct sim_region *region;
	struct sim *sim =
		world(&(struct sim_options){ .no_refile = true }, &region, 60, same);
	struct pdd_tunables t = get(sim);

	sim_pass(sim, UINT64_MAX);
	sim_step(sim, 30);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 29);
	t.max_page_sharing = 10;
	set(sim, &t);
	while (sim_step(sim, 100) == PDD_STEP_MORE)
		;
	assert_int_equal(sim_stats(sim).pages_shared, 1 + 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 60);
	for (uint64_t i = 30; i < 60; i++)
		assert_true(pdd_frame_sharers(&region->pages[i].frame->frame) <= 10);
	assert_int_equal(pdd_frame_sharers(&region->pages[0].frame->frame), 30);
	/* it takes none before it has room again */
	for (uint64_t i = 0; i < 20; i++)
		sim_write(region, i, 2);
	sim_write(region, 30, 1);
	sim_passes(sim, 2);
	assert_ptr_not_equal(region->pages[29].frame, region->pages[30].frame);
	sim_destroy(sim);
}

/* A higher limit: the page that found no place joins in the next pass, and with frames_remap the
 * prune that the change brings about empties the frames that are too many. */
static void test_higher_limit(void **unused)
{
	for (unsigned refile = 0; refile < 2; refile++) {
		struct sim_region *region;
		struct sim *sim = world(
			&(struct sim_options){ .limit = 4, .no_refile = !refile, .prune_ms = 100 },
			&region, 41, same);
		struct pdd_tunables t = get(sim);

		sim_passes(sim, 100); /* old, and at rest */
		assert_int_equal(sim_stats(sim).pages_shared, 10);
		assert_int_equal(sim_stats(sim).counts.pages_unshared, 1);
		t.max_page_sharing = 30;
		set(sim, &t);
		sim_pass(sim, 3);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 41);
		assert_int_equal(sim_stats(sim).pages_shared, refile ? 2 : 10);
		assert_int_equal(sim_stats(sim).prunes, 1);
		set(sim, &t); /* the same value brings about nothing */
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).prunes, 1);
		sim_destroy(sim);
	}
}

/* smart_scan = 0 is PDD_AGING_NONE: from the next step on all pages are read; and back. */
static void test_aging(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(NULL, &region, 400, unlike);
	struct pdd_tunables t = get(sim);
	struct pdd_counts before, after;

	sim_passes(sim, 150);
	sim_step(sim, 200);
	before = sim_stats(sim).counts;
	t.aging = PDD_AGING_NONE;
	set(sim, &t);
	sim_step(sim, 100);
	after = sim_stats(sim).counts;
	assert_int_equal(after.pages_scanned - before.pages_scanned, 100);
	assert_int_equal(after.pages_skipped, before.pages_skipped);
	t.aging = PDD_AGING_PHASE;
	set(sim, &t);
	sim_step(sim, 100);
	before = sim_stats(sim).counts;
	assert_int_equal(before.pages_scanned - after.pages_scanned +
				 before.pages_skipped - after.pages_skipped,
			 100);
	assert_true(before.pages_skipped - after.pages_skipped > 50);
	sim_destroy(sim);
}

static uint64_t scanned(const struct sim *sim)
{
	return sim_stats(sim).counts.pages_scanned;
}

/* From the next step on: every policy, and the longest period. */
static void test_aging_of_one_step(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(NULL, &region, 400, unlike);
	struct pdd_tunables t = get(sim);
	uint64_t before;

	sim_passes(sim, 191);
	for (uint64_t epoch = 191; epoch < 194; epoch++) {
		sim_step(sim, 100);
		before = scanned(sim);
		t.aging = PDD_AGING_EPOCH;
		set(sim, &t);
		sim_step(sim, 100);
		assert_int_equal(scanned(sim) - before, epoch % 64 ? 0 : 100);
		before = scanned(sim);
		t.aging = PDD_AGING_PHASE;
		t.max_period_passes = 1;
		set(sim, &t);
		sim_step(sim, 100);
		assert_int_equal(scanned(sim) - before, 100);
		before = scanned(sim);
		t.max_period_passes = 0;
		set(sim, &t);
		sim_step(sim, 100);
		assert_in_range(scanned(sim) - before, 0, 10);
	}
	sim_destroy(sim);
}

/* The index is rebuilt from the next step on: of the pages that are come by from there those that
 * are not looked at leave it, and its own longest period counts. And retained again: they stay. */
static void test_index(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(NULL, &region, 400, unlike);
	struct pdd_tunables t = get(sim);
	uint64_t before, indexed;

	sim_passes(sim, 150);
	sim_step(sim, 200);
	before = scanned(sim);
	t.index = PDD_INDEX_REBUILT;
	set(sim, &t);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 400);
	sim_step(sim, 200);
	assert_in_range(scanned(sim) - before, 5, 60); /* an 8th */
	indexed = sim_stats(sim).counts.pages_unshared;
	assert_int_equal(indexed, 200 + scanned(sim) - before);
	before = scanned(sim);
	sim_step(sim, 200);
	indexed = sim_stats(sim).counts.pages_unshared - (indexed - 200);
	assert_int_equal(indexed, scanned(sim) - before);
	t.index = PDD_INDEX_RETAINED;
	set(sim, &t);
	sim_passes(sim, PDD_AGING_PERIOD_MAX + 1);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 400);
	sim_destroy(sim);
}

/* use_zero_pages with write tracking: zero pages that nobody writes are replaced from the next step
 * on, and those that the pass has come by already in the next one. */
static void test_use_zero_pages_tracked(void **unused)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .tracked = true, .keep_zero_pages = true });
	struct pdd_tunables t = get(sim);

	for (uint32_t domain = 0; domain < 4; domain++) /* so that they are not merged */
		sim_write(sim_region_add(sim_space_add(sim, domain), 20), domain, 0);
	sim_passes(sim, 10);
	sim_step(sim, 40);
	t.use_zero_pages = 1;
	set(sim, &t);
	sim_step(sim, 40);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 2);
	assert_int_equal(sim->spaces->regions->pages[3].kind, PDD_PAGE_ZERO);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 4);
	sim_destroy(sim);
}

/* The longest time without a look, for every period: all old pages are read within so many passes,
 * each once. */
static void test_periods(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(NULL, &region, 300, unlike);
	struct pdd_tunables t = get(sim);

	sim_passes(sim, 130);
	for (uint32_t period = 1; period <= PDD_AGING_PERIOD_MAX; period *= 2) {
		uint64_t before = sim_stats(sim).counts.pages_scanned;

		t.max_period_passes = period;
		set(sim, &t);
		sim_passes(sim, period);
		assert_int_equal(sim_stats(sim).counts.pages_scanned - before, 300);
	}
	sim_destroy(sim);
}

/* Memory that is known to be still is merged at its first look. */
static void test_one_look(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(NULL, &region, 40, same);
	struct pdd_tunables t = get(sim);

	sim_step(sim, 20);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 0);
	t.one_look = 1;
	set(sim, &t);
	sim_step(sim, 10);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 10);
	for (uint64_t i = 20; i < 30; i++)
		assert_true(sim_is_shared(region, i));
	t.one_look = 0;
	set(sim, &t);
	sim_step(sim, 10);
	assert_int_equal(sim_reason(region, 35), PDD_REASON_FIRST_LOOK);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 40);
	sim_destroy(sim);
}

/* Passes in each of which a frame loses a sharer; the prunes that come by. */
static uint64_t prunes(struct sim *sim, struct sim_region *region, unsigned passes, uint64_t ns)
{
	uint64_t before = sim_stats(sim).prunes;

	for (unsigned i = 0; i < passes; i++) {
		sim_write(region, i % 10, 1); /* a copy, which merges again */
		sim->now += ns;
		sim_pass(sim, UINT64_MAX);
	}
	return sim_stats(sim).prunes - before;
}

/* chain_prune_ms: the least time between two prunes; 0: after each pass; also without a clock. */
static void test_prune_time(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&(struct sim_options){ .prune_ms = 0, .limit = 4 }, &region, 20,
				same);
	struct pdd_tunables t = get(sim);

	sim->now = 1000000000;
	sim_passes(sim, 2);
	assert_in_range(prunes(sim, region, 10, 1), 9, 10);
	t.chain_prune_ms = 50;
	set(sim, &t);
	assert_int_equal(prunes(sim, region, 10, 1000), 0);
	assert_in_range(prunes(sim, region, 30, 10 * 1000000), 5, 7);
	t.chain_prune_ms = UINT32_MAX;
	set(sim, &t);
	assert_int_equal(prunes(sim, region, 10, 1000000000), 0);
	sim->scanner.priv.ops.now_ns = NULL;
	assert_int_equal(prunes(sim, region, 10, 0), 10);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_use_zero_pages), cmocka_unit_test(test_no_zero_map),
		cmocka_unit_test(test_lower_limit),    cmocka_unit_test(test_higher_limit),
		cmocka_unit_test(test_aging),	       cmocka_unit_test(test_aging_of_one_step),
		cmocka_unit_test(test_index),	       cmocka_unit_test(test_periods),
		cmocka_unit_test(test_one_look),       cmocka_unit_test(test_prune_time),
		cmocka_unit_test(test_use_zero_pages_tracked),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
