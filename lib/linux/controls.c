/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * controls.c - linux/dedup.h: what the owner of memory asks for page by page, and the settings.
 * Each call is one of the scanner's, on the pages that a range of addresses consists of.
 *
 * Invariants
 *  1. The layout of a memory is locked exclusively while its pages are pinned, excluded, discarded
 *     or unmerged, as space.h wants it. Nobody else can have it: the deduplicator's lock is held.
 *  2. Nothing is held here (hold.c), so that no access to the memory waits for these calls, and a
 *     signal handler may run in the middle of them.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "dedup_internal.h"

typedef int (*range_fn)(struct pdd_region *region, uint64_t first, uint64_t npages);

/* Which pages a range of addresses consists of; whether a memory has them is for the library to
 * say. 0; -EINVAL: not whole pages, or none. */
static int pages_of(const struct pdd_linux_memory *memory, uint64_t *first, uint64_t *npages,
		    const void *start, size_t length)
{
	/* An address before the start becomes one far behind the end. */
	uintptr_t from = (uintptr_t)start - (uintptr_t)memory->start;
	uint64_t mask = (UINT64_C(1) << memory->page_shift) - 1;

	*first = from >> memory->page_shift;
	*npages = length >> memory->page_shift;
	return !length || (from | length) & mask ? -EINVAL : 0;
}

static int call_with_range(struct pdd_linux *dedup, struct pdd_linux_memory *memory,
			   const void *start, size_t length, range_fn fn)
{
	uint64_t first, npages;
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pddi_is_added(dedup, memory) ? pages_of(memory, &first, &npages, start, length)
					      : -EINVAL;
	if (!result) {
		pthread_rwlock_wrlock(&memory->layout);
		result = fn(&memory->region, first, npages);
		pthread_rwlock_unlock(&memory->layout);
	}
	pddi_leave(dedup);
	return result;
}

int pdd_linux_discard(struct pdd_linux *dedup, struct pdd_linux_memory *memory, void *start,
		      size_t length)
{
	return call_with_range(dedup, memory, start, length, pdd_region_discard);
}

int pdd_linux_pin(struct pdd_linux *dedup, struct pdd_linux_memory *memory, const void *start,
		  size_t length)
{
	return call_with_range(dedup, memory, start, length, pdd_region_pin);
}

int pdd_linux_unpin(struct pdd_linux *dedup, struct pdd_linux_memory *memory, const void *start,
		    size_t length)
{
	return call_with_range(dedup, memory, start, length, pdd_region_unpin);
}

int pdd_linux_exclude(struct pdd_linux *dedup, struct pdd_linux_memory *memory, const void *start,
		      size_t length)
{
	return call_with_range(dedup, memory, start, length, pdd_region_exclude);
}

int pdd_linux_include(struct pdd_linux *dedup, struct pdd_linux_memory *memory, const void *start,
		      size_t length)
{
	return call_with_range(dedup, memory, start, length, pdd_region_include);
}

/* --- the whole deduplicator --- */

static void lock_layouts(struct pdd_linux *dedup, bool lock)
{
	struct pdd_linux_memory *memory;

	for (memory = dedup->memories; memory; memory = memory->next)
		if (lock)
			pthread_rwlock_wrlock(&memory->layout);
		else
			pthread_rwlock_unlock(&memory->layout);
}

int64_t pdd_linux_unmerge(struct pdd_linux *dedup, uint64_t budget)
{
	int64_t result = pddi_enter(dedup);

	if (result)
		return result;
	lock_layouts(dedup, true);
	result = pdd_scanner_unmerge(&dedup->scanner, budget);
	lock_layouts(dedup, false);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_prune(struct pdd_linux *dedup)
{
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pdd_scanner_prune(&dedup->scanner);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_set_tunables(struct pdd_linux *dedup, const struct pdd_tunables *tunables)
{
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pdd_scanner_set_tunables(&dedup->scanner, tunables);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_get_tunables(struct pdd_linux *dedup, struct pdd_tunables *tunables)
{
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pdd_scanner_get_tunables(&dedup->scanner, tunables);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_explain(struct pdd_linux *dedup, const void *address,
		      struct pdd_explanation *explanation)
{
	const struct pdd_linux_memory *memory;
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = -EINVAL;
	for (memory = dedup->memories; memory; memory = memory->next) {
		uint64_t page = ((uintptr_t)address - (uintptr_t)memory->start) >>
				memory->page_shift;

		if (page < memory->npages) {
			result = pdd_region_explain(&memory->region, page, explanation);
			break;
		}
	}
	pddi_leave(dedup);
	return result;
}
