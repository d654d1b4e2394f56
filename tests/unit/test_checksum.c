/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_checksum.c - checksums of pages of all sizes: equal for equal pages, XXH3's for pages that
 * are not filled, different under another secret; the classes; and the mix is invertible.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#define XXH_NO_INLINE_HINTS 1 /* compiles at -Og, too */
#include <xxhash.h>

#include <pagededup/checksum.h>

#define SIZE_MAX_TESTED 65536u
#define NSECRETS 4u

static const size_t sizes[] = {8,   16,	 24,  32,   48,	  64,	 128,	192,
			       248, 256, 512, 4096, 8192, 16384, 32768, SIZE_MAX_TESTED};

#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint64_t state, page[SIZE_MAX_TESTED / 8], copy[SIZE_MAX_TESTED / 8 + 1];
static unsigned char secrets[NSECRETS][PDD_SECRET_LEN_MAX + 1];

static uint64_t next_random(void)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
	z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return z ^ z >> 32;
}

static int setup(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < NSECRETS; i++) {
		for (unsigned j = 0; j < sizeof(secrets[i]); j++)
			secrets[i][j] = (unsigned char)next_random();
	}
	return 0;
}

static void randomize(size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		page[i] = next_random();
}

static void fill(uint64_t word, size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		page[i] = word;
}

static struct pdd_checksum checksum(size_t size, unsigned secret)
{
	return pdd_checksum_page(page, size, secrets[secret], PDD_SECRET_LEN_MAX);
}

static void assert_xxh3(size_t size, const void *secret, size_t secret_len)
{
	struct pdd_checksum sum = pdd_checksum_page(page, size, secret, secret_len);

	assert_int_equal(sum.class_, PDD_CLASS_OTHER);
	assert_true(sum.value == XXH3_64bits_withSecret(page, size, secret, secret_len));
}

/* All sizes of page, all lengths of secret, a secret at an odd address. */
static void test_is_xxh3(void **unused)
{
	(void)unused;
	for (size_t s = 1; s < NSIZES; s++) {
		randomize(sizes[s]);
		for (size_t len = PDD_SECRET_LEN_MIN; len <= PDD_SECRET_LEN_MAX; len++)
			assert_xxh3(sizes[s], secrets[0] + len % 2, len);
	}
}

/* A page that is filled but for one word, wherever it stands, is hashed like any other. */
static void test_nearly_filled_is_xxh3(void **unused)
{
	(void)unused;
	for (size_t s = 1; s < NSIZES && sizes[s] <= 4096; s++) {
		for (uint64_t word = 0; word < 2; word++) {
			fill(word, sizes[s]);
			for (size_t at = 0; at < sizes[s] / 8; at++) {
				page[at] ^= UINT64_C(1) << at % 64;
				assert_xxh3(sizes[s], secrets[0], PDD_SECRET_LEN_MAX);
				page[at] = word;
			}
		}
	}
}

/* The copy lies 8 bytes off, so vectors and cache lines are cut elsewhere. */
static void test_equal_pages_are_equal(void **unused)
{
	(void)unused;
	for (size_t s = 0; s < NSIZES; s++) {
		for (unsigned kind = 0; kind < 3; kind++) {
			struct pdd_checksum a, b;

			randomize(sizes[s]);
			if (kind)
				fill(kind - 1, sizes[s]);
			memcpy(copy + 1, page, sizes[s]);
			a = checksum(sizes[s], 0);
			b = pdd_checksum_page(copy + 1, sizes[s], secrets[0], PDD_SECRET_LEN_MAX);
			assert_true(a.value == b.value);
			assert_int_equal(a.class_, b.class_);
			a = checksum(sizes[s], 0);
			assert_true(a.value == b.value);
		}
	}
}

/* Zero, filled and other pages under four secrets: no two values are equal. */
static void test_secret_matters(void **unused)
{
	(void)unused;
	for (size_t s = 0; s < NSIZES; s++) {
		for (unsigned kind = 0; kind < 3; kind++) {
			uint64_t values[NSECRETS];

			randomize(sizes[s]);
			if (kind)
				fill(kind - 1, sizes[s]);
			for (unsigned i = 0; i < NSECRETS; i++) {
				values[i] = checksum(sizes[s], i).value;
				for (unsigned j = 0; j < i; j++)
					assert_false(values[i] == values[j]);
			}
		}
	}
}

