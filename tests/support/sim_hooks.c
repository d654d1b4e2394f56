/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim_hooks.c - the hooks of simulated memory, and the contract of ops.h checked at each call.
 *
 * A held page's bytes are moved to a staging place and its own memory is poisoned, so that reading
 * it by its address shows at once. A write to it waits and is done when the hold ends.
 */
#include "sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define POISON 0xa5

static struct sim_region *region_of(struct pdd_region *region)
{
	return (struct sim_region *)(void *)region; /* first member */
}

static struct sim_space *space_of(struct pdd_space *space)
{
	return (struct sim_space *)(void *)space;
}

static struct sim_frame *frame_of_sim(struct pdd_frame *frame)
{
	return (struct sim_frame *)(void *)frame;
}

/* ---- what is common to all hooks ---- */

/* Hooks that may be called with the scanner's lock held; some of them for one page only. */
static bool may_lock(enum sim_hook hook, uint64_t npages)
{
	switch (hook) {
	case SIM_TRYLOCK:
	case SIM_UNLOCK:
	case SIM_FRAME_CONTENT:
	case SIM_FRAME_IS_MAPPED:
	case SIM_CHECKSUM: return true;
	case SIM_PAGES_GET:
	case SIM_PAGES_PUT: return npages <= 1;
	default: return false;
	}
}

static void enter(struct sim *sim, enum sim_hook hook, uint64_t npages)
{
	if (sim->scanner_locked && !may_lock(hook, npages))
		sim_fail("hook %d is called with the scanner's lock held", (int)hook);
	sim->calls[hook]++;
	if (npages)
		sim->now += sim->ns_per_hook + npages * sim->ns_per_page;
	if (sim->at)
		sim->at(sim, hook, true);
}

static void leave(struct sim *sim, enum sim_hook hook)
{
	if (sim->at)
		sim->at(sim, hook, false);
}

static bool roll(struct sim *sim, double chance)
{
	return chance > 0 && (double)(sim_random(sim, 1u << 30)) < chance * (1u << 30);
}

/* Whether this call of a fallible hook is to fail. */
static bool fails(struct sim *sim, enum sim_hook hook)
{
	bool failed;

	sim->cut_short = false;
	if (!(sim->fail_mask >> hook & 1) || sim->verifying)
		return false;
	sim->fallible++;
	sim->risked += sim->fail_chance > 0;
	if (!sim->fail_at || sim->fallible < sim->fail_at ||
	    sim->fallible - sim->fail_at >= (sim->fail_times ? sim->fail_times : 1)) {
		failed = roll(sim, sim->fail_chance);
	} else {
		sim->cut_short = sim->fail_short != 0;
		failed = !sim->cut_short;
	}
	sim->failed[hook] += failed;
	if (failed && sim->on_failure)
		sim->on_failure(sim, hook);
	return failed;
}

static int fail_errno(struct sim *sim)
{
	static const int errors[] = { 0, -EBUSY, -EAGAIN, -ENOMEM, -ENOSPC, -EIO };

	if (sim->fail_errno)
		return sim->fail_errno == SIM_ANSWER_0 ? 0 : sim->fail_errno;
	return errors[sim_random(sim, sizeof(errors) / sizeof(errors[0]))];
}

/* How much of a range is to be done by a hook that may fail. */
static uint64_t part(struct sim *sim, enum sim_hook hook, uint64_t n)
{
	if (!(sim->fail_mask >> hook & 1))
		return n;
	if (sim->cut_short) {
		uint64_t most = sim->fail_short == SIM_ALL_BUT_ONE ? n - 1 : sim->fail_short;

		return n > 1 && most < n ? most : n;
	}
	if (sim->part_once && n > sim->part_once) {
		n = sim->part_once;
		sim->part_once = 0;
		sim->fail_at = sim->fallible + 1;
		return n;
	}
	return sim->partial && n > 1 && roll(sim, 0.5) ? 1 + sim_random(sim, n - 1) : n;
}

static void check_range(struct sim *sim, const struct sim_region *region, uint64_t first,
			uint64_t npages, bool locked)
{
	if (npages == 0 || first >= region->npages || npages > region->npages - first)
		sim_fail("a range leaves its region");
	if (first / PDD_EXTENT_PAGES != (first + npages - 1) / PDD_EXTENT_PAGES)
		sim_fail("a range leaves its extent");
	if (region->space->locked != locked)
		sim_fail("a hook was called without its space's lock");
	if (locked != sim->stepping)
		sim_fail("a hook was called out of a step");
	if (sim->other && sim_turn_uses(sim->other, region, first / PDD_EXTENT_PAGES))
		sim_fail("two steps are at one extent");
}

