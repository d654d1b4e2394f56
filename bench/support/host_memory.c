/* SPDX-License-Identifier: BSD-2-Clause */
/* host_memory.c - see host_memory.h. */
#define _POSIX_C_SOURCE 200809L

#include "host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noop_hooks.h"

static const unsigned char secret[PDD_SECRET_LEN_MAX] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5 };

static struct host_space *space_of(struct pdd_space *space)
{
	return (struct host_space *)(void *)space; /* the first member */
}

static struct host_frame *frame_of(struct pdd_frame *frame)
{
	return (struct host_frame *)(void *)frame; /* the first member */
}

static struct host_space *space_of_region(struct pdd_region *region)
{
	unsigned char *bytes = (unsigned char *)region;

	return (struct host_space *)(void *)(bytes - offsetof(struct host_space, region));
}

_Static_assert(offsetof(struct host_space, space) == 0 && offsetof(struct host_frame, frame) == 0,
	       "space_of and frame_of cast");

/* The contract of ops.h was broken: nothing that is measured would mean anything. */
static void require(bool kept, const char *what)
{
	if (kept)
		return;
	fprintf(stderr, "host memory: %s\n", what);
	abort();
}

/* ---- pages ---- */

/* All words of different contents are different, so a compare ends at the first one. */
static uint64_t word_of(uint64_t content, unsigned i)
{
	return (content * 512 + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned char *own_bytes(const struct host_space *space, uint64_t page)
{
	return space->bytes + page * HOST_PAGE_BYTES;
}

static void show(struct host_page *page, struct host_frame *frame)
{
	if (page->frame)
		page->frame->nmaps--;
	page->frame = frame;
	if (frame)
		frame->nmaps++;
}

void host_write(struct host_space *space, uint64_t page, uint64_t content)
{
	uint64_t *words = (uint64_t *)(void *)own_bytes(space, page);

	show(&space->pages[page], NULL);
	space->pages[page].content = content;
	for (unsigned i = 0; i < HOST_PAGE_BYTES / 8; i++)
		words[i] = word_of(content, i);
}

uint64_t host_wrong_pages(const struct host_space *space)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < space->npages; i++) {
		const struct host_page *page = &space->pages[i];
		const uint64_t *words = (const uint64_t *)(const void *)
			(page->frame ? page->frame->bytes : own_bytes(space, i));
		unsigned same = 0;

		while (same < HOST_PAGE_BYTES / 8 && words[same] == word_of(page->content, same))
			same++;
		wrong += same < HOST_PAGE_BYTES / 8;
	}
	return wrong;
}

/* ---- hooks ---- */

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	struct host_space *s = space_of(space);

	require(!s->nlocked, "a space is locked twice");
	s->tries++;
	if (pthread_rwlock_tryrdlock(&s->lock)) {
		s->misses++;
		return false;
	}
	s->nlocked++;
	return true;
}

void host_space_lock(void *ctx, struct pdd_space *space)
{
	struct host_space *s = space_of(space);

	require(!s->nlocked, "a space is locked twice");
	s->waits++;
	pthread_rwlock_rdlock(&s->lock);
	s->nlocked++;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	struct host_space *s = space_of(space);

	require(s->nlocked == 1, "a space is unlocked that is not locked");
	s->nlocked--;
	pthread_rwlock_unlock(&s->lock);
}

