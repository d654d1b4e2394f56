/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_failure_threads.c - two threads, and the k-th call of a hook that may fail does so, for
 * every k and in every way. Of the first thread's calls: then the other one comes in where the lock
 * is not held next, before the failure is dealt with, or a little later. Of the other's: it came in
 * while the first one is in the middle of its work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failure_stories.h"
#include "interleaved_deeds.h"

#define PAGES 8u
#define LATER 3u /* the other thread comes at one of so many points behind the failure */

/* Zero pages, twins in one space and in two, unique pages; a chain unless there may be clones,
 * which may take frames beyond the limit. */
static struct sim *world(bool clones)
{
	struct sim *sim = sim_create(&(struct sim_options){.aging = PDD_AGING_NONE,
							   .nroots = 8,
							   .limit = clones ? 256 : 3,
							   .no_clones = !clones});

	for (unsigned r = 0; r < 3; r++) {
		struct sim_region *region =
			sim_region_add_with(sim_space_add(sim, 0), PAGES, ROOM, false);

		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(region, i, i < 4 ? i : i < 7 ? 2 : 100 + r);
	}
	return sim;
}

static struct {
	const struct outcome *outcome;
	uint64_t k;
	uint64_t later; /* points from the failure to the other thread */
	bool failed;	/* the k-th call came */
} failure;

/* The other thread comes soon after the failure. */
static void after_failure(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!plan.at && plan.armed && sim->fallible >= failure.k)
		plan.at = plan.npoints + failure.later;
	at_point(sim, hook, before);
}

/* Passes with points in them; between two of them some pages are written. */
static void passes(struct sim *sim)
{
	for (unsigned n = 0; n < 4; n++) {
		for (struct sim_space *space = sim->spaces; n == 2 && space; space = space->next)
			for (struct sim_region *r = space->regions; r; r = r->next)
				for (uint64_t i = 4; i < 6 && i < r->npages; i++)
					if (!item_is_kept_out(sim_item(r, i)))
						sim_write(r, i, 3);
		pass_with_points(sim, n % 2 ? 5 : ALL);
	}
}

static void end(struct sim *sim)
{
	sim->fail_at = 0;
	sim_verify(sim);
	sim_settle(sim, 20);
	for (unsigned n = 0; n < 2; n++) {
		sim_prune(sim);
		sim_settle(sim, 20);
	}
	sim_assert_settled(sim);
	sim_destroy(sim);
}

typedef void (*deed_fn)(struct sim *sim);

/* Whether there was a k-th call. */
static bool first_fails(deed_fn deed)
{
	struct sim *sim = world(deed == clone);
	bool failed;

	plan_begin(sim, 0, deed);
	sim->at = after_failure;
	fail_calls(sim, 0, failure.k, 1, failure.outcome);
	passes(sim);
	failed = sim->fallible >= failure.k;
	(void)plan_end(sim);
	end(sim);
	return failed;
}

static void test_first_fails(void **unused)
{
	static const deed_fn deeds[] = {step_extent, step_all,	    step_on, walk,
					prune,	     remove_region, pin,     exclude_some,
					discard,     unmerge,	    resize,  clone};
	uint64_t told = 0;

	for (unsigned d = 0; d < sizeof(deeds) / sizeof(deeds[0]); d++) {
		for (unsigned i = 0; i < OUTCOMES; i++) {
			failure.outcome = &outcomes[i];
			failure.later = 1 + (d + i + sim_seed()) % LATER;
			for (failure.k = 1; first_fails(deeds[d]); failure.k++)
				told++;
		}
	}
	print_message("%u failures.\n", (unsigned)told);
	assert_true(told > 2000);
}

/* ---- the other thread's calls ---- */

static void step_and_fail(struct sim *sim)
{
	fail_calls(sim, 0, failure.k, 1, failure.outcome);
	step_on(sim);
	failure.failed = sim->fallible >= failure.k;
	sim->fail_at = 0;
}

static void prune_and_fail(struct sim *sim)
{
	fail_calls(sim, 0, failure.k, 1, failure.outcome);
	prune(sim);
	failure.failed = sim->fallible >= failure.k;
	sim->fail_at = 0;
}

/* Whether there is such a point. */
static bool other_fails(deed_fn deed, uint64_t point)
{
	struct sim *sim = world(false);
	bool came;

	failure.failed = false;
	plan_begin(sim, point, deed);
	passes(sim);
	came = plan_end(sim);
	end(sim);
	return came;
}

/* At every stride-th point; another stride begins with another seed. */
static void test_other_fails(void **unused)
{
	static const deed_fn deeds[] = {step_and_fail, prune_and_fail};
	uint64_t told = 0, stride = 3;

	for (unsigned d = 0; d < 2; d++) {
		uint64_t point = 1 + sim_seed() % stride;
		bool came = true;

		for (; came; point += stride) {
			failure.outcome = &outcomes[point % OUTCOMES];
			failure.k = 1;
			do
				came = other_fails(deeds[d], point);
			while (came && failure.failed && ++failure.k && ++told);
		}
	}
	print_message("%u failures.\n", (unsigned)told);
	assert_true(told > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_fails),
		cmocka_unit_test(test_other_fails),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
