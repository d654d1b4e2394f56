/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_unmerge_vetoed.c - ksm-behaviour 3.2 unmerge_uffd_wp, and known bug 13: something stands in
 * the way of unmerging. KSM broke pages by a write fault, which a write-protecting userfaultfd
 * caught, and tried again for ever. Here the embedder's frames_unmap refuses: each call of the
 * library makes progress or says why not, after so many tries as there were refusals all is done,
 * and no two pages show the same memory then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define PAGES 512u /* 2 MiB */

static struct {
	uint64_t left;    /* so many calls are refused */
	uint64_t every;   /* so is each so-many-th; 0: none. The others do 100 pages at most */
	uint64_t at_page; /* and those that begin here */
	int answer;
	uint64_t calls;
} veto;

static int unmap_vetoed(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	veto.calls++;
	if (veto.left || (veto.every && veto.calls % veto.every == 0) || first == veto.at_page) {
		veto.left -= veto.left > 0;
		return veto.answer;
	}
	if (veto.every && npages > 100)
		npages = 100;
	if (first < veto.at_page && npages > veto.at_page - first)
		npages = veto.at_page - first;
	return sim_ops.frames_unmap(ctx, region, first, npages);
}

/* 512 pages of one byte are merged, 0: replaced by the zero page. From now on there are vetoes. */
static struct sim_region *map_and_merge(unsigned char byte, uint64_t left, uint64_t every,
					uint64_t at_page, int answer)
{
	struct sim *sim =
		sim_create(&(struct sim_options){ .page_shift = 3, .aging = PDD_AGING_NONE });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(region, i, byte * UINT64_C(0x0101010101010101));
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_NONE], PAGES);
	sim->scanner.priv.ops.frames_unmap = unmap_vetoed;
	veto.left = left;
	veto.every = every;
	veto.at_page = at_page;
	veto.answer = answer;
	veto.calls = 0;
	return region;
}

static uint64_t merged(const struct sim_region *region)
{
	struct pdd_counts counts = sim_counts(region->space);

	return counts.ksm_merging_pages + counts.ksm_zero_pages;
}

static void assert_no_duplicates(const struct sim_region *region, uint64_t first, uint64_t npages)
{
	for (uint64_t i = first; i < first + npages; i++)
		assert_int_equal(region->pages[i].kind, PDD_PAGE_PRIVATE);
}

/* The ways to have pages unmerged. */
enum way {
	BY_REGION = 0,
	BY_SPACE = 1,
	BY_SCANNER = 2,
	BY_EXCLUSION = 3,
	BY_PIN = 4,
	WAYS = 5,
};

/* More than 0: so many were unmerged, 0: none was left, or what was asked for is done. */
static int64_t undo(struct sim_region *region, enum way way)
{
	struct sim *sim = region->space->sim;
	int64_t n = 0;

	switch (way) {
	case BY_REGION: n = pdd_region_unmerge(&region->region, 0, PAGES, UINT64_MAX); break;
	case BY_SPACE: n = pdd_space_unmerge(&region->space->space, UINT64_MAX); break;
	case BY_SCANNER: n = pdd_scanner_unmerge(&sim->scanner, UINT64_MAX); break;
	case BY_EXCLUSION: n = pdd_region_exclude(&region->region, 0, PAGES); break;
	case BY_PIN: n = pdd_region_pin(&region->region, 0, PAGES); break;
	case WAYS: break;
	}
	sim_verify(sim);
	return n;
}

/* Refused k times: each call says so after one try, and has changed nothing. Then it is done. */
static void refused_k_times(unsigned char byte, enum way way, int answer, unsigned k)
{
	struct sim_region *region = map_and_merge(byte, k, 0, UINT64_MAX, answer);
	struct sim *sim = region->space->sim;
	struct pdd_counts before = sim_counts(region->space), counts;

	for (unsigned i = 1; i <= k; i++) {
		assert_int_equal(undo(region, way), answer ? answer : -EBUSY);
		assert_int_equal(veto.calls, i);
		counts = sim_counts(region->space);
		assert_memory_equal(&counts, &before, sizeof(counts));
	}
	assert_int_equal(undo(region, way), way < BY_EXCLUSION ? PAGES : 0);
	assert_in_range(veto.calls, k + 1, k + 2); /* one more for what is not known */
	assert_int_equal(merged(region), 0);
	assert_no_duplicates(region, 0, PAGES);
	assert_null(sim->frames);
	sim_destroy(sim);
}

static void test_unmerge_uffd_wp(void **unused)
{
	static const int answers[] = { 0, -EBUSY, -EAGAIN, -ENOMEM, -EIO };

	for (enum way way = 0; way < WAYS; way++) {
		for (unsigned i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
			for (unsigned k = 0; k < 4; k++) {
				refused_k_times(0xcf, way, answers[i], k);
				refused_k_times(0, way, answers[i], k);
			}
		}
	}
}

/* Every second call is refused, and none does more than 100 pages. 6 that are not refused, and
 * as many that are, unmerge all; to exclude or pin, the same pages may be asked for once more,
 * as those that may show a frame unknown to the library. So it must end: nothing is given up
 * that was reached. */
static void refused_every_second(enum way way)
{
	struct sim_region *region = map_and_merge(0xcf, 0, 2, UINT64_MAX, -EBUSY);
	unsigned tries = 0;
	int64_t n;

	do {
		uint64_t before = merged(region);

		n = undo(region, way);
		tries++;
		assert_true(n == -EBUSY || n >= 0);
		if (n > 0)
			assert_int_equal(merged(region), before - (uint64_t)n);
		assert_in_range(tries, 1, 4 * 6);
	} while (n);
	assert_in_range(veto.calls, 2 * 6 - 1, 4 * 6);
	assert_int_equal(merged(region), 0);
	assert_no_duplicates(region, 0, PAGES);
	sim_destroy(region->space->sim);
}

static void test_every_second_by_unmerge(void **unused)
{
	refused_every_second(BY_REGION);
	refused_every_second(BY_SPACE);
	refused_every_second(BY_SCANNER);
}

/* Also with pages that may show a frame unknown to the library: it has to note which of them were
 * done, or each call would begin anew. */
static void test_every_second_by_exclusion(void **unused)
{
	refused_every_second(BY_EXCLUSION);
}

static void test_every_second_by_pin(void **unused)
{
	refused_every_second(BY_PIN);
}

/* One page is never given back: it is told each time, nothing is excluded, and the pages behind
 * it can be unmerged. */
static void test_one_page(void **unused)
{
	struct sim_region *region = map_and_merge(0xcf, 0, 0, 300, -EPERM);
	struct sim *sim = region->space->sim;

	assert_int_equal(sim_unmerge(region, 0, PAGES), 300);
	assert_int_equal(sim_unmerge(region, 0, PAGES), -EPERM);
	assert_int_equal(undo(region, BY_EXCLUSION), -EPERM);
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_EXCLUDED], 0);
	assert_int_equal(sim_unmerge(region, 301, PAGES - 301), PAGES - 301);
	assert_no_duplicates(region, 0, 300);
	assert_no_duplicates(region, 301, PAGES - 301);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 0);
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_FRAMES_UNMAP], 3);
	sim_passes(sim, 2); /* scanning goes on: all merge again */
	assert_int_equal(merged(region), PAGES);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmerge_uffd_wp),
		cmocka_unit_test(test_every_second_by_unmerge),
		cmocka_unit_test(test_every_second_by_exclusion),
		cmocka_unit_test(test_every_second_by_pin),
		cmocka_unit_test(test_one_page),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
