/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_deadline.c - s15 and s17: a step ends within one run of work of its deadline, on a simulated
 * clock; every step gets on; and the result is that of one large step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "sim.h"

#define NS_PER_HOOK 1000u
#define NS_PER_PAGE 100u
#define PAGES PDD_EXTENT_PAGES
/* What may come after the deadline: looking at one extent, copying its frames, one run: held in one
 * call, mapped in one for each page at most. */
#define WORK                                                                                       \
	(3 * (NS_PER_HOOK + (uint64_t)PAGES * NS_PER_PAGE) + PAGES * (NS_PER_HOOK + NS_PER_PAGE))

static uint64_t merging; /* pages, in the end */

/* Equal extents: runs of an extent. Or a unique page behind each: runs of one page. */
static struct sim *world(bool single)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 1024 });

	sim->ns_per_hook = NS_PER_HOOK;
	sim->ns_per_page = NS_PER_PAGE;
	for (unsigned r = 0; r < 3; r++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(region, i, single && i % 2 ? 1000 * (r + 1) + i : 1 + i);
	}
	merging = single ? 3 * PAGES / 2 : 3 * PAGES;
	return sim;
}

static uint64_t steps_until(struct sim *sim, uint64_t duration)
{
	uint64_t steps = 0;

	while (sim_stats(sim).counts.ksm_merging_pages < merging) {
		uint64_t deadline = sim->now + duration;

		sim_step_until(sim, UINT64_MAX, deadline);
		if (sim->now > deadline)
			assert_in_range(sim->now - deadline, 0, WORK);
		if (sim_stats(sim).full_scans > 2 * 3 * PAGES) /* a run in each step */
			fail_msg("%u pages merged", (unsigned)sim_stats(sim).counts.merges);
		steps++;
	}
	return steps;
}

static void run(bool single, uint64_t duration, uint64_t most_steps)
{
	struct sim *sim = world(single);

	assert_in_range(steps_until(sim, duration), 1, most_steps);
	assert_int_equal(sim_stats(sim).pages_shared, merging / 3);
	assert_int_equal(sim_stats(sim).pages_sharing, merging / 3 * 2);
	sim_settle(sim, 3);
	sim_destroy(sim);
}

static void test_deadlines(void **unused)
{
	for (unsigned single = 0; single < 2; single++) {
		run(single, UINT64_C(1) << 40, 2);
		run(single, 200000, 2000);
		run(single, 1, 6 * PAGES); /* the deadline is over when the step begins */
	}
}

/* A deadline needs a clock. */
static void test_without_clock(void **unused)
{
	struct pdd_scanner scanner;
	struct pdd_ops ops = sim_ops;
	struct pdd_rbroot root = { 0 };
	struct pdd_worker *worker = calloc(1, sizeof(*worker));
	struct pdd_budget budget = { .pages = 1, .deadline_ns = 1 };
	struct pdd_scanner_options options = {
		.size = sizeof(options), .roots = &root, .nroots = 1
	};

	ops.now_ns = NULL;
	assert_int_equal(pdd_scanner_init(&scanner, &ops, NULL, &options), 0);
	assert_int_equal(pdd_scanner_step(&scanner, worker, &budget), -EINVAL);
	budget.deadline_ns = 0;
	assert_int_equal(pdd_scanner_step(&scanner, worker, &budget), PDD_STEP_IDLE);
	free(worker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_without_clock),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
