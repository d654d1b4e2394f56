/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track_holds.c - tracking and holding together (fact 22 of the adapter): a page is registered
 * with one userfaultfd at a time, is tracked again afterwards, and nobody waits for a registration
 * that was left behind. Where a mistake would make an access wait for ever, an alarm ends the test.
 */
#define _GNU_SOURCE 1
#include "tracked.h"

#include <pthread.h>
#include <stdatomic.h>

#include "linux/discard.h"
#include "linux/refile.h"
#include "linux/uapi.h"
#include "linux/uffd.h"

/* A second registration with fewer modes changes nothing, which is why holds unregister. */
static void test_the_trap(void **state)
{
	char flags[MAPS_FLAGS_MAX];
	bool store;
	int uffd;

	init(0);
	uffd = rig.probe.track_uffd;
	assert_int_equal(pddi_uffd_register(uffd, at(8), 8, 12,
					    UFFDIO_REGISTER_MODE_WP |
						    UFFDIO_REGISTER_MODE_MISSING),
			 0);
	assert_int_equal(pddi_uffd_register(uffd, at(8), 8, 12, UFFDIO_REGISTER_MODE_WP), 0);
	maps_flags(at(8), flags, &store);
	assert_non_null(strstr(flags, " um "));
	assert_int_equal(pddi_uffd_unregister(uffd, at(8), 8, 12), 0);
	assert_int_equal(pddi_uffd_register(uffd, at(8), 8, 12, UFFDIO_REGISTER_MODE_WP), 0);
	assert_tracked(8, 8);
	fini();
}

static void test_released(void **state)
{
	static const uint32_t all[] = { 0, PDD_LINUX_NO_DEVICE_WRITES,
					PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE };
	size_t i;

	for (i = 0; i < 3; i++) {
		init(all[i]);
		release_run(10, 20);
		release_run(100, 1);
		release_run(590, 20); /* ends in a hole */
		fini();
	}
}

static void test_zeroed(void **state)
{
	struct pdd_view views[4];
	uint64_t before;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(30), 0, 10 * PAGE);
	(void)told();
	before = maps_inside(&rig.memory);
	assert_int_equal(rig_hold(&rig, views, 4, 30, 10), 1);
	assert_int_equal(rig_zero(&rig, 30, 10), 10);
	assert_int_equal(maps_inside(&rig.memory), before);
	assert_tracked(30, 10);
	(void)told();
	at(33)[0] = 1;
	assert_int_equal(told(), 1);
	touch_holes(30, 10);
	fini();
}

/* Frames are registered before the next answer, and told of by it. */
static void test_merged(void **state)
{
	struct pdd_frame *frames[40];
	uint64_t page;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	rig_merge(&rig, frames, 0, 40);
	assert_false(maps_is_registered(at(7)));
	at(9)[0] = 2;
	assert_int_equal(told(), 40);
	assert_tracked(0, 40);
	at(7)[0] = 2;
	assert_int_equal(told(), 1);
	/* Refiled: a new mapping again. */
	assert_int_equal(rig_create(&rig, frames, 20, 1), 1);
	assert_int_equal(pddi_frames_remap(&rig.hold, &rig.budget, &rig.store, &rig.memory, 20,
					   frames, 1),
			 1);
	assert_int_equal(told(), 1);
	at(20)[0] = 2;
	assert_int_equal(told(), 1);
	/* One with a copy of its own is not refiled, and goes on being tracked. */
	assert_int_equal(rig_create(&rig, frames, 9, 1), 1);
	assert_int_equal(pddi_frames_remap(&rig.hold, &rig.budget, &rig.store, &rig.memory, 9,
					   frames, 1),
			 0);
	assert_tracked(9, 1);
	(void)told();
	at(9)[0] = 3;
	assert_int_equal(told(), 1);
	/* Discarded: both kinds. */
	assert_int_equal(pddi_discard(&rig.budget, &rig.memory, 30, 10), 10);
	assert_int_equal(pddi_discard(&rig.budget, &rig.memory, 40, 10), 10);
	for (page = 30; page < 50; page++)
		at(page)[0] = 4;
	assert_int_equal(told(), 20);
	fini();
}

