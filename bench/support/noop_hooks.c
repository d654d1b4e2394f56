/* SPDX-License-Identifier: BSD-2-Clause */
/* noop_hooks.c - see noop_hooks.h. */
#include "noop_hooks.h"

bool noop_space_trylock(void *ctx, struct pdd_space *space)
{
	return true;
}

void noop_space_unlock(void *ctx, struct pdd_space *space)
{
}

void noop_range(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
}
