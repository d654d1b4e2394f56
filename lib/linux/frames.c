/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames.c - frames: descriptors, making them, giving them back. The invariants are on top of
 * store.c.
 *
 * Wishes are taken in runs of neighbouring places, each written by one pwritev(): at the wished
 * places as long as those were never used, else at the next free places of the overflow area. So
 * neighbours whose places are refused become neighbours elsewhere.
 *
 * Memory that is the mirror of other memory wishes for descending places; that is a run as well,
 * written from its end.
 *
 * Hard case: a run that is written only in part, for want of memory or because the source vanished.
 * Of what was not written no frame is made and no mapping covers it, so it is punched and may be
 * given out later. A run that descends is then given up as a whole, and made frame by frame.
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

/* Neighbours written by one call: as many as there are slots; below the kernel's limit for one
 * vector (1024). */
#define RUN_MAX PDDI_RECENT_PAGES
/* Frames read at once. */
#define READ_MAX 16u
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

/* Wishes whose frames stand at neighbouring places, ascending or descending. */
struct run {
	struct pddi_area *area;
	uint64_t page; /* the lowest place of it */
	const struct pdd_frame_wish *wishes;
	uint32_t n;
	bool descends;
};

/* The wish for the i-th place. */
static const struct pdd_frame_wish *wish_at(const struct run *run, uint32_t i)
{
	return &run->wishes[run->descends ? run->n - 1 - i : i];
}

/* Whether wish n of a run gets the place next to that of the wish before. */
static bool continues(const struct run *run, const struct pdd_frame_wish *wish, uint32_t n,
		      bool wished, uint64_t first)
{
	struct pddi_area *area;
	uint64_t page;

	if (wished_place(wish, &area, &page) != wished)
		return false;
	if (!wished)
		return first + n < run->area->npages;
	return area == run->area && page == (run->descends ? first - n : first + n);
}

/* Plan the longest run that begins with the first of at most `max` wishes. 0 or -errno. */
static int plan_run(struct pddi_store *store, struct run *run, const struct pdd_frame_wish *wishes,
		    uint32_t max)
{
	bool wished = wished_place(&wishes[0], &run->area, &run->page);
	uint64_t first;
	uint32_t n = 1;

	run->wishes = wishes;
	if (!wished) {
		int error = overflow_place(store, &run->area, &run->page);

		if (error)
			return error;
	}
	first = run->page;
	max = max < RUN_MAX ? max : RUN_MAX;
	run->descends = wished && max > 1 && wishes[1].page + 1 == first;
	/* cppcheck-suppress knownConditionTrueFalse ; takes a minimum by ?: for 1 */
	while (n < max && continues(run, &wishes[n], n, wished, first))
		n++;
	run->n = n;
	if (run->descends)
		run->page = first + 1 - n;
	return 0;
}

/* The sources of a run in the order of their places; the number of pieces. */
static int sources_of(struct iovec *pieces, const struct run *run, size_t page_size)
{
	int n = 0;

	for (uint32_t i = 0; i < run->n; i++) {
		void *content = (void *)(uintptr_t)wish_at(run, i)->content;

		if (n && (uintptr_t)pieces[n - 1].iov_base + pieces[n - 1].iov_len ==
				 (uintptr_t)content)
			pieces[n - 1].iov_len += page_size;
		else
			pieces[n++] = (struct iovec){ .iov_base = content, .iov_len = page_size };
	}
	return n;
}

/* Copy what is to be written to where it stays readable; the number of pieces there, for the pages
 * that could be read. 0: it has to be written from where it is. */
static int gather(struct pddi_recent *recent, struct iovec *pieces, const struct run *run,
		  const struct iovec *sources, int nsources)
{
	uint64_t place = run->area->place + run->page;
	ssize_t got;
	int n;

	if (!recent->content)
		return 0;
	for (uint32_t i = 0; i < run->n; i++)
		if (pddi_recent_has(recent, run->wishes[i].content))
			return 0;
	n = pddi_recent_slots(recent, pieces, place, run->n);
	got = process_vm_readv(getpid(), pieces, (unsigned long)n, sources,
			       (unsigned long)nsources, 0);
	if (got >> recent->page_shift <= 0)
		return 0;
	return pddi_recent_slots(recent, pieces, place, (uint64_t)got >> recent->page_shift);
}

