/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * noop_hooks.h - hooks of embedders that have nothing to do there, since nobody but the benchmark
 * writes to pages, and not while a step is under way. The contexts do not matter.
 */
#ifndef BENCH_NOOP_HOOKS_H
#define BENCH_NOOP_HOOKS_H

#include <pagededup/ops.h>

bool noop_space_trylock(void *ctx, struct pdd_space *space);
void noop_space_unlock(void *ctx, struct pdd_space *space);
/** pages_put and release. */
void noop_range(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);

#endif