/* ---- locks ---- */

static void lock_scanner(void *ctx)
{
	struct sim *sim = ctx;

	if (!sim) /* some tests have a scanner without memory */
		return;
	if (sim->scanner_locked)
		sim_fail("the scanner's lock is taken twice");
	if (sim->at)
		sim->at(sim, SIM_LOCK_SCANNER, true);
	sim->scanner_locked = true;
}

static void unlock_scanner(void *ctx)
{
	struct sim *sim = ctx;

	if (!sim)
		return;
	if (!sim->scanner_locked)
		sim_fail("the scanner's lock is released, but not held");
	sim->scanner_locked = false;
	if (sim->at)
		sim->at(sim, SIM_UNLOCK_SCANNER, false);
}

static bool space_trylock(void *ctx, struct pdd_space *pdd_space)
{
	struct sim *sim = ctx;
	struct sim_space *space = space_of(pdd_space);

	enter(sim, SIM_TRYLOCK, 0);
	if (space->locked)
		sim_fail("a step tried a space that it holds");
	if (sim->nlocks == 2)
		sim_fail("a step holds more than two spaces");
	if (space->busy || fails(sim, SIM_TRYLOCK))
		return false;
	space->locked = true;
	sim->locks[sim->nlocks++] = space;
	leave(sim, SIM_TRYLOCK);
	return true;
}

static void space_unlock(void *ctx, struct pdd_space *pdd_space)
{
	struct sim *sim = ctx;
	struct sim_space *space = space_of(pdd_space);

	enter(sim, SIM_UNLOCK, 0);
	if (!sim->nlocks || sim->locks[sim->nlocks - 1] != space)
		sim_fail("locks are not released in reverse order");
	if (sim->nholds)
		sim_fail("a lock is released while pages are held");
	space->locked = false;
	sim->nlocks--;
	leave(sim, SIM_UNLOCK);
}

/* ---- views ---- */

static struct pdd_view view_of(struct sim_region *region, uint64_t page, bool hold)
{
	const struct sim_page *p = &region->pages[page];
	struct pdd_view view = { .npages = 1, .kind = (uint8_t)p->kind, .node = p->node };
	enum pdd_reason refuse = p->refuse;

	if (hold && !refuse)
		refuse = p->hold_refuse;
	if (refuse) {
		view.kind = PDD_PAGE_REFUSED;
		view.reason = (uint8_t)refuse;
	} else if (p->kind == PDD_PAGE_PRIVATE) {
		view.content = p->held ? p->held : sim_memory(region, page);
	} else if (p->kind == PDD_PAGE_SHARED) {
		view.node = p->frame->node;
		if (p->cloned && !p->frame->foreign && !p->frame->dropped) {
			view.kind = PDD_PAGE_FRAME;
			view.frame = &p->frame->frame;
		}
	} else if (p->kind == PDD_PAGE_ZERO && p->cloned) {
		view.kind = PDD_PAGE_ZEROED;
	}
	return view;
}

static bool continues(const struct sim *sim, const struct pdd_view *view,
		      const struct pdd_view *next)
{
	if (sim->single_views || view->kind != next->kind || view->reason != next->reason ||
	    view->node != next->node)
		return false;
	if (view->kind == PDD_PAGE_FRAME)
		return view->frame == next->frame;
	return !view->content || (const unsigned char *)view->content +
						 view->npages * sim->page_size ==
					 (const unsigned char *)next->content;
}

/* Describe pages of a range; *npages becomes how many. */
static uint32_t describe(struct sim_region *region, struct pdd_view *views, uint32_t nviews,
			 uint64_t first, uint64_t *npages, bool hold)
{
	const struct sim *sim = region->space->sim;
	uint64_t i = 0;
	uint32_t n = 0;

	if (sim->max_views && nviews > sim->max_views)
		nviews = (uint32_t)sim->max_views;
	for (; i < *npages; i++) {
		struct pdd_view view = view_of(region, first + i, hold);

		if (n && continues(sim, &views[n - 1], &view))
			views[n - 1].npages++;
		else if (n < nviews)
			views[n++] = view;
		else
			break;
	}
	*npages = i;
	return n;
}

