/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * planted.h - for test_model.c: faults that PDD_PLANT names, to show what becomes of a round that
 * fails (test_shrink.sh). Each takes several operations to come about.
 */
#ifndef PLANTED_H
#define PLANTED_H

#include <inttypes.h>
#include <string.h>

#include "model_script.h"

/* A check that is wrong: that clones never show frames beside zero pages. */
static void believe_wrongly(struct sim *sim)
{
	uint64_t shared = 0, zeros = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = 0; i < r->npages; i++) {
				shared += r->pages[i].cloned && r->pages[i].kind == PDD_PAGE_SHARED;
				zeros += r->pages[i].cloned && r->pages[i].kind == PDD_PAGE_ZERO;
			}
	if (shared && zeros)
		sim_fail("planted: %" PRIu64 " shared pages and %" PRIu64 " zero ones in clones",
			 shared, zeros);
}

/* A frame is spoiled, when frames are mapped though a hold has failed in the same step. */
static void spoil_frame(struct sim *sim, enum sim_hook hook, bool before)
{
	static uint64_t steps, failed;

	if (hook == SIM_PAGES_GET && !sim->verifying && sim->calls[SIM_UNLOCK] != steps) {
		steps = sim->calls[SIM_UNLOCK]; /* another extent */
		failed = sim->failed[SIM_HOLD];
	}
	if (hook == SIM_FRAMES_MAP && before && sim->failed[SIM_HOLD] != failed)
		sim->frames->data[0] ^= 1;
}

/* The process ends when pages have got memory of their own again, and a region has grown sparse. */
static void end_suddenly(struct sim *sim)
{
	bool sparse = false;

	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *region = space->regions; region; region = region->next)
			sparse |= !region->extents && region->nblocks;
	if (sparse && sim->calls[SIM_FRAMES_UNMAP])
		__builtin_trap();
}

/* False: there is no such fault. */
static bool plant(const char *name)
{
	if (strcmp(name, "belief") == 0)
		model_script_after = believe_wrongly;
	else if (strcmp(name, "spoil") == 0)
		model_script_at = spoil_frame;
	else if (strcmp(name, "end") == 0)
		model_script_after = end_suddenly;
	else
		return false;
	return true;
}

#endif
