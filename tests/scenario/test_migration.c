/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_migration.c - ksm-behaviour 3.5 row 1: max_page_sharing = 2, no time between prunes, nodes
 * kept apart; 1,024 spaces of one page each, which are rewritten with few contents, migrated among
 * 4 nodes, killed and born again at random. KSM had a use after free there: a chain collapsed under
 * the search that walked it. Build with -DPDD_SANITIZE=address,undefined to see such things.
 *
 * Frames are migrated with and without telling (pdd_frame_moved), and everything may happen between
 * any two steps of a pass or of a prune.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define SPACES 1024u
#define NODES 4u
#define CONTENTS 128u

static struct sim *sim;
static struct sim_region *regions[SPACES];

static uint16_t any_node(void)
{
	return (uint16_t)sim_random(sim, NODES);
}

static void rewrite(struct sim_region *region)
{
	sim_write(region, 0, sim_random(sim, CONTENTS));
}

static void be_born(unsigned i)
{
	regions[i] = sim_region_add(sim_space_add(sim, 0), 1);
	regions[i]->pages[0].node = any_node();
	rewrite(regions[i]);
}

static void migrate(struct sim_region *region)
{
	struct sim_frame *frame = region->pages[0].frame;
	uint16_t node = any_node();

	sim_migrate(region, 0, node);
	if (frame && !frame->dropped && sim_random(sim, 2))
		assert_int_equal(pdd_frame_moved(&sim->scanner, &frame->frame, node), 0);
}

static void befall(unsigned i)
{
	switch (sim_random(sim, 8)) {
	case 0:
	case 1:
	case 2:
		rewrite(regions[i]);
		break;
	case 3:
		sim_space_remove(regions[i]->space);
		be_born(i);
		break;
	default:
		migrate(regions[i]);
	}
}

/* All who share a frame are on its node, and it has no more than two sharers. */
static void assert_apart(void)
{
	for (unsigned i = 0; i < SPACES; i++) {
		const struct sim_frame *frame = regions[i]->pages[0].frame;

		if (!sim_is_shared(regions[i], 0))
			continue;
		assert_int_equal(frame->frame.priv.numa_node, frame->node);
		assert_in_range(pdd_frame_sharers(&frame->frame), 1, 2);
	}
}

/* In peace each content of a node has as few frames as can be, and at most one page without. */
static void assert_merged(void)
{
	static unsigned unshared[NODES][CONTENTS], shared[NODES][CONTENTS];
	uint64_t nframes = 0;

	for (unsigned node = 0; node < NODES; node++)
		for (unsigned content = 0; content < CONTENTS; content++)
			unshared[node][content] = shared[node][content] = 0;
	for (unsigned i = 0; i < SPACES; i++) {
		const struct sim_page *page = &regions[i]->pages[0];

		if (page->kind == PDD_PAGE_SHARED)
			shared[page->frame->node][page->expected]++;
		else if (page->kind == PDD_PAGE_PRIVATE)
			unshared[page->node][page->expected]++;
	}
	for (unsigned node = 0; node < NODES; node++)
		for (unsigned content = 0; content < CONTENTS; content++) {
			assert_in_range(unshared[node][content], 0, 1);
			nframes += (shared[node][content] + 1) / 2;
		}
	assert_int_equal(sim_stats(sim).pages_shared, nframes);
}

static void create(enum sim_checksum checksum)
{
	sim = sim_create(&(struct sim_options){
		.limit = 2,
		.nodes_apart = true,
		.checksum = checksum,
		.nroots = checksum ? 1 : 64,
	});
	for (unsigned i = 0; i < SPACES; i++)
		be_born(i);
}

static void run(unsigned rounds, uint64_t most_at_once)
{
	for (unsigned round = 0; round < rounds; round++) {
		for (uint64_t n = sim_random(sim, most_at_once); n; n--)
			befall((unsigned)sim_random(sim, SPACES));
		if (sim_random(sim, 5) == 0)
			assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
		sim_step(sim, 1 + sim_random(sim, sim_random(sim, 2) ? 20 : 2 * SPACES));
	}
}

static void test_row(void **unused)
{
	create(SIM_CHECKSUM_DEFAULT);
	run(900, 300);
	assert_true(sim_stats(sim).moved_frames > 1000);
	assert_true(sim_stats(sim).counts.unshares > 1000);
	assert_true(sim_stats(sim).prunes > 100);
	sim_passes(sim, 3);
	assert_apart();
	sim_passes(sim, 2 * PDD_AGING_PERIOD_MAX); /* each page is looked at twice */
	sim_prune(sim);
	assert_apart();
	assert_merged();
	sim_destroy(sim);
}

/* All contents in one tree of few keys: chains collapse under searches that compare. */
static void test_collisions(void **unused)
{
	create(SIM_CHECKSUM_2_BITS);
	run(200, 100);
	assert_true(sim_stats(sim).moved_frames > 100);
	sim_passes(sim, 3);
	assert_apart();
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_collisions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
