/* SPDX-License-Identifier: BSD-2-Clause */
/* world_hooks.c - the hooks, which count their calls; see world.h. */
#include "world.h"

#include <string.h>

static struct world_space *space_of(struct pdd_space *space)
{
	return (struct world_space *)(void *)space;
}

static struct world_region *region_of(struct pdd_region *region)
{
	return (struct world_region *)(void *)region;
}

static struct world_frame *frame_of(struct pdd_frame *frame)
{
	return (struct world_frame *)(void *)frame;
}

_Static_assert(offsetof(struct world_space, space) == 0, "space_of casts");
_Static_assert(offsetof(struct world_region, region) == 0, "region_of casts");
_Static_assert(offsetof(struct world_frame, frame) == 0, "frame_of casts");

void world_show(struct world_region *region, uint64_t page, struct world_frame *frame)
{
	if (region->shows[page])
		region->shows[page]->nmaps--;
	region->shows[page] = frame;
	if (frame)
		frame->nmaps++;
}

/* ---- hooks ---- */

static void count(void *ctx, enum world_hook hook)
{
	((struct world *)ctx)->calls[hook]++;
}

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	struct world_space *s = space_of(space);

	count(ctx, WORLD_space_trylock);
	return !s->busy_every || ++s->tries % s->busy_every != 0;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
}

/* Two pages belong to one view if both are private or show frames; of a clone, the same frame. */
static bool alike(const struct world *world, const struct world_region *r, uint64_t a, uint64_t b)
{
	const struct world_frame *x = r->shows[a], *y = r->shows[b];

	if (!x || !y || x == &world->zero || y == &world->zero || r->cloned)
		return x == y;
	return true;
}

static int describe(const struct world *world, const struct world_region *r, struct pdd_view *views,
		    uint32_t nviews, uint64_t first, uint64_t end)
{
	uint32_t n = 0;

	for (; n < nviews && first < end; first += views[n++].npages) {
		struct world_frame *frame = r->shows[first];
		struct pdd_view *view = &views[n];

		*view = (struct pdd_view){ .npages = 1 };
		while (first + view->npages < end && alike(world, r, first, first + view->npages))
			view->npages++;
		if (!frame) {
			view->kind = PDD_PAGE_PRIVATE;
			view->content = r->bytes + first * PAGE_BYTES;
		} else if (frame == &world->zero) {
			view->kind = PDD_PAGE_ZERO;
		} else {
			view->kind = r->cloned ? PDD_PAGE_FRAME : PDD_PAGE_SHARED;
			view->frame = &frame->frame;
		}
	}
	return (int)n;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	count(ctx, WORLD_pages_get);
	return describe(ctx, region_of(region), views, nviews, first, first + npages);
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	count(ctx, WORLD_hold);
	return describe(ctx, region_of(region), views, nviews, first, first + npages);
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	count(ctx, WORLD_release);
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct world *world = ctx;

	count(ctx, WORLD_frames_create);
	for (uint32_t i = 0; i < nframes; i++) {
		struct world_frame *frame = world->free_frames;

		world_require(frame, "there are not enough frames");
		world->free_frames = frame->next;
		memcpy(frame->bytes, wishes[i].content, PAGE_BYTES);
		frames[i] = &frame->frame;
	}
	return (int)nframes;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	count(ctx, WORLD_frames_map);
	for (uint64_t i = 0; i < npages; i++)
		world_show(region_of(region), first + i, frame_of(frames[i]));
	return (int)npages;
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct world *world = ctx;

	count(ctx, WORLD_zero_map);
	for (uint64_t i = 0; i < npages; i++)
		world_show(region_of(region), first + i, &world->zero);
	return (int)npages;
}

/* Required, but no scenario unmerges. */
static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	world_require(false, "frames_unmap was called");
	return 0;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	count(ctx, WORLD_frame_content);
	return frame_of(frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	struct world *world = ctx;
	struct world_frame *f = frame_of(frame);

	count(ctx, WORLD_frame_free);
	world_require(f->nmaps == 0, "a frame goes back that pages show");
	f->next = world->free_frames;
	world->free_frames = f;
}

static bool frame_is_mapped(void *ctx, struct pdd_frame *frame)
{
	count(ctx, WORLD_frame_is_mapped);
	return frame_of(frame)->nmaps > 0;
}

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const struct world *world = ctx;

	count(ctx, WORLD_checksum);
	*value = world->options.checksum(*(const uint64_t *)content);
	return 0;
}

static int64_t pages_written(void *ctx, struct pdd_region *region, uint64_t *bits, uint64_t first,
			     uint64_t npages)
{
	struct world_region *r = region_of(region);
	size_t nwords = (size_t)((npages + 63) / 64);

	/* Ranges begin with an extent, and end with one or with the region. */
	count(ctx, WORLD_pages_written);
	memcpy(bits, r->written + first / 64, nwords * sizeof(*bits));
	memset(r->written + first / 64, 0, nwords * sizeof(*bits));
	return (int64_t)npages;
}

static void lock(void *ctx)
{
	struct world *world = ctx;

	count(world, WORLD_lock);
	world_require(!world->is_locked, "the lock is taken twice");
	world->is_locked = true;
}

static void unlock(void *ctx)
{
	struct world *world = ctx;

	world_require(world->is_locked, "the lock is given back twice");
	world->is_locked = false;
}

const struct pdd_ops world_ops = {
	.size = sizeof(world_ops),
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
	.checksum = checksum,
	.frame_is_mapped = frame_is_mapped,
	.pages_written = pages_written,
	.lock = lock,
	.unlock = unlock,
};
