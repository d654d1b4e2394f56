/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold_begin.c - taking hold of a run of pages; the argument is on top of hold.c.
 *
 * The run is gone through in pieces that are held the same way, moved, protected, or refused: first
 * all are registered, with the descriptor that this way needs, then held. What is held is always
 * told: each step first makes sure that there is room for another view, and where there is none the
 * rest is not held at all.
 *
 * Cost: one registration and one call for each piece, and two for each refused page in it.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hold.h"
#include "track.h"
#include "uapi.h"
#include "uffd.h"

static int protect(const struct pddi_hold *hold, uint32_t bit, uint32_t npages, bool on)
{
	return pddi_uffd_protect(hold->probe->uffd, pddi_hold_address(hold, bit), npages,
				 hold->page_shift, on);
}

/* The views that are being answered. */
struct answer {
	struct pdd_view *views;
	uint32_t n;
	uint32_t max;
};

/* Whether npages more pages of this description can be told; if so, tell them. */
static bool tell(struct answer *answer, enum pdd_page_kind kind, enum pdd_reason reason,
		 const unsigned char *content, uint32_t npages, uint32_t page_shift)
{
	struct pdd_view *last = answer->n ? &answer->views[answer->n - 1] : NULL;

	if (last && last->kind == (uint8_t)kind && last->reason == (uint8_t)reason &&
	    (!content ||
	     content == (const unsigned char *)last->content + (last->npages << page_shift))) {
		last->npages += npages;
		return true;
	}
	if (answer->n == answer->max)
		return false;
	/* The analyser takes what `last` points to for NULL though n is not 0.
	 * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	answer->views[answer->n++] = (struct pdd_view){
		.content = content,
		.npages = npages,
		.kind = (uint8_t)kind,
		.reason = (uint8_t)reason,
	};
	return true;
}

static bool refuse(struct answer *answer, enum pdd_reason reason, uint32_t npages)
{
	return tell(answer, PDD_PAGE_REFUSED, reason, NULL, npages, 0);
}

static enum pdd_reason reason_of(int error)
{
	switch (error) {
	case -EBUSY:
		return PDD_REASON_PINNED;
	case -ENOENT:
		return PDD_REASON_ABSENT;
	case -EAGAIN:
		return PDD_REASON_BUSY;
	case -ENOMEM:
		return PDD_REASON_NO_MEMORY;
	case -EINVAL:
		return PDD_REASON_SPECIAL;
	default:
		return PDD_REASON_HOOK_FAILED;
	}
}

void pddi_hold_read(void *to, const void *from, size_t length)
{
	struct iovec target = { .iov_base = to, .iov_len = length };
	struct iovec source = { .iov_base = (void *)(uintptr_t)from, .iov_len = length };
	ssize_t n = process_vm_readv(getpid(), &target, 1, &source, 1, 0);

	/* A sandbox may forbid the call. */
	if (n < (ssize_t)length) {
		size_t done = n < 0 ? 0 : (size_t)n;

		memcpy((unsigned char *)to + done, (const unsigned char *)from + done,
		       length - done);
	}
}

/* The number of pages moved, a prefix, or -errno. */
static int move_to_staging(const struct pddi_hold *hold, uint32_t at, uint32_t npages)
{
	unsigned char *to = pddi_hold_staging(hold, at);
	int n = pddi_uffd_move(pddi_hold_mover(hold), to, pddi_hold_address(hold, at), npages,
			       hold->page_shift);

	/* mlockall() fills all mappings of the process, this one too. */
	if (n != -EEXIST || madvise(to, (size_t)npages << hold->page_shift, MADV_DONTNEED))
		return n;
	return pddi_uffd_move(pddi_hold_mover(hold), to, pddi_hold_address(hold, at), npages,
			      hold->page_shift);
}

