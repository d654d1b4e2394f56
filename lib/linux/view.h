/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * view.h - what stands at the pages of a memory, from the process's page map. Private; the argument
 * is on top of view.c.
 */
#ifndef PDDI_LINUX_VIEW_H
#define PDDI_LINUX_VIEW_H

#include "memory.h"

/* What the page map says of one page. */
enum pddi_page_flags {
	PDDI_PAGE_PRESENT = 1u << 0,
	PDDI_PAGE_SWAPPED = 1u << 1, /* or: a marker, see fact 25 on top of view.c */
	PDDI_PAGE_FILE = 1u << 2,    /* present, and not a copy of its own */
	PDDI_PAGE_ZERO = 1u << 3,    /* the kernel's zero page; only where PAGEMAP_SCAN is there */
	PDDI_PAGE_PROTECTED = 1u << 4, /* by userfaultfd against writing */
};

/* Runs that one PAGEMAP_SCAN may answer; more are asked for again. */
#define PDDI_PAGEMAP_VECTOR 64u

struct pddi_pagemap {
	int fd;          /* of /proc/self/pagemap; borrowed. -1: nothing can be described */
	bool scan;       /* PAGEMAP_SCAN works */
	uint32_t vector; /* 1 .. PDDI_PAGEMAP_VECTOR; tests make it small */
	uint32_t page_shift;
};

/* Describe npages pages (at most an extent), one byte each. 0 or -errno. */
int pddi_pagemap_read(const struct pddi_pagemap *map, uint8_t *flags, const void *start,
		      uint64_t npages);

/*
 * As above, and every page that lies in a mapping of the store is either present or neither present
 * nor swapped: what is "swapped" there is read in until the page map says what it is. 0, -errno,
 * or -EBUSY: a page changes too fast.
 */
int pddi_pagemap_read_settled(const struct pddi_pagemap *map, uint8_t *flags,
			      const struct pdd_linux_memory *memory, uint64_t first,
			      uint64_t npages);

/* Bytes of a range of pages that have memory, or of all of it if the kernel does not tell. */
uint64_t pddi_pagemap_resident(const struct pddi_pagemap *map, const void *start, uint64_t length);

/* The hook pages_get. */
int pddi_view_get(const struct pddi_pagemap *map, const struct pdd_linux_memory *memory,
		  struct pdd_view *views, uint32_t nviews, uint64_t first, uint64_t npages);

#endif
