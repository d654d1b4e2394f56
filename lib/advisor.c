/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advisor.c - how many pages should a step come by?
 *
 * N pages in memory at a cost of c each, in steps of p pages with pauses of T between them, make a
 * pass that takes t = T * N / p + N * c, of which N * c are CPU time ("busy"). N, c and T are
 * unknown, but t and busy are told. With p' pages a step only the idle part of t changes, from
 * t - busy to (t - busy) * p / p'.
 *
 *  A1  The pass takes the time `target` if (t - busy) * p / p' = target - busy.
 *  A2  It uses the share m of a core if busy = m * (busy + (t - busy) * p / p'), that is if
 *      p' = p * m * (t - busy) / (busy - m * busy).
 *  A3  If steps begin at equal distances T instead, then t = T * N / p, and all of it changes: A1
 *      with 0 for busy. The share is met if busy = m * t * p / p', so p' = p * m * t / busy.
 *
 * So one pass tells all, and nothing has to converge. (KSM divides the whole of t by p, as in A3,
 * but pauses as in A1, so it approaches the target only step by step.) Answers are rounded down:
 * never above the share, but a pass may take longer than wanted by one part in p'.
 *
 * With m = 1 and pauses the share is no limit. A target below busy wants as many pages as possible,
 * so that only the share limits them. If the steps of A3 take longer than T, then t is the CPU
 * time, and each answer is m times the one before until they no longer do.
 *
 * No overflow: times are at most TIME_MAX, so that the products of times and percentages fit, and a
 * product with a number of pages is divided before it is cut to 64 bits.
 */
#include <pagededup/advisor.h>

#include <errno.h>
#include <string.h>

enum {
	SLOWER_MAX = 2, /* an answer is at least the one before divided by this, */
	FASTER_MAX = 4, /* ... and at most multiplied by this, unless asked for twice */
	KSM_MIN_CPU_PERCENT = 10,
	KSM_DAMPING = 70, /* percent of the change before; the rest is the new one */
};

enum leap {
	LEAP_NONE = 0,
	LEAP_DOWN = 1,
	LEAP_UP = 2,
	LEAP_ANY = 3, /* no pass yet: whatever the first one asks for is taken */
};

#define TIME_MAX (UINT64_C(1) << 50) /* milliseconds */

static uint64_t at_least(uint64_t value, uint64_t bound)
{
	return value < bound ? bound : value;
}

static uint64_t at_most(uint64_t value, uint64_t bound)
{
	return value > bound ? bound : value;
}

/* A number in units of `unit`: whole ones, UINT64_MAX at most, and a rest below one. */
struct mixed {
	uint64_t whole, rest;
};

static struct mixed mixed_sum(struct mixed a, struct mixed b, uint64_t unit)
{
	uint64_t carry = a.rest >= unit - b.rest;

	a.rest = carry ? a.rest - (unit - b.rest) : a.rest + b.rest;
	a.whole = b.whole > UINT64_MAX - a.whole ? UINT64_MAX : a.whole + b.whole;
	a.whole += carry && a.whole < UINT64_MAX;
	return a;
}

/* a * b / unit, exact, UINT64_MAX at most. By hand: there is no division of 128 bits without a
 * function of the compiler's library, and this runs once a pass. */
static uint64_t mul_div(uint64_t a, uint64_t b, uint64_t unit)
{
	struct mixed one = {b / unit, b % unit}, product = {0, 0};

	for (unsigned bit = 64; bit-- > 0;) {
		product = mixed_sum(product, product, unit);
		if (a >> bit & 1)
			product = mixed_sum(product, one, unit);
	}
	return product.whole;
}

static void set_defaults(struct pdd_advisor_options *options)
{
	options->size = sizeof(*options);
	if (!options->max_cpu_percent)
		options->max_cpu_percent = 70;
	if (!options->target_scan_time_s)
		options->target_scan_time_s = 200;
	if (!options->min_pages)
		options->min_pages = 500;
	if (!options->max_pages)
		options->max_pages = 30000;
}

static bool is_valid(const struct pdd_advisor_options *options)
{
	if (options->mode > PDD_ADVISOR_CPU || options->pace > PDD_ADVISOR_PERIOD)
		return false;
	return options->mode == PDD_ADVISOR_SCAN_TIME_KSM ||
	       (options->max_cpu_percent <= 100 && options->min_pages <= options->max_pages);
}

int pdd_advisor_init(struct pdd_advisor *advisor, const struct pdd_advisor_options *options)
{
	const unsigned char *bytes = (const unsigned char *)options;
	struct pdd_advisor_options copy;

	memset(&copy, 0, sizeof(copy));
	if (!advisor || (options && options->size < sizeof(copy)))
		return -EINVAL;
	if (options) {
		for (size_t i = sizeof(copy); i < options->size; i++)
			if (bytes[i])
				return -EINVAL;
		memcpy(&copy, options, sizeof(copy));
	}
	set_defaults(&copy);
	if (!is_valid(&copy))
		return -EINVAL;
	memset(advisor, 0, sizeof(*advisor));
	advisor->priv.options = copy;
	advisor->priv.pages = copy.min_pages;
	advisor->priv.leap = LEAP_ANY;
	return 0;
}

uint64_t pdd_advisor_pages(const struct pdd_advisor *advisor)
{
	return advisor ? advisor->priv.pages : 0;
}

/* KSM's arithmetic. Each division loses its fraction, in this order. */
static uint64_t ksm_answer(struct pdd_advisor *advisor, uint64_t scan_ms, uint64_t cpu_ms)
{
	const struct pdd_advisor_options *options = &advisor->priv.options;
	uint64_t pages = advisor->priv.pages;
	uint64_t scan_s = at_least(scan_ms / 1000, 1);
	uint64_t last_s = advisor->priv.ksm_scan_s ? advisor->priv.ksm_scan_s : scan_s;
	uint64_t cpu_percent = at_least(cpu_ms * 100 / (scan_s * 1000), 1);
	uint64_t factor = at_least(options->target_scan_time_s * UINT64_C(100) / scan_s, 1);
	uint64_t change = at_least(scan_s * 100 / last_s, 1);
	uint64_t per_percent = at_least(pages / cpu_percent, 1);

	change = (KSM_DAMPING * advisor->priv.ksm_change + (100 - KSM_DAMPING) * change) / 100;
	advisor->priv.ksm_scan_s = scan_s;
	advisor->priv.ksm_change = change;
	pages = mul_div(mul_div(pages, 100, factor), change, 100);
	pages = at_most(pages, mul_div(per_percent, options->max_cpu_percent, 1));
	pages = at_least(pages, mul_div(per_percent, KSM_MIN_CPU_PERCENT, 1));
	return at_most(pages, options->max_pages);
}

/* A1 and A2, A3: what rules 3 and 4 ask for. */
static uint64_t wanted_pages(const struct pdd_advisor *advisor, uint64_t scan_ms, uint64_t cpu_ms)
{
	const struct pdd_advisor_options *options = &advisor->priv.options;
	uint64_t pages = advisor->priv.pages, answer = options->max_pages;
	uint64_t target_ms = options->target_scan_time_s * UINT64_C(1000);
	uint64_t share = options->max_cpu_percent;
	uint64_t scan = at_least(scan_ms, 1), cpu = at_least(cpu_ms, 1);
	uint64_t busy = options->pace == PDD_ADVISOR_PAUSE ? at_most(cpu, scan) : 0;
	uint64_t idle = at_least(scan - busy, 1); /* there was some, below a millisecond */

	if (options->mode == PDD_ADVISOR_SCAN_TIME && target_ms > busy)
		answer = mul_div(pages, idle, target_ms - busy);
	if (100 * cpu > share * busy)
		answer = at_most(answer, mul_div(pages, share * idle, 100 * cpu - share * busy));
	return answer;
}

/* Rules 1 and 2. */
static uint64_t moderate(struct pdd_advisor *advisor, uint64_t wanted)
{
	const struct pdd_advisor_options *options = &advisor->priv.options;
	uint64_t pages = advisor->priv.pages;
	uint64_t low = pages / SLOWER_MAX, high = mul_div(pages, FASTER_MAX, 1);
	uint32_t leap, before = advisor->priv.leap;

	wanted = at_most(at_least(wanted, options->min_pages), options->max_pages);
	leap = wanted < low ? LEAP_DOWN : wanted > high ? LEAP_UP : LEAP_NONE;
	if (before == LEAP_ANY || before == leap) {
		advisor->priv.leap = LEAP_NONE;
		return wanted;
	}
	advisor->priv.leap = leap;
	return at_most(at_least(wanted, low), high);
}

int pdd_advisor_pass(struct pdd_advisor *advisor, uint64_t scan_ms, uint64_t cpu_ms)
{
	if (!advisor || !advisor->priv.options.size)
		return -EINVAL;
	scan_ms = at_most(scan_ms, TIME_MAX);
	cpu_ms = at_most(cpu_ms, TIME_MAX);
	if (advisor->priv.options.mode == PDD_ADVISOR_SCAN_TIME_KSM)
		advisor->priv.pages = ksm_answer(advisor, scan_ms, cpu_ms);
	else
		advisor->priv.pages = moderate(advisor, wanted_pages(advisor, scan_ms, cpu_ms));
	return 0;
}
