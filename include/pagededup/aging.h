/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aging.h - which pass looks at which page: pure functions, usable alone.
 *
 * A page's age counts how often a pass came by it. Young pages (ages 0 to 2) are always looked at,
 * older ones once in a period that grows with the age. In which pass of the period is decided by
 * the page's checksum: equal pages have equal checksums, so they are looked at in the same passes,
 * whatever their ages, because the periods are nested powers of two; and different pages spread
 * evenly over the passes.
 */
#ifndef PAGEDEDUP_AGING_H
#define PAGEDEDUP_AGING_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pdd_aging {
	PDD_AGING_PHASE = 0, /* by the checksum's phase; the default */
	PDD_AGING_NONE = 1,  /* every pass looks at every page */
};

/* Ages saturate here. */
#define PDD_AGE_MAX 127u
/* The longest period that the schedule knows, in passes. */
#define PDD_AGING_PERIOD_MAX 64u

/**
 * The period, in passes, of a page of this age: 1 up to age 2, 2 up to 5, 4 up to 8, 8 up to 16,
 * 16 up to 32, 32 up to 64, else 64; cut at @p max_period.
 *
 * @param age         0 .. PDD_AGE_MAX
 * @param max_period  a power of two, 1 .. PDD_AGING_PERIOD_MAX
 * Complexity: O(1). Since: 0.1
 */
PDD_API uint32_t pdd_aging_period(uint32_t age, uint32_t max_period);

/**
 * Whether the pass @p epoch looks at a page.
 *
 * @param policy    PDD_AGING_*
 * @param age       0 .. PDD_AGE_MAX, before this encounter
 * @param epoch     number of the pass
 * @param checksum  the page's recorded checksum, well mixed in its low 6 bits
 * Complexity: O(1). Since: 0.1
 */
PDD_API bool pdd_aging_look(enum pdd_aging policy, uint32_t age, uint64_t epoch, uint64_t checksum,
			    uint32_t max_period);

#ifdef __cplusplus
}
#endif
#endif
