/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * property_world.h - for test_property.c: random worlds, and what happens in them.
 */
#ifndef PROPERTY_WORLD_H
#define PROPERTY_WORLD_H

#include "property_hooks.h"

#define NODES 2u

/* ---- what happens meanwhile ---- */

static bool chance(struct sim *sim, double of)
{
	return (double)sim_random(sim, 1u << 20) < of * (1u << 20);
}

static struct place *pick(struct world *world, uint64_t *page)
{
	struct place *place = &world->places[sim_random(world->sim, world->nplaces)];

	*page = sim_random(world->sim, place->region->npages);
	return place;
}

static void write_somewhere(struct world *world)
{
	uint64_t page;
	struct place *place = pick(world, &page);

	write_page(world, place, page, content(sim_random(world->sim, world->ncontents)));
}

/* Another thread writes, or takes a lock, between two hooks. */
static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	struct world *world = sim->test;

	if (!sim->stepping || world->acting)
		return;
	world->acting = true;
	if (chance(sim, world->write_chance))
		write_somewhere(world);
	if (chance(sim, world->lock_chance)) {
		struct sim_space *space = world->places[sim_random(sim, world->nplaces)].space;

		space->busy = !space->locked;
	}
	world->acting = false;
}

/* A page is kept out, refused, discarded, or moves to another node; or may be shared again. */
static void manage_somewhere(struct world *world)
{
	struct sim *sim = world->sim;
	uint64_t page;
	struct place *place = pick(world, &page);
	struct sim_page *p = &place->region->pages[page];

	disturb(world, place, page);
	switch (sim_random(sim, 8)) {
	case 0: (void)pdd_region_exclude(&place->region->region, page, 1); break;
	case 1: (void)pdd_region_pin(&place->region->region, page, 1); break;
	case 2: (void)pdd_region_unpin(&place->region->region, page, 1); break;
	case 3: p->refuse = PDD_REASON_HUGE; break;
	case 4: p->hold_refuse = PDD_REASON_PINNED; break;
	case 5: (void)pdd_region_discard(&place->region->region, page, 1); break;
	case 6:
		if (!p->frame)
			sim_migrate(place->region, page, (uint16_t)sim_random(sim, NODES));
		break;
	case 7:
		p->refuse = p->hold_refuse = PDD_REASON_NONE;
		(void)pdd_region_include(&place->region->region, page, 1);
		break;
	}
	disturb(world, place, page);
}

/* For some passes it is like this. */
static void change_mood(struct world *world)
{
	static const double failures[] = { 0, 0, 0.01, 0.2 };
	static const double chances[] = { 0, 0, 0, 0.002, 0.03 };
	struct sim *sim = world->sim;

	sim->fail_chance = failures[sim_random(sim, 4)];
	sim->partial = sim_random(sim, 2);
	sim->max_views = sim_random(sim, 2) ? 0 : 1 + sim_random(sim, 3);
	sim->single_views = sim_random(sim, 4) == 0;
	world->write_chance = chances[sim_random(sim, 5)];
	world->lock_chance = chances[sim_random(sim, 5)];
}

static void lock_and_unlock(struct world *world)
{
	struct sim *sim = world->sim;

	for (unsigned i = 0; i < world->nplaces; i++) {
		struct place *place = &world->places[i];

		if (!place->space->busy && chance(sim, 0.02))
			place->busy_until = world->pass + (unsigned)sim_random(
						sim, sim_random(sim, 4) ? 3 : 60);
		place->space->busy = world->pass < place->busy_until;
	}
}

/* Between two steps. */
static void happen(struct world *world, unsigned npages)
{
	struct sim *sim = world->sim;

	if (chance(sim, 0.02))
		change_mood(world);
	if (chance(sim, 0.2))
		write_somewhere(world);
	if (chance(sim, 0.02))
		for (unsigned n = npages / 2; n; n--)
			write_somewhere(world);
	if (chance(sim, 0.02))
		manage_somewhere(world);
	lock_and_unlock(world);
}

/* ---- worlds ---- */

