/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * view.c - what stands at the pages of a memory.
 *
 * One PAGEMAP_SCAN, or one read of /proc/self/pagemap, describes an extent; a byte for each page,
 * then runs of equal kind. What a page is follows from two things:
 *
 *	                     lies in a mapping of the store     anonymous
 *	present, zero page   -                                  ZERO
 *	present, file        SHARED                             REFUSED: somebody else's mapping,
 *	                                                        if it was asked for
 *	present, not file    PRIVATE: the kernel copied it      PRIVATE
 *	swapped              unknown: read it in, ask again     PRIVATE
 *	neither              SHARED: nobody touched it yet      ABSENT
 *
 * Invariants
 *  1. A page is called SHARED only if it shows the frame that was mapped there, and PRIVATE in a
 *     mapping of the store only if it has a copy of its own.
 *  2. ABSENT reaches beyond the range only as far as nothing stands and no mapping of the store
 *     lies.
 *  3. Nothing is read by the address of a page, and nothing is made present save pages of the
 *     store.
 *
 * Hard case: "swapped" in a mapping of the store proves nothing. A write-protect marker that a hold
 * left on an untouched page looks exactly like a private copy that was swapped out. Reading the
 * page in tells: the marker gives way to the frame, the copy comes back as a copy. A page under
 * migration looks swapped for an instant too; hence the bounded repetition.
 *
 * Whether pages are a file's is asked only where the store is mapped in the range. A mapping of
 * somebody else's, against the contract, may then look PRIVATE; holding it is refused.
 *
 * Accesses by others may change everything right after the answer; the library knows (ops.h).
 *
 * Locking: the layout of the memory is kept still by the caller. Complexity: O(pages of the range)
 * with a system call for every `vector` runs; one more if the range ends absent.
 */
#define _GNU_SOURCE 1
#include "view.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uapi.h"

/* How often a page that looks swapped is read in. */
#define SETTLE_TRIES 8

/* @param files  tell the store's pages from others. Where it lies nowhere that need not be asked,
 *               for which the kernel reads its record of each page: 40 to 100 ns instead of 14 */
static int scan(const struct pddi_pagemap *map, uint8_t *flags, uintptr_t start, uint64_t npages,
		bool files)
{
	struct page_region regions[PDDI_PAGEMAP_VECTOR];
	uintptr_t at = start, end = start + (npages << map->page_shift);

	memset(flags, 0, npages);
	while (at < end) {
		struct pm_scan_arg arg = {
			.size = sizeof(arg),
			.start = at,
			.end = end,
			.vec = (uintptr_t)regions,
			.vec_len = map->vector,
			.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
			.return_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO |
				       PAGE_IS_WRITTEN | (files ? PAGE_IS_FILE : 0),
		};
		long n = ioctl(map->fd, PAGEMAP_SCAN, &arg);
		long i;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (i = 0; i < n; i++) {
			uint64_t c = regions[i].categories;
			unsigned int f = 0;

			f |= c & PAGE_IS_PRESENT ? PDDI_PAGE_PRESENT : 0;
			f |= c & PAGE_IS_SWAPPED ? PDDI_PAGE_SWAPPED : 0;
			f |= c & PAGE_IS_FILE ? PDDI_PAGE_FILE : 0;
			f |= c & PAGE_IS_PFNZERO ? PDDI_PAGE_ZERO : 0;
			f |= c & PAGE_IS_WRITTEN ? 0 : PDDI_PAGE_PROTECTED;
			memset(flags + ((regions[i].start - start) >> map->page_shift), (int)f,
			       (regions[i].end - regions[i].start) >> map->page_shift);
		}
		if (arg.walk_end <= at || arg.walk_end > end)
			return -EIO; /* would never come to an end */
		at = (uintptr_t)arg.walk_end;
	}
	return 0;
}

