/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_flags.c - known bug 17: clearing one flag of a mapping cleared all those above
 * it, because a mask of 32 bits was inverted before it was widened. Here the flags and small
 * fields of a page share one word of its item.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "item_internal.h"
#include "scanner_internal.h"
#include "sim.h"

/* An item of a sparse region, with all that counts it. What is counted here is of no interest. */
static struct {
	struct pdd_extent_block block;
	struct pdd_region region;
	struct pdd_space space;
} fake;

static struct pdd_item *item_with(uint64_t word)
{
	/* item_extent() finds the extent before the items, at the page's place among them. */
	struct pdd_item *item = &fake.block.items[word % PDD_EXTENT_PAGES];

	fake.region.priv.space = &fake.space;
	item->priv.region = &fake.region;
	item->priv.word = word;
	return item;
}

static uint64_t mask(unsigned shift, unsigned bits)
{
	return ((UINT64_C(1) << bits) - 1) << shift;
}

static const uint64_t state_and_reason = UINT64_C(0x1ff) << ITEM_STATE_SHIFT;

/* What each change of one field makes of a word: nothing but that field is another. */
static void assert_one_field_changes(uint64_t word)
{
	static const unsigned fields[][2] = {
		{ 0, ITEM_PAGE_BITS },
		{ ITEM_AGE_SHIFT, ITEM_AGE_BITS },
		{ ITEM_STATE_SHIFT, ITEM_STATE_BITS },
		{ ITEM_REASON_SHIFT, ITEM_REASON_BITS },
		{ ITEM_NODE_SHIFT, ITEM_NODE_BITS },
		{ ITEM_NODE_SHIFT, ITEM_PINS_BITS },
	};
	struct pdd_item *item;

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t field = mask(fields[i][0], fields[i][1]);

		item = item_with(word);
		item_field_set(item, fields[i][0], fields[i][1], 0);
		assert_int_equal(item->priv.word, word & ~field);
		item_field_set(item, fields[i][0], fields[i][1], UINT64_MAX);
		assert_int_equal(item->priv.word, word | field);
	}
	item = item_with(word);
	item_set_due(item, false);
	assert_int_equal(item->priv.word, word & ~ITEM_DUE);
	item_set_due(item, true);
	assert_int_equal(item->priv.word, word | ITEM_DUE);
	item_set_dirty(item, false);
	assert_int_equal(item->priv.word, (word | ITEM_DUE) & ~ITEM_DIRTY);
	item_set_dirty(item, true);
	assert_int_equal(item->priv.word, word | ITEM_DUE | ITEM_DIRTY);
	item = item_with(word);
	item_set_age(item, UINT32_MAX);
	assert_int_equal((item->priv.word ^ word) & ~mask(ITEM_AGE_SHIFT, ITEM_AGE_BITS), 0);
	item = item_with(word);
	item_set(item, ITEM_NEW, PDD_REASON_NONE);
	assert_int_equal(item->priv.word, word & ~state_and_reason);
	item_set_node(item, 0);
	assert_int_equal(item->priv.word, word & ~state_and_reason & ~mask(ITEM_NODE_SHIFT, 10));
	/* Forgetting a page keeps its number, and why it is kept out. */
	item = item_with(word);
	pddi_item_reset(item, PDD_REASON_NONE);
	assert_int_equal(item->priv.word,
			 word & (mask(0, ITEM_PAGE_BITS) | ITEM_KEPT_OUT |
				 (word & ITEM_KEPT_OUT ? mask(ITEM_NODE_SHIFT, 10) : 0)));
}

/* Known bug 17. Each bit alone, all but it, and random words. */
static void test_17_clearing_one_flag(void **unused)
{
	uint64_t random = sim_seed();

	for (unsigned bit = 0; bit < 64; bit++) {
		assert_one_field_changes(UINT64_C(1) << bit);
		assert_one_field_changes(~(UINT64_C(1) << bit));
	}
	assert_one_field_changes(0);
	assert_one_field_changes(UINT64_MAX);
	for (unsigned i = 0; i < 10000; i++)
		assert_one_field_changes(sim_random_of(&random));
}

static void assert_kept_out(const struct sim_region *region, uint64_t page, uint32_t npins,
			    bool excluded)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&region->region, page, &explanation), 0);
	assert_int_equal(explanation.npins, npins);
	assert_int_equal(explanation.excluded, excluded);
	if (!excluded)
		assert_int_equal(explanation.reason, npins ? PDD_REASON_PINNED : PDD_REASON_NEW);
}

/* Do operation `op` of 4 to page 1, and to what it should be. */
static void flag_operation(struct sim_region *region, unsigned op, uint32_t *npins, bool *excluded)
{
	struct pdd_region *r = &region->region;

	switch (op) {
	case 0:
		assert_int_equal(pdd_region_pin(r, 1, 1), 0);
		++*npins;
		break;
	case 1:
		assert_int_equal(pdd_region_unpin(r, 1, 1), *npins ? 0 : -EINVAL);
		*npins -= *npins != 0;
		break;
	case 2:
		assert_int_equal(pdd_region_exclude(r, 1, 1), 0);
		*excluded = true;
		break;
	case 3:
		assert_int_equal(pdd_region_include(r, 1, 1), 0);
		*excluded = false;
		break;
	}
}

/* Known bug 17 by the public calls: pins and exclusion are kept apart in every order of 6 calls,
 * also where the number of pins fills its field, and the pages beside keep theirs. */
static void test_17_pins_and_exclusion(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 3);
	uint32_t npins = 0;
	bool excluded = false;

	assert_int_equal(pdd_region_pin(&region->region, 0, 1), 0);
	assert_int_equal(pdd_region_exclude(&region->region, 2, 1), 0);
	for (unsigned order = 0; order < 4096; order++) {
		for (unsigned i = 0; i < 6; i++) {
			flag_operation(region, order >> 2 * i & 3, &npins, &excluded);
			assert_kept_out(region, 0, 1, false);
			assert_kept_out(region, 1, npins, excluded);
			assert_kept_out(region, 2, 0, true);
		}
		while (npins)
			flag_operation(region, 1, &npins, &excluded);
		flag_operation(region, 3, &npins, &excluded);
		sim_verify(sim);
	}
	while (npins < 511)
		flag_operation(region, 0, &npins, &excluded);
	for (unsigned op = 2; op < 4; op++) {
		assert_int_equal(pdd_region_pin(&region->region, 1, 1), -EOVERFLOW);
		flag_operation(region, op, &npins, &excluded);
		assert_kept_out(region, 1, 511, excluded);
	}
	sim_destroy(sim);
}

/* Of two flags, clearing a part of one does not make it the one that counts: a page that is
 * excluded and pinned is called excluded in whatever order that came about. */
static void test_17_reason_of_two_flags(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1);

	assert_int_equal(pdd_region_pin(&region->region, 0, 1), 0);
	assert_int_equal(pdd_region_pin(&region->region, 0, 1), 0);
	assert_int_equal(pdd_region_exclude(&region->region, 0, 1), 0);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_EXCLUDED);
	assert_int_equal(pdd_region_unpin(&region->region, 0, 1), 0);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_EXCLUDED);
	assert_int_equal(pdd_region_unpin(&region->region, 0, 1), 0);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_EXCLUDED);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_17_clearing_one_flag),
		cmocka_unit_test(test_17_pins_and_exclusion),
		cmocka_unit_test(test_17_reason_of_two_flags),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
