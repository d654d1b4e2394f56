/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_discard.c - s65: memory that is discarded through the library reads zero afterwards, never
 * what it shared, nor what somebody else keeps in that frame's memory by now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

/* What stands below the memory of each page, as with a private mapping of the frames' file: a page
 * that was written once more shows it again if its own memory is simply dropped. */
static struct sim_frame *below[4];

static int map_and_note(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	int n = sim_ops.frames_map(ctx, region, first, frames, npages);

	for (int i = 0; i < n; i++)
		if (pdd_space_domain(pdd_region_space(region)) == 1)
			below[first + (uint64_t)i] = (struct sim_frame *)(void *)frames[i];
	return n;
}

static int64_t discard_and_note(void *ctx, struct pdd_region *region, uint64_t first,
				uint64_t npages)
{
	int64_t n = sim_ops.pages_discard(ctx, region, first, npages);

	for (int64_t i = 0; i < n; i++)
		below[first + (uint64_t)i] = NULL;
	return n;
}

/* The row: merge, write, the last sharer leaves, the frame goes back and to another domain,
 * discard. Every page is asked to be discarded, though none is a sharer any more. */
static void test_row(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 1), 4);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 2), 4);

	sim->scanner.priv.ops.frames_map = map_and_note;
	sim->scanner.priv.ops.pages_discard = discard_and_note;
	for (uint64_t i = 0; i < 4; i++)
		sim_write(a, i, 1);
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < 4; i++) {
		assert_non_null(below[i]);
		sim_write(a, i, 10 + i);
	}
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim->calls[SIM_FRAME_FREE], 1);
	for (uint64_t i = 0; i < 4; i++)
		sim_write(b, i, 1); /* the content that a shared */
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(b->space).ksm_merging_pages, 4);
	assert_int_equal(pdd_region_discard(&a->region, 0, 4), 0);
	sim_verify(sim);
	for (uint64_t i = 0; i < 4; i++) {
		assert_null(below[i]);
		assert_null(sim_content(a, i)); /* reads zero */
		assert_int_equal(sim_reason(a, i), PDD_REASON_ABSENT);
	}
	assert_int_equal(sim_counts(a->space).ksm_rmap_items, 0);
	assert_int_equal(sim_counts(b->space).ksm_merging_pages, 4);
	sim_passes(sim, 3);
	assert_int_equal(sim_counts(a->space).reasons[PDD_REASON_ABSENT], 4);
	sim_destroy(sim);
}

/* Pages in all states, over several extents: never looked at, once, in the index, shared, shared
 * and written, zero, zero and written, absent, foreign, refused, excluded. */
static void create_all_states(struct sim *sim, struct sim_region *region)
{
	struct sim_frame *foreign = sim_foreign_frame(sim, 77);

	for (uint64_t i = 0; i < region->npages; i++)
		if (i % 8 != 7)
			sim_write(region, i, i % 8 < 4 ? i % 20 : 1000 + i);
	for (uint64_t i = 3; i < region->npages; i += 97)
		region->pages[i].refuse = PDD_REASON_HUGE;
	for (uint64_t i = 11; i < region->npages; i += 97)
		sim_show_foreign(region, i, foreign);
	assert_int_equal(pdd_region_exclude(&region->region, 500, 30), 0);
	sim_passes(sim, (unsigned)sim_random(sim, 4));
	for (uint64_t i = 0; i < region->npages; i += 5)
		if (region->pages[i].kind != PDD_PAGE_ABSENT && sim_random(sim, 2))
			sim_write(region, i, 3000 + i);
	sim_step(sim, 1 + sim_random(sim, region->npages)); /* stops anywhere in the pass */
}

static void assert_discarded(const struct sim_region *region, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++) {
		enum pdd_reason reason = sim_reason(region, i);

		assert_int_equal(region->pages[i].kind, PDD_PAGE_ABSENT);
		if (i >= 500 && i < 530)
			assert_int_equal(reason, PDD_REASON_EXCLUDED);
		else
			assert_true(reason == PDD_REASON_ABSENT || reason == PDD_REASON_NO_RECORD);
	}
}

static void test_all_states(void **unused)
{
	for (unsigned round = 0; round < 60; round++) {
		struct sim *sim = sim_create(&(struct sim_options){ .limit = 3 });
		struct sim_space *space = sim_space_add(sim, 1);
		struct sim_region *region = sim_region_add_with(space, 1300, 1300, round & 1);
		uint64_t first = sim_random(sim, 1300), end = first + sim_random(sim, 1301 - first);
		uint64_t calls;

		sim->random += round;
		create_all_states(sim, region);
		if (round % 3 == 0)
			region = sim_space_clone(space)->regions; /* not looked at yet */
		if (round % 3 == 0)
			assert_int_equal(pdd_region_exclude(&region->region, 500, 30), 0);
		calls = sim->calls[SIM_PAGES_DISCARD];
		assert_int_equal(pdd_region_discard(&region->region, first, end - first), 0);
		sim_verify(sim);
		/* all of it in one call, whatever is known of the pages */
		assert_int_equal(sim->calls[SIM_PAGES_DISCARD] - calls, end > first);
		assert_discarded(region, first, end);
		sim_passes(sim, 2);
		for (uint64_t i = first; i < end; i++)
			if (sim_random(sim, 2))
				sim_write(region, i, 5000 + i / 2);
		sim_settle(sim, 70);
		sim_destroy(sim);
	}
}

/* Without the hook the library forgets, and the caller clears the pages. */
static void test_no_hook(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .no_discard = true });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 8);

	for (uint64_t i = 0; i < 8; i++)
		sim_write(region, i, i / 4);
	sim_passes(sim, 2);
	for (uint64_t i = 2; i < 6; i++)
		sim_discard(region, i); /* the frame must not be shown when it goes back */
	assert_int_equal(pdd_region_discard(&region->region, 2, 4), 0);
	sim_verify(sim);
	assert_discarded(region, 2, 6);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 2);
	sim_destroy(sim);
}

/* A device holds on to one of the pages: nothing is done. */
static void test_pinned(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 8);

	for (uint64_t i = 0; i < 8; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(pdd_region_pin(&region->region, 5, 1), 0);
	assert_int_equal(pdd_region_discard(&region->region, 0, 8), -EBUSY);
	assert_int_equal(sim->calls[SIM_PAGES_DISCARD], 0);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 7);
	assert_int_equal(pdd_region_discard(&region->region, 0, 5), 0);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 2);
	assert_int_equal(pdd_region_unpin(&region->region, 5, 1), 0);
	assert_int_equal(pdd_region_discard(&region->region, 0, 8), 0);
	assert_discarded(region, 0, 8);
	assert_int_equal(pdd_region_discard(&region->region, 0, 9), -EINVAL);
	assert_int_equal(pdd_region_discard(&region->region, 8, 0), 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_all_states),
		cmocka_unit_test(test_no_hook),
		cmocka_unit_test(test_pinned),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
