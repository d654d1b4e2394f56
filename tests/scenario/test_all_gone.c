/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_all_gone.c - s6 and s39: whatever was merged, when everything went away every gauge is 0 and
 * no record is left; and a frame stays exactly as long as somebody shows it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "scanner_internal.h"
#include "sim.h"

/* A gauge of the whole, or one that is derived from gauges. */
static void assert_gauges_are_0(const struct sim *sim)
{
	struct pdd_stats stats = sim_stats(sim);
	const struct pdd_counts *counts = &stats.counts;

	assert_int_equal(stats.pages_shared | stats.pages_sharing | stats.stable_node_chains |
				 stats.stable_node_dups | stats.frames_kept, 0);
	assert_int_equal(stats.general_profit_bytes, 0);
	assert_int_equal(stats.bytes_if_all_unshared, 0);
	assert_int_equal(counts->pages | counts->ksm_rmap_items | counts->ksm_merging_pages |
				 counts->ksm_zero_pages | counts->pages_unshared |
				 counts->pages_volatile | counts->pages_due |
				 counts->pages_zero_filled | counts->pages_same_filled, 0);
	assert_int_equal(counts->ksm_process_profit_bytes, 0);
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
		assert_int_equal(counts->reasons[i], 0);
	/* Only the table of roots is left. */
	assert_int_equal(stats.metadata_bytes, sim->options.nroots * sizeof(struct pdd_rbroot));
	assert_int_equal(-stats.net_profit_bytes, stats.metadata_bytes);
}

static void assert_nothing_is_left(struct sim *sim)
{
	for (uint64_t i = 0; i < sim->options.nroots; i++)
		assert_null(sim->roots[i].node);
	assert_null(sim->frames);
	assert_int_equal(sim->calls[SIM_EXTENT_GET], sim->calls[SIM_EXTENT_PUT]);
	/* A pass that is under way ends first. */
	if (sim_step(sim, 1) != PDD_STEP_IDLE)
		assert_int_equal(sim_step(sim, 1), PDD_STEP_IDLE);
}

/* Pages of every kind: chains, zero pages, filled ones, unique ones, absent ones, changing ones,
 * refused ones, pinned and excluded ones, on several nodes, and clones, some of them not looked at
 * yet; in regions with arrays and sparse ones. */
static void fill(struct sim *sim)
{
	for (unsigned s = 0; s < 4; s++) {
		struct sim_space *space = sim_space_add(sim, s / 3);

		for (unsigned r = 0; r < 2; r++) {
			struct sim_region *region = sim_region_add_with(space, 700, 700, r);

			for (uint64_t i = 0; i < 700; i++) {
				if (i % 7 < 5)
					sim_write(region, i, i % 7 == 3 ? SIM_FILLED | 5 : i % 40);
				region->pages[i].node = (uint16_t)(i % 3);
				if (i % 50 == 7)
					region->pages[i].refuse = PDD_REASON_HUGE;
			}
			assert_int_equal(pdd_region_pin(&region->region, 100, 20), 0);
			assert_int_equal(pdd_region_exclude(&region->region, 110, 20), 0);
		}
	}
}

static void write_some(struct sim *sim, struct sim_space *space)
{
	for (struct sim_region *region = space->regions; region; region = region->next)
		for (uint64_t n = 60; n; n--)
			sim_write(region, sim_random(sim, 700), sim_random(sim, 60));
}

/* Any space, or one region of it. */
static void remove_some(struct sim *sim)
{
	struct sim_space *space = sim->spaces;

	for (uint64_t n = sim_random(sim, 8); n; n--)
		space = space->next ? space->next : sim->spaces;
	if (sim_random(sim, 2) && space->regions)
		sim_region_remove(space->regions);
	else
		sim_space_remove(space);
}