/* Copies in mappings of the store cannot be moved: among pages that can they are protected by the
 * other userfaultfd. */
static void test_mixed_run(void **state)
{
	struct pdd_frame *frames[60];
	struct pdd_view views[40];
	struct uffdio_move move = { .len = PAGE, .mode = UFFDIO_MOVE_MODE_DONTWAKE };
	uint64_t before, page;
	int i, n;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	for (page = 0; page < 60; page += 3) {
		rig_merge(&rig, frames + page, page, 1);
		memset(at(page), (int)page, PAGE);
	}
	(void)told();
	move.src = (uintptr_t)at(3);
	move.dst = (uintptr_t)rig.hold.staging;
	assert_int_equal(ioctl(rig.probe.track_uffd, UFFDIO_MOVE, &move), -1);
	assert_int_equal(errno, EINVAL);

	before = maps_inside(&rig.memory);
	n = rig_hold(&rig, views, 40, 1, 59);
	for (i = 0, page = 1; i < n; page += views[i++].npages) {
		assert_int_equal(views[i].kind, PDD_PAGE_PRIVATE);
		assert_int_equal(views[i].content == at(page), page % 3 == 0);
	}
	assert_int_equal(page, 60);
	/* Some end in another way than the rest. */
	assert_int_equal(rig_create(&rig, frames, 600, 1), 1);
	assert_int_equal(rig_map(&rig, 5, frames, 1), 1);
	assert_int_equal(rig_zero(&rig, 6, 1), 1); /* as if it were zero */
	pddi_hold_release(&rig.hold, 1, 4);
	pddi_hold_release(&rig.hold, 7, 53);
	assert_null(rig.hold.memory);
	assert_in_range(maps_inside(&rig.memory), 1, before + 4);
	(void)told();
	assert_tracked(0, 60);
	touch_holes(10, 50);
	assert_true(told() >= 50);
	fini();
}

/* --- writers wait for held pages, though those of tracked pages do not --- */

struct writer {
	pthread_t thread;
	unsigned char *page;
	atomic_bool done;
};

static void *write_once(void *arg)
{
	struct writer *writer = arg;

	*(volatile unsigned char *)(writer->page + 5) = 9;
	atomic_store(&writer->done, true);
	return NULL;
}

static void start_writer(struct writer *writer, uint64_t page)
{
	writer->page = at(page);
	atomic_store(&writer->done, false);
	assert_int_equal(pthread_create(&writer->thread, NULL, write_once, writer), 0);
	usleep(50000); /* a mistake is seen only if it comes to its write by then */
	assert_false(atomic_load(&writer->done));
}

static void test_writers_wait(void **state)
{
	struct pdd_frame *frames[2];
	struct pdd_view views[4];
	struct writer writers[2];

	init(PDD_LINUX_NO_DEVICE_WRITES);
	rig_merge(&rig, frames, 10, 2);
	at(10)[0] = 2;
	(void)told();
	/* Protected, and moved. */
	assert_int_equal(rig_hold(&rig, views, 4, 9, 2), 2);
	start_writer(&writers[0], 9);
	start_writer(&writers[1], 10);
	pddi_hold_release(&rig.hold, 9, 2);
	pthread_join(writers[0].thread, NULL);
	pthread_join(writers[1].thread, NULL);
	assert_int_equal(told(), 2);
	/* A page that shows its frame. */
	assert_int_equal(pddi_hold_framed(&rig.hold, &rig.memory, 11, 1, false), 1);
	start_writer(&writers[0], 11);
	pddi_hold_release(&rig.hold, 11, 1);
	pthread_join(writers[0].thread, NULL);
	assert_int_equal(told(), 1);
	assert_int_equal(at(9)[5] + at(10)[5] + at(11)[5], 27);
	fini();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_trap),
		cmocka_unit_test(test_released),
		cmocka_unit_test(test_zeroed),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_mixed_run),
		cmocka_unit_test(test_writers_wait),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
