/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live.c - see live.h: threads, spaces, pages, frames.
 *
 * Order of locks: whatever a test has, a space's, the scanner's, the list of frames; a page's is
 * last for whoever writes, and nobody who has one waits for anything. A step keeps those of the
 * pages that it holds, and may wait for the scanner's lock meanwhile: so with that lock nobody
 * waits for a page that another step may hold.
 */
#define _GNU_SOURCE

#include "live.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local struct live_thread live_me;

void live_fail_at(const char *file, int line, const char *format, ...)
{
	struct live *live = live_me.live;
	va_list args;

	fprintf(stderr, "%s:%d: thread %u", file, line, live_me.number);
	if (live)
		fprintf(stderr, " (PDD_SEED=%" PRIu64 ")", live->options.seed);
	fprintf(stderr, ": ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort();
}

static void *allocate(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size);

	live_require(memory, "out of memory");
	return memory;
}

/* ---- threads ---- */

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void live_thread_begin(struct live *live, unsigned number)
{
	live_me = (struct live_thread){
		.live = live,
		.number = number,
		.random = live->options.seed + number * UINT64_C(0x9e3779b97f4a7c17),
	};
}

uint64_t live_random(uint64_t below)
{
	return next_random(&live_me.random) % below;
}

/* ---- pages ---- */

/* Content 0 is zeros, some others are one word repeated, most are of different words. */
uint64_t live_word(uint64_t content, unsigned i)
{
	uint64_t state = content * LIVE_WORDS + (content % LIVE_CONTENTS == 1 ? 0 : i);

	return content ? next_random(&state) : 0;
}

void live_page_lock(struct live_page *page)
{
	for (unsigned none = 0;
	     !atomic_compare_exchange_weak_explicit(&page->lock, &none, live_me.number,
						    memory_order_acquire, memory_order_relaxed);
	     none = 0)
		sched_yield();
}

void live_page_unlock(struct live_page *page)
{
	live_require(atomic_load_explicit(&page->lock, memory_order_relaxed) == live_me.number,
		     "a page is unlocked that this thread has not locked");
	atomic_store_explicit(&page->lock, 0, memory_order_release);
}

static uint64_t shown_word(const struct live_region *region, uint64_t number, unsigned i)
{
	const struct live_page *page = &region->pages[number];

	if (page->kind == PDD_PAGE_SHARED)
		return page->frame->data[i];
	return page->kind == PDD_PAGE_PRIVATE
		       ? atomic_load_explicit(&region->words[number * LIVE_WORDS + i],
					      memory_order_relaxed)
		       : 0;
}

static void check_content(const struct live_region *region, uint64_t number)
{
	const struct live_page *page = &region->pages[number];

	for (unsigned i = 0; i < LIVE_WORDS; i++)
		if (shown_word(region, number, i) != live_word(page->content, i))
			live_fail("page %" PRIu64 " of kind %u does not show content %" PRIu64
				  ": a write is lost",
				  number, page->kind, page->content);
}

static void set_word(struct live_region *region, uint64_t number, unsigned i, uint64_t word)
{
	atomic_store_explicit(&region->words[number * LIVE_WORDS + i], word,
			      memory_order_relaxed);
}

void live_drop_frame(struct live *live, struct live_page *page)
{
	struct live_frame *frame = page->frame;

	page->frame = NULL;
	page->cloned = false;
	if (!frame)
		return;
	atomic_fetch_sub(&frame->maps, 1);
	live_frame_put(live, frame);
}

void live_make_private(struct live_region *region, uint64_t number)
{
	struct live_page *page = &region->pages[number];

	if (page->kind != PDD_PAGE_SHARED && page->kind != PDD_PAGE_ZERO)
		return;
	for (unsigned i = 0; i < LIVE_WORDS; i++)
		set_word(region, number, i, shown_word(region, number, i));
	page->kind = PDD_PAGE_PRIVATE;
	live_drop_frame(region->space->live, page);
}

static void write_locked(struct live_region *region, uint64_t number, uint64_t content)
{
	struct live_page *page = &region->pages[number];

	live_require(!page->held, "a held page is written");
	live_make_private(region, number);
	page->kind = PDD_PAGE_PRIVATE;
	page->content = content;
	for (unsigned i = 0; i < LIVE_WORDS; i++) {
		set_word(region, number, i, live_word(content, i));
		if (live_me.random % 61 == 0 && i == LIVE_WORDS / 2)
			sched_yield(); /* torn, for who reads now */
	}
	atomic_store(&page->written, true);
}

void live_set(struct live_region *region, uint64_t number, uint64_t content)
{
	live_page_lock(&region->pages[number]);
	write_locked(region, number, content);
	live_page_unlock(&region->pages[number]);
}

