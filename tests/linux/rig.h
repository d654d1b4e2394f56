/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig.h - the adapter's parts put together without an engine, for tests that drive the hooks
 * themselves.
 */
#ifndef TESTS_LINUX_RIG_H
#define TESTS_LINUX_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "content.h"
#include "linux/hold.h"
#include "linux/mappings.h"
#include "linux/probe.h"
#include "linux/remap.h"
#include "linux/store.h"
#include "linux/track.h"
#include "linux/view.h"

#define PAGE ((size_t)4096)
#define SKIPPED 77

#ifndef __has_feature
#define __has_feature(x) 0 /* clang's */
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif

struct rig {
	struct pddi_probe probe;
	struct pddi_pagemap map;
	struct pddi_track track;
	struct pddi_hold hold;
	struct pddi_store store;
	struct pddi_budget budget;
	struct pdd_linux_memory memory;
};

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* xorshift64 */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline uint64_t test_seed(void)
{
	const char *text = getenv("PDD_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : now_ns() | 1;

	printf("seed %llu (PDD_SEED)\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

static inline void rig_add_memory(struct rig *rig, struct pdd_linux_memory *memory,
				  uint64_t npages)
{
	void *start = mmap(NULL, npages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t flags;

	assert_ptr_not_equal(start, MAP_FAILED);
	memset(memory, 0, sizeof(*memory));
	(void)madvise(start, npages * PAGE, MADV_NOHUGEPAGE);
	assert_int_equal(pddi_mappings_inspect(&flags, (uintptr_t)start,
					       (uintptr_t)start + npages * PAGE),
			 0);
	assert_int_equal(pddi_memory_init(memory, start, npages, 12,
					  flags | PDDI_MEMORY_NOHUGEPAGE),
			 0);
	assert_int_equal(pddi_store_area_add(&rig->store, &memory->area, npages), 0);
}

static inline void rig_drop_memory(struct rig *rig, struct pdd_linux_memory *memory)
{
	pddi_store_area_drop(&rig->store, memory->area);
	munmap(memory->start, memory->npages * PAGE);
	pddi_memory_fini(memory);
}

static inline void rig_init(struct rig *rig, uint64_t npages, uint32_t flags)
{
	memset(rig, 0, sizeof(*rig));
	pddi_probe_init(&rig->probe);
	rig->map = (struct pddi_pagemap){
		.fd = rig->probe.pagemap_fd,
		.scan = rig->probe.facilities.pagemap_scan,
		.vector = PDDI_PAGEMAP_VECTOR,
		.page_shift = 12,
	};
	assert_int_equal(pddi_track_init(&rig->track, &rig->probe, 12, flags), 0);
	assert_int_equal(pddi_hold_init(&rig->hold, &rig->probe, &rig->map, 12, flags), 0);
	assert_int_equal(pddi_store_init(&rig->store, 12), 0);
	assert_int_equal(pddi_budget_init(&rig->budget, 0), 0);
	rig_add_memory(rig, &rig->memory, npages);
}

static inline void rig_fini(struct rig *rig)
{
	rig_drop_memory(rig, &rig->memory);
	pddi_store_fini(&rig->store);
	pddi_hold_fini(&rig->hold);
	pddi_track_fini(&rig->track);
	pddi_probe_fini(&rig->probe);
}

/* Frames with the contents of pages of the memory, at their places if they are free. */
static inline int rig_create(struct rig *rig, struct pdd_frame **frames, uint64_t first, uint32_t n)
{
	struct pdd_frame_wish wishes[PDD_EXTENT_PAGES];
	uint32_t i;

	for (i = 0; i < n; i++)
		wishes[i] = (struct pdd_frame_wish){
			.content = pddi_memory_address(&rig->memory, first + i),
			.region = &rig->memory.region,
			.page = first + i,
		};
	return pddi_store_create(&rig->store, frames, wishes, n);
}

static inline int rig_hold(struct rig *rig, struct pdd_view *views, uint32_t nviews, uint64_t first,
			   uint64_t n)
{
	return pddi_hold_get(&rig->hold, &rig->memory, views, nviews, first, n);
}

static inline int rig_map(struct rig *rig, uint64_t first, struct pdd_frame *const *frames,
			  uint64_t n)
{
	return pddi_frames_map(&rig->hold, &rig->budget, &rig->store, &rig->memory, first, frames,
			       n);
}

static inline int rig_zero(struct rig *rig, uint64_t first, uint64_t n)
{
	return pddi_zero_map(&rig->hold, &rig->budget, &rig->memory, first, n);
}

/* Merge pages with frames of their own content: nobody may be writing them. */
static inline void rig_merge(struct rig *rig, struct pdd_frame **frames, uint64_t first, uint32_t n)
{
	struct pdd_view views[1];

	assert_int_equal(rig_create(rig, frames, first, n), (int)n);
	assert_int_equal(rig_hold(rig, views, 1, first, n), 1);
	assert_int_equal(views[0].kind, PDD_PAGE_PRIVATE);
	assert_int_equal(views[0].npages, n);
	assert_int_equal(rig_map(rig, first, frames, n), (int)n);
}

/* Ask which pages were written; bits[0] is that of the first. All must be told of. */
static inline void rig_written(struct rig *rig, uint64_t *bits, uint64_t first, uint64_t n)
{
	memset(bits, 0, PDDI_BITMAP_WORDS(n) * sizeof(*bits));
	assert_int_equal(pddi_track_written(&rig->track, &rig->memory, bits, first, n), n);
}

/* How many pages were written. */
static inline uint64_t rig_count_written(struct rig *rig, uint64_t first, uint64_t n)
{
	static uint64_t bits[PDDI_BITMAP_WORDS(PDD_WRITTEN_PAGES_MAX)];

	rig_written(rig, bits, first, n);
	return pddi_bits_count(bits, 0, n);
}

/* Ask about the whole memory now and then, so that it is tracked while other things are tested. */
static inline void rig_track_at_times(struct rig *rig, uint64_t random)
{
	if (rig->probe.track_uffd >= 0 && random % 16 == 0)
		(void)rig_count_written(rig, 0, rig->memory.npages);
}

/* Whether writes can be tracked and pages be held in both ways here; says so if not. */
static inline bool can_track(void)
{
	struct pddi_probe probe;
	bool able;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pddi_probe_init(&probe);
	able = probe.facilities.track_writes && probe.facilities.write_protect;
	fputs(probe.missing, stdout);
	pddi_probe_fini(&probe);
	if (!able)
		printf("skipped: writes cannot be tracked here\n");
	return able;
}

/* What stands at one page. */
static inline enum pdd_page_kind rig_kind(struct rig *rig, uint64_t page)
{
	struct pdd_view view;

	assert_int_equal(pddi_view_get(&rig->map, &rig->memory, &view, 1, page, 1), 1);
	return (enum pdd_page_kind)view.kind;
}

/* Note that a frame was mapped at a page: what was mapped there before is not shown any more. */
static inline void rig_show(struct rig *rig, struct pdd_frame **shown, uint64_t page,
			    struct pdd_frame *frame)
{
	if (shown[page])
		pddi_store_free(&rig->store, shown[page]);
	shown[page] = frame;
}

/*
 * Merge those pages of a run that can be held and are equal to a frame then, which is one of their
 * content of a moment ago: they may be written all the time.
 * @param shown  in, out: the frame that was mapped at each page of the memory last
 * @return the number of pages merged
 */
static inline uint64_t rig_merge_busy(struct rig *rig, struct pdd_frame **shown, uint64_t first,
				      uint32_t n)
{
	struct pdd_frame *frames[PDD_EXTENT_PAGES];
	struct pdd_view views[PDD_EXTENT_PAGES];
	uint64_t page = first, merged = 0, k;
	int made = rig_create(rig, frames, first, n), nviews, i;

	assert_true(made > 0);
	nviews = rig_hold(rig, views, PDD_EXTENT_PAGES, first, (uint64_t)made);
	assert_true(nviews > 0);
	for (i = 0; i < nviews; page += views[i++].npages) {
		for (k = 0; views[i].kind == PDD_PAGE_PRIVATE && k < views[i].npages; k++) {
			const unsigned char *content = views[i].content;
			struct pdd_frame **frame = &frames[page + k - first];

			if (!pddi_content_equal(content + k * PAGE,
						pddi_frame_content(&rig->store, *frame), PAGE)) {
				pddi_hold_release(&rig->hold, page + k, 1);
				continue;
			}
			assert_int_equal(rig_map(rig, page + k, frame, 1), 1);
			rig_show(rig, shown, page + k, *frame);
			*frame = NULL;
			merged++;
		}
	}
	for (i = 0; i < made; i++)
		if (frames[i])
			pddi_store_free(&rig->store, frames[i]);
	return merged;
}

#endif
