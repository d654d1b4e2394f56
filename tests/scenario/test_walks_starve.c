/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_walks_starve.c - in which order a pass tries spaces whose locks are taken (pass.c): stop by
 * stop in small cases, how often at most, and what comes of it where a lock is taken nine tenths of
 * the time: no page starves (known bugs 6 and 36 in the large; bench_contention with a clock that
 * the test winds).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SPACES 4u

struct world {
	struct sim *sim;
	struct sim_space *spaces[SPACES];
	const char *script[SPACES]; /* tries of a pass: '1' taken, '0' free; the last stays */
	char log[256];
	bool one_stop; /* a step ends when it came by pages */
	/* the last try, if it failed */
	struct pdd_space *failed;
	struct pdd_place at;
	uint64_t busy_before;
};

/* ---- the order of stops ---- */

/* "B3+100 ": page 100 of the extent 3 of space B, whose regions are numbered through. */
static void note(struct world *w, char open, const struct pdd_region *region, uint64_t page,
		 char close)
{
	const struct pdd_space *space = pdd_region_space(region);
	size_t used = strlen(w->log);
	uint64_t extent = page / PDD_EXTENT_PAGES;
	unsigned s = 0;
	char offset[24] = "";

	while (&w->spaces[s]->space != space)
		s++;
	for (const struct pdd_region *r = region->priv.prev; r; r = r->priv.prev)
		extent += pdd_region_extents(pdd_region_pages(r));
	if (page % PDD_EXTENT_PAGES)
		(void)snprintf(offset, sizeof(offset), "+%" PRIu64, page % PDD_EXTENT_PAGES);
	(void)snprintf(w->log + used, sizeof(w->log) - used, "%.1s%c%" PRIu64 "%s%.1s ",
		       &open, (char)('A' + s), extent, offset, &close);
}

/* (A0): put off; [A0]: missed. It is known when the next try begins. */
static void settle_try(struct world *w)
{
	if (!w->failed)
		return;
	if (w->failed->priv.counts.pages_busy == w->busy_before)
		note(w, '(', w->at.region, w->at.page, ')');
	else
		note(w, '[', w->at.region, w->at.page, ']');
	w->failed = NULL;
}

static bool scripted_trylock(void *ctx, struct pdd_space *space)
{
	struct sim *sim = ctx;
	struct world *w = sim->test;
	unsigned s = 0;

	settle_try(w);
	while (&w->spaces[s]->space != space)
		s++;
	w->spaces[s]->busy = *w->script[s] == '1';
	if (*w->script[s] && w->script[s][1])
		w->script[s]++;
	if (sim_ops.space_trylock(ctx, space))
		return true;
	w->failed = space;
	w->at = space->priv.walk.at;
	w->busy_before = space->priv.counts.pages_busy;
	return false;
}

static int noting_pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views,
			    uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *w = sim->test;

	note(w, '\0', region, first, '\0');
	if (w->one_stop)
		(void)pdd_scanner_quiesce(&sim->scanner);
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static struct sim_region *add_pages(struct sim_space *space, uint64_t npages)
{
	static uint64_t content;
	struct sim_region *region = sim_region_add(space, npages);

	for (uint64_t i = 0; i < npages; i++)
		sim_write(region, i, ++content);
	return region;
}

/* Spaces A, B, ... with a region of so many extents each; 0: no space. */
static struct world *create(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	static struct world w;
	uint64_t extents[SPACES] = { a, b, c, d };

	w = (struct world){
		.sim = sim_create(&(struct sim_options){ .page_shift = 3, .nroots = 8192 }),
	};
	w.sim->test = &w;
	w.sim->scanner.priv.ops.space_trylock = scripted_trylock;
	w.sim->scanner.priv.ops.pages_get = noting_pages_get;
	for (unsigned s = 0; s < SPACES && extents[s]; s++) {
		w.spaces[s] = sim_space_add(w.sim, 0);
		add_pages(w.spaces[s], extents[s] * PDD_EXTENT_PAGES);
	}
	return &w;
}

/* What a step does. */
static void expect_step(struct world *w, uint64_t pages, enum pdd_step result, const char *stops)
{
	w->log[0] = '\0';
	assert_int_equal(sim_step(w->sim, pages), result);
	pdd_scanner_resume(&w->sim->scanner);
	settle_try(w);
	assert_string_equal(w->log, stops);
}

