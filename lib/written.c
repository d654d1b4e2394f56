/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * written.c - write tracking: which pages were written since they were read.
 *
 * The hook pages_written is asked before any content is read, and what it says is kept in the items
 * at once, as their dirty mark: the embedder tells each write only once, and the page may be one
 * that this pass does not look at. look.c clears the mark when it has read the page.
 *
 * Invariants
 *  1. If a page is not dirty, all writes that came before its space's last answer came before its
 *     content was read; so, unless the page was written since that answer, it has the checksum that
 *     is recorded. (The answer to a write in between is still to come.)
 *  2. What is not known counts as written.
 *  3. Tracking only saves reading. Whatever it says, only what was compared while it was held is
 *     shared, and a page that was found to differ from what is recorded is dirty
 *     (pddi_item_fail()),
 *     so a write that was never told of, as by a device, costs savings and nothing else.
 *
 * One call asks for many extents, since the system calls behind it cost as much for one page as for
 * thousands; but not for many more than the step will come by. So a pass asks for every page once,
 * as far as its regions were there when it began (twice where a walk goes round, pass.c), and
 * hardly for what it jumps over.
 *
 * Of several threads one asks, and the others take the pages that it asks for as answered. So they
 * may come by a page of whose last write they will be told a moment later: its mark is set then,
 * and the next pass finds it.
 *
 * With a deadline it is no more than what a look at one extent costs at the worst.
 *
 * Complexity: O(pages / 64) and O(1) for each written page. Locking: the space's, the caller's.
 */
#include <string.h>

#include "scanner_internal.h"

/* A page that is kept out is read in any case when it is let in. */
static void mark(struct pdd_item *item)
{
	if (!item_is_kept_out(item))
		item_set_dirty(item, true);
}

/* With a deadline, the pages that are asked for at once at most, and the rest of an extent. Where
 * some pages of each extent were written, asking costs a flush for each (100 us on a virtual
 * machine whose page tables are virtualised in software). */
#define TIMED_PAGES (UINT64_C(4) * PDD_EXTENT_PAGES)

static void mark_written(const struct pdd_region *region, const uint64_t *bits, uint64_t first,
			 uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i += 64) {
		uint64_t word = bits[i / 64];

		if (npages - i < 64)
			word &= (UINT64_C(1) << (npages - i)) - 1;
		for (; word; word &= word - 1) {
			uint64_t page = first + i + (uint64_t)__builtin_ctzll(word);
			struct pdd_extent *extent =
				pddi_extent_find(region, page / PDD_EXTENT_PAGES);

			if (extent)
				mark(pddi_extent_item(extent, page));
		}
	}
}

static void mark_all_written(const struct pdd_region *region, uint64_t first, uint64_t end)
{
	for (struct pddi_part part; pddi_part_next(region, &part, first, end); first = part.end)
		for (uint64_t page = part.first; page < part.end; page++)
			mark(pddi_extent_item(part.extent, page));
}

/* Ask for pages [first, end), at most PDD_WRITTEN_PAGES_MAX. */
static void ask(struct pdd_scanner *scanner, struct pdd_worker *worker, struct pdd_region *region,
		uint64_t first, uint64_t end)
{
	uint64_t *bits = worker->priv.written;

	while (first < end) {
		uint64_t npages = end - first;
		int64_t n;

		memset(bits, 0, (npages + 63) / 64 * sizeof(*bits));
		pddi_unlock(scanner);
		n = scanner->priv.ops.pages_written(scanner->priv.ctx, region, bits, first, npages);
		pddi_lock(scanner);
		if (n <= 0) {
			if (n < 0)
				(void)pddi_reason(scanner, PDD_HOOK_PAGES_WRITTEN, (int)n);
			mark_all_written(region, first, end);
			return;
		}
		if ((uint64_t)n < npages)
			npages = (uint64_t)n;
		mark_written(region, bits, first, npages);
		first += npages;
	}
}

void pddi_written_ask(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      struct pdd_region *region, uint64_t first, uint64_t npages)
{
	uint64_t most = PDD_WRITTEN_PAGES_MAX - PDD_EXTENT_PAGES;
	uint64_t last = pddi_region_pass_pages(region), end;

	if (worker->priv.deadline_ns)
		most = TIMED_PAGES;
	if (!scanner->priv.ops.pages_written ||
	    (region->priv.written_pass == scanner->priv.epoch + 1 &&
	     first >= region->priv.written_from && first < region->priv.written_end))
		return;
	if (npages > most)
		npages = most;
	/* Whole extents: a visit never goes beyond the answer. */
	end = pdd_region_extents(first + npages) * PDD_EXTENT_PAGES;
	end = end < last ? end : last;
	region->priv.written_pass = scanner->priv.epoch + 1;
	region->priv.written_from = first;
	region->priv.written_end = end;
	ask(scanner, worker, region, first, end);
}
