/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * property_watch.h - for test_property.c: what each pass does to each page, watched at the hooks.
 *
 * The hooks of the simulation are wrapped (property_hooks.h). At pages_get it is known what the
 * pass will do to a page: what it shares it keeps, or it is known to be clean, or the schedule
 * (due, new, or aging.h) says whether it is looked at. The library counts its looks; that must
 * agree, so no look is presumed that did not happen.
 *
 * What befalls pages of one content in a pass, and can keep others of it apart, is an event:
 *
 *	FAILED   a hook failed, or a page of this content was written, moved, or kept out. Who
 *	         failed before, too, may be left to its age
 *	DELAYED  a twin was busy, or found written long ago, when it was held or by its own look; a
 *	         frame was found to be shared by one less. Who is kept apart by that must be due
 */
#ifndef PROPERTY_WATCH_H
#define PROPERTY_WATCH_H

#include "scanner_internal.h"
#include "sim.h"

#define SPACES_MAX 4u
#define PAGES_MAX 40u
#define CONTENTS 24u
#define DOMAINS 3u

enum event {
	EVENT_FAILED = 0,
	EVENT_DELAYED = 1,
};

/* What a pass does to a page. */
enum visit {
	VISIT_KEEPS = 0, /* it shares a frame, is at the zero page, absent, or refused */
	VISIT_RESTS = 1, /* in the index, and known not to be written */
	VISIT_SKIPS = 2,
	VISIT_LOOKS = 3,
};

/* Of one page. Passes are numbered from 1; 0: never. */
struct watch {
	unsigned changed;  /* the last pass in which it was written, or the library forgot it */
	unsigned looks;    /* in later passes */
	unsigned found;    /* the pass since which it is found unchanged */
	unsigned looked;   /* the last pass that looked at it */
	unsigned skipped;  /* passes in a row that skipped it */
	bool backs_off;    /* it failed again: its age decides when it is looked at */
	bool owed;         /* the next pass that comes by looks at it, ... */
	enum pdd_reason reason; /* ... while this, that of the end of the last pass, stays */
	enum pdd_reason owed_reason;
};

struct place {
	struct sim_space *space;
	struct sim_region *region;
	unsigned busy;       /* the last pass in which its lock was missed */
	unsigned busy_until; /* the pass */
	struct watch pages[PAGES_MAX];
};

struct world {
	struct sim *sim;
	struct place places[SPACES_MAX];
	unsigned nplaces;
	unsigned pass;
	uint64_t ncontents;
	uint64_t keys[CONTENTS]; /* checksums of the contents */
	unsigned events[2][DOMAINS][CONTENTS]; /* in this pass */
	uint64_t looks;   /* that the visit under way does, ... */
	bool in_get;      /* the hook pages_get is under way */
	bool more_looks;  /* ... at least: a frame that gets room makes another page due */
	uint64_t scanned; /* pages_scanned before it */
	uint64_t proved;  /* contents that the property was proved of, in all passes */
	double write_chance, lock_chance; /* at a hook */
	bool acting;
};

/* The contents: zero, same-filled ones, others; and which one it is. */
static uint64_t content(uint64_t i)
{
	return i == 1 || i == 2 ? i | SIM_FILLED : i;
}

static uint32_t content_id(uint64_t expected)
{
	return (uint32_t)expected;
}

static struct place *place_of(struct world *world, const void *region)
{
	for (unsigned i = 0; i < world->nplaces; i++)
		if (world->places[i].region == region)
			return &world->places[i];
	sim_fail("no such region");
}

static bool is_failure(enum pdd_reason reason)
{
	return reason == PDD_REASON_BUSY || reason == PDD_REASON_CHANGED ||
	       (reason >= PDD_REASON_PINNED && reason <= PDD_REASON_HOOK_FAILED);
}

static bool has_key(const struct world *world, const struct pdd_item *item, unsigned id)
{
	return item_state(item) != ITEM_NEW && item->priv.node.checksum == world->keys[id];
}

/* ---- events ---- */

/* Whoever failed before may now be left to its age. */
static void failed_again(struct world *world, uint32_t domain, unsigned id)
{
	for (unsigned i = 0; i < world->nplaces; i++) {
		struct place *place = &world->places[i];

		for (uint64_t page = 0; page < place->region->npages; page++) {
			const struct pdd_item *item = sim_item(place->region, page);

			if (place->space->domain != domain || !has_key(world, item, id))
				continue;
			place->pages[page].owed = false;
			place->pages[page].backs_off |= is_failure(item_reason(item));
		}
	}
}

static void add_event(struct world *world, enum event event, uint32_t domain, unsigned id)
{
	world->events[event][domain][id]++;
	if (event == EVENT_FAILED)
		failed_again(world, domain, id);
}

/* Of what the page is, and of what the library takes it for. */
static void add_page_event(struct world *world, enum event event, const struct place *place,
			   uint64_t page)
{
	const struct pdd_item *item = sim_item(place->region, page);
	unsigned is = content_id(place->region->pages[page].expected);

	add_event(world, event, place->space->domain, is);
	for (unsigned id = 0; id < CONTENTS; id++)
		if (id != is && has_key(world, item, id))
			add_event(world, event, place->space->domain, id);
}

/* Nothing is known of it any more. */
static void forget(const struct world *world, struct watch *watch)
{
	watch->changed = world->pass;
	watch->looks = watch->found = 0;
}

static void disturb(struct world *world, struct place *place, uint64_t page)
{
	add_page_event(world, EVENT_FAILED, place, page);
	forget(world, &place->pages[page]);
}

