/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * track.h - which pages were written since they were asked for last. Private; the argument is on
 * top of track.c.
 *
 * Locking: the caller's, as for hold.h.
 */
#ifndef PDDI_LINUX_TRACK_H
#define PDDI_LINUX_TRACK_H

#include "memory.h"
#include "probe.h"
#include "view.h"

/* Runs that one scan may answer; more are asked for again. */
#define PDDI_TRACK_VECTOR 1024u
#define PDDI_TRACK_BYTES ((size_t)PDDI_TRACK_VECTOR * 24)

struct page_region;

struct pddi_track {
	struct pddi_probe *probe;
	struct page_region *runs; /* what a scan answers */
	uint32_t vector;          /* 1 .. PDDI_TRACK_VECTOR; tests make it small */
	uint32_t page_shift;
	bool turns;               /* devices may write: see the top of track.c */
};

/* @param flags  enum pdd_linux_flags: with PDD_LINUX_NO_TRACKING, and where the kernel cannot do
 * it, tracking is off. @return 0 or -ENOMEM */
int pddi_track_init(struct pddi_track *track, struct pddi_probe *probe, uint32_t page_shift,
		    uint32_t flags);
void pddi_track_fini(struct pddi_track *track);

/* The hook pages_written. -ENOSYS: tracking is off. */
int64_t pddi_track_written(struct pddi_track *track, struct pdd_linux_memory *memory,
			   uint64_t *bits, uint64_t first, uint64_t npages);

/*
 * Take pages that are to be registered with the other userfaultfd away from tracking, and give them
 * back to it; all of them count as written then. Where the memory is not tracked both do nothing.
 * @return 0 or -errno, as at the limit of mappings: they are not tracked for sure before the next
 *         scan, but may be registered
 */
int pddi_track_pause(const struct pddi_probe *probe, struct pdd_linux_memory *memory,
		     uint64_t first, uint64_t npages);
void pddi_track_resume(const struct pddi_probe *probe, struct pdd_linux_memory *memory,
		       uint64_t first, uint64_t npages);

/* Track a memory no more: nothing of it is registered. It begins anew when it is asked for. */
void pddi_track_stop(struct pddi_probe *probe, struct pdd_linux_memory *memory);
/* The same, whatever its pages are registered for with the userfaultfd that tracks. */
void pddi_track_reset(struct pddi_probe *probe, struct pdd_linux_memory *memory);

#endif
