/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_view.c - what stands at a page is told rightly: kinds, copies, the marker that looks like a
 * swapped copy (race 25), and answers of many runs (race 15).
 */
#define _GNU_SOURCE 1
#include "rig.h"

#include <sys/mman.h>

#include "linux/uapi.h"

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

static void setup_pages(uint64_t npages)
{
	rig_init(&rig, npages, PDD_LINUX_NO_DEVICE_WRITES);
}

/* Both ways of asking, one after the other. */
static void in_both_ways(void (*test)(void))
{
	test();
	if (rig.map.scan) {
		rig.map.scan = false;
		test();
		rig.map.scan = true;
	}
}

static void assert_view(const struct pdd_view *view, enum pdd_page_kind kind, uint64_t npages)
{
	assert_int_equal(view->kind, kind);
	assert_int_equal(view->npages, npages);
}

static void check_kinds(void)
{
	struct pdd_view views[16];
	int n = pddi_view_get(&rig.map, &rig.memory, views, 16, 0, 512);

	assert_int_equal(n, 8);
	assert_view(&views[0], PDD_PAGE_ABSENT, 10);
	assert_view(&views[1], PDD_PAGE_PRIVATE, 5);
	assert_ptr_equal(views[1].content, at(10));
	assert_view(&views[2], PDD_PAGE_SHARED, 3);
	assert_null(views[2].content);
	assert_view(&views[3], PDD_PAGE_PRIVATE, 1); /* a copy */
	assert_ptr_equal(views[3].content, at(18));
	assert_view(&views[4], PDD_PAGE_SHARED, 2);
	assert_view(&views[5], PDD_PAGE_PRIVATE, 5);
	assert_view(&views[6], PDD_PAGE_ZERO, 5);
	/* Reaches to the next page that is there. */
	assert_view(&views[7], PDD_PAGE_ABSENT, 5000 - 31);
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 16, 4608, 100), 1);
	assert_view(&views[0], PDD_PAGE_ABSENT, 5000 - 4608);
	/* Room for less. */
	n = pddi_view_get(&rig.map, &rig.memory, views, 2, 12, 20);
	assert_int_equal(n, 2);
	assert_view(&views[0], PDD_PAGE_PRIVATE, 3);
	assert_view(&views[1], PDD_PAGE_SHARED, 3);
}

static void check_kinds_without_zero(void)
{
	struct pdd_view views[16];

	/* The zero page looks like any other here, and ABSENT reaches no further than asked. */
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 16, 21, 512 - 21), 2);
	assert_view(&views[0], PDD_PAGE_PRIVATE, 10);
	assert_view(&views[1], PDD_PAGE_ABSENT, 512 - 31);
}

/* Reading would do, but not all kernels then use the zero page. */
static void map_zero_pages(uint64_t first, uint64_t n)
{
	struct uffdio_register reg = { .range = { (uintptr_t)at(first), n * PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = reg.range };

	assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_REGISTER, &reg), 0);
	assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_ZEROPAGE, &zero), 0);
	assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_UNREGISTER, &reg.range), 0);
}

static void test_kinds(void **state)
{
	struct pdd_frame *frames[6];
	uint64_t i;

	setup_pages(65536);
	for (i = 10; i < 26; i++)
		memset(at(i), (int)i, PAGE);
	memset(at(5000), 1, PAGE);
	rig_merge(&rig, frames, 15, 6);
	at(18)[0] = 1;
	map_zero_pages(26, 5);
	if (rig.map.scan)
		check_kinds();
	rig.map.scan = false;
	check_kinds_without_zero();
	rig_fini(&rig);
}

/* ABSENT stops at a mapping of the store, whether its pages are mapped just now or not. */
static void test_absent_stops_at_frames(void **state)
{
	struct pdd_frame *frames[2];
	struct pdd_view views[4];

	setup_pages(200000);
	memset(at(150000), 1, 2 * PAGE);
	rig_merge(&rig, frames, 150000, 2);
	assert_int_equal(madvise(at(150000), 2 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 4, 0, 512), 1);
	assert_view(&views[0], PDD_PAGE_ABSENT, rig.map.scan ? 150000 : 512);
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 4, 150000, 2), 1);
	assert_view(&views[0], PDD_PAGE_SHARED, 2);
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 4, 150528, 512), 1);
	assert_view(&views[0], PDD_PAGE_ABSENT, rig.map.scan ? 200000 - 150528 : 512);
	rig_fini(&rig);
}

