/* SPDX-License-Identifier: BSD-2-Clause */
/* plain_memory.c - see plain_memory.h. */
#define _POSIX_C_SOURCE 200809L

#include "plain_memory.h"

#include <string.h>

#include "huge_memory.h"
#include "noop_hooks.h"

/* What pages show that zero_map was called for. */
static const unsigned char zeros[PLAIN_PAGE_BYTES];
static struct plain_frame zero_page;

static struct plain_memory *memory_of(struct pdd_region *region)
{
	return (struct plain_memory *)(void *)((unsigned char *)region -
					       offsetof(struct plain_memory, region));
}

static struct plain_frame *frame_of(struct pdd_frame *frame)
{
	return (struct plain_frame *)(void *)frame;
}

_Static_assert(offsetof(struct plain_frame, frame) == 0, "frame_of casts");

static unsigned char *own_page(const struct plain_memory *memory, uint64_t page)
{
	return memory->bytes + page * PLAIN_PAGE_BYTES;
}

const void *plain_memory_page(const struct plain_memory *memory, uint64_t page)
{
	const struct plain_frame *frame = memory->shown[page];

	if (frame == &zero_page)
		return zeros;
	return frame ? frame->bytes : own_page(memory, page);
}

/* ---- hooks ---- */

static void show(struct plain_memory *memory, uint64_t page, struct plain_frame *frame)
{
	uint16_t *nshown = &memory->nshown[page / PDD_EXTENT_PAGES];

	*nshown = (uint16_t)(*nshown - !!memory->shown[page] + !!frame);
	memory->shown[page] = frame;
}

static enum pdd_page_kind kind_of(const struct plain_frame *frame)
{
	if (!frame)
		return PDD_PAGE_PRIVATE;
	return frame == &zero_page ? PDD_PAGE_ZEROED : PDD_PAGE_SHARED;
}

/* A range of one extent. */
static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	const struct plain_memory *memory = memory_of(region);
	uint64_t at = first, end = first + npages;
	uint32_t n = 0;

	while (n < nviews && at < end) {
		struct pdd_view *view = &views[n++];
		enum pdd_page_kind kind = kind_of(memory->shown[at]);

		*view = (struct pdd_view){ .kind = (uint8_t)kind, .npages = 1 };
		if (kind == PDD_PAGE_PRIVATE)
			view->content = own_page(memory, at);
		if (!memory->nshown[at / PDD_EXTENT_PAGES])
			view->npages = end - at;
		while (at + view->npages < end && kind_of(memory->shown[at + view->npages]) == kind)
			view->npages++;
		at += view->npages;
	}
	return (int)n;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct plain_memory *memory = ctx;
	uint32_t n = 0;

	pthread_mutex_lock(&memory->lock);
	for (; n < nframes && memory->free; n++) {
		frames[n] = &memory->free->frame;
		memory->free = memory->free->next;
		memory->nused++;
	}
	pthread_mutex_unlock(&memory->lock);
	for (uint32_t i = 0; i < n; i++)
		memcpy(frame_of(frames[i])->bytes, wishes[i].content, PLAIN_PAGE_BYTES);
	return (int)n;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		show(memory_of(region), first + i, frame_of(frames[i]));
	return (int)npages;
}

static int frames_remap(void *ctx, struct pdd_region *region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	struct plain_memory *memory = memory_of(region);
	int n = 0;

	while ((uint64_t)n < npages && kind_of(memory->shown[first + (uint64_t)n]) == PDD_PAGE_SHARED) {
		memory->shown[first + (uint64_t)n] = frame_of(frames[n]);
		n++;
	}
	return n;
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	for (uint64_t i = first; i < first + npages; i++)
		show(memory_of(region), i, &zero_page);
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct plain_memory *memory = memory_of(region);

	for (uint64_t i = first; i < first + npages; i++) {
		if (!memory->shown[i])
			continue;
		memcpy(own_page(memory, i), plain_memory_page(memory, i), PLAIN_PAGE_BYTES);
		show(memory, i, NULL);
	}
	return (int)npages;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	return frame_of(frame)->bytes;
}

