/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_controls.c - what the owner of memory asks for: pin, exclude, unmerge, settings, and why a
 * page is not shared; each error that is documented.
 */
#define _GNU_SOURCE 1
#include "whole.h"

#include <sys/wait.h>

#define N 64u

static struct pdd_linux *dedup;
static struct pdd_linux_memory *memory;
static unsigned char *pages;

/* Pages of two contents in turn, shared. */
static int setup(void **state)
{
	size_t i;

	dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	pages = map_pages(N);
	for (i = 0; i < N; i++)
		fill_page(pages, i, 1 + i % 2);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, pages, N * PAGE), 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
	return 0;
}

static int teardown(void **state)
{
	size_t i;

	for (i = 0; i < N; i++)
		assert_true(has_content(pages, i, 1 + i % 2));
	pdd_linux_destroy(dedup);
	for (i = 0; i < N; i++)
		assert_true(has_content(pages, i, 1 + i % 2));
	munmap(pages, N * PAGE);
	return 0;
}

static unsigned char *at(size_t page)
{
	return pages + page * PAGE;
}

static struct pdd_explanation explain(size_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_linux_explain(dedup, at(page) + 5, &explanation), 0);
	return explanation;
}

/* The page does not show a frame, but a copy of its own. */
static bool has_own_memory(size_t page)
{
	struct pddi_probe probe;
	struct pddi_pagemap map = { .vector = 1, .page_shift = 12 };
	uint8_t flags;

	pddi_probe_init(&probe);
	map.fd = probe.pagemap_fd;
	map.scan = probe.facilities.pagemap_scan;
	assert_int_equal(pddi_pagemap_read(&map, &flags, at(page), 1), 0);
	pddi_probe_fini(&probe);
	return flags & PDDI_PAGE_PRESENT && !(flags & PDDI_PAGE_FILE);
}

static void test_pin(void **state)
{
	size_t i;

	assert_int_equal(pdd_linux_pin(dedup, memory, at(10), 20 * PAGE), 0);
	assert_int_equal(pdd_linux_pin(dedup, memory, at(15), 5 * PAGE), 0);
	for (i = 10; i < 30; i++) {
		assert_true(has_own_memory(i));
		assert_int_equal(explain(i).reason, PDD_REASON_PINNED);
		assert_int_equal(explain(i).npins, i >= 15 && i < 20 ? 2 : 1);
	}
	assert_false(has_own_memory(9));
	assert_false(has_own_memory(30));
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2 - 20);
	assert_int_equal(stats_of(dedup).counts.reasons[PDD_REASON_PINNED], 20);
	/* Not all of it is pinned: nothing changes. */
	assert_int_equal(pdd_linux_unpin(dedup, memory, at(9), 21 * PAGE), -EINVAL);
	assert_int_equal(explain(12).npins, 1);
	assert_int_equal(pdd_linux_unpin(dedup, memory, at(10), 20 * PAGE), 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2 - 5);
	assert_int_equal(explain(15).npins, 1);
	assert_int_equal(pdd_linux_unpin(dedup, memory, at(15), 5 * PAGE), 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
}

static void test_pin_many_times(void **state)
{
	int i;

	for (i = 0; i < 511; i++)
		assert_int_equal(pdd_linux_pin(dedup, memory, at(3), PAGE), 0);
	assert_int_equal(pdd_linux_pin(dedup, memory, at(2), 2 * PAGE), -EOVERFLOW);
	assert_int_equal(explain(2).npins, 0);
	assert_int_equal(explain(2).state, PDD_STATE_SHARED);
	for (i = 0; i < 511; i++)
		assert_int_equal(pdd_linux_unpin(dedup, memory, at(3), PAGE), 0);
	assert_int_equal(pdd_linux_unpin(dedup, memory, at(3), PAGE), -EINVAL);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
}

