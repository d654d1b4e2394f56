/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_internal.h - what the hooks of live memory have in common.
 */
#ifndef PDD_TEST_LIVE_INTERNAL_H
#define PDD_TEST_LIVE_INTERNAL_H

#include "live.h"

static inline struct live_region *region_of(struct pdd_region *region)
{
	return (struct live_region *)(void *)region; /* first member */
}

static inline struct live_space *space_of(struct pdd_space *space)
{
	return (struct live_space *)(void *)space;
}

static inline struct live_frame *frame_of_live(struct pdd_frame *frame)
{
	return (struct live_frame *)(void *)frame;
}

/* Zeroed. */
void *live_allocate(size_t n, size_t size);
/* A word of what a page shows; and of a private one. The page is locked. */
uint64_t live_shown_word(const struct live_region *region, uint64_t number, unsigned i);
void live_set_word(struct live_region *region, uint64_t number, unsigned i, uint64_t word);

/* A hook is called: whether it may be, now. */
void live_enter(struct live *live, bool may_sleep);
void live_let_others(const struct live *live);
/* Whether it is to fail, with what, and how much of a range is to be done. */
bool live_fails(struct live *live);
int live_an_errno(void);
uint64_t live_part(const struct live *live, uint64_t n);
/* Whether this thread has locked a space as a step or a walk. */
bool live_is_mine(const struct live_space *space);
/* Pages of one extent are given to a hook of a step or a walk; else to one of an owner. */
void live_check_range(const struct live_region *region, uint64_t first, uint64_t npages, bool step);
/* A thread has pages of an extent, so that nobody else may; and has them no more. */
void live_use(struct live_region *region, uint64_t page, uint64_t npages);
void live_end_use(struct live_region *region, uint64_t page, uint64_t npages);
/* What stands at a page, whose lock is held; and one view more, false: there is no room. */
struct pdd_view live_view_of(struct live_region *region, uint64_t number);
bool live_append(struct pdd_view *views, uint32_t *n, uint32_t nviews, struct pdd_view view);

/* The hooks of live_frames.c. */
int live_hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
	      uint64_t first, uint64_t npages);
void live_release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);
int live_frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
		       uint32_t nframes, uint32_t domain);
int live_frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		    struct pdd_frame *const *frames, uint64_t npages);
int live_zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);
int live_frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);
const void *live_frame_content(void *ctx, struct pdd_frame *frame);
void live_frame_free(void *ctx, struct pdd_frame *frame);
bool live_frame_is_mapped(void *ctx, struct pdd_frame *frame);
int live_frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages);

#endif
