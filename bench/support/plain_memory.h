/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plain_memory.h - an embedder with plain hooks: one space with one region in ordinary memory.
 *
 * Contents are real memory that is really read, copied and compared. What a page shows is a
 * pointer: to nothing (its own memory), to a frame, or to the zero page; so mapping costs next to
 * nothing. Nothing writes to pages while a step runs, so locking the space always succeeds and
 * holding a page does nothing. Where no page of an extent shows a frame, which is known from a
 * counter, pages_get describes it without a look at each page.
 *
 * Its memory is on huge pages (huge_memory.h). Several threads may step: extents are claimed, and
 * frames are handed out under a lock.
 */
#ifndef BENCH_PLAIN_MEMORY_H
#define BENCH_PLAIN_MEMORY_H

#include <pthread.h>

#include <pagededup/scanner.h>

#define PLAIN_PAGE_BYTES 4096u

struct plain_frame {
	struct pdd_frame frame;
	struct plain_frame *next; /* of the free ones */
	unsigned char *bytes;
};

struct plain_memory {
	struct pdd_space space;
	struct pdd_region region;
	unsigned char *memory;      /* own memory of all pages */
	uint64_t room;              /* pages of it */
	unsigned char *bytes;       /* of the pages in use, ... */
	uint64_t npages;            /* ... and their number */
	struct plain_frame **shown; /* by page; NULL: its own memory */
	uint16_t *nshown;           /* by extent */
	struct plain_frame *frames; /* all of them */
	struct plain_frame *free;
	unsigned char *frame_bytes;
	uint64_t nframes, nused;
	pthread_mutex_t lock; /* of the free frames */
};

extern const struct pdd_ops plain_ops; /* their ctx is a struct plain_memory */

/** Room for so many pages and frames. */
void plain_memory_init(struct plain_memory *memory, uint64_t npages, uint64_t nframes);
void plain_memory_fini(struct plain_memory *memory);

/** Show the own memory of pages [first, first + npages) of the room; space and region are new. */
void plain_memory_reset(struct plain_memory *memory, uint64_t first, uint64_t npages);

/** What a page shows: PLAIN_PAGE_BYTES. */
const void *plain_memory_page(const struct plain_memory *memory, uint64_t page);

/* ---- contents ---- */

enum plain_fill {
	PLAIN_COUNTER = 0, /* the first word counts, the rest is zero: the pages of the field report */
	PLAIN_RANDOM = 1,
};

/** Fill own memory with content number @p content. Different numbers are different contents. */
void plain_fill_page(void *page, enum plain_fill fill, uint64_t content);
/** Whether that is what it is. */
bool plain_page_is(const void *page, enum plain_fill fill, uint64_t content);

#endif
