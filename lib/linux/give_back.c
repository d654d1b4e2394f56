/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * give_back.c - make memory anonymous again that lies in mappings of the store, when it is removed.
 *
 * An unmerge gives shared pages their copies, but leaves them in private mappings of the store:
 * MADV_DONTNEED would go on to bring frames back, and the memory could not be added again. So, a
 * piece at a time: spare anonymous memory is filled with what the held pages contain, and is moved
 * into their place (mremap), page tables and all.
 *
 * Invariants
 *  1. A page of the memory shows its content at any time, to readers and to writers: protected, it
 *     can be read and not written; the kernel puts the spare pages into its place in one step as
 *     seen by accesses; and writers go on only then, in the new page.
 *  2. What fails stays as it was. The frames of pages that were moved have lost a sharer of which
 *     the library does not know yet; it finds out when it unmerges them, which then is nothing to
 *     do, or when it next looks at them.
 *  3. Pages that are pinned are left alone, as for every other purpose.
 *
 * It is done only under PDD_LINUX_NO_DEVICE_WRITES (hold_framed.c): there is no way to tell whether
 * a device holds on to a copy that lies in a mapping of the store.
 *
 * Hard case: mremap. Unlike mmap it unmaps what lies at the place before it does the rest. What it
 * may fail for is looked at before (the limit of mappings: tried; nothing was changed), save memory
 * for the kernel's own records. Should that run out in between, the place is empty, and accesses to
 * it fail. It is filled as soon as there is memory again, since it holds the only copy.
 *
 * What was moved is a mapping of its own and does not join the anonymous memory around it, as the
 * kernel numbers the pages of a mapping by where they were first touched. Neighbouring pieces that
 * are moved in order from one spare mapping do join each other, whatever frames they showed. So the
 * memory consists of fewer mappings than before, as a rule.
 *
 * Cost: memory for the copies, which an unmerge needs as well. Writers wait for at most an extent.
 */
#define _GNU_SOURCE 1
#include "give_back.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "remap.h"
#include "uapi.h"

/* Pages of a spare mapping, at most, and of it that are filled at once, at least. */
#define SPARE_PAGES (UINT64_C(16) * PDD_EXTENT_PAGES)
#define READY_PAGES UINT64_C(64)
/* A move into the middle of a mapping leaves its head and its tail. */
#define MAPPINGS_PER_MOVE 2

struct work {
	struct pddi_hold *hold;
	struct pddi_budget *budget;
	struct pdd_linux_memory *memory;
	/* Spare memory from which pieces are taken, in order; the first `ready` pages have memory.
	 * What was moved away is not in it: another thread may have got that range meanwhile. */
	unsigned char *spare;
	uint64_t nspare;
	uint64_t ready;
};

/* Make up to npages pages of spare memory ready. How many, or -ENOMEM. */
static int64_t get_spare(struct work *work, uint64_t npages)
{
	const struct pdd_linux_memory *memory = work->memory;
	uint64_t n;

	if (!work->nspare) {
		n = memory->npages < SPARE_PAGES ? memory->npages : SPARE_PAGES;
		work->spare = pddi_remap_spare(memory, n);
		if (!work->spare)
			return -ENOMEM;
		work->nspare = n;
	}
	npages = npages < work->nspare ? npages : work->nspare;
	if (work->ready < npages) {
		n = npages < READY_PAGES ? READY_PAGES : npages;
		n = n < work->nspare ? n : work->nspare;
		if (madvise(work->spare, (size_t)n << memory->page_shift, MADV_POPULATE_WRITE))
			return -ENOMEM;
		work->ready = n;
	}
	return (int64_t)npages;
}

static void drop_spare(struct work *work)
{
	if (work->nspare)
		munmap(work->spare, (size_t)work->nspare << work->memory->page_shift);
	work->nspare = work->ready = 0;
}

/* Move spare pages into the place of held ones. 0 or -errno. */
static int move_in(struct work *work, uint64_t first, uint64_t npages)
{
	unsigned char *place = pddi_memory_address(work->memory, first);
	size_t length = (size_t)npages << work->memory->page_shift;
	unsigned char present[PDD_EXTENT_PAGES];

	pddi_budget_overdraw(work->budget, MAPPINGS_PER_MOVE);
	/* By its number, for the reason given in remap.c. */
	while (syscall(SYS_mremap, work->spare, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
		       place) == -1) {
		int error = -errno;

		if (!mincore(place, length, present) || errno != ENOMEM) {
			pddi_budget_give(work->budget, MAPPINGS_PER_MOVE);
			return error;
		}
		sched_yield(); /* the place is empty, see the top */
	}
	work->spare += length;
	work->nspare -= npages;
	work->ready -= npages;
	pddi_memory_untrack(work->memory, first, npages);
	return 0;
}

/* Give back up to npages pages of an extent. How many, from the first on; 0: this one cannot be
 * held; or -errno: no more can be done. */
static int give_back_piece(struct work *work, uint64_t first, uint64_t npages)
{
	struct pddi_hold *hold = work->hold;
	/* Before anybody has to wait, and because nothing may fail when it is written. */
	int64_t ready = get_spare(work, npages);
	int held, error;

	if (ready < 0)
		return (int)ready;
	held = pddi_hold_framed(hold, work->memory, first, (uint64_t)ready, true);
	if (held <= 0)
		return held == -EBUSY ? 0 : held;
	pddi_hold_read(work->spare, pddi_memory_address(work->memory, first),
		       (size_t)held << work->memory->page_shift);
	error = move_in(work, first, (uint64_t)held);
	if (error) {
		pddi_hold_release(hold, first, (uint64_t)held);
		return error;
	}
	pddi_memory_set_framed(work->memory, first, (uint64_t)held, false);
	pddi_hold_end(hold, first, (uint64_t)held, true);
	return held;
}

static bool is_pinned(const struct pdd_linux_memory *memory, uint64_t page)
{
	struct pdd_explanation known = { .size = sizeof(known) };

	return !pdd_region_explain(&memory->region, page, &known) && known.npins;
}

/* Give back the pages of [first, end), part of an extent, that are not pinned. False: no more can
 * be done. */
static bool give_back_extent(struct work *work, uint64_t first, uint64_t end)
{
	while (first < end) {
		uint64_t next = first;
		int done;

		while (next < end && !is_pinned(work->memory, next))
			next++;
		done = next > first ? give_back_piece(work, first, next - first) : 0;
		if (done < 0)
			return false;
		first += done > 0 ? (uint64_t)done : 1;
	}
	return true;
}

uint64_t pddi_give_back(struct pddi_hold *hold, struct pddi_budget *budget,
			struct pdd_linux_memory *memory)
{
	struct work work = { .hold = hold, .budget = budget, .memory = memory };
	bool more = hold->protect;
	uint64_t page = 0, left = 0;

	while ((page = pddi_memory_next_framed(memory, page, memory->npages)) < memory->npages) {
		uint64_t limit = page - page % PDD_EXTENT_PAGES + PDD_EXTENT_PAGES, end;

		limit = limit < memory->npages ? limit : memory->npages;
		end = pddi_bits_next(memory->framed, page, limit, false);
		more = more && give_back_extent(&work, page, end);
		left += pddi_bits_count(memory->framed, page, end - page);
		page = end;
	}
	drop_spare(&work);
	return left;
}
