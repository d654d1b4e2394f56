/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_sides.h - one measurement of one side, in a process of its own with fresh memory, so that
 * nothing is left of the measurement before.
 *
 *	child   fill the memory ... merge and measure ...... compare with what was filled, end
 *	parent                      or have ksmd do that
 */
#ifndef BENCH_KSM_SIDES_H
#define BENCH_KSM_SIDES_H

#include "ksm_memory.h"
#include "ksm_passes.h"

enum ksm_side {
	KSM_SIDE_KSMD = 0,
	KSM_SIDE_OURS = 1,
};

struct ksm_result {
	struct ksm_figures figures;
	uint64_t mappings;  /* of the process, after merging; 0 of ksmd, which needs none */
	uint64_t differing; /* pages that do not read as they were filled */
};

/** 0, or -1 after a complaint or because of a signal (ksm_signal). The child is gone then, too. */
int ksm_side_measure(struct ksm_result *result, enum ksm_side side, enum ksm_task task,
		     const struct ksm_source *source);

#endif
