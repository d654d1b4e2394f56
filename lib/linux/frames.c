/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames.c - frames: descriptors, making them, giving them back. The invariants are on top of
 * store.c.
 *
 * Wishes are taken in runs of neighbouring places, each written by one pwritev(): at the wished
 * places as long as those were never used, else at the next free places of the overflow area. So
 * neighbours whose places are refused become neighbours elsewhere.
 *
 * Hard case: a run that is written only in part, for want of memory or because the source vanished.
 * Of what was not written no frame is made and no mapping covers it, so it is punched and may be
 * given out later.
 *
 * pwritev() is called by its number: what it reads is memory that others write, which is meant, and
 * which the interceptors of sanitizers would complain about.
 *
 * Up to HOLE_MAX freed neighbours are punched together, at the latest by pddi_store_flush(). Until
 * then their blocks are only late: no place is given out again.
 *
 * Locking: the caller keeps a store to itself. Complexity: O(1) per frame, and one system call for
 * each run of neighbours.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory.h"
#include "store.h"
#include "uapi.h"

_Static_assert(sizeof(long) == 8, "file offsets are handed to the kernel in one register");

/* Neighbours written by one call; below the kernel's limit for one vector (1024). */
#define RUN_MAX 512u
/* Freed neighbours that may wait to be punched. */
#define HOLE_MAX 512u

/* --- descriptors --- */

static struct pddi_frame *frame_get(struct pddi_store *store)
{
	struct pddi_frame *frame;

	if (!store->free_frames) {
		struct pddi_frame_chunk *chunk = pddi_pages_alloc(PDDI_CHUNK_BYTES);
		size_t i;

		if (!chunk)
			return NULL;
		chunk->next = store->chunks;
		store->chunks = chunk;
		store->metadata_bytes += PDDI_CHUNK_BYTES;
		for (i = PDDI_CHUNK_FRAMES; i-- > 0;) {
			chunk->frames[i].u.next_free = store->free_frames;
			store->free_frames = &chunk->frames[i];
		}
	}
	frame = store->free_frames;
	store->free_frames = frame->u.next_free;
	memset(frame, 0, sizeof(*frame));
	return frame;
}

static void frame_put(struct pddi_store *store, struct pddi_frame *frame)
{
	frame->area = NULL;
	frame->u.next_free = store->free_frames;
	store->free_frames = frame;
}

/* --- making frames --- */

/* Whether the place that is wished for was never used; `area` and `page` are it. */
static bool wished_place(const struct pdd_frame_wish *wish, struct pddi_area **area, uint64_t *page)
{
	*area = pddi_memory_of_region(wish->region)->area;
	*page = wish->page;
	return *page < (*area)->npages && !pddi_bit_test((*area)->used, *page);
}

static int overflow_place(struct pddi_store *store, struct pddi_area **area, uint64_t *page)
{
	if (!store->overflow || store->overflow->nused == store->overflow->npages) {
		struct pddi_area *fresh;
		int error = pddi_store_area_add(store, &fresh, PDDI_OVERFLOW_PAGES);

		if (error)
			return error;
		/* The full one goes with its last frame, like that of a memory that is gone. */
		if (store->overflow)
			pddi_store_area_drop(store, store->overflow);
		store->overflow = fresh;
	}
	*area = store->overflow;
	*page = store->overflow->nused;
	return 0;
}

/* How many wishes from the first on get neighbouring places; where they are. Or -errno. */
static int plan_run(struct pddi_store *store, struct pddi_area **area, uint64_t *page,
		    const struct pdd_frame_wish *wishes, uint32_t nwishes)
{
	struct pddi_area *own;
	uint64_t own_page;
	bool wished = wished_place(&wishes[0], &own, &own_page);
	uint32_t n = 1;

	if (wished) {
		*area = own;
		*page = own_page;
	} else {
		int error = overflow_place(store, area, page);

		if (error)
			return error;
	}
	while (n < nwishes && n < RUN_MAX && *page + n < (*area)->npages &&
	       wished_place(&wishes[n], &own, &own_page) == wished &&
	       (!wished || (own == *area && own_page == *page + n)))
		n++;
	return (int)n;
}

