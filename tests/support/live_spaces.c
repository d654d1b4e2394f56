/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_spaces.c - spaces and regions of live memory, which come, grow, shrink, are cloned and go.
 * Whoever changes one has its lock, as an owner; nobody else uses what is removed.
 */
#define _GNU_SOURCE

#include <stdlib.h>

#include "live_internal.h"

void live_space_lock(struct live_space *space)
{
	live_require(!live_me.in_scanner && !live_me.nreads && !live_me.writes,
		     "an owner waits for a space while it has other locks");
	pthread_rwlock_wrlock(&space->lock);
	live_me.writes = space;
}

void live_space_unlock(struct live_space *space)
{
	live_me.writes = NULL;
	pthread_rwlock_unlock(&space->lock);
}

struct live_space *live_space_add(struct live *live, uint32_t domain)
{
	struct live_space *space = live_allocate(1, sizeof(*space));
	pthread_rwlockattr_t attr;

	space->live = live;
	space->domain = domain;
	/* Else owners wait as long as steps follow each other. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&space->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	live_require(pdd_space_add(&live->scanner, &space->space, domain) == 0, "pdd_space_add");
	return space;
}

static struct live_region *add_region(struct live_space *space, struct live_region *region)
{
	unsigned number = 0;

	while (space->regions[number])
		number++;
	live_require(number < LIVE_REGIONS, "too many regions");
	region->space = space;
	live_require(pdd_region_add(&space->space, &region->region, 0, region->npages,
				    region->extents, region->items) == 0,
		     "pdd_region_add");
	space->regions[number] = region;
	return region;
}

static struct live_region *new_region(uint64_t npages, bool sparse)
{
	struct live_region *region = live_allocate(1, sizeof(*region));

	live_require(pdd_region_extents(npages) <= LIVE_EXTENTS, "too many pages");
	region->npages = region->capacity = npages;
	region->pages = live_allocate(npages, sizeof(*region->pages));
	region->words = live_allocate(npages, sizeof(*region->words) * LIVE_WORDS);
	if (!sparse) {
		region->extents =
			live_allocate(pdd_region_extents(npages), sizeof(*region->extents));
		region->items = live_allocate(npages, sizeof(*region->items));
	}
	return region;
}

struct live_region *live_region_add(struct live_space *space, uint64_t npages, bool sparse)
{
	return add_region(space, new_region(npages, sparse));
}

/* The memory of pages from this one on goes away. */
static void drop_pages(struct live_region *region, uint64_t from)
{
	for (uint64_t i = from; i < region->npages; i++) {
		struct live_page *page = &region->pages[i];

		live_page_lock(page);
		live_require(!page->held, "a page of a locked space is held");
		live_drop_frame(region->space->live, page);
		page->kind = PDD_PAGE_ABSENT;
		page->content = 0;
		page->kept_out = LIVE_OPEN;
		live_page_unlock(page);
	}
}

void live_region_resize(struct live_region *region, uint64_t npages)
{
	drop_pages(region, npages);
	live_require(pdd_region_resize(&region->region, npages) == 0, "pdd_region_resize");
	region->npages = npages;
}

void live_region_remove(struct live_space *space, unsigned number)
{
	struct live_region *region = space->regions[number];

	drop_pages(region, 0);
	live_require(pdd_region_remove(&region->region) == 0, "pdd_region_remove");
	live_require(atomic_load(&region->nblocks) == 0, "an extent did not come back");
	space->regions[number] = NULL;
	free(region->pages);
	free((void *)(uintptr_t)region->words);
	free(region->extents);
	free(region->items);
	free(region);
}

void live_space_remove(struct live_space *space)
{
	live_space_lock(space);
	for (unsigned r = 0; r < LIVE_REGIONS; r++)
		if (space->regions[r])
			live_region_remove(space, r);
	live_require(pdd_space_remove(&space->space) == 0, "pdd_space_remove");
	live_space_unlock(space);
	for (unsigned r = 0; r < LIVE_REGIONS; r++)
		live_require(pdd_object_regions(&space->objects[r]) == 0, "an object has regions");
	pthread_rwlock_destroy(&space->lock);
	free(space);
}

/* A page of a clone shows what the page shows; both belong to nobody else now, or are locked. */
static void clone_page(struct live_region *to, struct live_region *from, uint64_t number)
{
	struct live_page *source = &from->pages[number], *page = &to->pages[number];

	live_page_lock(source);
	page->kind = source->kind;
	page->content = source->content;
	page->frame = source->frame;
	page->cloned = page->kind == PDD_PAGE_SHARED || page->kind == PDD_PAGE_ZERO;
	if (page->frame) {
		atomic_fetch_add(&page->frame->maps, 1);
		atomic_fetch_add(&page->frame->refs, 1);
	}
	for (unsigned i = 0; page->kind == PDD_PAGE_PRIVATE && i < LIVE_WORDS; i++)
		live_set_word(to, number, i, live_shown_word(from, number, i));
	live_page_unlock(source);
}

struct live_space *live_space_clone(struct live_space *space)
{
	struct live_space *clone = live_space_add(space->live, space->domain);

	for (unsigned r = 0; r < LIVE_REGIONS; r++) {
		struct live_region *region = space->regions[r], *copy;
		struct pdd_object *object = region ? region->region.priv.object : NULL;

		if (!region)
			continue;
		copy = new_region(region->npages, !region->extents);
		for (uint64_t i = 0; i < region->npages; i++)
			clone_page(copy, region, i);
		add_region(clone, copy);
		if (object)
			live_require(pdd_region_attach(&copy->region, object, 0) == 0,
				     "pdd_region_attach");
	}
	return clone;
}
