/* SPDX-License-Identifier: BSD-2-Clause */
/* plain_team.c - see plain_team.h. */
#define _POSIX_C_SOURCE 200809L

#include "plain_team.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "huge_memory.h"
#include "measure.h"

static pthread_mutex_t scanner_mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(void *ctx)
{
	pthread_mutex_lock(&scanner_mutex);
}

static void unlock(void *ctx)
{
	pthread_mutex_unlock(&scanner_mutex);
}

int plain_team_init(struct plain_team *team, struct plain_engine *engine, unsigned nthreads,
		    uint64_t step_pages)
{
	memset(team, 0, sizeof(*team));
	team->engine = engine;
	team->step_pages = step_pages;
	team->workers = huge_alloc(nthreads * sizeof(*team->workers));
	if (!team_start(&team->team, nthreads))
		return 0;
	fprintf(stderr, "no threads\n");
	return -1;
}

void plain_team_fini(struct plain_team *team)
{
	unsigned nthreads = team->team.nthreads;

	team_stop(&team->team);
	huge_free(team->workers, nthreads * sizeof(*team->workers));
}

int plain_team_start(struct plain_team *team, struct plain_memory *memory,
		     const struct pdd_tunables *tunables)
{
	struct pdd_ops ops = plain_ops;

	ops.lock = lock;
	ops.unlock = unlock;
	memset(team->workers, 0, team->team.nthreads * sizeof(*team->workers));
	return plain_engine_start(team->engine, memory, &ops, tunables);
}

static void step_through(void *ctx, unsigned number)
{
	struct plain_team *team = ctx;
	const struct pdd_budget budget = { .pages = team->step_pages };

	while (!atomic_load_explicit(&team->over, memory_order_relaxed)) {
		int step = pdd_scanner_step(&team->engine->scanner, &team->workers[number],
					    &budget);

		if (step == PDD_STEP_WAIT) {
			sched_yield();
		} else if (step != PDD_STEP_MORE) {
			double now = measure_wall_ns();

			if (step != PDD_STEP_PASS)
				atomic_store_explicit(&team->failed, true, memory_order_relaxed);
			/* Two may end, if they are short, before all threads have heard of it. */
			if (!atomic_exchange_explicit(&team->over, true, memory_order_relaxed))
				team->over_ns = now;
		}
	}
}

int plain_team_pass(struct plain_team *team, double *ns)
{
	double began;

	atomic_store_explicit(&team->over, false, memory_order_relaxed);
	(void)team_run(&team->team, step_through, team);
	began = team->team.began_ns[0];
	for (unsigned i = 1; i < team->team.nthreads; i++)
		if (team->team.began_ns[i] < began)
			began = team->team.began_ns[i];
	*ns = team->over_ns - began;
	if (!atomic_load_explicit(&team->failed, memory_order_relaxed))
		return 0;
	fprintf(stderr, "a step failed\n");
	return -1;
}
