/* SPDX-License-Identifier: BSD-2-Clause */
/* turns.c - see turns.h. */
#include "turns.h"

#include <stdio.h>

#include "measure.h"
#include "raw_hash.h"

double turns_ns_per_page(const struct turns_side *side)
{
	return side->ns / (double)side->npages;
}

void turns_hash(const struct plain_memory *memory, struct turns_side *side, uint64_t turn,
		turns_hash_fn hash)
{
	uint64_t first = (memory->npages / 2 + turn * TURNS_PAGES) % memory->npages;
	uint64_t left = memory->npages - first;
	uint64_t npages = left < TURNS_PAGES ? left : TURNS_PAGES;
	static volatile uint64_t result; /* it is used */
	double begin = measure_cpu_ns();

	result = hash(memory->bytes + first * PLAIN_PAGE_BYTES, npages);
	(void)result;
	side->ns += measure_cpu_ns() - begin;
	side->npages += npages;
}

int turns_pass(struct plain_engine *engine, struct turns_side *core, struct turns_side *hash)
{
	int step = PDD_STEP_MORE;

	for (uint64_t turn = 0; step == PDD_STEP_MORE; turn++) {
		double begin;

		turns_hash(engine->memory, hash, turn, raw_hash_pages);
		begin = measure_cpu_ns();
		for (unsigned i = 0; i < TURNS_STEPS && step == PDD_STEP_MORE; i++)
			step = plain_engine_step(engine);
		core->ns += measure_cpu_ns() - begin;
	}
	core->npages += engine->memory->npages;
	if (step == PDD_STEP_PASS)
		return 0;
	fprintf(stderr, "a step said %d\n", step);
	return -1;
}
