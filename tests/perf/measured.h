/* SPDX-License-Identifier: BSD-2-Clause */
/* measured.h - the function whose instructions are counted, together with all that it calls. */
#ifndef PDD_PERF_MEASURED_H
#define PDD_PERF_MEASURED_H

struct world;

/** Do the work of a scenario. In a file of its own, so that it is called under its name. */
void perf_measured(void (*work)(struct world *world), struct world *world);

#endif
