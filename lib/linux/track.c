/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * track.c - which pages were written since they were asked for last.
 *
 * All of an added memory is registered with a userfaultfd of its own kind (UFFD_FEATURE_WP_ASYNC):
 * a write to a page that it protects waits for nobody; the kernel drops the protection and goes on.
 * PAGEMAP_SCAN tells which pages are not protected, and protects them in the same instant.
 *
 * Invariants
 *  1. The protection is the only record, and only the scan below sets it. So a page that is not
 *     told of has not been written since the scan before: a write drops the protection, and so does
 *     all else that happens to a page (a new mapping, a new page, a move, the end of a
 *     registration). What the adapter itself does to pages may be told of as a write, which costs
 *     reading a page.
 *  2. While pages of a memory are registered with the other userfaultfd, whose protection makes
 *     writers wait, they are not registered with this one: pause, register, unregister, resume.
 *  3. An extent whose bit in `tracked` is set is registered as a whole. Bits are cleared by what
 *     puts new mappings somewhere (remap.c), and by failures; before each scan what is not
 *     registered is. PM_SCAN_CHECK_WPASYNC makes the scan fail, rather than skip silently, where
 *     that is not so.
 *  4. A scan that failed may have protected pages that it did not tell of. Such extents are
 *     doubted: all of their pages are told of by the next scan that works.
 *  5. Nothing is registered any more when a memory is forgotten (pddi_track_stop).
 *
 * Why a write cannot fall in between. A page is protected under the lock of its page table, and
 * processors forget what they knew of it before the call returns. A write that comes until then is
 * one to a page that is being told of, and the page is read after the call; or the page was
 * protected already, and then no processor remembers that it may be written. What comes later drops
 * the protection, before it changes the page.
 *
 * No markers: where nothing is, nothing is asked for (PRESENT or SWAPPED), so nothing is protected
 * either, and a page that comes is told of. Hence UFFD_FEATURE_WP_UNPOPULATED is not needed
 * (tried), and sparse memory stays sparse. A marker that the kernel leaves where it takes away a
 * protected page of the store is what view.c expects.
 *
 * Hard case: devices. A device writes by its pin, and no protection stops it. Pinning breaks the
 * protection, but a pin may be older than the scan. What is recorded of such a page may be old,
 * which costs no content, since pages are compared while they are held, but may cost savings until
 * the page is written by a processor. So, unless devices are promised not to write, each extent
 * counts as written once in TURNS passes.
 *
 * Cost: a scan for each call, and two or three system calls for runs of extents that were not
 * registered. For each page 2 to 3 ns where nothing was written; for each extent in which something
 * was, the kernel forgets translations, and each first write to a page afterwards costs a fault
 * (figures in docs/internals/linux.md).
 */
#define _GNU_SOURCE 1
#include "track.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "uapi.h"
#include "uffd.h"

/* Passes in which each extent counts as written once where devices may write. */
#define TURNS 256u

_Static_assert(sizeof(struct page_region) * PDDI_TRACK_VECTOR == PDDI_TRACK_BYTES,
	       "track.h does without the declaration");

int pddi_track_init(struct pddi_track *track, struct pddi_probe *probe, uint32_t page_shift,
		    uint32_t flags)
{
	memset(track, 0, sizeof(*track));
	track->probe = probe;
	track->vector = PDDI_TRACK_VECTOR;
	track->page_shift = page_shift;
	track->turns = !(flags & PDD_LINUX_NO_DEVICE_WRITES);
	if (flags & PDD_LINUX_NO_TRACKING)
		pddi_probe_untrack(probe);
	if (probe->track_uffd < 0)
		return 0;
	track->runs = pddi_pages_alloc(PDDI_TRACK_BYTES);
	return track->runs ? 0 : -ENOMEM;
}

void pddi_track_fini(struct pddi_track *track)
{
	pddi_pages_free(track->runs, PDDI_TRACK_BYTES);
	track->runs = NULL;
}

/* Register the extents of a range that are not. How many of its pages are registered then, from the
 * first on, or -errno if none. */
static int64_t register_lost(const struct pddi_track *track, struct pdd_linux_memory *memory,
			     uint64_t first, uint64_t npages)
{
	uint64_t extent = first / PDD_EXTENT_PAGES, behind;
	uint64_t end = pdd_region_extents(first + npages);

	for (; (extent = pddi_bits_next(memory->tracked, extent, end, false)) < end;
	     extent = behind) {
		uint64_t page = extent * PDD_EXTENT_PAGES, stop;
		int error;

		behind = pddi_bits_next(memory->tracked, extent, end, true);
		stop = behind * PDD_EXTENT_PAGES;
		stop = stop < memory->npages ? stop : memory->npages;
		memory->is_tracked = true;
		error = pddi_uffd_register(track->probe->track_uffd,
					   pddi_memory_address(memory, page), stop - page,
					   track->page_shift, UFFDIO_REGISTER_MODE_WP);
		if (error)
			return page > first ? (int64_t)(page - first) : error;
		pddi_bits_put(memory->tracked, extent, behind - extent, true);
	}
	return (int64_t)npages;
}

/* Tell which pages of a registered range were written, and protect them. 0; or -errno, when pages
 * from *done on may be protected without having been told of. */