/* What a pass does while locks are taken as the scripts say. */
static void expect_pass(struct world *w, const char *a, const char *b, const char *c,
			const char *d, const char *stops)
{
	const char *scripts[SPACES] = { a, b, c, d };

	memcpy(w->script, scripts, sizeof(scripts));
	expect_step(w, UINT64_MAX, PDD_STEP_PASS, stops);
}

static void test_order_two_spaces(void **unused)
{
	struct world *w = create(2, 3, 0, 0);

	expect_pass(w, "0", "0", "", "", "A0 A1 B0 B1 B2 ");
	/* put off, tried after each extent of the other, and at last to the end */
	expect_pass(w, "1", "0", "", "", "(A0) B0 (A0) B1 (A0) B2 [A0] [A1] ");
	expect_pass(w, "10", "0", "", "", "(A0) B0 A0 B1 A1 B2 ");
	expect_pass(w, "110", "0", "", "", "(A0) B0 (A0) B1 A0 B2 A1 ");
	/* in the middle; what is missed comes first in the next pass, and that goes round */
	expect_pass(w, "01110", "0", "", "", "A0 (A1) B0 (A1) B1 (A1) B2 A1 ");
	expect_pass(w, "01111", "0", "", "", "A0 (A1) B0 (A1) B1 (A1) B2 [A1] ");
	expect_pass(w, "0", "0", "", "", "A1 B0 A0 B1 B2 ");
	expect_pass(w, "0", "0", "", "", "A0 A1 B0 B1 B2 ");
	/* nothing is left to go on with, so nothing is put off */
	expect_pass(w, "0", "010", "", "", "A0 A1 B0 [B1] B2 ");
	expect_pass(w, "0", "0", "", "", "B1 A0 B2 A1 B0 ");
	/* as long as something is put off there is */
	expect_pass(w, "10", "10", "", "", "(A0) (B0) A0 A1 B0 B1 B2 ");
	/* missed while going round: first again */
	expect_pass(w, "0", "001", "", "", "A0 A1 B0 B1 [B2] ");
	expect_pass(w, "0", "001", "", "", "B2 A0 B0 A1 [B1] ");
	expect_pass(w, "0", "1", "", "", "(B1) A0 (B1) A1 [B1] [B2] [B0] ");
	expect_pass(w, "0", "0", "", "", "B1 A0 B2 A1 B0 ");
	sim_destroy(w->sim);
}

static void test_order_four_spaces(void **unused)
{
	struct world *w = create(2, 1, 3, 1);

	/* in turn: who was tried without success goes to the end */
	expect_pass(w, "1", "1", "0", "0",
		    "(A0) (B0) C0 (A0) C1 (B0) C2 (A0) D0 [B0] [A0] [A1] ");
	/* what was missed last is first, and begins before all others */
	expect_pass(w, "1110", "10", "0", "1",
		    "(A0) C0 (B0) C1 (A0) C2 B0 (D0) [A0] A1 [D0] ");
	expect_pass(w, "0", "0", "0", "0", "D0 B0 A0 C0 A1 C1 C2 ");
	/* who was tried with success goes to the end, too */
	expect_pass(w, "10", "1110", "0", "1",
		    "(A0) (B0) C0 A0 C1 (B0) C2 A1 (D0) [B0] [D0] ");
	expect_pass(w, "1", "1", "1", "1",
		    "(D0) (A0) (C0) [B0] [D0] [A0] [A1] [C0] [C1] [C2] ");
	expect_pass(w, "0", "0", "0", "0", "C0 C1 C2 A0 A1 D0 B0 ");
	sim_destroy(w->sim);
}

static void test_order_one_space(void **unused)
{
	struct world *w = create(3, 0, 0, 0);

	add_pages(w->spaces[0], 1);
	add_pages(w->spaces[0], PDD_EXTENT_PAGES + 1);
	expect_pass(w, "00000010", "", "", "", "A0 A1 A2 A3 A4 A5 ");
	expect_pass(w, "00010", "", "", "", "A0 A1 A2 [A3] A4 A5 ");
	expect_pass(w, "000010", "", "", "", "A3 A4 A5 A0 [A1] A2 ");
	expect_pass(w, "1110", "", "", "", "[A1] [A2] [A3] A4 A5 A0 ");
	expect_pass(w, "0", "", "", "", "A1 A2 A3 A4 A5 A0 ");
	expect_pass(w, "0", "", "", "", "A0 A1 A2 A3 A4 A5 ");
	sim_destroy(w->sim);
}

