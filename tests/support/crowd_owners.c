/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd_owners.c - owners of spaces and regions: they add and remove, clone, resize, pin, exclude,
 * unmerge, discard, prune and retune, in the middle of what others do.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "crowd.h"

#define PAGES_MAX 1500u

static void add_region(struct live_space *space)
{
	struct live_region *region =
		live_region_add(space, 1 + live_random(PAGES_MAX), live_random(3) == 0);
	unsigned number = 0;

	while (space->regions[number] != region)
		number++;
	if (crowd.live->options.clones && !pdd_object_regions(&space->objects[number]))
		live_require(pdd_region_attach(&region->region, &space->objects[number], 0) == 0,
			     "pdd_region_attach");
	for (uint64_t i = 0; i < region->npages; i++)
		if (!crowd_is_hole(region, i))
			live_set(region, i,
				 live_random(4) ? live_random(LIVE_CONTENTS)
						: live_random(1u << 20) * LIVE_CONTENTS + 1);
}

void crowd_add_space(void)
{
	unsigned number = (unsigned)live_random(CROWD_SPACES);

	if (crowd.spaces[number])
		return;
	crowd.spaces[number] = live_space_add(crowd.live, (uint32_t)live_random(2));
	live_space_lock(crowd.spaces[number]);
	add_region(crowd.spaces[number]);
	live_space_unlock(crowd.spaces[number]);
}

bool crowd_is_cloned(const struct live_space *space)
{
	for (unsigned r = 0; r < LIVE_REGIONS; r++) {
		uint64_t own = space->regions[r] &&
			       space->regions[r]->region.priv.object == &space->objects[r];

		if (pdd_object_regions(&space->objects[r]) != own)
			return true;
	}
	return false;
}

static void remove_space(void)
{
	unsigned number = (unsigned)live_random(CROWD_SPACES);

	if (!crowd.spaces[number] || crowd_is_cloned(crowd.spaces[number]))
		return;
	live_space_remove(crowd.spaces[number]);
	crowd.spaces[number] = NULL;
}

static void clone_space(void)
{
	struct live_space *space = crowd_any_space();
	unsigned number = (unsigned)live_random(CROWD_SPACES);

	if (!space || crowd.spaces[number] || !crowd.live->options.clones)
		return;
	live_space_lock(space);
	crowd.spaces[number] = live_space_clone(space);
	live_space_unlock(space);
}

static void reorganise(void)
{
	struct live_space *space = crowd_any_space();
	unsigned number = (unsigned)live_random(LIVE_REGIONS);

	switch (live_random(6)) {
	case 0:
		crowd_add_space();
		return;
	case 1:
		remove_space();
		return;
	case 2:
		clone_space();
		return;
	default:
		break;
	}
	if (!space)
		return;
	live_space_lock(space);
	if (!space->regions[number])
		add_region(space);
	else if (live_random(2))
		live_region_remove(space, number);
	else
		live_region_resize(space->regions[number],
				   1 + live_random(space->regions[number]->capacity));
	live_space_unlock(space);
}

static void keep_out(struct live_region *region, uint64_t first, uint64_t n)
{
	bool pin = live_random(2);
	int err;

	for (uint64_t i = first; i < first + n; i++)
		if (region->pages[i].kept_out)
			return;
	err = pin ? pdd_region_pin(&region->region, first, n)
		  : pdd_region_exclude(&region->region, first, n);
	for (uint64_t i = first; !err && i < first + n; i++) {
		live_page_lock(&region->pages[i]);
		live_require(region->pages[i].kind == PDD_PAGE_PRIVATE ||
				     region->pages[i].kind == PDD_PAGE_ABSENT,
			     "a page that is kept out has no memory of its own");
		live_page_unlock(&region->pages[i]);
		region->pages[i].kept_out = pin ? LIVE_PINNED : LIVE_EXCLUDED;
	}
	live_require(!err || crowd.live->options.failures, "a page cannot be kept out");
}

/* Undo it for the pages from the first on that are kept out alike. */
static void let_in(struct live_region *region, uint64_t first)
{
	uint8_t how = region->pages[first].kept_out;
	uint64_t n = 0;
	int err;

	for (; how && first + n < region->npages && region->pages[first + n].kept_out == how; n++)
		region->pages[first + n].kept_out = LIVE_OPEN;
	if (!how)
		return;
	err = how == LIVE_PINNED ? pdd_region_unpin(&region->region, first, n)
				 : pdd_region_include(&region->region, first, n);
	live_require(!err, "a page cannot be let in");
}

static void use_region(struct live_region *region)
{
	uint64_t first = live_random(region->npages), n = 1 + live_random(100);
	int64_t done = 0;

	if (n > region->npages - first)
		n = region->npages - first;
	switch (live_random(6)) {
	case 0:
	case 1:
		keep_out(region, first, n);
		break;
	case 2:
	case 3:
		let_in(region, first);
		break;
	case 4:
		done = pdd_region_unmerge(&region->region, first, n, n);
		break;
	default:
		done = pdd_region_discard(&region->region, first, n);
		break;
	}
	live_require(done >= 0 || done == -EBUSY || crowd.live->options.failures,
		     "an owner's call failed");
}

int crowd_retune(void)
{
	struct pdd_tunables tunables = {.size = sizeof(tunables)};

	live_require(pdd_scanner_get_tunables(&crowd.live->scanner, &tunables) == 0,
		     "get_tunables");
	tunables.max_page_sharing = live_random(2) ? 2 + (uint32_t)live_random(6) : 256;
	tunables.chain_prune_ms = live_random(2) ? 0 : 5;
	tunables.use_zero_pages = (uint32_t)live_random(2);
	tunables.aging = live_random(2) ? PDD_AGING_NONE : PDD_AGING_PHASE;
	tunables.one_look = live_random(4) == 0;
	tunables.index = live_random(4) ? PDD_INDEX_RETAINED : PDD_INDEX_REBUILT;
	return pdd_scanner_set_tunables(&crowd.live->scanner, &tunables);
}

static void retune_now(void)
{
	int err = crowd_retune();

	live_require(err == 0 || err == -EAGAIN, "pdd_scanner_set_tunables");
}

static void own_space(struct live_space *space)
{
	struct live_region *region;

	if (!space)
		return;
	live_space_lock(space);
	region = crowd_any_region(space);
	if (region)
		use_region(region);
	else if (live_random(4) == 0)
		(void)pdd_space_unmerge(&space->space, 1 + live_random(1000));
	live_space_unlock(space);
}

void *crowd_run_owner(void *arg)
{
	live_thread_begin(crowd.live, (unsigned)(uintptr_t)arg);
	while (!crowd_is_over()) {
		uint64_t dice = live_random(32);
		bool all = dice < 4;

		if (all)
			pthread_rwlock_wrlock(&crowd.table);
		else
			pthread_rwlock_rdlock(&crowd.table);
		if (all)
			reorganise();
		else if (dice == 4)
			live_require(pdd_scanner_prune(&crowd.live->scanner) == 0,
				     "pdd_scanner_prune");
		else if (dice == 5)
			retune_now();
		else
			own_space(crowd_any_space());
		pthread_rwlock_unlock(&crowd.table);
		crowd_count(&crowd.nops);
		for (uint64_t n = live_random(30); n; n--)
			sched_yield();
	}
	return NULL;
}
