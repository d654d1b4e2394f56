/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_quiesce.c - s52: somebody wants the memory in peace, in the middle of a step. The step
 * returns within one run of work and holds nothing more; until resume nothing happens, and
 * afterwards all comes to the same end as if nothing had been.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define PAGES 30u
#define SPACES 3u
#define STEPS 24u

/* Quiesce at this call of a hook in a step, when it begins or has ended. */
static struct plan {
	uint64_t at; /* from 1; 0: never */
	uint64_t ncalls;
	bool before;
	bool quiet;
	uint64_t after[SIM_HOOKS]; /* calls that began since then */
} plan;

static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!sim->stepping || hook == SIM_LOCK_SCANNER || hook == SIM_UNLOCK_SCANNER)
		return;
	if (before && plan.quiet)
		plan.after[hook]++;
	if (before == plan.before && ++plan.ncalls == plan.at) {
		assert_false(pdd_scanner_quiesce(&sim->scanner));
		plan.quiet = true;
	}
}

static uint64_t content(unsigned space, uint64_t page)
{
	switch (page % 5) {
	case 0: return 0;
	case 1: return 1 + page;                   /* in all spaces: twins elsewhere */
	case 2: return 2;                          /* many */
	case 3: return 100 * (space + 1) + page;   /* unique */
	default: return 50 * (space + 1) + page / 10; /* twins in the same space */
	}
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	for (unsigned s = 0; s < SPACES; s++) {
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(region, i, content(s, i));
	}
	sim->at = at_hook;
	return sim;
}

/* What happens before step n: writes that take sharers from frames, so that a prune refiles. */
static void live(struct sim *sim, unsigned n)
{
	unsigned s = 0;

	for (struct sim_space *space = sim->spaces; n == 10 && space; space = space->next, s++)
		for (uint64_t i = 2; i < PAGES; i += 5)
			if ((i / 5 + s) % 3)
				sim_write(space->regions, i, 3000 + i);
	if (n == 14)
		assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
}

/* Nothing is done while it is quiet. */
static void assert_quiet(struct sim *sim)
{
	uint64_t calls[SIM_HOOKS];
	struct pdd_stats before = sim_stats(sim), after;

	memcpy(calls, sim->calls, sizeof(calls));
	assert_true(pdd_scanner_quiesce(&sim->scanner));
	for (unsigned i = 0; i < 3; i++) {
		struct pdd_budget budget = { .pages = 1 + i * 1000 };

		assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &budget),
				 PDD_STEP_QUIET);
	}
	assert_memory_equal(calls, sim->calls, sizeof(calls));
	after = sim_stats(sim);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* What a step may still do when it is to become quiet: end the run that it is in, put what it has
 * got, look at what it has in front of it. No hold, and no lock, but that for the one sharer that
 * a prune moves in a step. */
static void assert_soon(void)
{
	assert_int_equal(plan.after[SIM_HOLD], 0);
	assert_in_range(plan.after[SIM_TRYLOCK], 0, plan.after[SIM_FRAMES_REMAP]);
	assert_in_range(plan.after[SIM_PAGES_WRITTEN], 0, 1);
	assert_in_range(plan.after[SIM_PAGES_GET], 0, 1);
	assert_in_range(plan.after[SIM_FRAMES_CREATE], 0, 1);
	assert_in_range(plan.after[SIM_FRAMES_MAP] + plan.after[SIM_ZERO_MAP] +
				plan.after[SIM_FRAMES_REMAP],
			0, 1);
	assert_in_range(plan.after[SIM_UNLOCK], 0, 2);
}

/* Live through the story with one interruption, at the k-th call; false: there are fewer. */
static bool interrupted(struct sim *sim, uint64_t k, bool before, uint64_t pages)
{
	bool happened = false;

	plan = (struct plan){ .at = k, .before = before };
	for (unsigned n = 0; n < STEPS; n++) {
		live(sim, n);
		sim_step(sim, pages);
		if (!plan.quiet)
			continue;
		assert_soon();
		assert_quiet(sim);
		assert_quiet(sim);
		pdd_scanner_resume(&sim->scanner);
		happened = true;
		plan.quiet = false;
		memset(plan.after, 0, sizeof(plan.after));
	}
	plan.at = 0;
	sim_passes(sim, 8);
	return happened;
}

static void assert_same_end(const struct sim *a, const struct sim *b)
{
	struct pdd_stats x = sim_stats(a), y = sim_stats(b);
	const struct sim_space *t = b->spaces;

	for (const struct sim_space *s = a->spaces; s; s = s->next, t = t->next)
		for (uint64_t i = 0; i < PAGES; i++)
			assert_int_equal(s->regions->pages[i].kind, t->regions->pages[i].kind);
	assert_int_equal(x.pages_shared, y.pages_shared);
	assert_int_equal(x.pages_sharing, y.pages_sharing);
	assert_int_equal(x.counts.ksm_zero_pages, y.counts.ksm_zero_pages);
	assert_int_equal(x.counts.pages_due, 0);
}

