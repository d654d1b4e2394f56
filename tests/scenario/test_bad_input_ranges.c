/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_ranges.c - ranges that are none, for each call of space.h that takes one, in
 * regions with arrays and in sparse ones: -EINVAL, and nothing is changed, not one byte of what the
 * library keeps. The other errnos of these calls: -EBUSY, -EOVERFLOW, -ENOMEM.
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

#define PAGES 1300u
#define EXTENTS 3u
#define MOST ((uint32_t)ITEM_PINS_MAX)

typedef int range_fn(struct pdd_region *region, uint64_t first, uint64_t npages);

static int unmerge(struct pdd_region *region, uint64_t first, uint64_t npages)
{
	return (int)pdd_region_unmerge(region, first, npages, UINT64_MAX);
}

/* What takes a range; all of them do nothing with one of no pages. */
static range_fn *const calls[] = {
	unmerge,
	pdd_region_pin,
	pdd_region_unpin,
	pdd_region_exclude,
	pdd_region_include,
	pdd_region_discard,
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

struct world {
	struct sim *sim;
	struct sim_region *region;
	struct pdd_scanner scanner;
	struct pdd_space space;
	struct pdd_region copy;
	const struct pdd_extent *live[EXTENTS]; /* or NULL */
	struct pdd_extent extents[EXTENTS];
	struct pdd_item items[PAGES];
};

static void remember(struct world *w)
{
	w->scanner = w->sim->scanner;
	w->space = w->region->space->space;
	w->copy = w->region->region;
	for (unsigned i = 0; i < EXTENTS; i++) {
		w->live[i] = pddi_extent_find(&w->region->region, i);
		if (w->live[i])
			w->extents[i] = *w->live[i];
	}
	for (uint64_t i = 0; i < PAGES; i++)
		if (sim_item(w->region, i))
			w->items[i] = *sim_item(w->region, i);
}

static void unchanged(struct world *w)
{
	assert_memory_equal(&w->scanner, &w->sim->scanner, sizeof(w->scanner));
	assert_memory_equal(&w->space, &w->region->space->space, sizeof(w->space));
	assert_memory_equal(&w->copy, &w->region->region, sizeof(w->copy));
	for (unsigned i = 0; i < EXTENTS; i++) {
		assert_ptr_equal(w->live[i], pddi_extent_find(&w->region->region, i));
		if (w->live[i])
			assert_memory_equal(&w->extents[i], w->live[i], sizeof(w->extents[i]));
	}
	for (uint64_t i = 0; i < PAGES; i++)
		if (sim_item(w->region, i))
			assert_memory_equal(&w->items[i], sim_item(w->region, i),
					    sizeof(w->items[i]));
	sim_verify(w->sim);
}

/* Shared, zero, unlike pages at both ends; a hole of a whole extent between them. */
static void create(struct world *w, bool sparse)
{
	w->sim = sim_create(NULL);
	w->region = sim_region_add_with(sim_space_add(w->sim, 0), PAGES, PAGES, sparse);
	for (uint64_t i = 0; i < 30; i++) {
		sim_write(w->region, i, i / 3);
		sim_write(w->region, PAGES - 1 - i, i);
	}
	sim_passes(w->sim, 3);
	assert_int_equal(!w->sim->scanner.priv.spaces->priv.regions->priv.extents, sparse);
	remember(w);
}

static void destroy(struct world *w)
{
	sim_settle(w->sim, 70);
	sim_destroy(w->sim);
}

/* Not in the region, or not in any. */
static void test_no_ranges(void **unused)
{
	static const struct {
		uint64_t first, npages;
	} none[] = {
		{ PAGES + 1, 0 },	{ PAGES, 1 },	       { 0, PAGES + 1 },
		{ PAGES - 1, 2 },	{ 1, UINT64_MAX },     { UINT64_MAX, 1 },
		{ UINT64_MAX, UINT64_MAX }, { 5, UINT64_MAX - 4 }, { UINT64_MAX, 0 },
	};
	struct pdd_region other = { 0 };
	struct world w;

	for (unsigned sparse = 0; sparse < 2; sparse++) {
		create(&w, sparse);
		for (unsigned c = 0; c < CALLS; c++) {
			for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
				assert_int_equal(calls[c](&w.region->region, none[i].first,
							  none[i].npages),
						 -EINVAL);
				unchanged(&w);
			}
			assert_int_equal(calls[c](NULL, 0, 1), -EINVAL);
			assert_int_equal(calls[c](NULL, 0, 0), -EINVAL);
			assert_int_equal(calls[c](&other, 0, 0), -EINVAL);
			/* no pages, at either end and in the hole */
			assert_int_equal(calls[c](&w.region->region, 0, 0), 0);
			assert_int_equal(calls[c](&w.region->region, 700, 0), 0);
			assert_int_equal(calls[c](&w.region->region, PAGES, 0), 0);
			unchanged(&w);
		}
		assert_int_equal(pdd_region_unmerge(&w.region->region, 0, PAGES, 0), -EINVAL);
		unchanged(&w);
		destroy(&w);
	}
}

