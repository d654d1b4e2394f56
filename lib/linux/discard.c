/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discard.c - give the memory of pages back, so that they read zero.
 *
 * What drops the memory of a page depends on where it lies. In anonymous memory MADV_DONTNEED does,
 * and costs nothing. In a private mapping of the store it would drop the page's own copy and bring
 * back the frame that once stood there, perhaps long after it was given up, perhaps as zeros: so
 * there the mapping itself goes, and fresh anonymous memory takes its place.
 *
 * Invariants
 *  1. Whoever reads a page meanwhile finds its last content or zero, never the bytes of a frame
 *     that it does not share any more, and never nothing: the kernel replaces a mapping in one step
 *     as seen by accesses. A write that comes before is dropped with the page, one that comes
 *     after stays.
 *  2. What failed is as it was: the kernel looks at its limit of mappings before it unmaps.
 *  3. No page of a discarded range lies in a mapping of the store.
 *
 * From the first page of the range that lies in a mapping of the store to the last one, all is
 * replaced by one mapping, whatever lies between. So a range that was cut into many mappings
 * becomes one, and joins what lies around it where the kernel lets it.
 *
 * Hard case: the limit of mappings. Fresh memory in the middle of a mapping leaves its head and its
 * tail, so discarding may cost two mappings. The budget of the deduplicator is no reason to refuse
 * what the program itself asks for, as the program's share of the mappings is left for such things.
 * At the kernel's limit, however, mmap is refused whatever it is to replace (tried: also a mapping
 * exactly). There is no way then to make the page read zero and keep its memory from staying.
 *
 * Locking: the layout of the memory, exclusively. Complexity: two system calls for each call, and
 * the kernel's work on the pages; the search for framed pages reads a bit for each page, and one
 * for PDDI_HINT_PAGES of them where nothing was ever shared.
 */
#define _GNU_SOURCE 1
#include "discard.h"

#include <errno.h>

#include "remap.h"

/* Behind the last page of [first, end) that lies in a mapping of the store; first does. */
static uint64_t framed_end(const struct pdd_linux_memory *memory, uint64_t first, uint64_t end)
{
	uint64_t behind = first;

	while (first < end) {
		behind = pddi_bits_next(memory->framed, first, end, false);
		first = pddi_memory_next_framed(memory, behind, end);
	}
	return behind;
}

int64_t pddi_discard(struct pddi_budget *budget, struct pdd_linux_memory *memory, uint64_t first,
		     uint64_t npages)
{
	uint64_t end = first + npages;
	uint64_t framed = pddi_memory_next_framed(memory, first, end);
	int error;

	/* One piece for each call: the library asks again for the rest. */
	if (framed > first) {
		npages = framed - first;
		error = madvise(pddi_memory_address(memory, first),
				(size_t)npages << memory->page_shift, MADV_DONTNEED)
				? -errno
				: 0;
	} else {
		npages = framed_end(memory, first, end) - first;
		error = pddi_remap_anonymous(budget, memory, first, npages, true);
	}
	return error ? error : (int64_t)npages;
}
