/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * plain_engine.h - a scanner over a plain_memory, and all that has to be handed in to it.
 *
 * It can be started again and again, each time with nothing known and an empty index. The records
 * are on huge pages (huge_memory.h).
 */
#ifndef BENCH_PLAIN_ENGINE_H
#define BENCH_PLAIN_ENGINE_H

#include "plain_memory.h"

/* What a step comes by: as an embedder would have it. */
#define PLAIN_STEP_PAGES 4096u

struct plain_engine {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct plain_memory *memory;
	struct pdd_rbroot *roots;
	struct pdd_extent *extents;
	struct pdd_item *items;
	uint64_t room; /* pages at most */
};

struct plain_engine *plain_engine_create(uint64_t npages);
void plain_engine_destroy(struct plain_engine *engine);

/**
 * Begin with the pages of @p memory, which were just reset: nothing is known of them.
 * @param ops       of plain_memory.h, perhaps with more hooks
 * @param tunables  NULL: the defaults
 * @return 0, or -1 after a word on stderr
 */
int plain_engine_start(struct plain_engine *engine, struct plain_memory *memory,
		       const struct pdd_ops *ops, const struct pdd_tunables *tunables);

/** PLAIN_STEP_PAGES, or to the end of a pass. @return enum pdd_step */
int plain_engine_step(struct plain_engine *engine);

/** To the end of the pass under way, or of the next one. @return 0 or -1 */
int plain_engine_pass(struct plain_engine *engine);

/** All that was handed in for so many pages: items, extents, roots, scanner and worker. */
uint64_t plain_engine_metadata_bytes(uint64_t npages);

/** The largest power of two not above the number of pages. */
uint64_t plain_engine_roots(uint64_t npages);

#endif
