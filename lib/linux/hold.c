/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hold.c - keep the content of pages still, so that what was compared is what is shared.
 *
 * Anonymous pages are moved away by UFFDIO_MOVE into a staging area. There the kernel copies them
 * for us to read: where page tables are virtualised, the first access to a page at a new address
 * costs ten times as much as that copy (8 against 0.8 us measured in a virtual machine without
 * nested paging), and elsewhere the copy costs little, since it leaves the page in the cache for
 * the compare. Meanwhile nothing stands at their place, which is registered for missing faults, so
 * whoever reads or writes there waits in the kernel. Pages in mappings of the store (copies made by
 * a write) cannot be moved; they are write-protected in place. The same goes for all pages where
 * there is no UFFDIO_MOVE.
 *
 * There are two userfaultfds. Where writes are tracked (track.c), pages are moved by the one that
 * tracks, with which they are registered anyway: to take protected pages away from it would drop
 * their protection, page by page (1.3 to 3 us each measured, where page tables are virtualised).
 * Its protection lets writers pass, so pages are protected by the other one; a page can be
 * registered with one at a time, so for that it is taken away from tracking. When the hold ends all
 * pages of the run are given back to tracking, and count as written.
 *
 * Invariants
 *  1. Between pddi_hold_get() and the end of its hold no write changes a held page: a moved page is
 *     known at no address but the staging area's, a protected one cannot be written.
 *  2. UFFDIO_MOVE refuses pages that are pinned for a device (as O_DIRECT, io_uring and VFIO do).
 *     Write protection does not see those, so it is used only under PDD_LINUX_NO_DEVICE_WRITES.
 *  3. A hold ends with its last page. Then no page of the memory is registered in a way that lets
 *     anybody wait, and everybody who waits was woken, after what he waits for had become true: the
 *     wake is the last call. Whoever queues up later than that has seen a place without such a
 *     registration and does not queue.
 *  4. Between two holds the staging area is empty from `slot` on; what lies before was replaced at
 *     its place and is of no use.
 *  5. A protected page counts as held only if the page map says, after the protection, that it is
 *     there, protected, and a page of its own: protecting a hole protects nothing.
 *
 * Hard case: the run that is registered may contain pages that are not held (refused, absent, or
 * done already). Those that are there are accessed freely. Accesses to those that are not wait
 * until the hold ends, at most for the work on one extent; nobody on the scanner's side makes any.
 * A second registration with fewer modes would be no registration at all, so a hold always ends
 * with UFFDIO_UNREGISTER, also where the pages are registered for tracking again afterwards. Should
 * that ever fail, the descriptor is closed: the kernel then lets everybody go. If it was the one
 * that tracks, writes are not tracked any more and pages are moved by the other; else nothing is
 * held.
 *
 * A page that was moved and is not replaced goes back as a copy, which needs no flush of address
 * translations; the page itself goes when the staging area is emptied. If there is no memory for a
 * copy the page is moved back. That cannot fail for good: the place is empty and nothing can have
 * come there, and what else may be in the way (a lock) goes away.
 *
 * Cost: register, move, copy, wake, and unregister unless all pages were replaced by a mapping. The
 * staging area is filled from its start and emptied as a whole, since emptying it after each run
 * costs as much as all the rest (measured on a virtual machine, runs of 1, 4, 32, 256 pages,
 * microseconds per page with mmap and populating: 24, 12, 8.4, 1.7; so: 15, 6.5, 4, 0.9).
 * Registering the whole extent for all its runs saves 5 % of that and lets everybody wait longer,
 * so each run is registered by itself.
 *
 * PDD_TEST_NO_HOLD builds an adapter that holds nothing: its tests must see writes get lost.
 */
#define _GNU_SOURCE 1
#include "hold.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "track.h"
#include "uapi.h"
#include "uffd.h"

/* Let everybody go who waits on a descriptor; false: the kernel does not. */
static bool wake_by(const struct pddi_hold *hold, int uffd, uint32_t bit, uint32_t npages)
{
	return uffd < 0 || !pddi_uffd_wake(uffd, pddi_hold_address(hold, bit), npages,
					   hold->page_shift);
}

/* Close the descriptor: the last resort, which lets everybody go. */
static void give_up(struct pddi_hold *hold, int uffd)
{
	if (uffd == hold->probe->track_uffd) {
		pddi_probe_untrack(hold->probe);
		return;
	}
	close(hold->probe->uffd);
	hold->probe->uffd = -1;
	hold->probe->facilities.userfaultfd = false;
	hold->probe->facilities.missing = "userfaultfd: given up, since the kernel did not let go "
					  "of a range: nothing can be held, so nothing is merged\n";
}

