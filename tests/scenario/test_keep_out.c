/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_keep_out.c - s50, s63: pages that are pinned or excluded have memory of their own before the
 * call returns, and from then on no hook is called for them, whatever state they were in, and
 * whatever passes, prunes, unmerges and discards come by. Afterwards they merge like any others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

#define PAGES 1100u

static bool kept[PAGES]; /* out, of the region below */
static struct pdd_region *watched;

/* A hook is called for these pages. */
static void touch(const struct pdd_region *region, uint64_t first, uint64_t npages)
{
	for (uint64_t i = first; region == watched && i < first + npages; i++)
		if (kept[i])
			fail_msg("a hook is called for page %d, which is kept out", (int)i);
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.hold(ctx, region, views, nviews, first, npages);
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.frames_map(ctx, region, first, frames, npages);
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.frames_unmap(ctx, region, first, npages);
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.zero_map(ctx, region, first, npages);
}

static int frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	touch(region, first, npages);
	return sim_ops.frames_remap(ctx, region, first, frames, npages);
}

static void watch(struct sim *sim, struct sim_region *region)
{
	struct pdd_ops *ops = &sim->scanner.priv.ops;

	memset(kept, 0, sizeof(kept));
	watched = &region->region;
	ops->pages_get = pages_get;
	ops->hold = hold;
	ops->frames_map = frames_map;
	ops->frames_unmap = frames_unmap;
	ops->zero_map = zero_map;
	ops->frames_remap = frames_remap;
}

static void keep(uint64_t first, uint64_t npages, bool out)
{
	for (uint64_t i = first; i < first + npages; i++)
		kept[i] = out;
}

/* The states a page can be in before it is kept out; ten pages of each. */
enum { SHARED, CHAINED, ZERO, UNIQUE, SEEN, VOLATILE, ABSENT, NEW, REFUSED, BROKEN, STATES };

#define EACH 10u

static struct sim *world(bool sparse, bool nodes_apart, struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.limit = 4, .aging = PDD_AGING_NONE, .nodes_apart = nodes_apart });
	struct sim_region *r =
		sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);

	for (uint64_t pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < EACH; i++) {
			if (pass == 0) {
				sim_write(r, EACH * SHARED + i, 1 + i / 2);
				sim_write(r, EACH * CHAINED + i, 6);
				sim_write(r, EACH * ZERO + i, 0);
				sim_write(r, EACH * UNIQUE + i, 100 + i);
				sim_write(r, EACH * REFUSED + i, 7);
				sim_write(r, EACH * BROKEN + i, 8 | SIM_FILLED);
				r->pages[EACH * REFUSED + i].refuse = PDD_REASON_HUGE;
			}
			if (pass == 2)
				sim_write(r, EACH * SEEN + i, 9);
			sim_write(r, EACH * VOLATILE + i, 1000 + 20 * pass + i);
		}
		sim_pass(sim, UINT64_MAX);
	}
	for (uint64_t i = 0; i < EACH; i++) {
		sim_write(r, EACH * NEW + i, 10);
		sim_write(r, EACH * BROKEN + i, 200 + i);
	}
	watch(sim, r);
	*region = r;
	return sim;
}

static struct pdd_explanation explain(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation e = { .size = sizeof(e) };

	assert_int_equal(pdd_region_explain(&region->region, page, &e), 0);
	return e;
}

/* What is to be known of a page that is kept out. */
static void assert_out(const struct sim_region *region, uint64_t page, uint32_t npins,
		       bool excluded)
{
	struct pdd_explanation e = explain(region, page);

	assert_true(region->pages[page].kind == PDD_PAGE_PRIVATE ||
		    region->pages[page].kind == PDD_PAGE_ABSENT);
	assert_int_equal(e.state, PDD_STATE_NEW);
	assert_int_equal(e.reason, excluded ? PDD_REASON_EXCLUDED : PDD_REASON_PINNED);
	assert_int_equal(e.npins, npins);
	assert_int_equal(e.excluded, excluded);
	assert_int_equal(e.next_look_passes, UINT32_MAX);
	assert_int_equal(e.age, 0);
	assert_false(e.due);
	assert_null(e.frame);
}

static void assert_all_merge(struct sim *sim, struct sim_region *region)
{
	for (uint64_t i = 0; i < PAGES; i++)
		region->pages[i].refuse = PDD_REASON_NONE;
	sim_settle(sim, 20);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, EACH);
	/* 5 pairs, and 4 contents of 10 pages, which 3 frames of at most 4 take */
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, EACH + 4 * EACH);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, 3 * EACH);
}

/* Pin or exclude pages [first, first + n) in whatever state, watch, and let them in again. */
static void out_and_in(bool sparse, bool nodes_apart, bool exclude, uint64_t first, uint64_t n)
{
	struct sim_region *region;
	struct sim *sim = world(sparse, nodes_apart, &region);
	struct pdd_region *r = &region->region;
	uint64_t read;

	assert_int_equal(exclude ? pdd_region_exclude(r, first, n) : pdd_region_pin(r, first, n),
			 0);
	for (uint64_t i = first; i < first + n; i++)
		assert_out(region, i, !exclude, exclude);
	sim_verify(sim);
	keep(first, n, true);
	sim_passes(sim, 2);
	for (uint64_t i = first; i < first + n; i += 3)
		sim_write(region, i, 6); /* whoever pinned it does as well */
	sim_prune(sim);
	sim_pass(sim, 7);
	for (uint64_t i = first; i < first + n; i++)
		assert_out(region, i, !exclude, exclude);
	assert_int_equal(sim_stats(sim).counts.reasons[exclude ? PDD_REASON_EXCLUDED
							       : PDD_REASON_PINNED],
			 n);
	while (pdd_scanner_unmerge(&sim->scanner, 10))
		sim_verify(sim);
	for (uint64_t i = first; i < first + n; i++)
		assert_out(region, i, !exclude, exclude);
	sim_passes(sim, 2);

	assert_int_equal(exclude ? pdd_region_include(r, first, n) : pdd_region_unpin(r, first, n),
			 0);
	keep(first, n, false);
	for (uint64_t i = first; i < first + n; i++)
		assert_int_equal(sim_reason(region, i), PDD_REASON_NEW);
	sim_verify(sim);
	read = sim->read_pages;
	sim_pass(sim, UINT64_MAX);
	assert_true(sim->read_pages - read >= n / 3);
	sim_settle(sim, 20);
	for (uint64_t i = first; i < first + n; i += 3)
		sim_discard(region, i);
	sim_settle(sim, 20);
	sim_destroy(sim);
}

