/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_calls.c - every documented errno of scanner.h, tunables.h, explain.h and stats.h,
 * and of space.h save what has to do with ranges (test_bad_input_ranges.c). After a call that was
 * refused nothing is changed, not one byte of what the library keeps.
 *
 * s8: wrong arguments are an -EINVAL, never a failure of the whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "scanner_internal.h"
#include "sim.h"

#define PAGES 700u

/* A pass is under way; pages are shared, at the zero page, in the index, new. */
struct world {
	struct sim *sim;
	struct sim_region *flat, *sparse;
	struct pdd_scanner scanner; /* as they were before the call */
	struct pdd_space space;
	struct pdd_region region;
	struct pdd_extent extents[2];
	struct pdd_item items[PAGES];
	uint64_t calls[SIM_HOOKS];
};

static void remember(struct world *w)
{
	w->scanner = w->sim->scanner;
	w->space = w->flat->space->space;
	w->region = w->flat->region;
	memcpy(w->extents, w->flat->extents, sizeof(w->extents));
	memcpy(w->items, w->flat->items, sizeof(w->items));
	memcpy(w->calls, w->sim->calls, sizeof(w->calls));
}

static void create(struct world *w)
{
	struct sim_space *space;

	w->sim = sim_create(NULL);
	space = sim_space_add(w->sim, 0);
	w->flat = sim_region_add(space, PAGES);
	w->sparse = sim_region_add_with(space, 2000, 2000, true);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(w->flat, i, i < 20 ? 0 : i < 200 ? 1 + i % 3 : i);
	sim_write(w->sparse, 1999, 2);
	sim_passes(w->sim, 2);
	sim_step(w->sim, 600);
	remember(w);
}

/* A call was refused: so nothing is lost or changed, and no hook was called. */
static void refused(struct world *w, int64_t got, int64_t wanted)
{
	assert_int_equal(got, wanted);
	assert_memory_equal(&w->scanner, &w->sim->scanner, sizeof(w->scanner));
	assert_memory_equal(&w->space, &w->flat->space->space, sizeof(w->space));
	assert_memory_equal(&w->region, &w->flat->region, sizeof(w->region));
	assert_memory_equal(w->extents, w->flat->extents, sizeof(w->extents));
	assert_memory_equal(w->items, w->flat->items, sizeof(w->items));
	assert_memory_equal(w->calls, w->sim->calls, sizeof(w->calls));
	sim_verify(w->sim);
	remember(w); /* sim_verify() calls frame_content */
}

/* The world works as if nothing had been asked. */
static void destroy(struct world *w)
{
	sim_settle(w->sim, 70);
	assert_int_equal(sim_stats(w->sim).counts.ksm_zero_pages, 20);
	assert_int_equal(sim_stats(w->sim).counts.ksm_merging_pages, 181);
	sim_destroy(w->sim);
}

static void test_scanner(void **unused)
{
	const struct pdd_budget none = { 0 }, some = { .pages = 1 };
	const struct pdd_budget deadline = { .pages = 1, .deadline_ns = 1 };
	struct pdd_scanner *scanner;
	struct pdd_worker *worker;
	struct pdd_frame *frame;
	struct world w;

	create(&w);
	scanner = &w.sim->scanner;
	worker = w.sim->worker;
	frame = &w.flat->pages[20].frame->frame;
	refused(&w, pdd_scanner_step(NULL, worker, &some), -EINVAL);
	refused(&w, pdd_scanner_step(scanner, NULL, &some), -EINVAL);
	refused(&w, pdd_scanner_step(scanner, worker, NULL), -EINVAL);
	refused(&w, pdd_scanner_step(scanner, worker, &none), -EINVAL);
	refused(&w, pdd_scanner_prune(NULL), -EINVAL);
	refused(&w, pdd_scanner_unmerge(NULL, 1), -EINVAL);
	refused(&w, pdd_scanner_unmerge(scanner, 0), -EINVAL);
	refused(&w, pdd_frame_moved(NULL, frame, 0), -EINVAL);
	refused(&w, pdd_frame_moved(scanner, NULL, 0), -EINVAL);
	refused(&w, pdd_frame_moved(scanner, frame, PDD_NODES_MAX), -EINVAL);
	refused(&w, pdd_frame_moved(scanner, frame, UINT16_MAX), -EINVAL);

	scanner->priv.ops.now_ns = NULL;
	remember(&w);
	refused(&w, pdd_scanner_step(scanner, worker, &deadline), -EINVAL);
	destroy(&w);
}

