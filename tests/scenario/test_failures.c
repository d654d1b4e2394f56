/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_failures.c - any hook may fail at any time, wholly or in part: the structures stay valid,
 * what failed keeps its page and has a reason, the others merge, and a later pass tries again, not
 * too often.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "failure_stories.h"

/* Two spaces of 12 pages: zero pages, pages in three contents, in each other order. */
static struct sim *world(uint32_t limit, struct sim_region **a, struct sim_region **b)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .limit = limit, .aging = PDD_AGING_NONE });

	*a = sim_region_add(sim_space_add(sim, 0), 12);
	*b = sim_region_add(sim_space_add(sim, 0), 12);
	for (uint64_t i = 0; i < 12; i++) {
		sim_write(*a, i, i / 3);
		sim_write(*b, i, 3 - i / 3);
	}
	return sim;
}

/* 6 zero pages; 6 of each of the 3 contents, in frames of 4 or more */
static void assert_all_merged(const struct sim *sim)
{
	struct pdd_stats stats = sim_stats(sim);

	assert_int_equal(stats.counts.ksm_zero_pages, 6);
	assert_int_equal(stats.counts.ksm_merging_pages, 18);
	assert_int_equal(stats.counts.pages_due, 0);
}

/* The k-th call fails, for every k, in each way. */
static void every_call(uint64_t mask, uint32_t limit, bool partial)
{
	/* A frame is lost in one way only. */
	unsigned noutcomes = mask == BIT(SIM_FRAME_CONTENT) ? 1 : OUTCOMES;

	for (unsigned i = 0; i < noutcomes; i++) {
		for (uint64_t k = 1, calls = 1; k <= calls; k++) {
			struct sim_region *a, *b;
			struct sim *sim = world(limit, &a, &b);

			sim->partial = partial;
			fail_calls(sim, mask, k, 1, &outcomes[i]);
			sim_passes(sim, 3);
			calls = sim->fallible;
			sim_passes(sim, 4);
			if (!(mask & BIT(SIM_FRAME_CONTENT))) /* else some pages show a lost one */
				assert_all_merged(sim);
			sim_destroy(sim);
		}
	}
}

static void test_every_call(void **unused)
{
	every_call(0, 4, false);
	every_call(0, 4, true);
}

static void test_every_frame_is_lost(void **unused)
{
	every_call(BIT(SIM_FRAME_CONTENT), 4, false);
	every_call(BIT(SIM_FRAME_CONTENT), 8, false);
}

/* s43: 3 of 8 are merged, then -EAGAIN: exactly 3, and the next pass does the other 5. */
static void test_partial(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 20);

	sim_write(region, 0, 1);
	sim_write(region, 1, 1);
	sim_passes(sim, 2);
	for (uint64_t i = 10; i < 18; i++)
		sim_write(region, i, 1);
	sim_pass(sim, UINT64_MAX);
	sim->fail_mask = BIT(SIM_FRAMES_MAP);
	sim->fail_errno = -EAGAIN;
	sim->part_once = 3;
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 10; i < 18; i++) {
		assert_int_equal(sim_is_shared(region, i), i < 13);
		assert_int_equal(sim_reason(region, i), i < 13 ? PDD_REASON_NONE : PDD_REASON_BUSY);
	}
	assert_int_equal(sim_stats(sim).pages_sharing, 4);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_sharing, 9);
	sim_destroy(sim);
}

/* The budget of mappings is used up: counted by reason, one more try, then at rest until it is
 * not; then all merge within one period. */
static void for_want_of(enum sim_hook hook, int error, enum pdd_reason reason)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 60);
	uint64_t calls;

	for (uint64_t i = 0; i < 60; i++)
		sim_write(region, i, 1 + i % 20);
	sim->fail_mask = BIT(hook);
	sim->fail_chance = 1;
	sim->fail_errno = error;
	sim_passes(sim, 2);
	assert_true(sim_stats(sim).counts.reasons[reason] > 0);
	assert_true(sim_settle(sim, 3) <= 3);
	sim_passes(sim, 100);
	assert_int_equal(sim_stats(sim).counts.reasons[reason], 60);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	calls = sim->calls[hook];
	sim_passes(sim, 64);
	assert_in_range(sim->calls[hook] - calls, 0, 60);
	sim->fail_chance = 0;
	sim_passes(sim, 65);
	assert_int_equal(sim_stats(sim).pages_sharing, 40);
	sim_destroy(sim);
}

static void test_for_want_of(void **unused)
{
	for_want_of(SIM_FRAMES_MAP, -ENOSPC, PDD_REASON_MAPPING_BUDGET);
	for_want_of(SIM_FRAMES_MAP, -ENOMEM, PDD_REASON_NO_MEMORY);
	for_want_of(SIM_FRAMES_CREATE, -ENOSPC, PDD_REASON_NO_MEMORY);
	for_want_of(SIM_FRAMES_CREATE, -ENOMEM, PDD_REASON_NO_MEMORY);
	for_want_of(SIM_HOLD, -EIO, PDD_REASON_HOOK_FAILED);
}

