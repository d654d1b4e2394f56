/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tracked.h - a rig whose memory is tracked, for tests of tracking together with other things.
 * Where a mistake would make an access wait for ever, an alarm ends the test.
 */
#ifndef TESTS_LINUX_TRACKED_H
#define TESTS_LINUX_TRACKED_H

#include "maps.h"

#define NPAGES 2048u

static struct rig rig;

static inline unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

static inline void init(uint32_t flags)
{
	rig_init(&rig, NPAGES, flags);
	rig.track.turns = false; /* tells of pages that nobody wrote */
	alarm(60);
	memset(at(0), 1, 600 * PAGE);
	assert_int_equal(rig_count_written(&rig, 0, NPAGES), 600);
}

static inline void fini(void)
{
	pddi_track_stop(&rig.probe, &rig.memory);
	rig_fini(&rig);
	alarm(0);
}

static inline uint64_t told(void)
{
	return rig_count_written(&rig, 0, NPAGES);
}

/* Registered so that writes are told of, and nobody waits. */
static inline void assert_tracked(uint64_t first, uint64_t n)
{
	char flags[MAPS_FLAGS_MAX];
	uint64_t page;
	bool store;

	for (page = first; page < first + n; page++) {
		maps_flags(at(page), flags, &store);
		assert_non_null(strstr(flags, " uw "));
		assert_null(strstr(flags, " um "));
	}
}

/* Whatever stood there goes, and comes again: a fault that waits would wait for ever. */
static inline void touch_holes(uint64_t first, uint64_t n)
{
	uint64_t page;

	for (page = first; page < first + n; page++) {
		assert_int_equal(madvise(at(page), PAGE, MADV_DONTNEED), 0);
		at(page)[0] = 5;
	}
}

/* A run that is not merged: no mapping more, tracked again, holes can be filled. */
static inline void release_run(uint64_t first, uint64_t n)
{
	uint64_t before = maps_inside(&rig.memory);
	struct pdd_view views[4];

	(void)told();
	assert_true(rig_hold(&rig, views, 4, first, n) > 0);
	pddi_hold_release(&rig.hold, first, n);
	assert_int_equal(maps_inside(&rig.memory), before);
	assert_tracked(first, n);
	touch_holes(first, n);
	assert_true(told() >= n);
	assert_int_equal(told(), 0);
	at(first)[1] = 1;
	assert_int_equal(told(), 1);
}

#endif
