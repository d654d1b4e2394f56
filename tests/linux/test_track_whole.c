/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track_whole.c - write tracking as users of linux/dedup.h see it: pages that nobody wrote are
 * not read again, those that were are; it can be switched off; and nothing of it is left behind
 * when memory is removed.
 */
#define _GNU_SOURCE 1
#include "maps.h"
#include "whole.h"

#include <sys/wait.h>

#include "linux/uffd.h"
#include "linux/uapi.h"

#define N 2500u

static struct pdd_linux *dedup;
static struct pdd_linux_memory *memory;
static unsigned char *m;

static void begin(uint32_t flags)
{
	size_t i;

	dedup = create(flags);
	m = map_pages(N);
	for (i = 0; i < N; i++)
		fill_page(m, i, i + 1);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	alarm(60);
}

static void end(void)
{
	pdd_linux_destroy(dedup);
	assert_false(maps_is_registered(m));
	assert_false(maps_is_registered(m + (N - 1) * PAGE));
	munmap(m, N * PAGE);
	alarm(0);
}

/* Pages that are read in some passes. */
static uint64_t looks_in(int passes)
{
	uint64_t before = stats_of(dedup).counts.pages_scanned;

	run_passes(dedup, passes);
	return stats_of(dedup).counts.pages_scanned - before;
}

/* Every pass would look at every page. */
static void test_clean_pages_are_not_read(void **state)
{
	struct pdd_counts counts;

	begin(PDD_LINUX_NO_DEVICE_WRITES);
	assert_true(pdd_linux_facilities(dedup)->track_writes);
	assert_int_equal(looks_in(1), N);
	run_passes(dedup, 2);
	assert_int_equal(looks_in(5), 0);
	assert_int_equal(pdd_linux_memory_counts(dedup, memory, &counts), 0);
	assert_true(counts.pages_clean >= 5 * N);
	m[7 * PAGE + 9]++;
	m[(N - 1) * PAGE]++;
	assert_int_equal(looks_in(1), 2);
	run_passes(dedup, 2);
	assert_int_equal(looks_in(5), 0);
	end();
}

/* A page that was clean for long is written, and shared; what is shared is written, and shared. */
static void test_changes_are_found(void **state)
{
	int round;

	begin(PDD_LINUX_NO_DEVICE_WRITES);
	run_passes(dedup, 10);
	for (round = 0; round < 3; round++) {
		assert_int_equal(stats_of(dedup).pages_sharing, 0);
		fill_page(m, 17, 2001);
		run_passes(dedup, 4);
		assert_int_equal(stats_of(dedup).pages_sharing, 1);
		assert_true(has_content(m, 2000, 2001));
		run_passes(dedup, 10);
		fill_page(m, 17, 5000 + (uint64_t)round);
		run_passes(dedup, 4);
	}
	/* Zero, one after the other. */
	fill_page(m, 300, 0);
	run_passes(dedup, 3);
	fill_page(m, 301, 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).counts.ksm_zero_pages, 2);
	fill_page(m, 300, 301);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).counts.ksm_zero_pages, 1);
	assert_true(has_content(m, 300, 301));
	end();
}

/* Where devices may write unseen, every page is read once in 256 passes. */
static void test_without_the_promise(void **state)
{
	begin(0);
	run_passes(dedup, 5);
	assert_int_equal(looks_in(256), N);
	end();
}

static void test_switched_off(void **state)
{
	begin(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_TRACKING);
	assert_false(pdd_linux_facilities(dedup)->track_writes);
	assert_true(pdd_linux_facilities(dedup)->move);
	run_passes(dedup, 5);
	assert_int_equal(looks_in(3), 3 * N);
	assert_false(maps_is_registered(m));
	assert_int_equal(stats_of(dedup).hook_errors, 0);
	end();
}

