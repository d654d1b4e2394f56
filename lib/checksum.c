/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.c - checksum and class of a page, and which of its versions is the fastest here.
 *
 * XXH3 with vectors of 16 bytes, which every x86-64 processor has, takes 150 ns of computing for 4
 * KiB, and so cannot keep up with memory; with 32 bytes (AVX2) it takes 72 and reads a page from
 * memory in 0.7 of the time. Vectors of 64 bytes (AVX-512), 43 ns, read it no faster. (AMD EPYC,
 * Zen 5.)
 *
 * The processor is asked by pdd_checksum_fastest() each time: the library keeps no state, and the
 * instruction is slow on virtual machines, so whoever wants the answer keeps it.
 */
#include "checksum_page.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

/*
 * Each step is invertible: x ^= x >> k for k > 0, and multiplication by an odd number, modulo 2^64.
 * Shifts and factors are those of the finalizer of SplitMix64 ("variant 13" by David Stafford),
 * which come close to changing half of all bits for each bit of the input.
 */
uint64_t pdd_checksum_mix(uint64_t value)
{
	value ^= value >> 30;
	value *= UINT64_C(0xbf58476d1ce4e5b9);
	value ^= value >> 27;
	value *= UINT64_C(0x94d049bb133111eb);
	value ^= value >> 31;
	return value;
}

struct pdd_checksum pdd_checksum_page(const void *content, size_t page_size, const void *secret,
				      size_t secret_len)
{
	return checksum_page(content, page_size, secret, secret_len);
}

#if defined(__x86_64__) && defined(__GNUC__)

/* Whether the operating system keeps the registers of AVX. */
static bool os_keeps_avx(void)
{
	const uint32_t xmm_and_ymm = 6;
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & xmm_and_ymm) == xmm_and_ymm;
}

static bool has_avx2(void)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !os_keeps_avx())
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX2;
}

pdd_checksum_fn pdd_checksum_fastest(void)
{
	return has_avx2() ? pddi_checksum_page_avx2 : pdd_checksum_page;
}

#else

pdd_checksum_fn pdd_checksum_fastest(void)
{
	return pdd_checksum_page;
}

#endif
