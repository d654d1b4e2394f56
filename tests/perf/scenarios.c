/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scenarios.c - see scenarios.h.
 *
 * Each measures one thing that passes do; what leads up to it is prepared. They are as small as
 * they can be with a steady cost per page: thousands of pages, several extents and steps. Every
 * pass looks at every page, but in those of old and of tracked pages, which age as they do by
 * default.
 */
#include "scenarios.h"

#define UNIQUE_PAGES 16384u
#define FEW_PAGES 2048u /* where a page costs more, or what leads up to it does */
#define AGING_PASSES (2 * PDD_AGING_PERIOD_MAX) /* until all have about the longest period */
#define RMAP_REGIONS 64u
#define RMAP_PAGES 32u /* of each */

static void one_pass(struct world *world)
{
	world_passes(world, 1);
}

static void two_passes(struct world *world)
{
	world_passes(world, 2);
}

static void four_passes(struct world *world)
{
	world_passes(world, 4);
}

/* ---- pages that are all different ---- */

static void unique(struct world *world)
{
	struct world_region *region =
		world_region_add(world, world_space_add(world), UNIQUE_PAGES);

	for (uint64_t i = 0; i < UNIQUE_PAGES; i++)
		world_write(region, i, i + 1);
}

static void unique_looked_at(struct world *world)
{
	unique(world);
	world_passes(world, 1);
}

static void unique_indexed(struct world *world)
{
	unique(world);
	world_passes(world, 2);
}

/* A checksum that costs nothing, so that what the engine does is not lost in what hashing costs. */
static uint64_t checksum_of_word(uint64_t content)
{
	return content;
}

/* ---- pages to be merged ---- */

/* Two spaces with the same contents, page by page: whole extents are merged at once. */
static void pairs(struct world *world)
{
	for (unsigned s = 0; s < 2; s++) {
		struct world_region *region =
			world_region_add(world, world_space_add(world), FEW_PAGES);

		for (uint64_t i = 0; i < FEW_PAGES; i++)
			world_write(region, i, i + 1);
	}
}

/* The second half mirrors the first in reverse: no two twins are neighbours in the same order. */
static void mirror(struct world *world)
{
	uint64_t n = 2 * (uint64_t)FEW_PAGES;
	struct world_region *region = world_region_add(world, world_space_add(world), n);

	for (uint64_t i = 0; i < n / 2; i++) {
		world_write(region, i, i + 1);
		world_write(region, n - 1 - i, i + 1);
	}
}

/* One content: chains, since a frame takes 256 sharers. */
static void equal(struct world *world)
{
	struct world_region *region =
		world_region_add(world, world_space_add(world), UNIQUE_PAGES);

	for (uint64_t i = 0; i < UNIQUE_PAGES; i++)
		world_write(region, i, 1);
}

static void zero(struct world *world)
{
	(void)world_region_add(world, world_space_add(world), UNIQUE_PAGES);
}

/* Pairs in two spaces, one of which is found locked at every third try. */
static void busy(struct world *world)
{
	pairs(world);
	world->spaces[1].busy_every = 3;
}

/* ---- true collisions: 32 contents, four times each, of every one of 16 checksums ---- */

static uint64_t checksum_of_few(uint64_t content)
{
	return content % 16;
}

static void collisions(struct world *world)
{
	struct world_region *region = world_region_add(world, world_space_add(world), FEW_PAGES);

	for (uint64_t i = 0; i < FEW_PAGES; i++)
		world_write(region, i, i % (FEW_PAGES / 4) + 1);
}

/* ---- reverse walk ---- */

/* Regions of equal pages in neighbouring pairs, and clones of all at which no pass has looked. Each
 * maps a part of the object of its own, and so does its clone. */
static void cloned(struct world *world)
{
	struct world_space *parent = world_space_add(world), *child;

	for (unsigned r = 0; r < RMAP_REGIONS; r++) {
		struct world_region *region = world_region_add(world, parent, RMAP_PAGES);

		for (uint64_t i = 0; i < RMAP_PAGES; i++)
			world_write(region, i, r * RMAP_PAGES + i / 2 + 1);
		pdd_region_attach(&region->region, &world->object, (uint64_t)r * RMAP_PAGES);
	}
	world_passes(world, 2);
	child = world_space_add(world);
	for (unsigned r = 0; r < RMAP_REGIONS; r++) {
		struct world_region *clone = world_region_clone(world, child, &world->regions[r]);

		pdd_region_attach(&clone->region, &world->object, (uint64_t)r * RMAP_PAGES);
	}
}