/* After a removal the memory is its owner's: with a userfaultfd of its own, or added again. */
static void test_removal(void **state)
{
	struct pddi_probe own;
	struct pdd_linux *other = create(PDD_LINUX_NO_DEVICE_WRITES);
	size_t i;

	begin(PDD_LINUX_NO_DEVICE_WRITES);
	for (i = 0; i < N; i += 5) /* two frames */
		fill_page(m, i, 1);
	run_passes(dedup, 4);
	assert_true(maps_is_registered(m));
	assert_int_equal(stats_of(dedup).pages_sharing, N / 5 - 2);
	assert_int_equal(pdd_linux_remove(dedup, memory), 0);
	for (i = 0; i < N; i++)
		assert_false(maps_is_registered(m + i * PAGE));

	pddi_probe_init(&own);
	assert_int_equal(pddi_uffd_register(own.uffd, m, N, 12, UFFDIO_REGISTER_MODE_WP), 0);
	assert_int_equal(pddi_uffd_unregister(own.uffd, m, N, 12), 0);
	pddi_probe_fini(&own);

	assert_int_equal(pdd_linux_add(other, &memory, 0, m, N * PAGE), 0);
	run_passes(other, 4);
	assert_int_equal(stats_of(other).pages_sharing, N / 5 - 2);
	pdd_linux_destroy(other);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N / 5 - 2);
	for (i = 0; i < N; i++)
		assert_true(has_content(m, i, i % 5 ? i + 1 : 1));
	end();
}

/* Discarding and unmerging between passes: what comes then is found. */
static void test_discard_and_unmerge(void **state)
{
	begin(PDD_LINUX_NO_DEVICE_WRITES);
	fill_page(m, 10, 12);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, 1);
	assert_int_equal(pdd_linux_discard(dedup, memory, m + 5 * PAGE, 20 * PAGE), 0);
	run_passes(dedup, 2);
	fill_page(m, 6, 2222);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, 1);
	while (pdd_linux_unmerge(dedup, 100) > 0)
		;
	assert_int_equal(stats_of(dedup).pages_sharing, 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, 1);
	end();
}

/* A child of fork closes what it inherited; its parent goes on. */
/* A balloon in memory of which no pass has asked for anything yet: it is not cut. */
static void test_discard_before_a_pass(void **state)
{
	uint64_t mappings;

	begin(PDD_LINUX_NO_DEVICE_WRITES);
	/* a part of it is tracked */
	assert_int_equal(pdd_linux_step(dedup, 512, 0), PDD_STEP_MORE);
	mappings = maps_inside(memory);
	for (size_t i = N - 400; i < N; i += 2)
		assert_int_equal(pdd_linux_discard(dedup, memory, m + i * PAGE, PAGE), 0);
	assert_true(maps_inside(memory) <= mappings + 2);
	run_passes(dedup, 3);
	assert_true(maps_inside(memory) <= 2);
	end();
}

static void test_fork(void **state)
{
	int status;
	pid_t child;

	begin(PDD_LINUX_NO_DEVICE_WRITES);
	run_passes(dedup, 4);
	child = fork();
	if (!child) {
		struct pdd_linux *mine;

		alarm(20);
		pdd_linux_destroy(dedup);
		/* What the parent had added is the child's own to add. */
		if (munmap(m, N * PAGE) ||
		    mmap(m, N * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != m)
			_exit(1);
		mine = create(0);
		_exit(pdd_linux_add(mine, &memory, 0, m, N * PAGE) ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(looks_in(2), 0);
	/* Both are written: the kernel calls others pinned that the child once had. */
	fill_page(m, 10, 13);
	fill_page(m, 12, 13);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_sharing, 1);
	end();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean_pages_are_not_read),
		cmocka_unit_test(test_changes_are_found),
		cmocka_unit_test(test_without_the_promise),
		cmocka_unit_test(test_switched_off),
		cmocka_unit_test(test_removal),
		cmocka_unit_test(test_discard_and_unmerge),
		cmocka_unit_test(test_discard_before_a_pass),
		cmocka_unit_test(test_fork),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
