/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_lifecycle_memory.c - what the records of pages are when regions shrink, grow, move and go:
 * at every size around the ends of extents, with arrays and without; and pages that still show
 * frames after their region is gone, or was cut off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

/* ---- sizes ---- */

static const uint64_t sizes[] = { 1, 2, 511, 512, 513, 1023, 1024, 1025, 1500 };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* From each size to each other one: what stays is as it was, what comes is new. */
static void resize(uint64_t from, uint64_t to, bool sparse)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 700 });
	struct sim_region *region = sim_region_add_with(sim_space_add(sim, 0), from, 1500, sparse);
	enum pdd_reason reasons[1500];
	uint64_t stays = from < to ? from : to;

	for (uint64_t i = 0; i < from; i += 1 + i / 16)
		sim_write(region, i, i % 3);
	sim_write(region, from - 1, 2);
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < from; i++)
		reasons[i] = sim_reason(region, i);
	sim_region_resize(region, to);
	sim_verify(sim);
	assert_int_equal(pdd_region_pages(&region->region), to);
	assert_int_equal(sim_stats(sim).counts.pages, to);
	for (uint64_t i = 0; i < stays; i++) {
		/* The record of an extent goes with the last page of which something was known. */
		if (sparse && reasons[i] == PDD_REASON_ABSENT)
			reasons[i] = sim_item(region, i) ? reasons[i] : PDD_REASON_NO_RECORD;
		assert_int_equal(sim_reason(region, i), reasons[i]);
	}
	for (uint64_t i = from; i < to; i++)
		assert_true(sim_reason(region, i) == PDD_REASON_NEW ||
			    (sparse && sim_reason(region, i) == PDD_REASON_NO_RECORD));
	for (uint64_t i = from; i < to; i += 7)
		sim_write(region, i, i % 3);
	sim_settle(sim, 10);
	for (uint64_t i = from; i < to; i += 7)
		assert_true(sim_reason(region, i) == PDD_REASON_NONE ||
			    sim_reason(region, i) == PDD_REASON_UNIQUE);
	sim_region_resize(region, 1500);
	sim_region_resize(region, 1);
	sim_verify(sim);
	sim_pass(sim, UINT64_MAX);
	sim_destroy(sim);
}

static void test_every_size(void **unused)
{
	for (unsigned from = 0; from < SIZES; from++)
		for (unsigned to = 0; to < SIZES; to++)
			for (unsigned sparse = 0; sparse < 2; sparse++)
				resize(sizes[from], sizes[to], sparse);
}

/* What is cut off was known, due, kept out: the arrays are zeroed as they have to be to grow again,
 * and so are all of them when the region goes. */
static void test_arrays_are_zeroed(void **unused)
{
	static const struct pdd_item no_item;
	static const struct pdd_extent no_extent;
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1100);

	for (uint64_t i = 0; i < 1100; i++)
		sim_write(region, i, i % 5 ? i : i % 10);
	sim_passes(sim, 2);
	assert_int_equal(pdd_region_pin(&region->region, 505, 20), 0);
	sim_write(region, 700, 0);
	sim_step(sim, 600);
	sim_region_resize(region, 510);
	for (uint64_t i = 510; i < 1100; i++)
		assert_memory_equal(&region->items[i], &no_item, sizeof(no_item));
	for (uint64_t i = 1; i < 3; i++)
		assert_memory_equal(&region->extents[i], &no_extent, sizeof(no_extent));
	for (uint64_t i = 0; i < 510; i++)
		sim_discard(region, i);
	assert_int_equal(pdd_region_remove(&region->region), 0);
	for (uint64_t i = 0; i < 1100; i++)
		assert_memory_equal(&region->items[i], &no_item, sizeof(no_item));
	assert_int_equal(pdd_region_add(&region->space->space, &region->region, 0, 510,
					region->extents, region->items),
			 0);
	sim_verify(sim);
	sim_destroy(sim);
}

/* Moving changes nothing but the place. */
static void test_move(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 50);
	static struct pdd_item items[50];
	struct pdd_stats before, after;

	for (uint64_t i = 0; i < 50; i++)
		sim_write(region, i, i % 20);
	sim_passes(sim, 2);
	sim_step(sim, 20);
	before = sim_stats(sim);
	memcpy(items, region->items, sizeof(items));
	for (uint64_t to = 1; to; to *= 16) {
		assert_int_equal(pdd_region_move(&region->region, to), 0);
		assert_int_equal(pdd_region_first_page(&region->region), to);
		assert_int_equal(pdd_region_pages(&region->region), 50);
		assert_ptr_equal(pdd_region_space(&region->region), &region->space->space);
		after = sim_stats(sim);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_memory_equal(items, region->items, sizeof(items));
		sim_verify(sim);
	}
	sim_step(sim, 20);
	sim_destroy(sim);
}

