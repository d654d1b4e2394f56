/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_aging.c - PHASE and EPOCH: their table of periods, that equal pages meet, who is looked at
 * when. The other policies, and pairs of pages that come and grow old: test_aging_policies.c.
 *
 * Exhaustive over ages, phases and maximal periods. All periods divide 64, so what holds in the
 * passes 0 to 127 holds in all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pagededup/aging.h>

#define AGES (PDD_AGE_MAX + 1)
#define PHASES 64u
#define EPOCHS 128u

/* Bits of the passes 0 .. 127 that look at a page. */
struct passes {
	uint64_t low, high;
};

static struct passes looks[AGES][PHASES];

/* Of the policies that have periods. */
static const enum pdd_aging periodic[] = {PDD_AGING_PHASE, PDD_AGING_EPOCH};

#define NPERIODIC (sizeof(periodic) / sizeof(periodic[0]))

static void find_looks(enum pdd_aging policy, uint32_t max_period)
{
	for (uint32_t age = 0; age < AGES; age++) {
		for (uint32_t phase = 0; phase < PHASES; phase++) {
			struct passes *passes = &looks[age][phase];

			*passes = (struct passes){0, 0};
			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
				uint64_t *word = epoch < 64 ? &passes->low : &passes->high;

				if (pdd_aging_look(policy, age, epoch, phase, max_period))
					*word |= UINT64_C(1) << epoch % 64;
			}
		}
	}
}

/* Whether each run of `length` (a power of two) passes within 0 .. 127 has a pass of the set. */
static bool in_every_window(struct passes set, uint32_t length)
{
	/* bit e: a pass of the set is among e .. e + reach - 1; doubling the reach */
	for (uint32_t reach = 1; reach < length; reach *= 2) {
		set.low |= set.low >> reach | set.high << (64 - reach);
		set.high |= set.high >> reach;
	}
	/* windows start at 0 .. 128 - length; the 64 starts of the low word show all phases */
	return set.low == UINT64_MAX;
}

/* The passes that look at pages of both ages. */
static struct passes common(uint32_t age_a, uint32_t age_b, uint32_t phase)
{
	struct passes a = looks[age_a][phase], b = looks[age_b][phase];

	return (struct passes){a.low & b.low, a.high & b.high};
}

static void test_periods(void **unused)
{
	static const struct {
		uint32_t oldest, period;
	} table[] = {{2, 1}, {5, 2}, {8, 4}, {16, 8}, {32, 16}, {64, 32}, {PDD_AGE_MAX, 64}};
	uint32_t age = 0;

	(void)unused;
	for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
		for (; age <= table[row].oldest; age++) {
			for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
				uint32_t period = table[row].period < max ? table[row].period : max;

				assert_int_equal(pdd_aging_period(age, max), period);
			}
		}
	}
	assert_int_equal(age, AGES);
}

static bool in_set(const struct passes *passes, uint32_t epoch)
{
	return (epoch < 64 ? passes->low : passes->high) >> epoch % 64 & 1;
}

static void check_looks(enum pdd_aging policy, uint32_t max)
{
	find_looks(policy, max);
	for (uint32_t age = 0; age < AGES; age++) {
		uint32_t period = pdd_aging_period(age, max);

		for (uint32_t phase = 0; phase < PHASES; phase++) {
			uint32_t shift = policy == PDD_AGING_PHASE ? phase : 0;

			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
				assert_int_equal(in_set(&looks[age][phase], epoch),
						 (epoch + shift) % period == 0);
		}
	}
}

/* A page is looked at exactly once in each period, in the pass of its phase; with EPOCH all pages
 * of a period are looked at in the same passes, the multiples of it. */
static void test_looks(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < NPERIODIC; i++)
		for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2)
			check_looks(periodic[i], max);
}

static void check_equal_pages_meet(enum pdd_aging policy, uint32_t max)
{
	find_looks(policy, max);
	for (uint32_t phase = 0; phase < PHASES; phase++) {
		for (uint32_t a = 0; a < AGES; a++) {
			for (uint32_t b = a; b < AGES; b++) {
				if (!in_every_window(common(a, b, phase), max))
					fail_msg("policy %d, ages %u and %u, phase %u, at most %u",
						 (int)policy, a, b, phase, max);
			}
		}
	}
}

/* Known bug 28: pages of equal checksum and any two ages are looked at together at least once in
 * any max_period passes one after the other. */
static void test_equal_pages_meet(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < NPERIODIC; i++)
		for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2)
			check_equal_pages_meet(periodic[i], max);
}

/* Phases that a pass looks at. */
static uint32_t load_of(uint32_t age, uint32_t epoch)
{
	uint32_t load = 0;

	for (uint32_t phase = 0; phase < PHASES; phase++)
		load += in_set(&looks[age][phase], epoch);
	return load;
}

/* Of all phases each pass looks at the same number, whatever the age. */
static void test_even_load(void **unused)
{
	(void)unused;
	for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
		find_looks(PDD_AGING_PHASE, max);
		for (uint32_t age = 0; age < AGES; age++)
			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
				assert_int_equal(load_of(age, epoch),
						 PHASES / pdd_aging_period(age, max));
	}
}

/* With EPOCH a pass looks at all pages of an age or at none: the price of a common phase. */
static void test_epoch_is_all_or_nothing(void **unused)
{
	(void)unused;
	for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
		find_looks(PDD_AGING_EPOCH, max);
		for (uint32_t age = 0; age < AGES; age++)
			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
				assert_int_equal(load_of(age, epoch),
						 epoch % pdd_aging_period(age, max) ? 0 : PHASES);
	}
}

static void check_wide_values(enum pdd_aging policy, uint32_t age, uint32_t max)
{
	static const uint64_t high[] = {64, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 63};

	for (uint64_t low = 0; low < 64 * 64; low++) {
		uint64_t epoch = low / 64, phase = low % 64;
		bool look = pdd_aging_look(policy, age, epoch, phase, max);

		for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++)
			assert_int_equal(pdd_aging_look(policy, age, high[i] + epoch,
							high[i] + phase, max), look);
	}
}

/* Only the low 6 bits of checksum and epoch matter, also where their sum or the epoch wraps. */
static void test_wide_values(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < NPERIODIC; i++)
		for (uint32_t age = 0; age < AGES; age++)
			check_wide_values(periodic[i], age, PDD_AGING_PERIOD_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_periods),
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_equal_pages_meet),
		cmocka_unit_test(test_even_load),
		cmocka_unit_test(test_epoch_is_all_or_nothing),
		cmocka_unit_test(test_wide_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
