/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_discard.c - discarded memory reads zero, whatever stood there, and takes no memory; never
 * the bytes of a frame, neither one's own of long ago nor another tenant's (scenarios s33, s65;
 * races 11, 24). By the hook alone, at the limits of mappings, and by the whole adapter.
 */
#define _GNU_SOURCE 1
#include "maps.h"
#include "whole.h"

#include <sys/wait.h>

#include "linux/discard.h"

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

static bool is_zero(const void *start, size_t npages)
{
	return pddi_content_class(start, npages * PAGE) == PDD_CLASS_ZERO;
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

/* Pages 4 to 11 show frames; 6 and 7 were written since, 8 and 9 were never touched since. */
static void make_all_kinds(struct pdd_frame **frames)
{
	uint64_t i;

	for (i = 0; i < 16; i++)
		memset(at(i), (int)i + 1, PAGE);
	rig_merge(&rig, frames, 4, 8);
	memset(at(6), 0x66, 2 * PAGE);
	assert_int_equal(madvise(at(8), 2 * PAGE, MADV_DONTNEED), 0);
	/* Page 1 is a hole, page 2 may be the kernel's zero page. */
	assert_int_equal(madvise(at(1), 2 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(*(volatile unsigned char *)at(2), 0);
}

/* What stood there, page by page and all at once. */
static void test_whatever_stood_there(void **state)
{
	static const uint64_t runs[] = { 1, 3, 16 };
	struct pdd_frame *frames[8];
	size_t r;

	for (r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
		uint64_t before, i;

		rig_init(&rig, 64, 0);
		memset(at(16), 0x77, 48 * PAGE);
		before = maps_inside(&rig.memory);
		make_all_kinds(frames);
		for (i = 0; i < 16; i += runs[r]) {
			uint64_t n = i + runs[r] <= 16 ? runs[r] : 16 - i;

			discard(i, n);
			assert_int_equal(pddi_pagemap_resident(&rig.map, at(i), n * PAGE), 0);
			assert_true(is_zero(at(i), n));
			assert_int_equal(pddi_bits_next(rig.memory.framed, i, i + n, true), i + n);
		}
		assert_int_equal(maps_inside(&rig.memory), before);
		assert_int_equal(*at(16), 0x77);
		/* Once more, and writing works. */
		memset(at(0), 0x11, 16 * PAGE);
		discard(0, 16);
		assert_true(is_zero(at(0), 16));
		for (i = 0; i < 8; i++)
			pddi_store_free(&rig.store, frames[i]);
		pddi_store_flush(&rig.store);
		assert_int_equal(pddi_store_bytes(&rig.store), 0);
		rig_fini(&rig);
	}
}

/* Only what was asked for: the pages around it keep their frames and their copies. */
static void test_neighbours_stay(void **state)
{
	/* 5, 6 and 9 are discarded; 1 and 2 were zero before, 7 was written. */
	static const unsigned char expected[16] = { 1, 0, 0, 4,  5,  0,  0,  0x66,
						    9, 0, 11, 12, 13, 14, 15, 16 };
	struct pdd_frame *frames[8];
	uint64_t i;

	rig_init(&rig, 64, 0);
	make_all_kinds(frames);
	discard(5, 2);
	discard(9, 1);
	for (i = 0; i < 16; i++)
		assert_int_equal(at(i)[100], expected[i]);
	assert_int_equal(rig_kind(&rig, 4), PDD_PAGE_SHARED);
	assert_int_equal(rig_kind(&rig, 8), PDD_PAGE_SHARED);
	assert_int_equal(rig_kind(&rig, 7), PDD_PAGE_PRIVATE);
	rig_fini(&rig);
}

/* What takes the place of a mapping of the store has the flags of the memory. */
static void test_flags_stay(void **state)
{
	struct pdd_frame *frames[8];

	rig_init(&rig, 64, 0);
	maps_set_all_flags(&rig);
	make_all_kinds(frames);
	discard(5, 4);
	assert_true(maps_is_store(at(4)));
	assert_false(maps_is_store(at(5)));
	assert_true(maps_has_all_flags(at(5)));
	rig_fini(&rig);
}

/* Why madvise alone will not do: it is what the tests above would see otherwise. */
static void test_madvise_shows_the_frame(void **state)
{
	struct pdd_frame *frames[8];

	rig_init(&rig, 64, 0);
	make_all_kinds(frames);
	assert_int_equal(at(6)[100], 0x66);
	assert_int_equal(madvise(at(6), PAGE, MADV_DONTNEED), 0);
	assert_int_equal(at(6)[100], 7);
	rig_fini(&rig);
}

/* --- limits of mappings --- */

/* The budget of the deduplicator is used up: discarding goes on. */
static void test_beyond_the_budget(void **state)
{
	static struct pdd_frame *frames[512];
	uint64_t i;

	rig_init(&rig, 512, 0);
	for (i = 0; i < 512; i++)
		memset(at(i), (int)(i % 250) + 1, PAGE);
	rig_merge(&rig, frames, 0, 512);
	assert_int_equal(maps_inside(&rig.memory), 1);
	assert_int_equal(pddi_mappings_count(&rig.budget.limit), 0);
	for (i = 1; i < 511; i += 2)
		discard(i, 1);
	for (i = 0; i < 512; i++)
		assert_int_equal(at(i)[7], i % 2 && i < 511 ? 0 : i % 250 + 1);
	assert_int_equal(maps_inside(&rig.memory), 511);
	/* It knows what it did. */
	assert_true(rig.budget.estimate > rig.budget.limit);
	assert_false(pddi_budget_take(&rig.budget, 1));
	discard(0, 512);
	assert_int_equal(maps_inside(&rig.memory), 1);
	rig_fini(&rig);
}

/* The kernel's own limit: an error, and nothing is lost. */
static void test_at_the_kernels_limit(void **state)
{
	struct pdd_frame *frames[20];
	struct maps_limit limit;

	if (!maps_can_reach_limit())
		skip();
	rig_init(&rig, 64, 0);
	memset(at(0), 1, 64 * PAGE);
	rig_merge(&rig, frames, 0, 20);
	memset(at(8), 0x66, PAGE);
	maps_limit_init(&limit);
	maps_limit_reach(&limit);
	/* Anonymous memory needs no mapping; what comes first is done and said. */
	assert_int_equal(pddi_discard(&rig.budget, &rig.memory, 30, 10), 10);
	assert_int_equal(pddi_discard(&rig.budget, &rig.memory, 7, 3), -ENOSPC);
	assert_int_equal(at(7)[5], 1);
	assert_int_equal(at(8)[5], 0x66);
	assert_int_equal(rig_kind(&rig, 7), PDD_PAGE_SHARED);
	assert_int_equal(rig_kind(&rig, 8), PDD_PAGE_PRIVATE);
	maps_limit_leave(&limit);
	discard(7, 3);
	assert_true(is_zero(at(7), 3));
	assert_true(is_zero(at(30), 10));
	rig_fini(&rig);
}

/* --- the whole adapter --- */

static int discard_pages(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			 unsigned char *start, size_t first, size_t npages)
{
	return pdd_linux_discard(dedup, memory, start + first * PAGE, npages * PAGE);
}

static void test_errors(void **state)
{
	struct pdd_linux *dedup = create(0), *other = create(0);
	struct pdd_linux_memory *memory;
	unsigned char *m = map_pages(16), *inner = m + 4 * PAGE;
	int status;
	pid_t child;
	size_t i;

	for (i = 0; i < 16; i++)
		fill_page(m, i, 1);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, inner, 8 * PAGE), 0);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner + 1, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner, PAGE + 1), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner, 0), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, m, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, m, 8 * PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner, 9 * PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner + 8 * PAGE, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner + 7 * PAGE, (size_t)0 - PAGE),
			 -EINVAL);
	assert_int_equal(pdd_linux_discard(dedup, NULL, inner, PAGE), -EINVAL);
	assert_int_equal(pdd_linux_discard(other, memory, inner, PAGE), -EINVAL);
	/* Pinned: all of it stays. */
	assert_int_equal(pdd_linux_pin(dedup, memory, inner + 7 * PAGE, PAGE), 0);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner, 8 * PAGE), -EBUSY);
	for (i = 0; i < 16; i++)
		assert_true(has_content(m, i, 1));
	assert_int_equal(pdd_linux_discard(dedup, memory, inner, 7 * PAGE), 0);
	assert_int_equal(pdd_linux_unpin(dedup, memory, inner + 7 * PAGE, PAGE), 0);
	assert_int_equal(pdd_linux_discard(dedup, memory, inner + 7 * PAGE, PAGE), 0);
	for (i = 0; i < 16; i++)
		assert_true(has_content(m, i, i < 4 || i >= 12 ? 1 : 0));
	child = fork();
	if (!child)
		_exit(pdd_linux_discard(dedup, memory, inner, PAGE) != -ECHILD);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pdd_linux_destroy(other);
	pdd_linux_destroy(dedup);
	munmap(m, 16 * PAGE);
}

