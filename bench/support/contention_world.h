/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * contention_world.h - what bench_contention.c runs in: a contender and a victim in one scanner,
 * either the library's or the old algorithm's.
 */
#ifndef BENCH_CONTENTION_WORLD_H
#define BENCH_CONTENTION_WORLD_H

#include "contenders.h"
#include "host_memory.h"
#include "baseline/ksm_scan.h"

#define CONTENDER_PAGES (UINT64_C(64) << 20 >> 12)
#define VICTIM_CONTENTS UINT64_C(2048)
#define VICTIM_SHARERS UINT64_C(4)
#define VICTIM_PAGES (VICTIM_CONTENTS * VICTIM_SHARERS)
#define STEP_PAGES 4096u
#define NROOTS (UINT64_C(1) << 14)
enum { CONTENDER = 0, VICTIM = 1 };

enum lock_kind { LOCK_TRY, LOCK_WAIT, LOCK_BASELINE_TRY, LOCK_KINDS };

struct world {
	enum lock_kind kind;
	struct host host;
	struct contenders *contenders;
	bool contended;
	uint64_t writes; /* of the whole victim */
	double max_step_s;

	/* the library */
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[NROOTS];
	struct pdd_extent extents[2][CONTENDER_PAGES / PDD_EXTENT_PAGES];
	struct pdd_item items[2][CONTENDER_PAGES];

	/* the old algorithm */
	struct ksm_scan scan;
	struct ksm_region regions[2];
	struct ksm_item ksm_items[2][CONTENDER_PAGES];
};

extern const char *const world_lock_names[LOCK_KINDS];

/** With unique pages in the contender; the victim is to be written. 0 or -1. */
int world_start(struct world *world, enum lock_kind kind, struct contenders *contenders);
/** Unmerge everything. 0, or -1: not all frames came back, or a content changed. */
int world_stop(struct world *world);

/** Tell the threads whether to hold the contender's lock. */
void world_contend(struct world *world, bool contended);
/** New contents, each in VICTIM_SHARERS pages that are far apart. */
void world_rewrite_victim(struct world *world);
/** One pass in steps of STEP_PAGES. Adds its time to @p seconds. 0 or -1. */
int world_pass(struct world *world, double *seconds);
/** What must hold, does not: say so. @return -1 */
int world_wrong(const struct world *world, const char *what);

#endif