static int read_entries(const struct pddi_pagemap *map, uint8_t *flags, uintptr_t start,
			uint64_t npages)
{
	uint64_t entries[PDD_EXTENT_PAGES];
	uint64_t done = 0;

	while (done < npages) {
		uint64_t n = npages - done < PDD_EXTENT_PAGES ? npages - done : PDD_EXTENT_PAGES;
		uint64_t first = (start >> map->page_shift) + done;
		ssize_t got = pread(map->fd, entries, n * sizeof(entries[0]),
				    (off_t)(first * sizeof(entries[0])));
		uint64_t i;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < (ssize_t)sizeof(entries[0]))
			return got < 0 ? -errno : -EFAULT;
		n = (uint64_t)got / sizeof(entries[0]);
		for (i = 0; i < n; i++) {
			unsigned int f = 0;

			f |= entries[i] & PDDI_PM_PRESENT ? PDDI_PAGE_PRESENT : 0;
			f |= entries[i] & PDDI_PM_SWAPPED ? PDDI_PAGE_SWAPPED : 0;
			f |= entries[i] & PDDI_PM_FILE ? PDDI_PAGE_FILE : 0;
			f |= entries[i] & PDDI_PM_UFFD_WP ? PDDI_PAGE_PROTECTED : 0;
			flags[done + i] = (uint8_t)f;
		}
		done += n;
	}
	return 0;
}

static int read_pages(const struct pddi_pagemap *map, uint8_t *flags, const void *start,
		      uint64_t npages, bool files)
{
	if (map->fd < 0)
		return -ENOSYS;
	if (map->scan)
		return scan(map, flags, (uintptr_t)start, npages, files);
	return read_entries(map, flags, (uintptr_t)start, npages);
}

int pddi_pagemap_read(const struct pddi_pagemap *map, uint8_t *flags, const void *start,
		      uint64_t npages)
{
	return read_pages(map, flags, start, npages, true);
}

/* Whether the page map leaves open what page i is. */
static bool is_unsettled(const uint8_t *flags, const struct pdd_linux_memory *memory, uint64_t i,
			 uint64_t page)
{
	return flags[i] & PDDI_PAGE_SWAPPED && !(flags[i] & PDDI_PAGE_PRESENT) &&
	       pddi_bit_test(memory->framed, page);
}

static int read_settled(const struct pddi_pagemap *map, uint8_t *flags,
			const struct pdd_linux_memory *memory, uint64_t first, uint64_t npages,
			bool files)
{
	size_t page_size = (size_t)1 << map->page_shift;
	int error = read_pages(map, flags, pddi_memory_address(memory, first), npages, files);
	uint64_t i;

	for (i = 0; !error && i < npages; i++) {
		int tries;

		for (tries = 0; !error && is_unsettled(flags, memory, i, first + i); tries++) {
			void *page = pddi_memory_address(memory, first + i);

			if (tries == SETTLE_TRIES)
				return -EBUSY;
			/* Should it fail, the page stays unsettled and busy. */
			(void)madvise(page, page_size, MADV_POPULATE_READ);
			error = pddi_pagemap_read(map, flags + i, page, 1);
		}
	}
	return error;
}

int pddi_pagemap_read_settled(const struct pddi_pagemap *map, uint8_t *flags,
			      const struct pdd_linux_memory *memory, uint64_t first,
			      uint64_t npages)
{
	return read_settled(map, flags, memory, first, npages, true);
}

/* The same without the scan: O(length). */
static uint64_t count_resident(unsigned char *start, uint64_t length, uint32_t page_shift)
{
	unsigned char present[512];
	uint64_t chunk = sizeof(present) << page_shift, resident = 0;

	for (uint64_t at = 0; at < length; at += chunk) {
		uint64_t some = length - at < chunk ? length - at : chunk;

		if (mincore(start + at, some, present))
			return length;
		for (uint64_t i = 0; i < some >> page_shift; i++)
			resident += (uint64_t)(present[i] & 1) << page_shift;
	}
	return resident;
}

