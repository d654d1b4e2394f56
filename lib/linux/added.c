/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * added.c - adding and removing memory: one space with one region each.
 *
 * Invariants
 *  1. A memory is in `memories` if and only if the scanner knows its space and region.
 *  2. The layout lock is held exclusively while the scanner is told, as ops.h wants it.
 *  3. A failure to add leaves nothing but, at most, the range without huge pages.
 *  4. No page is in two memories, whichever deduplicators they are of: each would take the other's
 *     frames for the program's memory. Hence the list of claims, the only state that is not part of
 *     a deduplicator; `claims_lock` is taken last and for moments.
 *
 * Items and extents are mapped, not allocated (bitmap.h says why).
 *
 * Locking: the deduplicator's `lock`. Complexity: adding reads the mappings of the process up to
 * the range and the page tables of those before it (smaps is the only place that tells their
 * flags); removing is O(pages).
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <unistd.h>

#include "dedup_internal.h"
#include "give_back.h"

#define HUGE_BYTES ((size_t)1 << 21)

static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pdd_linux_memory *claims;

static uintptr_t end_of(const struct pdd_linux_memory *memory)
{
	return (uintptr_t)memory->start + (memory->npages << memory->page_shift);
}

static bool overlaps(const struct pdd_linux_memory *memory, uintptr_t start, uintptr_t end)
{
	return start < end_of(memory) && (uintptr_t)memory->start < end;
}

/* 0, or -EINVAL if a part of the memory is claimed already. */
static int claim(struct pdd_linux_memory *memory)
{
	const struct pdd_linux_memory *other;

	pthread_mutex_lock(&claims_lock);
	for (other = claims; other; other = other->claims_next)
		/* What a parent claimed is not this process's. */
		if (other->dedup->owner == memory->dedup->owner &&
		    overlaps(other, (uintptr_t)memory->start, end_of(memory)))
			break;
	if (!other) {
		memory->claims_next = claims;
		memory->claims_pprev = &claims;
		if (claims)
			claims->claims_pprev = &memory->claims_next;
		claims = memory;
	}
	pthread_mutex_unlock(&claims_lock);
	return other ? -EINVAL : 0;
}

static void unclaim(struct pdd_linux_memory *memory)
{
	if (!memory->claims_pprev)
		return;
	pthread_mutex_lock(&claims_lock);
	*memory->claims_pprev = memory->claims_next;
	if (memory->claims_next)
		memory->claims_next->claims_pprev = memory->claims_pprev;
	pthread_mutex_unlock(&claims_lock);
}

static uint64_t extents_bytes(const struct pdd_linux_memory *memory)
{
	return pdd_region_extents(memory->npages) * sizeof(struct pdd_extent);
}

static uint64_t items_bytes(const struct pdd_linux_memory *memory)
{
	return memory->npages * sizeof(struct pdd_item);
}

/*
 * Memory for items, all of which are touched when the region is added: on huge pages as far as it
 * fills them, which takes no more memory, and fewer first accesses and address translations. To be
 * freed by pddi_pages_free().
 */
static void *items_alloc(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t whole = (bytes + page - 1) / page * page, huge = bytes / HUGE_BYTES * HUGE_BYTES;
	unsigned char *start;
	size_t head;

	if (!huge)
		return pddi_pages_alloc(bytes);
	start = pddi_pages_alloc(whole + HUGE_BYTES);
	if (!start)
		return NULL;
	head = (size_t)(-(uintptr_t)start % HUGE_BYTES);
	pddi_pages_free(head ? start : NULL, head);
	start += head;
	pddi_pages_free(start + whole, HUGE_BYTES - head);
	(void)madvise(start, huge, MADV_HUGEPAGE);
	return start;
}

static void memory_free(struct pdd_linux *dedup, struct pdd_linux_memory *memory)
{
	unclaim(memory);
	if (memory->area)
		pddi_store_area_drop(&dedup->store, memory->area);
	pddi_pages_free(memory->items, items_bytes(memory));
	pddi_pages_free(memory->extents, extents_bytes(memory));
	pddi_memory_fini(memory);
	pthread_rwlock_destroy(&memory->layout);
	pddi_pages_free(memory, sizeof(*memory));
}

uint64_t pddi_added_resident(const struct pdd_linux_memory *memory, const struct pddi_pagemap *map)
{
	return sizeof(*memory) + pddi_pagemap_resident(map, memory->items, items_bytes(memory)) +
	       pddi_pagemap_resident(map, memory->extents, extents_bytes(memory)) +
	       pddi_pagemap_resident(map, memory->bits, pddi_memory_bytes(memory));
}

