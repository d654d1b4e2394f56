/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * huge_memory.h - memory that is large enough for its page tables to matter.
 *
 * Zeroed, touched, so that no page fault is measured, and on huge pages where the system has them.
 * All sides of a comparison get their pages, records and trees from here.
 */
#ifndef BENCH_HUGE_MEMORY_H
#define BENCH_HUGE_MEMORY_H

#include <stddef.h>

/** Says so on stderr and ends the program (status 1) where there is not enough memory. */
void *huge_alloc(size_t nbytes);
void huge_free(void *memory, size_t nbytes);

#endif
