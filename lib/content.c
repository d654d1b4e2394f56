/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * content.c - compare and classify contents that others may be writing.
 *
 *  C1  Every load is of memory inside the content, whatever the loads before it gave: no index and
 *      no bound depends on what was read, so a concurrent write can change the answer only, never
 *      fault, never keep a loop from ending.
 *  C2  What is decided on a word, and what is returned of it, is one load (volatile) of it.
 *  C3  No call of memcmp or memcpy: a sanitizer would intercept it. The build keeps the compiler
 *      from making one of these loops (-fno-tree-loop-distribute-patterns).
 *
 * Contents of any type are read as words, so the words may alias everything. Blocks of 64 bytes are
 * compared by 16-byte vectors, the width that every 64-bit machine has, and one branch per block.
 *
 * Cost: O(size), up to the first block that differs. Time for equal 4 KiB pages in units of glibc's
 * memcmp with 64-byte vectors: 1.0 to 1.15 if they come from memory, which is what a scanner does;
 * 1.6 from the second-level cache, 2.0 from the first. The class of an unfilled page: 0.15 or less.
 */
#include "content.h"

#include <stdint.h>

#include "check_internal.h"

typedef uint64_t __attribute__((may_alias)) word;
typedef uint64_t __attribute__((vector_size(16), aligned(8), may_alias)) vector;

#define VECTOR_WORDS ((size_t)2)
#define BLOCK_WORDS 8u

static inline uint64_t load(const word *p)
{
	return *(const volatile word *)p;
}

static inline vector load_vector(const word *p)
{
	return *(const vector *)(const void *)p;
}

/* Not zero if the blocks differ. */
static inline uint64_t block_difference(const word *a, const word *b)
{
	vector d0 = load_vector(a) ^ load_vector(b);
	vector d1 = load_vector(a + VECTOR_WORDS) ^ load_vector(b + VECTOR_WORDS);
	vector d2 = load_vector(a + 2 * VECTOR_WORDS) ^ load_vector(b + 2 * VECTOR_WORDS);
	vector d3 = load_vector(a + 3 * VECTOR_WORDS) ^ load_vector(b + 3 * VECTOR_WORDS);
	vector all = (d0 | d1) | (d2 | d3);

	return all[0] | all[1];
}

/* Index of the first block that differs, else of the first word after the whole blocks. */
static inline size_t skip_equal_blocks(const word *a, const word *b, size_t nwords)
{
	size_t i = 0;

	while (nwords - i >= BLOCK_WORDS && !block_difference(a + i, b + i))
		i += BLOCK_WORDS;
	return i;
}

/* The byte at the lowest address counts most. */
static inline int order(uint64_t a, uint64_t b)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	a = __builtin_bswap64(a);
	b = __builtin_bswap64(b);
#endif
	return (a > b) - (a < b);
}

/* If the difference that ended the skipping is written away meanwhile, this goes on by words. */
int pddi_content_compare(const void *a, const void *b, size_t size)
{
	const word *wa = a, *wb = b;
	size_t nwords = size / sizeof(word);

	PDD_ASSERT(size % sizeof(word) == 0);
	for (size_t i = skip_equal_blocks(wa, wb, nwords); i < nwords; i++) {
		uint64_t x = load(wa + i), y = load(wb + i);

		if (x != y)
			return order(x, y);
	}
	return 0;
}

bool pddi_content_equal(const void *a, const void *b, size_t size)
{
	const word *wa = a, *wb = b;
	size_t nwords = size / sizeof(word);

	PDD_ASSERT(size % sizeof(word) == 0);
	for (size_t i = skip_equal_blocks(wa, wb, nwords); i < nwords; i++) {
		if (load(wa + i) != load(wb + i))
			return false;
	}
	return true;
}

/*
 * Few pages have four equal words in these places without being filled, so few are read on. All
 * words are compared with one load of the first one (C2), so that the word that is handed out and
 * the answer belong together.
 */
bool pddi_content_is_filled(const void *content, uint64_t *filling, size_t size)
{
	const word *words = content;
	size_t nwords = size / sizeof(word), i = 0;
	uint64_t first;
	vector pattern;

	PDD_ASSERT(size >= sizeof(word) && size % sizeof(word) == 0);
	first = load(words);
	*filling = first;
	if (load(words + (nwords > 1)) != first || load(words + nwords / 2) != first ||
	    load(words + nwords - 1) != first)
		return false;

	pattern = (vector){first, first};
	for (; nwords - i >= BLOCK_WORDS; i += BLOCK_WORDS) {
		const word *block = words + i;
		vector all = (load_vector(block) ^ pattern) |
			     (load_vector(block + VECTOR_WORDS) ^ pattern) |
			     (load_vector(block + 2 * VECTOR_WORDS) ^ pattern) |
			     (load_vector(block + 3 * VECTOR_WORDS) ^ pattern);

		if (all[0] | all[1])
			return false;
	}
	for (; i < nwords; i++) {
		if (load(words + i) != first)
			return false;
	}
	return true;
}

enum pdd_class pddi_content_class(const void *content, size_t size)
{
	uint64_t filling;

	if (!pddi_content_is_filled(content, &filling, size))
		return PDD_CLASS_OTHER;
	return filling ? PDD_CLASS_FILLED : PDD_CLASS_ZERO;
}
