/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aging.h - which pass looks at which page: pure functions, usable alone.
 *
 * A page's age counts how often a pass came by it. Young pages (ages 0 to 2) are always looked at,
 * older ones once in a period that grows with the age. The policies differ in which pass of the
 * period that is:
 *
 *	phase      decided by the page's checksum. Equal pages have equal checksums, so they are
 *	           looked at in the same passes, whatever their ages; different pages spread evenly
 *	           over the passes
 *	epoch      the same one for all pages: equal pages meet, but all the work is in one pass
 *	countdown  each page counts for itself (KSM up to Linux 6.18): equal pages whose counts do
 *	           not agree never meet, unless an index keeps those that are not looked at (which
 *	           it does not where different contents have one checksum)
 *	none       every pass looks at every page
 */
#ifndef PAGEDEDUP_AGING_H
#define PAGEDEDUP_AGING_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pdd_aging {
	PDD_AGING_PHASE = 0, /* the default */
	PDD_AGING_NONE = 1,
	PDD_AGING_COUNTDOWN = 2,
	PDD_AGING_EPOCH = 3,
};

/* Ages saturate here; with PDD_AGING_COUNTDOWN they go round before. */
#define PDD_AGE_MAX 127u
/* The longest period that the schedule knows, in passes. */
#define PDD_AGING_PERIOD_MAX 64u

/**
 * The period, in passes, of a page of this age: 1 up to age 2, 2 up to 5, 4 up to 8, 8 up to 16,
 * 16 up to 32, 32 up to 64, else 64; cut at @p max_period. Not of PDD_AGING_COUNTDOWN.
 *
 * @param age         0 .. PDD_AGE_MAX
 * @param max_period  a power of two, 1 .. PDD_AGING_PERIOD_MAX
 * Complexity: O(1). Since: 0.1
 */
PDD_API uint32_t pdd_aging_period(uint32_t age, uint32_t max_period);

/**
 * Whether the pass @p epoch looks at a page.
 *
 * @param policy      enum pdd_aging
 * @param age         0 .. PDD_AGE_MAX, before this encounter
 * @param epoch       number of the pass; not used by COUNTDOWN
 * @param checksum    the page's recorded checksum, well mixed in its low 6 bits; used by PHASE only
 * @param max_period  the longest period, a power of two up to PDD_AGING_PERIOD_MAX. COUNTDOWN skips
 *                    at most so many passes in a row, and never more than 8
 * Complexity: O(1). Since: 0.1
 */
PDD_API bool pdd_aging_look(enum pdd_aging policy, uint32_t age, uint64_t epoch, uint64_t checksum,
			    uint32_t max_period);

/**
 * The age after one more encounter, up to PDD_AGE_MAX. With COUNTDOWN a page that is about to
 * reach it goes back by one period (KSM's 121 becomes 112), since the age alone says when it is
 * looked at.
 * Complexity: O(1). Since: 0.1
 */
PDD_API uint32_t pdd_aging_next(enum pdd_aging policy, uint32_t age, uint32_t max_period);

#ifdef __cplusplus
}
#endif
#endif
