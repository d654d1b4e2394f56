/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live_contract.c - what the hooks of live memory have in common: the contract of ops.h for several
 * threads, checked at each call:
 *
 *  - Hooks that may sleep are never called by a thread that has the scanner's lock.
 *  - Spaces are tried, each once; a hook for pages comes with their space locked, by a step or by
 *    its owner, as it says in ops.h.
 *  - While a thread has pages of an extent got or held, no other one is given pages of it.
 *  - Nobody is given a page that is kept out.
 *
 * Hooks fail and do a part of their work at random, and yield, so that threads come in between.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sched.h>

#include "live_internal.h"

void live_let_others(const struct live *live)
{
	uint64_t dice = live->options.calm ? 1 : live_random(256);

	if (dice % 16 == 0)
		sched_yield();
	for (volatile unsigned spin = 0; dice == 1 && !live->options.calm && spin < 2000; spin++)
		;
}

void live_enter(struct live *live, bool may_sleep)
{
	live_require(live_me.live == live, "a hook is called on a thread that did not begin");
	live_require(!may_sleep || !live_me.in_scanner,
		     "a hook that may sleep is called with the scanner's lock held");
	live_require(!live_me.stepping || !atomic_load(&live->quiet),
		     "a hook is called while it is quiet");
	atomic_fetch_add_explicit(&live->ncalls, 1, memory_order_relaxed);
	live_let_others(live);
}

bool live_fails(struct live *live)
{
	if (!live->options.failures || live_random(1000) >= live->options.failures)
		return false;
	atomic_fetch_add_explicit(&live->nfailed, 1, memory_order_relaxed);
	return true;
}

int live_an_errno(void)
{
	static const int errors[] = {0, -EBUSY, -EAGAIN, -ENOMEM, -ENOSPC, -EIO};

	return errors[live_random(sizeof(errors) / sizeof(errors[0]))];
}

/* How much of a range is done. */
uint64_t live_part(const struct live *live, uint64_t n)
{
	return live->options.failures && n > 1 && live_random(8) == 0 ? 1 + live_random(n - 1) : n;
}

bool live_is_mine(const struct live_space *space)
{
	for (unsigned i = 0; i < live_me.nreads; i++)
		if (live_me.reads[i] == space)
			return true;
	return false;
}

/* Pages of one extent are given to a hook of a step or a walk; else to one of an owner. */
void live_check_range(const struct live_region *region, uint64_t first, uint64_t npages, bool step)
{
	live_require(npages && first < region->npages && npages <= region->npages - first,
		     "a range leaves its region");
	live_require(first / PDD_EXTENT_PAGES == (first + npages - 1) / PDD_EXTENT_PAGES,
		     "a range leaves its extent");
	live_require(step ? live_is_mine(region->space)
			  : live_me.writes == region->space || live_me.alone,
		     "a hook is called without its space's lock");
	for (uint64_t i = first; step && i < first + npages; i++)
		live_require(!region->pages[i].kept_out, "a page is touched that is kept out");
}

/* A thread has pages of an extent: nobody else may. */
void live_use(struct live_region *region, uint64_t page, uint64_t npages)
{
	struct live_user *user = &region->users[page / PDD_EXTENT_PAGES];
	unsigned nobody = 0;

	live_require(atomic_compare_exchange_strong(&user->thread, &nobody, live_me.number) ||
			     nobody == live_me.number,
		     "two steps are at one extent");
	user->npages += npages;
	live_me.nused += npages;
}

void live_end_use(struct live_region *region, uint64_t page, uint64_t npages)
{
	struct live_user *user = &region->users[page / PDD_EXTENT_PAGES];

	live_require(atomic_load(&user->thread) == live_me.number && user->npages >= npages,
		     "pages are put or ended that were not got or held");
	user->npages -= npages;
	live_me.nused -= npages;
	if (!user->npages)
		atomic_store(&user->thread, 0);
}

/* ---- views ---- */

struct pdd_view live_view_of(struct live_region *region, uint64_t number)
{
	struct live_page *page = &region->pages[number];
	struct pdd_view view = {.npages = 1, .kind = page->kind};

	if (page->kind == PDD_PAGE_PRIVATE)
		view.content = (const void *)(uintptr_t)&region->words[number * LIVE_WORDS];
	if (!page->cloned || (page->frame && atomic_load(&page->frame->lost)))
		return view;
	if (page->kind == PDD_PAGE_SHARED) {
		view.kind = PDD_PAGE_FRAME;
		view.frame = &page->frame->frame;
	} else if (page->kind == PDD_PAGE_ZERO) {
		view.kind = PDD_PAGE_ZEROED;
	}
	return view;
}

static bool continues(const struct pdd_view *view, const struct pdd_view *next)
{
	if (view->kind != next->kind)
		return false;
	if (view->kind == PDD_PAGE_FRAME)
		return view->frame == next->frame;
	return !view->content ||
	       (const unsigned char *)view->content + (view->npages << LIVE_PAGE_SHIFT) ==
		       (const unsigned char *)next->content;
}

/* Append the view of a page; false: there is no room. */
bool live_append(struct pdd_view *views, uint32_t *n, uint32_t nviews, struct pdd_view view)
{
	if (*n && continues(&views[*n - 1], &view))
		views[*n - 1].npages++;
	else if (*n < nviews)
		views[(*n)++] = view;
	else
		return false;
	return true;
}
