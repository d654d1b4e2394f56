/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - everybody at once on live memory: threads that step, write, own, walk and want quiet.
 * Each goes on until it is over.
 *
 * Regions come and go under `table`, locked for writing. Whoever uses one locks it for reading: all
 * but the threads that step, which have nothing but the library's own locking.
 */
#ifndef PDD_TEST_CROWD_H
#define PDD_TEST_CROWD_H

#include "live.h"

#define CROWD_SPACES 5u

struct crowd {
	struct live *live;
	struct live_space *spaces[CROWD_SPACES]; /* under `table` */
	pthread_rwlock_t table;
	atomic_bool stop;
	atomic_ulong nsteps, npasses, nwrites, nops, nwalks, nhits, nquiets, nwaits;
};
extern struct crowd crowd;

static inline void crowd_count(atomic_ulong *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static inline bool crowd_is_over(void)
{
	return atomic_load_explicit(&crowd.stop, memory_order_relaxed);
}

/* What threads do; their argument is their number, from 2. */
void *crowd_run_steps(void *arg);
void *crowd_run_writes(void *arg);
void *crowd_run_owner(void *arg);
void *crowd_run_reader(void *arg);
void *crowd_run_quiet(void *arg);

/* Any space or region, or NULL; `table` is locked. */
struct live_space *crowd_any_space(void);
struct live_region *crowd_any_region(const struct live_space *space);
/* Of sparse regions every second extent stays empty, unless all do. */
bool crowd_is_hole(const struct live_region *region, uint64_t page);
/* Whether clones of the space are attached to its objects. */
bool crowd_is_cloned(const struct live_space *space);
/* Perhaps; with a region. */
void crowd_add_space(void);
/* Any settings. As pdd_scanner_set_tunables(). */
int crowd_retune(void);

/* Nobody else is at work. */
void crowd_check(void);
void crowd_verify_all(void);
/* Each snapshot adds up, for it is taken under the lock. */
void crowd_read_statistics(void);

#endif
