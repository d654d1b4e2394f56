/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * turns.h - a pass of the core, and hashing pages and nothing else, in turns.
 *
 * As many pages from the other end of the memory, and then TURNS_PAGES of the pass, until it is
 * over: so whatever else the machine does slows both, and neither finds in the cache what the other
 * one left. Turns of one step would disturb the pass: it would find nothing of its own in the
 * cache, either, which cost it a twentieth.
 */
#ifndef BENCH_TURNS_H
#define BENCH_TURNS_H

#include "plain_engine.h"

#define TURNS_STEPS 16u
#define TURNS_PAGES (TURNS_STEPS * PLAIN_STEP_PAGES)

/** CPU time of one side. */
struct turns_side {
	double ns;
	uint64_t npages;
};

double turns_ns_per_page(const struct turns_side *side);

typedef uint64_t (*turns_hash_fn)(const void *bytes, uint64_t npages); /* raw_hash.h */

/** Hash the pages of turn number @p turn, which begin half the memory away from the first ones. */
void turns_hash(const struct plain_memory *memory, struct turns_side *side, uint64_t turn,
		turns_hash_fn hash);

/** A pass in turns with raw_hash_pages(). @return 0; -1 after a word on stderr: there was none */
int turns_pass(struct plain_engine *engine, struct turns_side *core, struct turns_side *hash);

#endif
