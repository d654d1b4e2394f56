/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - what the library tells, under KSM's names where KSM has the figure.
 *
 * Gauges say how things stand, and add up in a quiet moment; counters only grow.
 */
#ifndef PAGEDEDUP_STATS_H
#define PAGEDEDUP_STATS_H

#include <pagededup/ops.h>

/** Of one space, or summed over all of them. Pages, unless a name says otherwise. */
struct pdd_counts {
	/* gauges */
	uint64_t pages;             /* of its regions, present or not */
	uint64_t ksm_rmap_items;    /* pages about which something is known */
	uint64_t ksm_merging_pages; /* that share a frame, the first of each frame included */
	uint64_t ksm_zero_pages;    /* replaced by the zero page, and not written since */
	uint64_t pages_unshared;    /* in the index: unchanged, and nothing equal was found */
	uint64_t pages_volatile;    /* all others that are known: new, changing, refused, failed */
	uint64_t pages_due;         /* to be looked at in the next pass, whatever their age */
	uint64_t reasons[PDD_REASONS]; /* pages by reason; [0] shared or at the zero page */
	/* counters */
	uint64_t pages_scanned; /* looks */
	uint64_t pages_skipped; /* pages that a pass came by without a look, because of their age */
	uint64_t pages_busy;    /* pages that lost a look to a busy lock */
	uint64_t merges;        /* pages that began to share a frame */
	uint64_t zero_merges;   /* pages replaced by the zero page */
	uint64_t unshares;      /* pages that stopped sharing because they were written */
};

/** Of a whole scanner. */
struct pdd_stats {
	size_t size; /* in: sizeof(struct pdd_stats); bytes beyond what the library knows stay 0 */
	uint64_t pages_shared;    /* frames with at least one sharer */
	uint64_t pages_sharing;   /* sharers beyond the first of each frame: what is saved */
	uint64_t full_scans;      /* passes completed */
	uint64_t stable_node_chains; /* frames that lead at least one dup */
	uint64_t stable_node_dups;   /* frames of such chains, the leader included */
	int64_t general_profit_bytes; /* (sharing + zero) pages - 48 bytes for each item */
	uint64_t space_lock_misses;   /* spaces that were busy when tried */
	uint64_t hook_errors;         /* hooks that failed with other than busy */
	uint64_t stale_twins;         /* twins that were no longer what the index said */
	uint64_t collisions;          /* different contents of equal checksum that were met */
	struct pdd_counts counts;     /* over all spaces; last, since reasons will be added */
};

#endif
