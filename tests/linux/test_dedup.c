/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_dedup.c - linux/dedup.h as its users see it: errors, sharing and domains, the undo, what is
 * refused, and a child of fork.
 */
#define _GNU_SOURCE 1
#include "whole.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void test_options(void **state)
{
	struct {
		struct pdd_linux_options known;
		uint64_t unknown;
	} options = { .known.size = sizeof(options) };
	struct pdd_tunables tunables;
	struct pdd_linux *dedup;

	assert_int_equal(pdd_linux_create(&dedup, &options.known), 0);
	pdd_linux_destroy(dedup);
	options.unknown = 1;
	assert_int_equal(pdd_linux_create(&dedup, &options.known), -EINVAL);
	options.known.size = sizeof(options.known);
	options.known.flags = 1u << 31;
	assert_int_equal(pdd_linux_create(&dedup, &options.known), -EINVAL);
	options.known.flags = 0;
	pdd_tunables_init(&tunables);
	tunables.max_page_sharing = 1;
	options.known.tunables = &tunables;
	assert_int_equal(pdd_linux_create(&dedup, &options.known), -EINVAL);
	/* An older caller's options are shorter. */
	options.known.tunables = NULL;
	for (options.known.size = 1; options.known.size < sizeof(options.known);
	     options.known.size++)
		if (options.known.size % sizeof(void *)) /* it ends within a member */
			assert_int_equal(pdd_linux_create(&dedup, &options.known), -EINVAL);
	options.known.size = offsetof(struct pdd_linux_options, tunables);
	assert_int_equal(pdd_linux_create(&dedup, &options.known), 0);
	assert_int_equal(pdd_linux_step(dedup, 1, 0), PDD_STEP_IDLE);
	assert_int_equal(pdd_linux_step(dedup, 0, 0), -EINVAL);
	pdd_linux_destroy(dedup);
	pdd_linux_destroy(NULL);
}

static void test_add_errors(void **state)
{
	struct pdd_linux *dedup = create(0);
	struct pdd_linux_memory *memory, *other;
	unsigned char *m = map_pages(16);

	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m + 1, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, PAGE + 1), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, 0), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m + 4 * PAGE, 4 * PAGE), 0);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m + 7 * PAGE, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m, 5 * PAGE), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m, 16 * PAGE), -EINVAL);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m + 8 * PAGE, PAGE), 0);
	munmap(m + 12 * PAGE, PAGE);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m + 10 * PAGE, 4 * PAGE), -ENOMEM);
	mprotect(m + 11 * PAGE, PAGE, PROT_READ);
	assert_int_equal(pdd_linux_add(dedup, &other, 0, m + 10 * PAGE, 2 * PAGE), -EACCES);
	pdd_linux_destroy(dedup);
	munmap(m, 16 * PAGE);
}

static void test_share_and_undo(void **state)
{
	enum { N = 600 };
	struct pdd_linux *dedup = create(0);
	struct pdd_linux_memory *a, *b, *c;
	unsigned char *ma = map_pages(N), *mb = map_pages(N), *mc = map_pages(N);
	struct pdd_linux_usage usage;
	struct pdd_stats stats;
	struct pdd_counts counts;
	size_t i;

	for (i = 0; i < N; i++) {
		fill_page(ma, i, i % 10 ? i + 1 : 0);
		fill_page(mb, i, i % 10 ? i + 1 : 0);
		fill_page(mc, i, i % 10 ? i + 1 : 0);
	}
	assert_int_equal(pdd_linux_add(dedup, &a, 1, ma, N * PAGE), 0);
	assert_int_equal(pdd_linux_add(dedup, &b, 1, mb, N * PAGE), 0);
	assert_int_equal(pdd_linux_add(dedup, &c, 2, mc, N * PAGE), 0); /* another domain */
	run_passes(dedup, 3);
	stats = stats_of(dedup);
	usage = usage_of(dedup);
	assert_int_equal(stats.pages_shared, N - N / 10);
	assert_int_equal(stats.pages_sharing, N - N / 10);
	assert_int_equal(stats.counts.ksm_zero_pages, 3 * N / 10);
	assert_int_equal(usage.frames, stats.pages_shared);
	assert_int_equal(usage.store_bytes, stats.pages_shared * PAGE);
	assert_int_equal(pdd_linux_memory_counts(dedup, c, &counts), 0);
	assert_int_equal(counts.ksm_merging_pages, 0);
	assert_int_equal(counts.reasons[PDD_REASON_UNIQUE], N - N / 10);
	printf("%d frames, %d mappings in the memory, %d bytes of metadata\n", (int)usage.frames,
	       (int)usage.memory_mappings, (int)usage.metadata_bytes);

	/* A write in one memory is not seen in another, and ends the sharing of that page. */
	ma[5 * PAGE] ^= 1;
	assert_true(has_content(mb, 5, 6));
	ma[5 * PAGE] ^= 1;
	run_passes(dedup, 2);
	assert_int_equal(stats_of(dedup).counts.unshares, 1);
	assert_int_equal(pdd_linux_memory_counts(dedup, a, &counts), 0);
	assert_int_equal(counts.reasons[PDD_REASON_PINS_UNSEEN], 1);

	assert_int_equal(pdd_linux_remove(dedup, a), 0);
	assert_int_equal(pdd_linux_remove(dedup, b), 0);
	usage = usage_of(dedup);
	assert_int_equal(usage.frames, 0);
	assert_int_equal(usage.store_bytes, 0);
	for (i = 0; i < N; i++) {
		assert_true(has_content(ma, i, i % 10 ? i + 1 : 0));
		assert_true(has_content(mb, i, i % 10 ? i + 1 : 0));
	}
	/* It lies in mappings of the store now. */
	assert_int_equal(pdd_linux_add(dedup, &a, 1, ma, N * PAGE), -EACCES);
	pdd_linux_destroy(dedup);
	for (i = 0; i < N; i++)
		assert_true(has_content(mc, i, i % 10 ? i + 1 : 0));
	munmap(ma, N * PAGE);
	munmap(mb, N * PAGE);
	munmap(mc, N * PAGE);
}