static void test_exclude(void **state)
{
	assert_int_equal(pdd_linux_exclude(dedup, memory, at(0), 10 * PAGE), 0);
	assert_int_equal(pdd_linux_exclude(dedup, memory, at(5), 10 * PAGE), 0);
	assert_int_equal(pdd_linux_pin(dedup, memory, at(5), PAGE), 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2 - 15);
	assert_int_equal(stats_of(dedup).counts.reasons[PDD_REASON_EXCLUDED], 15);
	assert_true(has_own_memory(7));
	assert_true(explain(7).excluded);
	/* Both keep the page out; and what is not excluded may be included. */
	assert_int_equal(pdd_linux_include(dedup, memory, at(0), N * PAGE), 0);
	assert_int_equal(explain(5).reason, PDD_REASON_PINNED);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2 - 1);
	assert_int_equal(pdd_linux_unpin(dedup, memory, at(5), PAGE), 0);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
}

/* Discarding lets excluded pages be excluded. */
static void test_exclude_and_discard(void **state)
{
	size_t i;

	assert_int_equal(pdd_linux_exclude(dedup, memory, at(8), 8 * PAGE), 0);
	assert_int_equal(pdd_linux_discard(dedup, memory, at(0), 32 * PAGE), 0);
	for (i = 0; i < 32; i++) {
		assert_true(has_content(pages, i, 0));
		fill_page(pages, i, 1 + i % 2);
	}
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2 - 8);
	assert_int_equal(stats_of(dedup).counts.reasons[PDD_REASON_EXCLUDED], 8);
}

static void test_ranges(void **state)
{
	int (*const calls[])(struct pdd_linux *, struct pdd_linux_memory *, const void *,
			     size_t) = { pdd_linux_pin, pdd_linux_unpin, pdd_linux_exclude,
					 pdd_linux_include };
	struct pdd_linux *other = create(0);
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(calls[i](dedup, memory, at(0) + 8, PAGE), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(0), 8), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(0), 0), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(N), PAGE), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(0) - PAGE, 2 * PAGE), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(1), N * PAGE), -EINVAL);
		assert_int_equal(calls[i](dedup, memory, at(1), (size_t)0 - PAGE), -EINVAL);
		assert_int_equal(calls[i](dedup, NULL, at(0), PAGE), -EINVAL);
		assert_int_equal(calls[i](other, memory, at(0), PAGE), -EINVAL);
	}
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
	pdd_linux_destroy(other);
}

static void test_unmerge(void **state)
{
	int64_t n, total = 0;
	size_t i;

	assert_int_equal(pdd_linux_unmerge(dedup, 0), -EINVAL);
	while ((n = pdd_linux_unmerge(dedup, 10)) > 0) {
		assert_in_range(n, 1, 10);
		total += n;
		assert_int_equal(stats_of(dedup).counts.ksm_merging_pages, N - total);
	}
	assert_int_equal(n, 0);
	assert_int_equal(total, N);
	for (i = 0; i < N; i++)
		assert_true(has_own_memory(i));
	assert_int_equal(usage_of(dedup).frames, 0);
	assert_int_equal(usage_of(dedup).store_bytes, 0);
	assert_int_equal(stats_of(dedup).full_scans, 0);
	assert_int_equal(explain(0).reason, PDD_REASON_NEW);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
}

static void test_tunables(void **state)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) }, now = tunables;

	assert_int_equal(pdd_linux_get_tunables(dedup, &tunables), 0);
	assert_int_equal(tunables.aging, PDD_AGING_NONE);
	assert_int_equal(tunables.max_page_sharing, PDD_MAX_PAGE_SHARING);
	assert_int_equal(pdd_linux_get_tunables(dedup, NULL), -EINVAL);
	assert_int_equal(pdd_linux_set_tunables(dedup, NULL), -EINVAL);
	tunables.max_page_sharing = 1;
	assert_int_equal(pdd_linux_set_tunables(dedup, &tunables), -EINVAL);
	tunables.max_page_sharing = 4;
	tunables.merge_across_nodes = 0;
	assert_int_equal(pdd_linux_set_tunables(dedup, &tunables), -EBUSY);
	assert_int_equal(pdd_linux_get_tunables(dedup, &now), 0);
	assert_int_equal(now.max_page_sharing, PDD_MAX_PAGE_SHARING); /* all or nothing */
	while (pdd_linux_unmerge(dedup, N) > 0)
		;
	assert_int_equal(pdd_linux_set_tunables(dedup, &tunables), 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_shared, N / 4);
}

