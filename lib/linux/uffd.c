/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uffd.c - the calls on a userfaultfd that holding needs; see uffd.h.
 *
 * What they have in common: a call does a prefix and says so or not; EAGAIN means that the address
 * space was changing or a page was locked, and that the call may be repeated. Most of them want the
 * whole range to lie in one mapping (ENOENT, EINVAL), while memory that is anonymous throughout may
 * consist of many. The halves of a range are tried then, so that a boundary costs log2(npages)
 * further calls and the usual case nothing.
 */
#define _GNU_SOURCE 1
#include "uffd.h"

#include <errno.h>
#include <sched.h>

#include "uapi.h"

int pddi_uffd_register(int uffd, void *start, uint64_t npages, uint32_t page, uint64_t mode)
{
	struct uffdio_register arg = {
		.range = { .start = (uintptr_t)start, .len = npages << page },
		.mode = mode,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &arg) ? -errno : 0;
}

int pddi_uffd_unregister(int uffd, void *start, uint64_t npages, uint32_t page)
{
	struct uffdio_range range = { .start = (uintptr_t)start, .len = npages << page };
	int tries;

	for (tries = 0; ioctl(uffd, UFFDIO_UNREGISTER, &range); tries++) {
		if ((errno != ENOMEM && errno != EAGAIN && errno != EINTR) ||
		    tries == PDDI_BUSY_TRIES)
			return -errno;
		sched_yield();
	}
	return 0;
}

int pddi_uffd_wake(int uffd, void *start, uint64_t npages, uint32_t page)
{
	struct uffdio_range range = { .start = (uintptr_t)start, .len = npages << page };

	return ioctl(uffd, UFFDIO_WAKE, &range) ? -errno : 0;
}

/* Whether a call failed that may work for a part of the range. */
static bool wants_one_mapping(int error, uint64_t npages)
{
	return (error == ENOENT || error == EINVAL) && npages > 1;
}

int pddi_uffd_protect(int uffd, void *start, uint64_t npages, uint32_t page, bool on)
{
	struct uffdio_writeprotect arg = {
		.range = { .start = (uintptr_t)start, .len = npages << page },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE,
	};
	int tries;

	for (tries = 0; ioctl(uffd, UFFDIO_WRITEPROTECT, &arg); tries++) {
		uint64_t half = npages / 2;
		int error = -errno;

		if (wants_one_mapping(-error, npages)) {
			error = pddi_uffd_protect(uffd, start, half, page, on);
			if (error && on)
				return error;
			return pddi_uffd_protect(uffd, (unsigned char *)start + (half << page),
						 npages - half, page, on);
		}
		if ((error != -EAGAIN && error != -EINTR) || (on && tries == PDDI_BUSY_TRIES))
			return error;
		sched_yield();
	}
	return 0;
}

int pddi_uffd_move(int uffd, void *to, void *from, uint64_t npages, uint32_t page)
{
	struct uffdio_move arg = {
		.dst = (uintptr_t)to,
		.src = (uintptr_t)from,
		.len = npages << page,
		.mode = UFFDIO_MOVE_MODE_DONTWAKE,
	};
	int tries = 0;

	while (ioctl(uffd, UFFDIO_MOVE, &arg)) {
		if (arg.move > 0)
			return (int)(arg.move >> page);
		/* ENOENT: nothing is at the first page. */
		if (errno == EINVAL && npages > 1) {
			npages /= 2;
			arg.len = npages << page;
		} else if (errno == EAGAIN && tries++ < PDDI_BUSY_TRIES) {
			sched_yield();
		} else {
			return -errno;
		}
		arg.move = 0;
	}
	return (int)npages;
}

void pddi_uffd_zero(int uffd, void *start, uint64_t npages, uint32_t page)
{
	struct uffdio_zeropage arg = { .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE };
	uint64_t at = (uintptr_t)start, end = at + (npages << page);
	int tries = 0;

	while (at < end) {
		arg.range = (struct uffdio_range){ .start = at, .len = npages << page };
		arg.zeropage = 0;
		if (!ioctl(uffd, UFFDIO_ZEROPAGE, &arg))
			at = arg.range.start + arg.range.len;
		else if (wants_one_mapping(errno, npages))
			npages /= 2;
		else if (errno != EAGAIN || tries++ == PDDI_BUSY_TRIES)
			return;
		else if (arg.zeropage > 0)
			at += (uint64_t)arg.zeropage;
		if (npages > (end - at) >> page)
			npages = (end - at) >> page;
	}
}

int pddi_uffd_copy(int uffd, void *to, const void *from, uint64_t npages, uint32_t page)
{
	struct uffdio_copy arg = {
		.dst = (uintptr_t)to,
		.src = (uintptr_t)from,
		.len = npages << page,
		.mode = UFFDIO_COPY_MODE_DONTWAKE,
	};

	while (ioctl(uffd, UFFDIO_COPY, &arg)) {
		if (arg.copy > 0)
			return (int)(arg.copy >> page);
		if (!wants_one_mapping(errno, npages))
			return -errno;
		npages /= 2;
		arg.len = npages << page;
		arg.copy = 0;
	}
	return (int)npages;
}
