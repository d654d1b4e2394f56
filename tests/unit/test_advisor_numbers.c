/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_advisor_numbers.c - any times and numbers of pages; options, right and wrong.
 */
#include "advisor_pass.h"

#include <errno.h>
#include <string.h>

/* Any numbers: the bounds hold, and what can be told is right to the digit. */
static void test_any_numbers(void **unused)
{
	static const uint64_t values[] = {0,
					  1,
					  2,
					  999,
					  1000,
					  200000,
					  UINT32_MAX,
					  UINT64_C(1) << 50,
					  (UINT64_C(1) << 50) + 1,
					  UINT64_MAX / 100 + 1,
					  UINT64_MAX - 1,
					  UINT64_MAX};
	const size_t n = sizeof(values) / sizeof(values[0]);
	struct pdd_advisor_options options = {.max_cpu_percent = 100};

	for (size_t i = 0; i < n * n * n * 2 * 2; i++) {
		uint64_t min = values[i % n], max = values[i / n % n], pages;
		struct pdd_advisor advisor;

		options.mode = i / n / n / n % 2 ? PDD_ADVISOR_CPU : PDD_ADVISOR_SCAN_TIME;
		options.pace = i / n / n / n / 2 ? PDD_ADVISOR_PERIOD : PDD_ADVISOR_PAUSE;
		options.target_scan_time_s = i % 7 ? 200 : UINT32_MAX;
		options.min_pages = min ? min : 1;
		options.max_pages = max > min ? max : options.min_pages;
		advisor = start(options);
		for (size_t j = 0; j < n; j++) {
			pages = pass(&advisor, values[i / n / n % n], values[j]);
			assert_in_range(pages, options.min_pages, options.max_pages);
		}
		options.mode = PDD_ADVISOR_SCAN_TIME_KSM;
		advisor = start(options);
		for (size_t j = 0; j < n; j++) {
			pages = pass(&advisor, values[i / n / n % n], values[j]);
			assert_in_range(pages, 1, options.max_pages);
		}
	}
}

/* Numbers of pages near 2^64 are computed exactly; what does not fit is UINT64_MAX. */
static void test_wide_pages(void **unused)
{
	const uint64_t big = UINT64_C(0x7123456789abcdef);
	struct pdd_advisor_options options = {.pace = PDD_ADVISOR_PERIOD,
					      .target_scan_time_s = 3,
					      .min_pages = big / 3,
					      .max_pages = UINT64_MAX};
	struct pdd_advisor advisor = start(options);

	/* 5 / 3 and 3 / 3 of it, 2 / 3 of that */
	assert_true(pass(&advisor, 5000, 1) == big / 3 / 3 * 5 + big / 3 % 3 * 5 / 3);
	assert_true(pass(&advisor, 3000, 1) == big / 3 / 3 * 5 + big / 3 % 3 * 5 / 3);
	advisor = start(options);
	assert_true(pass(&advisor, 9000, 1) == big / 3 * 3);
	/* 3 * 2^62 is more than half of 2^64; 7 / 6 of it fits, 9 / 6 does not, nor 4 * pages */
	options.target_scan_time_s = 6;
	options.min_pages = UINT64_C(3) << 62;
	advisor = start(options);
	assert_true(pass(&advisor, 7000, 1) == UINT64_C(7) << 61);
	assert_true(pass(&advisor, 9000, 1) == UINT64_MAX);
	advisor = start(options);
	assert_true(pass(&advisor, UINT64_MAX, 1) == UINT64_MAX);
}

/* Times: 0 counts as 1, more than 2^50 as 2^50; more CPU time than time is a full core. */
static void test_odd_times(void **unused)
{
	struct pdd_advisor_options options = {
		.mode = PDD_ADVISOR_CPU, .max_cpu_percent = 50, .min_pages = 1, .max_pages = 1000};
	struct pdd_advisor a = start(options), b = start(options);

	assert_int_equal(pass(&a, 12, 0), 11); /* 1 * 50 * 11 / 50 */
	assert_int_equal(pass(&b, 12, 1), 11);
	assert_int_equal(pass(&a, 0, 0), pass(&b, 1, 1));
	assert_int_equal(pdd_advisor_pages(&a), 11); /* an idle part of 1 ms in any case */
	assert_int_equal(pass(&a, 100, 1000000), 5); /* 0, bounded by rule 2 */
	b = start(options);
	assert_int_equal(pass(&b, 100, 50), 1);
	options.min_pages = 100;
	b = start(options);
	assert_int_equal(pass(&b, UINT64_MAX, UINT64_C(1) << 49), 100);
	b = start(options);
	assert_int_equal(pass(&b, UINT64_MAX, UINT64_C(1) << 48), 300);
	assert_int_equal(pass(&b, UINT64_C(1) << 50, UINT64_C(1) << 63), 150);
	options.pace = PDD_ADVISOR_PERIOD;
	b = start(options);
	assert_int_equal(pass(&b, 16, 1), 800); /* 100 * 50 * 16 / 100 */
	assert_int_equal(pass(&b, 0, 0), 400);	/* 800 * 50 * 1 / 100 */
}

