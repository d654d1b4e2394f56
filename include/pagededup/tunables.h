/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tunables.h - the settings that can be changed while pages are shared.
 *
 * The names are those of /sys/kernel/mm/ksm where KSM has the knob, and so are the ranges, with
 * these exceptions: max_page_sharing may be changed at any time, and smart_scan has policies.
 * What KSM calls pages_to_scan and sleep_millisecs is the budget of a step (scanner.h), which counts
 * skipped and clean pages as well; run = 2 is pdd_scanner_unmerge().
 */
#ifndef PAGEDEDUP_TUNABLES_H
#define PAGEDEDUP_TUNABLES_H

#include <pagededup/aging.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How long a page waits in the index for an equal one. */
enum pdd_index_policy {
	PDD_INDEX_RETAINED = 0, /* until it is found changed, whichever passes look at it; the default */
	PDD_INDEX_REBUILT = 1,  /* until the next pass comes by it (KSM): pages that are skipped cannot
				   be found. To compare with; slower, and misses more */
};

struct pdd_tunables {
	size_t size; /* sizeof(struct pdd_tunables) as the caller knew it */

	/** Sharers per frame, at least 2; PDD_MAX_PAGE_SHARING by default. Frames that have more
	 * keep them; merges, and the prune that the change brings about, go by the new limit. */
	uint32_t max_page_sharing;

	/** Milliseconds between two prunes of chains at least (KSM: stable_node_chains_prune_
	 * millisecs); 0: one after each pass. 2000 by default. Without the now_ns hook 0 is meant. */
	uint32_t chain_prune_ms;

	/** Whether pages of different NUMA nodes may share a frame, 0 or 1; 1 by default. */
	uint32_t merge_across_nodes;

	/** Whether zero pages are replaced by the zero page, 0 or 1; 1 by default. Needs the hook
	 * zero_map, else 0 is meant. It concerns later merges only. */
	uint32_t use_zero_pages;

	/** Which pass looks at which page, enum pdd_aging; PDD_AGING_PHASE by default (KSM:
	 * smart_scan; PDD_AGING_NONE is smart_scan = 0). */
	uint32_t aging;

	/** The longest time in which a page is not looked at, in passes: a power of two up to
	 * PDD_AGING_PERIOD_MAX. 0, the default: 64 with PDD_AGING_PHASE and PDD_INDEX_RETAINED,
	 * where an old page is found by all others meanwhile, else 8. PDD_AGING_COUNTDOWN never
	 * skips more than 8 passes in a row. */
	uint32_t max_period_passes;

	/** 1: memory is known to be still, so that pages are merged at the first look; 0 by
	 * default. One that is found changed after all needs two looks. */
	uint32_t one_look;

	/** enum pdd_index_policy; PDD_INDEX_RETAINED by default. */
	uint32_t index;
};

/** Fill in the defaults and the size. Complexity: O(1). Since: 0.1 */
PDD_API void pdd_tunables_init(struct pdd_tunables *tunables);

/**
 * Change all settings, or none. They hold from the next step on. What lies behind the caller's size
 * keeps its value.
 *
 * @return 0; -EINVAL: NULL, a value out of its range, or a size that is 0, not known here with
 *         bytes that are not zero, or ends within a member; -EBUSY: merge_across_nodes is to change
 *         while there are frames: unmerge everything first, pdd_scanner_unmerge(); where there are
 *         clones, steps until `frames_kept` is 0, too; -EAGAIN: another thread is in the middle of
 *         a step: pdd_scanner_quiesce() first
 * Locking: as all calls on a scanner. Calls hooks: none.
 * Complexity: O(1); O(pages in the index + roots) if merge_across_nodes changes: all of them leave
 * the index, and are due. Since: 0.1
 */
PDD_API int pdd_scanner_set_tunables(struct pdd_scanner *scanner,
				     const struct pdd_tunables *tunables);

/** @param tunables  in: size; out: the rest, as far as that. @return 0 or -EINVAL. Since: 0.1 */
PDD_API int pdd_scanner_get_tunables(const struct pdd_scanner *scanner,
				     struct pdd_tunables *tunables);

#ifdef __cplusplus
}
#endif
#endif
