/* SPDX-License-Identifier: BSD-2-Clause */
/* plain_engine.c - see plain_engine.h. */
#include "plain_engine.h"

#include <stdio.h>
#include <string.h>

#include "huge_memory.h"
#include "raw_hash.h"

uint64_t plain_engine_roots(uint64_t npages)
{
	uint64_t nroots = 1;

	while (nroots <= npages / 2)
		nroots *= 2;
	return nroots;
}

uint64_t plain_engine_metadata_bytes(uint64_t npages)
{
	return npages * sizeof(struct pdd_item) +
	       pdd_region_extents(npages) * sizeof(struct pdd_extent) +
	       plain_engine_roots(npages) * sizeof(struct pdd_rbroot) +
	       sizeof(struct pdd_scanner) + sizeof(struct pdd_worker);
}

struct plain_engine *plain_engine_create(uint64_t npages)
{
	struct plain_engine *engine = huge_alloc(sizeof(*engine));

	engine->room = npages;
	engine->roots = huge_alloc(plain_engine_roots(npages) * sizeof(*engine->roots));
	engine->extents = huge_alloc(pdd_region_extents(npages) * sizeof(*engine->extents));
	engine->items = huge_alloc(npages * sizeof(*engine->items));
	return engine;
}

void plain_engine_destroy(struct plain_engine *engine)
{
	huge_free(engine->roots, plain_engine_roots(engine->room) * sizeof(*engine->roots));
	huge_free(engine->extents, pdd_region_extents(engine->room) * sizeof(*engine->extents));
	huge_free(engine->items, engine->room * sizeof(*engine->items));
	huge_free(engine, sizeof(*engine));
}

int plain_engine_start(struct plain_engine *engine, struct plain_memory *memory,
		       const struct pdd_ops *ops, const struct pdd_tunables *tunables)
{
	uint64_t npages = memory->npages, nroots = plain_engine_roots(npages);
	const struct pdd_scanner_options options = {
		.size = sizeof(options), .roots = engine->roots, .nroots = nroots,
		.secret = raw_secret, .secret_len = sizeof(raw_secret), .tunables = tunables,
	};

	engine->memory = memory;
	memset(&engine->worker, 0, sizeof(engine->worker));
	memset(engine->roots, 0, nroots * sizeof(*engine->roots));
	memset(engine->extents, 0, pdd_region_extents(npages) * sizeof(*engine->extents));
	memset(engine->items, 0, npages * sizeof(*engine->items));
	if (pdd_scanner_init(&engine->scanner, ops, memory, &options) ||
	    pdd_space_add(&engine->scanner, &memory->space, 0) ||
	    pdd_region_add(&memory->space, &memory->region, 0, npages, engine->extents,
			   engine->items)) {
		fprintf(stderr, "the scanner cannot be set up\n");
		return -1;
	}
	return 0;
}

int plain_engine_step(struct plain_engine *engine)
{
	const struct pdd_budget budget = { .pages = PLAIN_STEP_PAGES };

	return pdd_scanner_step(&engine->scanner, &engine->worker, &budget);
}

int plain_engine_pass(struct plain_engine *engine)
{
	int step;

	while ((step = plain_engine_step(engine)) == PDD_STEP_MORE)
		;
	if (step == PDD_STEP_PASS)
		return 0;
	fprintf(stderr, "a step said %d\n", step);
	return -1;
}
