/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking_failures.c - write tracking that is lost: pages_written answers 0, an error, a
 * prefix, or nonsense. What is not known counts as written: it is read once more, in its turn, and
 * that is all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "item_internal.h"
#include "reads.h"
#include "sim.h"

#define EXTENT PDD_EXTENT_PAGES
#define PAGES (3u * EXTENT - 100)

/* What pages_written does instead: tells of so many pages, then answers that. */
static struct broken {
	int64_t answer;
	uint64_t prefix;   /* pages that it tells of in all */
	uint64_t nonsense; /* more than it was asked for, with all bits of all words set */
	unsigned ncalls;
} broken;

static int64_t pages_written(void *ctx, struct pdd_region *region, uint64_t *bits, uint64_t first,
			     uint64_t npages)
{
	uint64_t left = broken.prefix > first ? broken.prefix - first : 0;
	int64_t n;

	broken.ncalls++;
	if (left == 0)
		return broken.answer;
	n = sim_ops.pages_written(ctx, region, bits, first, left < npages ? left : npages);
	if (left < npages) /* the others are no part of the answer */
		memset((char *)bits + (left + 63) / 64 * 8, 0xff,
		       ((npages + 63) / 64 - (left + 63) / 64) * 8);
	if (!broken.nonsense)
		return n;
	memset(bits, 0xff, (npages + 63) / 64 * 8);
	return (int64_t)(npages + broken.nonsense);
}

static struct sim *world(struct sim_region **region, enum pdd_aging aging)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .tracked = true, .nroots = 2048, .aging = aging });

	*region = sim_region_add(sim_space_add(sim, 0), PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(*region, i, 1 + i);
	reads_watch(sim, *region);
	sim_passes(sim, 3);
	reads_clear();
	return sim;
}

/* A pass in which pages_written fails behind so many pages, and one in which it works again. */
static void broken_pass(struct sim *sim, int64_t answer, uint64_t prefix)
{
	broken.answer = answer;
	broken.prefix = prefix;
	broken.nonsense = 0;
	broken.ncalls = 0;
	reads_clear();
	sim->scanner.priv.ops.pages_written = pages_written;
	sim_pass(sim, UINT64_MAX);
	sim->scanner.priv.ops.pages_written = sim_ops.pages_written;
}

static void assert_rest(struct sim *sim)
{
	reads_clear();
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(reads_total, 0);
	assert_int_equal(sim_stats(sim).counts.pages_unshared, PAGES);
}

/* 0 and -EBUSY are no errors; others are counted, once for each call. All pages that were asked for
 * are read once, and then all is at rest again. */
static void test_all_lost(void **unused)
{
	static const int64_t answers[] = { 0, -EBUSY, -EAGAIN, -EIO, -ENOMEM, INT64_MIN };
	struct sim_region *region;
	struct sim *sim = world(&region, PDD_AGING_NONE);
	uint64_t errors = 0;

	for (unsigned i = 0; i < 6; i++) {
		errors += i >= 3 && i < 5; /* the last one is no errno at all */
		broken_pass(sim, answers[i], 0);
		assert_int_equal(broken.ncalls, 1);
		for (uint64_t page = 0; page < PAGES; page++)
			assert_int_equal(reads_of[page], 1);
		if (i < 5)
			assert_int_equal(
				sim_stats(sim).hook_errors_by_hook[PDD_HOOK_PAGES_WRITTEN], errors);
		assert_rest(sim);
	}
	sim_destroy(sim);
	reads_end();
}

/* It tells of a prefix, is asked for the rest, and fails: what it told holds, a page that was
 * written included, the rest counts as written. Whatever the prefix. */
static void test_prefix(void **unused)
{
	static const uint64_t prefixes[] = { 1, 63, 64, 65, 500, EXTENT, EXTENT + 1, PAGES - 1 };
	struct sim_region *region;
	struct sim *sim = world(&region, PDD_AGING_NONE);

	for (unsigned i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		uint64_t prefix = prefixes[i];

		sim_write(region, prefix - 1, prefix);
		broken_pass(sim, -EIO, prefix);
		assert_int_equal(broken.ncalls, 2);
		for (uint64_t page = 0; page < PAGES; page++)
			assert_int_equal(reads_of[page], page + 1 >= prefix);
		assert_rest(sim);
	}
	assert_int_equal(sim_stats(sim).hook_errors, sizeof(prefixes) / sizeof(prefixes[0]));
	sim_destroy(sim);
	reads_end();
}

