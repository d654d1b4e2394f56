/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counters.h - threads that count in pages, each in words of its own, and set them back to zero now
 * and then. Each knows what its words must be and compares before each write, so that a write that
 * was lost anywhere is noticed. The last one lets the kernel write (pread into the page).
 */
#ifndef TESTS_LINUX_COUNTERS_H
#define TESTS_LINUX_COUNTERS_H

#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define COUNTERS 3
#define COUNTERS_PAGES 2048u /* at most */
#define COUNTERS_NUMBERS 65536u

struct counters;

struct counter {
	pthread_t thread;
	struct counters *all;
	int source; /* a file with the numbers from 0 on, for the kernel's writes; -1 */
	uint32_t index;
	uint64_t seed;
	uint64_t writes;
	uint64_t wrong;
	uint64_t expected[COUNTERS_PAGES];
};

struct counters {
	unsigned char *start;
	uint64_t npages;
	uint32_t burst;    /* writes to a page before the next one; 0: one */
	uint32_t pause_us; /* after each burst */
	atomic_bool stop;
	struct counter counter[COUNTERS];
};

static inline volatile uint64_t *counters_word(const struct counter *c, uint64_t page)
{
	return (volatile uint64_t *)(void *)(c->all->start + page * PAGE + 512 * c->index);
}

static inline void counters_count(struct counter *c, uint64_t page, uint64_t random)
{
	volatile uint64_t *word = counters_word(c, page);
	uint64_t value = *word;

	if (value != c->expected[page])
		c->wrong++;
	value = random & 3 ? value + 1 : 0;
	if (c->source >= 0) {
		value %= COUNTERS_NUMBERS;
		if (pread(c->source, (void *)(uintptr_t)word, sizeof(*word),
			  (off_t)(value * sizeof(*word))) != sizeof(*word))
			c->wrong++;
	} else {
		*word = value;
	}
	c->expected[page] = value;
	c->writes++;
}

static inline void *counters_run(void *arg)
{
	struct counter *c = arg;

	while (!atomic_load_explicit(&c->all->stop, memory_order_relaxed)) {
		uint64_t random = next_random(&c->seed);
		uint64_t page = random % c->all->npages;
		uint32_t i;

		counters_count(c, page, random >> 32);
		for (i = 1; i < c->all->burst; i++)
			counters_count(c, page, next_random(&c->seed) >> 32);
		if (c->all->pause_us)
			usleep(c->all->pause_us);
	}
	return NULL;
}

static inline int counters_numbers(void)
{
	static uint64_t numbers[COUNTERS_NUMBERS];
	int fd = memfd_create("numbers", MFD_CLOEXEC);
	uint64_t i;

	for (i = 0; i < COUNTERS_NUMBERS; i++)
		numbers[i] = i;
	assert_int_equal(write(fd, numbers, sizeof(numbers)), sizeof(numbers));
	return fd;
}

/* Begin to count in pages that are all zero. */
static inline void counters_start(struct counters *all, unsigned char *start, uint64_t npages,
				  uint32_t burst, uint32_t pause_us, uint64_t seed)
{
	uint32_t i;

	assert_in_range(npages, 1, COUNTERS_PAGES);
	memset(all, 0, sizeof(*all));
	all->start = start;
	all->npages = npages;
	all->burst = burst;
	all->pause_us = pause_us;
	for (i = 0; i < COUNTERS; i++) {
		struct counter *c = &all->counter[i];

		c->all = all;
		c->index = i;
		c->seed = seed + i + 1;
		c->source = i == COUNTERS - 1 ? counters_numbers() : -1;
		assert_int_equal(pthread_create(&c->thread, NULL, counters_run, c), 0);
	}
}

/* End it. Nobody may hang, or this will. @return how many words were not what they had to be */
static inline uint64_t counters_stop(struct counters *all, uint64_t *writes)
{
	uint64_t wrong = 0, page;
	uint32_t i;

	atomic_store(&all->stop, true);
	*writes = 0;
	for (i = 0; i < COUNTERS; i++) {
		struct counter *c = &all->counter[i];

		pthread_join(c->thread, NULL);
		if (c->source >= 0)
			close(c->source);
		wrong += c->wrong;
		*writes += c->writes;
		for (page = 0; page < all->npages; page++)
			wrong += *counters_word(c, page) != c->expected[page];
	}
	return wrong;
}

#endif