static void write_page(struct world *world, struct place *place, uint64_t page, uint64_t value)
{
	disturb(world, place, page);
	sim_write(place->region, page, value);
	disturb(world, place, page);
}

/* ---- coming by a page ---- */

/* Around pages_get the library sets the marks of written pages aside (visit.c). */
static bool is_marked_aside(const struct world *world, const struct pdd_item *item)
{
	uint64_t at = item_page(item) % PDD_EXTENT_PAGES;

	return world->in_get && world->sim->worker->priv.dirty[at / 64] >> at % 64 & 1;
}

static bool may_rest(const struct world *world, const struct pdd_item *item)
{
	const struct pdd_scanner *scanner = &world->sim->scanner;

	return item_state(item) == ITEM_INDEXED && !item_is_due(item) && pddi_may_rest(scanner) &&
	       pddi_is_clean(scanner, item) && !is_marked_aside(world, item);
}

static bool is_its_turn(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return item_is_due(item) ||
	       pdd_aging_look((enum pdd_aging)scanner->priv.tunables.aging, item_age(item),
			      scanner->priv.epoch, item->priv.node.checksum,
			      pddi_max_period(scanner));
}

static enum visit visit_of(const struct world *world, const struct pdd_item *item,
			   const struct pdd_view *view)
{
	const struct pdd_scanner *scanner = &world->sim->scanner;
	enum item_state state = item_state(item);

	if (view->kind != PDD_PAGE_PRIVATE)
		return VISIT_KEEPS;
	if (state == ITEM_NEW || state == ITEM_SHARER || state == ITEM_ZERO) /* written */
		return VISIT_LOOKS;
	if (state == ITEM_INDEXED && item_node(item) != pddi_node(scanner, view->node))
		return VISIT_LOOKS; /* it moved to another NUMA node */
	if (may_rest(world, item))
		return VISIT_RESTS;
	return is_its_turn(scanner, item) ? VISIT_LOOKS : VISIT_SKIPS;
}

static void looked_at(struct world *world, struct watch *watch, const struct pdd_item *item)
{
	bool enough = world->sim->options.one_look && item_state(item) != ITEM_SEEN &&
		      item_state(item) != ITEM_INDEXED;

	world->looks++;
	watch->looked = world->pass;
	watch->owed = false;
	watch->skipped = 0;
	/* What was written in this very pass may have been read before. */
	if (watch->changed < world->pass && (++watch->looks == 2 || (watch->looks == 1 && enough)))
		watch->found = world->pass;
}

static void come_by(struct world *world, struct place *place, uint64_t page,
		    const struct pdd_view *view)
{
	const struct pdd_item *item = sim_item(place->region, page);
	struct watch *watch = &place->pages[page];
	enum visit visit = visit_of(world, item, view);

	if (item_state(item) == ITEM_SHARER && view->kind != PDD_PAGE_SHARED) {
		add_page_event(world, EVENT_DELAYED, place, page);
		world->more_looks = true;
	}
	/* In the same batch it may just have become a twin. */
	if (visit == VISIT_LOOKS && item_state(item) == ITEM_INDEXED &&
	    !has_key(world, item, content_id(place->region->pages[page].expected)))
		add_page_event(world, EVENT_DELAYED, place, page);
	if (view->kind == PDD_PAGE_REFUSED || view->kind == PDD_PAGE_ABSENT)
		forget(world, watch);
	if (watch->owed && visit != VISIT_LOOKS && visit != VISIT_KEEPS &&
	    item_reason(item) == watch->owed_reason)
		sim_fail("pass %u does not look at page %d/%" PRIu64 ", which it has to: %s",
			 world->pass, (int)(place - world->places), page,
			 pdd_reason_name(item_reason(item)));
	if (visit == VISIT_LOOKS)
		looked_at(world, watch, item);
	else if (visit != VISIT_SKIPS)
		watch->skipped = 0;
	else if (++watch->skipped > 2 * pddi_max_period(&world->sim->scanner))
		sim_fail("page %d/%" PRIu64 " is not looked at any more",
			 (int)(place - world->places), page);
}

/* Pages [first, end) that lose their look, or perhaps only some of them: the others do not. */
static void miss(struct world *world, struct place *place, uint64_t first, uint64_t end)
{
	const struct pdd_scanner *scanner = &world->sim->scanner;

	place->busy = world->pass;
	for (uint64_t page = first; page < end; page++) {
		const struct pdd_item *item = sim_item(place->region, page);

		if ((item_state(item) == ITEM_SEEN || item_state(item) == ITEM_INDEXED) &&
		    !may_rest(world, item) && is_its_turn(scanner, item)) {
			place->pages[page].owed = true;
			place->pages[page].owed_reason = item_reason(item);
		}
	}
}

/* The page at which a walk ends, or turns to the first one. */
static uint64_t walk_end(const struct place *place)
{
	const struct pdd_walk *walk = &place->space->space.priv.walk;

	return walk->wrapped && walk->begin.region ? walk->begin.page : place->region->npages;
}

/* A space is locked: the pages that its walk has before it may lose their look. */
static void miss_walk(struct world *world, struct place *place)
{
	const struct pdd_walk *walk = &place->space->space.priv.walk;

	/* It is tried for its own sake only while its walk is not over. */
	if (walk->pass != world->sim->scanner.priv.epoch + 1 || !walk->at.region)
		return;
	miss(world, place, walk->at.page, walk_end(place));
	if (!walk->wrapped)
		miss(world, place, 0, walk->begin.page);
}

#endif