/* Steps end in the middle of an extent, and after each stop; the walks stay where they are. */
static void test_order_in_steps(void **unused)
{
	struct world *w = create(2, 2, 0, 0);
	const char *scripts[SPACES] = { "01110", "0", "", "" };

	memcpy(w->script, scripts, sizeof(scripts));
	expect_step(w, 500, PDD_STEP_MORE, "A0 ");
	w->one_stop = true;
	expect_step(w, UINT64_MAX, PDD_STEP_MORE, "(A0+500) B0 ");
	expect_step(w, UINT64_MAX, PDD_STEP_MORE, "(A0+500) B1 ");
	expect_step(w, UINT64_MAX, PDD_STEP_PASS, "[A0+500] A1 ");
	w->one_stop = false;
	expect_pass(w, "0", "0", "", "", "A0+500 B0 A1 B1 A0 ");
	sim_destroy(w->sim);
}

/* A walk that began behind the first page goes on there after the end. A hole that it meets
 * then reaches over the page with which it began, to the end of the region: what stands behind it
 * was come by already. */
static void test_order_hole_over_the_beginning(void **unused)
{
	struct world *w = create(2, 0, 0, 0);
	struct sim_region *hole = w->spaces[0]->regions;

	add_pages(w->spaces[0], 1);
	for (uint64_t i = 0; i < PDD_EXTENT_PAGES; i++)
		sim_discard(hole, i);
	expect_pass(w, "010", "", "", "", "A0 [A1] A2 ");
	for (uint64_t i = PDD_EXTENT_PAGES; i < 2 * PDD_EXTENT_PAGES; i++)
		sim_discard(hole, i);
	expect_pass(w, "0", "", "", "", "A1 A2 A0 ");
	sim_destroy(w->sim);
}

/* ---- how many tries ---- */

static struct sim *crowd(unsigned busy, unsigned idle, uint64_t npages)
{
	struct sim *sim = sim_create(&(struct sim_options){ .page_shift = 3, .nroots = 8192 });

	for (unsigned i = 0; i < busy + idle; i++) {
		struct sim_space *space = sim_space_add(sim, 0);

		add_pages(space, npages);
		space->busy = i < busy;
	}
	return sim;
}

/* N busy spaces of E extents each, and then others at which the pass stops F times. N tries fail
 * and put the N off, F succeed, one fails between each two of these, and N E are the last ones: in
 * all N + 2 F - 1 + N E, or N + N E if F is 0. So 1,000 busy spaces of an extent cost 2,000. */
static void test_tries_in_a_pass(void **unused)
{
	static const struct {
		unsigned busy, idle;
		uint64_t extents;
	} cases[] = { { 1000, 0, 1 }, { 1000, 10, 1 }, { 10, 3, 5 }, { 2, 100, 1 } };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t n = cases[i].busy, e = cases[i].extents, f = cases[i].idle * e;
		uint64_t misses = n + (f ? f - 1 : 0) + n * e;
		struct sim *sim = crowd(cases[i].busy, cases[i].idle,
					(e - 1) * PDD_EXTENT_PAGES + 1);

		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim->calls[SIM_TRYLOCK], misses + f);
		assert_int_equal(sim_stats(sim).space_lock_misses, misses);
		sim_destroy(sim);
	}
}

/* However many spaces are busy, a step tries no more often than it may come by pages. */
static void test_tries_in_a_step(void **unused)
{
	static const uint64_t budgets[] = { 1, 2, 7, 600 };

	for (unsigned i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct sim *sim = crowd(100, 3, 2);
		enum pdd_step result;

		do {
			uint64_t before = sim->calls[SIM_TRYLOCK];

			result = sim_step(sim, budgets[i]);
			assert_in_range(sim->calls[SIM_TRYLOCK] - before, 1, budgets[i]);
		} while (result == PDD_STEP_MORE);
		sim_destroy(sim);
	}
}

/* ---- nobody starves ---- */