/* One page, or some, with each call: all is told of in the end. */
static void test_small_answers(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, PDD_AGING_NONE);

	sim->partial = true;
	for (unsigned pass = 0; pass < 30; pass++) {
		uint64_t page = sim_random(sim, PAGES);

		sim_write(region, page, region->pages[page].expected);
		reads_clear();
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(reads_total, 1);
		assert_int_equal(reads_of[page], 1);
	}
	assert_true(sim->calls[SIM_PAGES_WRITTEN] > 3 + 30);
	assert_int_equal(sim_stats(sim).hook_errors, 0);
	sim_destroy(sim);
	reads_end();
}

/* It tells of more pages than there are, and sets bits beyond them: as many as were asked for are
 * read, and nothing else happens. */
static void test_nonsense(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, PDD_AGING_NONE);

	for (uint64_t more = 1; more; more <<= 9) {
		broken = (struct broken){ .prefix = UINT64_MAX, .nonsense = more };
		reads_clear();
		sim->scanner.priv.ops.pages_written = pages_written;
		sim_pass(sim, UINT64_MAX);
		sim->scanner.priv.ops.pages_written = sim_ops.pages_written;
		assert_int_equal(broken.ncalls, 1);
		assert_int_equal(reads_total, PAGES);
		assert_rest(sim);
	}
	sim_destroy(sim);
	reads_end();
}

/* What was lost of an old page is kept until its turn, as what was told: read once within a
 * period. */
static void test_old_pages(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, PDD_AGING_PHASE);

	for (unsigned pass = 0; pass < 70; pass++)
		broken_pass(sim, 0, 0);
	sim_passes(sim, PDD_AGING_PERIOD_MAX);
	sim_write(region, 9, 9999);
	broken_pass(sim, -EIO, 0);
	assert_in_range(reads_total, 1, PAGES / 16);
	sim_passes(sim, PDD_AGING_PERIOD_MAX - 1);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(reads_of[page], 1);
	sim_pass(sim, UINT64_MAX);
	assert_rest(sim);
	sim_destroy(sim);
	reads_end();
}

/* In a sparse region with holes, and pages that are absent: nothing is written where nothing is. */
static void test_sparse(void **unused)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .tracked = true, .aging = PDD_AGING_NONE });
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), 20 * EXTENT, 20 * EXTENT, true);

	for (uint64_t i = 0; i < 20; i += 4)
		for (uint64_t page = 0; page < 10; page++)
			sim_write(region, i * EXTENT + page, 1 + i * EXTENT + page);
	reads_watch(sim, region);
	sim_passes(sim, 3);
	assert_int_equal(region->nblocks, 5);
	for (uint64_t prefix = 0; prefix < 20 * EXTENT; prefix += 700) {
		broken_pass(sim, prefix % 400 ? 0 : -EIO, prefix);
		for (uint64_t i = 0; i < 20 * EXTENT; i++)
			assert_int_equal(reads_of[i], i >= prefix && i % (4 * EXTENT) < 10);
		assert_int_equal(region->nblocks, 5);
		sim_pass(sim, UINT64_MAX);
	}
	sim_destroy(sim);
	reads_end();
}

/* The k-th call fails, for every k, and the answer is lost: what was written is found anyway. */
static void test_every_call(void **unused)
{
	for (uint64_t k = 1; k <= 12; k++) {
		struct sim_region *region;
		struct sim *sim = world(&region, PDD_AGING_NONE);

		sim->fail_mask = UINT64_C(1) << SIM_PAGES_WRITTEN;
		sim->fallible = 0;
		sim->fail_at = k;
		sim->fail_errno = k % 2 ? -EIO : -EBUSY;
		for (unsigned pass = 0; pass < 4; pass++) {
			sim_write(region, 10 + pass, 2000);
			sim_write(region, EXTENT + 10 + pass, 2000);
			sim_pass(sim, EXTENT);
		}
		assert_int_equal(sim->fallible, 12);
		sim_settle(sim, 6);
		for (unsigned pass = 0; pass < 4; pass++) {
			assert_true(sim_is_shared(region, 10 + pass));
			assert_true(sim_is_shared(region, EXTENT + 10 + pass));
		}
		assert_int_equal(sim_stats(sim).counts.pages_unshared, PAGES - 8);
		sim_destroy(sim);
		reads_end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_lost),      cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_small_answers), cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_old_pages),     cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_every_call),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
