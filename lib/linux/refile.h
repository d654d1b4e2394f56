/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refile.h - let pages show another frame of the same content. Private; the argument is on top of
 * refile.c.
 *
 * Locking: the caller's, as for hold.h.
 */
#ifndef PDDI_LINUX_REFILE_H
#define PDDI_LINUX_REFILE_H

#include "hold.h"
#include "mappings.h"
#include "store.h"

/*
 * The hook frames_remap. Nothing is held before, and nothing is afterwards.
 * @return the number of pages done, a prefix; 0: the first page has a copy of its own; or -errno if
 *         none: -ENOSPC budget or limit of mappings, -ENOMEM, -EBUSY, -ENOSYS nothing can be
 *         protected
 */
int pddi_frames_remap(struct pddi_hold *hold, struct pddi_budget *budget,
		      const struct pddi_store *store, struct pdd_linux_memory *memory,
		      uint64_t first, struct pdd_frame *const *frames, uint64_t npages);

#endif
