/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_advisor_ksm.c - KSM's arithmetic (ksm-behaviour 1.17), row by row, and each of its bounds.
 */
#include "advisor_pass.h"

/* ksm-behaviour 1.17: the ten vectors, one after the other. */
static void test_ksm_vectors(void **unused)
{
	static const uint64_t rows[][3] = {
		{800000, 24000, 1660},	{800000, 60000, 3386}, {600000, 90000, 5950},
		{400000, 120000, 7140}, {300000, 90000, 6923}, {250000, 90000, 5970},
		{200000, 80000, 4298},	{200000, 80000, 3438}, {500, 100, 3430},
		{200000, 80000, 5950},
	};
	struct pdd_advisor_options options = {.mode = PDD_ADVISOR_SCAN_TIME_KSM};
	struct pdd_advisor advisor = start(options);

	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			assert_int_equal(pass(&advisor, rows[i][0], rows[i][1]), rows[i][2]);
		/* entering anew: the context is zeroed, the number is min_pages */
		advisor = start(options);
	}
}

/* 1.17: where each bound of the arithmetic holds, and quirk a: min_pages is none. */
static void test_ksm_bounds(void **unused)
{
	static const struct {
		uint64_t min, max;
		uint32_t target, cpu;
		uint64_t scan_ms, cpu_ms, pages;
	} rows[] = {
		{500, 30000, 200, 70, 200000, 180000, 150}, /* 500 * 30 %: below min_pages */
		{500, 30000, 200, 70, 100000, 90000, 75},   /* 500 * 100 / 200 * 30 / 100 */
		{500, 30000, 200, 70, 100000, 3000, 1660},  /* but 10 % of a core: 166 * 10 */
		{500, 400, 200, 70, 100000, 3000, 400},	    /* max_pages comes last */
		{500, 30000, 1, 70, 200000, 180000, 350},   /* factor at least 1; the cap: 5 * 70 */
		{9999, 30000, 1, 100, 200000, 2000, 30000}, /* 9999 * 100 / 1, 9999 * 100: max */
		{500, 90000, 200, 70, 800000, 0, 5000},	    /* a CPU share of at least 1 % */
		{500, 30000, 200, 70, 999, 0, 5000},	    /* and a time of at least 1 s */
		{500, 30000, 200, 70, 1999, 500, 100},	    /* 50 % of 1 s: 10 * 10 */
		{50, 30000, 200, 70, 200000, 200000, 15},   /* 50 * 30 / 100: no bound */
		{50, 30000, 200, 70, 200000, 1000000, 15},  /* 50 / 500: at least 1 page per % */
		{10000, 30000, 1, 70, 200000, 199900, 7070},	      /* 99 % of a core: 101 * 70 */
		{500, 90000, 1, 10000, 200000, 200000, 15000},	      /* 500 * 100 / 1 * 30 / 100 */
		{500, 30000, 200, 70, 200000, UINT64_C(1) << 63, 70}, /* 1 * 70 */
		{500, 30000, 200, 150, 8000000, 1000000, 6150}, /* 41 * 150: a cap above 100 % */
		{500, 30000, 200, 150, 2000000, 1000000, 1500}, /* 500 * 100 / 10 * 30 / 100 */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pdd_advisor advisor = start((struct pdd_advisor_options){
			.mode = PDD_ADVISOR_SCAN_TIME_KSM,
			.max_cpu_percent = rows[i].cpu,
			.target_scan_time_s = rows[i].target,
			.min_pages = rows[i].min,
			.max_pages = rows[i].max,
		});

		assert_int_equal(pass(&advisor, rows[i].scan_ms, rows[i].cpu_ms), rows[i].pages);
	}
}

/* 1.17: the change of the time, damped; quirk d: one short pass, and the next answers are spoilt.
 */
static void test_ksm_change(void **unused)
{
	struct pdd_advisor_options options = {.mode = PDD_ADVISOR_SCAN_TIME_KSM,
					      .min_pages = 1000000,
					      .max_pages = UINT64_MAX,
					      .target_scan_time_s = 1};
	struct pdd_advisor advisor = start(options);

	/* 10^6 * 100 / 1 * 30 / 100 = 3 * 10^7; at most 10^4 * 70 */
	assert_int_equal(pass(&advisor, 200000, 200000), 700000);
	/* 7 * 10^5 * 100 / 100 * ((70 * 30 + 30 * 1) / 100 = 21) / 100; the share is 100 % */
	assert_int_equal(pass(&advisor, 1000, 1000), 147000);
	/* 147000 * 100 / 50 * ((70 * 21 + 30 * 200) / 100 = 74) / 100; at most 2940 * 70 */
	assert_int_equal(pass(&advisor, 2000, 1000), 205800);
	/* 205800 * 100 / 100 * ((70 * 74 + 30 * 50) / 100 = 66) / 100 */
	assert_int_equal(pass(&advisor, 1000, 900), 135828);
	/* 135828 * ((70 * 66 + 30 * 100) / 100 = 76) / 100 */
	assert_int_equal(pass(&advisor, 1000, 900), 103229);

	/* 130 years, a year, two days: each time a change of at least 1 % */
	options.target_scan_time_s = 1000000;
	options.max_cpu_percent = 1000000000;
	advisor = start(options);
	/* 10^6 * 100 / 1 * 30 / 100 */
	assert_int_equal(pass(&advisor, 4000000000000, 4000000000000), 30000000);
	/* 3 * 10^7 * 100 / 3 * ((70 * 30 + 30 * 1) / 100 = 21) / 100 */
	assert_int_equal(pass(&advisor, 30000000000, 30000000000), 210000000);
	/* 2.1 * 10^8 * 100 / 500 * ((70 * 21 + 30 * 1) / 100 = 15) / 100; at least 2100000 * 10 */
	assert_int_equal(pass(&advisor, 200000000, 200000000), 21000000);
	/* 2.1 * 10^7 * 100 / 10^5 * ((70 * 15 + 30 * 1) / 100 = 10) / 100; at least 1 * 10 */
	assert_int_equal(pass(&advisor, 1000000, UINT64_C(1) << 50), 2100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ksm_vectors),
		cmocka_unit_test(test_ksm_bounds),
		cmocka_unit_test(test_ksm_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