void live_write(struct live_region *region, uint64_t number)
{
	struct live_page *page = &region->pages[number];
	uint64_t next;

	live_page_lock(page);
	check_content(region, number);
	next = page->content + 1;
	if (next % LIVE_CONTENTS == 0)
		next -= LIVE_CONTENTS;
	write_locked(region, number, next);
	live_page_unlock(page);
}

void live_verify_page(struct live_region *region, uint64_t number)
{
	live_page_lock(&region->pages[number]);
	check_content(region, number);
	live_page_unlock(&region->pages[number]);
}

void live_verify_space(struct live_space *space)
{
	for (unsigned r = 0; r < LIVE_REGIONS; r++)
		for (uint64_t i = 0; space->regions[r] && i < space->regions[r]->npages; i++)
			live_verify_page(space->regions[r], i);
}

/* ---- frames ---- */

struct live_frame *live_frame_pick(struct live *live)
{
	struct live_frame *frame;
	unsigned refs = 0;

	pthread_mutex_lock(&live->frames_lock);
	frame = live->frames;
	for (uint64_t n = live_random(64); frame && frame->next && n; n--)
		frame = frame->next;
	if (frame)
		refs = atomic_load(&frame->refs);
	while (refs && !atomic_compare_exchange_weak(&frame->refs, &refs, refs + 1))
		;
	pthread_mutex_unlock(&live->frames_lock);
	return refs ? frame : NULL;
}

void live_frame_put(struct live *live, struct live_frame *frame)
{
	if (atomic_fetch_sub(&frame->refs, 1) != 1)
		return;
	live_require(atomic_load(&frame->freed), "the library's reference is lost");
	pthread_mutex_lock(&live->frames_lock);
	if (frame->prev)
		frame->prev->next = frame->next;
	else
		live->frames = frame->next;
	if (frame->next)
		frame->next->prev = frame->prev;
	pthread_mutex_unlock(&live->frames_lock);
	memset(frame->data, 0xa5, sizeof(frame->data));
	memset(&frame->frame, 0xa5, sizeof(frame->frame));
	free(frame);
}

/* ---- spaces ---- */

void live_space_lock(struct live_space *space)
{
	live_require(!live_me.in_scanner && !live_me.nreads && !live_me.writes,
		     "an owner waits for a space while it has other locks");
	pthread_rwlock_wrlock(&space->lock);
	live_me.writes = space;
}

void live_space_unlock(struct live_space *space)
{
	live_me.writes = NULL;
	pthread_rwlock_unlock(&space->lock);
}

struct live_space *live_space_add(struct live *live, uint32_t domain)
{
	struct live_space *space = allocate(1, sizeof(*space));
	pthread_rwlockattr_t attr;

