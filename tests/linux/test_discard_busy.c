/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_discard_busy.c - memory is discarded while others use it: no access fails, by the program or
 * by the kernel, and a word reads as it was written last or zero, never anything else.
 */
#define _GNU_SOURCE 1
#include "whole.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "linux/discard.h"

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

/* The hook, until all is done. */
static void discard(uint64_t first, uint64_t npages)
{
	while (npages) {
		int64_t n = pddi_discard(&rig.budget, &rig.memory, first, npages);

		assert_in_range(n, 1, npages);
		first += (uint64_t)n;
		npages -= (uint64_t)n;
	}
}

#define BUSY_PAGES 256u
#define NUMBERS 65536u

/* Each writes words of its own, all different from one to the next and none of them zero. A word
 * that reads other than what was written last must be zero, and a discard of its page must have
 * begun that had not ended when it was written. The last of them lets the kernel write, from a file
 * of numbers. */
struct writer {
	pthread_t thread;
	uint32_t index;
	int source;
	uint64_t seed, writes, zeros, wrong;
	uint64_t written[BUSY_PAGES]; /* last; 0: nothing */
	uint64_t ended[BUSY_PAGES];   /* discards of the page before that */
};

static atomic_bool stop;
static _Atomic uint64_t begun[BUSY_PAGES], ended[BUSY_PAGES]; /* discards */

static _Atomic uint64_t *word_of(const struct writer *w, uint64_t page)
{
	return (_Atomic uint64_t *)(void *)(at(page) + 512 * w->index);
}

static void check_word(struct writer *w, uint64_t page)
{
	uint64_t value = atomic_load(word_of(w, page));

	if (value == w->written[page])
		return;
	w->zeros++;
	if (value != 0 || atomic_load(&begun[page]) == w->ended[page])
		w->wrong++;
}

static void write_word(struct writer *w, uint64_t page)
{
	uint64_t value = w->writes % (NUMBERS - 1) + 1;

	w->ended[page] = atomic_load(&ended[page]);
	if (w->source < 0)
		atomic_store(word_of(w, page), value);
	else if (pread(w->source, at(page) + 512 * w->index, sizeof(value),
		       (off_t)(value * sizeof(value))) != (ssize_t)sizeof(value))
		w->wrong++; /* the access failed */
	w->written[page] = value;
	w->writes++;
}

static void *use_all_the_time(void *arg)
{
	struct writer *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t page = next_random(&w->seed) % BUSY_PAGES, i;

		check_word(w, page);
		if (w->seed >> 60 < 4)
			write_word(w, page);
		for (i = 0; i < 4; i++)
			check_word(w, page);
		if (w->seed >> 56 == 0)
			sched_yield();
	}
	return NULL;
}

static int numbers_file(void)
{
	static uint64_t numbers[NUMBERS];
	int fd = memfd_create("numbers", MFD_CLOEXEC);
	uint64_t i;

	for (i = 0; i < NUMBERS; i++)
		numbers[i] = i;
	assert_int_equal(write(fd, numbers, sizeof(numbers)), sizeof(numbers));
	return fd;
}

static struct pdd_frame *shown[BUSY_PAGES];

static void test_readers_and_writers(void **state)
{
	static struct writer writers[3];
	uint64_t seed = test_seed(), merged = 0, discarded = 0, framed = 0, i, k;
	uint64_t writes = 0, zeros = 0, wrong = 0;

	rig_init(&rig, BUSY_PAGES, PDD_LINUX_NO_DEVICE_WRITES);
	memset(writers, 0, sizeof(writers));
	atomic_store(&stop, false);
	for (i = 0; i < 3; i++) {
		writers[i].index = (uint32_t)i;
		writers[i].seed = seed + i + 1;
		writers[i].source = i == 2 ? numbers_file() : -1;
		pthread_create(&writers[i].thread, NULL, use_all_the_time, &writers[i]);
	}
	while (framed < 2000) {
		uint64_t random = next_random(&seed);
		uint64_t n = 1 + (random >> 32) % 24, first = random % (BUSY_PAGES - n);

		merged += rig_merge_busy(&rig, shown, first, (uint32_t)n);
		n = 1 + (random >> 40) % 24;
		first = (random >> 8) % (BUSY_PAGES - n);
		for (k = first; k < first + n; k++) {
			framed += pddi_bit_test(rig.memory.framed, k);
			atomic_fetch_add(&begun[k], 1);
		}
		discard(first, n);
		discarded += n;
		for (k = first; k < first + n; k++) {
			atomic_fetch_add(&ended[k], 1);
			rig_show(&rig, shown, k, NULL);
		}
		pddi_store_flush(&rig.store);
	}
	atomic_store(&stop, true);
	for (i = 0; i < 3; i++) {
		pthread_join(writers[i].thread, NULL);
		for (k = 0; k < BUSY_PAGES; k++)
			check_word(&writers[i], k);
		writes += writers[i].writes;
		zeros += writers[i].zeros;
		wrong += writers[i].wrong;
	}
	close(writers[2].source);
	printf("%d pages discarded, %d of them in mappings of the store, %d merged; %d writes, %d "
	       "zeros seen, %d wrong\n",
	       (int)discarded, (int)framed, (int)merged, (int)writes, (int)zeros, (int)wrong);
	assert_int_equal(wrong, 0);
	assert_true(zeros > 0);
	rig_fini(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readers_and_writers),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
