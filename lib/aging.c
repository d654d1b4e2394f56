/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aging.c - which pass looks at which page.
 *
 * Two equal pages can merge when one pass looks at both, or, with a retained index, at the younger.
 * A page of period p and checksum c is looked at in the passes e with (e + c) mod p = 0.
 *
 * Why equal pages meet, whatever their ages:
 *
 *  A1  Equal pages have equal checksums: both use the same c.
 *  A2  All periods are powers of two, so of any two the smaller divides the larger one: they are
 *      nested. Cutting at a maximum that is a power of two keeps them so.
 *  A3  If p divides q, then (e + c) mod q = 0 implies (e + c) mod p = 0: in every pass that looks
 *      at the rarer page, the other one is looked at, too.
 *
 * Hence both are looked at in the same pass once in every q passes, q at most the maximum. With
 * periods such as 2 and 3 they would meet every 6 passes only; with a phase that is not a function
 * of the content (a countdown per page, say) not at all: one even, one odd pass for ever.
 *
 * Why the load is even: among pages of one period p, the pass e looks at those with c mod p equal
 * to -e mod p, a p-th of all checksums, if these are well mixed in their low 6 bits. The roots of
 * the index are picked by the high bits, so what one pass looks at is spread over all roots.
 *
 * The epoch may wrap around: 2^64 is a multiple of every period, and unsigned sums are taken modulo
 * 2^64, so wrapping shifts no phase.
 *
 * Pure functions; no locking, O(1).
 */
#include <pagededup/aging.h>

#include "check_internal.h"

/* The oldest age of each period 1, 2, 4, ...; older pages have the next period, the longest one. */
static const uint8_t oldest[] = {2, 5, 8, 16, 32, 64};

#define NSTEPS (sizeof(oldest) / sizeof(oldest[0]))

_Static_assert(UINT32_C(1) << NSTEPS == PDD_AGING_PERIOD_MAX, "one step per doubling");

uint32_t pdd_aging_period(uint32_t age, uint32_t max_period)
{
	uint32_t period = 1;

	PDD_ASSERT(age <= PDD_AGE_MAX);
	PDD_ASSERT(max_period >= 1 && max_period <= PDD_AGING_PERIOD_MAX);
	PDD_ASSERT((max_period & (max_period - 1)) == 0); /* A2 */

	for (size_t i = 0; i < NSTEPS && period < max_period && age > oldest[i]; i++)
		period *= 2;
	return period;
}

bool pdd_aging_look(enum pdd_aging policy, uint32_t age, uint64_t epoch, uint64_t checksum,
		    uint32_t max_period)
{
	if (policy != PDD_AGING_PHASE)
		return true;
	return ((epoch + checksum) & (pdd_aging_period(age, max_period) - 1)) == 0;
}