/* With the promise that no device writes, written pages are shared again. */
static void test_share_again(void **state)
{
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a;
	unsigned char *m = map_pages(64);
	struct pdd_stats stats;
	size_t i, round;

	for (i = 0; i < 64; i++)
		fill_page(m, i, i % 2 + 1);
	assert_int_equal(pdd_linux_add(dedup, &a, 0, m, 64 * PAGE), 0);
	run_passes(dedup, 3);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 64; i++)
			m[i * PAGE] ^= 0x55;
		run_passes(dedup, 4);
		stats = stats_of(dedup);
		assert_int_equal(stats.pages_shared, 2);
		assert_int_equal(stats.pages_sharing, 62);
		assert_int_equal(usage_of(dedup).store_bytes, 2 * PAGE);
	}
	/* All zero at last: the memory of the frames is gone. */
	for (i = 0; i < 64; i++)
		fill_page(m, i, 0);
	run_passes(dedup, 4);
	stats = stats_of(dedup);
	assert_int_equal(stats.counts.ksm_zero_pages, 64);
	assert_int_equal(usage_of(dedup).store_bytes, 0);
	pdd_linux_destroy(dedup);
	for (i = 0; i < 64; i++)
		assert_true(has_content(m, i, 0));
	munmap(m, 64 * PAGE);
}

/* A child must not work with its parent's deduplicator, and can do no harm by destroying it. */
static void test_child(void **state)
{
	struct pdd_linux *dedup = create(0);
	struct pdd_linux_memory *memory, *other;
	unsigned char *m = map_pages(64);
	struct pdd_stats stats = { .size = sizeof(stats) };
	size_t i;
	pid_t child;
	int status;

	for (i = 0; i < 64; i++)
		fill_page(m, i, 7);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, 64 * PAGE), 0);
	run_passes(dedup, 3);
	child = fork();
	if (!child) {
		if (pdd_linux_step(dedup, 1, 0) != -ECHILD)
			_exit(1);
		if (pdd_linux_add(dedup, &other, 0, map_pages(1), PAGE) != -ECHILD ||
		    pdd_linux_remove(dedup, memory) != -ECHILD ||
		    pdd_linux_stats(dedup, &stats) != -ECHILD)
			_exit(2);
		pdd_linux_destroy(dedup);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (i = 0; i < 64; i++)
		assert_true(has_content(m, i, 7));
	run_passes(dedup, 1);
	assert_int_equal(stats_of(dedup).pages_sharing, 63);
	pdd_linux_destroy(dedup);
	munmap(m, 64 * PAGE);
}

/* Several threads call at once, another one writes; what is not said to be serial is not needed. */
static struct {
	struct pdd_linux *dedup;
	atomic_bool stop;
	atomic_uint failures;
} shared;

static void *step_all_the_time(void *arg)
{
	while (!atomic_load(&shared.stop)) {
		struct pdd_stats stats = { .size = sizeof(stats) };

		if (pdd_linux_step(shared.dedup, 64, 100000) < 0 ||
		    pdd_linux_stats(shared.dedup, &stats))
			atomic_fetch_add(&shared.failures, 1);
	}
	return arg;
}

static void test_threads(void **state)
{
	pthread_t threads[2];
	unsigned char *m = map_pages(1024);
	uint64_t end = now_ns() + UINT64_C(1000000000), rounds = 0;
	size_t i;

	shared.dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	atomic_store(&shared.stop, false);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, step_all_the_time, NULL);
	while (now_ns() < end) {
		struct pdd_linux_memory *memory;

		assert_int_equal(pdd_linux_add(shared.dedup, &memory, 0, m, 1024 * PAGE), 0);
		for (i = 0; i < 1024; i++)
			fill_page(m, i, i % 64);
		usleep(20000);
		assert_int_equal(pdd_linux_remove(shared.dedup, memory), 0);
		for (i = 0; i < 1024; i++)
			assert_true(has_content(m, i, i % 64));
		munmap(m, 1024 * PAGE);
		m = map_pages(1024);
		rounds++;
	}
	atomic_store(&shared.stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("added and removed %d times\n", (int)rounds);
	assert_int_equal(atomic_load(&shared.failures), 0);
	assert_true(stats_of(shared.dedup).counts.pages == 0);
	pdd_linux_destroy(shared.dedup);
	munmap(m, 1024 * PAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_add_errors),
		cmocka_unit_test(test_share_and_undo),
		cmocka_unit_test(test_share_again),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_threads),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