/* Share, discard, fill anew, share again. */
static void test_round(void **state)
{
	enum { N = 1200 };
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *a, *b;
	unsigned char *ma = map_pages(N), *mb = map_pages(N);
	struct pdd_explanation page = { .size = sizeof(page) };
	size_t i, round;

	assert_int_equal(pdd_linux_add(dedup, &a, 0, ma, N * PAGE), 0);
	assert_int_equal(pdd_linux_add(dedup, &b, 0, mb, N * PAGE), 0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < N; i++) {
			fill_page(ma, i, i % 10 ? round * N + i + 1 : 0);
			fill_page(mb, i, i % 10 ? round * N + i + 1 : 0);
		}
		run_passes(dedup, 3);
		assert_int_equal(stats_of(dedup).pages_sharing, N - N / 10);
		assert_int_equal(usage_of(dedup).store_bytes, (N - N / 10) * PAGE);
		/* Half of them leave; the frames stay for the others. */
		assert_int_equal(discard_pages(dedup, a, ma, 0, N), 0);
		assert_true(is_zero(ma, N));
		assert_int_equal(stats_of(dedup).pages_sharing, 0);
		assert_int_equal(usage_of(dedup).store_bytes, (N - N / 10) * PAGE);
		for (i = 0; i < N; i++)
			assert_true(has_content(mb, i, i % 10 ? round * N + i + 1 : 0));
		assert_int_equal(pdd_linux_explain(dedup, ma + 5 * PAGE, &page), 0);
		assert_int_equal(page.reason, PDD_REASON_ABSENT);
		run_passes(dedup, 1);
		/* And the others, over the ends of extents. */
		assert_int_equal(discard_pages(dedup, b, mb, 1, 510), 0);
		assert_int_equal(discard_pages(dedup, b, mb, 511, N - 512), 0);
		assert_int_equal(discard_pages(dedup, b, mb, N - 1, 1), 0);
		assert_int_equal(discard_pages(dedup, b, mb, 0, 1), 0);
		assert_true(is_zero(mb, N));
		assert_int_equal(usage_of(dedup).store_bytes, 0);
		assert_int_equal(usage_of(dedup).frames, 0);
		assert_in_range(usage_of(dedup).memory_mappings, 1, 4);
		run_passes(dedup, 1);
	}
	pdd_linux_destroy(dedup);
	munmap(ma, N * PAGE);
	munmap(mb, N * PAGE);
}

