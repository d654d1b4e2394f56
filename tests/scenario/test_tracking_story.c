/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tracking_story.c - the same story with and without write tracking comes to the same merges,
 * with far fewer reads.
 *
 * Two worlds live through the same random writes, discards, unmerges, clones, pins, migrations and
 * resizes between passes. If every pass looks at all pages they are equal after every pass, page by
 * page; with other policies, and with failures, after all has become quiet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>

#include "sim.h"

#define CONTENTS 40u
#define SPACES 2u
#define SPACES_MAX 5u
#define PAGES 600u
#define PASSES 60u

/* What happens to both worlds is drawn from here. */
static uint64_t story;

static uint64_t draw(uint64_t below)
{
	return sim_random_of(&story) % below;
}

static uint64_t content(void)
{
	uint64_t i = draw(CONTENTS);

	return i && i < 4 ? i | SIM_FILLED : i;
}

static struct sim *world(const struct sim_options *options, bool tracked)
{
	struct sim_options copy = *options;
	struct sim *sim;

	copy.tracked = tracked;
	sim = sim_create(&copy);
	for (uint32_t i = 0; i < SPACES; i++)
		sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, i == 1);
	return sim;
}

static struct sim_region *region_of_space(struct sim *sim, uint64_t number)
{
	struct sim_space *space = sim->spaces;

	while (number-- && space->next)
		space = space->next;
	return space->regions;
}

static unsigned count_spaces(const struct sim *sim)
{
	unsigned n = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	return n;
}

/* ---- what happens ---- */

struct event {
	uint64_t what, space, first, n, number;
};

static struct event draw_event(void)
{
	struct event event = { .what = draw(20), .space = draw(SPACES_MAX) };

	event.first = draw(PAGES);
	event.n = 1 + draw(draw(4) ? 10 : PAGES);
	event.number = content();
	return event;
}

/* At most what the region has of the range. */
static void clip(const struct sim_region *region, struct event *event)
{
	if (event->first >= region->npages)
		event->first = region->npages - 1;
	if (event->n > region->npages - event->first)
		event->n = region->npages - event->first;
}

static void write_range(struct sim_region *region, const struct event *event)
{
	for (uint64_t i = 0; i < event->n; i++)
		sim_write(region, event->first + i,
			  event->what % 2 ? event->number : (event->number + i) % CONTENTS);
}

static void manage(struct sim *sim, struct sim_region *region, const struct event *event)
{
	struct pdd_region *r = &region->region;

	switch (event->what) {
	case 10:
	case 11: (void)pdd_region_discard(r, event->first, event->n); break;
	case 12: (void)sim_unmerge(region, event->first, event->n); break;
	case 13: assert_int_equal(pdd_region_pin(r, event->first, event->n), 0); break;
	case 14: (void)pdd_region_unpin(r, event->first, event->n); break;
	case 15: assert_int_equal(pdd_region_exclude(r, event->first, event->n), 0); break;
	case 16: assert_int_equal(pdd_region_include(r, event->first, event->n), 0); break;
	case 17: sim_migrate(region, event->first, (uint16_t)(event->number % 3)); break;
	case 18: sim_region_resize(region, event->first + 1); break;
	case 19:
		if (count_spaces(sim) < SPACES_MAX)
			sim_space_clone(region->space);
		else
			sim_space_remove(sim->spaces); /* the youngest */
		break;
	}
}

static void happen(struct sim *sim, struct event event)
{
	struct sim_region *region = region_of_space(sim, event.space);

	clip(region, &event);
	if (event.what < 10)
		write_range(region, &event);
	else
		manage(sim, region, &event);
}

/* ---- comparing ---- */

static void assert_equal_region(const struct sim_region *a, const struct sim_region *b,
				unsigned pass)
{
	assert_int_equal(a->npages, b->npages);
	for (uint64_t i = 0; i < a->npages; i++) {
		assert_int_equal(a->pages[i].expected, b->pages[i].expected);
		if (a->pages[i].kind != b->pages[i].kind)
			sim_fail("pass %u, page %" PRIu64 ": kind %d with tracking, %d without",
				 pass, i, (int)a->pages[i].kind, (int)b->pages[i].kind);
	}
}

static void assert_equal_worlds(const struct sim *a, const struct sim *b, unsigned pass)
{
	const struct sim_space *t = b->spaces;

	for (const struct sim_space *s = a->spaces; s; s = s->next, t = t->next)
		assert_equal_region(s->regions, t->regions, pass);
	assert_int_equal(sim_stats(a).pages_shared, sim_stats(b).pages_shared);
	assert_int_equal(sim_stats(a).frames_kept, sim_stats(b).frames_kept);
	assert_int_equal(sim_stats(a).counts.merges, sim_stats(b).counts.merges);
	assert_int_equal(sim_stats(a).counts.zero_merges, sim_stats(b).counts.zero_merges);
	assert_int_equal(sim_stats(a).counts.unshares, sim_stats(b).counts.unshares);
	assert_int_equal(sim_stats(a).counts.adoptions, sim_stats(b).counts.adoptions);
}

