/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * property_hooks.h - for test_property.c: the hooks of the simulation, which tell property_watch.h
 * what they are asked for and what fails.
 */
#ifndef PROPERTY_HOOKS_H
#define PROPERTY_HOOKS_H

#include "property_watch.h"

static bool watch_trylock(void *ctx, struct pdd_space *space)
{
	struct sim *sim = ctx;
	const struct pdd_scanner *scanner = &sim->scanner;
	struct world *world = sim->test;
	bool of_twin = sim->nlocks;
	struct place *place = NULL;

	for (unsigned i = 0; i < world->nplaces; i++)
		if (&world->places[i].space->space == space)
			place = &world->places[i];
	if (sim_ops.space_trylock(ctx, space))
		return true;
	place->busy = world->pass;
	if (of_twin) { /* one of its pages, it is not known which */
		for (uint64_t page = 0; page < place->region->npages; page++)
			add_page_event(world, EVENT_DELAYED, place, page);
	} else if (scanner->priv.in_pass) {
		miss_walk(world, place);
	}
	return false;
}

static int watch_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	struct place *place = place_of(world, region);
	int n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	uint64_t page = first;

	world->in_get = true;
	world->looks = 0;
	world->more_looks = false;
	world->scanned = place->space->space.priv.counts.pages_scanned;
	if (n == -EBUSY)
		miss(world, place, first, walk_end(place));
	else if (n == 0 || n == -EAGAIN)
		miss(world, place, first, first + 1);
	else if (n < 0) /* it is forgotten; those behind it are asked for again */
		disturb(world, place, first);
	for (int i = 0; i < n; i++)
		for (uint64_t k = 0; k < views[i].npages && page < first + npages; k++)
			come_by(world, place, page++, &views[i]);
	world->in_get = false;
	return n;
}

static void watch_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	const struct place *place = place_of(world, region);
	uint64_t looks = place->space->space.priv.counts.pages_scanned - world->scanned;

	if (looks < world->looks || (looks > world->looks && !world->more_looks))
		sim_fail("pass %u looks at other pages than the schedule says", world->pass);
	sim_ops.pages_put(ctx, region, first, npages);
}

/* A held page is to share a frame, but was written since it was put into the index. */
static bool is_stale(const struct world *world, const struct place *place, uint64_t page)
{
	const struct pdd_item *item = sim_item(place->region, page);

	return item_state(item) == ITEM_PENDING &&
	       !has_key(world, item, content_id(place->region->pages[page].expected));
}

static int watch_hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		      uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	struct place *place = place_of(world, region);
	int n = sim_ops.hold(ctx, region, views, nviews, first, npages);
	uint64_t page = first;

	if (n <= 0)
		add_page_event(world, EVENT_FAILED, place, first);
	for (int i = 0; i < n; i++) {
		for (uint64_t k = 0; k < views[i].npages && page < first + npages; k++, page++) {
			if (views[i].kind != PDD_PAGE_PRIVATE)
				add_page_event(world, EVENT_FAILED, place, page);
			else if (is_stale(world, place, page))
				add_page_event(world, EVENT_DELAYED, place, page);
		}
	}
	return n;
}

static int watch_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			uint32_t nframes, uint32_t domain)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	int n = sim_ops.frames_create(ctx, frames, wishes, nframes, domain);

	for (uint32_t i = 0; n <= 0 && i < nframes; i++)
		add_page_event(world, EVENT_FAILED, place_of(world, wishes[i].region),
			       wishes[i].page);
	return n;
}

static int watch_map(void *ctx, struct pdd_region *region, uint64_t first,
		     struct pdd_frame *const *frames, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	int n = sim_ops.frames_map(ctx, region, first, frames, npages);

	for (uint64_t i = 0; n <= 0 && i < npages; i++)
		add_page_event(world, EVENT_FAILED, place_of(world, region), first + i);
	return n;
}

static int watch_zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *world = sim->test;
	int n = sim_ops.zero_map(ctx, region, first, npages);

	for (uint64_t i = 0; n <= 0 && i < npages; i++)
		add_page_event(world, EVENT_FAILED, place_of(world, region), first + i);
	return n;
}

static void watch_hooks(struct sim *sim)
{
	struct pdd_ops *ops = &sim->scanner.priv.ops;

	ops->space_trylock = watch_trylock;
	ops->pages_get = watch_get;
	ops->pages_put = watch_put;
	ops->hold = watch_hold;
	ops->frames_create = watch_create;
	ops->frames_map = watch_map;
	if (ops->zero_map)
		ops->zero_map = watch_zero_map;
}

#endif
