/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_counts.c - hooks claim to have done more than they were asked, or fail with errnos
 * that are none; a frame is lost between frames_create and the first look at it; extent_get says
 * no. The library believes no more than it asked for, and stays valid.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>

#include "sim.h"

/* What is added to a count, or given instead of it. */
static int64_t more, error;
static uint64_t refusals; /* calls that get the error before the hook works */

/* What a hook that did n is to answer. */
static int64_t answer(int64_t n)
{
	return n > 0 && n > INT64_MAX - more ? INT64_MAX : n > 0 ? n + more : n;
}

static int small_answer(int n)
{
	int64_t big = answer(n);

	return big > INT_MAX ? INT_MAX : (int)big;
}

static bool refuses(void)
{
	return refusals && refusals--;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	if (refuses())
		return (int)error;
	return small_answer(sim_ops.frames_create(ctx, frames, wishes, nframes, domain));
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	if (refuses())
		return (int)error;
	return small_answer(sim_ops.frames_map(ctx, region, first, frames, npages));
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	if (refuses())
		return (int)error;
	return small_answer(sim_ops.frames_unmap(ctx, region, first, npages));
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	if (refuses())
		return (int)error;
	return small_answer(sim_ops.zero_map(ctx, region, first, npages));
}

static int frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	if (refuses())
		return (int)error;
	return small_answer(sim_ops.frames_remap(ctx, region, first, frames, npages));
}

static int64_t pages_discard(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	if (refuses())
		return error;
	return answer(sim_ops.pages_discard(ctx, region, first, npages));
}

static struct sim *world(uint32_t limit, struct sim_region **region, uint64_t n)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .limit = limit, .aging = PDD_AGING_NONE });
	struct pdd_ops *ops = &sim->scanner.priv.ops;

	ops->frames_create = frames_create;
	ops->frames_map = frames_map;
	ops->frames_unmap = frames_unmap;
	ops->zero_map = zero_map;
	ops->frames_remap = frames_remap;
	ops->pages_discard = pages_discard;
	refusals = 0;
	error = 0;
	*region = sim_region_add(sim_space_add(sim, 0), n);
	return sim;
}

/* Everything is merged, chains made sparse, refiled, discarded, unmerged: all calls in turn. */
static void whole_life(void)
{
	struct sim_region *region;
	struct sim *sim = world(4, &region, 60);

	for (uint64_t i = 0; i < 60; i++)
		sim_write(region, i, i < 20 ? 0 : 1);
	sim_settle(sim, 20);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 20);
	assert_int_equal(sim_stats(sim).pages_shared, 10);
	for (uint64_t i = 20; i < 60; i++)
		if (i % 4)
			sim_write(region, i, 100 + i);
	sim_settle(sim, 20);
	sim_prune(sim);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 7);
	while (pdd_region_discard(&region->region, 10, 20))
		sim_verify(sim);
	sim_verify(sim);
	for (uint64_t i = 10; i < 30; i++)
		assert_int_equal(sim_reason(region, i), PDD_REASON_ABSENT);
	while (pdd_region_unmerge(&region->region, 0, 60, 1000))
		sim_verify(sim);
	sim_verify(sim);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
	sim_destroy(sim);
}

static void test_more_than_asked(void **unused)
{
	static const int64_t extra[] = { 0, 1, 7, 1000, INT_MAX, INT64_C(1) << 32, INT64_MAX };

	for (unsigned i = 0; i < sizeof(extra) / sizeof(extra[0]); i++) {
		more = extra[i];
		whole_life();
	}
	more = 0;
}

/* The unmerge of a run tells of no more than its pages. */
static void test_unmerge_more(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(0, &region, 1500);

	for (uint64_t i = 0; i < 1500; i++)
		sim_write(region, i, i % 7 == 3 ? 100 + i : 1);
	sim_passes(sim, 2);
	more = 1000;
	assert_int_equal(pdd_region_unmerge(&region->region, 4, 1, 50), 1);
	assert_int_equal(pdd_region_unmerge(&region->region, 5, 1400, 6), 6);
	sim_verify(sim);
	assert_int_equal(pdd_region_unmerge(&region->region, 0, 1500, UINT64_MAX), 1286 - 7);
	more = 0;
	sim_verify(sim);
	sim_destroy(sim);
}

/* Neither are the pages of a clone behind such a run passed over, and pinned while they still show
 * a frame. */
static void test_pin_more(void **unused)
{
	struct sim_region *region, *clone;
	struct sim *sim = world(0, &region, 12);

	for (uint64_t i = 0; i < 12; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	clone = sim_space_clone(region->space)->regions;
	assert_int_equal(pdd_region_exclude(&clone->region, 5, 1), 0); /* two runs */
	more = 1000;
	assert_int_equal(pdd_region_pin(&clone->region, 0, 12), 0);
	more = 0;
	sim_verify(sim);
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(clone->pages[i].kind, PDD_PAGE_PRIVATE);
	sim_destroy(sim);
}

/* Errnos that are none: each call fails with one, the next ones work. */
static void test_odd_errnos(void **unused)
{
	static const int64_t errors[] = { -1, -ENOSYS, -4095, -4096, -1000000, INT_MIN };

	more = 0;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct sim_region *region;
		struct sim *sim = world(4, &region, 20);

		error = errors[i];
		for (uint64_t page = 0; page < 20; page++)
			sim_write(region, page, page / 10);
		for (unsigned pass = 0; pass < 30; pass++) {
			refusals = pass < 8;
			sim_pass(sim, UINT64_MAX);
		}
		assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 10);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 10);
		assert_true(sim_stats(sim).hook_errors >= 2);
		refusals = 1;
		assert_int_equal(pdd_region_unmerge(&region->region, 0, 20, 20), error);
		refusals = 1;
		assert_int_equal(pdd_region_pin(&region->region, 0, 20), error);
		refusals = 1;
		assert_int_equal(pdd_region_discard(&region->region, 0, 20), error);
		sim_verify(sim);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], 20);
		sim_destroy(sim);
	}
}

