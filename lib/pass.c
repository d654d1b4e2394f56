/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pass.c - in which order a pass comes by pages.
 *
 * Each space has a walk: its regions in the order in which they were added. Walks follow each other
 * in the order of the spaces. What changes that is a space whose lock is taken:
 *
 *  - Its walk is put off, and the pass goes on with the next space. After each extent that it comes
 *    by then it tries one walk that was put off, in turn, and takes one extent of it.
 *  - When nothing else is left, each walk that was put off goes to its end: an extent is either
 *    come by, or missed (look.c: a page that loses its look is due).
 *  - The next pass begins with the spaces of which pages were missed, as if they had been put off:
 *    one of them is tried after each extent from the start. Their walks begin with the first page
 *    that was missed, go to the end, and then from the first page on.
 *
 * Why that order. Locks are held for times that are long compared with a try. A pass that tried all
 * extents of a space one after the other would try them all within one hold; and if each pass began
 * at the first page, those in the gaps between two holds would always be the same. So tries are
 * spread over the whole pass, and what was missed comes first. With a lock that is free a seventh
 * of the time, each of 32 extents gets its look in some 30 passes; without this some waited for
 * more than 400 (bench_contention).
 *
 * Invariants
 *  1. A pass comes by each page of each region that was there when it began exactly once: pages
 *     that come during a pass are left to the next one, so it ends however fast they come.
 *  2. The places that walks keep (at, begin, resume) are pages of regions of their space, or NULL,
 *     which is behind the last. pddi_pass_clip() moves them off pages that go, to what stands
 *     behind these; so what is left of a walk stays the same.
 *  3. The lists of those that are put off and of those that were missed contain no others. When a
 *     pass begins the first is made of the second.
 *
 * Complexity: O(1) for each stop, O(spaces + regions) in all for each pass, O(spaces that are busy)
 * when a space is removed.
 */
#include "scanner_internal.h"

/* ---- regions and places of a space ---- */

/* The first region from this one on that the pass comes by; NULL if there is none. */
static struct pdd_region *eligible(const struct pdd_scanner *scanner, struct pdd_region *region)
{
	while (region && region->priv.first_pass > scanner->priv.epoch)
		region = region->priv.next;
	return region;
}

static struct pdd_place first_of(const struct pdd_scanner *scanner, const struct pdd_space *space)
{
	return (struct pdd_place){ .region = eligible(scanner, space->priv.regions) };
}

uint64_t pddi_region_pass_pages(const struct pdd_region *region)
{
	const struct pdd_scanner *scanner = region->priv.space->priv.scanner;
	uint64_t npages = region->priv.npages;

	if (scanner->priv.in_pass && region->priv.grown_pass == scanner->priv.epoch + 1 &&
	    region->priv.pass_pages < npages)
		return region->priv.pass_pages;
	return npages;
}

/* Behind the last page of a region that the pass comes by, the place is in the next one. */
static void normalise(const struct pdd_scanner *scanner, struct pdd_place *place)
{
	while (place->region && place->page >= pddi_region_pass_pages(place->region)) {
		place->region = eligible(scanner, place->region->priv.next);
		place->page = 0;
	}
}

static void clip(struct pdd_place *place, const struct pdd_region *region, uint64_t end)
{
	if (place->region != region || place->page < end)
		return;
	place->region = eligible(region->priv.space->priv.scanner, region->priv.next);
	place->page = 0;
}

static void clip_again(struct pdd_scanner *scanner, const struct pdd_region *region, uint64_t end)
{
	struct pdd_place *again = scanner->priv.again;
	uint32_t left = 0;

	for (uint32_t i = 0; i < scanner->priv.nagain; i++)
		if (again[i].region != region || again[i].page < end)
			again[left++] = again[i];
	scanner->priv.nagain = left;
}

void pddi_pass_clip(const struct pdd_region *region, uint64_t end)
{
	struct pdd_walk *walk = &region->priv.space->priv.walk;

	clip(&walk->at, region, end);
	clip(&walk->begin, region, end);
	clip(&walk->resume, region, end);
	clip_again(region->priv.space->priv.scanner, region, end);
}

/* ---- walks ---- */

static void begin_walk(const struct pdd_scanner *scanner, struct pdd_space *space)
{
	struct pdd_walk *walk = &space->priv.walk;

	walk->pass = scanner->priv.epoch + 1;
	walk->at = walk->resume.region ? walk->resume : first_of(scanner, space);
	walk->begin = walk->resume;
	walk->resume = (struct pdd_place){ 0 };
	walk->missed = false;
	/* From the first page on there is nothing to come back for. */
	walk->wrapped = !walk->begin.region;
}