/* A last view of absent pages reaches beyond the range. Where it ends. */
static uint64_t reach_out(const struct sim_region *region, struct pdd_view *view, uint64_t end)
{
	if (view->kind != PDD_PAGE_ABSENT)
		return end;
	while (end < region->npages && region->pages[end].kind == PDD_PAGE_ABSENT &&
	       !region->pages[end].refuse) {
		view->npages++;
		end++;
	}
	return end;
}

static int pages_get(void *ctx, struct pdd_region *pdd_region, struct pdd_view *views,
		     uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);
	uint64_t asked = npages;
	uint32_t n;

	enter(sim, SIM_PAGES_GET, npages);
	check_range(sim, region, first, npages, true);
	if (sim->nholds)
		sim_fail("pages_get while pages are held");
	if (fails(sim, SIM_PAGES_GET))
		return fail_errno(sim);
	npages = part(sim, SIM_PAGES_GET, npages);
	n = describe(region, views, nviews, first, &npages, false);
	npages = reach_out(region, &views[n - 1], first + npages) - first;
	if (npages > asked)
		npages = asked;
	for (uint64_t i = 0; i < npages; i++) {
		region->pages[first + i].gets++;
		sim->read_pages += region->pages[first + i].kind == PDD_PAGE_PRIVATE;
	}
	sim->ngets += npages;
	leave(sim, SIM_PAGES_GET);
	return (int)n;
}

static void pages_put(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_PAGES_PUT, 0);
	check_range(sim, region, first, npages, true);
	for (uint64_t i = 0; i < npages; i++) {
		if (!region->pages[first + i].gets)
			sim_fail("pages_put of a page that was not got");
		region->pages[first + i].gets--;
	}
	sim->ngets -= npages;
	leave(sim, SIM_PAGES_PUT);
}

/* ---- write tracking ---- */

static int64_t pages_written(void *ctx, struct pdd_region *pdd_region, uint64_t *bits,
			     uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);
	bool failed;

	enter(sim, SIM_PAGES_WRITTEN, 1 + npages / 64); /* far cheaper than reading */
	if (npages == 0 || npages > PDD_WRITTEN_PAGES_MAX || first >= region->npages ||
	    npages > region->npages - first)
		sim_fail("a range leaves its region");
	if (!region->space->locked || !sim->stepping || sim->ngets || sim->nholds)
		sim_fail("pages_written is not asked first");
	for (uint64_t i = 0; i < (npages + 63) / 64; i++)
		if (bits[i])
			sim_fail("pages_written: the bits are not zeroed");
	failed = fails(sim, SIM_PAGES_WRITTEN);
	npages = failed ? npages : part(sim, SIM_PAGES_WRITTEN, npages);
	for (uint64_t i = 0; i < npages; i++) {
		struct sim_page *p = &region->pages[first + i];

		bits[i / 64] |= (uint64_t)p->written << i % 64;
		p->written = false;
	}
	if (failed) /* and the answer is lost */
		return fail_errno(sim);
	leave(sim, SIM_PAGES_WRITTEN);
	return (int64_t)npages;
}

/* ---- hold ---- */

static void hold_page(struct sim_region *region, uint64_t page, struct sim_staging *staging,
		      uint64_t at)
{
	struct sim *sim = region->space->sim;
	struct sim_page *p = &region->pages[page];

	p->staging = staging;
	p->held = staging->bytes + at * sim->page_size;
	memcpy(p->held, sim_memory(region, page), sim->page_size);
	memset(sim_memory(region, page), POISON, sim->page_size);
	staging->npages++;
	sim->nholds++;
	sim->held_pages++;
}

/* A write that waited is done on the page that stands there now. */
static void end_hold(struct sim *sim, struct sim_region *region, uint64_t page)
{
	struct sim_page *p = &region->pages[page];

	memset(p->held, POISON, sim->page_size);
	p->held = NULL;
	/* What the library does may be told of as a write, or not. */
	if (sim->options.tracked && roll(sim, 0.5))
		p->written = true;
	if (--p->staging->npages == 0)
		free(p->staging);
	sim->nholds--;
	if (p->write_waits) {
		p->write_waits = false;
		sim_write(region, page, p->waiting);
	}
}

/* The page gets its content back. */
static void undo_hold(struct sim_region *region, uint64_t page)
{
	struct sim *sim = region->space->sim;

	memcpy(sim_memory(region, page), region->pages[page].held, sim->page_size);
	end_hold(sim, region, page);
}

