/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track.c - pages_written (lib/linux/track.c): what is told, once, and the traps of the
 * kernel's interfaces for it (facts 10, 22 and 25 of the adapter; race 15). Where a mistake would
 * make an access wait for ever, an alarm ends the test.
 */
#define _GNU_SOURCE 1
#include "maps.h"

#include <sys/uio.h>
#include <sys/wait.h>


#define NPAGES 2048u

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

static void init(uint32_t flags)
{
	rig_init(&rig, NPAGES, flags);
	alarm(60);
}

static void fini(void)
{
	pddi_track_stop(&rig.probe, &rig.memory);
	assert_false(maps_is_registered(at(0)));
	rig_fini(&rig);
	alarm(0);
}

static uint64_t told(void)
{
	return rig_count_written(&rig, 0, NPAGES);
}

/* Exactly these pages are told of, and then none. */
static void assert_told(const uint64_t *pages, size_t n)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)];
	size_t i;

	rig_written(&rig, bits, 0, NPAGES);
	for (i = 0; i < n; i++)
		if (!pddi_bit_test(bits, pages[i]))
			fail_msg("page %d is not told of", (int)pages[i]);
	assert_int_equal(pddi_bits_count(bits, 0, NPAGES), n);
	assert_int_equal(told(), 0);
}

static void kernel_reads_into(uint64_t page)
{
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], "x", 1), 1);
	assert_int_equal(read(pipes[0], at(page) + 9, 1), 1);
	close(pipes[0]);
	close(pipes[1]);
}

static void kernel_copies_into(uint64_t page)
{
	char y = 'y';
	struct iovec from = { .iov_base = &y, .iov_len = 1 };
	struct iovec to = { .iov_base = at(page) + 9, .iov_len = 1 };

	assert_int_equal(process_vm_writev(getpid(), &from, 1, &to, 1, 0), 1);
}

/* Written by whomever, or not there before: told once. Read: not told. */
static void test_told_once(void **state)
{
	static const uint64_t expected[] = { 0, 3, 5, 7, 30, 511, 512, 2047 };
	static const uint64_t others[] = { 600 };

	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, 40 * PAGE);
	memset(at(500), 1, 40 * PAGE);
	assert_int_equal(told(), 80);
	assert_int_equal(told(), 0);
	at(0)[0] = at(3)[4095] = at(511)[0] = at(512)[0] = 2;
	kernel_reads_into(5);
	kernel_copies_into(7);
	assert_int_equal(madvise(at(30), PAGE, MADV_POPULATE_WRITE), 0);
	at(2047)[0] = 0; /* nothing was there, and it still reads zero */
	assert_int_equal(*(volatile unsigned char *)at(8), 1);
	assert_told(expected, 8);
	/* A part of the memory, that begins and ends anywhere. */
	at(600)[0] = at(610)[0] = at(620)[0] = 1;
	assert_int_equal(rig_count_written(&rig, 605, 10), 1);
	assert_int_equal(rig_count_written(&rig, 611, 100), 1);
	assert_told(others, 1);
	fini();
}

/* The second writer of a page, and all after it, pay nothing: no fault. */
static void test_answered_once_for_many_writes(void **state)
{
	static const uint64_t expected[] = { 9 };
	uint64_t i;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, 40 * PAGE);
	assert_int_equal(told(), 40);
	for (i = 0; i < 1000000; i++)
		*(volatile uint64_t *)(void *)at(9) = i;
	assert_told(expected, 1);
	fini();
}

/* Race 15: more runs than an answer has room for. */
static void test_truncated(void **state)
{
	uint64_t i;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	rig.track.vector = 8;
	for (i = 0; i < 1000; i += 2)
		at(i)[0] = 1;
	assert_int_equal(told(), 500);
	assert_int_equal(told(), 0);
	for (i = 0; i < 1000; i += 4)
		at(i)[0] = 2;
	assert_int_equal(rig_count_written(&rig, 0, 999), 250);
	assert_int_equal(told(), 0);
	fini();
}

