/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold_framed.c - holding pages that show frames, so that something else can take their place.
 *
 * Pages that show a frame need no hold to keep their content: nothing ever changes a frame. What
 * has to be kept from happening is that they stop showing it, by a write, in the instant in which
 * another mapping takes their place; the write would land in a copy that nobody sees again. So they
 * are write-protected where they are, and only then the page map is asked what they are.
 *
 * Invariants
 *  1. A page counts as held only if the page map says, after the protection, that it is there and
 *     protected and the store's. A write that came before the protection has given it a copy of its
 *     own, which the page map tells ("not file"); one that comes later waits.
 *  2. What is said on top of hold.c about registering, waking and ending holds for these too.
 *  3. Pages that have a copy of their own are held as well if the caller wants it. They can be read
 *     where they are, as those that show a frame.
 *
 * Hard case: devices. Protection does not stop a device that has a pin. But who pins a page in
 * order to write it makes the kernel break the sharing first, as a write does: the pin is one on
 * the page's copy, and the copy stays where it is. So a page that the page map calls the store's
 * after the protection has no such pin, and none can come while it is protected: taking one waits
 * like any write. A pin that is taken for one read of the page by a device (O_DIRECT writes to a
 * file) is one on the frame, which keeps its content and, as long as the pin is there, its memory.
 * What is left are pins for reading that are taken to last (RDMA). The kernel breaks the sharing
 * for them too, but that is no write, so they are not known to wait for the protection; one that
 * came between the look at the page map and the new mapping would go on reading a copy that is
 * nobody's. Without PDD_LINUX_NO_DEVICE_WRITES no page that could be seen by a device this way may
 * be replaced, so who needs this hold asks for that promise, which covers lasting pins for reading
 * as well. For pages that have a copy of their own it is needed anyway, as a pin of the copy is not
 * seen.
 *
 * Cost: one registration, one protection, one look at the page map, whatever the number of pages.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "hold.h"
#include "track.h"
#include "uapi.h"
#include "uffd.h"

#ifndef PDD_TEST_NO_HOLD
/* Of pages that were protected, how many from the first on are held; or -errno. */
static int count_held(const struct pddi_hold *hold, uint64_t first, uint64_t npages, bool copies)
{
	const unsigned int held = PDDI_PAGE_PRESENT | PDDI_PAGE_PROTECTED |
				  (copies ? 0 : PDDI_PAGE_FILE);
	uint8_t flags[PDD_EXTENT_PAGES];
	int error = pddi_pagemap_read_settled(hold->map, flags, hold->memory, first, npages);
	int n = 0;

	if (error)
		return error;
	while (n < (int)npages && (flags[n] & held) == held)
		n++;
	return n;
}

/* Protect the run, register it before; how many pages from the first on are held, or -errno. */
static int protect_run(struct pddi_hold *hold, uint64_t first, uint64_t npages, bool copies)
{
	int uffd = hold->probe->uffd;
	unsigned char *start = pddi_hold_address(hold, hold->lo);
	uint32_t page = hold->page_shift;
	uint64_t done;
	int n;

	n = pddi_track_pause(hold->probe, hold->memory, first, npages);
	if (n)
		return n;
	/* It goes mapping by mapping: where it failed, those before may be registered. */
	pddi_bits_put(hold->registered, hold->lo, npages, true);
	hold->guards = true;
	n = pddi_uffd_register(uffd, start, npages, page, UFFDIO_REGISTER_MODE_WP);
	if (n)
		return n;
	n = pddi_uffd_protect(uffd, start, npages, page, true);
	if (!n)
		n = count_held(hold, first, npages, copies);
	done = n > 0 ? (uint64_t)n : 0;
	if (done < npages)
		(void)pddi_uffd_protect(uffd, start + (done << page), npages - done, page, false);
	return n;
}

int pddi_hold_framed(struct pddi_hold *hold, struct pdd_linux_memory *memory, uint64_t first,
		     uint64_t npages, bool copies)
{
	int n;

	if (hold->memory)
		return -EBUSY; /* the library ends a hold before it begins another */
	if (hold->probe->uffd < 0 || !hold->probe->facilities.write_protect || hold->map->fd < 0)
		return -ENOSYS;
	npages = pddi_bits_next(memory->framed, first, first + npages, false) - first;
	if (!npages)
		return 0;
	hold->memory = memory;
	hold->base = first - first % PDD_EXTENT_PAGES;
	hold->lo = (uint32_t)(first - hold->base);
	hold->hi = hold->lo + (uint32_t)npages;
	n = protect_run(hold, first, npages, copies);
	if (n > 0) {
		pddi_bits_put(hold->guarded, hold->lo, (uint32_t)n, true);
		hold->nheld = (uint32_t)n;
	} else {
		pddi_hold_finish(hold);
	}
	return n == -EAGAIN ? -EBUSY : n;
}
#else
int pddi_hold_framed(struct pddi_hold *hold, struct pdd_linux_memory *memory, uint64_t first,
		     uint64_t npages, bool copies)
{
	(void)hold, (void)copies;
	return (int)(pddi_bits_next(memory->framed, first, first + npages, false) - first);
}
#endif