/* Move away the pages [at, end), which are anonymous. False: no more views. */
static bool move_away(struct pddi_hold *hold, struct answer *answer, uint32_t at, uint32_t end)
{
	while (at < end) {
		int n;

		/* What is moved must be told, so there has to be room for it before. */
		if (!tell(answer, PDD_PAGE_PRIVATE, PDD_REASON_NONE, pddi_hold_copy(hold, at), 0,
			  hold->page_shift))
			return false;
		n = move_to_staging(hold, at, end - at);
		if (n > 0) {
			pddi_hold_read(pddi_hold_copy(hold, at), pddi_hold_staging(hold, at),
				       (size_t)n << hold->page_shift);
			answer->views[answer->n - 1].npages += (uint32_t)n;
			pddi_bits_put(hold->staged, at, (uint32_t)n, true);
			hold->nheld += (uint32_t)n;
			at += (uint32_t)n;
			continue;
		}
		if (!answer->views[answer->n - 1].npages)
			answer->n--;
		if (!refuse(answer, reason_of(n), 1))
			return false;
		at++;
	}
	return true;
}

/* Why a page that was protected is not held, if it is not. */
static enum pdd_reason unheld_reason(uint8_t flags, bool framed)
{
	if (!framed && flags & PDDI_PAGE_FILE)
		return PDD_REASON_SPECIAL; /* mapped there by somebody else, against the contract */
	if (framed ? !(flags & PDDI_PAGE_PRESENT) || flags & PDDI_PAGE_FILE
		   : !(flags & (PDDI_PAGE_PRESENT | PDDI_PAGE_SWAPPED)))
		return framed ? PDD_REASON_CHANGED : PDD_REASON_ABSENT;
	return flags & PDDI_PAGE_PROTECTED ? PDD_REASON_NONE : PDD_REASON_CHANGED;
}

/* Protect the pages [at, end) where they are. False: no more views. */
static bool guard(struct pddi_hold *hold, struct answer *answer, uint32_t at, uint32_t end)
{
	uint8_t flags[PDD_EXTENT_PAGES];
	int error = protect(hold, at, end - at, true);
	uint32_t bit;

	if (!error)
		error = pddi_pagemap_read_settled(hold->map, flags, hold->memory, hold->base + at,
						  end - at);
	if (error) {
		(void)protect(hold, at, end - at, false);
		return refuse(answer, error == -EBUSY ? PDD_REASON_BUSY : reason_of(error),
			      end - at);
	}
	for (bit = at; bit < end; bit++) {
		enum pdd_reason reason =
			unheld_reason(flags[bit - at], pddi_bit_test(hold->memory->framed,
								     hold->base + bit));

		if (reason != PDD_REASON_NONE) {
			(void)protect(hold, bit, 1, false);
			if (!refuse(answer, reason, 1))
				break;
		} else if (tell(answer, PDD_PAGE_PRIVATE, PDD_REASON_NONE,
				pddi_hold_address(hold, bit), 1, hold->page_shift)) {
			pddi_bits_put(hold->guarded, bit, 1, true);
			hold->nheld++;
		} else {
			break;
		}
	}
	if (bit < end)
		(void)protect(hold, bit, end - bit, false);
	return bit == end;
}

enum pddi_method pddi_hold_method(const struct pddi_hold *hold, uint32_t bit)
{
	if (hold->move && !pddi_bit_test(hold->memory->framed, hold->base + bit))
		return PDDI_METHOD_MOVE;
	return hold->protect ? PDDI_METHOD_GUARD : PDDI_METHOD_NONE;
}

uint32_t pddi_hold_method_end(const struct pddi_hold *hold, uint32_t bit, uint32_t end)
{
	uint64_t page = hold->base + bit;

	if (!hold->move)
		return end;
	return (uint32_t)(pddi_bits_next(hold->memory->framed, page, hold->base + end,
					 !pddi_bit_test(hold->memory->framed, page)) -
			  hold->base);
}

