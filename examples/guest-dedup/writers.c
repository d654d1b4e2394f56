/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writers.c - threads that act as vCPUs: they increment counters in pages of all guests.
 *
 * They go round by round. In a round every counter of every guest is incremented by the same
 * number, in an order that changes from round to round; so after a round the pages of the i-th
 * counters of all guests are equal again, and are merged. A round lasts at least 3 passes of the
 * scanner: one that sees the change, one that sees that the page keeps still, and merges it. The
 * increments of a round are spread over about two passes, so that the next round begins while pages
 * are still being merged.
 *
 * To write into pages just while they are being merged, the threads also hunt: they are told of each
 * merge, and the counters next to it, which are likely to be merged next, are incremented at once if
 * their turn in this round has not come yet.
 *
 * Each counter belongs to one thread, which increments it with plain loads and stores, and counts
 * on the side what it did. If a write is lost anywhere, the two differ at the end.
 */
#define _GNU_SOURCE

#include "writers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	SLOTS_PER_GUEST = 2048,
	BURST = 16,           /* increments of one counter in one round */
	PASSES_PER_ROUND = 3,
	HUNTED = 16, /* counters behind one that was merged */
};

struct writer {
	struct writers *all;
	pthread_t thread;
	uint32_t number;
	uint64_t increments;
	uint64_t random;
	uint64_t round;      /* under way; counts from 1 */
	uint64_t *last_round; /* of each counter of this writer, in which it was incremented */
	uint64_t ncounters;
};

