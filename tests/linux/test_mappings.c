/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_mappings.c - mappings are scarce: the budget leaves the program its share, what can join
 * joins, the undo works at the kernel's limit, and what a mapping was told stays told (races 3 to
 * 6).
 */
#define _GNU_SOURCE 1
#include "maps.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

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

/* Mappings that the memory consists of. */
static uint64_t inside(void)
{
	return maps_inside(&rig.memory);
}

static void *do_nothing(void *arg)
{
	return arg;
}

static int thread_works(void)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, do_nothing, NULL);

	if (!error)
		pthread_join(thread, NULL);
	return error;
}

/* Try to map a frame at one page; what frames_map answered. */
static int try_map(struct pdd_frame *frame, uint64_t page)
{
	struct pdd_view view;
	int result;

	assert_int_equal(rig_hold(&rig, &view, 1, page, 1), 1);
	assert_int_equal(view.kind, PDD_PAGE_PRIVATE);
	result = rig_map(&rig, page, &frame, 1);
	if (result < 0)
		pddi_hold_release(&rig.hold, page, 1);
	return result;
}

static void test_budget(void **state)
{
	static struct pdd_frame *frames[4096];
	uint64_t start, now, i, mapped = 0, refused = 0;

	rig_init(&rig, 4096, PDD_LINUX_NO_DEVICE_WRITES);
	fill(4096);
	for (i = 0; i < 4096; i += 512)
		assert_int_equal(rig_create(&rig, frames + i, i, 512), 512);
	assert_int_equal(pddi_mappings_count(&start), 0);
	assert_int_equal(pddi_budget_init(&rig.budget, start + 500), 0);
	for (i = 0; i < 4096; i += 2) {
		int result = try_map(frames[i], i);

		if (result == 1)
			mapped++;
		else
			assert_int_equal(result, -ENOSPC);
		refused += result != 1;
		assert_int_equal(*(volatile unsigned char *)at(i), i % 250 + 1);
	}
	assert_int_equal(pddi_mappings_count(&now), 0);
	printf("budget of 500 more: %d isolated pages mapped, %d refused, %d mappings more\n",
	       (int)mapped, (int)refused, (int)(now - start));
	assert_true(now <= rig.budget.limit);
	/* What isolated pages can use of it (two each) is used up, but for a remainder. */
	assert_in_range(mapped, 230, 250);
	assert_int_equal(thread_works(), 0);
	/* Room that comes back is found. */
	rig.budget.limit += 100;
	for (i = 1; i < 4096; i += 2)
		(void)try_map(frames[i], i);
	assert_int_equal(pddi_mappings_count(&now), 0);
	assert_true(now <= rig.budget.limit);
	assert_true(now > rig.budget.limit - 110);
	rig_fini(&rig);
}

/* The kernel's own limit: nothing is lost, and the undo works. */
static void test_kernel_limit(void **state)
{
	struct pdd_frame *frames[64];
	struct pdd_view view;
	struct maps_limit limit;
	uint32_t kind;
	uint64_t i;

	if (!maps_can_reach_limit())
		skip();
	rig_init(&rig, 1024, PDD_LINUX_NO_DEVICE_WRITES);
	fill(64);
	rig_merge(&rig, frames, 0, 20);
	assert_int_equal(rig_create(&rig, frames + 20, 20, 44), 44);
	rig.budget.limit = UINT64_MAX; /* to reach the other one */
	maps_limit_init(&limit);

	/* Held before the limit is reached, as holding may split a mapping. */
	assert_int_equal(rig_hold(&rig, &view, 1, 30, 3), 1);
	assert_int_equal(view.kind, PDD_PAGE_PRIVATE);
	maps_limit_reach(&limit);
	/* The middle one would cut the run into three. */
	assert_int_equal(rig_map(&rig, 31, &frames[31], 1), -ENOSPC);
	for (i = 0; i < 3; i++)
		assert_true(pddi_hold_is_staged(&rig.hold, 30 + i));
	assert_true(pddi_content_equal(view.content, pddi_frame_content(&rig.store, frames[30]),
				       PAGE));
	pddi_hold_release(&rig.hold, 31, 1);
	assert_int_equal(*(volatile unsigned char *)at(31), 32);
	pddi_hold_release(&rig.hold, 30, 1);
	pddi_hold_release(&rig.hold, 32, 1);
	assert_null(rig.hold.memory);
	for (i = 30; i < 33; i++)
		assert_int_equal(*(volatile unsigned char *)at(i), i + 1);
	/* Another one in the middle of a mapping: either it cannot be held, or not be mapped. */
	for (i = 40; i < 60; i += 2) {
		int n = rig_hold(&rig, &view, 1, i, 1);

		if (n < 0) {
			assert_int_equal(n, -ENOMEM);
		} else if (rig_map(&rig, i, &frames[i], 1) < 0) {
			pddi_hold_release(&rig.hold, i, 1);
		}
		assert_int_equal(*(volatile unsigned char *)at(i), i + 1);
	}
	assert_null(rig.hold.memory);
	/* The undo needs no mapping. */
	assert_int_equal(pddi_frames_unmap(&rig.memory, 0, 20), 20);
	for (i = 0; i < 20; i++) {
		kind = rig_kind(&rig, i);
		assert_int_equal(kind, PDD_PAGE_PRIVATE);
		assert_int_equal(at(i)[9], i + 1);
	}
	maps_limit_leave(&limit);
	assert_int_equal(thread_works(), 0);
	rig_fini(&rig);
}