static int scan(const struct pddi_track *track, const struct pdd_linux_memory *memory,
		uint64_t *bits, uint64_t first, uint64_t npages, uint64_t *done)
{
	uintptr_t start = (uintptr_t)pddi_memory_address(memory, first);
	uint32_t page = track->page_shift;

	for (*done = 0; *done < npages;) {
		struct pm_scan_arg arg = {
			.size = sizeof(arg),
			.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
			.start = start + (*done << page),
			.end = start + (npages << page),
			.vec = (uintptr_t)track->runs,
			.vec_len = track->vector,
			.category_mask = PAGE_IS_WRITTEN,
			.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
			.return_mask = PAGE_IS_WRITTEN,
		};
		long n = ioctl(track->probe->pagemap_fd, PAGEMAP_SCAN, &arg);
		long i;

		if (n < 0)
			return -errno;
		for (i = 0; i < n; i++)
			pddi_bits_put(bits, (track->runs[i].start - start) >> page,
				      (track->runs[i].end - track->runs[i].start) >> page, true);
		if (arg.walk_end <= arg.start || arg.walk_end > arg.end)
			return -EIO; /* would never come to an end */
		*done = (arg.walk_end - start) >> page;
	}
	return 0;
}

/* All pages of an extent that lie in [first, first + npages) count as written. */
static void tell_extent(uint64_t *bits, uint64_t extent, uint64_t first, uint64_t npages)
{
	uint64_t from = extent * PDD_EXTENT_PAGES, to = from + PDD_EXTENT_PAGES;

	from = from > first ? from : first;
	to = to < first + npages ? to : first + npages;
	if (from < to)
		pddi_bits_put(bits, from - first, to - from, true);
}

/* What is told without having been seen; see the top. */
static void tell_unseen(const struct pddi_track *track, struct pdd_linux_memory *memory,
			uint64_t *bits, uint64_t first, uint64_t npages)
{
	uint64_t extent = first / PDD_EXTENT_PAGES, from = extent;
	uint64_t end = pdd_region_extents(first + npages);

	if (track->turns) {
		if (!first)
			memory->track_turn = (memory->track_turn + 1) % TURNS;
		extent += (memory->track_turn - extent % TURNS + TURNS) % TURNS;
		for (; extent < end; extent += TURNS)
			tell_extent(bits, extent, first, npages);
	}
	for (; (from = pddi_bits_next(memory->doubted, from, end, true)) < end; from++) {
		tell_extent(bits, from, first, npages);
		/* What the range ends within is told of when the rest is asked for, again. */
		if ((from + 1) * PDD_EXTENT_PAGES <= first + npages ||
		    first + npages == memory->npages)
			pddi_bits_put(memory->doubted, from, 1, false);
	}
}

int64_t pddi_track_written(struct pddi_track *track, struct pdd_linux_memory *memory,
			   uint64_t *bits, uint64_t first, uint64_t npages)
{
	uint64_t done;
	int64_t n;
	int error;

	if (track->probe->track_uffd < 0)
		return -ENOSYS;
	n = register_lost(track, memory, first, npages);
	if (n <= 0)
		return n;
	error = scan(track, memory, bits, first, (uint64_t)n, &done);
	if (error) {
		uint64_t from = (first + done) / PDD_EXTENT_PAGES;
		uint64_t end = pdd_region_extents(first + (uint64_t)n);

		pddi_bits_put(memory->doubted, from, end - from, true);
		pddi_bits_put(memory->tracked, from, end - from, false);
		if (!done)
			return error;
	}
	tell_unseen(track, memory, bits, first, done);
	return (int64_t)done;
}

int pddi_track_pause(const struct pddi_probe *probe, struct pdd_linux_memory *memory,
		     uint64_t first, uint64_t npages)
{
	int error = 0;

	if (memory->is_tracked && probe->track_uffd >= 0)
		error = pddi_uffd_unregister(probe->track_uffd,
					     pddi_memory_address(memory, first), npages,
					     memory->page_shift);
	if (error)
		pddi_memory_untrack(memory, first, npages);
	return error;
}

void pddi_track_resume(const struct pddi_probe *probe, struct pdd_linux_memory *memory,
		       uint64_t first, uint64_t npages)
{
	if (!memory->is_tracked || probe->track_uffd < 0)
		return;
	/* At once and not before the next scan: registered in part, the memory is more mappings. */
	if (pddi_uffd_register(probe->track_uffd, pddi_memory_address(memory, first), npages,
			       memory->page_shift, UFFDIO_REGISTER_MODE_WP))
		pddi_memory_untrack(memory, first, npages);
}

void pddi_track_reset(struct pddi_probe *probe, struct pdd_linux_memory *memory)
{
	/* What stays registered could not be added again: rather track nothing at all any more. */
	if (probe->track_uffd >= 0 &&
	    pddi_uffd_unregister(probe->track_uffd, memory->start, memory->npages,
				 memory->page_shift))
		pddi_probe_untrack(probe);
	memory->is_tracked = false;
	pddi_memory_untrack(memory, 0, memory->npages);
}

void pddi_track_stop(struct pddi_probe *probe, struct pdd_linux_memory *memory)
{
	if (memory->is_tracked)
		pddi_track_reset(probe, memory);
}