/* A hook that made no frame at all is not asked again for these: the members of the groups are due,
 * the twins stay where they were. */
static void test_no_frame_is_made(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(4, &region, 20);

	more = 0;
	for (uint64_t i = 0; i < 20; i++)
		sim_write(region, i, 1 + i / 2);
	sim_pass(sim, UINT64_MAX);
	refusals = 1000;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(refusals, 999);
	assert_int_equal(sim_stats(sim).counts.pages_due, 10);
	refusals = 0;
	sim_settle(sim, 4);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 20);
	sim_destroy(sim);
}

/* What pages_discard answers is not cut to an int: -2^32 would be 0, which says that all was done,
 * and 1 - 2^32 would be 1. */
static void test_discard_errno_beyond_int(void **unused)
{
	static const int64_t errors[] = { INT64_MIN, -(INT64_C(1) << 32), 1 - (INT64_C(1) << 32) };
	struct sim_region *region;
	struct sim *sim = world(0, &region, 8);

	for (uint64_t i = 0; i < 8; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 2);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		error = errors[i];
		refusals = 1;
		assert_true(pdd_region_discard(&region->region, 0, 8) < 0);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 8);
		sim_verify(sim);
	}
	sim_destroy(sim);
}

/* ---- frames that are lost at once ---- */

static uint64_t lost; /* frames yet to be lost as they are made */

static int create_lost(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
		       uint32_t nframes, uint32_t domain)
{
	int n = sim_ops.frames_create(ctx, frames, wishes, nframes, domain);

	for (int i = 0; i < n && lost; i++, lost--) {
		struct sim_frame *frame = (struct sim_frame *)(void *)frames[i];

		frame->gone = true;
	}
	return n;
}

static void test_frame_is_lost_at_once(void **unused)
{
	for (uint64_t n = 1; n <= 12; n++) {
		struct sim_region *region;
		struct sim *sim = world(4, &region, 40);

		sim->scanner.priv.ops.frames_create = create_lost;
		lost = n;
		for (uint64_t i = 0; i < 40; i++)
			sim_write(region, i, 1 + i % 5);
		sim_passes(sim, 2);
		for (struct sim_frame *frame = sim->frames; frame; frame = frame->next)
			assert_false(frame->gone); /* they went back at once */
		sim_settle(sim, 20);
		assert_int_equal(lost, 0);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 40);
		assert_int_equal(sim_stats(sim).pages_shared, 10);
		sim_destroy(sim);
	}
}

/* All of them are, for ever: nothing merges, nothing leaks, and the pages do not stay due. */
static void test_all_frames_are_lost(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);
	uint64_t calls;

	sim->scanner.priv.ops.frames_create = create_lost;
	lost = UINT64_MAX;
	for (uint64_t i = 0; i < 40; i++)
		sim_write(region, i, 1 + i % 5);
	sim_passes(sim, 100);
	assert_int_equal(sim_stats(sim).counts.merges, 0);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
	assert_null(sim->frames);
	assert_int_equal(sim->held_pages, 0); /* for a frame that is lost */
	calls = sim->calls[SIM_FRAMES_CREATE];
	sim_passes(sim, 64);
	assert_in_range(sim->calls[SIM_FRAMES_CREATE] - calls, 0, 40);
	lost = 0;
	sim_passes(sim, 66);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 40);
	sim_destroy(sim);
}

/* Pages that get no record lose a look, and are told of as unrecorded. */
static void test_no_extents(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), 2000, 2000, true);

	for (uint64_t i = 0; i < 2000; i += 100)
		sim_write(region, i, 1);
	sim->fail_mask = UINT64_C(1) << SIM_EXTENT_GET;
	sim->fail_chance = 1;
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NO_RECORD], 2000);
	assert_int_equal(sim_stats(sim).counts.pages_scanned, 0);
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_EXTENT_GET], 3 * 4);
	assert_true(sim_stats(sim).counts.pages_busy >= 3 * 20);
	sim->fail_chance = 0;
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 20);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_more_than_asked),
		cmocka_unit_test(test_unmerge_more),
		cmocka_unit_test(test_pin_more),
		cmocka_unit_test(test_odd_errnos),
		cmocka_unit_test(test_no_frame_is_made),
		cmocka_unit_test(test_discard_errno_beyond_int),
		cmocka_unit_test(test_frame_is_lost_at_once),
		cmocka_unit_test(test_all_frames_are_lost),
		cmocka_unit_test(test_no_extents),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
