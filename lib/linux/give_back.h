/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * give_back.h - make memory anonymous again that lies in mappings of the store. Private; the
 * argument is on top of give_back.c.
 *
 * Locking: the caller's, as for hold.h.
 */
#ifndef PDDI_LINUX_GIVE_BACK_H
#define PDDI_LINUX_GIVE_BACK_H

#include "hold.h"
#include "mappings.h"

/*
 * Do it for all pages of a memory, as far as it can be done now. What is left (see the top) lies in
 * mappings of the store as before. Nothing is held before, and nothing is afterwards.
 * @return the number of pages that are left there
 */
uint64_t pddi_give_back(struct pddi_hold *hold, struct pddi_budget *budget,
			struct pdd_linux_memory *memory);

#endif