/* s6: they go region by region or space by space, in any order, between and amid passes. */
static void test_all_gone(void **unused)
{
	uint64_t kept = 0;

	for (unsigned round = 0; round < 24; round++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.limit = 3,
			.nodes_apart = round & 1,
			.checksum = round % 5 == 0 ? SIM_CHECKSUM_2_BITS : SIM_CHECKSUM_DEFAULT,
		});

		sim->random += round;
		fill(sim);
		sim_passes(sim, 3);
		assert_true(sim_stats(sim).stable_node_dups > 0);
		assert_true(sim_stats(sim).counts.ksm_zero_pages > 0);
		for (struct sim_space *space = sim->spaces; space; space = space->next)
			if (space->domain == 0 || sim_random(sim, 2))
				sim_space_clone(space)->busy = sim_random(sim, 2);
		sim_step(sim, 1 + sim_random(sim, 3000));
		sim_space_clone(sim->spaces); /* of a clone */
		write_some(sim, sim->spaces->next);
		while (sim->spaces) {
			remove_some(sim);
			if (sim->spaces)
				sim_step(sim, 1 + sim_random(sim, 1000));
		}
		kept += sim_stats(sim).frames_kept;
		sim_prune(sim); /* frames that were kept for clones */
		assert_gauges_are_0(sim);
		assert_nothing_is_left(sim);
		sim_destroy(sim);
	}
	assert_true(kept > 0);
}

/* Ways for a page to stop sharing. */
enum leave {
	WRITTEN = 0,
	UNMERGED = 1,
	DISCARDED = 2,
	EXCLUDED = 3,
	PINNED = 4,
	CUT_OFF = 5,
	REMOVED = 6,
	ABSENT = 7,
	WAYS = 8,
};

static void leave(struct sim_region *region, enum leave how)
{
	struct sim *sim = region->space->sim;

	switch (how) {
	case WRITTEN:
		sim_write(region, 0, 9);
		sim_pass(sim, UINT64_MAX);
		break;
	case UNMERGED:
		assert_int_equal(sim_unmerge(region, 0, 1), 1);
		break;
	case DISCARDED:
		assert_int_equal(pdd_region_discard(&region->region, 0, 1), 0);
		break;
	case EXCLUDED:
		assert_int_equal(pdd_region_exclude(&region->region, 0, 1), 0);
		break;
	case PINNED:
		assert_int_equal(pdd_region_pin(&region->region, 0, 1), 0);
		break;
	case CUT_OFF: /* the page stands at the end of another region then */
		sim_region_resize(region, 1);
		break;
	case REMOVED:
		sim_region_remove(region);
		break;
	case ABSENT:
		sim_discard(region, 0);
		sim_pass(sim, UINT64_MAX);
		break;
	case WAYS:
		break;
	}
	sim_verify(sim);
}

/* s39: of two sharers the first leaves, in whatever way: the second still reads the frame. With the
 * second the frame goes back, not before. */
static void test_two_sharers(void **unused)
{
	for (enum leave first = 0; first < WAYS; first++) {
		for (enum leave second = 0; second < WAYS; second++) {
			struct sim *sim = sim_create(NULL);
			struct sim_region *regions[2];
			unsigned char content[64];
			const void *shown;

			for (unsigned i = 0; i < 2; i++) {
				bool last = (i ? second : first) == CUT_OFF;

				regions[i] = sim_region_add(sim_space_add(sim, 0), 2);
				sim_write(regions[i], last, 1);
			}
			sim_passes(sim, 2);
			assert_int_equal(sim_stats(sim).pages_sharing, 1);
			leave(regions[0], first);
			assert_int_equal(sim->calls[SIM_FRAME_FREE], 0);
			assert_int_equal(sim_stats(sim).pages_shared, 1);
			assert_int_equal(sim_stats(sim).pages_sharing, 0);
			shown = sim_content(regions[1], second == CUT_OFF);
			sim_fill(sim, content, 1);
			assert_memory_equal(shown, content, sim->page_size);
			assert_ptr_equal(shown, sim->frames->data);
			leave(regions[1], second);
			assert_int_equal(sim->calls[SIM_FRAME_FREE], 1);
			assert_int_equal(sim_stats(sim).pages_shared, 0);
			sim_destroy(sim);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_gone),
		cmocka_unit_test(test_two_sharers),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