	space->live = live;
	space->domain = domain;
	/* Else owners wait as long as steps follow each other. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&space->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	live_require(pdd_space_add(&live->scanner, &space->space, domain) == 0, "pdd_space_add");
	return space;
}

static struct live_region *add_region(struct live_space *space, struct live_region *region)
{
	unsigned number = 0;

	while (space->regions[number])
		number++;
	live_require(number < LIVE_REGIONS, "too many regions");
	region->space = space;
	live_require(pdd_region_add(&space->space, &region->region, 0, region->npages,
				    region->extents, region->items) == 0,
		     "pdd_region_add");
	space->regions[number] = region;
	return region;
}

static struct live_region *new_region(uint64_t npages, bool sparse)
{
	struct live_region *region = allocate(1, sizeof(*region));

	live_require(pdd_region_extents(npages) <= LIVE_EXTENTS, "too many pages");
	region->npages = region->capacity = npages;
	region->pages = allocate(npages, sizeof(*region->pages));
	region->words = allocate(npages, sizeof(*region->words) * LIVE_WORDS);
	if (!sparse) {
		region->extents = allocate(pdd_region_extents(npages), sizeof(*region->extents));
		region->items = allocate(npages, sizeof(*region->items));
	}
	return region;
}

struct live_region *live_region_add(struct live_space *space, uint64_t npages, bool sparse)
{
	return add_region(space, new_region(npages, sparse));
}

/* The memory of pages from this one on goes away. */
static void drop_pages(struct live_region *region, uint64_t from)
{
	for (uint64_t i = from; i < region->npages; i++) {
		struct live_page *page = &region->pages[i];

		live_page_lock(page);
		live_require(!page->held, "a page of a locked space is held");
		live_drop_frame(region->space->live, page);
		page->kind = PDD_PAGE_ABSENT;
		page->content = 0;
		page->kept_out = LIVE_OPEN;
		live_page_unlock(page);
	}
}

void live_region_resize(struct live_region *region, uint64_t npages)
{
	drop_pages(region, npages);
	live_require(pdd_region_resize(&region->region, npages) == 0, "pdd_region_resize");
	region->npages = npages;
}

void live_region_remove(struct live_space *space, unsigned number)
{
	struct live_region *region = space->regions[number];

	drop_pages(region, 0);
	live_require(pdd_region_remove(&region->region) == 0, "pdd_region_remove");
	live_require(atomic_load(&region->nblocks) == 0, "an extent did not come back");
	space->regions[number] = NULL;
	free(region->pages);
	free((void *)(uintptr_t)region->words);
	free(region->extents);
	free(region->items);
	free(region);
}

void live_space_remove(struct live_space *space)
{
	live_space_lock(space);
	for (unsigned r = 0; r < LIVE_REGIONS; r++)
		if (space->regions[r])
			live_region_remove(space, r);
	live_require(pdd_space_remove(&space->space) == 0, "pdd_space_remove");
	live_space_unlock(space);
	for (unsigned r = 0; r < LIVE_REGIONS; r++)
		live_require(pdd_object_regions(&space->objects[r]) == 0, "an object has regions");
	pthread_rwlock_destroy(&space->lock);
	free(space);
}

/* A page of a clone shows what the page shows; both belong to nobody else now, or are locked. */
static void clone_page(struct live_region *to, struct live_region *from, uint64_t number)
{
	struct live_page *source = &from->pages[number], *page = &to->pages[number];

	live_page_lock(source);
	page->kind = source->kind;
	page->content = source->content;
	page->frame = source->frame;
	page->cloned = page->kind == PDD_PAGE_SHARED || page->kind == PDD_PAGE_ZERO;
	if (page->frame) {
		atomic_fetch_add(&page->frame->maps, 1);
		atomic_fetch_add(&page->frame->refs, 1);
	}
	for (unsigned i = 0; page->kind == PDD_PAGE_PRIVATE && i < LIVE_WORDS; i++)
		set_word(to, number, i, shown_word(from, number, i));
	live_page_unlock(source);
}

struct live_space *live_space_clone(struct live_space *space)
{
	struct live_space *clone = live_space_add(space->live, space->domain);

	for (unsigned r = 0; r < LIVE_REGIONS; r++) {
		struct live_region *region = space->regions[r], *copy;
		struct pdd_object *object = region ? region->region.priv.object : NULL;

		if (!region)
			continue;
		copy = new_region(region->npages, !region->extents);
		for (uint64_t i = 0; i < region->npages; i++)
			clone_page(copy, region, i);
		add_region(clone, copy);
		if (object)
			live_require(pdd_region_attach(&copy->region, object, 0) == 0,
				     "pdd_region_attach");
	}
	return clone;
}

/* ---- the world ---- */

struct live *live_create(const struct live_options *options)
{
	struct live *live = allocate(1, sizeof(*live));
	struct pdd_ops ops = live_ops;
	unsigned char secret[PDD_SECRET_LEN_MAX];
	int err;

	live->options = *options;
	live_thread_begin(live, 1);
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)live_random(256);
	if (!live->options.nroots)
		live->options.nroots = 1024;
	live->roots = allocate(live->options.nroots, sizeof(*live->roots));
	pthread_mutex_init(&live->lock, NULL);
	pthread_mutex_init(&live->frames_lock, NULL);
	if (!options->two_bits)
		ops.checksum = NULL;
	if (!options->tracked)
		ops.pages_written = NULL;
	if (!options->clones)
		ops.frame_is_mapped = NULL;
	if (options->no_refile)
		ops.frames_remap = NULL;
	err = pdd_scanner_init(&live->scanner, &ops, live,
			       &(struct pdd_scanner_options){
				       .size = sizeof(struct pdd_scanner_options),
				       .page_shift = LIVE_PAGE_SHIFT,
				       .roots = live->roots,
				       .nroots = live->options.nroots,
				       .secret = secret,
				       .secret_len = sizeof(secret),
				       .tunables = options->tunables.size
							   ? &options->tunables
							   : NULL,
			       });
	live_require(err == 0, "pdd_scanner_init");
	return live;
}

void live_destroy(struct live *live)
{
	live_require(!live->frames, "a frame leaked");
	live_require(pthread_mutex_trylock(&live->lock) == 0, "the scanner's lock is still taken");
	pthread_mutex_unlock(&live->lock);
	pthread_mutex_destroy(&live->lock);
	pthread_mutex_destroy(&live->frames_lock);
	free(live->roots);
	free(live);
}
