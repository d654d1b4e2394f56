/* SPDX-License-Identifier: BSD-2-Clause */
/* team.c - see team.h. */
#define _POSIX_C_SOURCE 200809L

#include "team.h"

#include <sched.h>
#include <string.h>

#include "measure.h"

/* Each thread writes its own times; the barrier at the end hands them over. */
static void work(struct team *team, unsigned number)
{
	atomic_fetch_add_explicit(&team->nready, 1, memory_order_relaxed);
	while (atomic_load_explicit(&team->nready, memory_order_relaxed) < team->nthreads)
		sched_yield();
	team->began_ns[number] = measure_wall_ns();
	team->fn(team->ctx, number);
	team->ended_ns[number] = measure_wall_ns();
}

static void *member_main(void *arg)
{
	struct team_member *member = arg;
	struct team *team = member->team;

	for (;;) {
		pthread_barrier_wait(&team->begin);
		if (!team->fn)
			return NULL;
		work(team, member->number);
		pthread_barrier_wait(&team->end);
	}
}

int team_start(struct team *team, unsigned nthreads)
{
	memset(team, 0, sizeof(*team));
	team->nthreads = nthreads;
	if (pthread_barrier_init(&team->begin, NULL, nthreads) ||
	    pthread_barrier_init(&team->end, NULL, nthreads))
		return -1;
	for (unsigned i = 1; i < nthreads; i++) {
		struct team_member *member = &team->members[i];

		member->team = team;
		member->number = i;
		if (pthread_create(&member->thread, NULL, member_main, member))
			return -1; /* the program ends, and the others with it */
	}
	return 0;
}

void team_stop(struct team *team)
{
	team->fn = NULL;
	pthread_barrier_wait(&team->begin);
	for (unsigned i = 1; i < team->nthreads; i++)
		pthread_join(team->members[i].thread, NULL);
	pthread_barrier_destroy(&team->begin);
	pthread_barrier_destroy(&team->end);
}

double team_run(struct team *team, team_fn fn, void *ctx)
{
	double began, ended;

	team->fn = fn;
	team->ctx = ctx;
	atomic_store_explicit(&team->nready, 0, memory_order_relaxed);
	pthread_barrier_wait(&team->begin);
	work(team, 0);
	pthread_barrier_wait(&team->end);
	began = team->began_ns[0];
	ended = team->ended_ns[0];
	for (unsigned i = 1; i < team->nthreads; i++) {
		began = team->began_ns[i] < began ? team->began_ns[i] : began;
		ended = team->ended_ns[i] > ended ? team->ended_ns[i] : ended;
	}
	return ended - began;
}
