/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_hooks.c - the hooks of live memory that lock, describe, and give back; live_frames.c has
 * those that hold pages and make frames.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "live_internal.h"

/* ---- locks ---- */

static void lock(void *ctx)
{
	struct live *live = ctx;

	live_require(!live_me.in_scanner, "the scanner's lock is taken twice");
	live_let_others(live);
	pthread_mutex_lock(&live->lock);
	live_me.in_scanner = true;
}

static void unlock(void *ctx)
{
	struct live *live = ctx;

	live_require(live_me.in_scanner, "the scanner's lock is released, but not held");
	live_me.in_scanner = false;
	pthread_mutex_unlock(&live->lock);
	live_let_others(live);
}

static bool space_trylock(void *ctx, struct pdd_space *pdd_space)
{
	struct live *live = ctx;
	struct live_space *space = space_of(pdd_space);

	live_enter(live, false);
	live_require(!live_is_mine(space), "a space is tried that this thread has locked");
	live_require(live_me.nreads < 2, "more than two spaces are locked");
	if (live_me.writes == space || live_fails(live) || pthread_rwlock_tryrdlock(&space->lock))
		return false;
	live_me.reads[live_me.nreads++] = space;
	return true;
}

static void space_unlock(void *ctx, struct pdd_space *pdd_space)
{
	struct live_space *space = space_of(pdd_space);

	live_enter(ctx, false);
	live_require(live_me.nreads && live_me.reads[live_me.nreads - 1] == space,
		     "spaces are not unlocked in reverse order");
	live_require(live_me.nreads > 1 || !live_me.nused,
		     "a step leaves an extent while pages are got or held");
	live_me.nreads--;
	pthread_rwlock_unlock(&space->lock);
}

/* ---- what stands there ---- */

/* A last view of absent pages reaches beyond the range, as far as can be seen without waiting.
 * Where it ends. */
static uint64_t reach_out(struct live_region *region, struct pdd_view *view, uint64_t end)
{
	for (bool absent = view->kind == PDD_PAGE_ABSENT; absent && end < region->npages; end++) {
		struct live_page *page = &region->pages[end];
		unsigned none = 0;

		if (page->kept_out ||
		    !atomic_compare_exchange_strong(&page->lock, &none, live_me.number))
			break;
		absent = page->kind == PDD_PAGE_ABSENT;
		live_page_unlock(page);
		view->npages += absent;
		if (!absent)
			break;
	}
	return end;
}

static int pages_get(void *ctx, struct pdd_region *pdd_region, struct pdd_view *views,
		     uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);
	uint64_t i = 0, asked = npages, end;
	uint32_t n = 0;

	live_enter(live, npages > 1);
	live_check_range(region, first, npages, true);
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	live_use(region, first, npages);
	for (bool room = true; i < npages && room; i += room) {
		struct live_page *page = &region->pages[first + i];

		live_require(!page->held, "a held page is got");
		live_page_lock(page);
		room = live_append(views, &n, nviews, live_view_of(region, first + i));
		live_page_unlock(page);
	}
	if (i < npages) {
		live_end_use(region, first, npages - i);
		return (int)n;
	}
	end = reach_out(region, &views[n - 1], first + npages);
	if (end > first + npages) /* the range asked for is described at most */
		live_use(region, first, (end - first < asked ? end - first : asked) - npages);
	return (int)n;
}

static void pages_put(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct live_region *region = region_of(pdd_region);

	live_enter(ctx, npages > 1);
	live_check_range(region, first, npages, true);
	live_end_use(region, first, npages);
}

/* The answer may be lost, and then counts as "all". */
static int64_t pages_written(void *ctx, struct pdd_region *pdd_region, uint64_t *bits,
			     uint64_t first, uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);

	live_enter(live, true);
	live_require(live_is_mine(region->space), "a hook is called without its space's lock");
	live_require(npages && npages <= region->npages - first, "a range leaves its region");
	npages = live_part(live, npages);
	for (uint64_t i = 0; i < npages; i++)
		if (atomic_exchange(&region->pages[first + i].written, false))
			bits[i / 64] |= UINT64_C(1) << i % 64;
	live_let_others(live);
	return live_fails(live) ? -EIO : (int64_t)npages;
}

/* ---- others ---- */

static int64_t pages_discard(void *ctx, struct pdd_region *pdd_region, uint64_t first,
			     uint64_t npages)
{
	struct live *live = ctx;
	struct live_region *region = region_of(pdd_region);

	live_enter(live, true);
	live_require(live_me.writes == region->space, "pages are discarded in a step");
	live_require(npages && npages <= region->npages - first, "a range leaves its region");
	if (live_fails(live))
		return live_an_errno();
	npages = live_part(live, npages);
	for (uint64_t i = first; i < first + npages; i++) {
		struct live_page *page = &region->pages[i];

		live_page_lock(page);
		live_drop_frame(live, page);
		page->kind = PDD_PAGE_ABSENT;
		page->content = 0;
		live_page_unlock(page);
	}
	return (int64_t)npages;
}

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *pdd_region,
					   uint64_t number)
{
	struct live_region *region = region_of(pdd_region);
	struct pdd_extent_block *block;

	live_enter(ctx, true);
	live_require(!region->extents && number < pdd_region_extents(region->npages),
		     "an extent is asked for that cannot be");
	if (live_fails(ctx))
		return NULL;
	block = calloc(1, sizeof(*block));
	live_require(block, "out of memory");
	atomic_fetch_add(&region->nblocks, 1);
	return block;
}

static void extent_put(void *ctx, struct pdd_region *pdd_region, uint64_t number,
		       struct pdd_extent_block *block)
{
	struct live_region *region = region_of(pdd_region);

	live_enter(ctx, true);
	live_require(block->extent.priv.number == number &&
			     atomic_fetch_sub(&region->nblocks, 1) > 0,
		     "an extent comes back that is not out");
	memset(block, 0xa5, sizeof(*block));
	free(block);
}

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const _Atomic(uint64_t) *words = content;
	uint64_t sum = 0;

	live_enter(ctx, false);
	for (unsigned i = 0; i < LIVE_WORDS; i++)
		sum = sum * 31 + atomic_load_explicit(&words[i], memory_order_relaxed);
	*value = (sum ^ sum >> 32) & 3;
	return 0;
}

static uint64_t now_ns(void *ctx)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const struct pdd_ops live_ops = {
	.size = sizeof(live_ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = pages_put,
	.hold = live_hold,
	.release = live_release,
	.frames_create = live_frames_create,
	.frames_map = live_frames_map,
	.frames_unmap = live_frames_unmap,
	.frame_content = live_frame_content,
	.frame_free = live_frame_free,
	.zero_map = live_zero_map,
	.checksum = checksum,
	.now_ns = now_ns,
	.frame_is_mapped = live_frame_is_mapped,
	.frames_remap = live_frames_remap,
	.pages_discard = pages_discard,
	.extent_get = extent_get,
	.extent_put = extent_put,
	.pages_written = pages_written,
	.lock = lock,
	.unlock = unlock,
};