/* ---- memory that outlives its region ---- */

/* From now on the library does not know of these pages, whatever they show. */
static void orphan(struct sim_region *region, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++)
		region->pages[i].cloned = true;
}

/* The embedder keeps a frame's memory until no page shows it, though it came back. */
static void frame_free(void *ctx, struct pdd_frame *frame)
{
	((struct sim_frame *)(void *)frame)->dropped = true;
	sim_ops.frame_free(ctx, frame);
}

static struct sim *world(bool no_clones, struct sim_region **a, struct sim_region **b)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .limit = 4, .no_clones = no_clones });

	*a = sim_region_add(sim_space_add(sim, 0), 30);
	*b = sim_region_add(sim_space_add(sim, 0), 3);
	for (uint64_t i = 0; i < 30; i++)
		sim_write(*a, i, 1 + i % 10);
	for (uint64_t i = 0; i < 3; i++)
		sim_write(*b, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 11);
	return sim;
}

/* Known frames are kept as long as pages show them, those that others share as well stay. When the
 * region comes again its pages share them again. */
static void test_kept_frames(void **unused)
{
	struct sim_region *a, *b;
	struct sim *sim = world(false, &a, &b);

	orphan(a, 0, 30);
	assert_int_equal(pdd_region_remove(&a->region), 0);
	assert_true(sim_stats(sim).frames_kept >= 9);
	assert_int_equal(sim_stats(sim).counts.pages, 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 3);
	for (uint64_t i = 0; i < 10; i++)
		sim_discard(a, i); /* others still show those frames */
	sim_prune(sim);
	assert_true(sim_stats(sim).frames_kept >= 9);
	assert_int_equal(pdd_region_add(&a->space->space, &a->region, 7, 30, a->extents, a->items),
			 0);
	sim_passes(sim, 2); /* it may have come in the middle of one */
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_int_equal(sim_stats(sim).counts.adoptions, 20);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 23);
	sim_destroy(sim);
}

/* And when the memory goes they do, with the next prune. */
static void test_kept_in_vain(void **unused)
{
	struct sim_region *a, *b;
	struct sim *sim = world(false, &a, &b);

	orphan(a, 12, 30);
	assert_int_equal(pdd_region_resize(&a->region, 12), 0); /* the memory is there still */
	a->npages = 12;
	assert_int_equal(sim_stats(sim).counts.pages, 15);
	assert_int_equal(sim_stats(sim).frames_kept, 0); /* the first 12 share them */
	for (uint64_t i = 0; i < 12; i++)
		sim_write(a, i, 100 + i);
	sim_pass(sim, UINT64_MAX);
	assert_true(sim_stats(sim).frames_kept >= 9);
	for (uint64_t i = 12; i < 30; i++)
		sim_discard(a, i);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	sim_destroy(sim);
}

/* Without frame_is_mapped frame_free comes at once, for frames that pages still show: their memory
 * stays until these are gone, and reads as before. */
static void test_no_clones(void **unused)
{
	struct sim_region *a, *b;
	struct sim *sim = world(true, &a, &b);
	uint64_t left = 0;

	sim->scanner.priv.ops.frame_free = frame_free;
	assert_int_equal(pdd_region_remove(&b->region), 0);
	for (struct sim_frame *frame = sim->frames; frame; frame = frame->next)
		left += frame->dropped;
	assert_int_equal(left, sim->calls[SIM_FRAME_FREE]);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_non_null(sim_content(b, i));
	orphan(b, 0, 3);
	sim->options.no_clones = false; /* sim_verify(): pages show what is not known */
	sim_passes(sim, 3);
	for (uint64_t i = 0; i < 3; i++)
		sim_discard(b, i);
	assert_int_equal(pdd_region_add(&b->space->space, &b->region, 0, 3, b->extents, b->items),
			 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_size), cmocka_unit_test(test_arrays_are_zeroed),
		cmocka_unit_test(test_move),	   cmocka_unit_test(test_kept_frames),
		cmocka_unit_test(test_kept_in_vain), cmocka_unit_test(test_no_clones),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
