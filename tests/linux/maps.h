/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * maps.h - the mappings of the test itself: how many its memory consists of, what flags they have,
 * and how to come to the kernel's limit of them.
 */
#ifndef TESTS_LINUX_MAPS_H
#define TESTS_LINUX_MAPS_H

#include "rig.h"

#include <sys/mman.h>

struct maps_count {
	const struct pdd_linux_memory *memory;
	uint64_t n;
};

static inline void maps_count_one(void *ctx, uintptr_t start, uintptr_t end)
{
	struct maps_count *count = ctx;
	uintptr_t from = (uintptr_t)count->memory->start;

	count->n += start < from + count->memory->npages * PAGE && from < end;
}

/* Mappings that a memory consists of. */
static inline uint64_t maps_inside(const struct pdd_linux_memory *memory)
{
	struct maps_count count = { .memory = memory };

	assert_int_equal(pddi_mappings_walk(maps_count_one, &count), 0);
	return count.n;
}

/* --- flags --- */

#define MAPS_FLAGS_MAX 512

/* VmFlags of the mapping at an address, and whether it is the store's. */
static inline void maps_flags(const void *address, char flags[MAPS_FLAGS_MAX], bool *store)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	bool here = false;

	assert_non_null(smaps);
	flags[0] = '\0';
	while (fgets(line, sizeof(line), smaps)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
			here = start <= (uintptr_t)address && (uintptr_t)address < end;
			if (here)
				*store = strstr(line, "pagededup-store") != NULL;
		} else if (here && !strncmp(line, "VmFlags:", 8)) {
			memcpy(flags, line + 8, sizeof(line) - 8);
			break;
		}
	}
	fclose(smaps);
	assert_true(flags[0]);
}

static inline bool maps_is_store(const void *address)
{
	char flags[MAPS_FLAGS_MAX];
	bool store = false;

	maps_flags(address, flags, &store);
	return store;
}

/* Whether the page is registered with a userfaultfd. */
static inline bool maps_is_registered(const void *address)
{
	char flags[MAPS_FLAGS_MAX];
	bool store;

	maps_flags(address, flags, &store);
	return strstr(flags, " um ") || strstr(flags, " uw ");
}

/* Give the memory of a rig all flags that a new mapping has to be given too. */
static inline void maps_set_all_flags(struct rig *rig)
{
	void *start = rig->memory.start;
	size_t length = rig->memory.npages * PAGE;
	uint32_t found;

	assert_ptr_equal(mmap(start, length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
			 start);
	assert_int_equal(madvise(start, length, MADV_DONTFORK), 0);
	assert_int_equal(madvise(start, length, MADV_DONTDUMP), 0);
	(void)madvise(start, length, MADV_NOHUGEPAGE);
	assert_int_equal(pddi_mappings_inspect(&found, (uintptr_t)start,
					       (uintptr_t)start + length),
			 0);
	assert_int_equal(found, PDDI_MEMORY_DONTFORK | PDDI_MEMORY_DONTDUMP |
					PDDI_MEMORY_NORESERVE);
	rig->memory.flags = found | PDDI_MEMORY_NOHUGEPAGE;
}

static inline bool maps_has_all_flags(const void *address)
{
	char flags[MAPS_FLAGS_MAX];
	bool store;

	maps_flags(address, flags, &store);
	return strstr(flags, " dc ") && strstr(flags, " dd ") && strstr(flags, " nr ");
}

/* --- the kernel's limit --- */

struct maps_limit {
	unsigned char *pieces;
	uint64_t npieces;
	uint64_t used;
};

/* Whether the limit can be reached here; says why not. */
static inline bool maps_can_reach_limit(void)
{
	bool too_high = pddi_mappings_max() > 1000000;

	if (THREAD_SANITIZER || too_high)
		printf("not run: %s\n", too_high ? "the limit is too high to be filled"
						 : "the sanitizer cannot live at the limit");
	return !THREAD_SANITIZER && !too_high;
}

/* Memory to be cut into pieces; before the limit is near. */
static inline void maps_limit_init(struct maps_limit *limit)
{
	limit->npieces = 2 * pddi_mappings_max() + 10;
	limit->used = 0;
	limit->pieces = mmap(NULL, limit->npieces * PAGE, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(limit->pieces, MAP_FAILED);
}

/* Make mappings until there can be no more. */
static inline void maps_limit_reach(struct maps_limit *limit)
{
	while (!mprotect(limit->pieces + limit->used * PAGE, PAGE, PROT_READ)) {
		limit->used += 2;
		assert_true(limit->used < limit->npieces);
	}
}

/* Give back one or two. */
static inline void maps_limit_step_back(struct maps_limit *limit)
{
	assert_true(limit->used > 0);
	limit->used -= 2;
	assert_int_equal(mprotect(limit->pieces + limit->used * PAGE, PAGE, PROT_NONE), 0);
}

static inline void maps_limit_leave(struct maps_limit *limit)
{
	munmap(limit->pieces, limit->npieces * PAGE);
}

#endif
