/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold.h - keep the content of pages still. Private; the argument is on top of hold.c.
 *
 * Locking: the caller keeps a hold to itself. All of it is called by the one thread that steps.
 */
#ifndef PDDI_LINUX_HOLD_H
#define PDDI_LINUX_HOLD_H

#include "memory.h"
#include "probe.h"
#include "view.h"

#define PDDI_EXTENT_WORDS PDDI_BITMAP_WORDS(PDD_EXTENT_PAGES)

/* What fits into the staging area: emptying it costs a flush of address translations, whatever is
 * in it. At most so many pages that are of no use any more are there in a step. */
#define PDDI_STAGING_PAGES (UINT64_C(4) * PDD_EXTENT_PAGES)

struct pddi_hold {
	struct pddi_probe *probe;
	const struct pddi_pagemap *map;
	bool move;    /* anonymous pages are held by moving them away */
	bool by_tracker; /* by the userfaultfd that tracks writes */
	bool protect; /* others, by write protection: there is no device that writes */
	uint32_t page_shift;
	unsigned char *staging; /* where pages are moved to */
	unsigned char *copy;    /* what was moved there, to be read; an extent */
	uint32_t slot;          /* pages of it before this one hold what is no longer needed */

	/* The run that is held: bits are pages of the extent that begins at `base`. */
	struct pdd_linux_memory *memory;
	uint64_t base;
	uint32_t lo; /* all bits lie in [lo, hi) */
	uint32_t hi;
	uint32_t nheld; /* bits in `staged` and `guarded` */
	bool left;      /* something of the run is left in the staging area */
	bool moves;     /* pages of it were registered to be moved, */
	bool guards;    /* or to be protected */
	uint64_t staged[PDDI_EXTENT_WORDS];     /* held, content in the staging area */
	uint64_t guarded[PDDI_EXTENT_WORDS];    /* held, content in place, write-protected */
	uint64_t registered[PDDI_EXTENT_WORDS]; /* so that they can be held */
};

/* The userfaultfd that pages are moved by. */
static inline int pddi_hold_mover(const struct pddi_hold *hold)
{
	return hold->by_tracker ? hold->probe->track_uffd : hold->probe->uffd;
}

/* How a page is held. */
enum pddi_method {
	PDDI_METHOD_NONE = 0,
	PDDI_METHOD_MOVE = 1,
	PDDI_METHOD_GUARD = 2,
};

/* What it is for page `bit` of the extent of the hold, and where the run ends of pages for which it
 * is the same. */
enum pddi_method pddi_hold_method(const struct pddi_hold *hold, uint32_t bit);
uint32_t pddi_hold_method_end(const struct pddi_hold *hold, uint32_t bit, uint32_t end);

/* The place of a page of the run. */
static inline unsigned char *pddi_hold_address(const struct pddi_hold *hold, uint32_t bit)
{
	return pddi_memory_address(hold->memory, hold->base + bit);
}

/* Where a page of the run is moved to. */
static inline unsigned char *pddi_hold_staging(const struct pddi_hold *hold, uint32_t bit)
{
	return hold->staging + ((uint64_t)(hold->slot + (bit - hold->lo)) << hold->page_shift);
}

/* Where the content of a page of the run can be read once it was moved. */
static inline unsigned char *pddi_hold_copy(const struct pddi_hold *hold, uint32_t bit)
{
	return hold->copy + ((uint64_t)(bit - hold->lo) << hold->page_shift);
}

/* @param flags  enum pdd_linux_flags. @return 0 or -ENOMEM. A process without any way to hold is no
 * error: all pages are refused then. */
int pddi_hold_init(struct pddi_hold *hold, struct pddi_probe *probe,
		   const struct pddi_pagemap *map, uint32_t page_shift, uint32_t flags);
void pddi_hold_fini(struct pddi_hold *hold);

/* Prepare the staging area for moves, by whom they can be done now; before each hold. */
void pddi_hold_settle_mover(struct pddi_hold *hold);

/* The hooks hold and release. Nothing is held when pddi_hold_get() is called. */
int pddi_hold_get(struct pddi_hold *hold, struct pdd_linux_memory *memory, struct pdd_view *views,
		  uint32_t nviews, uint64_t first, uint64_t npages);
void pddi_hold_release(struct pddi_hold *hold, uint64_t first, uint64_t npages);

/*
 * Hold pages that show frames, where they are: they go on showing them until the hold ends. Nothing
 * is held before. The argument is on top of hold_framed.c.
 * @param copies  pages that have a copy of their own in a mapping of the store, too; only where
 *                `protect` allows it
 * @return the number of pages held, a prefix: up to one that has a copy of its own (without
 *         `copies`) or lies in no mapping of the store; or -errno if none
 */
int pddi_hold_framed(struct pddi_hold *hold, struct pdd_linux_memory *memory, uint64_t first,
		     uint64_t npages, bool copies);

/* Let the kernel copy pages; see the top of hold.c. */
void pddi_hold_read(void *to, const void *from, size_t length);

/* The last page's hold ended: nobody waits any more. */
void pddi_hold_finish(struct pddi_hold *hold);

/* Give back the memory of the staging area; nothing is held. */
void pddi_hold_flush(struct pddi_hold *hold);

/* Whether all pages of a range are held. */
bool pddi_hold_covers(const struct pddi_hold *hold, const struct pdd_linux_memory *memory,
		      uint64_t first, uint64_t npages);
/* Whether a held page was moved away: nothing stands at its place. */
bool pddi_hold_is_staged(const struct pddi_hold *hold, uint64_t page);

/*
 * Held pages were given their new content: end their hold, let their writers go on.
 * @param replaced  they lie in a new mapping, which is not registered
 */
void pddi_hold_end(struct pddi_hold *hold, uint64_t first, uint64_t npages, bool replaced);

#endif
