/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contenders.h - threads that hold one lock for writing most of the time, in short random holds.
 *
 * Each thread spins in a random gap, takes the lock, spins while it holds it for 0 to 1 ms, and
 * gives it back. The gaps are so long that all threads together leave the lock free for about a
 * tenth of the time. While they do not contend they do the same on a lock of their own, so that the
 * machine is as busy as before.
 */
#ifndef BENCH_CONTENDERS_H
#define BENCH_CONTENDERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct contender {
	struct contenders *all;
	pthread_t thread;
	uint64_t random;
	pthread_rwlock_t *_Atomic uses; /* in its turn under way */
};

struct contenders {
	struct contender *threads;
	unsigned nthreads;
	double mean_gap_ns;
	pthread_rwlock_t own;
	pthread_rwlock_t *_Atomic target;
	_Atomic uint64_t held_ns; /* by all threads, with either lock */
	atomic_bool stop;
};

/** As many threads as leave the caller a core of its own, at least one; they begin with their own
 * lock. The caller stays on that core afterwards. 0 or -1. */
int contenders_start(struct contenders *contenders, uint64_t seed);
void contenders_stop(struct contenders *contenders);
/** From the return on all of them use this lock, and the one before no more. NULL: their own. */
void contenders_use(struct contenders *contenders, pthread_rwlock_t *lock);
/** How long the lock was held since the start. Holds count when they end. */
uint64_t contenders_held_ns(struct contenders *contenders);

/** A monotonic clock. */
uint64_t bench_now_ns(void);
/** A random number; any state will do but 0. */
uint64_t bench_random(uint64_t *state);

#endif