/* -EINVAL of pdd_advisor_init(), each cause, and nothing is changed. */
static void test_bad_options(void **unused)
{
	struct {
		struct pdd_advisor_options options;
		unsigned char more[8];
	} in;
	const struct pdd_advisor_options good = {
		.size = sizeof(good), .min_pages = 7, .max_pages = 7};
	struct pdd_advisor advisor, before;

	assert_int_equal(pdd_advisor_init(NULL, NULL), -EINVAL);
	memset(&advisor, 0x5a, sizeof(advisor));
	before = advisor;
	for (int i = 0; i < 9; i++) {
		memset(&in, 0, sizeof(in));
		in.options = good;
		in.options.mode = i == 0 ? 3 : i == 8 ? PDD_ADVISOR_CPU : 0;
		in.options.pace = i == 1 ? 2 : 0;
		in.options.max_cpu_percent = i == 2 || i == 8 ? 101 : 0;
		in.options.min_pages = i == 3 ? 8 : i == 4 ? 30001 : 7;
		in.options.max_pages = i == 4 ? 0 : 7;
		in.options.size = i == 5   ? 0
				  : i == 6 ? sizeof(good) - 1
				  : i == 7 ? sizeof(in)
					   : sizeof(good);
		in.more[7] = 1; /* of a size that reaches it only */
		assert_int_equal(pdd_advisor_init(&advisor, &in.options), -EINVAL);
		assert_memory_equal(&advisor, &before, sizeof(advisor));
	}
}

/* Options that are right: at their limits, of a later version, KSM's that are wider, the defaults.
 */
static void test_good_options(void **unused)
{
	struct {
		struct pdd_advisor_options options;
		unsigned char more[8];
	} in = {.options = {.size = sizeof(in), .min_pages = 7, .max_pages = 7}};
	struct pdd_advisor advisor;

	in.options.max_cpu_percent = 100;
	in.options.mode = PDD_ADVISOR_CPU;
	in.options.pace = PDD_ADVISOR_PERIOD;
	assert_int_equal(pdd_advisor_init(&advisor, &in.options), 0);
	assert_int_equal(pdd_advisor_pages(&advisor), 7);
	in.options.mode = PDD_ADVISOR_SCAN_TIME_KSM;
	in.options.max_cpu_percent = UINT32_MAX;
	in.options.min_pages = 8;
	assert_int_equal(pdd_advisor_init(&advisor, &in.options), 0);
	assert_int_equal(pdd_advisor_pages(&advisor), 8);
	assert_int_equal(pass(&advisor, 1000, 1000), 7);

	assert_int_equal(pdd_advisor_init(&advisor, NULL), 0);
	assert_int_equal(pdd_advisor_pages(&advisor), 500);
	assert_int_equal(pass(&advisor, 800000, 24000), 2204); /* 200 s */
	assert_int_equal(pdd_advisor_init(&advisor, NULL), 0);
	assert_int_equal(pass(&advisor, 1000000, 500000), 1166); /* 70 %: 500 * 7 / 3 */
	assert_int_equal(pdd_advisor_init(&advisor, NULL), 0);
	assert_int_equal(pass(&advisor, 100000000, 1), 30000);
}

/* -EINVAL of pdd_advisor_pass(), and no advisor. */
static void test_no_advisor(void **unused)
{
	struct pdd_advisor advisor;

	memset(&advisor, 0, sizeof(advisor));
	assert_int_equal(pdd_advisor_pass(NULL, 1, 1), -EINVAL);
	assert_int_equal(pdd_advisor_pass(&advisor, 1, 1), -EINVAL);
	assert_int_equal(pdd_advisor_pages(&advisor), 0);
	assert_int_equal(pdd_advisor_pages(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_numbers),  cmocka_unit_test(test_wide_pages),
		cmocka_unit_test(test_odd_times),    cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_good_options), cmocka_unit_test(test_no_advisor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
