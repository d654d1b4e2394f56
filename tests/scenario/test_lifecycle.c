/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_lifecycle.c - regions and spaces come, grow, shrink, move and go between any two steps of a
 * pass. The pass comes by every page that was there all the time exactly once, and by nothing that
 * came during it; counts and reasons add up after each; afterwards all that is equal is shared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

#define REGIONS 4u
#define PAGES 24u
#define ROOM (2 * PAGES)
#define BUDGET 7u

/* Two spaces of two regions each, in the order in which a pass comes by them. */
struct world {
	struct sim *sim;
	struct sim_region *regions[REGIONS + 1]; /* NULL: gone; the last one comes */
	unsigned looks[REGIONS + 1][ROOM];       /* pages asked for in this pass */
	uint64_t least[REGIONS + 1];             /* pages that were there all the time */
	bool sparse;
};

static struct world w;

/* Count which pages a pass asks for. */
static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	int n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	unsigned r = 0;

	while (r < REGIONS && (!w.regions[r] || &w.regions[r]->region != region))
		r++;
	assert_ptr_equal(&w.regions[r]->region, region);
	for (int i = 0; i < n; i++)
		for (uint64_t page = 0; page < views[i].npages && npages; page++, npages--)
			w.looks[r][first++]++;
	return n;
}

static void fill(unsigned r, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++)
		sim_write(w.regions[r], i, 1 + (i + r) % 5);
}

static void add(unsigned r, struct sim_space *space)
{
	w.regions[r] = sim_region_add_with(space, PAGES, ROOM, w.sparse);
	fill(r, 0, PAGES);
}

static void create(bool sparse)
{
	struct sim_space *space = NULL;

	memset(&w, 0, sizeof(w));
	w.sparse = sparse;
	w.sim = sim_create(&(struct sim_options){ .limit = 7, .aging = PDD_AGING_NONE });
	for (unsigned r = 0; r < REGIONS; r++) {
		if (r % 2 == 0)
			space = sim_space_add(w.sim, 0);
		add(r, space);
	}
	w.sim->scanner.priv.ops.pages_get = pages_get;
}

static void begin_pass(void)
{
	memset(w.looks, 0, sizeof(w.looks));
	for (unsigned r = 0; r <= REGIONS; r++)
		w.least[r] = w.regions[r] ? w.regions[r]->npages : 0;
}

/* Each page that was there all the time was asked for once, all the others at most once. */
static void end_pass(void)
{
	for (unsigned r = 0; r <= REGIONS; r++) {
		for (uint64_t i = 0; i < ROOM; i++) {
			if (w.regions[r] && i < w.least[r])
				assert_int_equal(w.looks[r][i], 1);
			else
				assert_in_range(w.looks[r][i], 0, 1);
		}
	}
}

/* A whole pass, in which nothing comes or goes. */
static void quiet_pass(void)
{
	begin_pass();
	sim_pass(w.sim, BUDGET);
	end_pass();
}

static void destroy(void)
{
	uint64_t sharing = 0;

	if (w.sim->spaces)
		sim_settle(w.sim, 10);
	for (struct sim_space *space = w.sim->spaces; space; space = space->next)
		for (struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = 0; i < r->npages; i++)
				sharing += sim_is_shared(r, i);
	/* of each content at most one page is left over */
	assert_in_range(sim_stats(w.sim).counts.pages - sharing, 0, 5);
	assert_int_equal(sim_stats(w.sim).counts.ksm_merging_pages, sharing);
	sim_destroy(w.sim);
}

/* ---- what happens to region r between two steps ---- */

static void goes(unsigned r)
{
	sim_region_remove(w.regions[r]);
	w.regions[r] = NULL;
}

static void goes_and_comes(unsigned r)
{
	struct sim_space *space = w.regions[r]->space;

	goes(r);
	memset(w.looks[r], 0, sizeof(w.looks[r]));
	w.least[r] = 0;
	add(r, space); /* as the last of its space */
}

static void shrinks_to(unsigned r, uint64_t npages)
{
	sim_region_resize(w.regions[r], npages);
	if (w.least[r] > npages)
		w.least[r] = npages;
}

static void shrinks_much(unsigned r)
{
	shrinks_to(r, 1);
}

static void shrinks_a_bit(unsigned r)
{
	shrinks_to(r, PAGES - 3);
}

static void shrinks_and_grows(unsigned r)
{
	shrinks_to(r, PAGES / 2);
	sim_region_resize(w.regions[r], PAGES + 5);
	fill(r, PAGES / 2, PAGES + 5);
}

static void grows(unsigned r)
{
	sim_region_resize(w.regions[r], ROOM);
	fill(r, PAGES, ROOM);
}

static void moves(unsigned r)
{
	assert_int_equal(pdd_region_move(&w.regions[r]->region, 1000 * (r + 1)), 0);
	assert_int_equal(pdd_region_first_page(&w.regions[r]->region), 1000 * (r + 1));
}

static void another_comes(unsigned r)
{
	add(REGIONS, w.regions[r]->space);
}

static void another_space_comes(unsigned r)
{
	add(REGIONS, sim_space_add(w.sim, 0));
}

static void space_goes(unsigned r)
{
	sim_space_remove(w.regions[r]->space);
	w.regions[r & ~1u] = NULL;
	w.regions[r | 1u] = NULL;
}

static void all_go(unsigned r)
{
	while (w.sim->spaces)
		sim_space_remove(w.sim->spaces);
	memset(w.regions, 0, sizeof(w.regions));
}

