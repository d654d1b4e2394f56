/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * interleaved.h - what tests have in common in which another thread comes in while the scanner's
 * lock is not held: it does all of its deed at one point of the first one's work.
 *
 * Points are where the lock is about to be taken, and where it was just released; nothing else that
 * another thread does can be told apart. They are counted while a plan is armed.
 */
#ifndef PDD_TEST_INTERLEAVED_H
#define PDD_TEST_INTERLEAVED_H

#include <stdlib.h>

#include "item_internal.h"
#include "sim.h"

static struct plan {
	bool armed;
	bool arm_locked; /* to be armed when the first thread has the lock */
	uint64_t at;	 /* the point at which the other thread comes, from 1; 0: never */
	uint64_t npoints;
	void (*deed)(struct sim *sim);
	bool inside;	       /* it is there */
	struct sim_turn first; /* what the first thread has open meanwhile */
	struct pdd_worker *worker;
} plan;

/* After pages_put nobody may read what a group was made for, though it is in the index still: the
 * page may be held. */
static inline void trap_groups(const struct sim *sim)
{
	for (uint32_t i = 0; !plan.first.ngets && i < sim->worker->priv.ngroups; i++)
		sim->worker->priv.groups[i].content = NULL;
}

/* The list of twins has those of groups only: what an owner withdraws leaves it, and may be gone
 * the next moment. */
static inline void verify_twins(const struct pdd_worker *worker)
{
	const uint32_t room = sizeof(worker->priv.twins) / sizeof(worker->priv.twins[0]);

	for (uint32_t i = 0; i < room; i++) {
		bool known = !worker->priv.twins[i];

		for (uint32_t g = 0; !known && g < worker->priv.ngroups; g++)
			known = worker->priv.groups[g].twin == worker->priv.twins[i];
		if (!known)
			sim_fail("a twin that was withdrawn is still to be merged");
	}
}

static inline void at_point(struct sim *sim, enum sim_hook hook, bool before)
{
	/* The other thread's visits are the younger ones. */
	if (plan.inside && hook == SIM_FRAME_FREE && before && plan.first.ngets + plan.first.nholds)
		sim_fail("a frame goes back that an older visit may know");
	if (plan.arm_locked && hook == SIM_LOCK_SCANNER) {
		plan.arm_locked = false;
		plan.armed = true;
		return;
	}
	if (plan.inside || !plan.armed ||
	    (hook != SIM_LOCK_SCANNER && hook != SIM_UNLOCK_SCANNER) || ++plan.npoints != plan.at)
		return;
	plan.inside = true;
	plan.first = (struct sim_turn){0};
	sim_turn_swap(sim, &plan.first);
	trap_groups(sim);
	plan.deed(sim);
	if (sim->nlocks || sim->ngets || sim->nholds)
		sim_fail("the other thread leaves something open");
	sim_turn_swap(sim, &plan.first);
	plan.inside = false;
	verify_twins(sim->worker);
}

static inline void plan_begin(struct sim *sim, uint64_t at, void (*deed)(struct sim *sim))
{
	plan = (struct plan){.at = at, .deed = deed};
	plan.worker = calloc(1, sizeof(*plan.worker));
	sim->at = at_point;
}

/* False: there was no such point. */
static inline bool plan_end(struct sim *sim)
{
	sim->at = NULL;
	free(plan.worker);
	return plan.at <= plan.npoints;
}

/* A step of one of the two. */
static inline enum pdd_step step_of(struct sim *sim, struct pdd_worker *worker, uint64_t pages)
{
	const struct pdd_budget budget = {.pages = pages};
	int result;

	sim->stepping = true;
	result = pdd_scanner_step(&sim->scanner, worker, &budget);
	sim->stepping = false;
	if (result < 0)
		sim_fail("pdd_scanner_step: %d", result);
	return (enum pdd_step)result;
}

/* A pass of the first thread, which others may end, with points in it. */
static inline void pass_with_points(struct sim *sim, uint64_t pages)
{
	enum pdd_step result;
	unsigned n = 0;

	plan.armed = true;
	do {
		result = step_of(sim, sim->worker, pages);
		if (result == PDD_STEP_WAIT || ++n == 1000)
			sim_fail("a pass does not end");
	} while (result == PDD_STEP_MORE);
	plan.armed = false;
}

/* Whether the first thread has locked a space: as a step, or as its owner. */
static inline bool is_locked(const struct sim_space *space)
{
	for (unsigned i = 0; i < plan.first.nlocks; i++)
		if (plan.first.locks[i] == space)
			return true;
	return space->busy;
}

#endif