struct writers {
	struct guest *guests;
	uint32_t nwriters;
	uint32_t nstarted;
	uint64_t nslots; /* of all guests */
	atomic_bool stop;
	_Atomic uint64_t front;       /* 1 + number of the counter that was merged last */
	_Atomic uint64_t passes;      /* completed by the scanner */
	_Atomic uint64_t pass_ns;     /* how long the last one took */
	uint64_t last_pass_ns;        /* when it ended; scanner's thread only */
	pthread_mutex_t lock;         /* of what follows */
	pthread_cond_t changed;
	uint64_t round;
	uint64_t round_began; /* in passes */
	uint32_t done;        /* writers that are through with the round */
	struct writer writer[];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* xorshift64: good enough to shuffle the order of pages. */
static uint64_t next_random(struct writer *writer)
{
	writer->random ^= writer->random << 13;
	writer->random ^= writer->random >> 7;
	writer->random ^= writer->random << 17;
	return writer->random;
}

/* Increment a counter of this writer, unless that was done in this round. Counters of all guests are
 * numbered through; each nwriters-th is this writer's. */
static void increment(struct writer *writer, uint64_t k)
{
	struct writers *all = writer->all;
	uint64_t slots = all->guests[0].nslots, slot = k % slots;
	struct guest *guest = &all->guests[k / slots];
	volatile uint64_t *counter = guest_counter(guest, slot);

	if (writer->last_round[k / all->nwriters] == writer->round)
		return;
	writer->last_round[k / all->nwriters] = writer->round;
	for (int i = 0; i < BURST; i++)
		*counter = *counter + 1;
	atomic_fetch_add_explicit(&guest->increments[slot], BURST, memory_order_relaxed);
	writer->increments += BURST;
}

/* Increment counters next to the one that was merged last. */
static void hunt(struct writer *writer)
{
	struct writers *all = writer->all;
	uint64_t front = atomic_load_explicit(&all->front, memory_order_relaxed);

	for (uint64_t k = front; front && k < front + HUNTED && k < all->nslots; k++)
		if (k % all->nwriters == writer->number)
			increment(writer, k);
}

static void hunt_until(struct writer *writer, uint64_t time_ns)
{
	while (now_ns() < time_ns &&
	       !atomic_load_explicit(&writer->all->stop, memory_order_relaxed)) {
		hunt(writer);
		sched_yield();
	}
}

/* All counters of this writer, beginning somewhere and in steps that meet each of them once. */
static void sweep(struct writer *writer)
{
	struct writers *all = writer->all;
	uint64_t n = writer->ncounters;
	uint64_t begin = next_random(writer) % n, step = 1 + next_random(writer) % n;
	uint64_t pause = atomic_load_explicit(&all->pass_ns, memory_order_relaxed) * 2 / n;
	uint64_t start = now_ns(), a, b;

	for (a = n, b = step; b; ) { /* steps must share no factor with n */
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	if (a != 1)
		step = 1;
	for (uint64_t i = 0; i < n; i++) {
		increment(writer, (begin + i * step) % n * all->nwriters + writer->number);
		hunt_until(writer, start + i * pause);
		if (atomic_load_explicit(&all->stop, memory_order_relaxed))
			return;
	}
}

/* Wait until all writers are through and the round has lasted long enough. */
static void end_round(struct writers *all)
{
	uint64_t round;

	pthread_mutex_lock(&all->lock);
	round = all->round;
	all->done++;
	while (all->round == round && !atomic_load(&all->stop)) {
		uint64_t passes = atomic_load(&all->passes) - all->round_began;

		if (all->done == all->nwriters && passes >= PASSES_PER_ROUND) {
			all->round++;
			all->round_began = atomic_load(&all->passes);
			all->done = 0;
			pthread_cond_broadcast(&all->changed);
			break;
		}
		pthread_cond_wait(&all->changed, &all->lock);
	}
	pthread_mutex_unlock(&all->lock);
}

static void *run(void *arg)
{
	struct writer *writer = arg;

	while (!atomic_load(&writer->all->stop)) {
		writer->round++;
		sweep(writer);
		end_round(writer->all);
	}
	return NULL;
}

/* The same number of slots in every guest, so that the i-th ones have equals. */
static uint64_t choose_slots(struct guest *guests, uint32_t nguests)
{
	uint64_t least = SLOTS_PER_GUEST;

	for (uint32_t i = 0; i < nguests; i++) {
		if (!guest_choose_slots(&guests[i], SLOTS_PER_GUEST))
			return 0;
		if (guests[i].nslots < least)
			least = guests[i].nslots;
	}
	for (uint32_t i = 0; i < nguests; i++)
		guests[i].nslots = least;
	if (least == 0)
		fprintf(stderr, "guest-dedup: a guest has no zero page for counters\n");
	return least;
}

static bool start(struct writers *all, uint32_t i)
{
	struct writer *writer = &all->writer[i];

	*writer = (struct writer){
		.all = all,
		.number = i,
		.random = i + 88172645463325252u,
		.ncounters = (all->nslots - i + all->nwriters - 1) / all->nwriters,
	};
	writer->last_round = calloc(writer->ncounters, sizeof(*writer->last_round));
	if (!writer->last_round || pthread_create(&writer->thread, NULL, run, writer) != 0)
		return false;
	all->nstarted++;
	return true;
}

struct writers *writers_start(struct guest *guests, uint32_t nguests, uint32_t n)
{
	uint64_t slots = choose_slots(guests, nguests);
	struct writers *all;

	if (slots == 0)
		return NULL;
	if (n > slots * nguests)
		n = (uint32_t)(slots * nguests);
	all = calloc(1, sizeof(*all) + n * sizeof(all->writer[0]));
	if (!all)
		return NULL;
	all->guests = guests;
	all->nslots = slots * nguests;
	all->nwriters = n;
	all->last_pass_ns = now_ns();
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->changed, NULL);
	for (uint32_t i = 0; i < n; i++) {
		if (!start(all, i)) {
			fprintf(stderr, "guest-dedup: cannot start a writer\n");
			writers_stop(all);
			return NULL;
		}
	}
	return all;
}

void writers_pass(struct writers *all)
{
	uint64_t now = now_ns();

	atomic_store_explicit(&all->pass_ns, now - all->last_pass_ns, memory_order_relaxed);
	all->last_pass_ns = now;
	pthread_mutex_lock(&all->lock);
	atomic_fetch_add(&all->passes, 1);
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

void writers_merged(struct writers *all, const struct guest *guest, uint64_t slot)
{
	uint64_t k = (uint64_t)(guest - all->guests) * guest->nslots + slot;

	atomic_store_explicit(&all->front, k + 1, memory_order_relaxed);
}

uint64_t writers_stop(struct writers *all)
{
	uint64_t increments = 0;

	pthread_mutex_lock(&all->lock);
	atomic_store(&all->stop, true);
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
	for (uint32_t i = 0; i < all->nstarted; i++) {
		pthread_join(all->writer[i].thread, NULL);
		increments += all->writer[i].increments;
	}
	for (uint32_t i = 0; i < all->nwriters; i++)
		free(all->writer[i].last_round);
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
	return increments;
}
