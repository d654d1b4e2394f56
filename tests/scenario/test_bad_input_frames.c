/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_frames.c - pages_get and hold say that a page shows a frame that is none, or one
 * of another domain; and pages_get cannot describe one page in the middle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define PAGES 40u

static struct pdd_frame *wrong;
static bool in_get, in_hold;

/* All private pages show it, they say. */
static void spoil(struct pdd_view *views, int n)
{
	for (int i = 0; i < n; i++) {
		if (views[i].kind != PDD_PAGE_PRIVATE)
			continue;
		views[i].kind = PDD_PAGE_FRAME;
		views[i].frame = wrong;
	}
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	int n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);

	if (in_get)
		spoil(views, n);
	return n;
}

/* What is said to show a frame is not held. */
static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	const struct sim_region *r = (struct sim_region *)(void *)region;
	int n = sim_ops.hold(ctx, region, views, nviews, first, npages);

	if (!in_hold)
		return n;
	spoil(views, n);
	for (uint64_t page = first; page < first + npages; page++)
		if (r->pages[page].held)
			sim_ops.release(ctx, region, page, 1);
	return n;
}

/* A frame of domain 1; in domain 0 pages that are equal in pairs. */
static struct sim *world(struct sim_region **other, struct sim_region **region, bool sparse)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });

	in_get = in_hold = false;
	sim->scanner.priv.ops.pages_get = pages_get;
	sim->scanner.priv.ops.hold = hold;
	*other = sim_region_add(sim_space_add(sim, 1), 2);
	sim_write(*other, 0, 7);
	sim_write(*other, 1, 7);
	sim_passes(sim, 2);
	*region = sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(*region, i, 1 + i % (PAGES / 2));
	return sim;
}

/* NULL, one that the library does not know, one of another domain: nobody shares it. */
static void test_wrong_frames(void **unused)
{
	for (unsigned i = 0; i < 12; i++) {
		struct sim_region *other, *region;
		struct sim *sim = world(&other, &region, i % 2);
		struct pdd_frame stray;

		pdd_frame_init(&stray, 1, 0, 0);
		wrong = i % 3 == 0 ? NULL : i % 3 == 1 ? &stray : &other->pages[0].frame->frame;
		if (i < 6)
			in_get = true; /* from the first look on, or when they are in the index */
		sim_passes(sim, 2);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, i < 6 ? 0 : PAGES);
		if (i >= 6) {
			assert_int_equal(sim_unmerge(region, 0, PAGES), PAGES);
			sim_pass(sim, UINT64_MAX);
			in_get = true;
			sim_passes(sim, 2);
		}
		assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_FOREIGN_FRAME],
				 PAGES);
		assert_int_equal(sim_stats(sim).counts.adoptions, 0);
		assert_int_equal(pdd_frame_sharers(&other->pages[0].frame->frame), 2);
		in_get = false;
		sim_passes(sim, 2);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, PAGES);
		sim_destroy(sim);
	}
}

static void test_wrong_frames_in_hold(void **unused)
{
	for (unsigned i = 0; i < 3; i++) {
		struct sim_region *other, *region;
		struct sim *sim = world(&other, &region, i % 2);
		struct pdd_frame stray;

		pdd_frame_init(&stray, 1, 0, 0);
		wrong = i == 0 ? NULL : i == 1 ? &stray : &other->pages[0].frame->frame;
		in_hold = true;
		sim_passes(sim, 4);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, 0);
		assert_int_equal(sim_stats(sim).counts.adoptions, 0);
		assert_int_equal(sim_stats(sim).pages_shared, 1);
		in_hold = false;
		sim_settle(sim, 5);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, PAGES);
		sim_destroy(sim);
	}
}

/* A page that cannot be described costs no other page its look. */
static int no_page_3(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	if (first == 3)
		return -EIO;
	if (first < 3 && first + npages > 3)
		npages = 3 - first;
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void test_one_bad_page(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 10);

	for (uint64_t i = 0; i < 10; i++)
		sim_write(region, i, 1);
	sim->scanner.priv.ops.pages_get = no_page_3;
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(sim_reason(region, i),
				 i == 3 ? PDD_REASON_HOOK_FAILED : PDD_REASON_NONE);
	assert_int_equal(sim_stats(sim).counts.pages_busy, 0);
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_PAGES_GET], 2);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_frames),
		cmocka_unit_test(test_wrong_frames_in_hold),
		cmocka_unit_test(test_one_bad_page),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
