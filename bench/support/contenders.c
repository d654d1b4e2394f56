/* SPDX-License-Identifier: BSD-2-Clause */
/* contenders.c - see contenders.h. */
#define _GNU_SOURCE /* affinity */

#include "contenders.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOLD_NS_MAX 1000000u
#define FREE_SHARE 0.1

uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The share of time in which the lock is free if n threads come back after gaps `gap` times as
 * long as their holds: 1 / (sum of n! / (n - k)! / gap^k over k), the machine repair model. */
static double free_share(unsigned n, double gap)
{
	double sum = 1, term = 1;

	for (unsigned k = 0; k < n; k++) {
		term *= (n - k) / gap;
		sum += term;
	}
	return 1 / sum;
}

static double mean_gap_ns(unsigned n)
{
	double low = 0, high = 2 * n;

	for (unsigned i = 0; i < 50; i++) {
		double middle = (low + high) / 2;

		if (free_share(n, middle) < FREE_SHARE)
			low = middle;
		else
			high = middle;
	}
	return high * HOLD_NS_MAX / 2;
}

/* Spin until then; the time at which that was over. */
static uint64_t spin(uint64_t until_ns)
{
	uint64_t now;

	while ((now = bench_now_ns()) < until_ns)
		;
	return now;
}

static void *contend(void *arg)
{
	struct contender *self = arg;
	struct contenders *all = self->all;
	uint64_t gap_max = (uint64_t)(2 * all->mean_gap_ns) + 1;

	while (!atomic_load(&all->stop)) {
		pthread_rwlock_t *lock = atomic_load(&all->target);
		uint64_t begin;

		atomic_store(&self->uses, lock);
		spin(bench_now_ns() + bench_random(&self->random) % gap_max);
		pthread_rwlock_wrlock(lock);
		begin = bench_now_ns();
		spin(begin + bench_random(&self->random) % (HOLD_NS_MAX + 1));
		atomic_fetch_add(&all->held_ns, bench_now_ns() - begin);
		pthread_rwlock_unlock(lock);
	}
	return NULL;
}

/* Keep the calling thread on one core, and name the others. The kernel would rather have threads
 * that wake each other on one core, where they could not contend. */
static unsigned take_a_core(cpu_set_t *others)
{
	cpu_set_t own;
	int core = 0;

	CPU_ZERO(&own);
	if (sched_getaffinity(0, sizeof(*others), others) || CPU_COUNT(others) < 2)
		return 0;
	while (!CPU_ISSET(core, others))
		core++;
	CPU_CLR(core, others);
	CPU_SET(core, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		return 0;
	return (unsigned)CPU_COUNT(others);
}

int contenders_start(struct contenders *contenders, uint64_t seed)
{
	cpu_set_t cores;
	unsigned ncores = take_a_core(&cores), n = ncores ? ncores : 1;

	memset(contenders, 0, sizeof(*contenders));
	contenders->threads = calloc(n, sizeof(*contenders->threads));
	if (!contenders->threads || pthread_rwlock_init(&contenders->own, NULL))
		return -1;
	contenders->mean_gap_ns = mean_gap_ns(n);
	atomic_store(&contenders->target, &contenders->own);
	for (unsigned i = 0; i < n; i++) {
		struct contender *contender = &contenders->threads[i];

		contender->all = contenders;
		contender->random = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		if (pthread_create(&contender->thread, NULL, contend, contender))
			return -1;
		if (ncores)
			pthread_setaffinity_np(contender->thread, sizeof(cores), &cores);
		contenders->nthreads++;
	}
	return 0;
}

void contenders_stop(struct contenders *contenders)
{
	atomic_store(&contenders->stop, true);
	for (unsigned i = 0; i < contenders->nthreads; i++)
		pthread_join(contenders->threads[i].thread, NULL);
	free(contenders->threads);
	pthread_rwlock_destroy(&contenders->own);
}

void contenders_use(struct contenders *contenders, pthread_rwlock_t *lock)
{
	lock = lock ? lock : &contenders->own;
	atomic_store(&contenders->target, lock);
	for (unsigned i = 0; i < contenders->nthreads; i++)
		while (atomic_load(&contenders->threads[i].uses) != lock)
			sched_yield();
}

uint64_t contenders_held_ns(struct contenders *contenders)
{
	return atomic_load(&contenders->held_ns);
}
