/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking_regions.c - write tracking: which pages pages_written is asked for, and when, while
 * steps are short or long and regions come, go, grow, shrink, move, and are mostly holes.
 *
 * The wrapper around the hook proves for every call in every test: no page is asked for twice in a
 * pass, none after it was got in the pass, none beyond the end of the pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "scanner_internal.h"
#include "sim.h"

#define EXTENT PDD_EXTENT_PAGES
#define PAGES_MAX (66u * EXTENT)

/* Of the one region that is watched: the pass in which a page was asked for, and got, last. */
static uint64_t asked_in[PAGES_MAX], got_in[PAGES_MAX];
static uint64_t asked, ncalls;
static const struct sim_region *watched;

static uint64_t this_pass(const struct sim *sim)
{
	return sim->scanner.priv.epoch + 1;
}

static int64_t pages_written(void *ctx, struct pdd_region *region, uint64_t *bits, uint64_t first,
			     uint64_t npages)
{
	const struct sim *sim = ctx;

	ncalls++;
	assert_true(sim->scanner.priv.in_pass);
	for (uint64_t i = first; region == &watched->region && i < first + npages; i++) {
		assert_true(i < pddi_region_pass_pages(region));
		assert_true(asked_in[i] < this_pass(sim));
		assert_true(got_in[i] < this_pass(sim));
		asked_in[i] = this_pass(sim);
		asked++;
	}
	return sim_ops.pages_written(ctx, region, bits, first, npages);
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	for (uint64_t i = first; region == &watched->region && i < first + npages; i++) {
		assert_int_equal(asked_in[i], this_pass(ctx));
		got_in[i] = this_pass(ctx);
	}
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static struct sim *world(void)
{
	struct sim *sim = sim_create(&(struct sim_options){ .tracked = true, .nroots = 4096 });

	sim->scanner.priv.ops.pages_written = pages_written;
	sim->scanner.priv.ops.pages_get = pages_get;
	asked = ncalls = 0;
	return sim;
}

static void watch(const struct sim_region *region)
{
	memset(asked_in, 0, sizeof(asked_in));
	memset(got_in, 0, sizeof(got_in));
	watched = region;
}

static void fill(struct sim_region *region, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++)
		sim_write(region, i, 1 + i);
}

/* A step without the walk over everything, which is only for short tests. */
static enum pdd_step step(struct sim *sim, uint64_t pages)
{
	struct pdd_budget budget = { .pages = pages };
	int result;

	sim->stepping = true;
	result = pdd_scanner_step(&sim->scanner, sim->worker, &budget);
	sim->stepping = false;
	assert_in_range(result, PDD_STEP_MORE, PDD_STEP_PASS);
	return (enum pdd_step)result;
}

static void assert_all_asked(const struct sim *sim, uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		assert_int_equal(asked_in[i], this_pass(sim) - 1);
}

/* Every page once in every pass, in ranges as long as the step, up to PDD_WRITTEN_PAGES_MAX; a step
 * asks for no more than what it comes by, and the rest of an extent. */
static void test_ranges(void **unused)
{
	static const uint64_t budgets[] = { UINT64_MAX, 64 * EXTENT, 40000, 5000, EXTENT + 1,
					    EXTENT, 100, 7 };

	for (unsigned b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++) {
		struct sim *sim = world();
		uint64_t budget = budgets[b], npages = budget < EXTENT ? 1300 : PAGES_MAX - 13;
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), npages);

		fill(region, 0, npages);
		watch(region);
		for (unsigned pass = 0; pass < 3; pass++) {
			enum pdd_step result;

			ncalls = 0;
			do {
				asked = 0;
				result = step(sim, budget);
				assert_true(budget == UINT64_MAX || asked < budget + EXTENT);
			} while (result == PDD_STEP_MORE);
			assert_all_asked(sim, npages);
			if (budget >= 64 * EXTENT)
				assert_int_equal(ncalls, budget == 64 * EXTENT ? 3 : 2);
			else
				assert_in_range(ncalls, 1,
						npages / (budget < EXTENT ? EXTENT : budget) + 1);
		}
		sim_verify(sim);
		sim_destroy(sim);
	}
}

/* What comes in the middle of a pass waits for the next one, with its writes: pages by which a
 * region grows, and a region that is added. */
static void test_added_and_grown(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), EXTENT + 100, 4 * EXTENT, false);
	struct sim_region *other;

	fill(region, 0, EXTENT + 100);
	watch(region);
	sim_passes(sim, 3);
	sim_step(sim, 10);
	other = sim_region_add(region->space, 50);
	fill(other, 0, 50);
	sim_region_resize(region, 3 * EXTENT);
	fill(region, EXTENT + 90, 3 * EXTENT);
	ncalls = 0;
	while (sim_step(sim, 200) == PDD_STEP_MORE)
		;
	assert_int_equal(ncalls, 1); /* for the second extent */
	assert_all_asked(sim, EXTENT + 100);
	assert_int_equal(asked_in[EXTENT + 100], 0);
	for (uint64_t i = 0; i < 50; i++)
		assert_true(other->pages[i].written);
	sim_pass(sim, UINT64_MAX);
	assert_all_asked(sim, 3 * EXTENT);
	for (uint64_t i = 0; i < 50; i++)
		assert_false(other->pages[i].written);
	sim_settle(sim, 4);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, 2 * 50);
	sim_destroy(sim);
}

