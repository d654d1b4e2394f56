/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discard.h - give the memory of pages back, so that they read zero. Private; the argument is on
 * top of discard.c.
 */
#ifndef PDDI_LINUX_DISCARD_H
#define PDDI_LINUX_DISCARD_H

#include "mappings.h"
#include "memory.h"

/*
 * The hook pages_discard. Nothing is held.
 * @return the number of pages done, a prefix; or -errno if none: -ENOSPC at the kernel's limit of
 *         mappings, -ENOMEM, others of madvise if the memory is not what was added
 */
int64_t pddi_discard(struct pddi_budget *budget, struct pdd_linux_memory *memory, uint64_t first,
		     uint64_t npages);

#endif