static void (*const events[])(unsigned r) = {
	goes,  goes_and_comes, shrinks_much,	    shrinks_a_bit, shrinks_and_grows, grows,
	moves, another_comes,  another_space_comes, space_goes,	   all_go,
};

/* One event, after `steps` steps of a pass, before which there were `passes`. False: there are not
 * so many steps in a pass. */
static bool one_event(unsigned event, unsigned r, unsigned steps, unsigned passes)
{
	bool more = true;

	create(r % 3 == 1 || (event + steps) % 2);
	sim_passes(w.sim, passes);
	begin_pass();
	for (unsigned i = 0; i < steps && more; i++)
		more = sim_step(w.sim, BUDGET) == PDD_STEP_MORE;
	if (more) {
		events[event](r);
		sim_verify(w.sim);
		if (w.sim->spaces)
			sim_pass(w.sim, BUDGET);
		end_pass();
		for (uint64_t i = PAGES; events[event] == grows && i < ROOM; i++)
			assert_int_equal(w.looks[r][i], steps == 0);
		for (uint64_t i = 0; w.regions[REGIONS] && i < PAGES; i++) {
			assert_int_equal(w.looks[REGIONS][i], steps == 0);
			if (steps)
				assert_int_equal(sim_reason(w.regions[REGIONS], i),
						 w.sparse ? PDD_REASON_NO_RECORD : PDD_REASON_NEW);
		}
		if (w.sim->spaces)
			quiet_pass();
	}
	destroy();
	return more;
}

/* Each event at each region (the first and the last ones of the first and the last space), before
 * and after each step of the first pass, the one that merges, and one when all is shared. */
static void test_every_event(void **unused)
{
	for (unsigned event = 0; event < sizeof(events) / sizeof(events[0]); event++)
		for (unsigned r = 0; r < REGIONS; r++)
			for (unsigned passes = 0; passes < 3; passes++)
				for (unsigned steps = 0; one_event(event, r, steps, passes);)
					steps++;
}

/* A space that is added to an empty scanner in the middle of a pass, since all others went. */
static void test_pass_of_nothing(void **unused)
{
	create(false);
	sim_step(w.sim, BUDGET);
	all_go(0);
	assert_int_equal(sim_step(w.sim, BUDGET), PDD_STEP_PASS);
	assert_int_equal(sim_step(w.sim, BUDGET), PDD_STEP_IDLE);
	add(0, sim_space_add(w.sim, 0));
	quiet_pass();
	sim_step(w.sim, BUDGET);
	goes(0);
	add(0, w.sim->spaces);
	begin_pass();
	assert_int_equal(sim_step(w.sim, BUDGET), PDD_STEP_PASS);
	assert_int_equal(w.looks[0][0], 0);
	quiet_pass();
	destroy();
}

/* Pages by which a region grows, under the cursor too, are looked at from the next pass on. */
static void test_grown_in_pass(void **unused)
{
	create(false);
	sim_step(w.sim, BUDGET);
	begin_pass();
	grows(0);
	sim_pass(w.sim, BUDGET);
	for (uint64_t i = PAGES; i < ROOM; i++)
		assert_int_equal(w.looks[0][i], 0);
	quiet_pass();
	destroy();
}

/* s23: so a region that grows as fast as it is scanned does not keep the pass from ending. */
static void test_growth_does_not_delay_a_pass(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), 20, 20 + 10 * 100, false);
	unsigned steps = 1;

	while (sim_step(sim, 10) == PDD_STEP_MORE) {
		sim_region_resize(region, region->npages + 10);
		if (++steps > 20 / 10 + 2)
			fail_msg("no pass is completed while the region grows");
	}
	sim_destroy(sim);
}

/* Everything at random, with regions of several extents and holes. */
static void random_event(struct sim *sim, struct sim_space *space)
{
	struct sim_region *region = space->regions;
	uint64_t n = sim_random(sim, 1200);

	for (uint64_t skip = sim_random(sim, 4); region && region->next && skip; skip--)
		region = region->next;
	switch (sim_random(sim, 6)) {
	case 0:
		region = sim_region_add_with(space, 1 + n, 1300, sim_random(sim, 2));
		break;
	case 1:
		if (region && region->next)
			sim_region_remove(region);
		return;
	case 2:
	case 3:
		if (region)
			sim_region_resize(region, n % 3 ? 1 + n : 512 + n % 2);
		break;
	case 4:
		if (region)
			assert_int_equal(pdd_region_move(&region->region, n), 0);
		break;
	}
	for (unsigned i = 0; region && i < 20; i++) {
		uint64_t page = sim_random(sim, region->npages);

		sim_write(region, page, page % 6);
	}
}

static void test_random_events(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 5 });
	struct sim_space *spaces[2] = { sim_space_add(sim, 0), sim_space_add(sim, 0) };

	for (unsigned i = 0; i < 600; i++) {
		random_event(sim, spaces[sim_random(sim, 2)]);
		sim_verify(sim);
		if (sim_random(sim, 2))
			sim_step(sim, 1 + sim_random(sim, 700));
	}
	sim_settle(sim, 80);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_event),
		cmocka_unit_test(test_pass_of_nothing),
		cmocka_unit_test(test_grown_in_pass),
		cmocka_unit_test(test_growth_does_not_delay_a_pass),
		cmocka_unit_test(test_random_events),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
