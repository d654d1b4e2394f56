/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bitmap.h - bits of consecutive pages, in words of 64, and memory that is not the caller's heap.
 * Private.
 *
 * Nothing of the adapter calls malloc. While pages are held, some thread of the program may be
 * waiting for one of them with the heap's lock in its hand; who then asks the heap for memory
 * waits for ever. And what is mapped here is never part of memory that the program adds.
 */
#ifndef PDDI_LINUX_BITMAP_H
#define PDDI_LINUX_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Words that n bits take. */
#define PDDI_BITMAP_WORDS(n) (((n) + 63) / 64)

static inline bool pddi_bit_test(const uint64_t *bits, uint64_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

/* The bits of the word at i that belong to [i, i + n). */
static inline uint64_t pddi_bits_mask(uint64_t i, uint64_t n)
{
	uint64_t mask = n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;

	return mask << (i % 64);
}

static inline void pddi_bits_put(uint64_t *bits, uint64_t first, uint64_t n, bool value)
{
	while (n) {
		uint64_t mask = pddi_bits_mask(first, n);
		uint64_t done = 64 - first % 64;

		if (value)
			bits[first / 64] |= mask;
		else
			bits[first / 64] &= ~mask;
		if (done >= n)
			return;
		first += done;
		n -= done;
	}
}

/* The first bit of [from, end) that is `value`, else `end`. */
static inline uint64_t pddi_bits_next(const uint64_t *bits, uint64_t from, uint64_t end, bool value)
{
	while (from < end) {
		uint64_t word = value ? bits[from / 64] : ~bits[from / 64];

		word >>= from % 64;
		if (word) {
			from += (uint64_t)__builtin_ctzll(word);
			return from < end ? from : end;
		}
		from += 64 - from % 64;
	}
	return end;
}

static inline uint64_t pddi_bits_count(const uint64_t *bits, uint64_t first, uint64_t n)
{
	uint64_t count = 0;

	while (n) {
		uint64_t done = 64 - first % 64;
		uint64_t word = bits[first / 64] & pddi_bits_mask(first, n);

		count += (uint64_t)__builtin_popcountll(word);
		if (done >= n)
			break;
		first += done;
		n -= done;
	}
	return count;
}

/* Zeroed memory of its own, which costs nothing until it is touched; NULL if there is none. */
static inline void *pddi_pages_alloc(size_t size)
{
	void *start = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

static inline void pddi_pages_free(void *start, size_t size)
{
	if (start)
		munmap(start, size);
}

#endif