static void walk_all(struct world *world)
{
	for (unsigned r = 0; r < RMAP_REGIONS; r++)
		world_rmap_walks(world, &world->regions[r]);
}

/* ---- pages at rest ---- */

/* Old pages, a few of which are looked at in each pass. */
static void aged(struct world *world)
{
	struct world_region *region = world_region_add(world, world_space_add(world), FEW_PAGES);

	for (uint64_t i = 0; i < FEW_PAGES; i++)
		world_write(region, i, i + 1);
	world_passes(world, AGING_PASSES);
}

/* Where writes are tracked: the first pass after that in which all of them came into the index
 * finds nothing written, or every 128th page: four in each extent. */
static void almost_idle(struct world *world)
{
	unique_indexed(world);
	for (uint64_t i = 0; i < UNIQUE_PAGES; i += 128)
		world_write(&world->regions[0], i, i + UNIQUE_PAGES + 1);
}

#define LOOKING .aging = PDD_AGING_NONE
#define UNIQUE { .nframes = 1, .nroots = UNIQUE_PAGES, LOOKING }
#define UNHASHED { .nframes = 1, .nroots = UNIQUE_PAGES, LOOKING, .checksum = checksum_of_word }
#define UNIQUE_LOCKED { .nframes = 1, .nroots = UNIQUE_PAGES, LOOKING, .locked = true }
#define MERGING { .nframes = 2 * FEW_PAGES, .nroots = 2 * FEW_PAGES, LOOKING }
#define MERGING_LOCKED \
	{ .nframes = 2 * FEW_PAGES, .nroots = 2 * FEW_PAGES, LOOKING, .locked = true }
#define COLLIDING \
	{ .nframes = FEW_PAGES, .nroots = FEW_PAGES, LOOKING, .checksum = checksum_of_few }
#define AGING { .nframes = 1, .nroots = FEW_PAGES }
#define TRACKED { .nframes = 1, .nroots = UNIQUE_PAGES, .tracked = true }

/* "unhashed": without what hashing costs. "locked": as for several threads. */
const struct scenario scenarios[] = {
	{ "first_look", UNIQUE_PAGES, UNIQUE, unique, one_pass },
	{ "insert", UNIQUE_PAGES, UNIQUE, unique_looked_at, one_pass },
	{ "steady", UNIQUE_PAGES, UNIQUE, unique_indexed, one_pass },
	{ "first_look_unhashed", UNIQUE_PAGES, UNHASHED, unique, one_pass },
	{ "insert_unhashed", UNIQUE_PAGES, UNHASHED, unique_looked_at, one_pass },
	{ "steady_unhashed", UNIQUE_PAGES, UNHASHED, unique_indexed, one_pass },
	{ "steady_locked", UNIQUE_PAGES, UNIQUE_LOCKED, unique_indexed, one_pass },
	{ "pairs", 2 * FEW_PAGES, MERGING, pairs, two_passes },
	{ "pairs_locked", 2 * FEW_PAGES, MERGING_LOCKED, pairs, two_passes },
	{ "mirror", 2 * FEW_PAGES, MERGING, mirror, two_passes },
	{ "equal", UNIQUE_PAGES, MERGING, equal, two_passes },
	{ "zero", UNIQUE_PAGES, UNIQUE, zero, two_passes },
	{ "busy", 2 * FEW_PAGES, MERGING, busy, four_passes },
	{ "collisions", FEW_PAGES, COLLIDING, collisions, four_passes },
	{ "reverse_walk", RMAP_REGIONS * RMAP_PAGES, MERGING, cloned, walk_all },
	{ "aged", FEW_PAGES, AGING, aged, four_passes },
	{ "idle", UNIQUE_PAGES, TRACKED, unique_indexed, one_pass },
	{ "almost_idle", UNIQUE_PAGES, TRACKED, almost_idle, one_pass },
};
const size_t nscenarios = sizeof(scenarios) / sizeof(scenarios[0]);
