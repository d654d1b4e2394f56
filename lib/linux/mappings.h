/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mappings.h - the process's mappings: how many there are, how many there may be, and what the
 * memory that is added consists of. Private.
 */
#ifndef PDDI_LINUX_MAPPINGS_H
#define PDDI_LINUX_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The budget. `estimate` is at least the number of mappings, save those that the program made since
 * they were counted last; where it meets the limit they are counted again.
 */
struct pddi_budget {
	uint64_t limit;
	uint64_t estimate;
	uint64_t uncounted; /* taken since the mappings were counted */
	uint64_t patience;  /* refusals until the mappings are counted again */
};

/* The kernel's own limit (vm.max_map_count), or its default if it cannot be read. */
uint64_t pddi_mappings_max(void);

/* @param limit  0: 15/16 of the kernel's. @return 0 or -errno if /proc cannot be read. */
int pddi_budget_init(struct pddi_budget *budget, uint64_t limit);

/* Ask for room for n more mappings; they count as made. False: there is none. */
bool pddi_budget_take(struct pddi_budget *budget, uint64_t n);
/* The same, but the program asked for it: it may have what the budget leaves to the program. */
void pddi_budget_overdraw(struct pddi_budget *budget, uint64_t n);
/* They were not made. */
void pddi_budget_give(struct pddi_budget *budget, uint64_t n);

/* Count the mappings of the process. 0 or -errno. Complexity: O(mappings). */
int pddi_mappings_count(uint64_t *count);

/* Told of each mapping, in ascending order. */
typedef void (*pddi_mapping_fn)(void *ctx, uintptr_t start, uintptr_t end);
int pddi_mappings_walk(pddi_mapping_fn fn, void *ctx);

/*
 * Check that a range can be added.
 * @param flags  out: enum pddi_memory_flags of the mappings that will take its place, without
 *               PDDI_MEMORY_NOHUGEPAGE
 * @return 0; -ENOMEM: a part is not mapped; -EACCES: a part is not private anonymous memory with
 *         PROT_READ | PROT_WRITE, is locked, or has flags that a new mapping could not be given, or
 *         not all of it has the same; other -errno if /proc cannot be read
 */
int pddi_mappings_inspect(uint32_t *flags, uintptr_t start, uintptr_t end);

#endif