static void test_spaces(void **unused)
{
	struct pdd_space other = { 0 };
	struct pdd_space *space;
	struct sim *second;
	struct world w;

	create(&w);
	second = sim_create(NULL);
	space = &w.flat->space->space;
	refused(&w, pdd_space_add(NULL, &other, 0), -EINVAL);
	refused(&w, pdd_space_add(&w.sim->scanner, NULL, 0), -EINVAL);
	refused(&w, pdd_space_add(&w.sim->scanner, space, 0), -EBUSY);
	refused(&w, pdd_space_add(&second->scanner, space, 1), -EBUSY);
	refused(&w, pdd_space_remove(NULL), -EINVAL);
	refused(&w, pdd_space_remove(&other), -EINVAL);
	refused(&w, pdd_space_remove(space), -EBUSY);
	refused(&w, pdd_space_unmerge(NULL, 1), -EINVAL);
	refused(&w, pdd_space_unmerge(&other, 1), -EINVAL);
	refused(&w, pdd_space_unmerge(space, 0), -EINVAL);
	assert_null(other.priv.scanner);
	sim_destroy(second);
	destroy(&w);
}

static void test_region_add(void **unused)
{
	struct pdd_space other = { 0 }, *space;
	struct pdd_extent extent = { 0 };
	struct pdd_item item = { 0 };
	struct pdd_region region = { 0 }, zero = { 0 };
	struct world w;

	create(&w);
	space = &w.flat->space->space;
	refused(&w, pdd_region_add(NULL, &region, 0, 1, &extent, &item), -EINVAL);
	refused(&w, pdd_region_add(space, NULL, 0, 1, &extent, &item), -EINVAL);
	refused(&w, pdd_region_add(&other, &region, 0, 1, &extent, &item), -EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, 0, &extent, &item), -EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, 0, NULL, NULL), -EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, PDD_REGION_PAGES_MAX + 1, NULL, NULL),
		-EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, UINT64_MAX, NULL, NULL), -EINVAL);
	refused(&w, pdd_region_add(space, &region, UINT64_MAX, 1, &extent, &item), -EINVAL);
	refused(&w, pdd_region_add(space, &region, UINT64_MAX - 5, 6 + 1, NULL, NULL), -EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, 1, NULL, &item), -EINVAL);
	refused(&w, pdd_region_add(space, &region, 0, 1, &extent, NULL), -EINVAL);
	refused(&w, pdd_region_add(space, &w.flat->region, 0, 1, &extent, &item), -EBUSY);
	refused(&w, pdd_region_add(space, &w.flat->region, 0, 1, NULL, NULL), -EBUSY);
	assert_memory_equal(&region, &zero, sizeof(zero));

	/* and the greatest that is allowed */
	assert_int_equal(pdd_region_add(space, &region, UINT64_MAX - PDD_REGION_PAGES_MAX,
					PDD_REGION_PAGES_MAX, NULL, NULL),
			 0);
	assert_int_equal(pdd_region_resize(&region, 1), 0);
	assert_int_equal(pdd_region_move(&region, UINT64_MAX - 1), 0);
	assert_int_equal(pdd_region_remove(&region), 0);

	w.sim->scanner.priv.ops.extent_get = NULL;
	w.sim->scanner.priv.ops.extent_put = NULL;
	remember(&w);
	refused(&w, pdd_region_add(space, &region, 0, 1, NULL, NULL), -EINVAL);
	w.sim->scanner.priv.ops.extent_get = sim_ops.extent_get;
	w.sim->scanner.priv.ops.extent_put = sim_ops.extent_put;
	destroy(&w);
}

static void test_regions(void **unused)
{
	struct pdd_object object = { 0 };
	struct pdd_region other = { 0 };
	struct pdd_region *region;
	struct world w;

	create(&w);
	region = &w.flat->region;
	refused(&w, pdd_region_resize(NULL, 1), -EINVAL);
	refused(&w, pdd_region_resize(&other, 1), -EINVAL);
	refused(&w, pdd_region_resize(region, 0), -EINVAL);
	refused(&w, pdd_region_resize(region, PDD_REGION_PAGES_MAX + 1), -EINVAL);
	refused(&w, pdd_region_move(NULL, 0), -EINVAL);
	refused(&w, pdd_region_move(&other, 0), -EINVAL);
	refused(&w, pdd_region_move(region, UINT64_MAX - PAGES + 1), -EINVAL);
	refused(&w, pdd_region_remove(NULL), -EINVAL);
	refused(&w, pdd_region_remove(&other), -EINVAL);

	/* its place in the space, and in its object */
	assert_int_equal(pdd_region_move(region, UINT64_MAX - PAGES), 0);
	remember(&w);
	refused(&w, pdd_region_resize(region, PAGES + 1), -EINVAL);
	assert_int_equal(pdd_region_move(region, 7), 0);
	assert_int_equal(pdd_region_attach(region, &object, UINT64_MAX - PAGES + 1), 0);
	remember(&w);
	refused(&w, pdd_region_resize(region, PAGES + 1), -EINVAL);
	assert_int_equal(pdd_region_resize(region, PAGES), 0);
	assert_int_equal(pdd_region_first_page(region), 7);
	assert_int_equal(pdd_region_detach(region), 0);
	destroy(&w);
}