static void at_every_call(const struct sim_options *options, uint64_t pages)
{
	struct sim *undisturbed = world(options);
	uint64_t interruptions = 0;

	interrupted(undisturbed, 0, true, pages);
	assert_true(sim_stats(undisturbed).counts.ksm_merging_pages > PAGES);
	for (unsigned before = 0; before < 2; before++) {
		for (uint64_t k = 1;; k++) {
			struct sim *sim = world(options);
			bool done = !interrupted(sim, k, before, pages);

			sim->at = NULL;
			assert_same_end(sim, undisturbed);
			sim_destroy(sim);
			if (done)
				break;
			interruptions++;
		}
	}
	assert_true(interruptions > 100);
	undisturbed->at = NULL;
	sim_destroy(undisturbed);
}

/* In every hook of every step, when it begins and when it ends. */
static void test_at_every_call(void **unused)
{
	at_every_call(&(struct sim_options){ .nroots = 64 }, UINT64_MAX);
	at_every_call(&(struct sim_options){ .nroots = 64 }, 20);
}

static void test_at_every_call_tracked(void **unused)
{
	at_every_call(&(struct sim_options){ .tracked = true }, UINT64_MAX);
}

/* Frames of three sharers: steps prune, and move sharers. */
static void test_at_every_call_of_a_prune(void **unused)
{
	struct sim_options options = { .limit = 3 };
	struct sim *sim = world(&options);

	interrupted(sim, 0, true, UINT64_MAX);
	assert_true(sim_stats(sim).counts.refiles > 2 && sim_stats(sim).prunes > 0);
	sim->at = NULL;
	sim_destroy(sim);
	at_every_call(&options, UINT64_MAX);
}

/* Steps that are interrupted again and again, each at its first hook: nothing is merged by them,
 * and nothing is lost. */
static void test_again_and_again(void **unused)
{
	struct sim *sim = world(NULL);

	for (unsigned n = 0; n < 50; n++) {
		plan = (struct plan){ .at = 1, .before = true };
		sim_step(sim, UINT64_MAX);
		assert_soon();
		assert_quiet(sim);
		pdd_scanner_resume(&sim->scanner);
	}
	assert_int_equal(sim->held_pages, 0);
	assert_int_equal(sim_stats(sim).counts.merges, 0);
	assert_int_equal(sim_stats(sim).full_scans, 50 / SPACES); /* an extent in each step */
	plan = (struct plan){ 0 };
	sim_passes(sim, 4);
	assert_true(sim_stats(sim).counts.ksm_merging_pages > PAGES);
	sim->at = NULL;
	sim_destroy(sim);
}

/* Between steps it is quiet at once; a second call, or a resume too many, does nothing. What does
 * not step works: the peace is for a fork, an unmerge, new regions. */
static void test_between_steps(void **unused)
{
	struct sim *sim = world(NULL);
	struct sim_region *region = sim->spaces->regions;
	struct pdd_budget none = { .pages = 0 };

	plan = (struct plan){ 0 };
	pdd_scanner_resume(&sim->scanner);
	sim_passes(sim, 3);
	sim_step(sim, 10);
	assert_true(pdd_scanner_quiesce(&sim->scanner));
	assert_quiet(sim);
	assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &none), -EINVAL);
	assert_true(sim_unmerge(region, 0, 10) > 0);
	sim_space_clone(region->space);
	sim_region_add(region->space, 5);
	assert_int_equal(pdd_region_discard(&region->region, 10, 5), 0);
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	sim_verify(sim);
	assert_quiet(sim);
	pdd_scanner_resume(&sim->scanner);
	pdd_scanner_resume(&sim->scanner);
	sim_passes(sim, 4);
	assert_true(sim_stats(sim).prunes > 0);
	assert_true(sim_stats(sim).counts.adoptions > 0);
	sim->at = NULL;
	sim_destroy(sim);
}

/* It may be resumed before the step has ended: that goes on, or ends, and the next one works. */
static void resume_at_once(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!sim->stepping)
		return;
	assert_false(pdd_scanner_quiesce(&sim->scanner));
	pdd_scanner_resume(&sim->scanner);
}

static void test_resumed_in_the_step(void **unused)
{
	struct sim *sim = world(NULL);

	sim->at = resume_at_once;
	sim_passes(sim, 4);
	assert_true(sim_stats(sim).counts.ksm_merging_pages > PAGES);
	sim->at = NULL;
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_every_call),
		cmocka_unit_test(test_at_every_call_tracked),
		cmocka_unit_test(test_at_every_call_of_a_prune),
		cmocka_unit_test(test_again_and_again),
		cmocka_unit_test(test_between_steps),
		cmocka_unit_test(test_resumed_in_the_step),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