uint64_t pddi_pagemap_resident(const struct pddi_pagemap *map, const void *start, uint64_t length)
{
	struct page_region regions[PDDI_PAGEMAP_VECTOR];
	uint64_t page_mask = (UINT64_C(1) << map->page_shift) - 1;
	uint64_t at = (uintptr_t)start;
	uint64_t end = (at + length + page_mask) & ~page_mask;
	uint64_t resident = 0;

	if (!map->scan)
		return count_resident((unsigned char *)(uintptr_t)start, end - at, map->page_shift);
	while (at < end) {
		struct pm_scan_arg arg = {
			.size = sizeof(arg),
			.start = at,
			.end = end,
			.vec = (uintptr_t)regions,
			.vec_len = PDDI_PAGEMAP_VECTOR,
			.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
			.return_mask = PAGE_IS_PRESENT,
		};
		long n = ioctl(map->fd, PAGEMAP_SCAN, &arg);
		long i;

		if (n < 0 || arg.walk_end <= at)
			return length;
		for (i = 0; i < n; i++)
			resident += regions[i].end - regions[i].start;
		at = arg.walk_end;
	}
	return resident;
}

static enum pdd_page_kind kind_of(uint8_t flags, bool framed)
{
	if (framed)
		return flags & PDDI_PAGE_PRESENT && !(flags & PDDI_PAGE_FILE) ? PDD_PAGE_PRIVATE
									      : PDD_PAGE_SHARED;
	if (flags & PDDI_PAGE_PRESENT && flags & PDDI_PAGE_ZERO)
		return PDD_PAGE_ZERO;
	if (flags & PDDI_PAGE_FILE)
		return PDD_PAGE_REFUSED;
	return flags & (PDDI_PAGE_PRESENT | PDDI_PAGE_SWAPPED) ? PDD_PAGE_PRIVATE
							       : PDD_PAGE_ABSENT;
}

/* The page after `from`, or `from`, before which nothing stands: where ABSENT ends. */
static uint64_t absent_end(const struct pddi_pagemap *map, const struct pdd_linux_memory *memory,
			   uint64_t from)
{
	uint64_t end = pddi_memory_next_framed(memory, from, memory->npages);
	struct page_region region;
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = (uintptr_t)pddi_memory_address(memory, from),
		.end = (uintptr_t)pddi_memory_address(memory, end),
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.max_pages = 1,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.return_mask = PAGE_IS_PRESENT,
	};
	long n;

	if (!map->scan || from == end)
		return from;
	n = ioctl(map->fd, PAGEMAP_SCAN, &arg);
	if (n < 0)
		return from;
	return from + (((n ? region.start : arg.walk_end) - arg.start) >> map->page_shift);
}

int pddi_view_get(const struct pddi_pagemap *map, const struct pdd_linux_memory *memory,
		  struct pdd_view *views, uint32_t nviews, uint64_t first, uint64_t npages)
{
	uint8_t flags[PDD_EXTENT_PAGES];
	enum pdd_page_kind last = PDD_PAGE_REFUSED;
	uint32_t n = 0;
	uint64_t i;
	bool framed;
	int error;

	if (npages > PDD_EXTENT_PAGES)
		npages = PDD_EXTENT_PAGES;
	framed = pddi_bits_next(memory->framed, first, first + npages, true) < first + npages;
	error = read_settled(map, flags, memory, first, npages, framed);
	if (error)
		return error;
	for (i = 0; i < npages; i++) {
		enum pdd_page_kind kind =
			kind_of(flags[i], pddi_bit_test(memory->framed, first + i));

		if (n && kind == last) {
			views[n - 1].npages++;
			continue;
		}
		if (n == nviews)
			return (int)n;
		views[n++] = (struct pdd_view){
			.content = kind == PDD_PAGE_PRIVATE ? pddi_memory_address(memory, first + i)
							    : NULL,
			.npages = 1,
			.kind = (uint8_t)kind,
			.reason = kind == PDD_PAGE_REFUSED ? PDD_REASON_SPECIAL : PDD_REASON_NONE,
		};
		last = kind;
	}
	if (last == PDD_PAGE_ABSENT)
		views[n - 1].npages += absent_end(map, memory, first + npages) - (first + npages);
	return (int)n;
}
