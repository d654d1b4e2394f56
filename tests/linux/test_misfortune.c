/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_misfortune.c - what programs do to the deduplicator without meaning harm: signal handlers in
 * the middle of a step, a fork in the middle of a step, locking all memory for a while, adding
 * memory twice, removing it twice, having few addresses left.
 */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagededup/linux/dedup.h>

enum { PAGE = 4096, PAGES = 2048, SKIP = 77, FEW_BYTES = 48 << 20 };

/* Pairs of equal pages, or zero pages. */
static unsigned char *make_memory(bool zero)
{
	unsigned char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE);
	memset(memory, 0, PAGES * PAGE);
	for (uint64_t i = 0; i < PAGES && !zero; i++)
		*(uint64_t *)(void *)(memory + i * PAGE) = 1 + i / 2;
	return memory;
}

static struct pdd_linux *make_dedup(void)
{
	struct pdd_tunables tunables;
	struct pdd_linux_options options = {
		.size = sizeof(options),
		.flags = PDD_LINUX_NO_DEVICE_WRITES,
		.tunables = &tunables,
		.expected_pages = PAGES,
	};
	struct pdd_linux *dedup;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	assert_int_equal(pdd_linux_create(&dedup, &options), 0);
	return dedup;
}

static void passes(struct pdd_linux *dedup, int n)
{
	while (n > 0) {
		int step = pdd_linux_step(dedup, 100000, 0);

		assert_true(step == PDD_STEP_MORE || step == PDD_STEP_PASS);
		n -= step == PDD_STEP_PASS;
	}
}

static uint64_t sharing(struct pdd_linux *dedup)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	assert_int_equal(pdd_linux_stats(dedup, &stats), 0);
	return stats.pages_sharing + stats.counts.ksm_zero_pages;
}

static void test_twice(void **unused)
{
	struct pdd_linux *one = make_dedup(), *two = make_dedup();
	unsigned char *memory = make_memory(false);
	struct pdd_linux_memory *handle, *other;

	(void)unused;
	assert_int_equal(pdd_linux_add(one, &handle, 0, memory, PAGES * PAGE), 0);
	assert_int_equal(pdd_linux_add(one, &other, 0, memory + PAGE, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_add(two, &other, 0, memory + PAGE, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_remove(two, handle), -EINVAL);
	assert_int_equal(pdd_linux_remove(one, NULL), -EINVAL);
	assert_int_equal(pdd_linux_remove(one, handle), 0);
	assert_int_equal(pdd_linux_remove(one, handle), -EINVAL);
	assert_int_equal(pdd_linux_add(two, &other, 0, memory, PAGES * PAGE), 0);
	passes(two, 2);
	assert_int_equal(sharing(two), PAGES / 2);
	pdd_linux_destroy(one);
	pdd_linux_destroy(two);
	munmap(memory, PAGES * PAGE);
}

/* Room for many roots is only wished for: with few addresses left there is less of it. */
static void with_few_addresses(uint64_t bytes)
{
	struct rlimit before, few;
	struct pdd_linux *dedup;
	unsigned char *memory;
	struct pdd_linux_memory *handle;

	getrlimit(RLIMIT_AS, &before);
	few = before;
	few.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_AS, &few), 0);
	dedup = make_dedup();
	memory = make_memory(false);
	assert_int_equal(pdd_linux_add(dedup, &handle, 0, memory, PAGES * PAGE), 0);
	passes(dedup, 2);
	assert_int_equal(sharing(dedup), PAGES / 2);
	pdd_linux_destroy(dedup);
	munmap(memory, PAGES * PAGE);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

/* Few, and as many as the room for the roots takes, and some more. */
static void test_few_addresses(void **unused)
{
	uint64_t room = 2 * (uint64_t)sysconf(_SC_PHYS_PAGES) * sizeof(void *);
	FILE *statm = fopen("/proc/self/statm", "re");
	unsigned long npages = 0;

	(void)unused;
	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu", &npages), 1);
	fclose(statm);
	for (uint64_t more = 0; more <= room + 2 * FEW_BYTES; more += 8 << 20)
		with_few_addresses(npages * PAGE + FEW_BYTES + more);
}

static unsigned char *handled;
static volatile uint64_t hits;

static void on_alarm(int signal)
{
	(void)signal;
	for (uint64_t i = 0; i < PAGES; i += 64)
		++*(volatile uint64_t *)(void *)(handled + i * PAGE + 8);
	hits++;
}

/* The handler would wait for the step that it interrupted; so it must not run in a step. */
static void test_signals(void **unused)
{
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm }, before;
	struct pdd_linux *dedup = make_dedup();
	struct pdd_linux_memory *handle;

	(void)unused;
	handled = make_memory(false);
	assert_int_equal(pdd_linux_add(dedup, &handle, 0, handled, PAGES * PAGE), 0);
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	while (hits < 200)
		passes(dedup, 1);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	for (uint64_t i = 0; i < PAGES; i += 64)
		assert_int_equal(*(uint64_t *)(void *)(handled + i * PAGE + 8), hits);
	assert_true(sharing(dedup) > 0);
	pdd_linux_destroy(dedup);
	munmap(handled, PAGES * PAGE);
}

struct stepper {
	struct pdd_linux *dedup;
	atomic_bool stop;
};

static void *step_on(void *arg)
{
	struct stepper *stepper = arg;

	while (!atomic_load(&stepper->stop))
		passes(stepper->dedup, 1);
	return NULL;
}

/* A child may be born in the middle of a step; destroying there must not wait for the parent. */
static void test_fork_in_step(void **unused)
{
	struct stepper stepper = { .dedup = make_dedup() };
	unsigned char *memory = make_memory(false);
	struct pdd_linux_memory *handle;
	pthread_t thread;

	(void)unused;
	madvise(memory, PAGES * PAGE, MADV_DONTFORK);
	assert_int_equal(pdd_linux_add(stepper.dedup, &handle, 0, memory, PAGES * PAGE), 0);
	pthread_create(&thread, NULL, step_on, &stepper);
	for (int i = 0; i < 50; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			alarm(20); /* a child that hangs dies by it */
			if (pdd_linux_step(stepper.dedup, 1, 0) != -ECHILD)
				_exit(1);
			pdd_linux_destroy(stepper.dedup);
			_exit(0);
		}
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&stepper.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(sharing(stepper.dedup), PAGES / 2);
	pdd_linux_destroy(stepper.dedup);
	munmap(memory, PAGES * PAGE);
}

/* It populates all mappings of the process, those of the deduplicator too. */
static void test_mlockall_for_a_while(void **unused)
{
	struct pdd_linux *dedup = make_dedup();
	unsigned char *memory;
	struct pdd_linux_memory *handle;

	(void)unused;
	if (mlockall(MCL_CURRENT) == 0)
		munlockall();
	memory = make_memory(true);
	assert_int_equal(pdd_linux_add(dedup, &handle, 0, memory, PAGES * PAGE), 0);
	passes(dedup, 2);
	assert_int_equal(sharing(dedup), PAGES);
	pdd_linux_destroy(dedup);
	munmap(memory, PAGES * PAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_few_addresses),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_fork_in_step),
		cmocka_unit_test(test_mlockall_for_a_while),
	};
	struct pdd_linux *dedup = make_dedup();
	const struct pdd_linux_facilities *have = pdd_linux_facilities(dedup);
	bool able = have->userfaultfd && (have->move || have->write_protect);

	if (!able)
		printf("skipped: nothing can be held here: %s", have->missing);
	pdd_linux_destroy(dedup);
	return able ? cmocka_run_group_tests(tests, NULL, NULL) : SKIP;
}