/* Zero pages like any others, and a deduplicator that was created so. */
static void test_zero_pages(void **state)
{
	struct pdd_tunables tunables;
	struct pdd_linux_options options = { .size = sizeof(options), .tunables = &tunables };
	struct pdd_linux_memory *zeros;
	struct pdd_linux *other;
	unsigned char *m = map_pages(N);

	memset(m, 0, N * PAGE);
	pdd_tunables_init(&tunables);
	tunables.use_zero_pages = 0;
	tunables.one_look = 1;
	tunables.size = offsetof(struct pdd_tunables, one_look); /* a caller of before */
	assert_int_equal(pdd_linux_create(&other, &options), 0);
	assert_int_equal(pdd_linux_add(other, &zeros, 0, m, N * PAGE), 0);
	run_passes(other, 1);
	assert_int_equal(stats_of(other).counts.ksm_merging_pages, 0);
	tunables.size = sizeof(tunables);
	tunables.one_look = 2;
	assert_int_equal(pdd_linux_set_tunables(other, &tunables), -EINVAL);
	run_passes(other, 1);
	assert_int_equal(stats_of(other).pages_sharing, N - 1);
	assert_int_equal(stats_of(other).counts.ksm_zero_pages, 0);
	pdd_linux_destroy(other);
	options.tunables = &(struct pdd_tunables){ .size = 3 };
	assert_int_equal(pdd_linux_create(&other, &options), -EINVAL);
	munmap(m, N * PAGE);
}

static void test_explain(void **state)
{
	struct pdd_explanation a = { .size = sizeof(a) };

	assert_int_equal(explain(0).state, PDD_STATE_SHARED);
	assert_int_equal(explain(0).reason, PDD_REASON_NONE);
	assert_ptr_equal(explain(0).frame, explain(2).frame);
	assert_ptr_not_equal(explain(0).frame, explain(1).frame);
	at(4)[9] ^= 1;
	run_passes(dedup, 2);
	assert_int_equal(explain(4).state, PDD_STATE_UNSHARED);
	assert_int_equal(explain(4).reason, PDD_REASON_UNIQUE);
	at(4)[9] ^= 1;
	run_passes(dedup, 2);
	assert_int_equal(explain(4).state, PDD_STATE_SHARED);
	assert_int_equal(pdd_linux_explain(dedup, at(N), &a), -EINVAL);
	assert_int_equal(pdd_linux_explain(dedup, at(0) - 1, &a), -EINVAL);
	assert_int_equal(pdd_linux_explain(dedup, NULL, &a), -EINVAL);
	assert_int_equal(pdd_linux_explain(dedup, at(0), NULL), -EINVAL);
	a.size = 0;
	assert_int_equal(pdd_linux_explain(dedup, at(0), &a), -EINVAL);
}

/* The number of the first call that a child of fork is not refused, or 0. */
static int refused_in_child(void)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	struct pdd_explanation page = { .size = sizeof(page) };
	const int64_t results[] = {
		pdd_linux_discard(dedup, memory, at(0), PAGE),
		pdd_linux_pin(dedup, memory, at(0), PAGE),
		pdd_linux_unpin(dedup, memory, at(0), PAGE),
		pdd_linux_exclude(dedup, memory, at(0), PAGE),
		pdd_linux_include(dedup, memory, at(0), PAGE),
		pdd_linux_unmerge(dedup, 1),
		pdd_linux_prune(dedup),
		pdd_linux_get_tunables(dedup, &tunables),
		pdd_linux_set_tunables(dedup, &tunables),
		pdd_linux_explain(dedup, at(0), &page),
	};
	size_t i;

	for (i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i] != -ECHILD)
			return (int)i + 1;
	return 0;
}

static void test_child(void **state)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(refused_in_child());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pin_many_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclude, setup, teardown),
		cmocka_unit_test_setup_teardown(test_exclude_and_discard, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmerge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tunables, setup, teardown),
		cmocka_unit_test(test_zero_pages),
		cmocka_unit_test_setup_teardown(test_explain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_child, setup, teardown),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
