/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_epochs.c - known bug 9: with an index that is rebuilt in every pass, an item was
 * left over in the tree of a pass before, because a lock was busy at the wrong moment, and was
 * taken for a young one again when the 8-bit number of the pass had wrapped around.
 *
 * The property: when a pass ends, each item in the index was put there in this pass, whatever was
 * busy or failed, for more passes than any small counter has values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>

#include "scanner_internal.h"
#include "sim.h"

#define PASSES 320u
#define SPACES 4u
#define PAGES 40u

static struct sim_region *regions[SPACES];

/* In which pass an item was last seen to enter the index, and whether it was there then. A hook
 * after each change of it is not there, so this looks at all of them in every hook. */
static struct seen {
	uint64_t pass;
	bool indexed;
	uint64_t checksum;
} seen[SPACES][PAGES];

static void look_at_all(const struct sim *sim)
{
	uint64_t pass = sim->scanner.priv.epoch + 1;

	for (unsigned s = 0; s < SPACES; s++) {
		for (uint64_t i = 0; regions[s] && i < PAGES; i++) {
			const struct pdd_item *item = sim_item(regions[s], i);
			bool indexed = item_state(item) == ITEM_INDEXED;

			if (indexed && item_is_fresh(item) == (sim->scanner.priv.epoch & 1) &&
			    seen[s][i].pass + 1 == pass)
				seen[s][i].pass = pass; /* it changed sets: it was put in anew */
			else if (indexed && (!seen[s][i].indexed ||
					     seen[s][i].checksum != item->priv.node.checksum))
				seen[s][i].pass = pass;
			seen[s][i].indexed = indexed;
			seen[s][i].checksum = item->priv.node.checksum;
		}
	}
}

static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	if (sim->stepping)
		look_at_all(sim);
}

/* No item in the index from a pass before the one that just ended. The mark is one bit, so an item
 * of the pass before is told at once, and an older one by what was seen. */
static void assert_all_young(const struct sim *sim)
{
	uint64_t ended = sim->scanner.priv.epoch - 1;

	look_at_all(sim);
	for (unsigned s = 0; s < SPACES; s++) {
		for (uint64_t i = 0; i < PAGES; i++) {
			const struct pdd_item *item = sim_item(regions[s], i);

			if (item_state(item) != ITEM_INDEXED)
				continue;
			if (item_is_fresh(item) != (ended & 1))
				sim_fail("pass %" PRIu64 ": page %" PRIu64 " is left over", ended,
					 i);
			if (seen[s][i].pass < ended)
				sim_fail("page %" PRIu64 " is in the index since pass %" PRIu64, i,
					 seen[s][i].pass);
		}
	}
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	for (unsigned s = 0; s < SPACES; s++) {
		regions[s] = sim_region_add(sim_space_add(sim, 0), PAGES);
		for (uint64_t i = 0; i < PAGES; i++) {
			sim_write(regions[s], i, 1 + sim_random(sim, 2 * PAGES));
			seen[s][i] = (struct seen){ 0 };
		}
	}
	sim->at = at_hook;
	return sim;
}

static void destroy(struct sim *sim)
{
	sim->at = NULL;
	sim_destroy(sim);
}

static void write_some(struct sim *sim, unsigned n)
{
	while (n--)
		sim_write(regions[sim_random(sim, SPACES)], sim_random(sim, PAGES),
			  1 + sim_random(sim, 2 * PAGES));
}

/* Which spaces are busy changes from step to step, and hooks fail. */
static void disturb(struct sim *sim)
{
	for (unsigned s = 0; s < SPACES; s++)
		regions[s]->space->busy = sim_random(sim, 3) == 0;
	sim->fail_chance = sim_random(sim, 2) ? 0.1 : 0;
	sim->fail_errno = sim_random(sim, 2) ? -EBUSY : 0;
}

/* With each policy of aging, and with checksums that collide or do not. */
static void run(const struct sim_options *options)
{
	struct sim *sim = world(options);

	for (unsigned pass = 0; pass < PASSES; pass++) {
		enum pdd_step result;

		write_some(sim, 1 + (unsigned)sim_random(sim, 4));
		do {
			disturb(sim);
			result = sim_step(sim, 1 + sim_random(sim, 2 * PAGES));
		} while (result == PDD_STEP_MORE);
		assert_all_young(sim);
	}
	assert_true(sim->scanner.priv.epoch >= 300);
	assert_true(sim_stats(sim).space_lock_misses > 300);
	assert_true(sim_stats(sim).counts.pages_skipped > 0 ||
		    options->aging == PDD_AGING_NONE);
	destroy(sim);
}

static void test_9_no_item_is_left_over(void **unused)
{
	for (uint32_t aging = 0; aging <= PDD_AGING_EPOCH; aging++)
		run(&(struct sim_options){ .index = PDD_INDEX_REBUILT,
					   .aging = (enum pdd_aging)aging,
					   .tracked = aging % 2 });
	run(&(struct sim_options){ .index = PDD_INDEX_REBUILT, .checksum = SIM_CHECKSUM_2_BITS,
				   .nroots = 1 });
	run(&(struct sim_options){ .index = PDD_INDEX_REBUILT, .checksum = SIM_CHECKSUM_ZERO,
				   .nroots = 1, .tracked = true });
	run(&(struct sim_options){ .index = PDD_INDEX_REBUILT, .nodes_apart = true });
}

/* A space is busy in all passes but each 256th, as KSM's number wrapped: what was put into the
 * index then is not there any more, let alone taken for young. */
