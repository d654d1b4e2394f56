/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * store.c - the frame store: a memfd, and its areas.
 *
 * The store is a sparse file of 64-bit page numbers, cut into areas: one for each added memory,
 * as long as that memory, so that a frame can stand where its first page stands and neighbours
 * become neighbours by themselves; and overflow areas, filled from their start.
 *
 * Invariants
 *  1. The store is never mapped writable. Frames are written by pwritev() before anybody knows
 *     them, and read as copies (recent.c) or through one read-only mapping for each area; so no
 *     store instruction of this process can change a published frame.
 *  2. A place is given out once. A place that was used is refused for ever: a private copy made
 *     by a write still lies in a mapping of the place of its old frame, and would, once dropped,
 *     show whatever frame stands there then, of whatever domain.
 *  3. Only places of living frames have blocks, save those in [hole_place, hole_place +
 *     hole_pages), which are punched with the next flush. Places without blocks are not read:
 *     reading a hole through a mapping makes the kernel fill it.
 *  4. nframes of an area counts its living frames; a dropped area without any is freed. `used`
 *     holds nused bits, and every living frame's.
 *
 * Frames are made and freed in frames.c.
 *
 * Locking: the caller keeps a store to itself. Complexity: an area costs address space, a bit for
 * each place and one mapping.
 */
#define _GNU_SOURCE 1
#include "store.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fd.h"
#include "uapi.h"

_Static_assert(offsetof(struct pddi_frame, frame) == 0, "pddi_frame_of() relies on it");

int pddi_store_init(struct pddi_store *store, uint32_t page_shift)
{
	memset(store, 0, sizeof(*store));
	store->page_shift = page_shift;
	store->fd = -1;
	if (pddi_recent_init(&store->recent, page_shift))
		return -ENOMEM;
	store->fd = memfd_create("pagededup-store",
				 MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (store->fd < 0 && errno == EINVAL)
		store->fd = memfd_create("pagededup-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	store->fd = pddi_fd_above_stdio(store->fd);
	if (store->fd < 0)
		return -errno;
	/*
	 * Shrinking would turn sharers' pages into SIGBUS; more seals would stop us. It has to grow
	 * with every area.
	 */
	if (fcntl(store->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)) {
		int error = -errno;

		close(store->fd);
		store->fd = -1;
		return error;
	}
	return 0;
}

static size_t area_bytes(uint64_t npages)
{
	return sizeof(struct pddi_area) + PDDI_BITMAP_WORDS(npages) * sizeof(uint64_t);
}

uint64_t pddi_store_limit_bytes(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur > INT64_MAX)
		return INT64_MAX;
	return limit.rlim_cur;
}

int pddi_store_area_add(struct pddi_store *store, struct pddi_area **out, uint64_t npages)
{
	uint64_t bytes = npages << store->page_shift;
	uint64_t offset = store->end << store->page_shift;
	struct pddi_area *area;
	void *content;

	if (offset + bytes > pddi_store_limit_bytes())
		return -EFBIG;
	/* It cannot shrink again, should the rest fail. */
	if (store->grown < store->end + npages) {
		if (ftruncate(store->fd, (off_t)(offset + bytes)))
			return -errno;
		store->grown = store->end + npages;
	}
	area = pddi_pages_alloc(area_bytes(npages));
	if (!area)
		return -ENOMEM;
	content = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, store->fd,
		       (off_t)offset);
	if (content == MAP_FAILED) {
		pddi_pages_free(area, area_bytes(npages));
		return -ENOMEM;
	}
	/* What a core dump needs of the frames is in the pages that show them. */
	(void)madvise(content, bytes, MADV_DONTDUMP);

	area->content = content;
	area->place = store->end;
	area->npages = npages;
	area->next = store->areas;
	area->pprev = &store->areas;
	if (area->next)
		area->next->pprev = &area->next;
	store->areas = area;
	store->end += npages;
	store->metadata_bytes += area_bytes(npages);
	*out = area;
	return 0;
}

void pddi_store_area_free(struct pddi_store *store, struct pddi_area *area)
{
	*area->pprev = area->next;
	if (area->next)
		area->next->pprev = area->pprev;
	munmap((void *)(uintptr_t)area->content, area->npages << store->page_shift);
	store->metadata_bytes -= area_bytes(area->npages);
	pddi_pages_free(area, area_bytes(area->npages));
}

void pddi_store_area_drop(struct pddi_store *store, struct pddi_area *area)
{
	area->dropped = true;
	if (!area->nframes)
		pddi_store_area_free(store, area);
}

void pddi_store_fini(struct pddi_store *store)
{
	pddi_store_flush(store);
	while (store->areas)
		pddi_store_area_free(store, store->areas);
	while (store->chunks) {
		struct pddi_frame_chunk *next = store->chunks->next;

		pddi_pages_free(store->chunks, PDDI_CHUNK_BYTES);
		store->chunks = next;
	}
	pddi_recent_fini(&store->recent);
	if (store->fd >= 0)
		close(store->fd);
	store->fd = -1;
}

int64_t pddi_store_bytes(const struct pddi_store *store)
{
	struct stat status;

	return fstat(store->fd, &status) ? -errno : (int64_t)status.st_blocks * 512;
}

static int broken(const char **why, const char *text)
{
	if (why)
		*why = text;
	return -EUCLEAN;
}

int pddi_store_check(const struct pddi_store *store, const char **why)
{
	const struct pddi_frame_chunk *chunk;
	const struct pddi_area *area;
	uint64_t living = 0, described = 0;
	size_t i;

	for (area = store->areas; area; area = area->next) {
		if (area->place + area->npages > store->end)
			return broken(why, "an area reaches beyond the store");
		if (pddi_bits_count(area->used, 0, area->npages) != area->nused)
			return broken(why, "an area's used places are counted wrongly");
		if (area->nframes > area->nused)
			return broken(why, "an area has more frames than used places");
		if (area->dropped && !area->nframes)
			return broken(why, "a dropped area without frames lives on");
		living += area->nframes;
	}
	for (chunk = store->chunks; chunk; chunk = chunk->next) {
		for (i = 0; i < PDDI_CHUNK_FRAMES; i++) {
			const struct pddi_frame *frame = &chunk->frames[i];

			if (!frame->area)
				continue;
			described++;
			if (!pddi_bit_test(frame->area->used, frame->u.page))
				return broken(why, "a frame stands at an unused place");
		}
	}
	if (living != store->nframes || described != living)
		return broken(why, "frames are counted wrongly");
	return 0;
}
