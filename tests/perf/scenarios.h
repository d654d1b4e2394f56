/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scenarios.h - fixed pieces of work, the cost of each of which is known to the instruction.
 */
#ifndef PDD_PERF_SCENARIOS_H
#define PDD_PERF_SCENARIOS_H

#include "world.h"

struct scenario {
	const char *name;
	uint64_t pages; /* by which the cost is divided where it is shown */
	struct world_options options;
	void (*prepare)(struct world *world);
	void (*work)(struct world *world); /* what is measured */
};

extern const struct scenario scenarios[];
extern const size_t nscenarios;

#endif