static void test_9_wrap(void **unused)
{
	struct sim *sim = world(
		&(struct sim_options){ .index = PDD_INDEX_REBUILT, .aging = PDD_AGING_NONE });

	for (unsigned pass = 0; pass < 3 * 256; pass++) {
		regions[0]->space->busy = pass % 256 > 2;
		sim_pass(sim, UINT64_MAX);
		assert_all_young(sim);
		if (pass % 256 > 2)
			assert_int_equal(sim_counts(regions[0]->space).pages_unshared, 0);
	}
	destroy(sim);
}

/* A page of a rebuilt index is not found by a page that is looked at in another pass; in a retained
 * one it is. That is what the policies are for. */
static void test_9_policies_differ(void **unused)
{
	for (uint32_t index = 0; index <= PDD_INDEX_REBUILT; index++) {
		struct sim *sim = world(&(struct sim_options){
			.index = (enum pdd_index_policy)index, .aging = PDD_AGING_COUNTDOWN });

		for (unsigned s = 0; s < SPACES; s++)
			for (uint64_t i = 0; i < PAGES; i++)
				sim_write(regions[s], i, s * PAGES + i + 1);
		sim_passes(sim, 40); /* skipped 8 of 9 times */
		if (sim_stats(sim).counts.pages_unshared == SPACES * PAGES)
			assert_int_equal(index, PDD_INDEX_RETAINED);
		else
			assert_int_equal(sim_stats(sim).counts.pages_unshared, 0);
		destroy(sim);
	}
}

/* What the pass before has put into a rebuilt index, and this one has not come by yet, is not
 * found: as if the trees were thrown away when a pass begins. A retained index finds it. */
static void test_9_set_of_the_pass_before(void **unused)
{
	for (unsigned how = 0; how < 4; how++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.index = how & 1 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
			.checksum = how & 2 ? SIM_CHECKSUM_ZERO : SIM_CHECKSUM_DEFAULT,
			.aging = PDD_AGING_COUNTDOWN });
		struct sim_region *first = sim_region_add(sim_space_add(sim, 0), 2);
		struct sim_region *second = sim_region_add(sim_space_add(sim, 0), 3);

		for (uint64_t i = 0; i < 3; i++)
			sim_write(second, i, 1 + i);
		for (unsigned pass = 0; pass < 13; pass++)
			sim_pass(sim, UINT64_MAX);
		assert_int_equal(item_age(sim_item(second, 0)), 13);
		sim_write(first, 0, 99); /* among collisions they are compared */
		sim_write(first, 1, 1);
		sim_passes(sim, 2); /* it is looked at in the first of these */
		assert_int_equal(sim_is_shared(first, 1), !(how & 1));
		if (how & 1) /* it was skipped in the second */
			assert_int_equal(item_age(sim_item(second, 0)), 15);
		sim_destroy(sim);
	}
}

/* What a retained index holds may be from any pass; mark all of it as not from the one that begins.
 * (Where keys differ the mark means nothing but that.) */
static void mark_all_old(const struct sim *sim)
{
	for (unsigned s = 0; s < SPACES; s++) {
		for (uint64_t i = 0; i < PAGES; i++) {
			struct pdd_item *item =
				(struct pdd_item *)(uintptr_t)sim_item(regions[s], i);

			if (item_state(item) != ITEM_INDEXED)
				continue;
			item->priv.word &= ~ITEM_FRESH;
			item->priv.word |= sim->scanner.priv.epoch & 1 ? 0 : ITEM_FRESH;
		}
	}
}

static void assert_no_old(const struct sim *sim)
{
	for (unsigned s = 0; s < SPACES; s++)
		for (uint64_t i = 0; i < PAGES; i++)
			if (item_state(sim_item(regions[s], i)) == ITEM_INDEXED)
				assert_int_equal(item_is_fresh(sim_item(regions[s], i)),
						 (sim->scanner.priv.epoch - 1) & 1);
}

/* The policy changes in the middle of passes, back and forth: after a whole pass of a rebuilt index
 * only what this pass put there is left; nothing that can merge is lost by it. */
static void test_9_switching(void **unused)
{
	for (unsigned collide = 0; collide < 2; collide++) {
		struct sim *sim = world(&(struct sim_options){
			.checksum = collide ? SIM_CHECKSUM_2_BITS : SIM_CHECKSUM_DEFAULT });
		struct pdd_tunables t = sim->scanner.priv.tunables;

		for (unsigned round = 0; round < 150; round++) {
			disturb(sim);
			write_some(sim, 3);
			sim_step(sim, 1 + sim_random(sim, SPACES * PAGES - 1));
			t.index = round % 2 ? PDD_INDEX_RETAINED : PDD_INDEX_REBUILT;
			assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
			while (sim_step(sim, 1 + sim_random(sim, PAGES)) == PDD_STEP_MORE)
				disturb(sim);
			if (t.index == PDD_INDEX_RETAINED)
				continue;
			if (!collide)
				mark_all_old(sim);
			while (sim_step(sim, 1 + sim_random(sim, PAGES)) == PDD_STEP_MORE)
				disturb(sim);
			if (!collide)
				assert_no_old(sim);
		}
		sim->fail_chance = 0;
		for (unsigned s = 0; s < SPACES; s++)
			regions[s]->space->busy = false;
		sim_passes(sim, 2 * PDD_AGING_PERIOD_MAX);
		/* some pages that are equal: all of those of one content */
		for (uint64_t i = 1; i < SPACES * PAGES; i++) {
			const struct sim_region *region = regions[i / PAGES];

			if (region->pages[i % PAGES].expected == regions[0]->pages[0].expected)
				assert_true(sim_is_shared(region, i % PAGES));
		}
		destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_9_no_item_is_left_over),
		cmocka_unit_test(test_9_wrap),
		cmocka_unit_test(test_9_policies_differ),
		cmocka_unit_test(test_9_set_of_the_pass_before),
		cmocka_unit_test(test_9_switching),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
