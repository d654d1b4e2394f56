/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remap.c - put frames and zero pages in the place of held pages, and take them away again.
 *
 * Invariants
 *  1. Only held pages are replaced, and their hold ends after the new mapping stands: who waits
 *     sees the old content (the same bytes) or its own write on top of it, never anything else.
 *     Pages that are discarded (discard.c) are not held, since their content is not kept.
 *  2. A new mapping gets the flags that the memory had when it was added: not inherited by fork,
 *     not dumped, no huge pages, accounting. (A new mapping starts without any.)
 *  3. A failure changes nothing: the kernel checks its limit of mappings before it unmaps, and the
 *     budget keeps us below. A page that was moved away is then still in the staging area.
 *  4. A page's bit in `framed` changes together with its mapping.
 *
 * Mappings are private and writable: the kernel copies on the first write, by itself. They are
 * populated for reading at once. MAP_POPULATE would populate for writing, that is, copy everything;
 * MADV_POPULATE_READ maps what is shared. Later write protection of such a range then finds
 * pages and leaves no markers (view.c tells what those do).
 *
 * Zero pages need no mapping where the page lay in anonymous memory. While it is held by a move
 * nothing stands at its place; UFFDIO_ZEROPAGE puts the kernel's zero page there, so that readers
 * cost no memory either: some kernels answer a read of an empty place with a page of its own.
 *
 * Hard case: giving back copies (unmerge) under writers. Reading and writing back a word would lose
 * what is written between; MADV_POPULATE_WRITE lets the kernel copy, as a first write does, and
 * needs no further mapping, so it works at the limit too. The pages stay in the mapping of the
 * store, as copies.
 *
 * Cost: one mmap for each run of neighbouring frames; one madvise, and what the end of a hold
 * costs, for each call.
 */
#define _GNU_SOURCE 1
#include "remap.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "uapi.h"
#include "uffd.h"

/* mmap in the middle of a mapping leaves its head and its tail. */
#define MAPPINGS_PER_REMAP 2

static int new_mapping_flags(const struct pdd_linux_memory *memory)
{
	return MAP_PRIVATE | (memory->flags & PDDI_MEMORY_NORESERVE ? MAP_NORESERVE : 0);
}

/* Renew what a new mapping does not inherit. Cannot fail on a mapping that we just made. */
static void renew_flags(const struct pdd_linux_memory *memory, void *start, size_t length,
			bool anonymous)
{
	if (memory->flags & PDDI_MEMORY_DONTFORK)
		(void)madvise(start, length, MADV_DONTFORK);
	if (memory->flags & PDDI_MEMORY_DONTDUMP)
		(void)madvise(start, length, MADV_DONTDUMP);
	/* No huge page ever lies in a private mapping of the store. */
	if (anonymous && memory->flags & PDDI_MEMORY_NOHUGEPAGE)
		(void)madvise(start, length, MADV_NOHUGEPAGE);
}

/*
 * mmap by its number: sanitizers intercept the function and take it for a write to the whole range,
 * which would be a race with everybody who is using the memory.
 */
static int map_over(void *start, size_t length, int flags, int fd, uint64_t offset)
{
	long result = syscall(SYS_mmap, start, length, PROT_READ | PROT_WRITE, flags, fd, offset);

	return result == -1 ? -errno : 0;
}

/* Replace pages by a mapping of the store, or by anonymous memory (fd -1). Its mappings were taken
 * from the budget. 0 or -errno. */
static int remap(struct pddi_budget *budget, struct pdd_linux_memory *memory, uint64_t first,
		 uint64_t npages, int fd, uint64_t place)
{
	void *start = pddi_memory_address(memory, first);
	size_t length = (size_t)npages << memory->page_shift;
	int flags = new_mapping_flags(memory) | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
	int error = map_over(start, length, flags, fd, place << memory->page_shift);

	if (error) {
		uint64_t count;

		pddi_budget_give(budget, MAPPINGS_PER_REMAP);
		/* The kernel says ENOMEM for its limit too. */
		if (error == -ENOMEM && !pddi_mappings_count(&count) &&
		    count + MAPPINGS_PER_REMAP > pddi_mappings_max())
			error = -ENOSPC;
		return error;
	}
	renew_flags(memory, start, length, fd < 0);
	pddi_memory_untrack(memory, first, npages);
	return 0;
}

int pddi_remap_anonymous(struct pddi_budget *budget, struct pdd_linux_memory *memory,
			 uint64_t first, uint64_t npages, bool overdraw)
{
	int error;

	if (overdraw)
		pddi_budget_overdraw(budget, MAPPINGS_PER_REMAP);
	else if (!pddi_budget_take(budget, MAPPINGS_PER_REMAP))
		return -ENOSPC;
	error = remap(budget, memory, first, npages, -1, 0);
	if (!error)
		pddi_memory_set_framed(memory, first, npages, false);
	return error;
}

