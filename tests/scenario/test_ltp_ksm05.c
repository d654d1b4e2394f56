/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ltp_ksm05.c - LTP's ksm05 (ksm-behaviour 3.4) and known bug 1 (CVE-2011-2183): a process
 * maps one page and dies, again and again, while passes go on; also in the middle of one, with the
 * cursor at its page, and as the last process that there was.
 *
 * A death is a space that is removed with what it maps, between two steps: nobody may remove one
 * while a step has its lock. Steps are of one page, so that the cursor stops everywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scanner_internal.h"
#include "sim.h"

/* What the page of a child is. */
enum kind {
	UNIQUE = 0,
	LIKE_A_SHARED_ONE = 1, /* it joins a frame */
	LIKE_A_LONE_ONE = 2,   /* it founds one with a page of a process that lives on */
	LIKE_A_CHILD = 3,      /* ... with a page of another child */
	ZERO = 4,
	ABSENT = 5,
	KINDS = 6,
};

#define SHARED 1 /* contents of the processes that live on */
#define LONE 2

struct child {
	struct sim_space *space;
	struct sim_region *region;
};

/* A process that lives on: two pages that are shared, one that is not. */
static struct sim_region *parent_of(struct sim *sim, uint64_t lone)
{
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 3);

	sim_write(region, 0, SHARED);
	sim_write(region, 1, lone);
	sim_write(region, 2, SHARED);
	return region;
}

static struct child child_of(struct sim *sim, enum kind kind)
{
	static const uint64_t contents[KINDS] = { 1000, SHARED, LONE, 500, 0, 0 };
	struct child child = { .space = sim_space_add(sim, 0) };

	child.region = sim_region_add(child.space, 1);
	if (kind != ABSENT)
		sim_write(child.region, 0, contents[kind]);
	return child;
}

static bool is_at_cursor(struct sim *sim, const struct child *child)
{
	struct pddi_stop stop;

	return sim->scanner.priv.in_pass && pddi_pass_next(&sim->scanner, &stop) &&
	       stop.region == &child->region->region;
}

/* After all children died: what is left is merged as if they had never been, save that a frame
 * whose other sharers left has one. */
static void assert_parent(struct sim *sim, const struct sim_region *parent)
{
	struct pdd_stats stats;

	sim_settle(sim, 10);
	stats = sim_stats(sim);
	assert_int_equal(stats.counts.pages, parent->npages);
	assert_ptr_equal(parent->pages[0].frame, parent->pages[2].frame);
	assert_int_equal(stats.counts.ksm_merging_pages, 2 + sim_is_shared(parent, 1));
	assert_int_equal(stats.pages_sharing, 1);
	assert_int_equal(stats.counts.pages_volatile, 0);
	assert_int_equal(stats.counts.ksm_zero_pages, 0);
}

/* A child dies after so many steps of its life, which begins after so many steps of a pass.
 * True: the cursor was at its page. */
static bool live_and_die(unsigned place, enum kind kind, unsigned born, unsigned life)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
	struct sim_region *parent = NULL, *other = NULL;
	struct child child, twin = { 0 };
	bool at_cursor;

	/* The child comes before, between or behind those that live on. */
	if (place > 0)
		parent = parent_of(sim, LONE);
	for (unsigned i = 0; place && i < born; i++)
		sim_step(sim, 1);
	child = child_of(sim, kind);
	if (kind == LIKE_A_CHILD)
		twin = child_of(sim, kind);
	if (place < 2)
		other = parent_of(sim, LONE + place);
	for (unsigned i = 0; i < life; i++)
		sim_step(sim, 1);
	at_cursor = is_at_cursor(sim, &child);
	sim_space_remove(child.space);
	sim_verify(sim);
	for (unsigned i = 0; i < born; i++)
		sim_step(sim, 1);
	if (twin.space)
		sim_space_remove(twin.space);
	if (parent && other)
		sim_space_remove(other->space);
	assert_parent(sim, parent ? parent : other);
	sim_destroy(sim);
	return at_cursor;
}

/* Each moment of death, at each place, for each kind of page. */
static void test_every_moment(void **unused)
{
	for (unsigned place = 0; place < 3; place++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			unsigned at_cursor = 0;

			for (unsigned born = 0; born < 5; born++)
				for (unsigned life = 0; life < 24; life++)
					at_cursor += live_and_die(place, kind, born, life);
			/* The first page is come by in the step that begins the pass. */
			assert_int_equal(at_cursor > 0, place > 0);
		}
	}
}

/* Known bug 1: the only process dies before its first look, at the cursor, or behind it; the pass
 * ends, there is nothing to do, and the next one is scanned as if it were the first. */
static void test_last_one(void **unused)
{
	for (unsigned npages = 1; npages <= 3; npages++) {
		for (unsigned steps = 0; steps <= 3 * npages; steps++) {
			struct sim *sim = sim_create(NULL);
			struct child child = { .space = sim_space_add(sim, 0) };
			bool in_pass;
			uint64_t passes;

			child.region = sim_region_add(child.space, npages);
			for (uint64_t i = 0; i < npages; i++)
				sim_write(child.region, i, SHARED);
			for (unsigned i = 0; i < steps; i++)
				sim_step(sim, 1);
			in_pass = steps % npages;
			assert_int_equal(is_at_cursor(sim, &child), in_pass);
			passes = sim_stats(sim).full_scans;
			assert_int_equal(passes, steps / npages);
			sim_space_remove(child.space);

			if (in_pass)
				assert_int_equal(sim_step(sim, 1), PDD_STEP_PASS);
			assert_int_equal(sim_step(sim, 1), PDD_STEP_IDLE);
			assert_int_equal(sim_step(sim, 1), PDD_STEP_IDLE);
			assert_int_equal(sim_stats(sim).full_scans, passes + in_pass);
			assert_null(sim->frames);

			parent_of(sim, LONE);
			sim_passes(sim, 2);
			assert_int_equal(sim_stats(sim).pages_sharing, 1);
			sim_destroy(sim);
		}
	}
}

/* The loop of ten seconds, as so many deaths, of up to eight children that live at a time; some are
 * forks of a process that lives on, and show its frames. */
static void test_again_and_again(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 3 });
	struct sim_region *parent = parent_of(sim, LONE);
	struct child children[8] = { 0 };
	uint64_t steps = 0, deaths = 0, at_cursor = 0;

	while (deaths < 5000) {
		struct child *child = &children[sim_random(sim, 8)];

		if (child->space) {
			at_cursor += is_at_cursor(sim, child);
			sim_space_remove(child->space);
			child->space = NULL;
			deaths++;
		} else if (sim_random(sim, 4)) {
			*child = child_of(sim, (enum kind)sim_random(sim, KINDS));
		} else {
			child->space = sim_space_clone(parent->space);
			child->region = child->space->regions;
		}
		for (uint64_t n = sim_random(sim, 4); n; n--, steps++)
			sim_step(sim, 1);
	}
	assert_true(at_cursor > 0);
	/* Passes end, however many come and go: of 9 processes with 3 pages, and with them prunes,
	 * which come by frames and sharers. */
	assert_true(sim_stats(sim).full_scans >= steps / (4 * 9 * 3));
	for (unsigned i = 0; i < 8; i++)
		if (children[i].space)
			sim_space_remove(children[i].space);
	assert_parent(sim, parent);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_moment),
		cmocka_unit_test(test_last_one),
		cmocka_unit_test(test_again_and_again),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