/* Leave write-protect markers on pages [first, first + n). */
static void leave_markers(uint64_t first, uint64_t n)
{
	struct uffdio_register reg = { .range = { (uintptr_t)at(first), n * PAGE },
				       .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { .range = reg.range,
					       .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_REGISTER, &reg), 0);
	assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_WRITEPROTECT, &protect), 0);
}

static void check_markers(void)
{
	struct pdd_view views[8];
	uint8_t flags[8];
	uint64_t i, swapped = 0;

	at(11)[0] = 77;                                            /* a copy */
	assert_int_equal(madvise(at(12), 4 * PAGE, MADV_DONTNEED), 0); /* not mapped any more */
	leave_markers(8, 8);
	assert_int_equal(pddi_pagemap_read(&rig.map, flags, at(8), 8), 0);
	for (i = 0; i < 8; i++)
		swapped += flags[i] & PDDI_PAGE_SWAPPED && !(flags[i] & PDDI_PAGE_PRESENT);
	printf("%d markers look like swapped copies\n", (int)swapped);
	assert_int_equal(swapped, 4);
	assert_int_equal(pddi_view_get(&rig.map, &rig.memory, views, 8, 8, 8), 3);
	assert_view(&views[0], PDD_PAGE_SHARED, 3);
	assert_view(&views[1], PDD_PAGE_PRIVATE, 1);
	assert_view(&views[2], PDD_PAGE_SHARED, 4);
	{
		struct uffdio_range range = { (uintptr_t)at(8), 8 * PAGE };

		assert_int_equal(ioctl(rig.probe.uffd, UFFDIO_UNREGISTER, &range), 0);
	}
}

static void test_markers(void **state)
{
	struct pdd_frame *frames[8];
	uint64_t i;

	setup_pages(64);
	if (!rig.probe.facilities.write_protect) {
		rig_fini(&rig);
		skip();
	}
	for (i = 0; i < 16; i++)
		memset(at(i), (int)i + 1, PAGE);
	rig_merge(&rig, frames, 8, 8);
	in_both_ways(check_markers);
	rig_fini(&rig);
}

/* 500 runs in 1,000 pages, answered eight at a time, are the same as asked one by one. */
static void test_many_runs(void **state)
{
	static struct pdd_view views[512];
	uint64_t i, page = 0;
	int n, k;

	setup_pages(1024);
	for (i = 0; i < 1000; i += 2)
		memset(at(i), 1, PAGE);
	for (rig.map.vector = 1; rig.map.vector <= 8; rig.map.vector += 7) {
		for (i = 0; i < 1024; i += 512) {
			page = i;
			n = pddi_view_get(&rig.map, &rig.memory, views, 512, i, 512);
			assert_int_equal(n, i ? 1000 - 512 : 512);
			for (k = 0; k < n; page += views[k++].npages) {
				assert_int_equal(views[k].kind,
						 k % 2 ? PDD_PAGE_ABSENT : PDD_PAGE_PRIVATE);
				if (!(k % 2))
					assert_ptr_equal(views[k].content, at(page));
			}
			assert_int_equal(page, i + 512);
		}
	}
	rig_fini(&rig);
}

/* 601 pages of a range have memory, whoever says so. */
static void test_resident(void **state)
{
	bool scan;

	setup_pages(4096);
	scan = rig.map.scan;
	for (uint64_t i = 0; i < 600; i++)
		memset(at(1000 + i), 1, PAGE);
	memset(at(4095), 1, PAGE);
	for (unsigned i = scan ? 0 : 1; i < 2; i++) {
		rig.map.scan = !i;
		assert_int_equal(pddi_pagemap_resident(&rig.map, at(0), 4096 * PAGE), 601 * PAGE);
		assert_int_equal(pddi_pagemap_resident(&rig.map, at(1001), 598 * PAGE + 1),
				 599 * PAGE);
		assert_int_equal(pddi_pagemap_resident(&rig.map, at(0), 1000 * PAGE), 0);
	}
	rig.map.scan = scan;
	rig_fini(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_absent_stops_at_frames),
		cmocka_unit_test(test_markers),
		cmocka_unit_test(test_many_runs),
		cmocka_unit_test(test_resident),
	};
	struct pddi_probe probe;
	bool able;

	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.pagemap_fd >= 0;
	pddi_probe_fini(&probe);
	if (!able) {
		printf("skipped: pages cannot be held here\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