/* Write pages at neighbouring places. The number of whole pages written, or -errno if none. */
static int write_run(const struct pddi_store *store, uint64_t place,
		     const struct pdd_frame_wish *wishes, uint32_t nwishes)
{
	size_t page_size = (size_t)1 << store->page_shift;
	unsigned long offset = place << store->page_shift;
	uint64_t limit = pddi_store_limit_bytes();
	struct iovec vec[RUN_MAX];
	int nvec = 0;
	uint32_t i;
	long written;

	if (offset + page_size > limit)
		return -ENOSPC;
	if (nwishes > (limit - offset) >> store->page_shift)
		nwishes = (uint32_t)((limit - offset) >> store->page_shift);

	for (i = 0; i < nwishes; i++) {
		void *content = (void *)(uintptr_t)wishes[i].content;

		if (nvec && (uintptr_t)vec[nvec - 1].iov_base + vec[nvec - 1].iov_len ==
				    (uintptr_t)content)
			vec[nvec - 1].iov_len += page_size;
		else
			vec[nvec++] = (struct iovec){ .iov_base = content, .iov_len = page_size };
	}
	do {
		written = syscall(SYS_pwritev, store->fd, vec, nvec, offset, 0UL);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		return errno == EFBIG ? -ENOSPC : -errno;
	return written >> store->page_shift ? (int)(written >> store->page_shift) : -ENOSPC;
}

static void punch(const struct pddi_store *store, uint64_t place, uint64_t npages)
{
	int error;

	do {
		error = fallocate(store->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)(place << store->page_shift),
				  (off_t)(npages << store->page_shift));
	} while (error && errno == EINTR);
}

/* Descriptors for the run, as many as there is memory for; the number. */
static uint32_t describe_run(struct pddi_store *store, struct pdd_frame **frames,
			     struct pddi_area *area, uint64_t page, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct pddi_frame *frame = frame_get(store);

		if (!frame)
			break;
		frame->area = area;
		frame->u.page = page + i;
		frames[i] = &frame->frame;
	}
	return i;
}

static struct pddi_frame *mutable_frame(struct pdd_frame *frame)
{
	return (struct pddi_frame *)(void *)frame;
}

int pddi_store_create(struct pddi_store *store, struct pdd_frame **frames,
		      const struct pdd_frame_wish *wishes, uint32_t nframes)
{
	uint32_t done = 0;
	int result = 0;

	while (done < nframes) {
		struct pddi_area *area = NULL;
		uint64_t page = 0;
		uint32_t n, i;

		result = plan_run(store, &area, &page, wishes + done, nframes - done);
		if (result < 0)
			break;
		n = describe_run(store, frames + done, area, page, (uint32_t)result);
		result = n ? write_run(store, area->place + page, wishes + done, n) : -ENOMEM;
		for (i = result > 0 ? (uint32_t)result : 0; i < n; i++)
			frame_put(store, mutable_frame(frames[done + i]));
		if (result < (int)n && n)
			punch(store, area->place + page + (result > 0 ? (uint32_t)result : 0), 1);
		if (result < 0)
			break;
		pddi_bits_put(area->used, page, (uint32_t)result, true);
		area->nused += (uint32_t)result;
		area->nframes += (uint32_t)result;
		store->nframes += (uint32_t)result;
		done += (uint32_t)result;
		if (result < (int)n)
			break; /* whoever asks again is told the reason */
	}
	return done ? (int)done : result;
}

/* --- giving them back --- */

void pddi_store_flush(struct pddi_store *store)
{
	if (store->hole_pages && !store->keep_blocks)
		punch(store, store->hole_place, store->hole_pages);
	store->hole_pages = 0;
}

void pddi_store_free(struct pddi_store *store, struct pdd_frame *frame)
{
	struct pddi_area *area = mutable_frame(frame)->area;
	uint64_t place = pddi_frame_place(frame);

	if (store->hole_pages && place == store->hole_place + store->hole_pages) {
		store->hole_pages++;
	} else if (store->hole_pages && place + 1 == store->hole_place) {
		store->hole_place--;
		store->hole_pages++;
	} else {
		pddi_store_flush(store);
		store->hole_place = place;
		store->hole_pages = 1;
	}
	if (store->hole_pages == HOLE_MAX)
		pddi_store_flush(store);
	frame_put(store, mutable_frame(frame));
	store->nframes--;
	if (!--area->nframes && area->dropped)
		pddi_store_area_free(store, area);
}