/* A range of which one page is not pinned, or has no record, cannot be unpinned. */
static void test_unpin(void **unused)
{
	struct world w;

	for (unsigned sparse = 0; sparse < 2; sparse++) {
		create(&w, sparse);
		assert_int_equal(pdd_region_unpin(&w.region->region, 3, 1), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 0, PAGES), -EINVAL);
		unchanged(&w);
		assert_int_equal(pdd_region_pin(&w.region->region, 10, 502), 0);
		assert_int_equal(pdd_region_pin(&w.region->region, 1024, 20), 0);
		assert_int_equal(pdd_region_exclude(&w.region->region, 5, 20), 0);
		remember(&w);
		assert_int_equal(pdd_region_unpin(&w.region->region, 9, 5), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 510, 3), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 511, 514), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 1023, 2), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 1040, 5), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 5, 1), -EINVAL);
		unchanged(&w);
		assert_int_equal(pdd_region_unpin(&w.region->region, 10, 502), 0);
		assert_int_equal(pdd_region_unpin(&w.region->region, 10, 1), -EINVAL);
		assert_int_equal(pdd_region_unpin(&w.region->region, 1024, 20), 0);
		destroy(&w);
	}
}

/* A pinned page cannot be discarded, and neither are the others of the range. */
static void test_discard_pinned(void **unused)
{
	static const uint64_t at[] = { 0, 29, 512, 1023, PAGES - 1 };
	struct world w;

	for (unsigned sparse = 0; sparse < 2; sparse++) {
		create(&w, sparse);
		for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
			assert_int_equal(pdd_region_pin(&w.region->region, at[i], 1), 0);
			assert_int_equal(pdd_region_exclude(&w.region->region, at[i], 1), 0);
			remember(&w);
			assert_int_equal(pdd_region_discard(&w.region->region, 0, PAGES), -EBUSY);
			assert_int_equal(pdd_region_discard(&w.region->region, at[i], 1), -EBUSY);
			unchanged(&w);
			assert_int_equal(w.sim->calls[SIM_PAGES_DISCARD], 0);
			assert_int_equal(pdd_region_unpin(&w.region->region, at[i], 1), 0);
		}
		assert_int_equal(pdd_region_discard(&w.region->region, 0, PAGES), 0);
		destroy(&w);
	}
}

static void pin_often(struct world *w, uint64_t page, uint32_t npins)
{
	for (uint32_t i = 0; i < npins; i++)
		assert_int_equal(pdd_region_pin(&w->region->region, page, 1), 0);
	remember(w);
}

/* Pins are counted up to 511; one more, of any page of the range, pins none. */
static void test_overflow(void **unused)
{
	struct world w;

	for (unsigned sparse = 0; sparse < 2; sparse++) {
		create(&w, sparse);
		pin_often(&w, 20, MOST);
		assert_int_equal(pdd_region_pin(&w.region->region, 20, 1), -EOVERFLOW);
		assert_int_equal(pdd_region_pin(&w.region->region, 0, PAGES), -EOVERFLOW);
		assert_int_equal(pdd_region_pin(&w.region->region, 10, 11), -EOVERFLOW);
		unchanged(&w);
		assert_int_equal(pdd_region_exclude(&w.region->region, 20, 1), 0);
		assert_int_equal(pdd_region_pin(&w.region->region, 20, 1), -EOVERFLOW);
		assert_int_equal(pdd_region_include(&w.region->region, 20, 1), 0);
		unchanged(&w);
		for (uint32_t i = 0; i < MOST; i++)
			assert_int_equal(pdd_region_unpin(&w.region->region, 20, 1), 0);
		assert_int_equal(pdd_region_unpin(&w.region->region, 20, 1), -EINVAL);
		destroy(&w);
	}
}

/* The same where the pages before it have no record: the hole of a sparse region. A 512th
 * pin would make the number wrap around to 0. */
static void test_overflow_behind_a_hole(void **unused)
{
	struct world w;

	create(&w, true);
	assert_null(sim_item(w.region, 700));
	pin_often(&w, 1100, MOST);
	assert_int_equal(pdd_region_pin(&w.region->region, 600, 600), -EOVERFLOW);
	unchanged(&w);
	destroy(&w);
}

/* No record, no pin: extent_get says no, for the first or the second extent of two. */
static void test_no_memory(void **unused)
{
	for (uint64_t k = 1; k <= 2; k++) {
		for (unsigned exclude = 0; exclude < 2; exclude++) {
			struct sim *sim = sim_create(NULL);
			struct sim_region *region =
				sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, true);

			sim_write(region, 600, 1);
			sim_pass(sim, UINT64_MAX); /* the extent in the middle has a record */
			sim->fallible = 0;
			sim->fail_at = k;
			assert_int_equal(calls[exclude ? 3 : 1](&region->region, 10, 1100),
					 -ENOMEM);
			sim->fail_at = 0;
			sim_verify(sim);
			assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_PINNED], 0);
			assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_EXCLUDED], 0);
			assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_EXTENT_GET],
					 1);
			assert_int_equal(pdd_region_unpin(&region->region, 600, 1), -EINVAL);
			sim_pass(sim, UINT64_MAX); /* what was got in vain goes back */
			assert_int_equal(region->nblocks, 1);
			assert_int_equal(sim_reason(region, 600), PDD_REASON_UNIQUE);
			assert_int_equal(calls[exclude ? 3 : 1](&region->region, 10, 1100), 0);
			assert_int_equal(region->nblocks, 3);
			sim_destroy(sim);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_ranges),
		cmocka_unit_test(test_unpin),
		cmocka_unit_test(test_discard_pinned),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_overflow_behind_a_hole),
		cmocka_unit_test(test_no_memory),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
