/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_content.c - comparing and classifying, against memcmp and plain loops, for each place of
 * the difference; and no byte beyond the content is read.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "content.h"

static const size_t sizes[] = {8, 16, 24, 32, 56, 64, 72, 120, 128, 136, 192, 256, 1000, 4096};

#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))
#define SIZE_MAX_TESTED 4096u

/* Two areas that end where reading faults; a content of any size is put at their ends. */
static unsigned char *ends[2];

static unsigned char *area(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t length = page > SIZE_MAX_TESTED ? page : SIZE_MAX_TESTED;
	unsigned char *start = mmap(NULL, page + length + page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(start, MAP_FAILED);
	assert_int_equal(mprotect(start, page, PROT_NONE), 0);
	assert_int_equal(mprotect(start + page + length, page, PROT_NONE), 0);
	return start + page + length;
}

static int setup(void **unused)
{
	(void)unused;
	ends[0] = area();
	ends[1] = area();
	return 0;
}

static int sign(int value)
{
	return (value > 0) - (value < 0);
}

static void assert_as_memcmp(const unsigned char *a, const unsigned char *b, size_t size)
{
	int expected = sign(memcmp(a, b, size));

	assert_int_equal(sign(pddi_content_compare(a, b, size)), expected);
	assert_int_equal(sign(pddi_content_compare(b, a, size)), -expected);
	assert_int_equal(pddi_content_equal(a, b, size), expected == 0);
	assert_int_equal(pddi_content_equal(b, a, size), expected == 0);
}

/* All bytes are equal, or no two words nearby are: either hides other wrong comparisons. */
static void fill_both(unsigned char *a, unsigned char *b, size_t size, bool flat)
{
	for (size_t i = 0; i < size; i++)
		a[i] = b[i] = (unsigned char)(flat ? 0x55 : i % 8 ? i % 251 : i / 8);
}

/* A difference in this byte alone, then also in the next one or the last, saying the opposite. */
static void differ_at(unsigned char *a, unsigned char *b, size_t size, size_t at, unsigned mask)
{
	size_t later[] = {at + 1, size - 1};

	b[at] = (unsigned char)(a[at] ^ mask);
	assert_as_memcmp(a, b, size);
	for (unsigned i = 0; i < 2 && at + 1 < size; i++) {
		b[later[i]] = a[at] < b[at] ? 0 : 0xff;
		assert_as_memcmp(a, b, size);
		b[later[i]] = a[later[i]];
	}
	b[at] = a[at];
}

static void test_every_first_difference(void **unused)
{
	(void)unused;
	for (size_t s = 0; s < 2 * NSIZES; s++) {
		size_t size = sizes[s / 2];
		unsigned char *a = ends[0] - size, *b = ends[1] - size;

		fill_both(a, b, size, s % 2);
		assert_as_memcmp(a, b, size);
		for (size_t at = 0; at < size; at++) {
			differ_at(a, b, size, at, 0x01);
			differ_at(a, b, size, at, 0x80);
			differ_at(a, b, size, at, 0xff);
		}
		assert_as_memcmp(a, b, size);
	}
}

/* Contents are 8-byte aligned, not more; two of them may lie differently. */
static void test_every_alignment(void **unused)
{
	(void)unused;
	for (size_t shift_a = 0; shift_a < 64; shift_a += 8) {
		for (size_t shift_b = 0; shift_b < 64; shift_b += 8) {
			size_t size = 200;
			unsigned char *a = ends[0] - size - shift_a, *b = ends[1] - size - shift_b;

			fill_both(a, b, size, false);
			assert_as_memcmp(a, b, size);
			b[size - 1] ^= 2;
			assert_as_memcmp(a, b, size);
			a[3] ^= 3;
			assert_as_memcmp(a, b, size);
		}
	}
}

static void test_nothing_equals_nothing(void **unused)
{
	(void)unused;
	assert_as_memcmp(ends[0], ends[1], 0);
}

static void assert_class(const unsigned char *content, size_t size, enum pdd_class expected)
{
	uint64_t first, filling = 42;
	bool filled = expected != PDD_CLASS_OTHER;

	memcpy(&first, content, sizeof(first));
	assert_int_equal(pddi_content_class(content, size), expected);
	assert_int_equal(pddi_content_is_filled(content, &filling, size), filled);
	assert_int_equal(filling, first);
}

/* Zero, filled by a word; and each single byte changed. Of one word every content is filled. */
static void test_classes(void **unused)
{
	(void)unused;
	for (size_t s = 0; s < NSIZES; s++) {
		size_t size = sizes[s];
		unsigned char *content = ends[0] - size;

		for (unsigned filled = 0; filled < 2; filled++) {
			enum pdd_class expected = filled ? PDD_CLASS_FILLED : PDD_CLASS_ZERO;

			for (size_t i = 0; i < size; i++)
				content[i] = filled ? (unsigned char)(i % 8 + 1) : 0;
			assert_class(content, size, expected);
			for (size_t at = 0; at < size; at++) {
				content[at] ^= 0x80;
				assert_class(content, size,
					     size == 8 ? PDD_CLASS_FILLED : PDD_CLASS_OTHER);
				content[at] ^= 0x80;
			}
		}
	}
}

/* Bytes that repeat, but not every 8 bytes, do not make a filled page; those of shorter do. */
static void test_other_strides(void **unused)
{
	unsigned char *content = ends[0] - SIZE_MAX_TESTED;

	(void)unused;
	for (size_t stride = 1; stride <= 64; stride++) {
		for (size_t i = 0; i < SIZE_MAX_TESTED; i++)
			content[i] = (unsigned char)(i % stride + 1);
		assert_class(content, SIZE_MAX_TESTED,
			     8 % stride == 0 ? PDD_CLASS_FILLED : PDD_CLASS_OTHER);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_first_difference),
		cmocka_unit_test(test_every_alignment),
		cmocka_unit_test(test_nothing_equals_nothing),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_other_strides),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
