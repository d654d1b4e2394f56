/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interleaved_deeds.h - what another thread does where it comes in: it steps, prunes, walks frames
 * in reverse, or does what owners do, to spaces that the first thread has not locked.
 */
#ifndef PDD_TEST_INTERLEAVED_DEEDS_H
#define PDD_TEST_INTERLEAVED_DEEDS_H

#include <errno.h>

#include "interleaved.h"

#define ROOM 20u
#define ALL UINT64_MAX
#define NTOLD 256u

/* ---- reverse walks ---- */

struct told {
	const struct pdd_region *region;
	uint64_t page;
};

struct walk {
	struct told sharers[NTOLD]; /* when it begins */
	struct told told[NTOLD];
	unsigned nsharers, ntold;
};

static bool note(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	struct walk *walk = ctx;

	if (mapping == PDD_MAPPING_SHARER)
		walk->told[walk->ntold++] = (struct told){region, page};
	return true;
}

/* Who was a sharer all the time is told of, once. */
static void check_told(const struct sim_frame *frame, const struct walk *walk)
{
	for (const struct pdd_item *item = frame->frame.priv.sharers; item;
	     item = item->priv.node.u.member.next) {
		unsigned times = 0;
		bool before = false;

		for (unsigned i = 0; i < walk->nsharers; i++)
			before |= walk->sharers[i].region == item->priv.region &&
				  walk->sharers[i].page == item_page(item);
		for (unsigned i = 0; i < walk->ntold; i++)
			times += walk->told[i].region == item->priv.region &&
				 walk->told[i].page == item_page(item);
		if (before && times != 1)
			sim_fail("a walk tells %u times of a sharer", times);
	}
}

static void walk_frame(struct sim *sim, struct sim_frame *frame)
{
	static struct walk walks[2]; /* one of each thread */
	struct walk *walk = &walks[plan.inside];
	struct pdd_rmap_room room[2];

	walk->nsharers = walk->ntold = 0;
	for (const struct pdd_item *item = frame->frame.priv.sharers; item;
	     item = item->priv.node.u.member.next)
		walk->sharers[walk->nsharers++] = (struct told){item->priv.region, item_page(item)};
	sim->stepping = true; /* its hooks are called as in a step */
	if (pdd_rmap_walk(&sim->scanner, NULL, &frame->frame, room, 2, note, walk))
		sim_fail("pdd_rmap_walk failed");
	sim->stepping = false;
	if (!frame->dropped)
		check_told(frame, walk);
}

/* A frame that has sharers: not one that is being founded, or about to go. */
static struct sim_frame *a_frame(const struct sim *sim, uint64_t number)
{
	struct sim_frame *found = NULL;

	for (struct sim_frame *frame = sim->frames; frame; frame = frame->next)
		if (!frame->dropped && pdd_frame_sharers(&frame->frame) && number-- % 3 == 0)
			found = frame;
	return found;
}

/* ---- what the other thread does ---- */

static void step_extent(struct sim *sim)
{
	step_of(sim, plan.worker, PDD_EXTENT_PAGES);
}

static void step_all(struct sim *sim)
{
	step_of(sim, plan.worker, ALL);
}

/* Until there is nothing to do but wait, or two passes are over. */
static void step_on(struct sim *sim)
{
	for (unsigned passes = 0, n = 0; passes < 2; n++) {
		enum pdd_step result = step_of(sim, plan.worker, 9);

		if (result == PDD_STEP_WAIT || result == PDD_STEP_IDLE)
			break;
		passes += result == PDD_STEP_PASS;
		if (n == 1000)
			sim_fail("passes do not end");
	}
}

static void walk(struct sim *sim)
{
	struct sim_frame *frame = a_frame(sim, plan.at);

	if (frame)
		walk_frame(sim, frame);
}

static void prune(struct sim *sim)
{
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	step_of(sim, plan.worker, plan.at % 2 ? ALL : 3);
}

/* A region of a space that nobody has locked; a different one at different points. */
static struct sim_region *a_region(struct sim *sim)
{
	struct sim_region *found = NULL;
	uint64_t skip = plan.at % 4;

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		for (struct sim_region *r = space->regions; r && !is_locked(space); r = r->next)
			if (!found || skip-- > 0)
				found = r;
	return found;
}

static void after_owner(struct sim *sim)
{
	if (plan.at % 2)
		step_all(sim);
}

static void remove_region(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region)
		sim_region_remove(region);
	after_owner(sim);
}

static void pin(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region)
		assert_int_equal(pdd_region_pin(&region->region, 0, region->npages / 2), 0);
	for (uint64_t i = 0; region && i < region->npages / 2; i++)
		assert_true(region->pages[i].kind == PDD_PAGE_PRIVATE ||
			    region->pages[i].kind == PDD_PAGE_ABSENT);
	after_owner(sim);
}

static void exclude_some(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region)
		assert_int_equal(pdd_region_exclude(&region->region, region->npages / 2, 3), 0);
	after_owner(sim);
	if (region)
		assert_int_equal(pdd_region_include(&region->region, region->npages / 2, 2), 0);
}

static void discard(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region) {
		int err = pdd_region_discard(&region->region, 2, region->npages - 4);

		assert_true(err == 0 || err == -EBUSY); /* some may be pinned */
	}
	after_owner(sim);
}

static void unmerge(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region)
		assert_true(pdd_region_unmerge(&region->region, 0, region->npages, ALL) >= 0);
	after_owner(sim);
}

static void resize(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region)
		sim_region_resize(region, plan.at / 4 % 2 ? ROOM : 5);
	after_owner(sim);
	if (region)
		sim_region_resize(region, 10);
}

static void clone(struct sim *sim)
{
	struct sim_region *region = a_region(sim);

	if (region && !sim->options.no_clones)
		sim_space_clone(region->space);
	after_owner(sim);
}

#endif