/* Every hook fails half of the time, for ever: steps end, passes end, and things merge. */
static void test_half_of_all_calls(void **unused)
{
	for (unsigned round = 0; round < 30; round++) {
		struct sim_region *a, *b;
		struct sim *sim = world(4, &a, &b);

		sim->random += round;
		sim->fail_chance = 0.5;
		sim->partial = true;
		sim_passes(sim, 60);
		assert_true(sim_stats(sim).counts.merges > 0);
		sim->fail_chance = 0;
		sim_passes(sim, 5);
		assert_all_merged(sim);
		sim_destroy(sim);
	}
}

/* Refused pages are never held; pages that refuse to be held only cost themselves. */
static void test_refused(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);

	for (uint64_t i = 0; i < 40; i++)
		sim_write(region, i, 1 + i % 10);
	for (uint64_t i = 0; i < 40; i += 7)
		region->pages[i].refuse = PDD_REASON_HUGE;
	for (uint64_t i = 3; i < 40; i += 7)
		region->pages[i].hold_refuse = PDD_REASON_PINNED;
	sim_passes(sim, 6);
	for (uint64_t i = 0; i < 40; i++) {
		assert_int_equal(sim_is_shared(region, i), i % 7 != 0 && i % 7 != 3);
		if (i % 7 == 0)
			assert_int_equal(sim_reason(region, i), PDD_REASON_HUGE);
	}
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_HUGE], 6);
	for (uint64_t i = 0; i < 40; i++)
		region->pages[i].refuse = region->pages[i].hold_refuse = PDD_REASON_NONE;
	sim_passes(sim, 66);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 40);
	sim_destroy(sim);
}

/* Equal pages that cannot be held are tried as often as their age says, though each finds the
 * other anew. */
static void test_pinned_pair(void **unused)
{
	struct sim *sim = sim_create(NULL);
	uint64_t holds;

	for (unsigned i = 0; i < 3; i++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1);

		sim_write(region, 0, 1);
		region->pages[0].hold_refuse = PDD_REASON_PINNED;
	}
	sim_passes(sim, 70);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_PINNED], 3);
	holds = sim->calls[SIM_HOLD];
	sim_passes(sim, 64);
	assert_in_range(sim->calls[SIM_HOLD] - holds, 0, 6);
	sim_destroy(sim);
}

/* Reasons that do not exist, or say that the page is shared, are those of special memory. */
static void test_odd_reasons(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 20);

	for (uint64_t i = 0; i < 20; i++) {
		sim_write(region, i, 1);
		region->pages[i].refuse = i < 8 ? PDD_REASONS + 29 * i : PDD_REASON_NONE;
		region->pages[i].hold_refuse = i >= 8 && i < 16 ? PDD_REASONS + 29 * (i - 8)
								: PDD_REASON_NONE;
	}
	region->pages[0].refuse = 256; /* NONE in a view */
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(sim_reason(region, i), PDD_REASON_SPECIAL);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 4);
	sim_destroy(sim);
}

/* s44: pages that share a frame of somebody else save nothing more. */
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
	sim_passes(sim, 4);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_FOREIGN_FRAME], 8);
	assert_int_equal(sim_stats(sim).pages_sharing + sim_stats(sim).counts.merges, 0);
	assert_int_equal(sim->held_pages, 0);
	sim_destroy(sim);
}

/* The embedder loses a frame: its sharers are reset; a search that meets it goes on. */
static void test_lost_frame(void **unused)
{
	for (uint64_t lost = 0; lost < 4; lost++) {
		struct sim_options options = { .limit = 3, .checksum = SIM_CHECKSUM_ZERO };
		struct sim *sim = sim_create(&options);
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 30);

		for (uint64_t i = 0; i < 24; i++)
			sim_write(region, i, 1 + i % 2);
		sim_passes(sim, 20);
		assert_true(sim_is_shared(region, lost));
		region->pages[lost].frame->gone = true;
		for (uint64_t i = 24; i < 30; i++)
			sim_write(region, i, 1 + i % 2);
		sim_passes(sim, 20);
		for (uint64_t i = 24; i < 30; i++)
			assert_true(sim_is_shared(region, i));
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call),
		cmocka_unit_test(test_every_frame_is_lost),
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_for_want_of),
		cmocka_unit_test(test_half_of_all_calls),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_pinned_pair),
		cmocka_unit_test(test_odd_reasons),
		cmocka_unit_test(test_foreign_frame),
		cmocka_unit_test(test_lost_frame),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
