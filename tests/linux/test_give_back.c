/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_give_back.c - memory in mappings of the store becomes anonymous again, with its content and
 * its flags, and no reader and no writer notices.
 */
#define _GNU_SOURCE 1
#include "counters.h"
#include "maps.h"
#include "whole.h"

#include "linux/give_back.h"

#define MOVES 20000u

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

static void fill(uint64_t npages)
{
	uint64_t i;

	for (i = 0; i < npages; i++)
		memset(at(i), (int)(i % 250) + 1, PAGE);
}

static void assert_filled(uint64_t npages)
{
	uint64_t i;

	for (i = 0; i < npages; i++) {
		assert_int_equal(at(i)[0], i % 250 + 1);
		assert_int_equal(at(i)[PAGE - 1], i % 250 + 1);
	}
}

static uint64_t give_back(void)
{
	uint64_t left = pddi_give_back(&rig.hold, &rig.budget, &rig.memory);

	assert_null(rig.hold.memory);
	return left;
}

/* 0 if the pages are what could be added. */
static int inspect(uint64_t first, uint64_t npages)
{
	uint32_t flags;

	return pddi_mappings_inspect(&flags, (uintptr_t)at(first), (uintptr_t)at(first + npages));
}

/* Shown, written since, not touched since: all become anonymous. */
static void test_all_kinds(void **state)
{
	static struct pdd_frame *frames[1200];
	uint64_t before, i;

	rig_init(&rig, 2048, PDD_LINUX_NO_DEVICE_WRITES);
	fill(2048);
	/* From 200 to 1399. */
	rig_merge(&rig, frames, 200, 312);
	rig_merge(&rig, frames + 312, 512, 512);
	rig_merge(&rig, frames + 824, 1024, 376);
	before = maps_inside(&rig.memory);
	for (i = 200; i < 300; i++)
		at(i)[100] = 0x66;
	assert_int_equal(madvise(at(600), 200 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(inspect(0, 2048), -EACCES);
	assert_int_equal(give_back(), 0);
	assert_int_equal(inspect(0, 2048), 0);
	printf("%d mappings before, %d after\n", (int)before, (int)maps_inside(&rig.memory));
	assert_true(maps_inside(&rig.memory) <= before);
	for (i = 0; i < 1200; i++)
		pddi_store_free(&rig.store, frames[i]);
	pddi_store_flush(&rig.store);
	assert_int_equal(pddi_store_bytes(&rig.store), 0);
	assert_filled(2048);
	for (i = 0; i < 2048; i++) {
		assert_int_equal(rig_kind(&rig, i), PDD_PAGE_PRIVATE);
		assert_int_equal(at(i)[100], i >= 200 && i < 300 ? 0x66 : i % 250 + 1);
	}
	assert_int_equal(madvise(at(0), 2048 * PAGE, MADV_DONTNEED), 0);
	for (i = 0; i < 2048; i++)
		assert_int_equal(at(i)[100], 0);
	rig_fini(&rig);
}

/* Without the promise no page may be replaced. */
static void test_no_promise(void **state)
{
	struct pdd_frame *frames[16];

	rig_init(&rig, 64, 0);
	fill(64);
	rig_merge(&rig, frames, 8, 16);
	assert_int_equal(give_back(), 16);
	assert_int_equal(rig_kind(&rig, 8), PDD_PAGE_SHARED);
	assert_filled(64);
	rig_fini(&rig);
}

static void test_flags_stay(void **state)
{
	struct pdd_frame *frames[8];

	rig_init(&rig, 64, PDD_LINUX_NO_DEVICE_WRITES);
	maps_set_all_flags(&rig);
	fill(64);
	rig_merge(&rig, frames, 8, 8);
	assert_int_equal(give_back(), 0);
	/* All alike, and nothing registered. */
	assert_int_equal(inspect(0, 64), 0);
	assert_false(maps_is_store(at(8)));
	assert_true(maps_has_all_flags(at(8)));
	assert_filled(64);
	rig_fini(&rig);
}

/* At the kernel's limit the pages keep their place in the store, and nothing is lost. */
static void test_at_the_kernels_limit(void **state)
{
	struct pdd_frame *frames[20];
	struct maps_limit limit;
	int refused = 0;

	if (!maps_can_reach_limit())
		skip();
	rig_init(&rig, 64, PDD_LINUX_NO_DEVICE_WRITES);
	fill(64);
	rig_merge(&rig, frames, 0, 20);
	maps_limit_init(&limit);
	maps_limit_reach(&limit);
	/* Step by step away from the limit, as long as something fails. */
	for (; give_back(); refused++) {
		assert_filled(64);
		maps_limit_step_back(&limit);
	}
	maps_limit_leave(&limit);
	assert_true(refused > 0);
	assert_filled(64);
	assert_int_equal(inspect(0, 64), 0);
	rig_fini(&rig);
}

/* --- counters --- */

#define BUSY_PAGES 512u

static struct pdd_frame *shown[BUSY_PAGES];

/* Merge pages here and there, give all of them back, and again, while threads count in them. */
static void count_while_given_back(uint32_t flags)
{
	static struct counters counters;
	uint64_t seed = test_seed(), moved = 0, left = 0, wrong, writes, i;

	rig_init(&rig, BUSY_PAGES, flags);
	counters_start(&counters, rig.memory.start, BUSY_PAGES, 1, 0, seed);
	while (moved < MOVES) {
		uint64_t framed;

		for (i = 0; i < 8; i++) {
			uint64_t random = next_random(&seed);
			uint32_t n = 1 + (uint32_t)(random >> 32) % 64;

			rig_track_at_times(&rig, random >> 40);
			rig_merge_busy(&rig, shown, random % (BUSY_PAGES - n), n);
		}
		framed = pddi_bits_count(rig.memory.framed, 0, BUSY_PAGES);
		i = give_back();
		moved += framed - i;
		left += i;
		for (i = 0; i < BUSY_PAGES; i++)
			if (!pddi_bit_test(rig.memory.framed, i))
				rig_show(&rig, shown, i, NULL);
		/* A page that showed its frame still would lose its content now. */
		pddi_store_flush(&rig.store);
	}
	wrong = counters_stop(&counters, &writes);
	printf("%llu writes, %llu wrong; pages given back %llu, left %llu\n",
	       (unsigned long long)writes, (unsigned long long)wrong, (unsigned long long)moved,
	       (unsigned long long)left);
	assert_int_equal(wrong, 0);
	for (i = 0; i < BUSY_PAGES; i++)
		rig_show(&rig, shown, i, NULL);
	rig_fini(&rig);
}

static void test_counters(void **state)
{
	count_while_given_back(PDD_LINUX_NO_DEVICE_WRITES);
	count_while_given_back(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE);
}

/* Readers find every byte at any time: pages with one content, merged and given back. */
struct reader {
	pthread_t thread;
	uint64_t reads, wrong;
};

static atomic_bool stop;

static void *read_all_the_time(void *arg)
{
	struct reader *r = arg;
	uint64_t seed = 77;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t page = next_random(&seed) % BUSY_PAGES;

		r->wrong += *(volatile unsigned char *)(at(page) + seed % PAGE) != page % 250 + 1;
		r->reads++;
	}
	return NULL;
}

static void test_readers(void **state)
{
	struct reader reader = { 0 };
	int round;
	uint64_t i;

	rig_init(&rig, BUSY_PAGES, PDD_LINUX_NO_DEVICE_WRITES);
	fill(BUSY_PAGES);
	atomic_store(&stop, false);
	pthread_create(&reader.thread, NULL, read_all_the_time, &reader);
	for (round = 0; round < 100; round++) {
		rig_merge_busy(&rig, shown, 0, BUSY_PAGES);
		assert_int_equal(give_back(), 0);
		for (i = 0; i < BUSY_PAGES; i++)
			rig_show(&rig, shown, i, NULL);
		pddi_store_flush(&rig.store);
	}
	atomic_store(&stop, true);
	pthread_join(reader.thread, NULL);
	printf("%d reads, %d wrong\n", (int)reader.reads, (int)reader.wrong);
	assert_int_equal(reader.wrong, 0);
	rig_fini(&rig);
}

/* --- what it costs --- */

static double measure(uint32_t run, bool back)
{
	static struct pdd_frame *frames[16384];
	struct timespec begin, end;
	uint32_t at_page;

	rig_init(&rig, 16384, PDD_LINUX_NO_DEVICE_WRITES);
	fill(16384);
	for (at_page = 0; at_page < 16384; at_page += 2 * run)
		rig_merge(&rig, frames + at_page, at_page, run);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	if (back)
		assert_int_equal(give_back(), 0);
	else
		for (at_page = 0; at_page < 16384; at_page += 512)
			assert_int_equal(pddi_frames_unmap(&rig.memory, at_page, 512), 512);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	rig_fini(&rig);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e6 +
		(double)(end.tv_nsec - begin.tv_nsec) / 1e3) /
	       8192;
}

static void test_cost(void **state)
{
	static const uint32_t runs[] = { 1, 4, 32, 256 };
	size_t i;

	printf("microseconds of CPU per page, by length of the run\n"
	       "     run  give back  copy in place\n");
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		printf("%8u %10.2f %14.2f\n", runs[i], measure(runs[i], true),
		       measure(runs[i], false));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_no_promise),
		cmocka_unit_test(test_flags_stay),
		cmocka_unit_test(test_at_the_kernels_limit),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_readers),
		cmocka_unit_test(test_cost),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
