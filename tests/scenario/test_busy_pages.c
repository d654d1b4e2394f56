/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_busy_pages.c - s13, and known bugs 6 and 36 with the index policies and write tracking:
 * what is locked costs its own pages a look, nobody else anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "scanner_internal.h"
#include "sim.h"

/* How a space is busy. */
enum lock {
	TRYLOCK = 0,
	GET_EBUSY = 1, /* pages_get says so */
	LOCKS = 2,
};

static enum lock lock;
static const struct sim_space *locked; /* by pages_get */

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	if (locked && pdd_region_space(region) == &locked->space)
		return -EBUSY;
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void set_busy(struct sim_space *space, bool busy)
{
	space->busy = busy && lock == TRYLOCK;
	locked = busy && lock != TRYLOCK ? space : NULL;
}

static struct sim *world(const struct sim_options *options)
{
	struct sim *sim = sim_create(options);

	sim->scanner.priv.ops.pages_get = pages_get;
	return sim;
}

/* ---- s13 ---- */

#define CONTENTS 2048u
#define EACH 4u
#define A_EXTENTS (CONTENTS / PDD_EXTENT_PAGES)
#define EXTENTS (A_EXTENTS * (1 + EACH))

static void assert_b_merged(const struct sim_region *a, const struct sim_region *b)
{
	struct pdd_counts counts = sim_counts(b->space);

	assert_int_equal(counts.ksm_merging_pages, CONTENTS * EACH);
	assert_int_equal(counts.pages_due, 0);
	assert_int_equal(counts.reasons[PDD_REASON_BUSY], 0);
	assert_int_equal(sim_counts(a->space).ksm_merging_pages, 0);
	assert_int_equal(sim_stats(a->space->sim).pages_shared, CONTENTS);
}

/* Space A, half of whose pages equal some of B's, is locked for ever. B merges completely within 3
 * passes. A's pages count as busy in each pass, their reason is "busy", and A is tried again after
 * each extent of B at most. In the second variant A's pages are in the index before: a try more
 * for each twin at most, and they leave it. When A is free it is as if nothing had been. */
static void s13(const struct sim_options *options, bool indexed)
{
	struct sim *sim = world(options);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), CONTENTS);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), CONTENTS * EACH);
	uint64_t busy, misses;

	for (uint64_t i = 0; i < CONTENTS; i++)
		sim_write(a, i, i % 2 ? 1 + i : 100000 + i);
	sim_passes(sim, indexed ? 2 : 0);
	for (uint64_t i = 0; i < CONTENTS * EACH; i++)
		sim_write(b, i, 1 + i % CONTENTS);
	set_busy(a->space, true);
	busy = sim_counts(a->space).pages_busy;
	misses = sim_stats(sim).space_lock_misses;
	sim_passes(sim, 3);
	assert_b_merged(a, b);
	assert_int_equal(sim_counts(a->space).pages_busy - busy, 3 * CONTENTS);
	misses = sim_stats(sim).space_lock_misses - misses;
	if (lock == TRYLOCK)
		assert_in_range(misses, 3 * A_EXTENTS,
				3 * (EXTENTS + 1) + (indexed ? CONTENTS / 2 : 0));
	else
		assert_int_equal(misses, 0);
	for (uint64_t i = 0; !indexed && i < CONTENTS; i++)
		assert_int_equal(sim_reason(a, i), PDD_REASON_BUSY);
	set_busy(a->space, false);
	sim_passes(sim, indexed ? 1 : 2);
	assert_int_equal(sim_counts(a->space).ksm_merging_pages, CONTENTS / 2);
	sim_destroy(sim);
}

static void test_s13(void **unused)
{
	for (lock = TRYLOCK; lock < LOCKS; lock++) {
		for (unsigned how = 0; how < 4; how++) {
			struct sim_options options = {
				.nroots = 8192,
				.tracked = how & 1,
				.index = how & 2 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
			};

			s13(&options, false);
			if (lock == TRYLOCK) /* else a twin can be held all the same */
				s13(&options, true);
		}
	}
}

/* ---- a twin that is busy ---- */

/* It leaves the index and is due, however often that happens, and each time is counted. The page
 * that found it takes its place, so that a third one finds that. */