/* Where a walk goes on, and before which page of that region it stops; false: it is over. */
static bool walk_on(const struct pdd_scanner *scanner, struct pdd_space *space, uint64_t *end)
{
	struct pdd_walk *walk = &space->priv.walk;

	normalise(scanner, &walk->at);
	if (!walk->at.region && !walk->wrapped) {
		walk->wrapped = true;
		walk->at = first_of(scanner, space);
	}
	if (!walk->at.region)
		return false;
	*end = pddi_region_pass_pages(walk->at.region);
	if (walk->wrapped && walk->at.region == walk->begin.region && walk->begin.page < *end)
		*end = walk->begin.page;
	return walk->at.page < *end;
}

static void walk_next_space(struct pdd_scanner *scanner)
{
	scanner->priv.walking = scanner->priv.walking->priv.next;
	scanner->priv.walk_begun = false;
}

/* ---- walks that are put off ---- */

static void put_off(struct pdd_scanner *scanner, struct pdd_space *space)
{
	space->priv.walk.next = NULL;
	if (scanner->priv.put_off)
		scanner->priv.put_off_last->priv.walk.next = space;
	else
		scanner->priv.put_off = space;
	scanner->priv.put_off_last = space;
}

static struct pdd_space *take_up(struct pdd_scanner *scanner)
{
	struct pdd_space *space = scanner->priv.put_off;

	scanner->priv.put_off = space->priv.walk.next;
	return space;
}

static void forget_put_off(struct pdd_scanner *scanner, const struct pdd_space *space)
{
	struct pdd_space *last = NULL, **link = &scanner->priv.put_off;

	while (*link && *link != space) {
		last = *link;
		link = &last->priv.walk.next;
	}
	if (!*link)
		return;
	*link = space->priv.walk.next;
	if (scanner->priv.put_off_last == space)
		scanner->priv.put_off_last = last;
}

static void forget_missed(struct pdd_scanner *scanner, const struct pdd_space *space)
{
	struct pdd_space **link = &scanner->priv.missed;

	while (*link && *link != space)
		link = &(*link)->priv.walk.next_missed;
	if (*link)
		*link = space->priv.walk.next_missed;
}

void pddi_pass_forget(struct pdd_scanner *scanner, const struct pdd_space *space)
{
	if (scanner->priv.walking == space)
		walk_next_space(scanner);
	forget_put_off(scanner, space);
	forget_missed(scanner, space);
}

/* ---- the pass ---- */

static bool has_pages(const struct pdd_scanner *scanner, const struct pdd_space *space)
{
	while (space && !first_of(scanner, space).region)
		space = space->priv.next;
	return space;
}

bool pddi_pass_begin(struct pdd_scanner *scanner)
{
	if (!has_pages(scanner, scanner->priv.spaces))
		return false;
	scanner->priv.walking = scanner->priv.spaces;
	scanner->priv.walk_begun = false;
	scanner->priv.walk_last = false;
	scanner->priv.put_off = NULL;
	for (struct pdd_space *space = scanner->priv.missed; space;
	     space = space->priv.walk.next_missed) {
		begin_walk(scanner, space);
		put_off(scanner, space);
	}
	scanner->priv.missed = NULL;
	scanner->priv.is_turn = true;
	scanner->priv.in_pass = true;
	return true;
}

static struct pddi_stop stop_at(const struct pdd_space *space, uint64_t end)
{
	return (struct pddi_stop){
		.region = space->priv.walk.at.region,
		.first = space->priv.walk.at.page,
		.end = end,
	};
}

/* Where the walk that is under way goes on, or that of the next space. */
static bool next_in_order(struct pdd_scanner *scanner, struct pddi_stop *stop)
{
	uint64_t end;

	for (; scanner->priv.walking; walk_next_space(scanner)) {
		if (!scanner->priv.walk_begun &&
		    scanner->priv.walking->priv.walk.pass == scanner->priv.epoch + 1)
			continue; /* it was missed, and is among those that are put off */
		if (!scanner->priv.walk_begun)
			begin_walk(scanner, scanner->priv.walking);
		scanner->priv.walk_begun = true;
		if (walk_on(scanner, scanner->priv.walking, &end)) {
			*stop = stop_at(scanner->priv.walking, end);
			return true;
		}
	}
	return false;
}

