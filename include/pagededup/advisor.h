/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advisor.h - how many pages should a step come by? Integer arithmetic, usable alone.
 *
 * The embedder runs steps at a fixed pace (KSM: pages_to_scan pages, then sleep_millisecs), and
 * tells the advisor after each pass how long it took and what it cost. The answer is the number of
 * pages for each step of the next pass.
 *
 *	pdd_advisor_init(&advisor, NULL);
 *	for (;;) {
 *		budget.pages = pdd_advisor_pages(&advisor);
 *		if (pdd_scanner_step(scanner, worker, &budget) == PDD_STEP_PASS)
 *			pdd_advisor_pass(&advisor, ms_since_last_pass, cpu_ms_since_last_pass);
 *		sleep_ms(20);
 *	}
 *
 * In PDD_ADVISOR_SCAN_TIME the next pass takes as long as wanted if it has as many pages at the
 * same cost; in PDD_ADVISOR_CPU it uses max_cpu_percent of one core. Both keep to these rules, in
 * falling order of rank:
 *
 *  1. An answer lies within min_pages .. max_pages.
 *  2. One odd pass does little: an answer is at least half of the one before and at most four times
 *     as much, unless the pass before asked for a leap in the same direction, too, or there was no
 *     pass before. (An answer too high is mended after a short pass, one too low after a long one.)
 *  3. The next pass uses at most max_cpu_percent of one core. (Or more by one part in the number of
 *     steps of this one, whose last step may have been a short one.)
 *  4. It takes as long as wanted.
 *
 * So for a constant load the first pass is enough. If the cost per page more than doubles, two
 * passes may exceed the share of the core; else it is one at most. (By PDD_ADVISOR_PERIOD more, if
 * steps come to take longer than their period: the times do not tell by how much.)
 *
 * PDD_ADVISOR_SCAN_TIME_KSM is KSM's arithmetic to the digit, with its quirks: min_pages is where
 * it starts and no lower bound; it thinks in whole seconds, so that one pass of less than a second
 * after long ones spoils the next answers; the first answer is damped as if from 0, to 30 %; the
 * part of a pass that is CPU time is taken to shrink with larger steps, so that the target is only
 * approached; and no answer goes below 10 % of a core. Where KSM's numbers would overflow, these
 * stop at the largest one.
 *
 * Locking: none; one thread at a time.
 */
#ifndef PAGEDEDUP_ADVISOR_H
#define PAGEDEDUP_ADVISOR_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pdd_advisor_mode {
	PDD_ADVISOR_SCAN_TIME = 0,     /* a pass takes as long as wanted, if the CPU share allows */
	PDD_ADVISOR_SCAN_TIME_KSM = 1, /* KSM's advisor_mode "scan-time" */
	PDD_ADVISOR_CPU = 2,           /* as many pages as the CPU share allows */
};

/* How steps follow each other. KSM's mode does not look at it. */
enum pdd_advisor_pace {
	PDD_ADVISOR_PAUSE = 0,  /* after each step a pause, always of the same length; so does KSM */
	PDD_ADVISOR_PERIOD = 1, /* steps begin at equal distances, or later where one took longer */
};

struct pdd_advisor_options {
	size_t size;                 /* sizeof(struct pdd_advisor_options) */
	uint32_t mode;               /* enum pdd_advisor_mode */
	uint32_t pace;               /* enum pdd_advisor_pace */
	uint32_t max_cpu_percent;    /* of one core, 1 .. 100 (KSM's mode: no limit); 0: 70 */
	uint32_t target_scan_time_s; /* seconds that a pass is to take; 0: 200 */
	uint64_t min_pages;          /* the first answer, and the lowest; 0: 500 */
	uint64_t max_pages;          /* at least min_pages, save in KSM's mode; 0: 30000 */
};

/** Set up by pdd_advisor_init(). Private fields. */
struct pdd_advisor {
	struct {
		struct pdd_advisor_options options;
		uint64_t pages;      /* the answer */
		uint64_t ksm_scan_s; /* time of the pass before; 0: there was none */
		uint64_t ksm_change; /* damped change of that time, percent */
		uint32_t leap;       /* which the pass before asked for */
	} priv;
};

/**
 * Start, or start anew: the answer is min_pages, and passes before count for nothing. (This is what
 * entering KSM's mode does; who leaves it there goes on with 100 pages.)
 *
 * @param options  read once; NULL: the defaults
 * @return 0; -EINVAL, and nothing is changed: no advisor, an unknown mode or pace, max_cpu_percent
 *         above 100 or min_pages above max_pages (KSM's mode takes both), a size smaller than the
 *         struct was in 0.1, or bytes beyond the known options that are not zero
 * Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_advisor_init(struct pdd_advisor *advisor,
			     const struct pdd_advisor_options *options);

/**
 * @return pages for each step, at least 1; 0: no advisor
 * Complexity: O(1). Since: 0.1
 */
PDD_API uint64_t pdd_advisor_pages(const struct pdd_advisor *advisor);

/**
 * A pass is over, whose steps were of pdd_advisor_pages() pages. Ask for the next number.
 *
 * Any numbers are taken; those above 2^50 count as 2^50. Round scan_ms down and cpu_ms up: then the
 * CPU share is kept in passes of a few milliseconds, too.
 *
 * @param scan_ms  from its beginning to its end, milliseconds; 0 counts as 1
 * @param cpu_ms   CPU time of its steps, milliseconds; 0 counts as 1. (KSM's first pass is charged
 *                 all CPU time that its thread ever used: hand that in to get the same answer.)
 * @return 0; -EINVAL: no advisor, or a zeroed one that was not initialised
 * Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_advisor_pass(struct pdd_advisor *advisor, uint64_t scan_ms, uint64_t cpu_ms);

#ifdef __cplusplus
}
#endif
#endif