/* A page of one word is always filled. */
static void test_classes(void **unused)
{
	(void)unused;
	for (size_t s = 0; s < NSIZES; s++) {
		fill(0, sizes[s]);
		assert_int_equal(checksum(sizes[s], 0).class_, PDD_CLASS_ZERO);
		for (unsigned bit = 0; bit < 64; bit++) {
			fill(UINT64_C(1) << bit, sizes[s]);
			assert_int_equal(checksum(sizes[s], 0).class_, PDD_CLASS_FILLED);
		}
		randomize(sizes[s]);
		assert_int_equal(checksum(sizes[s], 0).class_,
				 sizes[s] == 8 ? PDD_CLASS_FILLED : PDD_CLASS_OTHER);
	}
}

static int compare_values(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void assert_distinct(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_values);
	for (size_t i = 1; i < n; i++)
		assert_false(values[i - 1] == values[i]);
}

/* Filled pages: distinct words have distinct checksums, the same for each size of page. */
static void test_filled_pages_do_not_collide(void **unused)
{
	static uint64_t values[1 << 16];

	(void)unused;
	for (unsigned i = 0; i < 1 << 16; i++) {
		fill(i, 64);
		values[i] = checksum(64, 0).value;
		if (i % 4096 == 1) {
			fill(i, 4096);
			assert_true(checksum(4096, 0).value == values[i]);
		}
	}
	assert_distinct(values, 1 << 16);
}

/* The inverse of an odd number modulo 2^64: each step doubles the number of right low bits. */
static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd; /* right in 3 bits */

	for (unsigned i = 0; i < 5; i++)
		x *= 2 - odd * x;
	return x;
}

static uint64_t unshift(uint64_t value, unsigned shift)
{
	uint64_t x = value;

	for (unsigned known = shift; known < 64; known += shift)
		x = value ^ x >> shift;
	return x;
}

static uint64_t unmix(uint64_t value)
{
	value = unshift(value, 31) * inverse(UINT64_C(0x94d049bb133111eb));
	value = unshift(value, 27) * inverse(UINT64_C(0xbf58476d1ce4e5b9));
	return unshift(value, 30);
}

static void test_mix_is_invertible(void **unused)
{
	static uint64_t values[1 << 16];

	(void)unused;
	for (uint64_t i = 0; i < 1 << 16; i++) {
		values[i] = pdd_checksum_mix(i);
		assert_true(unmix(values[i]) == i);
		assert_true(unmix(pdd_checksum_mix(~i)) == ~i);
		assert_true(unmix(pdd_checksum_mix(i << 48)) == i << 48);
	}
	assert_distinct(values, 1 << 16);
	for (unsigned i = 0; i < 1 << 16; i++) {
		uint64_t value = next_random();

		assert_true(unmix(pdd_checksum_mix(value)) == value);
		assert_true(pdd_checksum_mix(unmix(value)) == value);
	}
}

/* Short checksums, in whichever bits they are: phases and roots are used evenly, mean 64, SD 8. */
static void test_mix_spreads(void **unused)
{
	(void)unused;
	for (unsigned shift = 0; shift <= 52; shift++) {
		unsigned low[64] = {0}, high[64] = {0};

		for (uint64_t i = 0; i < 4096; i++) {
			uint64_t mixed = pdd_checksum_mix(i << shift);

			low[mixed % 64]++;
			high[mixed >> 58]++;
		}
		for (unsigned i = 0; i < 64; i++) {
			assert_in_range(low[i], 24, 104);
			assert_in_range(high[i], 24, 104);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_xxh3),
		cmocka_unit_test(test_nearly_filled_is_xxh3),
		cmocka_unit_test(test_equal_pages_are_equal),
		cmocka_unit_test(test_secret_matters),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_filled_pages_do_not_collide),
		cmocka_unit_test(test_mix_is_invertible),
		cmocka_unit_test(test_mix_spreads),
	};
	const char *seed = getenv("PDD_SEED");

	state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	printf("PDD_SEED=%" PRIu64 "\n", state);
	return cmocka_run_group_tests(tests, setup, NULL);
}
