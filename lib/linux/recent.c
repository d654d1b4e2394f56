/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recent.c - copies of frames that were made or read a short time ago.
 *
 * A frame is made by copying a page into a slot here and writing the slot to the store; it is
 * compared with what is in the slot, and frames of other times are read into slots from the file.
 * Where page tables are virtualised both matter: a first access costs 2 to 10 us, as much as
 * reading the page ten times, and the kernel pays it as well when it copies from a program's page
 * that it never accessed by that address (pwritev: 10.4 us for each page; from a slot 2.8). Slots
 * are always the same memory. Elsewhere it costs a copy that stays in the cache.
 *
 * Invariants
 *  1. A slot that keeps a place contains what the frame there contains, byte by byte: nobody knows
 *     the slots but this file and who fills them, frames never change, and a place is given out
 *     once (store.c). A place at which no frame was made yet is never kept.
 *  2. What was told in an era stays where it is until pddi_recent_renew(): the library may work
 *     with several contents at a time. It keeps none beyond the next hold, nor the next making of
 *     frames, which is where eras end.
 *
 * Locking: the caller's. Complexity: O(1) for each page; slots are found by the place, so that
 * neighbours stand in neighbouring slots.
 */
#define _GNU_SOURCE 1
#include "recent.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bitmap.h"

static uint32_t slot_of(uint64_t place)
{
	return (uint32_t)(place % PDDI_RECENT_PAGES);
}

static unsigned char *content_of(const struct pddi_recent *recent, uint32_t slot)
{
	return recent->content + ((size_t)slot << recent->page_shift);
}

int pddi_recent_init(struct pddi_recent *recent, uint32_t page_shift)
{
	memset(recent, 0, sizeof(*recent));
	recent->page_shift = page_shift;
	recent->era = 1;
	recent->content = pddi_pages_alloc((size_t)PDDI_RECENT_PAGES << page_shift);
	return recent->content ? 0 : -ENOMEM;
}

void pddi_recent_fini(struct pddi_recent *recent)
{
	pddi_pages_free(recent->content, (size_t)PDDI_RECENT_PAGES << recent->page_shift);
	recent->content = NULL;
}

void pddi_recent_renew(struct pddi_recent *recent)
{
	/* Eras may come again after 2^32: then a slot is kept longer than it has to be. */
	recent->era++;
}

const void *pddi_recent_find(struct pddi_recent *recent, uint64_t place)
{
	uint32_t slot = slot_of(place);

	if (recent->places[slot] != place + 1)
		return NULL;
	recent->told[slot] = recent->era;
	return content_of(recent, slot);
}

/* How many slots from the first on may be overwritten, and lie behind each other. */
static uint64_t free_slots(const struct pddi_recent *recent, uint32_t first, uint64_t n)
{
	uint32_t slot = first;

	while (slot < PDDI_RECENT_PAGES && slot - first < n && recent->told[slot] != recent->era)
		slot++;
	return slot - first;
}

const void *pddi_recent_read(struct pddi_recent *recent, int fd, uint64_t place, uint64_t npages)
{
	uint32_t first = slot_of(place);
	uint64_t n = recent->content ? free_slots(recent, first, npages) : 0;
	ssize_t got;

	if (!n)
		return NULL;
	pddi_recent_forget(recent, place, n);
	got = pread(fd, content_of(recent, first), n << recent->page_shift,
		    (off_t)(place << recent->page_shift));
	if (got > 0)
		pddi_recent_keep(recent, place, (uint64_t)got >> recent->page_shift);
	return pddi_recent_find(recent, place);
}

bool pddi_recent_has(const struct pddi_recent *recent, const void *content)
{
	uintptr_t offset = (uintptr_t)content - (uintptr_t)recent->content;

	return recent->content && offset < (uintptr_t)PDDI_RECENT_PAGES << recent->page_shift;
}

void pddi_recent_forget(struct pddi_recent *recent, uint64_t place, uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		recent->places[slot_of(place + i)] = 0;
}

int pddi_recent_slots(struct pddi_recent *recent, struct iovec *pieces, uint64_t place,
		      uint64_t npages)
{
	uint32_t slot = slot_of(place);
	uint64_t n = PDDI_RECENT_PAGES - slot < npages ? PDDI_RECENT_PAGES - slot : npages;

	pddi_recent_forget(recent, place, npages);
	pieces[0] = (struct iovec){ content_of(recent, slot), n << recent->page_shift };
	pieces[1] = (struct iovec){ recent->content, (npages - n) << recent->page_shift };
	return n < npages ? 2 : 1;
}

void pddi_recent_keep(struct pddi_recent *recent, uint64_t place, uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		recent->places[slot_of(place + i)] = place + i + 1;
}
