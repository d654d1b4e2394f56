/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_xxh3.c - XXH3 alone, as fast as it gets: inlined, and optimised as the library's is. GCC
 * unrolls its inner loop at -O3 only.
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "raw_loop.h"

uint64_t raw_xxh3_pages_plain(const void *bytes, uint64_t npages)
{
	const unsigned char *page = bytes;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < npages; i++, page += RAW_PAGE_BYTES) {
		raw_prefetch(page + RAW_PAGE_BYTES);
		sum ^= XXH3_64bits_withSecret(page, RAW_PAGE_BYTES, raw_secret, sizeof(raw_secret));
	}
	return sum;
}
