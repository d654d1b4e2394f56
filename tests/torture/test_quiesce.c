/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_quiesce.c - s52 with two threads: one steps all the time, the other one wants the memory in
 * peace again and again, without any other lock between them. While it is quiet no hook is called,
 * and the other thread may do what it likes: it writes, and walks over everything. ThreadSanitizer
 * proves that the two calls order all of that against the steps.
 *
 * PDD_ROUNDS gives the number of times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

#define ROUNDS 3000u
#define SPACES 3u
#define PAGES 64u
#define CONTENTS 12u

static struct sim *sim;
static atomic_bool quiet;      /* quiesce has answered true, and resume was not called */
static atomic_bool stop;
static atomic_uint intrusions; /* hooks that are called while it is quiet */
static atomic_uint holds, steps, quiet_steps;
static _Thread_local bool stepper;

/* All relaxed: nothing here must order what the two threads do but the calls that are tested. */
static void count(atomic_uint *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static unsigned load(atomic_uint *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void at_hook(struct sim *unused, enum sim_hook hook, bool before)
{
	if (!stepper)
		return;
	if (atomic_load_explicit(&quiet, memory_order_relaxed))
		count(&intrusions);
	if (before && hook == SIM_HOLD)
		count(&holds);
	if (hook == SIM_HOLD || hook == SIM_FRAMES_CREATE || hook == SIM_PAGES_PUT)
		sched_yield(); /* in the middle of something */
}

static void *run_steps(void *unused)
{
	const struct pdd_budget budget = { .pages = 100 };

	stepper = true;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		int result = pdd_scanner_step(&sim->scanner, sim->worker, &budget);

		count(&steps);
		if (result != PDD_STEP_QUIET)
			continue;
		count(&quiet_steps);
		sched_yield();
	}
	return NULL;
}

/* What the thread that has peace does. */
static void use_peace(unsigned round)
{
	for (unsigned i = 0; i < 8; i++) {
		struct sim_space *space = sim->spaces;

		for (uint64_t n = sim_random(sim, SPACES); n; n--)
			space = space->next;
		sim_write(space->regions, sim_random(sim, PAGES), 1 + sim_random(sim, CONTENTS));
	}
	if (round % 16)
		return;
	sim->stepping = false;
	sim_verify(sim);
	assert_true(sim_unmerge(sim->spaces->regions, 0, PAGES) >= 0);
	sim->stepping = true;
}

static uint64_t rounds(void)
{
	const char *value = getenv("PDD_ROUNDS");

	return value ? strtoull(value, NULL, 0) : ROUNDS;
}

/* Wait until the other thread has taken some steps more. */
static void let_it_step(unsigned n)
{
	unsigned before = load(&steps);

	while (load(&steps) - before < n)
		sched_yield();
}

static void test_two_threads(void **unused)
{
	pthread_t thread;
	uint64_t waited = 0, quiets = 0;

	sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
	for (unsigned s = 0; s < SPACES; s++)
		sim_region_add(sim_space_add(sim, 0), PAGES);
	sim->at = at_hook;
	sim->stepping = true;
	assert_int_equal(pthread_create(&thread, NULL, run_steps, NULL), 0);
	for (unsigned round = 0; round < rounds(); round++) {
		while (!pdd_scanner_quiesce(&sim->scanner)) {
			waited++;
			sched_yield();
		}
		atomic_store_explicit(&quiet, true, memory_order_relaxed);
		use_peace(round);
		quiets++;
		atomic_store_explicit(&quiet, false, memory_order_relaxed);
		pdd_scanner_resume(&sim->scanner);
		let_it_step(round % 4);
	}
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(load(&intrusions), 0);
	printf("%" PRIu64 " times quiet, %" PRIu64 " waits, %u steps, %u holds\n", quiets, waited,
	       load(&steps), load(&holds));
	assert_true(waited > 0);
	assert_true(load(&holds) > 0);
	assert_true(load(&quiet_steps) > 0);
	sim->stepping = false;
	sim->at = NULL;
	sim_verify(sim);
	sim_settle(sim, 10);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_threads),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
