/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advisor_pass.h - starting an advisor and telling it of a pass, where nothing can go wrong.
 */
#ifndef PDD_TEST_ADVISOR_PASS_H
#define PDD_TEST_ADVISOR_PASS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagededup/advisor.h>

static inline struct pdd_advisor start(struct pdd_advisor_options options)
{
	struct pdd_advisor advisor;

	options.size = sizeof(options);
	assert_int_equal(pdd_advisor_init(&advisor, &options), 0);
	assert_int_equal(pdd_advisor_pages(&advisor), options.min_pages ? options.min_pages : 500);
	return advisor;
}

static inline uint64_t pass(struct pdd_advisor *advisor, uint64_t scan_ms, uint64_t cpu_ms)
{
	assert_int_equal(pdd_advisor_pass(advisor, scan_ms, cpu_ms), 0);
	return pdd_advisor_pages(advisor);
}

#endif
