/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_xxh3_avx2.c - raw_xxh3.c by vectors of 32 bytes.
 *
 * GCC 12 leaves out the vzeroupper at the end of a function whose optimisation and target are both
 * set by pragmas. Code that follows and uses vectors of 16 bytes then runs at a quarter of its
 * speed (measured on an AMD EPYC), so it is written out.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif
#pragma GCC target("avx2")
#endif

#include <immintrin.h> /* xxhash.h takes it in only where AVX2 is taken for granted */

#define XXH_INLINE_ALL
#define XXH_VECTOR 2 /* XXH_AVX2 */
#include <xxhash.h>

#include "raw_loop.h"

uint64_t raw_xxh3_pages_avx2(const void *bytes, uint64_t npages)
{
	const unsigned char *page = bytes;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < npages; i++, page += RAW_PAGE_BYTES) {
		raw_prefetch(page + RAW_PAGE_BYTES);
		sum ^= XXH3_64bits_withSecret(page, RAW_PAGE_BYTES, raw_secret, sizeof(raw_secret));
	}
	__asm__ volatile("vzeroupper");
	return sum;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
