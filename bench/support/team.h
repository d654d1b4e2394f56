/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * team.h - threads that do the same work at the same time, again and again.
 *
 * They wait for each other at the start, spinning for a while, so that all of them are awake.
 */
#ifndef BENCH_TEAM_H
#define BENCH_TEAM_H

#include <pthread.h>
#include <stdatomic.h>

#define TEAM_MAX 64u

/** @param number  of the thread, from 0; 0 is the thread that called team_run() */
typedef void (*team_fn)(void *ctx, unsigned number);

struct team {
	unsigned nthreads;
	team_fn fn; /* NULL: the end */
	void *ctx;
	pthread_barrier_t begin, end;
	_Atomic unsigned nready;
	double began_ns[TEAM_MAX], ended_ns[TEAM_MAX];
	struct team_member {
		struct team *team;
		unsigned number;
		pthread_t thread;
	} members[TEAM_MAX];
};

/** @return 0 or -1 */
int team_start(struct team *team, unsigned nthreads);
void team_stop(struct team *team);

/** Let all of them do it. @return the time from the first that began to the last that ended */
double team_run(struct team *team, team_fn fn, void *ctx);

#endif