static void test_neighbours_join(void **state)
{
	struct pdd_frame *frames[512];
	uint64_t i, before;

	rig_init(&rig, 512, PDD_LINUX_NO_DEVICE_WRITES);
	fill(512);
	before = inside();
	/* In pieces, forwards and backwards and the middle at last: one mapping at the end. */
	rig_merge(&rig, frames + 0, 0, 100);
	assert_int_equal(inside(), before + 1);
	rig_merge(&rig, frames + 100, 100, 100);
	assert_int_equal(inside(), before + 1);
	rig_merge(&rig, frames + 300, 300, 212);
	rig_merge(&rig, frames + 250, 250, 50);
	assert_int_equal(inside(), before + 2);
	rig_merge(&rig, frames + 200, 200, 50);
	assert_int_equal(inside(), 1);

	/* A page that was written and gets its frame back joins again. */
	for (i = 0; i < 512; i += 4)
		at(i)[0] ^= 1;
	for (i = 0; i < 512; i += 4)
		at(i)[0] ^= 1;
	assert_int_equal(inside(), 1);
	for (i = 0; i < 512; i += 4) {
		assert_int_equal(rig_kind(&rig, i), PDD_PAGE_PRIVATE);
		assert_int_equal(try_map(frames[i], i), 1);
	}
	printf("128 pages written and merged again in one mapping: %d mappings\n", (int)inside());
	assert_int_equal(inside(), 1);
	for (i = 0; i < 512; i++)
		assert_int_equal(rig_kind(&rig, i), PDD_PAGE_SHARED);
	rig_fini(&rig);
}

/* Nothing is there, or the kernel's zero page. */
static void assert_no_memory(uint64_t page)
{
	enum pdd_page_kind kind = rig_kind(&rig, page);

	assert_true(kind == PDD_PAGE_ABSENT || kind == PDD_PAGE_ZERO);
}

/* Zero pages cost no mapping, and give back the one that they had. */
static void test_zero_pages_cost_nothing(void **state)
{
	struct pdd_frame *frames[16];
	struct pdd_view views[4];
	uint64_t before, i;

	rig_init(&rig, 512, PDD_LINUX_NO_DEVICE_WRITES);
	fill(512);
	before = inside();
	for (i = 0; i < 512; i += 2) {
		memset(at(i), 0, PAGE);
		assert_int_equal(rig_hold(&rig, views, 4, i, 1), 1);
		assert_int_equal(rig_zero(&rig, i, 1), 1);
		assert_no_memory(i);
	}
	assert_int_equal(inside(), before);
	memset(at(100), 1, 16 * PAGE);
	rig_merge(&rig, frames, 100, 16);
	assert_int_equal(inside(), before + 2);
	memset(at(100), 0, 16 * PAGE);
	assert_int_equal(rig_hold(&rig, views, 4, 100, 16), 1);
	assert_int_equal(rig_zero(&rig, 100, 16), 16);
	assert_no_memory(107);
	assert_int_equal(at(107)[5], 0);
	printf("16 zeroed in a mapping of the store: %d mappings, %d before\n", (int)inside(),
	       (int)before);
	assert_int_equal(inside(), before);
	rig_fini(&rig);
}