/* Write the frames of a run. How many were written, from the lowest place on, or -errno if none. */
static int write_run(struct pddi_store *store, const struct run *run)
{
	uint64_t place = run->area->place + run->page;
	unsigned long offset = place << store->page_shift;
	struct iovec sources[RUN_MAX], slots[2];
	int nsources = sources_of(sources, run, (size_t)1 << store->page_shift);
	int nslots = gather(&store->recent, slots, run, sources, nsources);
	long written;

	do {
		written = syscall(SYS_pwritev, store->fd, nslots ? slots : sources,
				  nslots ? nslots : nsources, offset, 0UL);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		return errno == EFBIG ? -ENOSPC : -errno;
	written >>= store->page_shift;
	if (nslots)
		pddi_recent_keep(&store->recent, place, (uint64_t)written);
	return written ? (int)written : -ENOSPC;
}

/* Cut a run to what the store may grow to. False: nothing is left. */
static bool limit_run(const struct pddi_store *store, struct run *run)
{
	uint64_t places = pddi_store_limit_bytes() >> store->page_shift;
	uint64_t place = run->area->place + run->page;

	if (place >= places)
		return false;
	if (run->n <= places - place)
		return true;
	/* Of a run that descends it is the first wishes that are beyond. */
	if (run->descends)
		return false;
	run->n = (uint32_t)(places - place);
	return true;
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

static struct pddi_frame *mutable_frame(struct pdd_frame *frame)
{
	return (struct pddi_frame *)(void *)frame;
}

/* Descriptors for the run, as many as there is memory for; cuts it. False: none. */
static bool describe_run(struct pddi_store *store, struct pdd_frame **frames, struct run *run)
{
	uint32_t i;

	for (i = 0; i < run->n; i++) {
		struct pddi_frame *frame = frame_get(store);

		if (!frame)
			break;
		frame->area = run->area;
		frame->u.page = run->descends ? run->page + run->n - 1 - i : run->page + i;
		frames[i] = &frame->frame;
	}
	if (run->descends)
		run->page += run->n - i;
	run->n = i;
	return i;
}

/* Make the frames of a run. The number, a prefix of its wishes, or -errno. */
static int make_run(struct pddi_store *store, struct pdd_frame **frames, struct run *run)
{
	uint64_t place;
	int made, written;

	if (!limit_run(store, run))
		return -ENOSPC;
	if (!describe_run(store, frames, run))
		return -ENOMEM;
	place = run->area->place + run->page;
	written = write_run(store, run);
	made = written;
	/* What was written of a run that descends are its last wishes. */
	if (run->descends && made < (int)run->n)
		made = made > 0 ? -ENOSPC : made;
	for (uint32_t i = made > 0 ? (uint32_t)made : 0; i < run->n; i++)
		frame_put(store, mutable_frame(frames[i]));
	if (made < (int)run->n) {
		uint32_t kept = made > 0 ? (uint32_t)made : 0;

		punch(store, place + kept, run->n - kept);
		pddi_recent_forget(&store->recent, place + kept, run->n - kept);
	}
	if (made < 0)
		return made;
	pddi_bits_put(run->area->used, run->page, (uint32_t)made, true);
	run->area->nused += (uint32_t)made;
	run->area->nframes += (uint32_t)made;
	store->nframes += (uint32_t)made;
	return made;
}

int pddi_store_create(struct pddi_store *store, struct pdd_frame **frames,
		      const struct pdd_frame_wish *wishes, uint32_t nframes)
{
	uint32_t done = 0, max = nframes;
	int made = 0;

	pddi_recent_renew(&store->recent);
	while (done < nframes) {
		struct run run = { 0 };

		made = plan_run(store, &run, wishes + done, max < nframes - done ? max : nframes - done);
		if (!made)
			made = make_run(store, frames + done, &run);
		if (made < 0 && run.descends && max > 1) {
			max = 1; /* the first ones may be made all the same */
			continue;
		}
		if (made < 0)
			break;
		done += (uint32_t)made;
		if (made < (int)run.n)
			break; /* whoever asks again is told the reason */
	}
	return done ? (int)done : made;
}

/* --- reading them --- */

const void *pddi_frame_content(struct pddi_store *store, const struct pdd_frame *frame)
{
	const struct pddi_area *area = pddi_frame_of(frame)->area;
	uint64_t page = pddi_frame_of(frame)->u.page, end;
	const void *content = pddi_recent_find(&store->recent, area->place + page);

	if (content)
		return content;
	/* Who comes by one of a run will come by the next. */
	end = page + READ_MAX < area->npages ? page + READ_MAX : area->npages;
	end = pddi_bits_next(area->used, page, end, false);
	content = pddi_recent_read(&store->recent, store->fd, area->place + page, end - page);
	return content ? content : area->content + (page << store->page_shift);
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
