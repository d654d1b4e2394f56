/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aging.c - which pass looks at which page.
 *
 * Two equal pages can merge when one pass looks at both, or, with a retained index, at the younger.
 * With PHASE a page of period p and checksum c is looked at in the passes e with (e + c) mod p = 0.
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
 * of the content not at all: one even, one odd pass for ever. EPOCH is the same with c = 0.
 *
 * COUNTDOWN has no phase: a page of age a is looked at if a is 0, 1, 2, 3, 5, 8, 13, and then every
 * 9th. Two pages that came k passes apart, both old, are looked at in one pass only if k mod 9 = 0;
 * while the younger one grows old there are some more chances, but for the waits 13, 15, 16, and a
 * third of all longer ones, there is none. That is KSM's fault, kept here to be compared with, and
 * for a retained index, where nothing depends on pages being looked at together (save among true
 * collisions, where pages that are skipped leave the index, see search.c).
 *
 * Why the load is even with PHASE: among pages of one period p, the pass e looks at those with
 * c mod p equal to -e mod p, a p-th of all checksums, if these are well mixed in their low 6 bits.
 * The index picks roots by other bits first, so what one pass looks at is spread over all.
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

/* COUNTDOWN: the ages of the first looks that are followed by 1, 2, 4, 8 skips. */
static const uint8_t counted[] = {3, 5, 8, 13};

#define NCOUNTED (sizeof(counted) / sizeof(counted[0]))

/* From this age on every (max_period + 1)th encounter is a look. */
static uint32_t steady_age(uint32_t max_period)
{
	uint32_t i = 0;

	while (i + 1 < NCOUNTED && UINT32_C(1) << i < max_period)
		i++;
	return counted[i];
}

static uint32_t steady_period(uint32_t max_period)
{
	const uint32_t longest = UINT32_C(1) << (NCOUNTED - 1);

	return (max_period < longest ? max_period : longest) + 1;
}

static bool countdown_look(uint32_t age, uint32_t max_period)
{
	uint32_t steady = steady_age(max_period);

	if (age >= steady)
		return (age - steady) % steady_period(max_period) == 0;
	for (uint32_t i = 0; i < NCOUNTED; i++)
		if (age == counted[i])
			return true;
	return age <= oldest[0];
}

static uint32_t countdown_next(uint32_t age, uint32_t max_period)
{
	uint32_t steady = steady_age(max_period), period = steady_period(max_period);
	uint32_t last = steady + (PDD_AGE_MAX - steady) / period * period; /* a look */

	return age + 1 < last ? age + 1 : last - period;
}

static bool is_valid(uint32_t age, uint32_t max_period)
{
	return age <= PDD_AGE_MAX && max_period >= 1 && max_period <= PDD_AGING_PERIOD_MAX &&
	       (max_period & (max_period - 1)) == 0; /* A2 */
}

uint32_t pdd_aging_period(uint32_t age, uint32_t max_period)
{
	uint32_t period = 1;

	PDD_ASSERT(is_valid(age, max_period));
	for (size_t i = 0; i < NSTEPS && period < max_period && age > oldest[i]; i++)
		period *= 2;
	return period;
}

bool pdd_aging_look(enum pdd_aging policy, uint32_t age, uint64_t epoch, uint64_t checksum,
		    uint32_t max_period)
{
	PDD_ASSERT(is_valid(age, max_period));
	switch (policy) {
	case PDD_AGING_COUNTDOWN: return countdown_look(age, max_period);
	case PDD_AGING_EPOCH: return !(epoch & (pdd_aging_period(age, max_period) - 1));
	case PDD_AGING_PHASE:
		return !((epoch + checksum) & (pdd_aging_period(age, max_period) - 1));
	case PDD_AGING_NONE: break;
	}
	return true;
}

uint32_t pdd_aging_next(enum pdd_aging policy, uint32_t age, uint32_t max_period)
{
	PDD_ASSERT(is_valid(age, max_period));
	if (policy == PDD_AGING_COUNTDOWN)
		return countdown_next(age, max_period);
	return age < PDD_AGE_MAX ? age + 1 : age;
}
