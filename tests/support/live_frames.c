/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_frames.c - the hooks of live memory that hold pages and let them show frames. A page is held
 * and ended by the same thread, once, and replaced by what it shows. Frames are used between
 * frames_create and frame_free only, and freed when no page shows them.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "live_internal.h"

/* ---- hold ---- */

static void end_hold(struct live_region *region, uint64_t number)
{
	region->pages[number].held = false;
	live_page_unlock(&region->pages[number]);
	live_end_use(region, number, 1);
}

/* A page that this thread holds. */
static struct live_page *held_page(struct live_region *region, uint64_t number)
{
	struct live_page *page = &region->pages[number];

	live_require(atomic_load_explicit(&page->lock, memory_order_relaxed) == live_me.number &&
			     page->held,
		     "a page is not held");
	return page;
}

int live_hold(void *ctx, struct pdd_region *pdd_region, struct pdd_view *views, uint32_t nviews,
	      uint64_t first, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);
	uint32_t n = 0;

	live_enter(live, true);
	live_check_range(region, first, npages, true);
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	for (uint64_t i = first; i < first + npages; i++) {
		struct live_page *page = &region->pages[i];
		bool room, refused = live_fails(live);
		struct pdd_view view;

		live_page_lock(page);
		view = live_view_of(region, i);
		if (refused)
			view = (struct pdd_view){
				.npages = 1, .kind = PDD_PAGE_REFUSED, .reason = PDD_REASON_PINNED};
		room = live_append(views, &n, nviews, view);
		if (room && view.kind == PDD_PAGE_PRIVATE) {
			page->held = true;
			live_use(region, i, 1);
		} else {
			live_page_unlock(page);
		}
		if (!room)
			break;
	}
	live_let_others(live);
	return (int)n;
}

void live_release(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct live_region *region = region_of(pdd_region);

	live_enter(ctx, true);
	live_check_range(region, first, npages, true);
	for (uint64_t i = first; i < first + npages; i++) {
		held_page(region, i);
		end_hold(region, i);
	}
}

/* ---- frames ---- */

static struct live_frame *new_frame(struct live *live, const void *content, uint32_t domain)
{
	const _Atomic(uint64_t) *words = content;
	struct live_frame *frame = calloc(1, sizeof(*frame));

	live_require(frame, "out of memory");
	frame->domain = domain;
	atomic_init(&frame->refs, 1);
	for (unsigned i = 0; i < LIVE_WORDS; i++)
		frame->data[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
	pthread_mutex_lock(&live->frames_lock);
	frame->next = live->frames;
	if (frame->next)
		frame->next->prev = frame;
	live->frames = frame;
	pthread_mutex_unlock(&live->frames_lock);
	return frame;
}

int live_frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
		       uint32_t nframes, uint32_t domain)
{
	struct live *live = ctx;
	uint32_t n = (uint32_t)live_part(live, nframes);

	live_enter(live, true);
	if (live_fails(live))
		return live_an_errno();
	for (uint32_t i = 0; i < n; i++)
		frames[i] = &new_frame(live, wishes[i].content, domain)->frame;
	live_let_others(live);
	return (int)n;
}

static struct live_frame *live_one(struct pdd_frame *pdd_frame)
{
	struct live_frame *frame = frame_of_live(pdd_frame);

	live_require(!atomic_load(&frame->freed), "a frame is used after frame_free");
	return frame;
}

static void check_equal(const struct live_region *region, uint64_t number,
			const struct live_frame *frame)
{
	live_require(frame->domain == region->space->domain, "a frame of another domain is mapped");
	for (unsigned i = 0; i < LIVE_WORDS; i++)
		live_require(atomic_load_explicit(&region->words[number * LIVE_WORDS + i],
						  memory_order_relaxed) == frame->data[i],
			     "a page is replaced by a frame of another content");
}

static void show(struct live_page *page, struct live_frame *frame)
{
	page->kind = PDD_PAGE_SHARED;
	page->frame = frame;
	atomic_fetch_add(&frame->maps, 1);
	atomic_fetch_add(&frame->refs, 1);
}

int live_frames_map(void *ctx, struct pdd_region *pdd_region, uint64_t first,
		    struct pdd_frame *const *frames, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);

	live_enter(live, true);
	live_check_range(region, first, npages, true);
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	for (uint64_t i = 0; i < npages; i++) {
		struct live_page *page = held_page(region, first + i);
		struct live_frame *frame = live_one(frames[i]);

		check_equal(region, first + i, frame);
		show(page, frame);
		end_hold(region, first + i);
	}
	live_let_others(live);
	return (int)npages;
}

int live_zero_map(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);

	live_enter(live, true);
	live_check_range(region, first, npages, true);
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	for (uint64_t i = first; i < first + npages; i++) {
		struct live_page *page = held_page(region, i);

		for (unsigned w = 0; w < LIVE_WORDS; w++)
			live_require(atomic_load_explicit(&region->words[i * LIVE_WORDS + w],
							  memory_order_relaxed) == 0,
				     "a page that is not zero is replaced by the zero page");
		page->kind = PDD_PAGE_ZERO;
		end_hold(region, i);
	}
	live_let_others(live);
	return (int)npages;
}

int live_frames_unmap(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);

	live_enter(live, true);
	live_check_range(region, first, npages, false);
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	for (uint64_t i = first; i < first + npages; i++) {
		live_page_lock(&region->pages[i]);
		live_require(!region->pages[i].held, "a page of a locked space is held");
		live_make_private(region, i);
		live_page_unlock(&region->pages[i]);
	}
	return (int)npages;
}

const void *live_frame_content(void *ctx, struct pdd_frame *pdd_frame)
{
	struct live *live = ctx;
	struct live_frame *frame = live_one(pdd_frame);

	live_enter(live, false);
	if (live->options.losses && live_random(10000) < live->options.losses)
		atomic_store(&frame->lost, true);
	return atomic_load(&frame->lost) ? NULL : frame->data;
}

void live_frame_free(void *ctx, struct pdd_frame *pdd_frame)
{
	struct live_frame *frame = live_one(pdd_frame);
	bool mapped = atomic_load(&frame->maps);

	live_enter(ctx, true);
	live_require(!mapped || atomic_load(&frame->lost), "a frame is freed while pages show it");
	atomic_store(&frame->freed, true);
	live_frame_put(ctx, frame);
}

bool live_frame_is_mapped(void *ctx, struct pdd_frame *pdd_frame)
{
	const struct live_frame *frame = live_one(pdd_frame);

	live_enter(ctx, false);
	return atomic_load(&frame->maps) && !atomic_load(&frame->lost);
}

int live_frames_remap(void *ctx, struct pdd_region *pdd_region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);
	uint64_t done = 0;

	live_enter(live, true);
	live_check_range(region, first, npages, true);
	if (live_fails(live))
		return live_an_errno();
	live_use(region, first, npages);
	for (bool shows = true; shows && done < npages; done += shows) {
		struct live_page *page = &region->pages[first + done];
		struct live_frame *frame = live_one(frames[done]);

		live_page_lock(page);
		shows = page->kind == PDD_PAGE_SHARED;
		if (shows) {
			live_require(page->frame->domain == frame->domain &&
					     !memcmp(page->frame->data, frame->data,
						     sizeof(frame->data)),
				     "a page is to show a frame of another content or domain");
			live_drop_frame(live, page);
			show(page, frame);
		}
		live_page_unlock(page);
	}
	live_end_use(region, first, npages);
	return (int)done;
}
