/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum_avx2.c - checksum and class of a page by vectors of 32 bytes. See checksum.c.
 *
 * The upper halves of the registers are cleared in the end: a caller's instructions for the lower
 * halves would wait for them otherwise (it took 4.5 times as long to hash by these). The compiler
 * sees to that by itself, but GCC 12 does not when a file sets its own level of optimization.
 */
#if defined(__x86_64__) && defined(__GNUC__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#include <immintrin.h>
#define XXH_VECTOR 2 /* XXH_AVX2 */

#include "checksum_page.h"

struct pdd_checksum pddi_checksum_page_avx2(const void *content, size_t page_size,
					    const void *secret, size_t secret_len)
{
	struct pdd_checksum result = checksum_page(content, page_size, secret, secret_len);

	_mm256_zeroupper();
	return result;
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