/* s65: written and alone, its old frame gone and its memory with others, a page reads zero. */
static void test_another_tenant(void **state)
{
	enum { N = 64 };
	struct pdd_linux *dedup = create(0);
	struct pdd_linux_memory *one, *two;
	unsigned char *m1 = map_pages(N), *m2 = map_pages(N);
	size_t i;

	for (i = 0; i < N; i++) {
		fill_page(m1, i, 1);
		fill_page(m2, i, i + 100);
	}
	assert_int_equal(pdd_linux_add(dedup, &one, 1, m1, N * PAGE), 0);
	assert_int_equal(pdd_linux_add(dedup, &two, 2, m2, N * PAGE), 0);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 1);
	for (i = 0; i < N; i++)
		fill_page(m1, i, 1000 + i);
	run_passes(dedup, 2);
	assert_int_equal(usage_of(dedup).frames, 0);
	assert_int_equal(usage_of(dedup).store_bytes, 0);
	/* The other tenant fills the store. */
	for (i = 0; i < N; i++)
		fill_page(m2, i, 2);
	run_passes(dedup, 3);
	assert_int_equal(stats_of(dedup).pages_sharing, N - 1);
	assert_int_equal(discard_pages(dedup, one, m1, 0, N), 0);
	assert_true(is_zero(m1, N));
	/* That of the other tenant, too, while it is shared. */
	assert_int_equal(discard_pages(dedup, two, m2, 10, 10), 0);
	for (i = 0; i < N; i++)
		assert_true(has_content(m2, i, i < 10 || i >= 20 ? 2 : 0));
	run_passes(dedup, 1);
	pdd_linux_destroy(dedup);
	munmap(m1, N * PAGE);
	munmap(m2, N * PAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whatever_stood_there),
		cmocka_unit_test(test_neighbours_stay),
		cmocka_unit_test(test_flags_stay),
		cmocka_unit_test(test_madvise_shows_the_frame),
		cmocka_unit_test(test_beyond_the_budget),
		cmocka_unit_test(test_at_the_kernels_limit),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_another_tenant),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
