/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_no_touch.c - s63: of a range that is excluded, because it must not even be read (PROT_NONE),
 * nothing is asked: no hook is called for it, and reading it is a crash here.
 */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define PAGES 1200u

static const struct sim_region *guarded; /* whose pages [from, to) are excluded */
static uint64_t from, to;
static uint64_t ncalls;

static void check(const struct pdd_region *region, uint64_t first, uint64_t npages)
{
	ncalls++;
	if (guarded && region == &guarded->region && first < to && from < first + npages)
		sim_fail("a hook is called for a page that is excluded");
}

/* The hooks that are told of pages, each with its range checked. */

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	sim_ops.pages_put(ctx, region, first, npages);
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.hold(ctx, region, views, nviews, first, npages);
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	sim_ops.release(ctx, region, first, npages);
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	for (uint32_t i = 0; i < nframes; i++)
		check(wishes[i].region, wishes[i].page, 1);
	return sim_ops.frames_create(ctx, frames, wishes, nframes, domain);
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.frames_map(ctx, region, first, frames, npages);
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.frames_unmap(ctx, region, first, npages);
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.zero_map(ctx, region, first, npages);
}

static int frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	check(region, first, npages);
	return sim_ops.frames_remap(ctx, region, first, frames, npages);
}

static void trace(void *ctx, enum pdd_event event, struct pdd_region *region, uint64_t first,
		  uint64_t npages)
{
	check(region, first, npages);
	sim_ops.trace(ctx, event, region, first, npages);
}

/* A range of one region may be guarded at a time. */
static struct sim *world(struct sim_region **region, uint32_t page_shift, bool sparse)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .page_shift = page_shift, .limit = 4 });
	struct pdd_ops *ops = &sim->scanner.priv.ops;

	ops->pages_get = pages_get;
	ops->pages_put = pages_put;
	ops->hold = hold;
	ops->release = release;
	ops->frames_create = frames_create;
	ops->frames_map = frames_map;
	ops->frames_unmap = frames_unmap;
	ops->zero_map = zero_map;
	ops->frames_remap = frames_remap;
	ops->trace = trace;
	guarded = NULL;
	*region = sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(*region, i, i % 11 < 9 ? i % 50 : 100 + i);
	return sim;
}

static void exclude(struct sim_region *region, uint64_t first, uint64_t end)
{
	assert_int_equal(pdd_region_exclude(&region->region, first, end - first), 0);
	sim_verify(region->space->sim);
	guarded = region;
	from = first;
	to = end;
}

static void include(struct sim_region *region)
{
	guarded = NULL;
	assert_int_equal(pdd_region_include(&region->region, from, to - from), 0);
}

static void write_at_random(struct sim *sim, struct sim_region *region)
{
	for (unsigned n = 200; n; n--) /* whoever owns the pages may well write them */
		sim_write(region, sim_random(sim, PAGES), sim_random(sim, 60));
}

/* Ranges of all shapes, excluded before anything is known of them or after they were merged, around
 * which everything goes on; and included again. */
static void test_no_hook(void **unused)
{
	for (unsigned round = 0; round < 40; round++) {
		struct sim_region *region;
		struct sim *sim = world(&region, 6, round & 1);
		uint64_t first = sim_random(sim, PAGES), end;

		end = first + 1 + sim_random(sim, PAGES - first);
		if (round & 2)
			sim_passes(sim, 3);
		exclude(region, first, end);
		for (unsigned pass = 0; pass < 6; pass++) {
			write_at_random(sim, region);
			sim_pass(sim, 1 + sim_random(sim, PAGES));
			sim_prune(sim);
			for (uint64_t i = first; i < end; i++)
				assert_false(sim_is_shared(region, i));
			assert_int_equal(sim_reason(region, first), PDD_REASON_EXCLUDED);
			assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_EXCLUDED],
					 end - first);
		}
		/* Nor to unmerge what is around it, or all. */
		while (pdd_scanner_unmerge(&sim->scanner, 7) > 0)
			;
		sim_passes(sim, 3);
		include(region);
		ncalls = 0;
		sim_passes(sim, 3);
		assert_true(ncalls > 0);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_EXCLUDED], 0);
		sim_destroy(sim);
	}
}

/* All of a region: not one call. */
static void test_whole_region(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, 6, false);

	exclude(region, 0, PAGES);
	ncalls = 0;
	sim_passes(sim, 5);
	assert_int_equal(ncalls, 0);
	assert_int_equal(sim->read_pages, 0);
	sim_destroy(sim);
}

/* The memory cannot be read while the library works. */
static void test_prot_none(void **unused)
{
	size_t host_page = (size_t)sysconf(_SC_PAGESIZE);
	struct sim_region *region;
	struct sim *sim = world(&region, 12, false);
	struct pdd_budget budget = { .pages = 100 };
	uintptr_t begin, end;

	exclude(region, 500, 530);
	begin = ((uintptr_t)sim_memory(region, 500) + host_page - 1) & ~(host_page - 1);
	end = (uintptr_t)sim_memory(region, 530) & ~(host_page - 1);
	for (unsigned step = 0; step < 40; step++) {
		assert_int_equal(mprotect((void *)begin, end - begin, PROT_NONE), 0);
		sim->stepping = true;
		assert_true(pdd_scanner_step(&sim->scanner, sim->worker, &budget) >= 0);
		sim->stepping = false;
		assert_int_equal(mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE), 0);
		sim_verify(sim);
	}
	assert_true(sim_stats(sim).full_scans >= 3);
	assert_true(sim_stats(sim).counts.merges > 100);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_hook),
		cmocka_unit_test(test_whole_region),
		cmocka_unit_test(test_prot_none),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
