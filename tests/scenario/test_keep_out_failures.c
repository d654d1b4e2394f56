/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_keep_out_failures.c - pinning and excluding when hooks fail, when there is no record of the
 * pages, when they show frames that nobody knows of (clones), and when they go away meanwhile. A
 * call that fails keeps nothing out; one that succeeds left no page without memory of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

/* Shared and zero pages in several runs, in two extents. */
static struct sim *world(bool sparse, struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 5 });

	*region = sim_region_add_with(sim_space_add(sim, 0), 600, 600, sparse);
	for (uint64_t i = 490; i < 530; i++)
		sim_write(*region, i, i % 8 == 3 ? i : i % 8 < 2 ? 0 : 1 + i % 3);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], 35);
	return sim;
}

static uint64_t out(const struct sim *sim)
{
	const struct pdd_counts counts = sim_stats(sim).counts;

	return counts.reasons[PDD_REASON_PINNED] + counts.reasons[PDD_REASON_EXCLUDED];
}

static uint64_t not_private(const struct sim_region *region)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < region->npages; i++)
		n += region->pages[i].kind == PDD_PAGE_SHARED ||
		     region->pages[i].kind == PDD_PAGE_ZERO;
	return n;
}

static uint64_t works; /* calls of frames_unmap until it fails for ever */

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	const struct sim *sim = ctx;

	if (!works)
		return sim->fail_errno;
	works--;
	return sim_ops.frames_unmap(ctx, region, first, npages);
}

/* From the k-th call on frames_unmap fails, with each kind of errno, and was partial before:
 * nothing is kept out then; a later call does it. Whether it failed. */
static bool fail_from(uint64_t k, int error, bool sparse, bool exclude)
{
	struct sim_region *region;
	struct sim *sim = world(sparse, &region);
	int (*call)(struct pdd_region *r, uint64_t first, uint64_t npages) =
		exclude ? pdd_region_exclude : pdd_region_pin;
	uint64_t left;
	int err;

	sim->scanner.priv.ops.frames_unmap = frames_unmap;
	sim->fail_errno = error;
	sim->partial = k % 2;
	works = k - 1;
	err = call(&region->region, 0, 600);
	assert_true(err == 0 || err == error);
	assert_int_equal(out(sim), err ? 0 : 600);
	sim_verify(sim);
	left = not_private(region);
	assert_true(err || left == 0);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], left);
	works = UINT64_MAX;
	sim->partial = false;
	if (err && k % 3)
		sim_passes(sim, 2);
	if (err)
		assert_int_equal(call(&region->region, 0, 600), 0);
	assert_int_equal(out(sim), 600);
	assert_int_equal(not_private(region), 0);
	sim_pass(sim, UINT64_MAX);
	sim_destroy(sim);
	return err;
}

static void test_unmap_fails(void **unused)
{
	static const int errors[] = { -EBUSY, -EAGAIN, -ENOMEM, -ENOSPC, -EIO };

	for (unsigned i = 0; i < 4 * sizeof(errors) / sizeof(errors[0]); i++)
		for (uint64_t k = 1; fail_from(k, errors[i / 4], i & 1, i & 2);)
			k++;
}

/* One failure does not matter, if the next call works. */
static void test_unmap_fails_once(void **unused)
{
	for (uint64_t k = 1; k < 12; k++) {
		struct sim_region *region;
		struct sim *sim = world(k % 2, &region);
		int err;

		sim->fail_mask = BIT(SIM_FRAMES_UNMAP);
		sim->fail_errno = -ENOMEM;
		sim->fail_at = k;
		err = pdd_region_pin(&region->region, 0, 600);
		assert_int_equal(out(sim), err ? 0 : 600);
		assert_true(err || not_private(region) == 0);
		sim_verify(sim);
		sim_destroy(sim);
	}
}

/* The error is told as it is, and 0 as busy. */
static void test_errno(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(false, &region);

	sim->fail_mask = BIT(SIM_FRAMES_UNMAP);
	sim->fail_chance = 1;
	sim->fail_errno = -ENOSPC;
	assert_int_equal(pdd_region_pin(&region->region, 500, 20), -ENOSPC);
	sim->fail_errno = -EIO;
	assert_int_equal(pdd_region_exclude(&region->region, 500, 20), -EIO);
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_FRAMES_UNMAP], 2);
	assert_int_equal(pdd_region_pin(&region->region, 0, 490), 0); /* nothing to unmap there */
	assert_int_equal(pdd_region_pin(&region->region, 499, 1), 0);
	assert_int_equal(out(sim), 491);
	sim_destroy(sim);
}

/* Sparse: a record is got for what is kept out, and goes back when nothing keeps it. */
static void test_records(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add_with(sim_space_add(sim, 0), 4000, 4000, true);

	assert_int_equal(pdd_region_pin(&region->region, 1000, 100), 0);
	assert_int_equal(pdd_region_exclude(&region->region, 3999, 1), 0);
	assert_int_equal(region->nblocks, 3);
	sim_passes(sim, 2);
	assert_int_equal(region->nblocks, 3);
	assert_int_equal(out(sim), 101);
	sim_write(region, 1050, 5);
	sim_write(region, 1060, 5);
	assert_int_equal(pdd_region_unpin(&region->region, 1000, 100), 0);
	assert_int_equal(pdd_region_include(&region->region, 0, 4000), 0);
	sim_passes(sim, 2);
	assert_int_equal(region->nblocks, 1);
	assert_true(sim_is_shared(region, 1050));
	assert_int_equal(sim_reason(region, 1000), PDD_REASON_NO_RECORD);
	sim_destroy(sim);
}

