/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_explain_next.c - pdd_explanation.next_look_passes is exact: between two passes, and in a
 * pass for the pages that it has come by. Whatever is foretold is compared with the pass in which
 * the page is really read, for each aging policy and period.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

#define PAGES 240u

static struct sim_region *region;
static bool was_read[PAGES]; /* in this pass */

/* Sees which pages are read. */
static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const struct sim *sim = ctx;
	uint64_t page = ((uintptr_t)content - (uintptr_t)region->memory) / sim->page_size;
	uint64_t words[8];

	if ((uintptr_t)content >= (uintptr_t)region->memory && page < PAGES)
		was_read[page] = true;
	memcpy(words, content, sizeof(words));
	*value = 0;
	for (unsigned i = 0; i < 8; i++)
		*value = (*value ^ words[i]) * UINT64_C(0x100000001b3);
	return 0;
}

static struct pdd_explanation explain(uint64_t page)
{
	struct pdd_explanation e = { .size = sizeof(e) };

	assert_int_equal(pdd_region_explain(&region->region, page, &e), 0);
	return e;
}

static struct sim *world(enum pdd_aging aging, uint32_t max_period)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.aging = aging, .max_period = max_period, .nroots = 256 });

	region = sim_region_add(sim_space_add(sim, 0), PAGES);
	sim->scanner.priv.ops.checksum = checksum;
	return sim;
}

/* What happens to pages before a pass: they come one after the other, so that all ages are there at
 * once; some change always or at times; zero pages that cannot be held fail again and again. */
static void live(struct sim *sim, uint64_t pass)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		bool zero = i % 12 == 5;

		if (i == pass || (i < pass && i % 12 == 1) ||
		    (i < pass && i % 12 == 3 && sim_random(sim, 5) == 0))
			sim_write(region, i, zero ? 0 : 1 + i + 1000 * pass);
		region->pages[i].hold_refuse = zero ? PDD_REASON_PINNED : PDD_REASON_NONE;
	}
}

static void passes(enum pdd_aging aging, uint32_t max_period)
{
	static uint32_t foretold[PAGES];
	static bool read_before[PAGES];
	struct sim *sim = world(aging, max_period);

	memset(foretold, 0, sizeof(foretold));
	memset(read_before, 0, sizeof(read_before));
	for (uint64_t pass = 0; pass < 150; pass++) {
		live(sim, pass);
		for (uint64_t i = 0; i <= pass && i < PAGES; i++) {
			struct pdd_explanation e = explain(i);

			/* one pass less, unless it was read meanwhile */
			if (i < pass && !read_before[i])
				assert_int_equal(e.next_look_passes, foretold[i] - 1);
			assert_true(e.next_look_passes < max_period);
			if (e.due)
				assert_int_equal(e.next_look_passes, 0);
			foretold[i] = e.next_look_passes;
		}
		memset(was_read, 0, sizeof(was_read));
		sim_pass(sim, 1 + sim_random(sim, PAGES));
		for (uint64_t i = 0; i <= pass && i < PAGES; i++)
			assert_int_equal(was_read[i], foretold[i] == 0);
		memcpy(read_before, was_read, sizeof(was_read));
	}
	sim_destroy(sim);
}

static void test_between_passes(void **unused)
{
	for (uint32_t period = 1; period <= PDD_AGING_PERIOD_MAX; period *= 2) {
		passes(PDD_AGING_PHASE, period);
		passes(PDD_AGING_NONE, period);
	}
}

/* In the middle of a pass, of pages that it has come by. */
static void test_in_a_pass(void **unused)
{
	for (uint32_t period = 2; period <= PDD_AGING_PERIOD_MAX; period *= 2) {
		struct sim *sim = world(PDD_AGING_PHASE, period);

		for (uint64_t pass = 0; pass < 100; pass++) {
			uint64_t come_by = 10 * (1 + sim_random(sim, PAGES / 10 - 1));
			static uint32_t foretold[PAGES];

			live(sim, pass);
			sim_step(sim, come_by);
			for (uint64_t i = 0; i < come_by; i++)
				foretold[i] = explain(i).next_look_passes;
			sim_pass(sim, UINT64_MAX);
			for (uint64_t i = 0; i < come_by; i++)
				assert_int_equal(explain(i).next_look_passes, foretold[i]);
		}
		sim_destroy(sim);
	}
}

/* A shared page is come by in each pass, a page that is kept out in none; a written page that
 * shared is read at once. */
static void test_shared_and_kept_out(void **unused)
{
	struct sim *sim = world(PDD_AGING_PHASE, 64);

	for (uint64_t i = 0; i < 4; i++)
		sim_write(region, i, 1);
	sim_passes(sim, 100);
	assert_int_equal(explain(0).state, PDD_STATE_SHARED);
	assert_int_equal(explain(0).next_look_passes, 0);
	assert_int_equal(pdd_region_pin(&region->region, 3, 1), 0);
	assert_int_equal(pdd_region_exclude(&region->region, 100, 1), 0);
	assert_int_equal(explain(3).next_look_passes, UINT32_MAX);
	assert_int_equal(explain(100).next_look_passes, UINT32_MAX);
	memset(was_read, 0, sizeof(was_read));
	sim_write(region, 0, 2);
	sim_passes(sim, 70);
	assert_true(was_read[0]);
	assert_false(was_read[3]);
	assert_int_equal(pdd_region_unpin(&region->region, 3, 1), 0);
	assert_int_equal(explain(3).next_look_passes, 0);
	sim_pass(sim, UINT64_MAX);
	assert_true(was_read[3]);
	sim_destroy(sim);
}

/* All periods are kept when the setting changes: the answer follows at once. */
static void test_retuned(void **unused)
{
	struct sim *sim = world(PDD_AGING_PHASE, 64);
	struct pdd_tunables t = { .size = sizeof(t) };

	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(region, i, 1 + i);
	sim_passes(sim, 200);
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	for (t.max_period_passes = 1; t.max_period_passes <= 64; t.max_period_passes *= 2) {
		uint32_t most = 0;

		assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
		for (uint64_t i = 0; i < PAGES; i++)
			if (explain(i).next_look_passes > most)
				most = explain(i).next_look_passes;
		assert_int_equal(most, t.max_period_passes - 1); /* there are 240 of them */
		assert_int_equal(explain(0).age, PDD_AGE_MAX);
	}
	t.max_period_passes = 64;
	t.aging = PDD_AGING_NONE;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(explain(i).next_look_passes, 0);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_passes),
		cmocka_unit_test(test_in_a_pass),
		cmocka_unit_test(test_shared_and_kept_out),
		cmocka_unit_test(test_retuned),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