static void test_readers(void **unused)
{
	struct pdd_tunables known = { .size = sizeof(known), .max_page_sharing = 2,
				      .max_period_passes = 1 };
	struct pdd_explanation explanation = { .size = sizeof(explanation) }, small = { .size = 7 };
	struct pdd_stats stats = { .size = sizeof(stats) }, little = { .size = 7 };
	struct pdd_space space = { 0 };
	struct pdd_region other = { 0 };
	struct pdd_counts counts;
	struct world w;

	create(&w);
	refused(&w, pdd_scanner_stats(NULL, &stats), -EINVAL);
	refused(&w, pdd_scanner_stats(&w.sim->scanner, NULL), -EINVAL);
	refused(&w, pdd_scanner_stats(&w.sim->scanner, &little), -EINVAL);
	refused(&w, pdd_domain_counts(NULL, 0, &counts), -EINVAL);
	refused(&w, pdd_domain_counts(&w.sim->scanner, 0, NULL), -EINVAL);
	refused(&w, pdd_space_counts(NULL, &counts), -EINVAL);
	refused(&w, pdd_space_counts(&space, &counts), -EINVAL);
	refused(&w, pdd_space_counts(&w.flat->space->space, NULL), -EINVAL);
	refused(&w, pdd_region_explain(NULL, 0, &explanation), -EINVAL);
	refused(&w, pdd_region_explain(&other, 0, &explanation), -EINVAL);
	refused(&w, pdd_region_explain(&w.flat->region, 0, NULL), -EINVAL);
	refused(&w, pdd_region_explain(&w.flat->region, 0, &small), -EINVAL);
	refused(&w, pdd_region_explain(&w.flat->region, PAGES, &explanation), -EINVAL);
	refused(&w, pdd_region_explain(&w.sparse->region, UINT64_MAX, &explanation), -EINVAL);
	refused(&w, (int64_t)pdd_region_unshares(NULL), 0);
	refused(&w, (int64_t)pdd_region_unshares(&other), 0);
	refused(&w, pdd_scanner_set_tunables(NULL, NULL), -EINVAL);
	refused(&w, pdd_scanner_set_tunables(NULL, &known), -EINVAL);
	refused(&w, pdd_scanner_get_tunables(NULL, &known), -EINVAL);
	refused(&w, pdd_scanner_set_tunables(&w.sim->scanner, NULL), -EINVAL);
	refused(&w, pdd_scanner_get_tunables(&w.sim->scanner, NULL), -EINVAL);
	assert_int_equal(little.pages_shared, 0);
	assert_int_equal(small.state, 0);
	destroy(&w);
}

/* Names of what does not exist. */
static void test_names(void **unused)
{
	for (int i = 0; i < PDD_REASONS; i++) {
		assert_string_not_equal(pdd_reason_name((enum pdd_reason)i), "unknown");
		for (int other = 0; other < i; other++)
			assert_string_not_equal(pdd_reason_name((enum pdd_reason)i),
						pdd_reason_name((enum pdd_reason)other));
	}
	for (int i = 0; i < PDD_HOOKS; i++)
		assert_string_not_equal(pdd_hook_name((enum pdd_hook)i), "unknown");
	assert_string_equal(pdd_reason_name((enum pdd_reason)PDD_REASONS), "unknown");
	assert_string_equal(pdd_reason_name((enum pdd_reason)-1), "unknown");
	assert_string_equal(pdd_hook_name((enum pdd_hook)PDD_HOOKS), "unknown");
	assert_string_equal(pdd_hook_name((enum pdd_hook)-1), "unknown");
	assert_string_equal(pdd_reason_name(PDD_REASON_MAPPING_BUDGET), "mapping budget");
	assert_string_equal(pdd_hook_name(PDD_HOOK_FRAMES_MAP), "frames_map");
}

/* A walk that finds something broken says what. */
static void test_broken(void **unused)
{
	struct pdd_frame *frame;
	const char *why = NULL;
	struct world w;

	create(&w);
	frame = &w.flat->pages[20].frame->frame;
	w.sim->scanner.priv.stats.pages_sharing++;
	assert_int_equal(pdd_scanner_check(&w.sim->scanner, &why), -EUCLEAN);
	assert_non_null(why);
	assert_int_equal(pdd_scanner_check(&w.sim->scanner, NULL), -EUCLEAN);
	w.sim->scanner.priv.stats.pages_sharing--;
	assert_int_equal(pdd_scanner_check(&w.sim->scanner, NULL), 0);

	why = NULL;
	frame->priv.nsharers++;
	assert_int_equal(pdd_chain_check(frame, &why), -EUCLEAN);
	assert_non_null(why);
	assert_int_equal(pdd_chain_check(frame, NULL), -EUCLEAN);
	assert_int_equal(pdd_scanner_check(&w.sim->scanner, NULL), -EUCLEAN);
	frame->priv.nsharers--;
	assert_int_equal(pdd_chain_check(frame, NULL), 1);
	destroy(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scanner),	   cmocka_unit_test(test_spaces),
		cmocka_unit_test(test_region_add), cmocka_unit_test(test_regions),
		cmocka_unit_test(test_readers),	   cmocka_unit_test(test_names),
		cmocka_unit_test(test_broken),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