/* Fact 25, and sparse memory: nothing is left where nothing was. */
static void test_no_markers(void **state)
{
	uint8_t flags[PDD_EXTENT_PAGES];
	struct pdd_frame *frames[16];
	uint64_t i;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, 16 * PAGE);
	rig_merge(&rig, frames, 0, 16);
	/* Frames that nobody touched, as after memory was short. */
	assert_int_equal(madvise(at(4), 8 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(told(), 8);
	assert_int_equal(told(), 0);
	assert_int_equal(pddi_pagemap_read(&rig.map, flags, at(0), 64), 0);
	for (i = 0; i < 64; i++)
		assert_false(flags[i] & PDDI_PAGE_SWAPPED);
	for (i = 0; i < 16; i++)
		assert_int_equal(rig_kind(&rig, i), PDD_PAGE_SHARED);
	assert_int_equal(rig_kind(&rig, 16), PDD_PAGE_ABSENT);
	/* One that goes while it is protected leaves a marker, which is no copy. */
	assert_int_equal(madvise(at(1), PAGE, MADV_DONTNEED), 0);
	assert_int_equal(told(), 0);
	assert_int_equal(rig_kind(&rig, 1), PDD_PAGE_SHARED);
	at(1)[0] = at(5)[0] = 2;
	assert_int_equal(rig_kind(&rig, 1), PDD_PAGE_PRIVATE);
	assert_true(told() >= 2);
	fini();
}

/* Swapped pages: there is nothing to try it with unless the machine has swap. */
static void test_swapped(void **state)
{
	static const uint64_t expected[] = { 3 };
	FILE *swaps = fopen("/proc/swaps", "r");
	uint8_t flags[16];
	char line[256];
	int lines = 0;

	while (swaps && fgets(line, sizeof(line), swaps))
		lines++;
	if (swaps)
		fclose(swaps);
	if (lines < 2) {
		printf("not run: there is no swap\n");
		skip();
	}
	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, 16 * PAGE);
	assert_int_equal(told(), 16);
	assert_int_equal(madvise(at(0), 16 * PAGE, MADV_PAGEOUT), 0);
	assert_int_equal(pddi_pagemap_read(&rig.map, flags, at(0), 16), 0);
	printf("page 3 is %s\n", flags[3] & PDDI_PAGE_SWAPPED ? "swapped" : "present");
	assert_int_equal(told(), 0);
	at(3)[0] = 2;
	assert_told(expected, 1);
	/* Written, and swapped before anybody asks. */
	at(3)[0] = 3;
	assert_int_equal(madvise(at(0), 16 * PAGE, MADV_PAGEOUT), 0);
	assert_told(expected, 1);
	fini();
}

/* Huge pages that were there before: a write may tell of all of its pages, and is told of. */
static void test_huge_pages(void **state)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)];

	init(PDD_LINUX_NO_DEVICE_WRITES);
	if (madvise(at(0), NPAGES * PAGE, MADV_HUGEPAGE)) {
		fini();
		skip();
	}
	memset(at(0), 1, NPAGES * PAGE);
	assert_int_equal(madvise(at(0), NPAGES * PAGE, MADV_NOHUGEPAGE), 0);
	/* Answers that end in the middle of one. */
	assert_int_equal(rig_count_written(&rig, 0, 700), 700);
	assert_int_equal(rig_count_written(&rig, 700, NPAGES - 700), NPAGES - 700);
	at(1000)[0] = 2;
	rig_written(&rig, bits, 0, NPAGES);
	assert_true(pddi_bit_test(bits, 1000));
	printf("told of %d pages\n", (int)pddi_bits_count(bits, 0, NPAGES));
	assert_int_equal(told(), 0);
	fini();
}

/* After a fork pages are copied on the first write, and that is told of. The child has a
 * userfaultfd that is not its own, and writes without being seen or held up. */
static void test_fork(void **state)
{
	static const uint64_t expected[] = { 4, 6 };
	int status;
	pid_t child;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, 16 * PAGE);
	assert_int_equal(told(), 16);
	child = fork();
	if (!child) {
		alarm(20);
		memset(at(0), 7, 16 * PAGE);
		_exit(at(4)[0] != 7);
	}
	at(4)[0] = 2;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	at(6)[0] = 2;
	assert_told(expected, 2);
	assert_int_equal(at(5)[0], 1);
	fini();
}

/* Where devices may write, each extent is told of once in 256 passes, whatever was seen. */
static void test_turns(void **state)
{
	enum { EXTENTS = 130 };
	static uint64_t bits[PDDI_BITMAP_WORDS(PDD_WRITTEN_PAGES_MAX)];
	uint32_t times[EXTENTS] = { 0 };
	uint64_t first, round, i;

	rig_init(&rig, EXTENTS * PDD_EXTENT_PAGES, 0);
	for (round = 0; round < 513; round++) {
		for (first = 0; first < rig.memory.npages; first += PDD_WRITTEN_PAGES_MAX) {
			uint64_t n = rig.memory.npages - first;

			n = n < PDD_WRITTEN_PAGES_MAX ? n : PDD_WRITTEN_PAGES_MAX;
			rig_written(&rig, bits, first, n);
			for (i = 0; round && i < n / PDD_EXTENT_PAGES; i++) {
				uint64_t count = pddi_bits_count(bits, i * PDD_EXTENT_PAGES,
								 PDD_EXTENT_PAGES);

				assert_true(count == 0 || count == PDD_EXTENT_PAGES);
				times[first / PDD_EXTENT_PAGES + i] += count != 0;
			}
		}
	}
	for (i = 0; i < EXTENTS; i++)
		assert_int_equal(times[i], 2);
	pddi_track_stop(&rig.probe, &rig.memory);
	rig_fini(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told_once),
		cmocka_unit_test(test_answered_once_for_many_writes),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_no_markers),
		cmocka_unit_test(test_swapped),
		cmocka_unit_test(test_huge_pages),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_turns),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