static int hold(void *ctx, struct pdd_region *pdd_region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);
	struct sim_staging *staging;
	uint64_t held;
	uint32_t n;

	enter(sim, SIM_HOLD, npages);
	check_range(sim, region, first, npages, true);
	if (sim->ngets)
		sim_fail("hold before pages_put");
	if (fails(sim, SIM_HOLD))
		return fail_errno(sim);
	npages = part(sim, SIM_HOLD, npages);
	staging = malloc(sizeof(*staging) + npages * sim->page_size);
	staging->npages = 1; /* mine */
	for (uint64_t i = 0; i < npages; i++) {
		if (region->pages[first + i].held)
			sim_fail("a page is held twice");
		if (view_of(region, first + i, true).kind == PDD_PAGE_PRIVATE)
			hold_page(region, first + i, staging, i);
	}
	held = npages;
	n = describe(region, views, nviews, first, &npages, true);
	for (uint64_t i = first + npages; i < first + held; i++)
		if (region->pages[i].held)
			undo_hold(region, i);
	if (--staging->npages == 0)
		free(staging);
	leave(sim, SIM_HOLD);
	return (int)n;
}

static struct sim_page *held_page(struct sim_region *region, uint64_t page)
{
	if (!region->pages[page].held)
		sim_fail("page %" PRIu64 " is not held", page);
	return &region->pages[page];
}

static void release(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_RELEASE, 0);
	check_range(sim, region, first, npages, true);
	for (uint64_t i = first; i < first + npages; i++) {
		held_page(region, i);
		undo_hold(region, i);
	}
	leave(sim, SIM_RELEASE);
}

/* ---- frames ---- */

/* The region whose page a wish's content is; it must be got. */
static void check_wish(const struct sim *sim, const struct pdd_frame_wish *wish, uint32_t domain)
{
	uintptr_t at = (uintptr_t)wish->content;

	for (const struct sim_space *space = sim->spaces; space; space = space->next) {
		for (const struct sim_region *r = space->regions; r; r = r->next) {
			uint64_t page = (at - (uintptr_t)r->memory) / sim->page_size;

			if (at < (uintptr_t)r->memory || page >= r->npages)
				continue;
			if (!space->locked || !r->pages[page].gets)
				sim_fail("a frame is copied from a page that was put");
			if (space->domain != domain)
				sim_fail("a frame is copied from another domain");
			return;
		}
	}
	sim_fail("a frame is copied from nowhere");
}

static int frames_create(void *ctx, struct pdd_frame **frames,
			 const struct pdd_frame_wish *wishes, uint32_t nframes, uint32_t domain)
{
	struct sim *sim = ctx;
	uint32_t n;

	enter(sim, SIM_FRAMES_CREATE, nframes);
	if (nframes == 0)
		sim_fail("no frame wanted");
	if (fails(sim, SIM_FRAMES_CREATE))
		return fail_errno(sim);
	n = (uint32_t)part(sim, SIM_FRAMES_CREATE, nframes);
	for (uint32_t i = 0; i < n; i++) {
		struct sim_frame *frame;

		check_wish(sim, &wishes[i], domain);
		frame = sim_frame_create(sim, wishes[i].content, domain);
		frame->node = wishes[i].node;
		frames[i] = &frame->frame;
	}
	leave(sim, SIM_FRAMES_CREATE);
	return (int)n;
}

static void check_frame(const struct sim_frame *frame)
{
	if (frame->freed || frame->foreign)
		sim_fail("a frame is used after it was freed");
}

