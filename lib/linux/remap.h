/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remap.h - put frames and zero pages in the place of held pages, and take them away again.
 * Private; the argument is on top of remap.c.
 *
 * Locking: the caller's, as for hold.h.
 */
#ifndef PDDI_LINUX_REMAP_H
#define PDDI_LINUX_REMAP_H

#include "hold.h"
#include "mappings.h"
#include "store.h"

/* What the hooks frames_map and zero_map answer: pages done, a prefix, or -errno. */
int pddi_frames_map(struct pddi_hold *hold, struct pddi_budget *budget,
		    const struct pddi_store *store, struct pdd_linux_memory *memory, uint64_t first,
		    struct pdd_frame *const *frames, uint64_t npages);
int pddi_zero_map(struct pddi_hold *hold, struct pddi_budget *budget,
		  struct pdd_linux_memory *memory, uint64_t first, uint64_t npages);

/*
 * Replace pages by fresh anonymous memory, which reads zero.
 * @param overdraw  the budget does not matter, only the kernel's limit
 * @return 0; -ENOSPC: budget or limit of mappings; -ENOMEM; nothing was changed then
 */
int pddi_remap_anonymous(struct pddi_budget *budget, struct pdd_linux_memory *memory,
			 uint64_t first, uint64_t npages, bool overdraw);

/* Fresh anonymous memory somewhere, with the flags that pages of the memory have; NULL if there is
 * none. */
unsigned char *pddi_remap_spare(const struct pdd_linux_memory *memory, uint64_t npages);

/* The hook frames_unmap. */
int pddi_frames_unmap(struct pdd_linux_memory *memory, uint64_t first, uint64_t npages);

#endif
