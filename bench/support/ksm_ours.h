/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_ours.h - this library's side of bench_ksm: the Linux adapter, driven pass by pass.
 */
#ifndef BENCH_KSM_OURS_H
#define BENCH_KSM_OURS_H

#include "ksm_memory.h"
#include "ksm_passes.h"

/**
 * Merge this memory and measure it. CPU time is that of the whole process while a step runs; the
 * first pass includes creating the deduplicator and adding the memory.
 *
 * For KSM_TASK_IDLE with the library's defaults; else every pass looks at every page: no aging, no
 * tracking of writes. Zero pages are merged, and frames have at most 256 sharers.
 *
 * @param mappings  out: of the process, after the last pass
 * @return 0, or -1 after a complaint
 */
int ksm_ours_measure(struct ksm_figures *figures, uint64_t *mappings,
		     const struct ksm_memory *memory, enum ksm_task task);

#endif
