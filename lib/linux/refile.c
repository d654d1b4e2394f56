/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refile.c - let pages show another frame of the same content, so that sparse frames can be emptied
 * into fuller ones.
 *
 * A page that shows a frame is write-protected, the page map is asked whether it still does, and if
 * so the new frame is mapped over it and whoever waited goes on. Readers are not stopped: they find
 * the old frame or the new one, and both have the same bytes. Why no write is lost, and what
 * devices have to do with it, is on top of hold_framed.c.
 *
 * Invariants
 *  1. A page that was written, at any time before, keeps its copy and does not count as done.
 *  2. A page that fails shows what it showed: the new mapping is the last thing that can fail.
 *
 * Cost: a hold and a mapping for each run of neighbouring frames. A page in the middle of a run
 * that moves alone may cost two mappings, 384 bytes, where emptying its frame may save 4096; so the
 * budget of mappings is asked as for a merge.
 */
#define _GNU_SOURCE 1
#include "refile.h"

#include "remap.h"

int pddi_frames_remap(struct pddi_hold *hold, struct pddi_budget *budget,
		      const struct pddi_store *store, struct pdd_linux_memory *memory,
		      uint64_t first, struct pdd_frame *const *frames, uint64_t npages)
{
	int held = pddi_hold_framed(hold, memory, first, npages, false);
	int done, mapped;

	if (held <= 0)
		return held;
	done = pddi_frames_map(hold, budget, store, memory, first, frames, (uint64_t)held);
	mapped = done > 0 ? done : 0;
	if (mapped < held)
		pddi_hold_release(hold, first + (uint64_t)mapped, (uint64_t)(held - mapped));
	return done;
}