/* The last wake of a hold. Nothing is held any more, so a descriptor that does not do it may go. */
static void end_waits(struct pddi_hold *hold)
{
	uint32_t npages = hold->hi - hold->lo;
	int mover = pddi_hold_mover(hold), guard = hold->probe->uffd;

	if (hold->moves && !wake_by(hold, mover, hold->lo, npages))
		give_up(hold, mover);
	if (hold->guards && guard == hold->probe->uffd && !wake_by(hold, guard, hold->lo, npages))
		give_up(hold, guard);
}

/* False: the limit of mappings is in the way, as tracked memory would be cut. */
static bool unregister_pages(struct pddi_hold *hold, int uffd, uint32_t at, uint32_t end)
{
	int error = uffd < 0 ? 0
			     : pddi_uffd_unregister(uffd, pddi_hold_address(hold, at), end - at,
						    hold->page_shift);

	if (!error)
		return true;
	if (error == -ENOMEM && uffd == hold->probe->track_uffd)
		return false;
	/* Something in it is gone, against the contract. What is still there must go on. */
	for (; at < end; at++) {
		error = pddi_uffd_unregister(uffd, pddi_hold_address(hold, at), 1,
					     hold->page_shift);
		if (error && error != -EINVAL) {
			give_up(hold, uffd);
			break;
		}
	}
	return true;
}

/* End the registration of what was not replaced by a new mapping, method by method if they are
 * registered with different descriptors. */
static void unregister(struct pddi_hold *hold)
{
	uint32_t bit, at, end, last;
	bool done = true;

	for (bit = hold->lo; bit < hold->hi; bit = end) {
		bool moved = hold->by_tracker &&
			     pddi_hold_method(hold, bit) == PDDI_METHOD_MOVE;

		end = hold->by_tracker ? pddi_hold_method_end(hold, bit, hold->hi) : hold->hi;
		at = (uint32_t)pddi_bits_next(hold->registered, bit, end, true);
		for (last = end; last > at && !pddi_bit_test(hold->registered, last - 1);)
			last--;
		if (at == last)
			continue;
		done &= unregister_pages(hold, moved ? hold->probe->track_uffd : hold->probe->uffd,
					 at, last);
	}
	/* Nothing has to be cut for the whole of it. */
	if (!done)
		pddi_track_reset(hold->probe, hold->memory);
}

/* Give what was not replaced back to tracking: what is new is registered before the next scan. */
static void resume_tracking(struct pddi_hold *hold)
{
	uint32_t at = (uint32_t)pddi_bits_next(hold->registered, hold->lo, hold->hi, true);
	uint32_t end = hold->hi;

	while (end > at && !pddi_bit_test(hold->registered, end - 1))
		end--;
	if (at < end)
		pddi_track_resume(hold->probe, hold->memory, hold->base + at, end - at);
}

void pddi_hold_flush(struct pddi_hold *hold)
{
	if (hold->slot)
		(void)madvise(hold->staging, (size_t)hold->slot << hold->page_shift,
			      MADV_DONTNEED);
	hold->slot = 0;
}

void pddi_hold_finish(struct pddi_hold *hold)
{
	if (hold->left)
		hold->slot += hold->hi - hold->lo;
	unregister(hold);
	end_waits(hold);
	resume_tracking(hold);
	hold->left = hold->moves = hold->guards = false;
	hold->memory = NULL;
	memset(hold->registered, 0, sizeof(hold->registered));
}

#ifndef PDD_TEST_NO_HOLD
static void wake(const struct pddi_hold *hold, uint32_t bit, uint32_t npages)
{
	if (hold->moves)
		(void)wake_by(hold, pddi_hold_mover(hold), bit, npages);
	if (hold->guards)
		(void)wake_by(hold, hold->probe->uffd, bit, npages);
}

void pddi_hold_end(struct pddi_hold *hold, uint64_t first, uint64_t npages, bool replaced)
{
	uint32_t bit = (uint32_t)(first - hold->base);
	uint32_t staged = (uint32_t)pddi_bits_count(hold->staged, bit, npages);

	hold->left = hold->left || staged;
	hold->nheld -= staged + (uint32_t)pddi_bits_count(hold->guarded, bit, npages);
	pddi_bits_put(hold->staged, bit, npages, false);
	pddi_bits_put(hold->guarded, bit, npages, false);
	if (replaced)
		pddi_bits_put(hold->registered, bit, npages, false);
	if (hold->nheld)
		wake(hold, bit, (uint32_t)npages);
	else
		pddi_hold_finish(hold);
}

bool pddi_hold_covers(const struct pddi_hold *hold, const struct pdd_linux_memory *memory,
		      uint64_t first, uint64_t npages)
{
	uint64_t bit = first - hold->base;

	return hold->memory == memory && first >= hold->base && npages &&
	       bit + npages <= PDD_EXTENT_PAGES &&
	       pddi_bits_count(hold->staged, bit, npages) +
			       pddi_bits_count(hold->guarded, bit, npages) ==
		       npages;
}
#else
void pddi_hold_end(struct pddi_hold *hold, uint64_t first, uint64_t npages, bool replaced)
{
	(void)hold, (void)first, (void)npages, (void)replaced;
}

