/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_remove.c - removed memory is as it was before it was added: anonymous, with its content,
 * good for being added again; and no write is lost for it.
 */
#define _GNU_SOURCE 1
#include "counters.h"
#include "maps.h"
#include "whole.h"

#include "linux/dedup_internal.h"
#include "linux/give_back.h"

/* Added, shared, removed; and the same memory again, which is anonymous in between. */
static void test_rounds(void **state)
{
	enum { N = 1200 };
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a;
	unsigned char *m = map_pages(N);
	size_t i, round;

	for (i = 0; i < N; i++)
		fill_page(m, i, i % 100);
	for (round = 0; round < 4; round++) {
		assert_int_equal(pdd_linux_add(dedup, &a, 0, m, N * PAGE), 0);
		run_passes(dedup, 3);
		assert_int_equal(stats_of(dedup).pages_shared, 99);
		for (i = 0; i < N; i += 7)
			m[i * PAGE + 1] ^= 1;
		run_passes(dedup, round % 2);
		assert_int_equal(pdd_linux_remove(dedup, a), 0);
		assert_int_equal(usage_of(dedup).frames, 0);
		assert_int_equal(usage_of(dedup).store_bytes, 0);
		for (i = 0; i < N; i += 7)
			m[i * PAGE + 1] ^= 1;
		for (i = 0; i < N; i++)
			assert_true(has_content(m, i, i % 100));
	}
	assert_int_equal(madvise(m, N * PAGE, MADV_DONTNEED), 0);
	for (i = 0; i < N; i++)
		assert_true(has_content(m, i, 0));
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
}

/* What is pinned stays where a device may have it. */
static void test_pinned_pages_stay(void **state)
{
	enum { N = 64 };
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a;
	unsigned char *m = map_pages(N);
	size_t i;

	for (i = 0; i < N; i++)
		fill_page(m, i, 1 + i % 2);
	assert_int_equal(pdd_linux_add(dedup, &a, 0, m, N * PAGE), 0);
	run_passes(dedup, 3);
	assert_int_equal(pdd_linux_pin(dedup, a, m + 20 * PAGE, 2 * PAGE), 0);
	assert_int_equal(pdd_linux_exclude(dedup, a, m + 30 * PAGE, 2 * PAGE), 0);
	assert_int_equal(pdd_linux_remove(dedup, a), 0);
	for (i = 0; i < N; i++) {
		assert_int_equal(maps_is_store(m + i * PAGE), i == 20 || i == 21);
		assert_true(has_content(m, i, 1 + i % 2));
	}
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
}

/* Pages that were given back while the engine takes them for sharers: a removal that failed. */
static void test_given_back_and_not_removed(void **state)
{
	enum { N = 64 };
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a;
	unsigned char *m = map_pages(N);
	size_t i;

	for (i = 0; i < N; i++)
		fill_page(m, i, 1 + i % 2);
	assert_int_equal(pdd_linux_add(dedup, &a, 0, m, N * PAGE), 0);
	run_passes(dedup, 3);
	assert_int_equal(pddi_give_back(&dedup->hold, &dedup->budget, a), 0);
	assert_int_equal(pdd_linux_prune(dedup), 0);
	run_passes(dedup, 1);
	assert_int_equal(usage_of(dedup).frames, 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
	assert_int_equal(pddi_give_back(&dedup->hold, &dedup->budget, a), 0);
	assert_int_equal(pdd_linux_pin(dedup, a, m, 8 * PAGE), 0);
	assert_int_equal(pdd_linux_discard(dedup, a, m + 8 * PAGE, 8 * PAGE), 0);
	assert_int_equal(pdd_linux_remove(dedup, a), 0);
	assert_int_equal(usage_of(dedup).frames, 0);
	for (i = 0; i < N; i++)
		assert_true(has_content(m, i, i >= 8 && i < 16 ? 0 : 1 + i % 2));
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
}

/* Counting threads while memory comes and goes. */
static void test_remove_under_writers(void **state)
{
	enum { N = 512 };
	static struct counters counters;
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a;
	unsigned char *m = map_pages(N);
	uint64_t merges = 0, writes, wrong;
	int rounds = 0;

	counters_start(&counters, m, N, 1, 20, test_seed());
	do {
		assert_int_equal(pdd_linux_add(dedup, &a, 0, m, N * PAGE), 0);
		while (stats_of(dedup).counts.merges < merges + 100)
			assert_true(pdd_linux_step(dedup, 512, 0) >= 0);
		merges = stats_of(dedup).counts.merges;
		assert_int_equal(pdd_linux_remove(dedup, a), 0);
		assert_int_equal(usage_of(dedup).frames, 0);
	} while (++rounds < 30);
	pdd_linux_destroy(dedup);
	wrong = counters_stop(&counters, &writes);
	printf("%d rounds, %d merges, %d writes, %d wrong\n", rounds, (int)merges, (int)writes,
	       (int)wrong);
	assert_int_equal(wrong, 0);
	munmap(m, N * PAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_pinned_pages_stay),
		cmocka_unit_test(test_given_back_and_not_removed),
		cmocka_unit_test(test_remove_under_writers),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