/* What a memory needs, nothing of it known to the scanner yet. 0 or -errno. */
static int memory_make(struct pdd_linux *dedup, struct pdd_linux_memory **out, void *start,
		       uint64_t npages, uint32_t flags)
{
	struct pdd_linux_memory *memory = pddi_pages_alloc(sizeof(*memory));
	int error;

	if (!memory)
		return -ENOMEM;
	pthread_rwlock_init(&memory->layout, NULL);
	memory->dedup = dedup;
	error = pddi_memory_init(memory, start, npages, dedup->page_shift, flags);
	if (!error) {
		memory->extents = pddi_pages_alloc(extents_bytes(memory));
		memory->items = items_alloc(items_bytes(memory));
		error = memory->extents && memory->items
				? pddi_store_area_add(&dedup->store, &memory->area, npages)
				: -ENOMEM;
	}
	if (error) {
		memory_free(dedup, memory);
		return error;
	}
	*out = memory;
	return 0;
}

bool pddi_added_overlaps(const struct pdd_linux *dedup, uintptr_t start, uintptr_t end)
{
	const struct pdd_linux_memory *memory;

	for (memory = dedup->memories; memory; memory = memory->next)
		if (overlaps(memory, start, end))
			return true;
	return false;
}

/* Make the scanner know it. 0 or -errno. */
static int introduce(struct pdd_linux *dedup, struct pdd_linux_memory *memory, uint32_t domain)
{
	int error;

	pthread_rwlock_wrlock(&memory->layout);
	error = pdd_space_add(&dedup->scanner, &memory->space, domain);
	if (!error) {
		error = pdd_region_add(&memory->space, &memory->region,
				       (uintptr_t)memory->start >> memory->page_shift,
				       memory->npages, memory->extents, memory->items);
		if (error)
			(void)pdd_space_remove(&memory->space);
	}
	pthread_rwlock_unlock(&memory->layout);
	return error;
}

/* No huge pages any more: what would be merged in them would have to be split. 0 or -errno. */
static int forbid_huge_pages(struct pdd_linux_memory *memory)
{
	if (!madvise(memory->start, memory->npages << memory->page_shift, MADV_NOHUGEPAGE))
		memory->flags |= PDDI_MEMORY_NOHUGEPAGE;
	else if (errno != EINVAL) /* a kernel without them */
		return -errno;
	return 0;
}

int pddi_added_make(struct pdd_linux *dedup, struct pdd_linux_memory **out, uint32_t domain,
		    void *start, size_t length)
{
	struct pdd_linux_memory *memory;
	uint32_t flags;
	int error;

	error = pddi_mappings_inspect(&flags, (uintptr_t)start, (uintptr_t)start + length);
	if (!error)
		error = memory_make(dedup, &memory, start, length >> dedup->page_shift, flags);
	if (error)
		return error;
	error = claim(memory);
	if (!error)
		error = forbid_huge_pages(memory);
	if (!error)
		error = introduce(dedup, memory, domain);
	if (error) {
		memory_free(dedup, memory);
		return error;
	}
	memory->next = dedup->memories;
	memory->pprev = &dedup->memories;
	if (memory->next)
		memory->next->pprev = &memory->next;
	dedup->memories = memory;
	*out = memory;
	return 0;
}

void pddi_added_forget(struct pdd_linux *dedup, struct pdd_linux_memory *memory)
{
	pthread_rwlock_wrlock(&memory->layout);
	pddi_track_stop(&dedup->probe, memory);
	(void)pdd_region_remove(&memory->region);
	(void)pdd_space_remove(&memory->space);
	pthread_rwlock_unlock(&memory->layout);
	*memory->pprev = memory->next;
	if (memory->next)
		memory->next->pprev = memory->pprev;
	memory_free(dedup, memory);
}

int pddi_added_unmerge(struct pdd_linux *dedup, struct pdd_linux_memory *memory)
{
	sigset_t before;
	int64_t done;

	pthread_rwlock_wrlock(&memory->layout);
	pddi_block_signals(&before);
	/* Before pages are taken away from it one by one. */
	pddi_track_stop(&dedup->probe, memory);
	(void)pddi_give_back(&dedup->hold, &dedup->budget, memory);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* The rest gets its copies where it is. */
	do
		done = pdd_region_unmerge(&memory->region, 0, memory->npages, UINT64_MAX);
	while (done > 0);
	pthread_rwlock_unlock(&memory->layout);
	return (int)done;
}
