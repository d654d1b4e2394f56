/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum_page.h - the body of pdd_checksum_page(): compiled once for each vector unit
 * (checksum.c, checksum_avx2.c). The only file that sees xxHash.
 *
 *  S1  Equal contents have equal checksums, under one secret, whatever vectors they are read with.
 *  S2  Filled pages never collide with each other: their checksum is an invertible function of the
 *      word. With other pages they collide by chance, as those do, unless the secret is known.
 *  S3  Whatever is written meanwhile: class and value of a filled page come from one load of one
 *      word (content.c), nothing is indexed by content, all loads are inside the page.
 *
 * S1 holds since the class is a function of the content, and each class has one function.
 *
 * xxHash reads content by vector loads, and in few places by a memcpy of 4 or 8 bytes, which is a
 * plain load once inlined. Where nothing is inlined it would be a call that sanitizers intercept:
 * there xxHash is told to read packed structs instead. (Not everywhere: that breaks the rules of
 * aliasing, which matter only to an optimizer.) Functions of the header that are not used are
 * static and go, those that allocate, too; where nothing is optimized they stay, without an
 * allocator. So the object refers to content.c, and at most to memcpy and its like.
 *
 * GCC unrolls the inner loop of xxHash at -O3 only, which almost halves the time for a page, and at
 * -Og it fails to compile it: so the files that include this get their own level, unless nothing is
 * optimized.
 *
 * Cost: O(page_size); each byte is read once, the few words of the class test twice.
 */
#ifndef PDD_CHECKSUM_PAGE_H
#define PDD_CHECKSUM_PAGE_H

#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif

#if defined(__NO_INLINE__) && !defined(XXH_FORCE_MEMORY_ACCESS)
#define XXH_FORCE_MEMORY_ACCESS 1
#endif
#define XXH_INLINE_ALL
#define XXH_NO_STDLIB /* these two since xxHash 0.8.2 */
#define XXH_NO_STREAM
#ifndef __OPTIMIZE__
#include <stdlib.h>
#define malloc(size) ((void)(size), NULL)
#define free(memory) ((void)(memory))
#endif
#include <xxhash.h>
#undef malloc
#undef free

#include <pagededup/checksum.h>

#include "check_internal.h"
#include "content.h"

_Static_assert(PDD_SECRET_LEN_MIN == XXH3_SECRET_SIZE_MIN, "the secret must be long enough");

/* A byte-wise load, since a secret has any alignment. */
static uint64_t secret_word(const unsigned char *secret)
{
	uint64_t word = 0;

	for (unsigned i = 0; i < sizeof(word); i++)
		word |= (uint64_t)secret[i] << 8 * i;
	return word;
}

/*
 * Two keys around and between the mixes: which word has which checksum cannot be told without the
 * secret, not even for 0 or for words that differ in one bit.
 */
static uint64_t filled_checksum(uint64_t filling, const unsigned char *secret)
{
	uint64_t mixed = pdd_checksum_mix(filling ^ secret_word(secret));

	return pdd_checksum_mix(mixed + secret_word(secret + sizeof(uint64_t)));
}

static inline struct pdd_checksum checksum_page(const void *content, size_t page_size,
						const void *secret, size_t secret_len)
{
	struct pdd_checksum result;
	uint64_t filling;

	PDD_ASSERT(content && secret);
	PDD_ASSERT(secret_len >= PDD_SECRET_LEN_MIN && secret_len <= PDD_SECRET_LEN_MAX);

	if (pddi_content_is_filled(content, &filling, page_size)) {
		result.value = filled_checksum(filling, secret);
		result.class_ = filling ? PDD_CLASS_FILLED : PDD_CLASS_ZERO;
	} else {
		result.value = XXH3_64bits_withSecret(content, page_size, secret, secret_len);
		result.class_ = PDD_CLASS_OTHER;
	}
	return result;
}

/* pdd_checksum_page() by vectors of 32 bytes; only for processors that have AVX2. */
struct pdd_checksum pddi_checksum_page_avx2(const void *content, size_t page_size,
					    const void *secret, size_t secret_len);

#endif