unsigned char *pddi_remap_spare(const struct pdd_linux_memory *memory, uint64_t npages)
{
	size_t length = (size_t)npages << memory->page_shift;
	void *start = mmap(NULL, length, PROT_READ | PROT_WRITE,
			   new_mapping_flags(memory) | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	renew_flags(memory, start, length, true);
	return start;
}

/* How many of the frames from the first on stand at neighbouring places. */
static uint64_t neighbours(struct pdd_frame *const *frames, uint64_t nframes)
{
	uint64_t place = pddi_frame_place(frames[0]);
	uint64_t n = 1;

	while (n < nframes && pddi_frame_place(frames[n]) == place + n)
		n++;
	return n;
}

int pddi_frames_map(struct pddi_hold *hold, struct pddi_budget *budget,
		    const struct pddi_store *store, struct pdd_linux_memory *memory, uint64_t first,
		    struct pdd_frame *const *frames, uint64_t npages)
{
	uint64_t done = 0;
	int error = -EINVAL;

	if (!pddi_hold_covers(hold, memory, first, npages))
		return error;
	while (done < npages) {
		uint64_t n = neighbours(frames + done, npages - done);

		error = -ENOSPC;
		if (!pddi_budget_take(budget, MAPPINGS_PER_REMAP))
			break;
		error = remap(budget, memory, first + done, n, store->fd,
			      pddi_frame_place(frames[done]));
		if (error)
			break;
		pddi_memory_set_framed(memory, first + done, n, true);
		done += n;
	}
	if (!done)
		return error;
	pddi_hold_end(hold, first, done, true);
	/* Should it fail, the first access pays for it. */
	(void)madvise(pddi_memory_address(memory, first), (size_t)done << memory->page_shift,
		      MADV_POPULATE_READ);
	return (int)done;
}

/* Zero pages [first, first + n), all of them moved away, or all in a mapping of the store, or
 * neither. 0 or -errno. */
static int zero_run(struct pddi_hold *hold, struct pddi_budget *budget,
		    struct pdd_linux_memory *memory, uint64_t first, uint64_t n)
{
	int error;

	if (pddi_bit_test(memory->framed, first)) {
		error = pddi_remap_anonymous(budget, memory, first, n, false);
		if (!error)
			pddi_hold_end(hold, first, n, true);
		return error;
	}
	if (pddi_hold_is_staged(hold, first))
		pddi_uffd_zero(pddi_hold_mover(hold), pddi_memory_address(memory, first), n,
			       memory->page_shift);
	else if (madvise(pddi_memory_address(memory, first), (size_t)n << memory->page_shift,
			 MADV_DONTNEED))
		return -errno;
	pddi_hold_end(hold, first, n, false);
	return 0;
}

int pddi_zero_map(struct pddi_hold *hold, struct pddi_budget *budget,
		  struct pdd_linux_memory *memory, uint64_t first, uint64_t npages)
{
	uint64_t done, n;

	if (!pddi_hold_covers(hold, memory, first, npages))
		return -EINVAL;
	for (done = 0; done < npages; done += n) {
		uint64_t page = first + done;
		bool framed = pddi_bit_test(memory->framed, page);
		int error;

		/* Anonymous pages are all held in one way. */
		n = pddi_bits_next(memory->framed, page, first + npages, !framed) - page;
		error = zero_run(hold, budget, memory, page, n);
		if (error)
			return done ? (int)done : error;
	}
	return (int)done;
}

/* Give pages in a mapping of the store their copies. How many have one, or -errno if none. */
static int64_t copy_run(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages)
{
	size_t page_size = (size_t)1 << memory->page_shift;
	uint64_t done;

	if (!madvise(pddi_memory_address(memory, first), npages << memory->page_shift,
		     MADV_POPULATE_WRITE))
		return (int64_t)npages;
	/* How far it came is not told. Pages that have their copy already cost little. */
	for (done = 0; done < npages; done++)
		if (madvise(pddi_memory_address(memory, first + done), page_size,
			    MADV_POPULATE_WRITE))
			return done ? (int64_t)done : errno == EFAULT ? -ENOMEM : -errno;
	return (int64_t)done;
}

int pddi_frames_unmap(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages)
{
	uint64_t page = first, end = first + npages;

	while (page < end) {
		uint64_t framed = pddi_bits_next(memory->framed, page, end, true);
		uint64_t n = pddi_bits_next(memory->framed, framed, end, false) - framed;
		int64_t copied = n ? copy_run(memory, framed, n) : 0;

		/* What is not framed is anonymous: the zero page is nobody's but this mapping's. */
		page = framed + (copied > 0 ? (uint64_t)copied : 0);
		if ((uint64_t)copied != n)
			return page > first ? (int)(page - first) : (int)copied;
	}
	return (int)npages;
}
