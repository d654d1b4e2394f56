/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim_turn.c - who is at work in simulated memory, where several threads call the library in turns.
 *
 * The simulation keeps account of what the call under way has open. When another thread comes to
 * work in the middle of it, that is put aside, and taken up again when the first one goes on. While
 * it is aside its space's locks are shared with the other one's, and none of its extents may be
 * touched.
 */
#include "sim.h"

#include <string.h>

bool sim_turn_uses(const struct sim_turn *turn, const struct sim_region *region, uint64_t number)
{
	for (unsigned i = 0; i < turn->nextents; i++)
		if (turn->extents[i].region == region && turn->extents[i].number == number)
			return true;
	return false;
}

static void use(struct sim_turn *turn, const struct sim_region *region, uint64_t number)
{
	if (sim_turn_uses(turn, region, number))
		return;
	if (turn->nextents == sizeof(turn->extents) / sizeof(turn->extents[0]))
		sim_fail("a step has pages of too many extents");
	turn->extents[turn->nextents].region = region;
	turn->extents[turn->nextents++].number = number;
}

/* Extents that are in use are those of the thread that is at work, but for those of the other one.
 */
static void note_extents(const struct sim *sim, struct sim_turn *turn, const struct sim_turn *other)
{
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = 0; i < r->npages; i++)
				if ((r->pages[i].gets || r->pages[i].held) &&
				    !sim_turn_uses(other, r, i / PDD_EXTENT_PAGES))
					use(turn, r, i / PDD_EXTENT_PAGES);
}

static void show_locks(const struct sim *sim, bool locked)
{
	for (unsigned i = 0; i < sim->nlocks; i++)
		sim->locks[i]->locked = locked;
}

void sim_turn_swap(struct sim *sim, struct sim_turn *turn)
{
	struct sim_turn mine = {
		.locks = {sim->locks[0], sim->locks[1]},
		.nlocks = sim->nlocks,
		.ngets = sim->ngets,
		.nholds = sim->nholds,
		.stepping = sim->stepping,
	};

	if (sim->scanner_locked)
		sim_fail("nobody can come in while the scanner's lock is held");
	note_extents(sim, &mine, turn);
	show_locks(sim, false);
	memcpy(sim->locks, turn->locks, sizeof(sim->locks));
	sim->nlocks = turn->nlocks;
	sim->ngets = turn->ngets;
	sim->nholds = turn->nholds;
	sim->stepping = turn->stepping;
	show_locks(sim, true);
	*turn = mine;
	sim->other = mine.nextents || mine.nlocks || mine.stepping ? turn : NULL;
}