bool pddi_hold_covers(const struct pddi_hold *hold, const struct pdd_linux_memory *memory,
		      uint64_t first, uint64_t npages)
{
	(void)hold, (void)memory, (void)first, (void)npages;
	return true;
}
#endif

bool pddi_hold_is_staged(const struct pddi_hold *hold, uint64_t page)
{
	return hold->memory && pddi_bit_test(hold->staged, page - hold->base);
}

/* Put moved pages back; see the top. */
static void put_back(const struct pddi_hold *hold, uint32_t at, uint32_t end)
{
	int uffd = pddi_hold_mover(hold);

	while (at < end) {
		unsigned char *to = pddi_hold_address(hold, at);
		int n = pddi_uffd_copy(uffd, to, pddi_hold_copy(hold, at), end - at,
				       hold->page_shift);

		if (n < 0 && n != -EEXIST)
			n = pddi_uffd_move(uffd, to, pddi_hold_staging(hold, at), end - at,
					   hold->page_shift);
		if (n > 0)
			at += (uint32_t)n;
		else if (n == -EAGAIN || n == -ENOMEM || n == -EBUSY || n == -EINTR)
			sched_yield();
		else
			at++; /* its mapping is gone, against the contract */
	}
}

void pddi_hold_release(struct pddi_hold *hold, uint64_t first, uint64_t npages)
{
	uint64_t from = first - hold->base, to = from + npages, at, end;

	if (!hold->memory)
		return;
	for (at = from; (at = pddi_bits_next(hold->staged, at, to, true)) < to; at = end) {
		end = pddi_bits_next(hold->staged, at, to, false);
		put_back(hold, (uint32_t)at, (uint32_t)end);
		hold->left = true;
		pddi_bits_put(hold->staged, at, end - at, false);
		hold->nheld -= (uint32_t)(end - at);
	}
	for (at = from; (at = pddi_bits_next(hold->guarded, at, to, true)) < to; at = end) {
		end = pddi_bits_next(hold->guarded, at, to, false);
		(void)pddi_uffd_protect(hold->probe->uffd, pddi_hold_address(hold, (uint32_t)at),
					end - at, hold->page_shift, false);
	}
	pddi_hold_end(hold, first, npages, false);
}

/* --- making --- */

int pddi_hold_init(struct pddi_hold *hold, struct pddi_probe *probe,
		   const struct pddi_pagemap *map, uint32_t page_shift, uint32_t flags)
{
	size_t length = (size_t)PDDI_STAGING_PAGES << page_shift;

	memset(hold, 0, sizeof(*hold));
	hold->probe = probe;
	hold->map = map;
	hold->page_shift = page_shift;
	hold->protect = probe->facilities.write_protect && flags & PDD_LINUX_NO_DEVICE_WRITES;
	if (!probe->facilities.move || flags & PDD_LINUX_NO_MOVE)
		return 0;
	/* Accountable, unlike our other memory: a page moves only between mappings alike. */
	hold->staging = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	if (hold->staging == MAP_FAILED) {
		hold->staging = NULL;
		return -ENOMEM;
	}
	hold->copy = pddi_pages_alloc((size_t)PDD_EXTENT_PAGES << page_shift);
	if (!hold->copy)
		return -ENOMEM;
	/* A fork while a page is here would share it with the child, and it could not go back. */
	(void)madvise(hold->staging, length, MADV_DONTFORK);
	(void)madvise(hold->staging, length, MADV_NOHUGEPAGE);
	hold->by_tracker = probe->track_uffd >= 0;
	/* A page moves only to a place that is registered; nothing is ever protected here. */
	hold->move = !pddi_uffd_register(pddi_hold_mover(hold), hold->staging,
					 PDDI_STAGING_PAGES, page_shift, UFFDIO_REGISTER_MODE_WP);
	return 0;
}

void pddi_hold_settle_mover(struct pddi_hold *hold)
{
	if (!hold->by_tracker || hold->probe->track_uffd >= 0)
		return;
	/* Given up. The kernel has ended its registrations. */
	hold->by_tracker = false;
	hold->move = hold->probe->uffd >= 0 &&
		     !pddi_uffd_register(hold->probe->uffd, hold->staging,
					 PDDI_STAGING_PAGES, hold->page_shift, UFFDIO_REGISTER_MODE_WP);
}

void pddi_hold_fini(struct pddi_hold *hold)
{
	pddi_pages_free(hold->staging, (size_t)PDDI_STAGING_PAGES << hold->page_shift);
	pddi_pages_free(hold->copy, (size_t)PDD_EXTENT_PAGES << hold->page_shift);
	hold->staging = NULL;
	hold->copy = NULL;
}
