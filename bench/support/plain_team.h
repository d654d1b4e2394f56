/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plain_team.h - several threads step through the passes of one plain_engine.
 *
 * The scanner's lock is a mutex. Each thread has a worker of its own, and steps until one of them
 * is told that the pass is over.
 */
#ifndef BENCH_PLAIN_TEAM_H
#define BENCH_PLAIN_TEAM_H

#include "plain_engine.h"
#include "team.h"

struct plain_team {
	struct team team;
	struct plain_engine *engine;
	struct pdd_worker *workers; /* one for each thread */
	uint64_t step_pages;
	atomic_bool over;
	atomic_bool failed;
	double over_ns; /* written by the thread that ended the pass, read when all have stopped */
};

/** @return 0 or -1 after a word on stderr */
int plain_team_init(struct plain_team *team, struct plain_engine *engine, unsigned nthreads,
		    uint64_t step_pages);
void plain_team_fini(struct plain_team *team);

/** plain_engine_start() with the hooks that several threads need. */
int plain_team_start(struct plain_team *team, struct plain_memory *memory,
		     const struct pdd_tunables *tunables);

/**
 * A pass. A thread that has not heard yet that it is over may have begun the next one.
 * @param ns  out: the time that went by, from the first step to the end of the pass
 * @return 0 or -1 after a word on stderr
 */
int plain_team_pass(struct plain_team *team, double *ns);

#endif