#define CONTENDED 32u       /* extents of the space whose lock is taken most of the time */
#define STOPS 16u           /* elsewhere, in each pass */
#define STOP_NS 50000u
#define TRY_NS 200u
#define PASSES_WATCHED 1000u
#define FREE_SHARE 10u      /* one part in so many: the time in which it is free */

struct contention {
	struct sim *sim;
	struct sim_space *space;
	uint64_t hold_ns;   /* on average */
	uint64_t change_ns; /* when its lock is taken or given back */
	uint64_t pass, worst;
	uint64_t last[CONTENDED]; /* pass that came by the extent */
};

/* Holds are long compared with a try, and of any length. */
static void turn_clock(struct contention *c)
{
	c->sim->now += TRY_NS;
	while (c->sim->now >= c->change_ns) {
		uint64_t mean = c->hold_ns;

		c->space->busy = !c->space->busy;
		if (!c->space->busy)
			mean /= FREE_SHARE - 1;
		c->change_ns += 1 + sim_random(c->sim, 2 * mean);
	}
}

static bool contended_trylock(void *ctx, struct pdd_space *space)
{
	struct sim *sim = ctx;

	turn_clock(sim->test);
	return sim_ops.space_trylock(ctx, space);
}

static int watching_pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views,
			      uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct contention *c = sim->test;

	if (pdd_region_space(region) == &c->space->space)
		c->last[first / PDD_EXTENT_PAGES] = c->pass;
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void watch_pass(struct contention *c)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	c->pass++;
	c->sim->stepping = true;
	assert_int_equal(pdd_scanner_step(&c->sim->scanner, c->sim->worker, &budget),
			 PDD_STEP_PASS);
	c->sim->stepping = false;
	for (unsigned i = 0; i < CONTENDED; i++)
		if (c->pass - c->last[i] > c->worst)
			c->worst = c->pass - c->last[i];
}

/* The passes that the page which waits longest waits for a look. */
static uint64_t worst_wait(uint64_t hold_ns, bool contended_last)
{
	struct contention c = {
		.sim = sim_create(&(struct sim_options){ .page_shift = 3, .nroots = 32768 }),
		.hold_ns = hold_ns,
	};
	struct sim_space *other;

	if (contended_last)
		other = sim_space_add(c.sim, 0);
	c.space = sim_space_add(c.sim, 0);
	if (!contended_last)
		other = sim_space_add(c.sim, 0);
	add_pages(c.space, CONTENDED * PDD_EXTENT_PAGES);
	for (unsigned i = 0; i < STOPS; i++)
		add_pages(other, 1);
	c.sim->test = &c;
	c.sim->ns_per_hook = STOP_NS;
	c.sim->scanner.priv.ops.space_trylock = contended_trylock;
	c.sim->scanner.priv.ops.pages_get = watching_pages_get;
	while (c.pass < PASSES_WATCHED)
		watch_pass(&c);
	sim_verify(c.sim);
	sim_destroy(c.sim);
	return c.worst;
}

static void assert_bounded(bool contended_last)
{
	static const uint64_t stops[] = { 2, 5, 10, 20, 40, 80 };

	for (unsigned i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		uint64_t worst = worst_wait(stops[i] * STOP_NS, contended_last);

		if (worst > 16 * FREE_SHARE)
			sim_fail("holds of %" PRIu64 " stops: an extent waits for %" PRIu64
				 " passes", stops[i], worst);
	}
}

/* Known bugs 6 and 36, in the large: a lock that is taken nine tenths of the time, in holds from
 * a few stops to several passes. Each extent is come by within 16 / free share passes. */
static void test_nobody_starves(void **unused)
{
	assert_bounded(false);
}

/* The same where no other space follows the one that is busy. */
static void test_nobody_starves_as_the_last(void **unused)
{
	assert_bounded(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_two_spaces),
		cmocka_unit_test(test_order_four_spaces),
		cmocka_unit_test(test_order_one_space),
		cmocka_unit_test(test_order_in_steps),
		cmocka_unit_test(test_order_hole_over_the_beginning),
		cmocka_unit_test(test_tries_in_a_pass),
		cmocka_unit_test(test_tries_in_a_step),
		cmocka_unit_test(test_nobody_starves),
		cmocka_unit_test(test_nobody_starves_as_the_last),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
