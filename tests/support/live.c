/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live.c - see live.h: threads, pages, frames, the world.
 *
 * Order of locks: whatever a test has, a space's, the scanner's, the list of frames; a page's is
 * last for whoever writes, and nobody who has one waits for anything. A step keeps those of the
 * pages that it holds, and may wait for the scanner's lock meanwhile: so with that lock nobody
 * waits for a page that another step may hold.
 */
#define _GNU_SOURCE

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live_internal.h"

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

void *live_allocate(size_t n, size_t size)
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

uint64_t live_shown_word(const struct live_region *region, uint64_t number, unsigned i)
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
		if (live_shown_word(region, number, i) != live_word(page->content, i))
			live_fail("page %" PRIu64 " of kind %u does not show content %" PRIu64
				  ": a write is lost",
				  number, page->kind, page->content);
}

void live_set_word(struct live_region *region, uint64_t number, unsigned i, uint64_t word)
{
	atomic_store_explicit(&region->words[number * LIVE_WORDS + i], word, memory_order_relaxed);
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
		live_set_word(region, number, i, live_shown_word(region, number, i));
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
		live_set_word(region, number, i, live_word(content, i));
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

/* ---- the world ---- */

struct live *live_create(const struct live_options *options)
{
	struct live *live = live_allocate(1, sizeof(*live));
	struct pdd_ops ops = live_ops;
	unsigned char secret[PDD_SECRET_LEN_MAX];
	int err;

	live->options = *options;
	live_thread_begin(live, 1);
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)live_random(256);
	if (!live->options.nroots)
		live->options.nroots = 1024;
	live->roots = live_allocate(live->options.nroots, sizeof(*live->roots));
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
	err = pdd_scanner_init(
		&live->scanner, &ops, live,
		&(struct pdd_scanner_options){
			.size = sizeof(struct pdd_scanner_options),
			.page_shift = LIVE_PAGE_SHIFT,
			.roots = live->roots,
			.nroots = live->options.nroots,
			.secret = secret,
			.secret_len = sizeof(secret),
			.tunables = options->tunables.size ? &options->tunables : NULL,
			.first_nroots = 1, /* it grows while all goes on */
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
