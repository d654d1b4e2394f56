/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.c - the library's hooks (ops.h), each a call into the part of the adapter that does it.
 *
 * None of them calls malloc, waits for a lock, or reads added memory by its address: any of that
 * could wait for a page that is held by the very step that called (bitmap.h, hold.c).
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <time.h>

#include "dedup_internal.h"
#include "discard.h"
#include "refile.h"
#include "remap.h"

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	(void)ctx;
	return pthread_rwlock_tryrdlock(&pddi_memory_of_space(space)->layout) == 0;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	(void)ctx;
	pthread_rwlock_unlock(&pddi_memory_of_space(space)->layout);
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	return pddi_view_get(&dedup->map, pddi_memory_of_region(region), views, nviews, first,
			     npages);
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	/* The pages are read where they are. */
	(void)ctx, (void)region, (void)first, (void)npages;
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	pddi_recent_renew(&dedup->store.recent);
	return pddi_hold_get(&dedup->hold, pddi_memory_of_region(region), views, nviews, first,
			     npages);
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	(void)region;
	pddi_hold_release(&dedup->hold, first, npages);
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct pdd_linux *dedup = ctx;
	int made = pddi_store_create(&dedup->store, frames, wishes, nframes);

	(void)domain; /* the library keeps it in the frame */
	return made == -ENOSPC || made == -EFBIG ? -ENOMEM : made;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	return pddi_frames_map(&dedup->hold, &dedup->budget, &dedup->store,
			       pddi_memory_of_region(region), first, frames, npages);
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	(void)ctx;
	return pddi_frames_unmap(pddi_memory_of_region(region), first, npages);
}

static int frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	return pddi_frames_remap(&dedup->hold, &dedup->budget, &dedup->store,
				 pddi_memory_of_region(region), first, frames, npages);
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	struct pdd_linux *dedup = ctx;

	return pddi_frame_content(&dedup->store, frame);
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	struct pdd_linux *dedup = ctx;

	pddi_store_free(&dedup->store, frame);
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	return pddi_zero_map(&dedup->hold, &dedup->budget, pddi_memory_of_region(region), first,
			     npages);
}

static int64_t pages_discard(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct pdd_linux *dedup = ctx;
	struct pdd_linux_memory *memory = pddi_memory_of_region(region);
	bool in_place = pddi_memory_next_framed(memory, first, first + npages) == first + npages;
	int64_t done = pddi_discard(&dedup->budget, memory, first, npages);

	/* A new mapping joins its neighbours only when it is tracked as they are. Where there is none
	 * nothing was lost, and memory that is not tracked yet would be cut. */
	if (done > 0 && !in_place)
		pddi_track_resume(&dedup->probe, memory, first, (uint64_t)done);
	return done;
}

static int64_t pages_written(void *ctx, struct pdd_region *region, uint64_t *bits, uint64_t first,
			     uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	return pddi_track_written(&dedup->track, pddi_memory_of_region(region), bits, first,
				  npages);
}

uint64_t pddi_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void *ctx)
{
	(void)ctx;
	return pddi_now_ns();
}

static void trace(void *ctx, enum pdd_event event, struct pdd_region *region, uint64_t first,
		  uint64_t npages)
{
	struct pdd_linux *dedup = ctx;

	dedup->trace(dedup->trace_ctx, event,
		     pddi_memory_address(pddi_memory_of_region(region), first), npages);
}

/*
 * frame_is_mapped is missing, as there are no clones: a child of fork has no deduplicator that
 * knows its pages. frames_remap is there where its hold is safe (hold_framed.c).
 */
void pddi_hooks_get(struct pdd_ops *ops, const struct pdd_linux *dedup)
{
	*ops = (struct pdd_ops){
		.size = sizeof(*ops),
		.space_trylock = space_trylock,
		.space_unlock = space_unlock,
		.pages_get = pages_get,
		.pages_put = pages_put,
		.hold = hold,
		.release = release,
		.frames_create = frames_create,
		.frames_map = frames_map,
		.frames_unmap = frames_unmap,
		.frame_content = frame_content,
		.frame_free = frame_free,
		.zero_map = zero_map,
		.now_ns = now_ns,
		.trace = dedup->trace ? trace : NULL,
		.frames_remap = dedup->hold.protect ? frames_remap : NULL,
		.pages_discard = pages_discard,
		.pages_written = dedup->probe.facilities.track_writes ? pages_written : NULL,
	};
}
