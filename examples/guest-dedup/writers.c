/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writers.c - threads that act as vCPUs: they increment counters in pages of all guests.
 *
 * They go round by round. In a round every counter of every guest is incremented by the same
 * number, in an order that changes from round to round; so after a round the pages of the i-th
 * counters of all guests are equal again, and are merged. A round lasts at least 3 passes of the
 * scanner: one that sees the change, one that sees that the page keeps still, and merges it. The
 * increments of a round are spread over about two passes, so that the next round writes into pages
 * just while they are being merged.
 *
 * Each counter belongs to one thread, which increments it with plain loads and stores, and counts
 * on the side what it did. If a write is lost anywhere, the two differ at the end.
 */
#define _GNU_SOURCE

#include "writers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
	SLOTS_PER_GUEST = 2048,
	BURST = 8,            /* increments of one counter in one round */
	PASSES_PER_ROUND = 3,
};

struct writer {
	struct writers *all;
	pthread_t thread;
	uint32_t number;
	uint64_t increments;
	uint64_t random;
};

struct writers {
	struct guest *guests;
	uint32_t nwriters;
	uint64_t nslots; /* of all guests */
	atomic_bool stop;
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

static void sleep_ns(uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	nanosleep(&time, NULL);
}

/* Increment one counter, and account for it. */
static void burst(struct writer *writer, struct guest *guest, uint64_t slot)
{
	volatile uint64_t *counter = guest_counter(guest, slot);

	for (int i = 0; i < BURST; i++)
		*counter = *counter + 1;
	atomic_fetch_add_explicit(&guest->increments[slot], BURST, memory_order_relaxed);
	writer->increments += BURST;
}

/* All counters of this writer: of all that are numbered through, each nwriters-th, beginning
 * somewhere and in steps that meet each of them once. */
static void sweep(struct writer *writer)
{
	struct writers *all = writer->all;
	uint64_t n = (all->nslots - writer->number + all->nwriters - 1) / all->nwriters;
	uint64_t begin = next_random(writer) % n, step = 1 + next_random(writer) % n;
	uint64_t pause = atomic_load_explicit(&all->pass_ns, memory_order_relaxed) * 2 / n;
	uint64_t slots = all->guests[0].nslots;
	uint64_t a, b;

	for (a = n, b = step; b; ) { /* steps must share no factor with n */
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	if (a != 1)
		step = 1;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t k = (begin + i * step) % n * all->nwriters + writer->number;

		burst(writer, &all->guests[k / slots], k % slots);
		/* A sleep is never short, so sleep seldom and longer. */
		if (i % 16 == 15 && pause)
			sleep_ns(16 * pause < 10000000 ? 16 * pause : 10000000);
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
		all->writer[i] = (struct writer){ .all = all, .number = i, .random = i + 88172645463325252u };
		if (pthread_create(&all->writer[i].thread, NULL, run, &all->writer[i]) != 0) {
			fprintf(stderr, "guest-dedup: cannot start a writer\n");
			all->nwriters = i;
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

uint64_t writers_stop(struct writers *all)
{
	uint64_t increments = 0;

	pthread_mutex_lock(&all->lock);
	atomic_store(&all->stop, true);
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
	for (uint32_t i = 0; i < all->nwriters; i++) {
		pthread_join(all->writer[i].thread, NULL);
		increments += all->writer[i].increments;
	}
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
	return increments;
}