/* No writes, locks and failures any more, and nothing is kept out. */
static void calm(struct world *world)
{
	world->sim->at = NULL;
	world->sim->fail_chance = 0;
	for (unsigned i = 0; i < world->nplaces; i++) {
		struct place *place = &world->places[i];

		place->space->busy = false;
		for (uint64_t page = 0; page < place->region->npages; page++) {
			struct sim_page *p = &place->region->pages[page];

			disturb(world, place, page);
			p->refuse = p->hold_refuse = PDD_REASON_NONE;
			(void)pdd_region_include(&place->region->region, page, 1);
			while (pdd_region_unpin(&place->region->region, page, 1) == 0)
				;
		}
	}
}

static struct sim_options random_options(uint64_t seed, enum sim_checksum checksum)
{
	static const uint32_t shifts[] = { 3, 4, 6 };
	uint64_t state = seed;

	return (struct sim_options){
		.page_shift = shifts[sim_random_of(&state) % 3],
		.limit = 2 + (uint32_t)(sim_random_of(&state) % 5),
		.nroots = 16 + sim_random_of(&state) % 64,
		.first_nroots = sim_random_of(&state) % 16, /* most grow */
		.aging = (enum pdd_aging)(sim_random_of(&state) % (PDD_AGING_EPOCH + 1)),
		.max_period = (UINT32_C(1) << sim_random_of(&state) % 8) / 2,
		.tracked = sim_random_of(&state) % 2,
		.one_look = sim_random_of(&state) % 4 == 0,
		.keep_zero_pages = sim_random_of(&state) % 3 == 0,
		.nodes_apart = sim_random_of(&state) % 4 == 0,
		.no_refile = sim_random_of(&state) % 4 == 0,
		.no_clones = sim_random_of(&state) % 2,
		.prune_ms = sim_random_of(&state) % 2 ? 1000 : 0, /* by a clock that stands still */
		.checksum = checksum,
	};
}

/* Twins are carried out in the order of their regions' addresses. It is that of the places, so that
 * a seed tells all. */
static struct sim_region *add_region_above(struct sim_space *space, const struct sim_region *below,
					   uint64_t npages)
{
	struct sim_region *region, *other, *next;

	do {
		region = sim_region_add(space, npages);
	} while ((uintptr_t)region < (uintptr_t)below);
	for (other = space->regions; other; other = next) {
		next = other->next;
		if (other != region)
			sim_region_remove(other);
	}
	return region;
}

static void add_places(struct world *world)
{
	struct sim *sim = world->sim;
	uint32_t ndomains = 1 + (uint32_t)sim_random(sim, DOMAINS);
	const struct sim_region *last = NULL;

	world->nplaces = 2 + (unsigned)sim_random(sim, SPACES_MAX - 1);
	for (unsigned i = 0; i < world->nplaces; i++) {
		struct place *place = &world->places[i];
		uint64_t npages = 1 + sim_random(sim, sim_random(sim, 2) ? PAGES_MAX : 6);

		place->space = sim_space_add(sim, (uint32_t)sim_random(sim, ndomains));
		place->region = add_region_above(place->space, last, npages);
		last = place->region;
		for (uint64_t page = 0; page < npages; page++)
			place->region->pages[page].node = (uint16_t)sim_random(sim, NODES);
	}
}

static void create(struct world *world, uint64_t seed, enum sim_checksum checksum)
{
	struct sim_options options = random_options(seed, checksum);
	struct sim *sim;

	/* With this policy equal pages that are skipped do not meet for sure, once they collide
	 * with others and so leave the index. */
	if (checksum && options.aging == PDD_AGING_COUNTDOWN)
		options.aging = PDD_AGING_PHASE;
	sim = sim_create(&options);

	*world = (struct world){ .sim = sim, .pass = 1 };
	sim->now = 1;
	world->ncontents = 1 + sim_random(sim, sim_random(sim, 2) ? 4 : CONTENTS);
	add_places(world);
	for (unsigned id = 0; id < CONTENTS; id++) {
		uint64_t page[512];
		struct pdd_checksum key;

		sim_fill(sim, page, content(id));
		assert_int_equal(pddi_checksum(&sim->scanner, &key, page), 0);
		world->keys[id] = key.value;
	}
	for (unsigned n = 0; n < 200; n++)
		write_somewhere(world);
	sim->test = world;
	sim->at = at_hook;
	if (!checksum)
		watch_hooks(sim);
}

#endif
