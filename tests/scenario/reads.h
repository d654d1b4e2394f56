/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reads.h - which pages steps read: a checksum hook that notes their addresses.
 *
 * Contents of frames count nowhere, nor does what sim_verify() reads. Pages that are only compared,
 * while they are held, are not read in this sense.
 */
#ifndef PDD_TEST_READS_H
#define PDD_TEST_READS_H

#include <pagededup/checksum.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* Of the region that is watched, per page; and of all regions, since reads_clear(). */
static const struct sim_region *reads_region;
static uint32_t *reads_of;
static uint64_t reads_total;

static inline bool reads_is_page(const struct sim_region *region, const void *content)
{
	uintptr_t at = (uintptr_t)content, memory = (uintptr_t)region->memory;

	return at >= memory && at - memory < region->npages * region->space->sim->page_size;
}

static inline int reads_checksum(void *ctx, uint64_t *value, const void *content)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const struct sim *sim = ctx;

	*value = pdd_checksum_page(content, sim->page_size, secret, sizeof(secret)).value;
	if (!sim->stepping)
		return 0;
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *r = space->regions; r; r = r->next)
			reads_total += reads_is_page(r, content);
	if (reads_region && reads_is_page(reads_region, content))
		reads_of[((uintptr_t)content - (uintptr_t)reads_region->memory) / sim->page_size]++;
	return 0;
}

static inline void reads_clear(void)
{
	reads_total = 0;
	if (reads_region)
		memset(reads_of, 0, reads_region->capacity * sizeof(*reads_of));
}

/* Begin to note reads, per page of this region, which may be NULL. */
static inline void reads_watch(struct sim *sim, const struct sim_region *region)
{
	sim->scanner.priv.ops.checksum = reads_checksum;
	free(reads_of);
	reads_of = region ? calloc(region->capacity, sizeof(*reads_of)) : NULL;
	reads_region = region;
	reads_clear();
}

static inline void reads_end(void)
{
	free(reads_of);
	reads_of = NULL;
	reads_region = NULL;
}

#endif
