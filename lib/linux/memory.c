/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - which pages of an added range lie in mappings of the store or are tracked; see
 * memory.h. */
#define _GNU_SOURCE 1
#include "memory.h"

#include <errno.h>

static uint64_t hint_words(uint64_t npages)
{
	return PDDI_BITMAP_WORDS((npages + PDDI_HINT_PAGES - 1) / PDDI_HINT_PAGES);
}

static uint64_t extent_words(uint64_t npages)
{
	return PDDI_BITMAP_WORDS(pdd_region_extents(npages));
}

uint64_t pddi_memory_bytes(const struct pdd_linux_memory *memory)
{
	return (PDDI_BITMAP_WORDS(memory->npages) + hint_words(memory->npages) +
		2 * extent_words(memory->npages)) *
	       sizeof(uint64_t);
}

int pddi_memory_init(struct pdd_linux_memory *memory, void *start, uint64_t npages,
		     uint32_t page_shift, uint32_t flags)
{
	memory->start = start;
	memory->npages = npages;
	memory->page_shift = page_shift;
	memory->flags = flags;
	memory->bits = pddi_pages_alloc(pddi_memory_bytes(memory));
	if (!memory->bits)
		return -ENOMEM;
	memory->framed = memory->bits;
	memory->hints = memory->framed + PDDI_BITMAP_WORDS(npages);
	memory->tracked = memory->hints + hint_words(npages);
	memory->doubted = memory->tracked + extent_words(npages);
	return 0;
}

void pddi_memory_fini(struct pdd_linux_memory *memory)
{
	pddi_pages_free(memory->bits, pddi_memory_bytes(memory));
	memory->bits = memory->framed = memory->hints = NULL;
	memory->tracked = memory->doubted = NULL;
}

void pddi_memory_untrack(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages)
{
	uint64_t extent = first / PDD_EXTENT_PAGES;
	uint64_t last = (first + npages - 1) / PDD_EXTENT_PAGES;

	pddi_bits_put(memory->tracked, extent, last - extent + 1, false);
}

void pddi_memory_set_framed(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages,
			    bool framed)
{
	pddi_bits_put(memory->framed, first, npages, framed);
	if (framed) {
		uint64_t hint = first / PDDI_HINT_PAGES;
		uint64_t last = (first + npages - 1) / PDDI_HINT_PAGES;

		pddi_bits_put(memory->hints, hint, last - hint + 1, true);
	}
}

uint64_t pddi_memory_next_framed(const struct pdd_linux_memory *memory, uint64_t from,
				 uint64_t end)
{
	while (from < end) {
		uint64_t hint = from / PDDI_HINT_PAGES;
		uint64_t hints = (end + PDDI_HINT_PAGES - 1) / PDDI_HINT_PAGES;
		uint64_t stop;

		hint = pddi_bits_next(memory->hints, hint, hints, true);
		if (hint * PDDI_HINT_PAGES > from)
			from = hint * PDDI_HINT_PAGES;
		if (from >= end)
			break;
		stop = (hint + 1) * PDDI_HINT_PAGES;
		if (stop > end)
			stop = end;
		from = pddi_bits_next(memory->framed, from, stop, true);
		if (from < stop)
			return from;
	}
	return end;
}