/* Where the first of the walks that were put off goes on. */
static bool next_put_off(struct pdd_scanner *scanner, struct pddi_stop *stop, bool last_try)
{
	uint64_t end;

	for (; scanner->priv.put_off; take_up(scanner)) {
		if (walk_on(scanner, scanner->priv.put_off, &end)) {
			*stop = stop_at(scanner->priv.put_off, end);
			stop->was_put_off = true;
			stop->last_try = last_try;
			return true;
		}
	}
	return false;
}

bool pddi_pass_next(struct pdd_scanner *scanner, struct pddi_stop *stop)
{
	bool more = next_in_order(scanner, stop);

	if (more && !scanner->priv.is_turn)
		return true;
	return next_put_off(scanner, stop, !more) || more;
}

/* The pass came by the pages of a stop up to this one. */
static void go_on(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page)
{
	struct pdd_walk *walk = &stop->region->priv.space->priv.walk;

	walk->at.page = page;
	if (walk->at.page == pddi_region_pass_pages(stop->region))
		normalise(scanner, &walk->at);
}

void pddi_pass_came_by(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page)
{
	go_on(scanner, stop, page);
	scanner->priv.is_turn = !stop->was_put_off;
	if (stop->was_put_off && !stop->last_try)
		put_off(scanner, take_up(scanner));
}

void pddi_pass_skip(const struct pddi_stop *stop, uint64_t from, uint64_t to)
{
	struct pdd_place *at = &stop->region->priv.space->priv.walk.at;

	if (at->region != stop->region || at->page < from || at->page >= to)
		return;
	/* A hole may reach over the place with which the walk began. */
	at->page = to < stop->end ? to : stop->end;
	normalise(stop->region->priv.space->priv.scanner, at);
}

/* Whether the walk under way is the last one in order. That stays so: what comes now is left to the
 * next pass. */
static bool is_last_walk(struct pdd_scanner *scanner)
{
	if (!scanner->priv.walk_last)
		scanner->priv.walk_last =
			!has_pages(scanner, scanner->priv.walking->priv.next);
	return scanner->priv.walk_last;
}

bool pddi_pass_put_off(struct pdd_scanner *scanner, const struct pddi_stop *stop)
{
	struct pdd_space *space = stop->region->priv.space;

	if (stop->last_try ||
	    (!stop->was_put_off && !scanner->priv.put_off && is_last_walk(scanner)))
		return false;
	scanner->priv.is_turn = false;
	if (stop->was_put_off)
		(void)take_up(scanner);
	else
		walk_next_space(scanner);
	put_off(scanner, space);
	return true;
}

void pddi_pass_missed(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page)
{
	struct pdd_walk *walk = &stop->region->priv.space->priv.walk;

	if (!walk->missed) {
		walk->missed = true;
		walk->resume = walk->at;
		walk->next_missed = scanner->priv.missed;
		scanner->priv.missed = stop->region->priv.space;
	}
	go_on(scanner, stop, page);
}

/* ---- once more ---- */

void pddi_pass_again(struct pdd_scanner *scanner, struct pdd_region *region, uint64_t page)
{
	struct pdd_place place = { region, page - page % PDD_EXTENT_PAGES };

	if (scanner->priv.nagain == PDD_AGAIN_MAX || scanner->priv.coming_again)
		return;
	for (uint32_t i = scanner->priv.nagain; i-- > 0;)
		if (scanner->priv.again[i].region == region &&
		    scanner->priv.again[i].page / PDD_EXTENT_PAGES == page / PDD_EXTENT_PAGES)
			return;
	scanner->priv.again[scanner->priv.nagain++] = place;
}

bool pddi_pass_next_again(const struct pdd_scanner *scanner, struct pddi_stop *stop)
{
	const struct pdd_place *place;
	uint64_t end, npages;

	if (!scanner->priv.nagain)
		return false;
	place = &scanner->priv.again[scanner->priv.nagain - 1];
	npages = pddi_region_pass_pages(place->region);
	end = place->page - place->page % PDD_EXTENT_PAGES + PDD_EXTENT_PAGES;
	*stop = (struct pddi_stop){
		.region = place->region,
		.first = place->page,
		.end = end < npages ? end : npages,
	};
	return true;
}

void pddi_pass_take_again(struct pdd_scanner *scanner, const struct pddi_stop *stop, uint64_t page)
{
	struct pdd_place *place = &scanner->priv.again[scanner->priv.nagain - 1];

	place->page = page;
	scanner->priv.nagain -= page >= stop->end;
}
