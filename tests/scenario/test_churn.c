/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_churn.c - s23: a pass ends although regions come and go at every step. P pages in steps of s
 * take no more than ceil(P / s) + 2 steps, whatever comes and goes before, under and behind the
 * cursor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scanner_internal.h"
#include "sim.h"

#define GUESTS 6u
#define GUEST_PAGES 40u
#define HOST_PAGES 300u
#define ALL (HOST_PAGES + GUESTS * GUEST_PAGES)

struct churn {
	struct sim *sim;
	struct sim_space *spaces[3];
	struct sim_region *guests[GUESTS];
	uint64_t ncontents; /* 0: all pages are unlike */
	uint64_t written;
};

static uint64_t next_content(struct churn *churn)
{
	churn->written++;
	return churn->ncontents ? 1 + sim_random(churn->sim, churn->ncontents) : churn->written;
}

static void add_guest(struct churn *churn, unsigned i)
{
	uint64_t npages = 1 + sim_random(churn->sim, GUEST_PAGES);

	churn->guests[i] = sim_region_add(churn->spaces[sim_random(churn->sim, 3)], npages);
	for (uint64_t page = 0; page < npages; page++)
		sim_write(churn->guests[i], page, next_content(churn));
}

/* One goes and one comes. */
static void replace(struct churn *churn)
{
	unsigned i = (unsigned)sim_random(churn->sim, GUESTS);

	if (churn->guests[i])
		sim_region_remove(churn->guests[i]);
	add_guest(churn, i);
}

static void create(struct churn *churn, uint64_t ncontents)
{
	*churn = (struct churn){ .ncontents = ncontents };
	/* No prunes, whose steps are none of the pass. */
	churn->sim = sim_create(&(struct sim_options){ .prune_ms = 1000, .limit = 5 });
	churn->sim->now = 1;
	for (unsigned i = 0; i < 3; i++) {
		struct sim_region *host;

		churn->spaces[i] = sim_space_add(churn->sim, 0);
		host = sim_region_add(churn->spaces[i], HOST_PAGES / 3);
		for (uint64_t page = 0; page < host->npages; page++)
			sim_write(host, page, next_content(churn));
	}
}

/* Most steps that a pass takes, over some passes. */
static uint64_t longest_pass(struct churn *churn, uint64_t step, unsigned npasses)
{
	uint64_t longest = 0;

	while (npasses--) {
		uint64_t steps = 0;

		do
			replace(churn);
		while (++steps <= 2 * ALL && sim_step(churn->sim, step) != PDD_STEP_PASS);
		longest = steps > longest ? steps : longest;
	}
	return longest;
}

static void run(uint64_t ncontents, uint64_t step)
{
	struct churn churn;
	uint64_t before;

	create(&churn, ncontents);
	(void)longest_pass(&churn, ALL, 3); /* the one prune */
	before = sim_stats(churn.sim).full_scans;
	assert_in_range(longest_pass(&churn, step, 12), 1, (ALL + step - 1) / step + 2);
	assert_int_equal(sim_stats(churn.sim).full_scans - before, 12);
	sim_destroy(churn.sim);
}

static void test_passes_end(void **unused)
{
	static const uint64_t steps[] = { 1, 7, 50, 64, 300, ALL };

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		run(0, steps[i]);
		run(30, steps[i]);
	}
}

/* The region under the cursor goes at every step, and comes again behind all others. */
static void test_under_the_cursor(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_space *space = sim_space_add(sim, 0);
	uint64_t steps = 0;

	for (unsigned i = 0; i < 10; i++)
		sim_write(sim_region_add(space, 20), i, 1 + i);
	while (sim_stats(sim).full_scans < 10) {
		struct pddi_stop stop;

		if (sim->scanner.priv.in_pass && pddi_pass_next(&sim->scanner, &stop)) {
			sim_region_remove((struct sim_region *)(void *)stop.region);
			sim_write(sim_region_add(space, 20), steps % 20, 100 + steps);
		}
		sim_step(sim, 10);
		steps++;
		/* 200 pages, of which most are gone before their turn */
		assert_true(sim_stats(sim).full_scans >= steps / (200 / 10 + 2));
	}
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_end),
		cmocka_unit_test(test_under_the_cursor),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
