/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h - one added range of memory: what all files of the adapter know about it. Private.
 *
 * Invariants
 *  1. A page's bit in `framed` is set if and only if the page lies in a private mapping of the
 *     frame store, whether it shows a frame or has a copy of its own there. All others are
 *     anonymous. Only remap.c changes mappings and these bits, both under the hold of the page.
 *  2. A bit of `hints` is set if any bit of its 2^15 pages in `framed` ever was, so that a search
 *     in sparse memory reads one bit where it would read a page of zeros.
 *  3. A bit of `tracked` is set only if all pages of the extent are registered for write tracking;
 *     whatever puts a new mapping somewhere clears it. A bit of `doubted`: see track.c.
 *
 * Locking: the caller's (the deduplicator's mutex).
 */
#ifndef PDDI_LINUX_MEMORY_H
#define PDDI_LINUX_MEMORY_H

#include <pthread.h>

#include <pagededup/linux/dedup.h>

#include "bitmap.h"

struct pddi_area;

/* Pages per bit of `hints`: what one page of the bitmap covers. */
#define PDDI_HINT_PAGES UINT64_C(32768)

/* What a mapping that takes the place of some of the memory must be given too. */
enum pddi_memory_flags {
	PDDI_MEMORY_DONTFORK = 1u << 0,
	PDDI_MEMORY_DONTDUMP = 1u << 1,
	PDDI_MEMORY_NOHUGEPAGE = 1u << 2,
	PDDI_MEMORY_NORESERVE = 1u << 3,
};

struct pdd_linux_memory {
	struct pdd_space space;
	struct pdd_region region;
	pthread_rwlock_t layout;
	struct pdd_linux *dedup;
	struct pdd_linux_memory *next;
	struct pdd_linux_memory **pprev;
	struct pdd_linux_memory *claims_next; /* of all deduplicators of the process */
	struct pdd_linux_memory **claims_pprev;

	unsigned char *start;
	uint64_t npages;
	uint32_t page_shift;
	uint32_t flags;         /* enum pddi_memory_flags */
	struct pddi_area *area; /* of the store: as many places as there are pages */
	uint64_t *framed;
	uint64_t *hints;
	uint64_t *tracked; /* of extents, as the next one */
	uint64_t *doubted;
	uint64_t *bits;     /* where all of them are */
	bool is_tracked;    /* some of it may be registered for write tracking */
	uint32_t track_turn; /* of the extents that count as written in turns */

	struct pdd_extent *extents;
	struct pdd_item *items;
};

/* Set up the mechanical part (not space, region, lock, area, items). 0 or -ENOMEM. */
int pddi_memory_init(struct pdd_linux_memory *memory, void *start, uint64_t npages,
		     uint32_t page_shift, uint32_t flags);
void pddi_memory_fini(struct pdd_linux_memory *memory);

/* Note that pages came to lie, or lie no more, in a mapping of the store. O(npages / 64). */
void pddi_memory_set_framed(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages,
			    bool framed);

/* Note that pages may not be registered for write tracking any more. */
void pddi_memory_untrack(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages);

/* The first page of [from, end) that lies in a mapping of the store, else `end`. */
uint64_t pddi_memory_next_framed(const struct pdd_linux_memory *memory, uint64_t from,
				 uint64_t end);

/* Bytes of metadata that pddi_memory_init() took. */
uint64_t pddi_memory_bytes(const struct pdd_linux_memory *memory);

static inline struct pdd_linux_memory *pddi_memory_of_region(const struct pdd_region *region)
{
	return (struct pdd_linux_memory *)((uintptr_t)region -
					   offsetof(struct pdd_linux_memory, region));
}

static inline struct pdd_linux_memory *pddi_memory_of_space(const struct pdd_space *space)
{
	return (struct pdd_linux_memory *)((uintptr_t)space -
					   offsetof(struct pdd_linux_memory, space));
}

static inline unsigned char *pddi_memory_address(const struct pdd_linux_memory *memory,
						 uint64_t page)
{
	return memory->start + (page << memory->page_shift);
}

#endif