/* A range of each state, some of several states, one across extents, everything. */
static void test_each_state(void **unused)
{
	for (unsigned i = 0; i < 8; i++) {
		bool sparse = i & 1, nodes_apart = i & 2, exclude = i & 4;

		for (unsigned state = 0; state < STATES; state++)
			out_and_in(sparse, nodes_apart, exclude, EACH * state, EACH);
		out_and_in(sparse, nodes_apart, exclude, EACH * SHARED + 5, 60);
		out_and_in(sparse, nodes_apart, exclude, 500, 530);
		out_and_in(sparse, nodes_apart, exclude, 3, 1);
		out_and_in(sparse, nodes_apart, exclude, 0, PAGES);
	}
}

/* Kept out and let in at once, nothing is lost: everything merges as before. */
static void test_at_once(void **unused)
{
	for (unsigned i = 0; i < 4; i++) {
		struct sim_region *region;
		struct sim *sim = world(i & 1, false, &region);

		if (i & 2) {
			assert_int_equal(pdd_region_pin(&region->region, 0, PAGES), 0);
			assert_int_equal(pdd_region_unpin(&region->region, 0, PAGES), 0);
		} else {
			assert_int_equal(pdd_region_exclude(&region->region, 0, PAGES), 0);
			assert_int_equal(pdd_region_include(&region->region, 0, PAGES), 0);
		}
		sim_verify(sim);
		assert_null(sim->frames);
		assert_all_merge(sim, region);
		sim_destroy(sim);
	}
}

/* Pins nest, up to 511; overlapping ranges are counted page by page. */
static void test_nested(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(false, true, &region);
	struct pdd_region *r = &region->region;

	assert_int_equal(pdd_region_pin(r, 0, 20), 0);
	assert_int_equal(pdd_region_pin(r, 10, 20), 0);
	assert_out(region, 9, 1, false);
	assert_out(region, 10, 2, false);
	assert_out(region, 20, 1, false);
	assert_int_equal(pdd_region_unpin(r, 0, 20), 0);
	assert_int_equal(sim_reason(region, 9), PDD_REASON_NEW);
	assert_out(region, 10, 1, false);
	assert_int_equal(pdd_region_unpin(r, 10, 20), 0);
	for (uint32_t n = 1; n <= 511; n++)
		assert_int_equal(pdd_region_pin(r, 1, 20), 0);
	assert_out(region, 5, 511, false);
	assert_int_equal(pdd_region_pin(r, 0, 2), -EOVERFLOW);
	assert_int_equal(explain(region, 0).npins, 0);
	keep(1, 20, true);
	sim_pass(sim, UINT64_MAX);
	for (uint32_t n = 510; n >= 1; n--) {
		assert_int_equal(pdd_region_unpin(r, 1, 20), 0);
		assert_out(region, 20, n, false);
	}
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(pdd_region_unpin(r, 1, 20), 0);
	keep(1, 20, false);
	assert_int_equal(pdd_region_unpin(r, 1, 1), -EINVAL);
	assert_all_merge(sim, region);
	sim_destroy(sim);
}

/* Pinned and excluded at once, begun and ended in each order: kept out as long as one of them
 * holds. */
static void test_both(void **unused)
{
	for (unsigned i = 0; i < 8; i++) {
		struct sim_region *region;
		struct sim *sim = world(i & 4, false, &region);
		struct pdd_region *r = &region->region;

		if (i & 1)
			assert_int_equal(pdd_region_pin(r, 5, 30), 0);
		assert_int_equal(pdd_region_exclude(r, 5, 30), 0);
		assert_int_equal(pdd_region_exclude(r, 0, 20), 0); /* once is enough */
		if (!(i & 1))
			assert_int_equal(pdd_region_pin(r, 5, 30), 0);
		keep(0, 35, true);
		assert_out(region, 0, 0, true);
		assert_out(region, 10, 1, true);
		assert_out(region, 34, 1, true);
		sim_passes(sim, 2);
		if (i & 2) {
			assert_int_equal(pdd_region_include(r, 0, PAGES), 0);
			keep(0, 5, false);
			assert_out(region, 10, 1, false);
			sim_pass(sim, UINT64_MAX);
			assert_int_equal(pdd_region_unpin(r, 5, 30), 0);
		} else {
			assert_int_equal(pdd_region_unpin(r, 5, 30), 0);
			assert_out(region, 10, 0, true);
			sim_pass(sim, UINT64_MAX);
			assert_int_equal(pdd_region_include(r, 3, 40), 0);
			assert_out(region, 2, 0, true);
			assert_int_equal(pdd_region_include(r, 0, 3), 0);
		}
		keep(0, 35, false);
		assert_int_equal(sim_reason(region, 10), PDD_REASON_NEW);
		assert_all_merge(sim, region);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_state),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_both),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