/* A region shrinks below where the pass has come, behind it or in the middle of an extent, and
 * grows again: what was told of the pages that went is forgotten with them. */
static void test_shrunk(void **unused)
{
	static const uint64_t sizes[] = { 1, 100, EXTENT, EXTENT + 10, EXTENT + 200 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct sim *sim = world();
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 2 * EXTENT);

		fill(region, 0, EXTENT + 150); /* the others are absent, and come later */
		watch(region);
		sim_passes(sim, 3);
		fill(region, 0, 2 * EXTENT);
		sim_step(sim, EXTENT + 100); /* asked for all, came to there */
		sim_region_resize(region, sizes[i]);
		sim_verify(sim);
		sim_region_resize(region, 2 * EXTENT);
		fill(region, 300, 2 * EXTENT);
		while (sim_step(sim, 50) == PDD_STEP_MORE)
			;
		sim_pass(sim, UINT64_MAX);
		assert_all_asked(sim, 2 * EXTENT);
		sim_settle(sim, 70);
		assert_int_equal(sim_counts(region->space).pages_unshared,
				 2 * EXTENT - (sizes[i] < 300 ? 300 - sizes[i] : 0));
		sim_destroy(sim);
	}
}

/* A region goes in the middle of a pass that has asked for all of it, and comes again in the same
 * place, with other memory: nothing that was told of the first one holds for the second. */
static void test_removed_and_added_again(void **unused)
{
	for (unsigned first = 0; first <= EXTENT; first += EXTENT / 4) {
		struct sim *sim = world();
		struct sim_space *space = sim_space_add(sim, 0);
		struct sim_region *region, *before = sim_region_add(space, 10);
		uint64_t merges;

		region = sim_region_add(space, 2 * EXTENT);
		fill(before, 0, 10);
		fill(region, 0, 2 * EXTENT);
		watch(region);
		sim_passes(sim, 3);
		fill(region, 0, 2 * EXTENT);
		sim_step(sim, 10 + EXTENT + first);
		sim_unmerge(region, 0, 2 * EXTENT);
		assert_int_equal(pdd_region_remove(&region->region), 0);
		memset(region->items, 0, 2 * EXTENT * sizeof(*region->items));
		memset(region->extents, 0, 2 * sizeof(*region->extents));
		assert_int_equal(pdd_region_add(&space->space, &region->region, 0, 2 * EXTENT,
						region->extents, region->items),
				 0);
		merges = sim_stats(sim).counts.merges;
		for (uint64_t i = 0; i < 2 * EXTENT; i++)
			sim_write(region, i, 1 + (i + 5) % EXTENT);
		sim_passes(sim, 4);
		assert_all_asked(sim, 2 * EXTENT);
		for (uint64_t i = 0; i < 2 * EXTENT; i++)
			assert_true(sim_is_shared(region, i));
		assert_true(sim_stats(sim).counts.merges >= merges + 2 * EXTENT);
		sim_destroy(sim);
	}
}

/* A region that moves is where it was, for the hook. */
static void test_moved(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 2 * EXTENT);

	fill(region, 0, 2 * EXTENT);
	watch(region);
	sim_passes(sim, 3);
	sim_write(region, 5, 3000);
	sim_write(region, EXTENT + 5, 3000);
	sim_step(sim, 100);
	assert_int_equal(pdd_region_move(&region->region, 123456), 0);
	asked = 0;
	while (sim_step(sim, 100) == PDD_STEP_MORE)
		;
	assert_int_equal(asked, EXTENT);
	sim_passes(sim, 1);
	assert_true(sim_is_shared(region, 5) && sim_is_shared(region, EXTENT + 5));
	sim_destroy(sim);
}

/* A sparse region: holes that a pass jumps over are not asked for; where pages come they are told
 * of as written, and an extent that goes back and comes again is not taken for what it was. */
static void test_sparse(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), 60 * EXTENT, 60 * EXTENT, true);

	watch(region);
	sim_pass(sim, 10);
	assert_int_equal(asked, EXTENT); /* one view of absent pages reaches to the end */
	for (uint64_t i = 0; i < 60; i += 10)
		fill(region, i * EXTENT + 7, i * EXTENT + 9);
	for (unsigned pass = 0; pass < 3; pass++) {
		asked = 0;
		sim_pass(sim, EXTENT);
		assert_in_range(asked, 6 * EXTENT, 12 * EXTENT);
	}
	assert_int_equal(sim_counts(region->space).pages_unshared, 12);
	assert_int_equal(region->nblocks, 6);
	assert_int_equal(pdd_region_discard(&region->region, 10 * EXTENT, EXTENT), 0);
	assert_int_equal(region->nblocks, 5);
	sim_write(region, 10 * EXTENT + 7, 8);
	sim_write(region, 10 * EXTENT + 8, 9);
	sim_write(region, 20 * EXTENT + 7, 8);
	sim_passes(sim, 3);
	assert_int_equal(region->nblocks, 6);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, 2 + 2 + 1);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_added_and_grown),
		cmocka_unit_test(test_shrunk),
		cmocka_unit_test(test_removed_and_added_again),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_sparse),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
