/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_prune.c - prunes empty sparse frames into fuller ones, under the promise of no device writes
 * only, and lose no write for it.
 */
#define _GNU_SOURCE 1
#include "counters.h"
#include "whole.h"

/* Many pages of few contents, frames of few sharers, writers and prunes all the time. */
static void test_prunes_under_writers(void **state)
{
	enum { N = 512 };
	static struct counters counters;
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	struct pdd_linux_memory *memory;
	unsigned char *m = map_pages(N);
	uint64_t writes, wrong, i;
	struct pdd_stats stats;

	assert_int_equal(pdd_linux_get_tunables(dedup, &tunables), 0);
	tunables.max_page_sharing = 8;
	tunables.chain_prune_ms = 0;
	assert_int_equal(pdd_linux_set_tunables(dedup, &tunables), 0);
	/* Not zero pages: their first word is nobody's. */
	for (i = 0; i < N; i++)
		m[i * PAGE + PAGE - 1] = 1;
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	counters_start(&counters, m, N, 1, 300, test_seed());
	do {
		for (i = 0; i < 20; i++)
			assert_true(pdd_linux_step(dedup, 128, 0) >= 0);
		stats = stats_of(dedup);
	} while (stats.counts.refiles < 50);
	wrong = counters_stop(&counters, &writes);
	run_passes(dedup, 3);
	printf("%d writes, %d wrong; %d merges, %d prunes, %d refiles\n", (int)writes, (int)wrong,
	       (int)stats.counts.merges, (int)stats.prunes, (int)stats.counts.refiles);
	assert_int_equal(wrong, 0);
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
}

/* 16 frames of 4 sharers, of which one or two are left: they end in the least number of frames. */
static void fill_and_thin_out(struct pdd_linux *dedup, unsigned char *m)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	uint64_t i;

	assert_int_equal(pdd_linux_get_tunables(dedup, &tunables), 0);
	tunables.max_page_sharing = 4;
	tunables.chain_prune_ms = UINT32_MAX; /* only when asked to */
	assert_int_equal(pdd_linux_set_tunables(dedup, &tunables), 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_shared, 16);
	for (i = 0; i < 64; i++)
		if (i % 4 && (i % 8 != 1))
			fill_page(m, i, 1000 + i);
	run_passes(dedup, 3);
}

static void test_prune(void **state)
{
	static const uint32_t flags[] = { 0, PDD_LINUX_NO_DEVICE_WRITES };
	size_t f, i;

	for (f = 0; f < 2; f++) {
		struct pdd_linux *dedup = create(flags[f]);
		struct pdd_linux_memory *memory;
		unsigned char *m = map_pages(64);
		struct pdd_stats stats;

		for (i = 0; i < 64; i++)
			fill_page(m, i, 7);
		assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, 64 * PAGE), 0);
		fill_and_thin_out(dedup, m);
		stats = stats_of(dedup);
		assert_int_equal(stats.pages_shared + stats.pages_sharing, 24);
		assert_int_equal(pdd_linux_prune(dedup), 0);
		while (stats_of(dedup).prunes == stats.prunes)
			assert_true(pdd_linux_step(dedup, 100, 0) >= 0);
		stats = stats_of(dedup);
		/* Without the promise nothing moves. */
		assert_int_equal(stats.pages_shared, flags[f] ? 6 : 16);
		assert_int_equal(stats.pages_shared + stats.pages_sharing, 24);
		assert_int_equal(usage_of(dedup).frames, stats.pages_shared);
		assert_int_equal(usage_of(dedup).store_bytes, stats.pages_shared * PAGE);
		for (i = 0; i < 64; i++)
			assert_true(has_content(m, i, i % 4 && i % 8 != 1 ? 1000 + i : 7));
		run_passes(dedup, 2);
		pdd_linux_destroy(dedup);
		munmap(m, 64 * PAGE);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prune),
		cmocka_unit_test(test_prunes_under_writers),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
