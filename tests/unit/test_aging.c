/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_aging.c - the schedule: its table of periods, that equal pages meet, that the load is even.
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

static void find_looks(uint32_t max_period)
{
	for (uint32_t age = 0; age < AGES; age++) {
		for (uint32_t phase = 0; phase < PHASES; phase++) {
			struct passes *passes = &looks[age][phase];

			*passes = (struct passes){0, 0};
			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
				uint64_t *word = epoch < 64 ? &passes->low : &passes->high;

				if (pdd_aging_look(PDD_AGING_PHASE, age, epoch, phase, max_period))
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

/* A page is looked at exactly once in each period, in the pass of its phase. */
static void test_looks(void **unused)
{
	(void)unused;
	for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
		find_looks(max);
		for (uint32_t age = 0; age < AGES; age++) {
			uint32_t period = pdd_aging_period(age, max);

			for (uint32_t phase = 0; phase < PHASES; phase++) {
				struct passes *passes = &looks[age][phase];

				for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
					uint64_t word = epoch < 64 ? passes->low : passes->high;

					assert_int_equal(word >> epoch % 64 & 1,
							 (epoch + phase) % period == 0);
				}
			}
		}
	}
}

/* Pages of equal checksum and any two ages are looked at together at least once per max_period. */
static void test_equal_pages_meet(void **unused)
{
	(void)unused;
	for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
		find_looks(max);
		for (uint32_t phase = 0; phase < PHASES; phase++) {
			for (uint32_t a = 0; a < AGES; a++) {
				for (uint32_t b = a; b < AGES; b++) {
					if (!in_every_window(common(a, b, phase), max))
						fail_msg("ages %u and %u, phase %u, at most %u", a,
							 b, phase, max);
				}
			}
		}
	}
}

/* Of all phases each pass looks at the same number, whatever the age. */
static void test_even_load(void **unused)
{
	(void)unused;
	for (uint32_t max = 1; max <= PDD_AGING_PERIOD_MAX; max *= 2) {
		find_looks(max);
		for (uint32_t age = 0; age < AGES; age++) {
			for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
				uint32_t load = 0;

				for (uint32_t phase = 0; phase < PHASES; phase++) {
					struct passes *passes = &looks[age][phase];
					uint64_t word = epoch < 64 ? passes->low : passes->high;

					load += (uint32_t)(word >> epoch % 64 & 1);
				}
				assert_int_equal(load, PHASES / pdd_aging_period(age, max));
			}
		}
	}
}

/* Only the low 6 bits of checksum and epoch matter, also where their sum or the epoch wraps. */
static void test_wide_values(void **unused)
{
	static const uint64_t high[] = {64, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 63};

	(void)unused;
	for (uint32_t age = 0; age < AGES; age++) {
		for (uint64_t low = 0; low < 64 * 64; low++) {
			uint64_t epoch = low / 64, phase = low % 64;
			bool look = pdd_aging_look(PDD_AGING_PHASE, age, epoch, phase, 64);

			for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++) {
				uint64_t far_epoch = high[i] + epoch, checksum = high[i] + phase;

				assert_int_equal(pdd_aging_look(PDD_AGING_PHASE, age, far_epoch,
								checksum, 64),
						 look);
			}
		}
	}
}

static void test_policy_none(void **unused)
{
	(void)unused;
	for (uint32_t age = 0; age < AGES; age++) {
		for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
			assert_true(pdd_aging_look(PDD_AGING_NONE, age, epoch, 1, 64));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_periods),		 cmocka_unit_test(test_looks),
		cmocka_unit_test(test_equal_pages_meet), cmocka_unit_test(test_even_load),
		cmocka_unit_test(test_wide_values),	 cmocka_unit_test(test_policy_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