/* A run of private pages, or of such as show frames. */
static uint64_t describe(struct host_space *s, struct pdd_view *view, uint64_t first, uint64_t end)
{
	bool shared = s->pages[first].frame;
	uint64_t n = 1;

	while (first + n < end && !s->pages[first + n].frame == !shared)
		n++;
	*view = (struct pdd_view){ .npages = n };
	view->kind = shared ? PDD_PAGE_SHARED : PDD_PAGE_PRIVATE;
	view->content = shared ? NULL : own_bytes(s, first);
	return n;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct host_space *s = space_of_region(region);
	uint64_t end = first + npages;
	uint32_t n = 0;

	require(s->nlocked, "pages are described whose space is not locked");
	while (n < nviews && first < end)
		first += describe(s, &views[n++], first, end);
	return (int)n;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct host *host = ctx;
	uint32_t n = 0;

	for (; n < nframes && host->free; n++) {
		struct host_frame *frame = host->free;

		host->free = frame->next;
		host->nused++;
		memcpy(frame->bytes, wishes[n].content, HOST_PAGE_BYTES);
		frames[n] = &frame->frame;
	}
	return (int)n;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	struct host_space *s = space_of_region(region);

	require(s->nlocked, "pages are replaced whose space is not locked");
	for (uint64_t i = 0; i < npages; i++)
		show(&s->pages[first + i], frame_of(frames[i]));
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct host_space *s = space_of_region(region);

	for (uint64_t i = first; i < first + npages; i++) {
		if (!s->pages[i].frame)
			continue;
		memcpy(own_bytes(s, i), s->pages[i].frame->bytes, HOST_PAGE_BYTES);
		show(&s->pages[i], NULL);
	}
	return (int)npages;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	return frame_of(frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	struct host *host = ctx;
	struct host_frame *f = frame_of(frame);

	require(!f->nmaps, "a frame is given back that pages show");
	f->next = host->free;
	host->free = f;
	host->nused--;
}

/* A look at a page: its number follows from where the content is. */
static void note_look(const struct host *host, struct host_space *space, const void *content)
{
	uint64_t offset = (uintptr_t)content - (uintptr_t)space->bytes;
	struct host_page *page = &space->pages[offset / HOST_PAGE_BYTES];

	if (offset >= space->npages * HOST_PAGE_BYTES) /* of the other space, or a frame */
		return;
	space->reads++;
	if (host->pass - page->last_look > space->worst_wait)
		space->worst_wait = host->pass - page->last_look;
	page->last_look = host->pass;
}

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	struct host *host = ctx;

	note_look(host, &host->spaces[0], content);
	note_look(host, &host->spaces[1], content);
	*value = pdd_checksum_page(content, HOST_PAGE_BYTES, secret, sizeof(secret)).value;
	return 0;
}

const struct pdd_ops host_ops = {
	.size = sizeof(host_ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = noop_range,
	.hold = pages_get, /* nothing writes meanwhile */
	.release = noop_range,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.checksum = checksum,
};

void host_waits_begin(struct host *host, struct host_space *space)
{
	for (uint64_t i = 0; i < space->npages; i++)
		space->pages[i].last_look = host->pass;
	space->worst_wait = 0;
}

uint64_t host_waits_end(struct host *host, struct host_space *space)
{
	for (uint64_t i = 0; i < space->npages; i++)
		if (host->pass - space->pages[i].last_look > space->worst_wait)
			space->worst_wait = host->pass - space->pages[i].last_look;
	return space->worst_wait;
}

/* ---- set-up ---- */

/* Memory of pages, touched, so that no page fault is measured. */
static unsigned char *allocate(uint64_t npages)
{
	unsigned char *bytes = aligned_alloc(HOST_PAGE_BYTES, npages * HOST_PAGE_BYTES);

	if (bytes)
		memset(bytes, 1, npages * HOST_PAGE_BYTES);
	return bytes;
}

static int space_init(struct host_space *space, uint64_t npages)
{
	space->npages = npages;
	space->bytes = allocate(npages);
	space->pages = calloc(npages, sizeof(*space->pages));
	if (!space->bytes || !space->pages)
		return -1;
	return pthread_rwlock_init(&space->lock, NULL);
}

int host_init(struct host *host, const uint64_t npages[2], uint64_t nframes)
{
	memset(host, 0, sizeof(*host));
	host->frames = calloc(nframes, sizeof(*host->frames));
	host->frame_bytes = allocate(nframes);
	if (!host->frames || !host->frame_bytes || space_init(&host->spaces[0], npages[0]) ||
	    space_init(&host->spaces[1], npages[1]))
		return -1;
	host->nframes = nframes;
	for (uint64_t i = 0; i < nframes; i++) {
		host->frames[i].bytes = host->frame_bytes + i * HOST_PAGE_BYTES;
		host->frames[i].next = host->free;
		host->free = &host->frames[i];
	}
	return 0;
}

void host_fini(struct host *host)
{
	for (unsigned i = 0; i < 2; i++) {
		pthread_rwlock_destroy(&host->spaces[i].lock);
		free(host->spaces[i].bytes);
		free(host->spaces[i].pages);
	}
	free(host->frames);
	free(host->frame_bytes);
}
