/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_passes.h - what bench_ksm measures, said in passes: the same code for the kernel and for this
 * library, which differ in nothing but how a pass is made.
 *
 *	per pass       four passes; counted are all but the first, which only gets to know the
 *	               pages. Each of the four must look at every page
 *	until merged   passes until KSM_QUIET_PASSES in a row have merged nothing more; counted is
 *	               all from the start to the end of the first pass after which 99.9 % of the
 *	               pages are saved that are saved at the end. (ksmd now and then leaves one page
 *	               in 200,000 to its next scan, which should not count against it.)
 *	idle           passes over memory that nobody writes, after as many as it takes until the
 *	               ages of all pages have settled, over whole periods of the aging
 */
#ifndef BENCH_KSM_PASSES_H
#define BENCH_KSM_PASSES_H

#include <stdbool.h>
#include <stdint.h>

#define KSM_QUIET_PASSES 2u

struct ksm_pass {
	double cpu_s, wall_s; /* of this pass */
	uint64_t looks;       /* pages that were looked at in it */
	uint64_t shared;      /* after it: frames */
	uint64_t sharing;     /* ... pages that show a frame beyond the first of each */
	uint64_t zero;        /* ... pages at the zero page */
};

/** Who makes passes. */
struct ksm_passer {
	/* One pass. 0, or -1 after a complaint, or because of a signal. */
	int (*pass)(void *ctx, struct ksm_pass *pass);
	void *ctx;
	const char *name;
	uint64_t npages;
	unsigned settle_passes, idle_passes;
};

enum ksm_task {
	KSM_TASK_PER_PASS = 0,
	KSM_TASK_UNTIL_MERGED = 1,
	KSM_TASK_IDLE = 2,
};

struct ksm_figures {
	double cpu_s, wall_s; /* of a pass, or until merged; CPU of a pass if idle */
	double looks_per_page; /* in these passes, or in a pass if idle */
	uint64_t passes;      /* that were counted */
	uint64_t shared, sharing, zero;
};

/** 0, or -1 after a complaint, or because of a signal. */
int ksm_passes_measure(struct ksm_figures *figures, const struct ksm_passer *passer,
		       enum ksm_task task);

#endif
