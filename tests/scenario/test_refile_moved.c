/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_refile_moved.c - while a prune lets a page show another frame of its chain, one of the two
 * frames is told to lie on another NUMA node: the page is recorded where its frame is, and the
 * others stay in their chain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

static uint64_t sharers_to_move; /* of the frame that moves; 0: none any more */

static void at_remap(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_FRAMES_REMAP || before)
		return;
	for (struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
		if (!sharers_to_move || pdd_frame_sharers(&frame->frame) != sharers_to_move)
			continue;
		frame->node = 1;
		sharers_to_move = 0;
		assert_int_equal(pdd_frame_moved(&sim->scanner, &frame->frame, 1), 0);
	}
}

/* Two frames with three sharers and two, all of which fit into one. */
static struct sim *world(void)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.nodes_apart = true, .limit = 6, .aging = PDD_AGING_NONE });
	struct sim_region *r = sim_region_add(sim_space_add(sim, 0), 12);
	const struct sim_frame *first;
	unsigned nfirst = 0, nothers = 0;

	for (uint64_t i = 0; i < 12; i++)
		sim_write(r, i, 1);
	sim_passes(sim, 3);
	first = r->pages[0].frame;
	for (uint64_t i = 0; i < 12; i++)
		if (r->pages[i].frame == first ? nfirst++ >= 3 : nothers++ >= 2)
			sim_write(r, i, 100 + i);
	sim_pass(sim, UINT64_MAX);
	return sim;
}

static void move_one(uint64_t nsharers)
{
	struct sim *sim = world();
	const char *why = "";

	sharers_to_move = nsharers;
	sim->at = at_remap;
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	sim_step(sim, 100);
	sim->at = NULL;
	assert_int_equal(sharers_to_move, 0);
	assert_int_equal(sim_stats(sim).counts.refiles, 1); /* no page goes to another node */
	if (pdd_scanner_check(&sim->scanner, &why))
		fail_msg("%s", why);
	sim_passes(sim, 2);
	sim_destroy(sim);
}

static void test_target(void **unused)
{
	move_one(3);
}

static void test_source(void **unused)
{
	move_one(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_source),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