static void test_twin(void **unused)
{
	struct sim *sim = world(NULL);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 1);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 12);
	uint64_t misses, tries;

	lock = TRYLOCK;
	sim_write(a, 0, 1);
	sim_passes(sim, 140);
	for (unsigned round = 1; round <= 10; round++) {
		set_busy(a->space, false);
		sim_passes(sim, 2);
		assert_int_equal(item_state(sim_item(a, 0)), ITEM_INDEXED);
		sim_write(b, round, 1);
		sim_pass(sim, UINT64_MAX);
		set_busy(a->space, true);
		misses = sim_stats(sim).space_lock_misses;
		tries = sim->calls[SIM_TRYLOCK];
		sim_pass(sim, UINT64_MAX);
		misses = sim_stats(sim).space_lock_misses - misses;
		tries = sim->calls[SIM_TRYLOCK] - tries;
		assert_int_equal(item_state(sim_item(a, 0)), ITEM_SEEN);
		assert_int_equal(sim_reason(a, 0), PDD_REASON_BUSY);
		assert_true(item_is_due(sim_item(a, 0)));
		assert_int_equal(sim_counts(a->space).failures[PDD_REASON_BUSY], round);
		assert_int_equal(item_state(sim_item(b, round)), ITEM_INDEXED);
		assert_int_equal(sim_stats(sim).pages_shared, 0);
		if (round == 10)
			break;
		sim_write(b, round, 1000 + round);
		sim_passes(sim, 3); /* it is something else */
		misses += sim_stats(sim).space_lock_misses;
		tries += sim->calls[SIM_TRYLOCK];
		sim_pass(sim, UINT64_MAX);
		/* As a twin it was tried once more than in a pass without that. */
		assert_int_equal(misses - sim_stats(sim).space_lock_misses, 1);
		assert_int_equal(tries - sim->calls[SIM_TRYLOCK], 1);
		assert_true(item_is_due(sim_item(a, 0)));
	}
	sim_write(b, 0, 1);
	sim_passes(sim, 2);
	assert_true(sim_is_shared(b, 0) && sim_is_shared(b, 10));
	set_busy(a->space, false);
	sim_pass(sim, UINT64_MAX);
	assert_true(sim_is_shared(a, 0));
	sim_destroy(sim);
}

/* ---- known bugs 6 and 36 ---- */

/* Known bug 36 with an index that is rebuilt, and with write tracking: whatever spaces are at the
 * root of the tree are busy, in every pass others. Two new pages merge at their second look, also
 * among collisions soon after; and known bug 6: each pass ends, with a bounded number of tries. */
static void contend(const struct sim_options *options, unsigned passes)
{
	struct sim *sim = world(options);
	struct sim_region *victims[2];

	victims[0] = sim_region_add(sim_space_add(sim, 0), 1);
	for (unsigned i = 0; i < 30; i++)
		sim_write(sim_region_add(sim_space_add(sim, 0), 1), 0, 1 + i);
	victims[1] = sim_region_add(sim_space_add(sim, 0), 1);
	sim_passes(sim, 8);
	for (unsigned round = 0; round < 20; round++) {
		sim_write(victims[0], 0, 1000 + round);
		sim_write(victims[1], 0, 1000 + round);
		for (unsigned pass = 0; pass < passes; pass++) {
			const struct pdd_rbnode *rb = sim->roots[0].node;
			uint64_t tries = sim->calls[SIM_TRYLOCK];

			for (struct sim_space *space = sim->spaces; space; space = space->next)
				space->busy = false;
			if (rb && pdd_index_kind((const void *)rb) == PDD_KIND_ITEM)
				((struct sim_space *)(void *)item_of((const void *)rb)
					 ->priv.region->priv.space)->busy = true;
			victims[0]->space->busy = victims[1]->space->busy = false;
			sim_pass(sim, UINT64_MAX);
			assert_in_range(sim->calls[SIM_TRYLOCK] - tries, 32, 32 * (2 + 3 * 10));
		}
		assert_true(sim_is_shared(victims[0], 0) && sim_is_shared(victims[1], 0));
	}
	assert_true(sim_stats(sim).space_lock_misses > 0);
	sim_destroy(sim);
}

static void test_6_and_36(void **unused)
{
	locked = NULL;
	for (unsigned how = 0; how < 4; how++) {
		struct sim_options options = {
			.nroots = 1,
			.aging = PDD_AGING_NONE,
			.tracked = how & 1,
			.index = how & 2 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
		};

		contend(&options, 2);
		options.checksum = SIM_CHECKSUM_ZERO;
		contend(&options, 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_s13),
		cmocka_unit_test(test_twin),
		cmocka_unit_test(test_6_and_36),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
