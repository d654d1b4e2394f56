/* SPDX-License-Identifier: BSD-2-Clause */
/* world.c - see world.h. The hooks are in world_hooks.c. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The core refers to it where it is compiled to count visits. */
extern uint64_t pddi_visits;
uint64_t pddi_visits;

static const unsigned char secret[PDD_SECRET_LEN_MAX] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5 };

void world_require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "perf: %s\n", what);
	abort();
}

/* ---- the world ---- */

/* Zeroed, and aligned as pages are: how a page is copied may depend on it. */
static void *allocate(size_t n, size_t size)
{
	size_t bytes = (n * size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	void *memory = aligned_alloc(PAGE_BYTES, bytes ? bytes : PAGE_BYTES);

	world_require(memory, "no memory");
	return memset(memory, 0, bytes ? bytes : PAGE_BYTES);
}

static void start_scanner(struct world *world)
{
	struct pdd_ops ops = world_ops;
	struct pdd_tunables tunables;
	struct pdd_scanner_options options = {
		.size = sizeof(options),
		.roots = world->roots,
		.nroots = world->options.nroots,
		.secret = secret,
		.secret_len = sizeof(secret),
		.tunables = &tunables,
	};

	pdd_tunables_init(&tunables);
	tunables.aging = world->options.aging;
	if (!world->options.checksum)
		ops.checksum = NULL;
	if (!world->options.tracked)
		ops.pages_written = NULL;
	if (!world->options.locked)
		ops.lock = ops.unlock = NULL;
	world_require(pdd_scanner_init(&world->scanner, &ops, world, &options) == 0,
		      "pdd_scanner_init");
}

struct world *world_create(const struct world_options *options)
{
	struct world *world = allocate(1, sizeof(*world));

	world->options = *options;
	world->roots = allocate(options->nroots, sizeof(*world->roots));
	world->frames = allocate(options->nframes, sizeof(*world->frames));
	world->frame_bytes = allocate(options->nframes, PAGE_BYTES);
	for (uint64_t i = options->nframes; i-- > 0;) {
		world->frames[i].bytes = world->frame_bytes + i * PAGE_BYTES;
		world->frames[i].next = world->free_frames;
		world->free_frames = &world->frames[i];
	}
	start_scanner(world);
	return world;
}

void world_destroy(struct world *world)
{
	for (unsigned i = 0; i < world->nregions; i++) {
		free(world->regions[i].bytes);
		free(world->regions[i].shows);
		free(world->regions[i].contents);
		free(world->regions[i].written);
		free(world->regions[i].extents);
		free(world->regions[i].items);
	}
	free(world->frames);
	free(world->frame_bytes);
	free(world->roots);
	free(world);
}

struct world_space *world_space_add(struct world *world)
{
	struct world_space *space = &world->spaces[world->nspaces++];

	world_require(world->nspaces <= WORLD_SPACES, "too many spaces");
	world_require(pdd_space_add(&world->scanner, &space->space, 0) == 0, "pdd_space_add");
	return space;
}

struct world_region *world_region_add(struct world *world, struct world_space *space,
				      uint64_t npages)
{
	struct world_region *region = &world->regions[world->nregions++];
	uint64_t nextents = pdd_region_extents(npages);

	world_require(world->nregions <= WORLD_REGIONS, "too many regions");
	region->npages = npages;
	region->bytes = allocate(npages, PAGE_BYTES);
	region->shows = allocate(npages, sizeof(struct world_frame *));
	region->contents = allocate(npages, sizeof(uint64_t));
	region->written = allocate(nextents * (PDD_EXTENT_PAGES / 64), sizeof(uint64_t));
	region->extents = allocate(nextents, sizeof(struct pdd_extent));
	region->items = allocate(npages, sizeof(struct pdd_item));
	world_require(pdd_region_add(&space->space, &region->region, 0, npages, region->extents,
				     region->items) == 0,
		      "pdd_region_add");
	return region;
}

struct world_region *world_region_clone(struct world *world, struct world_space *space,
					const struct world_region *region)
{
	struct world_region *clone = world_region_add(world, space, region->npages);

	clone->cloned = true;
	for (uint64_t i = 0; i < region->npages; i++) {
		world_require(region->shows[i], "a page that is to be cloned shows no frame");
		world_show(clone, i, region->shows[i]);
		clone->contents[i] = region->contents[i];
	}
	return clone;
}

void world_write(struct world_region *region, uint64_t page, uint64_t content)
{
	world_show(region, page, NULL);
	*(uint64_t *)(void *)(region->bytes + page * PAGE_BYTES) = content;
	region->contents[page] = content;
	region->written[page / 64] |= UINT64_C(1) << page % 64;
}

void world_passes(struct world *world, unsigned n)
{
	const struct pdd_budget budget = { .pages = STEP_PAGES };

	for (; n; n--) {
		int step;

		do
			step = pdd_scanner_step(&world->scanner, &world->worker, &budget);
		while (step == PDD_STEP_MORE);
		world_require(step == PDD_STEP_PASS, "pdd_scanner_step");
	}
}

static bool count_hit(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	((struct world *)ctx)->hits++;
	return true;
}

void world_rmap_walks(struct world *world, const struct world_region *region)
{
	struct pdd_rmap_room sharers[16];

	for (uint64_t i = 0; i < region->npages; i += 2) {
		int err = pdd_rmap_walk(&world->scanner, NULL, &region->shows[i]->frame, sharers,
					16, count_hit, world);

		world_require(err == 0, "pdd_rmap_walk");
	}
}

static uint64_t shown_content(const struct world *world, const struct world_region *region,
			      uint64_t page)
{
	const struct world_frame *frame = region->shows[page];
	const unsigned char *bytes = frame ? frame->bytes : region->bytes + page * PAGE_BYTES;

	return frame == &world->zero ? 0 : *(const uint64_t *)(const void *)bytes;
}

void world_check(struct world *world)
{
	const char *why = "";

	if (pdd_scanner_check(&world->scanner, &why))
		world_require(false, why);
	for (unsigned i = 0; i < world->nregions; i++) {
		const struct world_region *region = &world->regions[i];

		for (uint64_t page = 0; page < region->npages; page++)
			world_require(shown_content(world, region, page) == region->contents[page],
				      "a page shows what was not written to it");
	}
}
