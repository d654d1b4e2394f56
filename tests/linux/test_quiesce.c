/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_quiesce.c - s52 with real memory: while a thread steps, another one quiesces, looks at the
 * memory from outside (where a held page is missing), writes, and resumes.
 */
#define _GNU_SOURCE 1
#include "whole.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "linux/dedup_internal.h"

#define N 4096u
#define ROUNDS 48u

static struct pdd_linux *dedup;
static unsigned char *m;
static atomic_bool over;
static atomic_uint steps, quiet;

static void *stepper(void *unused)
{
	while (!atomic_load(&over)) {
		int result = pdd_linux_step(dedup, 700, 0);

		if (result < 0)
			abort();
		atomic_fetch_add(result == PDD_STEP_QUIET ? &quiet : &steps, 1);
		if (result == PDD_STEP_QUIET)
			usleep(50);
	}
	return unused;
}

/* Whether each page can be read as a debugger does: one that is held cannot (linux/dedup.h). */
static bool is_all_there(int mem)
{
	static unsigned char copy[N * 4096];

	return pread(mem, copy, sizeof(copy), (off_t)(uintptr_t)m) == (ssize_t)sizeof(copy) &&
	       memcmp(copy, m, sizeof(copy)) == 0;
}

static void test_s52(void **state)
{
	struct pdd_linux_memory *memory;
	int mem = open("/proc/self/mem", O_RDONLY);
	unsigned quiet_before;
	pthread_t thread;

	dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	m = map_pages(N);
	for (size_t i = 0; i < N; i++)
		fill_page(m, i, 1 + i % 7);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	assert_int_equal(pthread_create(&thread, NULL, stepper, NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t merges;

		assert_int_equal(pdd_linux_quiesce(dedup), 0);
		assert_true(pdd_scanner_quiesce(&dedup->scanner)); /* no step is under way */
		merges = stats_of(dedup).counts.merges;
		quiet_before = atomic_load(&quiet);
		assert_true(is_all_there(mem));
		while (atomic_load(&quiet) < quiet_before + 2)
			usleep(20);
		assert_int_equal(stats_of(dedup).counts.merges, merges);
		for (size_t i = round % 16; i < N; i += 16)
			fill_page(m, i, 1 + (i + round) % 7);
		assert_int_equal(pdd_linux_resume(dedup), 0);
		quiet_before = atomic_load(&steps);
		while (atomic_load(&steps) < quiet_before + 3)
			usleep(20);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	assert_true(stats_of(dedup).counts.merges > 0);
	for (size_t i = 0; i < N; i++)
		assert_true(has_content(m, i, 1 + (i + (ROUNDS - 1 - (ROUNDS - 1 - i % 16) % 16)) % 7));
	close(mem);
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
}

/* In a child of fork. */
static void test_in_a_child(void **state)
{
	pid_t child;
	int status;

	dedup = create(0);
	child = fork();
	if (!child)
		_exit(pdd_linux_quiesce(dedup) != -ECHILD || pdd_linux_resume(dedup) != -ECHILD);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pdd_linux_destroy(dedup);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_s52),
		cmocka_unit_test(test_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