/* A page of a clone at which no pass has looked shows a frame that nobody knows of: it is given
 * memory of its own, too. The frame stays for the others. */
static void test_clone(void **unused)
{
	for (unsigned i = 0; i < 8; i++) {
		struct sim_region *region, *clone;
		struct sim *sim = world(i & 1, &region);

		clone = sim_space_clone(region->space)->regions;
		if (i & 2)
			sim_step(sim, 700); /* it was looked at in part */
		if (i & 4)
			assert_int_equal(pdd_region_exclude(&clone->region, 495, 30), 0);
		else
			assert_int_equal(pdd_region_pin(&clone->region, 495, 30), 0);
		sim_verify(sim);
		for (uint64_t page = 495; page < 525; page++)
			assert_int_equal(clone->pages[page].kind, PDD_PAGE_PRIVATE);
		assert_int_equal(not_private(region), 35);
		sim_passes(sim, 2);
		for (uint64_t page = 495; page < 525; page++)
			assert_int_equal(clone->pages[page].kind, PDD_PAGE_PRIVATE);
		sim_settle(sim, 70);
		sim_destroy(sim);
	}
}

/* The same after everything was unmerged, which forgets all pages: those that no pass has looked at
 * are not taken for absent ones, also if their extent stays because a page of it is pinned. */
static void test_clone_after_unmerge(void **unused)
{
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim_region *region, *clone;
		struct sim *sim = world(sparse, &region);

		clone = sim_space_clone(region->space)->regions;
		assert_int_equal(pdd_region_pin(&clone->region, 500, 1), 0);
		while (pdd_scanner_unmerge(&sim->scanner, 1000) > 0)
			;
		assert_int_equal(pdd_region_pin(&clone->region, 490, 40), 0);
		sim_verify(sim);
		assert_int_equal(not_private(clone), 0);
		sim_destroy(sim);
	}
}

/* The k-th call fails for pages of a clone that nobody knows of. */
static void test_clone_fails(void **unused)
{
	bool failed = true;

	for (uint64_t k = 1; failed; k++) {
		struct sim_region *region, *clone;
		struct sim *sim = world(k % 2, &region);

		clone = sim_space_clone(region->space)->regions;
		assert_int_equal(pdd_region_exclude(&clone->region, 500, 3), 0);
		sim->fail_mask = BIT(SIM_FRAMES_UNMAP);
		sim->fail_errno = -ENOMEM;
		sim->partial = true;
		sim->fallible = 0;
		sim->fail_at = k;
		failed = pdd_region_pin(&clone->region, 0, 600) != 0;
		sim->fail_at = 0;
		sim_verify(sim);
		assert_int_equal(sim_counts(clone->space).reasons[PDD_REASON_PINNED],
				 failed ? 0 : 597);
		assert_int_equal(pdd_region_pin(&clone->region, 0, 600), 0);
		assert_int_equal(not_private(clone), 0);
		assert_int_equal(not_private(region), 35);
		sim_passes(sim, 2);
		sim_destroy(sim);
	}
}

/* Pages that are kept out are cut off, or go with their region: what comes in their place is not.
 * */
static void test_go_away(void **unused)
{
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim_region *region;
		struct sim *sim = world(sparse, &region);

		assert_int_equal(pdd_region_pin(&region->region, 495, 30), 0);
		assert_int_equal(pdd_region_exclude(&region->region, 505, 90), 0);
		assert_int_equal(out(sim), 100);
		sim_region_resize(region, 510);
		sim_verify(sim);
		assert_int_equal(out(sim), 15);
		sim_region_resize(region, 600);
		sim_verify(sim);
		assert_int_equal(out(sim), 15);
		assert_int_equal(sim_reason(region, 520),
				 sparse ? PDD_REASON_NO_RECORD : PDD_REASON_NEW);
		assert_int_equal(pdd_region_unpin(&region->region, 510, 1), -EINVAL);
		for (uint64_t i = 510; i < 530; i++)
			sim_write(region, i, 50 + i % 2);
		sim_settle(sim, 20);
		for (uint64_t i = 510; i < 530; i++)
			assert_true(sim_is_shared(region, i));
		sim_region_remove(region);
		sim_verify(sim);
		sim_destroy(sim);
	}
}

/* Discarding leaves excluded pages excluded, whether or not they have memory. */
static void test_discard_excluded(void **unused)
{
	for (unsigned sparse = 0; sparse < 2; sparse++) {
		struct sim_region *region;
		struct sim *sim = world(sparse, &region);
		uint64_t pages;

		assert_int_equal(pdd_region_exclude(&region->region, 500, 20), 0);
		assert_int_equal(pdd_region_discard(&region->region, 0, 600), 0);
		sim_verify(sim);
		assert_int_equal(out(sim), 20);
		assert_int_equal(sim_reason(region, 505), PDD_REASON_EXCLUDED);
		assert_int_equal(sim_reason(region, 499), PDD_REASON_ABSENT);
		for (uint64_t i = 490; i < 530; i++)
			sim_write(region, i, 1);
		pages = sim->read_pages;
		sim_passes(sim, 2);
		assert_int_equal(sim->read_pages - pages, 2 * 20);
		assert_int_equal(pdd_region_include(&region->region, 0, 600), 0);
		sim_settle(sim, 10);
		assert_int_equal(not_private(region), 40);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmap_fails),
		cmocka_unit_test(test_unmap_fails_once),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_clone_after_unmerge),
		cmocka_unit_test(test_clone_fails),
		cmocka_unit_test(test_go_away),
		cmocka_unit_test(test_discard_excluded),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
