/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_loop.h - what the loops of raw_hash.h have in common. Private to them. */
#ifndef BENCH_RAW_LOOP_H
#define BENCH_RAW_LOOP_H

#include <stdint.h>

#include "raw_hash.h"

/*
 * The whole next page: less of it was slower, often slower than nothing; and so was a burst of
 * unrolled instructions in place of a loop. (Measured on an AMD EPYC, GCC 12.) At the end this asks
 * for memory behind the pages, which does nothing.
 */
static inline void raw_prefetch(const unsigned char *page)
{
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 1
#endif
	for (unsigned i = 0; i < RAW_PAGE_BYTES; i += 64)
		__builtin_prefetch(page + i);
}

/* By vectors of 16 bytes, or whatever the compiler takes for granted; by 32 where there is AVX2. */
uint64_t raw_xxh3_pages_plain(const void *bytes, uint64_t npages);
uint64_t raw_xxh3_pages_avx2(const void *bytes, uint64_t npages);

#endif