static int frames_map(void *ctx, struct pdd_region *pdd_region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_FRAMES_MAP, npages);
	check_range(sim, region, first, npages, true);
	for (uint64_t i = 0; i < npages; i++) {
		struct sim_frame *frame = frame_of_sim(frames[i]);

		check_frame(frame);
		if (frame->domain != region->space->domain)
			sim_fail("a frame of another domain is to be mapped");
		if (sim->options.nodes_apart &&
		    frame->frame.priv.numa_node != region->pages[first + i].node)
			sim_fail("a frame of another node is to be mapped");
		if (memcmp(held_page(region, first + i)->held, frame->data, sim->page_size) != 0)
			sim_fail("a page is replaced by a frame of another content");
	}
	if (fails(sim, SIM_FRAMES_MAP))
		return fail_errno(sim);
	npages = part(sim, SIM_FRAMES_MAP, npages);
	for (uint64_t i = 0; i < npages; i++) {
		struct sim_page *p = held_page(region, first + i);

		p->kind = PDD_PAGE_SHARED;
		p->frame = frame_of_sim(frames[i]);
		p->frame->maps++;
		p->cloned = false;
		end_hold(sim, region, first + i);
	}
	leave(sim, SIM_FRAMES_MAP);
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_FRAMES_UNMAP, npages);
	check_range(sim, region, first, npages, false);
	if (fails(sim, SIM_FRAMES_UNMAP))
		return fail_errno(sim);
	npages = part(sim, SIM_FRAMES_UNMAP, npages);
	for (uint64_t i = first; i < first + npages; i++)
		if (region->pages[i].kind == PDD_PAGE_SHARED ||
		    region->pages[i].kind == PDD_PAGE_ZERO)
			sim_write(region, i, region->pages[i].expected);
	leave(sim, SIM_FRAMES_UNMAP);
	return (int)npages;
}

static const void *frame_content(void *ctx, struct pdd_frame *pdd_frame)
{
	struct sim *sim = ctx;
	struct sim_frame *frame = frame_of_sim(pdd_frame);

	enter(sim, SIM_FRAME_CONTENT, 0);
	check_frame(frame);
	if (frame->gone || fails(sim, SIM_FRAME_CONTENT)) {
		frame->dropped |= !sim->verifying;
		return NULL;
	}
	leave(sim, SIM_FRAME_CONTENT);
	return frame->data;
}

static void frame_free(void *ctx, struct pdd_frame *pdd_frame)
{
	struct sim *sim = ctx;
	struct sim_frame *frame = frame_of_sim(pdd_frame);

	enter(sim, SIM_FRAME_FREE, 0);
	check_frame(frame);
	if (frame->maps && !frame->dropped)
		sim_fail("a frame is freed while pages show it");
	if (pdd_frame_places(&frame->frame))
		sim_fail("a frame is freed that has sharers or reserved places");
	if (sim->ngets || sim->nholds)
		sim_fail("a frame is freed that views may name, or while pages are held");
	memset(&frame->frame, POISON, sizeof(frame->frame));
	frame->freed = true;
	frame->dropped = true;
	if (!frame->maps)
		sim_frame_destroy(sim, frame);
	leave(sim, SIM_FRAME_FREE);
}

static int zero_map(void *ctx, struct pdd_region *pdd_region, uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_ZERO_MAP, npages);
	check_range(sim, region, first, npages, true);
	for (uint64_t i = first; i < first + npages; i++)
		for (size_t byte = 0; byte < sim->page_size; byte++)
			if (held_page(region, i)->held[byte])
				sim_fail("a page that is not zero is to be zeroed");
	if (fails(sim, SIM_ZERO_MAP))
		return fail_errno(sim);
	npages = part(sim, SIM_ZERO_MAP, npages);
	for (uint64_t i = first; i < first + npages; i++) {
		held_page(region, i)->kind = PDD_PAGE_ZERO;
		held_page(region, i)->cloned = false;
		end_hold(sim, region, i);
	}
	leave(sim, SIM_ZERO_MAP);
	return (int)npages;
}

/* ---- clones, sparse frames, discarding ---- */

static bool frame_is_mapped(void *ctx, struct pdd_frame *pdd_frame)
{
	struct sim *sim = ctx;
	struct sim_frame *frame = frame_of_sim(pdd_frame);

	enter(sim, SIM_FRAME_IS_MAPPED, 0);
	check_frame(frame);
	if (pdd_frame_places(pdd_frame))
		sim_fail("a frame is asked for that has sharers or reserved places");
	leave(sim, SIM_FRAME_IS_MAPPED);
	return frame->maps && !frame->dropped;
}

static int frames_remap(void *ctx, struct pdd_region *pdd_region, uint64_t first,
			struct pdd_frame *const *frames, uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);
	uint64_t i;

	enter(sim, SIM_FRAMES_REMAP, npages);
	check_range(sim, region, first, npages, true);
	if (fails(sim, SIM_FRAMES_REMAP))
		return fail_errno(sim);
	npages = part(sim, SIM_FRAMES_REMAP, npages);
	for (i = 0; i < npages; i++) {
		struct sim_page *p = &region->pages[first + i];
		struct sim_frame *frame = frame_of_sim(frames[i]);

		check_frame(frame);
		if (p->kind != PDD_PAGE_SHARED) /* written meanwhile */
			break;
		if (memcmp(p->frame->data, frame->data, sim->page_size) != 0 ||
		    frame->domain != p->frame->domain)
			sim_fail("a page is to show a frame of other content or domain");
		sim_unmap_page(sim, p);
		p->frame = frame;
		p->cloned = false;
		frame->maps++;
	}
	leave(sim, SIM_FRAMES_REMAP);
	return (int)i;
}