/* Register pages that are all held the same way. 0 or -errno. */
static int register_pages(struct pddi_hold *hold, enum pddi_method method, uint32_t at,
			  uint32_t end)
{
	bool moved = method == PDDI_METHOD_MOVE;
	uint64_t mode = moved ? UFFDIO_REGISTER_MODE_MISSING : UFFDIO_REGISTER_MODE_WP;
	int uffd = moved ? pddi_hold_mover(hold) : hold->probe->uffd;
	int error = 0;

	if (moved && hold->by_tracker)
		mode |= hold->memory->is_tracked ? UFFDIO_REGISTER_MODE_WP : 0;
	else
		error = pddi_track_pause(hold->probe, hold->memory, hold->base + at, end - at);
	if (error)
		return error;
	/* It goes mapping by mapping: where it fails, those before may be registered. */
	pddi_bits_put(hold->registered, at, end - at, true);
	hold->moves = hold->moves || moved;
	hold->guards = hold->guards || !moved;
	return pddi_uffd_register(uffd, pddi_hold_address(hold, at), end - at, hold->page_shift,
				  mode);
}

/* Register what is to be held. 0, or -errno. */
static int register_run(struct pddi_hold *hold)
{
	uint32_t bit, end;
	int error = 0;

	for (bit = hold->lo; !error && bit < hold->hi; bit = end) {
		enum pddi_method method = pddi_hold_method(hold, bit);

		end = pddi_hold_method_end(hold, bit, hold->hi);
		if (method != PDDI_METHOD_NONE)
			error = register_pages(hold, method, bit, end);
	}
	return error;
}

#ifndef PDD_TEST_NO_HOLD
int pddi_hold_get(struct pddi_hold *hold, struct pdd_linux_memory *memory, struct pdd_view *views,
		  uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct answer answer = { .views = views, .max = nviews };
	bool more = true;
	uint32_t bit, end;
	int error;

	if (hold->memory)
		return -EBUSY; /* the library ends a hold before it begins another */
	if (hold->probe->uffd < 0 || hold->map->fd < 0 ||
	    !(hold->move || hold->probe->facilities.write_protect)) {
		refuse(&answer, PDD_REASON_NO_HOLD, (uint32_t)npages);
		return (int)answer.n;
	}
	pddi_hold_settle_mover(hold);
	hold->memory = memory;
	hold->base = first - first % PDD_EXTENT_PAGES;
	hold->lo = (uint32_t)(first - hold->base);
	hold->hi = hold->lo + (uint32_t)npages;
	if (hold->slot + npages > PDDI_STAGING_PAGES)
		pddi_hold_flush(hold);
	error = register_run(hold);
	if (error) {
		pddi_hold_finish(hold);
		return error;
	}
	for (bit = hold->lo; more && bit < hold->hi; bit = end) {
		end = pddi_hold_method_end(hold, bit, hold->hi);
		switch (pddi_hold_method(hold, bit)) {
		case PDDI_METHOD_MOVE:
			more = move_away(hold, &answer, bit, end);
			break;
		case PDDI_METHOD_GUARD:
			more = guard(hold, &answer, bit, end);
			break;
		case PDDI_METHOD_NONE:
			more = refuse(&answer, PDD_REASON_PINS_UNSEEN, end - bit);
			break;
		}
	}
	if (!hold->nheld)
		pddi_hold_finish(hold);
	return (int)answer.n;
}
#else
int pddi_hold_get(struct pddi_hold *hold, struct pdd_linux_memory *memory, struct pdd_view *views,
		  uint32_t nviews, uint64_t first, uint64_t npages)
{
	struct answer answer = { .views = views, .max = nviews };

	(void)register_run;
	(void)move_away;
	(void)guard;
	tell(&answer, PDD_PAGE_PRIVATE, PDD_REASON_NONE, pddi_memory_address(memory, first),
	     (uint32_t)npages, hold->page_shift);
	return (int)answer.n;
}
#endif