/* A released hold leaves the memory in one mapping, with nothing registered. */
static void test_release_leaves_nothing(void **state)
{
	struct pdd_view views[4];
	uint32_t flags;
	uint64_t before, i;

	rig_init(&rig, 512, PDD_LINUX_NO_DEVICE_WRITES);
	fill(500);
	before = inside();
	for (i = 0; i < 512; i += 7) {
		uint64_t n = 512 - i < 50 ? 512 - i : 50;

		assert_true(rig_hold(&rig, views, 4, i, n) >= 1);
		pddi_hold_release(&rig.hold, i, n);
	}
	assert_int_equal(inside(), before);
	/* A registration shows up as a flag that is not accepted. */
	assert_int_equal(pddi_mappings_inspect(&flags, (uintptr_t)at(0), (uintptr_t)at(512)), 0);
	rig_fini(&rig);
}

/* --- flags --- */

static void test_flags_stay(void **state)
{
	struct pdd_frame *frames[8];
	struct pdd_view views[2];

	rig_init(&rig, 64, PDD_LINUX_NO_DEVICE_WRITES);
	maps_set_all_flags(&rig);
	fill(64);
	assert_true(maps_has_all_flags(at(8)));
	rig_merge(&rig, frames, 8, 8);
	assert_true(maps_is_store(at(8)));
	assert_true(maps_has_all_flags(at(8)));
	assert_int_equal(pddi_frames_unmap(&rig.memory, 8, 8), 8);
	memset(at(8), 0, 8 * PAGE);
	assert_int_equal(rig_hold(&rig, views, 2, 8, 8), 1);
	assert_int_equal(rig_zero(&rig, 8, 8), 8);
	assert_false(maps_is_store(at(8)));
	assert_true(maps_has_all_flags(at(8)));
	rig_fini(&rig);
}

static void test_refused_memory(void **state)
{
	uint32_t flags;
	unsigned char *m = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t a = (uintptr_t)m;
	void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), 0);
	assert_int_equal(pddi_mappings_inspect(&flags, (uintptr_t)shared, (uintptr_t)shared + PAGE),
			 -EACCES);
	mprotect(m + 10 * PAGE, PAGE, PROT_READ);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), -EACCES);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 10 * PAGE), 0);
	mprotect(m + 10 * PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), -EACCES);
	mprotect(m + 10 * PAGE, PAGE, PROT_READ | PROT_WRITE);
	/* By its number: a sanitizer makes mlock() do nothing. */
	if (!syscall(SYS_mlock, m + 20 * PAGE, PAGE)) {
		assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), -EACCES);
		syscall(SYS_munlock, m + 20 * PAGE, PAGE);
	}
	/* Not all alike: what takes its place could not have the flags of both. */
	madvise(m + 30 * PAGE, PAGE, MADV_DONTDUMP);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), -EACCES);
	madvise(m + 30 * PAGE, PAGE, MADV_DODUMP);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), 0);
	munmap(m + 40 * PAGE, PAGE);
	assert_int_equal(pddi_mappings_inspect(&flags, a, a + 64 * PAGE), -ENOMEM);
	munmap(m + 63 * PAGE, PAGE);
	assert_int_equal(pddi_mappings_inspect(&flags, a + 41 * PAGE, a + 63 * PAGE), 0);
	munmap(m, 64 * PAGE);
	munmap(shared, PAGE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_kernel_limit),
		cmocka_unit_test(test_neighbours_join),
		cmocka_unit_test(test_zero_pages_cost_nothing),
		cmocka_unit_test(test_release_leaves_nothing),
		cmocka_unit_test(test_flags_stay),
		cmocka_unit_test(test_refused_memory),
	};
	struct pddi_probe probe;
	bool able;

	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.facilities.write_protect && probe.pagemap_fd >= 0;
	pddi_probe_fini(&probe);
	if (!able) {
		printf("skipped: pages cannot be held in both ways here\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