static void give_back(struct plain_memory *memory, struct plain_frame *frame)
{
	frame->next = memory->free;
	memory->free = frame;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	struct plain_memory *memory = ctx;

	pthread_mutex_lock(&memory->lock);
	give_back(memory, frame_of(frame));
	memory->nused--;
	pthread_mutex_unlock(&memory->lock);
}

const struct pdd_ops plain_ops = {
	.size = sizeof(plain_ops),
	.space_trylock = noop_space_trylock,
	.space_unlock = noop_space_unlock,
	.pages_get = pages_get,
	.pages_put = noop_range,
	.hold = pages_get,
	.release = noop_range,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.zero_map = zero_map,
	.frames_remap = frames_remap,
};

/* ---- set-up ---- */

void plain_memory_init(struct plain_memory *memory, uint64_t npages, uint64_t nframes)
{
	memset(memory, 0, sizeof(*memory));
	memory->room = npages;
	memory->nframes = nframes;
	memory->memory = huge_alloc(npages * PLAIN_PAGE_BYTES);
	memory->shown = huge_alloc(npages * sizeof(struct plain_frame *));
	memory->nshown = huge_alloc(pdd_region_extents(npages) * sizeof(*memory->nshown));
	if (nframes) {
		memory->frames = huge_alloc(nframes * sizeof(*memory->frames));
		memory->frame_bytes = huge_alloc(nframes * PLAIN_PAGE_BYTES);
	}
	for (uint64_t i = 0; i < nframes; i++)
		memory->frames[i].bytes = memory->frame_bytes + i * PLAIN_PAGE_BYTES;
	pthread_mutex_init(&memory->lock, NULL);
	plain_memory_reset(memory, 0, npages);
}

void plain_memory_fini(struct plain_memory *memory)
{
	huge_free(memory->memory, memory->room * PLAIN_PAGE_BYTES);
	huge_free(memory->shown, memory->room * sizeof(struct plain_frame *));
	huge_free(memory->nshown, pdd_region_extents(memory->room) * sizeof(*memory->nshown));
	huge_free(memory->frames, memory->nframes * sizeof(*memory->frames));
	huge_free(memory->frame_bytes, memory->nframes * PLAIN_PAGE_BYTES);
	pthread_mutex_destroy(&memory->lock);
}

void plain_memory_reset(struct plain_memory *memory, uint64_t first, uint64_t npages)
{
	memset(&memory->space, 0, sizeof(memory->space));
	memset(&memory->region, 0, sizeof(memory->region));
	memset(memory->shown, 0, npages * sizeof(struct plain_frame *));
	memset(memory->nshown, 0, pdd_region_extents(npages) * sizeof(*memory->nshown));
	memory->bytes = memory->memory + first * PLAIN_PAGE_BYTES;
	memory->npages = npages;
	memory->free = NULL;
	for (uint64_t i = memory->nframes; i > 0; i--)
		give_back(memory, &memory->frames[i - 1]);
	memory->nused = 0;
}

/* ---- contents ---- */

/* Word i of content number `content`; of random ones, all words of all contents are different. */
static uint64_t word_of(enum plain_fill fill, uint64_t content, unsigned i)
{
	if (fill == PLAIN_COUNTER)
		return i ? 0 : content + 1; /* no page is all zero */
	return pdd_checksum_mix(content * (PLAIN_PAGE_BYTES / 8) + i + 1);
}

void plain_fill_page(void *page, enum plain_fill fill, uint64_t content)
{
	uint64_t *words = page;

	for (unsigned i = 0; i < PLAIN_PAGE_BYTES / 8; i++)
		words[i] = word_of(fill, content, i);
}

bool plain_page_is(const void *page, enum plain_fill fill, uint64_t content)
{
	const uint64_t *words = page;

	for (unsigned i = 0; i < PLAIN_PAGE_BYTES / 8; i++)
		if (words[i] != word_of(fill, content, i))
			return false;
	return true;
}
