/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_long_chain.c - s26: a million equal pages. A walk of one of their frames visits no more
 * pages than its limit, and taking one page out of a chain of any length touches a few frames, the
 * leader of the chain included.
 *
 * That is shown without a clock: all frames but those near the leader and near the one in question
 * are made unusable meanwhile. Verifying all pages at every step would take too long, so steps are
 * made directly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define NEAR 3 /* frames to each side in the ring of dups that may be touched */
#define NMAY_MAX (2 * (2 * NEAR + 1) + 1)

struct world {
	struct sim *sim;
	struct sim_region *region;
	uint64_t nframes;
	struct pdd_frame *saved; /* as they were before they were made unusable */
	struct pdd_frame *broken;
	struct pdd_frame *may[NMAY_MAX]; /* be touched */
	unsigned nmay;
};

static void scan(struct sim *sim, unsigned passes)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	sim->stepping = true;
	while (passes--)
		assert_int_equal(pdd_scanner_step(&sim->scanner, sim->worker, &budget),
				 PDD_STEP_PASS);
	sim->stepping = false;
}

static void create(struct world *world, uint64_t npages, uint32_t limit)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .page_shift = 3, .limit = limit, .nroots = 1 });

	*world = (struct world){ .sim = sim };
	world->region = sim_region_add(sim_space_add(sim, 0), npages);
	for (uint64_t i = 0; i < npages; i++)
		sim_write(world->region, i, 1);
	scan(sim, 2);
	world->nframes = (npages + limit - 1) / limit;
	assert_int_equal(sim_stats(sim).pages_shared, world->nframes);
	assert_int_equal(sim_stats(sim).pages_sharing, npages - world->nframes);
	world->saved = calloc(world->nframes, sizeof(*world->saved));
	world->broken = malloc(sizeof(*world->broken));
	memset(world->broken, 0x5a, sizeof(*world->broken));
}

static void destroy(struct world *world)
{
	free(world->saved);
	free(world->broken);
	sim_verify(world->sim);
	sim_destroy(world->sim);
}

static struct pdd_frame *leader_of(const struct sim *sim)
{
	struct sim_frame *frame = sim->frames;

	while (pdd_frame_is_dup(&frame->frame))
		frame = frame->next;
	return &frame->frame;
}

/* A dup and its neighbours may be touched. */
static void allow_near(struct world *world, struct pdd_frame *frame)
{
	for (int i = 0; i < NEAR; i++)
		frame = frame->priv.node.u.dup.prev;
	for (int i = 0; i < 2 * NEAR + 1; i++) {
		world->may[world->nmay++] = frame;
		frame = frame->priv.node.u.dup.next;
	}
}

static bool is_allowed(const struct world *world, const struct pdd_frame *frame)
{
	for (unsigned i = 0; i < world->nmay; i++)
		if (world->may[i] == frame)
			return true;
	return false;
}

/* Following any link of a frame that is far away from these is a crash. */
static void break_others(struct world *world, struct pdd_frame *leader, struct pdd_frame *frame)
{
	uint64_t n = 0;

	world->nmay = 0;
	world->may[world->nmay++] = leader;
	allow_near(world, leader->priv.dups);
	if (frame != leader)
		allow_near(world, frame);
	for (struct sim_frame *f = world->sim->frames; f; f = f->next) {
		if (is_allowed(world, &f->frame))
			continue;
		world->saved[n++] = f->frame;
		f->frame = *world->broken;
	}
}

static void mend_others(const struct world *world)
{
	uint64_t n = 0;

	for (struct sim_frame *f = world->sim->frames; f; f = f->next) {
		if (is_allowed(world, &f->frame))
			continue;
		assert_memory_equal(&f->frame, world->broken, sizeof(f->frame));
		f->frame = world->saved[n++];
	}
}

static uint64_t all_calls(const struct sim *sim)
{
	uint64_t n = 0;

	for (unsigned hook = 0; hook < SIM_HOOKS; hook++)
		n += sim->calls[hook];
	return n;
}

