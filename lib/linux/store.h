/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.h - frames in a memfd. Private; the argument is on top of store.c.
 *
 * Locking: the caller keeps a store to itself.
 */
#ifndef PDDI_LINUX_STORE_H
#define PDDI_LINUX_STORE_H

#include <pagededup/chain.h>

#include "bitmap.h"
#include "recent.h"

struct pdd_frame_wish;

/* Places of an overflow area. */
#define PDDI_OVERFLOW_PAGES UINT64_C(65536)

/** A run of places in the store: one for each page of a memory, or overflow. */
struct pddi_area {
	const unsigned char *content; /* all its places, mapped for reading */
	uint64_t place;               /* its first place in the store */
	uint64_t npages;
	uint64_t nframes; /* that live in it */
	uint64_t nused;   /* places that were given out ever */
	bool dropped;     /* its memory is gone; it goes with its last frame */
	struct pddi_area *next;
	struct pddi_area **pprev;
	uint64_t used[]; /* bits: places that were given out ever */
};

/** The descriptor of a frame. */
struct pddi_frame {
	struct pdd_frame frame;
	struct pddi_area *area; /* NULL: not in use */
	union {
		uint64_t page; /* in the area */
		struct pddi_frame *next_free;
	} u;
};

/* Descriptors come in chunks. */
#define PDDI_CHUNK_BYTES (UINT64_C(1) << 18)
struct pddi_frame_chunk {
	struct pddi_frame_chunk *next;
	struct pddi_frame frames[];
};
#define PDDI_CHUNK_FRAMES                                                                          \
	((PDDI_CHUNK_BYTES - offsetof(struct pddi_frame_chunk, frames)) / sizeof(struct pddi_frame))

struct pddi_store {
	int fd;
	uint32_t page_shift;
	uint64_t end;               /* places that were given to areas */
	uint64_t grown;             /* places that the file is long enough for */
	struct pddi_area *areas;
	struct pddi_area *overflow; /* the one that is being filled, may be NULL */
	bool keep_blocks;           /* of freed frames: pages may still show them */
	uint64_t hole_place;        /* freed places whose blocks are still to be punched */
	uint64_t hole_pages;
	struct pddi_frame *free_frames;
	struct pddi_frame_chunk *chunks;
	uint64_t nframes;
	uint64_t metadata_bytes;
	struct pddi_recent recent; /* contents of frames */
};

/* 0 or -errno of memfd_create. */
int pddi_store_init(struct pddi_store *store, uint32_t page_shift);
/* Frames that pages still show live on in the kernel; all else goes. */
void pddi_store_fini(struct pddi_store *store);

/* How far the store may be written, RLIMIT_FSIZE: a write beyond kills the process with a signal,
 * so it is asked for before each. */
uint64_t pddi_store_limit_bytes(void);

/* A new area of npages places. 0, -ENOMEM, or -EFBIG: RLIMIT_FSIZE. */
int pddi_store_area_add(struct pddi_store *store, struct pddi_area **area, uint64_t npages);
/* The area's memory is gone: it lives on until its last frame is freed. */
void pddi_store_area_drop(struct pddi_store *store, struct pddi_area *area);

/* An area without frames goes. */
void pddi_store_area_free(struct pddi_store *store, struct pddi_area *area);

/* The hook frames_create. A prefix's length, or -ENOMEM, -ENOSPC, -EFAULT if none was made. */
int pddi_store_create(struct pddi_store *store, struct pdd_frame **frames,
		      const struct pdd_frame_wish *wishes, uint32_t nframes);
void pddi_store_free(struct pddi_store *store, struct pdd_frame *frame);
/* Give back the blocks of frames freed so far. */
void pddi_store_flush(struct pddi_store *store);

/* Bytes of blocks that the kernel says the store has, or -errno. */
int64_t pddi_store_bytes(const struct pddi_store *store);

/* Walk the areas and descriptors. 0, or -EUCLEAN and a text. */
int pddi_store_check(const struct pddi_store *store, const char **why);

static inline const struct pddi_frame *pddi_frame_of(const struct pdd_frame *frame)
{
	/* The frame is its first member. */
	return (const struct pddi_frame *)(const void *)frame;
}

/* The frame's place in the store, in pages; never given out again. */
static inline uint64_t pddi_frame_place(const struct pdd_frame *frame)
{
	return pddi_frame_of(frame)->area->place + pddi_frame_of(frame)->u.page;
}

/* The content of a frame; it stays where it is until the next pddi_recent_renew(). */
const void *pddi_frame_content(struct pddi_store *store, const struct pdd_frame *frame);

#endif
