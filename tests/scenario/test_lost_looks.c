/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_lost_looks.c - s13, from the side of what is locked: a page that lost its look to a lock
 * has it in the first pass in which it is free, however old it is, and nothing that was known of
 * it is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "scanner_internal.h"
#include "sim.h"

/* How a space is busy. */
enum lock {
	TRYLOCK = 0,
	GET_EBUSY = 1, /* pages_get says so */
	LOCKS = 2,
};

static enum lock lock;
static const struct sim_space *locked; /* by pages_get */

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	if (locked && pdd_region_space(region) == &locked->space)
		return -EBUSY;
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void set_busy(struct sim_space *space, bool busy)
{
	space->busy = busy && lock == TRYLOCK;
	locked = busy && lock != TRYLOCK ? space : NULL;
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	sim->scanner.priv.ops.pages_get = pages_get;
	return sim;
}

#define PAGES 200u

static uint32_t next_look(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&region->region, page, &explanation), 0);
	return explanation.next_look_passes;
}

/* Old pages, each in the index; in which pass each is to be looked at. */
static struct sim *old_pages(struct sim_region **region, enum pdd_aging aging, uint32_t *when)
{
	struct sim *sim = world(&(struct sim_options){ .aging = aging });

	*region = sim_region_add(sim_space_add(sim, 0), PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(*region, i, 1 + i);
	sim_passes(sim, 140 + sim_random(sim, 64));
	assert_int_equal(sim_stats(sim).counts.pages_unshared, PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		when[i] = next_look(*region, i);
	return sim;
}

/* Whether the look falls into the first n passes, if these are busy. A page that counts for itself
 * does not grow older meanwhile. */
static bool is_lost(enum pdd_aging aging, uint32_t when, unsigned n)
{
	return aging == PDD_AGING_COUNTDOWN ? when == 0 : when < n;
}

/* The space is busy for n passes: the pages whose turn it was then, no others, are due, whatever
 * the policy and the kind of lock; and they are looked at in the next pass. */
static void lose_looks(enum pdd_aging aging, unsigned n)
{
	struct sim_region *region;
	uint32_t when[PAGES];
	struct sim *sim = old_pages(&region, aging, when);
	struct pdd_counts before, after;
	uint64_t lost = 0, looks = 0;

	set_busy(region->space, true);
	sim_passes(sim, n);
	for (uint64_t i = 0; i < PAGES; i++) {
		bool due = item_is_due(sim_item(region, i));

		assert_int_equal(due, is_lost(aging, when[i], n));
		lost += due;
		looks += due || next_look(region, i) == 0;
	}
	before = sim_stats(sim).counts;
	assert_int_equal(before.pages_due, lost);
	set_busy(region->space, false);
	sim_pass(sim, UINT64_MAX);
	after = sim_stats(sim).counts;
	assert_int_equal(after.pages_scanned - before.pages_scanned, looks);
	assert_int_equal(after.pages_due, 0);
	assert_int_equal(after.pages_unshared, PAGES);
	sim_destroy(sim);
}

static void lose_looks_often(void)
{
	static const enum pdd_aging policies[] = { PDD_AGING_PHASE, PDD_AGING_EPOCH,
						   PDD_AGING_COUNTDOWN, PDD_AGING_NONE };

	for (unsigned policy = 0; policy < 4; policy++)
		for (unsigned n = 1; n <= 9; n += 2)
			lose_looks(policies[policy], n);
}

static void test_lost_looks(void **unused)
{
	lock = TRYLOCK;
	lose_looks_often();
}

/* The same if pages_get says it: of the page at which it does, too. */
static void test_lost_looks_by_pages_get(void **unused)
{
	lock = GET_EBUSY;
	lose_looks_often();
}

/* pages_get is busy in every other pass, for the whole extent or for a page in its middle. What
 * was known of the pages stays known, so all of them merge; also if it answers -EAGAIN or 0, which
 * count as busy as well (ops.h). */
static int answer;
static uint64_t busy_from;

static int alternate_get(void *ctx, struct pdd_region *region, struct pdd_view *views,
			 uint32_t nviews, uint64_t first, uint64_t npages)
{
	const struct sim *sim = ctx;

	if (sim->scanner.priv.epoch % 2 == 0 || first + npages <= busy_from)
		return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	if (first >= busy_from)
		return answer;
	return sim_ops.pages_get(ctx, region, views, nviews, first, busy_from - first);
}

static void test_alternately_busy(void **unused)
{
	static const int answers[] = { -EBUSY, -EAGAIN, 0 };

	for (unsigned i = 0; i < 3; i++) {
		for (busy_from = 0; busy_from <= 10; busy_from += 10) {
			struct sim *sim = world(NULL);
			struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 20);

			answer = answers[i];
			sim->scanner.priv.ops.pages_get = alternate_get;
			for (uint64_t page = 0; page < 20; page++)
				sim_write(region, page, 1 + page % 10);
			sim_passes(sim, 6);
			assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 20);
			assert_int_equal(sim_stats(sim).hook_errors, 0);
			sim_destroy(sim);
		}
	}
}

/* With write tracking: an old page is written while its space is busy, so that nobody was told of
 * it, and its turn falls into that time. It lost that look: it must not be taken for clean, since
 * the space could not be asked, and wait for a whole period more. */
static void test_lost_look_at_a_write(void **unused)
{
	struct sim *sim = world(&(struct sim_options){ .tracked = true });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1);

	lock = TRYLOCK;
	for (unsigned pass = 0; pass < 80; pass++) { /* it grows old only if it is written */
		sim_write(region, 0, 1);
		sim_pass(sim, UINT64_MAX);
	}
	sim_passes(sim, PDD_AGING_PERIOD_MAX);
	while (next_look(region, 0) != 1)
		sim_pass(sim, UINT64_MAX);
	set_busy(region->space, true);
	sim_write(region, 0, 2);
	sim_passes(sim, 3);
	set_busy(region->space, false);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_VOLATILE);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_looks),
		cmocka_unit_test(test_lost_looks_by_pages_get),
		cmocka_unit_test(test_alternately_busy),
		cmocka_unit_test(test_lost_look_at_a_write),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