static void set_use_zero_pages(struct sim *sim, uint32_t value)
{
	struct pdd_tunables t = sim->scanner.priv.tunables;

	t.use_zero_pages = value;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
}

/* Equal after every pass. */
static void live(const struct sim_options *options, uint64_t seed)
{
	struct sim *with = world(options, true), *without = world(options, false);

	story = seed;
	for (unsigned pass = 0; pass < PASSES; pass++) {
		for (uint64_t n = draw(pass % 10 < 6 ? 12 : 1) + (pass == 0); n; n--) {
			struct event event = draw_event();

			happen(with, event);
			happen(without, event);
		}
		if (pass == PASSES / 2 && options->keep_zero_pages) {
			set_use_zero_pages(with, 1);
			set_use_zero_pages(without, 1);
		}
		sim_pass(with, UINT64_MAX);
		sim_pass(without, UINT64_MAX);
		assert_equal_worlds(with, without, pass);
	}
	assert_true(sim_stats(with).counts.merges > 0);
	assert_true(sim_stats(with).counts.pages_hashed < sim_stats(without).counts.pages_hashed);
	sim_destroy(with);
	sim_destroy(without);
}

static void live_often(struct sim_options options, unsigned rounds)
{
	options.aging = PDD_AGING_NONE;
	options.nroots = 1024;
	for (unsigned round = 0; round < rounds; round++)
		live(&options, sim_seed() + round);
}

static void test_default(void **unused)
{
	live_often((struct sim_options){ .limit = 0 }, 6);
}

static void test_nodes_apart(void **unused)
{
	live_often((struct sim_options){ .nodes_apart = true }, 6);
}

static void test_zero_pages_later(void **unused)
{
	live_often((struct sim_options){ .keep_zero_pages = true }, 6);
}

static void test_rebuilt_index(void **unused)
{
	live_often((struct sim_options){ .index = PDD_INDEX_REBUILT }, 4);
}

static void test_collisions(void **unused)
{
	live_often((struct sim_options){ .checksum = SIM_CHECKSUM_ZERO }, 2);
	live_often((struct sim_options){ .checksum = SIM_CHECKSUM_2_BITS }, 2);
}

/* ---- with everything that may go wrong, in short steps ---- */

/* Pages of this content in the spaces of one world, and how many of them are merged. */
static uint64_t merged_of(const struct sim *sim, uint64_t wanted, uint64_t *pages)
{
	uint64_t merged = 0;

	*pages = 0;
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (uint64_t i = 0; i < space->regions->npages; i++) {
			const struct sim_page *p = &space->regions->pages[i];

			if (p->expected != wanted || p->kind == PDD_PAGE_ABSENT)
				continue;
			++*pages;
			merged += p->kind != PDD_PAGE_PRIVATE;
		}
	return merged;
}

/* All that are equal are merged, but one perhaps, if the frames are full. */
static void assert_all_merged(const struct sim *sim)
{
	for (uint64_t i = 0; i < CONTENTS; i++) {
		uint64_t wanted = i && i < 4 ? i | SIM_FILLED : i, pages;
		uint64_t merged = merged_of(sim, wanted, &pages);

		if (pages > 1)
			assert_in_range(merged, pages - 1, pages);
	}
}

static void calm(struct sim *sim)
{
	sim->fail_chance = 0;
	sim->partial = false;
	for (struct sim_space *space = sim->spaces; space; space = space->next) {
		struct sim_region *region = space->regions;

		space->busy = false;
		assert_int_equal(pdd_region_include(&region->region, 0, region->npages), 0);
		for (uint64_t i = 0; i < region->npages; i++)
			while (pdd_region_unpin(&region->region, i, 1) == 0)
				;
	}
	sim_passes(sim, 3 * PDD_AGING_PERIOD_MAX);
}

/* Small frames, which give and take places all the time. */
static void test_failures(void **unused)
{
	for (unsigned round = 0; round < 8; round++) {
		struct sim *sim = world(
			&(struct sim_options){ .nroots = 1024, .limit = round % 2 ? 5 : 256 },
			true);

		story = sim_seed() + round;
		sim->fail_chance = round / 2 % 2 ? 0.02 : 0;
		sim->partial = round / 2 % 2;
		for (unsigned step = 0; step < 150; step++) {
			struct event event = draw_event();

			if (event.what < 13)
				happen(sim, event);
			region_of_space(sim, event.space)->space->busy = event.what == 19;
			sim_step(sim, 1 + draw(2 * PAGES));
		}
		calm(sim);
		assert_all_merged(sim);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_nodes_apart),
		cmocka_unit_test(test_zero_pages_later),
		cmocka_unit_test(test_rebuilt_index),
		cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_failures),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