/* A page of a frame is unmerged, with a constant number of hook calls and frames touched. */
static void take_one(struct world *world, struct pdd_frame *leader, struct pdd_frame *frame)
{
	struct sim *sim = world->sim;
	struct pdd_item *item = frame->priv.sharers;
	uint64_t page = (uint64_t)(item - world->region->items);
	bool last = pdd_frame_sharers(frame) == 1;
	uint64_t calls = all_calls(sim), contents = sim->calls[SIM_FRAME_CONTENT];

	break_others(world, leader, frame);
	assert_int_equal(pdd_region_unmerge(&world->region->region, page, 1, 1), 1);
	mend_others(world);
	/* frames_unmap; with the last page frame_is_mapped and frame_free */
	assert_int_equal(all_calls(sim) - calls, last ? 3 : 1);
	assert_int_equal(sim->calls[SIM_FRAME_CONTENT], contents);
	assert_false(sim_is_shared(world->region, page));
}

/* The leader loses all its pages, one by one, so that a dup takes its place; again and again. */
static void take_leaders(struct world *world, unsigned nleaders)
{
	while (nleaders--) {
		struct pdd_frame *leader = leader_of(world->sim);
		uint64_t shared = sim_stats(world->sim).pages_shared;

		for (uint32_t n = pdd_frame_sharers(leader); n; n--)
			take_one(world, leader, leader);
		assert_int_equal(sim_stats(world->sim).pages_shared, shared - 1);
	}
}

/* A page of any frame. */
static void take_some(struct world *world, unsigned npages)
{
	while (npages) {
		uint64_t page = sim_random(world->sim, world->region->npages);

		if (!sim_is_shared(world->region, page))
			continue;
		take_one(world, leader_of(world->sim), &world->region->pages[page].frame->frame);
		npages--;
	}
}

/* All that are left are unmerged, each at the same cost. */
static void take_all(struct world *world)
{
	struct sim *sim = world->sim;
	uint64_t left = sim_stats(sim).counts.ksm_merging_pages;
	uint64_t frames = sim_stats(sim).pages_shared, freed = sim->calls[SIM_FRAME_FREE];
	uint64_t contents = sim->calls[SIM_FRAME_CONTENT];

	assert_int_equal(pdd_region_unmerge(&world->region->region, 0, world->region->npages,
					    UINT64_MAX), left);
	assert_int_equal(sim->calls[SIM_FRAME_FREE] - freed, frames);
	assert_int_equal(sim->calls[SIM_FRAME_CONTENT], contents);
	assert_int_equal(sim_stats(sim).stable_node_dups, 0);
	assert_null(sim->frames);
}

struct walk {
	const struct world *world;
	unsigned char *seen;
};

static bool see(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	const struct walk *walk = ctx;

	assert_int_equal(mapping, PDD_MAPPING_SHARER);
	assert_ptr_equal(region, &walk->world->region->region);
	walk->seen[page]++;
	return true;
}

/* Walks of all frames see each page once, none of them more than 256. */
static void walk_all(struct world *world)
{
	struct walk walk = { .world = world, .seen = calloc(world->region->npages, 1) };
	struct pdd_rmap_room room[256];

	for (struct sim_frame *f = world->sim->frames; f; f = f->next) {
		struct pdd_rmap_result result;

		assert_int_equal(pdd_rmap_walk(&world->sim->scanner, &result, &f->frame, room, 256,
					       see, &walk), 0);
		assert_in_range(result.visits, 1, 256);
		assert_int_equal(result.hits, pdd_frame_sharers(&f->frame));
	}
	for (uint64_t i = 0; i < world->region->npages; i++)
		assert_int_equal(walk.seen[i], 1);
	free(walk.seen);
}

static void test_million(void **unused)
{
	struct world world;

	create(&world, 1000000, 256);
	assert_int_equal(sim_stats(world.sim).pages_shared, 3907);
	walk_all(&world);
	take_leaders(&world, 2);
	take_some(&world, 300);
	take_all(&world);
	destroy(&world);
}

/* 98,304 pages with a limit of 2: 49,152 frames. */
static void test_pairs(void **unused)
{
	struct world world;

	create(&world, 98304, 2);
	assert_int_equal(sim_stats(world.sim).stable_node_dups, 49152);
	take_leaders(&world, 30);
	take_some(&world, 40);
	take_leaders(&world, 10);
	take_all(&world);
	destroy(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_million),
		cmocka_unit_test(test_pairs),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