static int64_t pages_discard(void *ctx, struct pdd_region *pdd_region, uint64_t first,
			     uint64_t npages)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_PAGES_DISCARD, npages);
	if (npages == 0 || first >= region->npages || npages > region->npages - first ||
	    sim->stepping)
		sim_fail("pages_discard in a step, or of a range that leaves its region");
	if (fails(sim, SIM_PAGES_DISCARD))
		return fail_errno(sim);
	npages = part(sim, SIM_PAGES_DISCARD, npages);
	for (uint64_t i = first; i < first + npages; i++)
		sim_discard(region, i);
	leave(sim, SIM_PAGES_DISCARD);
	return (int64_t)npages;
}

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *pdd_region,
					   uint64_t number)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);
	struct pdd_extent_block *block = NULL;

	enter(sim, SIM_EXTENT_GET, 1);
	if (region->extents || number >= pdd_region_extents(region->npages))
		sim_fail("an extent is asked for that cannot be");
	if (!fails(sim, SIM_EXTENT_GET)) {
		block = calloc(1, sizeof(*block));
		region->nblocks += block != NULL;
	}
	leave(sim, SIM_EXTENT_GET);
	return block;
}

static void extent_put(void *ctx, struct pdd_region *pdd_region, uint64_t number,
		       struct pdd_extent_block *block)
{
	struct sim *sim = ctx;
	struct sim_region *region = region_of(pdd_region);

	enter(sim, SIM_EXTENT_PUT, 1);
	if (block->extent.priv.number != number || !region->nblocks)
		sim_fail("an extent comes back that is not out");
	region->nblocks--;
	free(block);
	leave(sim, SIM_EXTENT_PUT);
}

/* ---- others ---- */

#define POWER_31_4 (UINT64_C(31) * 31 * 31 * 31)
#define POWER_31_8 (POWER_31_4 * POWER_31_4)

/* What `sum = sum * 31 + byte` makes of 8 bytes, without waiting for each other. */
static uint64_t sum_of_8(const unsigned char *bytes)
{
	static const uint64_t powers[] = { 31 * 31 * 31, 31 * 31, 31, 1 };
	uint64_t high = 0, low = 0;

	for (unsigned i = 0; i < 4; i++) {
		high += bytes[i] * powers[i];
		low += bytes[i + 4] * powers[i];
	}
	return high * POWER_31_4 + low;
}

static int checksum(void *ctx, uint64_t *value, const void *content)
{
	struct sim *sim = ctx;
	const unsigned char *bytes = content;
	uint64_t sum = 0;

	enter(sim, SIM_CHECKSUM, 0);
	if (fails(sim, SIM_CHECKSUM))
		return -EIO;
	for (size_t i = 0; i < sim->page_size; i += 8)
		sum = sum * POWER_31_8 + sum_of_8(bytes + i);
	*value = sim->options.checksum == SIM_CHECKSUM_ZERO ? 0 : (sum ^ sum >> 7) & 3;
	leave(sim, SIM_CHECKSUM);
	return 0;
}

static uint64_t now_ns(void *ctx)
{
	const struct sim *sim = ctx;

	return sim->now;
}

static void trace(void *ctx, enum pdd_event event, struct pdd_region *pdd_region, uint64_t first,
		  uint64_t npages)
{
	struct sim *sim = ctx;

	check_range(sim, region_of(pdd_region), first, npages, true);
	sim->traced[event] += npages;
}

const struct pdd_ops sim_ops = {
	.size = sizeof(sim_ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = pages_put,
	.hold = hold,
	.release = release,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.zero_map = zero_map,
	.checksum = checksum,
	.now_ns = now_ns,
	.trace = trace,
	.frame_is_mapped = frame_is_mapped,
	.frames_remap = frames_remap,
	.pages_discard = pages_discard,
	.extent_get = extent_get,
	.extent_put = extent_put,
	.pages_written = pages_written,
	.lock = lock_scanner,
	.unlock = unlock_scanner,
};
