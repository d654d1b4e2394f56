/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.h - what the library tells, under KSM's names where KSM has the figure.
 *
 * Gauges say how things stand, and add up in a quiet moment; counters only grow:
 *
 *	sum of ksm_merging_pages over the spaces = pages_shared + pages_sharing
 *	ksm_rmap_items = ksm_merging_pages + ksm_zero_pages + pages_unshared + pages_volatile
 *	sum of reasons[] = pages;  reasons[0] = ksm_merging_pages + ksm_zero_pages
 *
 * pdd_scanner_check() proves them.
 */
#ifndef PAGEDEDUP_STATS_H
#define PAGEDEDUP_STATS_H

#include <pagededup/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Of one space, or summed over several. Pages, unless a name says otherwise. */
struct pdd_counts {
	/* gauges */
	uint64_t pages;             /* of its regions, present or not */
	uint64_t ksm_rmap_items;    /* pages about which something is known */
	uint64_t ksm_merging_pages; /* that share a frame, the first of each frame included */
	uint64_t ksm_zero_pages;    /* replaced by the zero page, and not written since */
	uint64_t pages_unshared;    /* in the index: unchanged, and nothing equal was found */
	uint64_t pages_volatile;    /* all others that are known: new, changing, refused, failed */
	uint64_t pages_due;         /* to be looked at in the next pass, whatever their age */
	uint64_t pages_zero_filled; /* read and found all zero, ksm_zero_pages included */
	uint64_t pages_same_filled; /* read and found to be one 64-bit word, not 0, repeated */
	uint64_t reasons[PDD_REASONS_MAX]; /* pages by enum pdd_reason; [0] shared, or at the zero
					      page */
	int64_t ksm_process_profit_bytes; /* (merging + zero) pages - 48 bytes for each rmap item */
	/* counters */
	uint64_t pages_scanned; /* looks */
	uint64_t pages_hashed;  /* looks for which the whole page went through the checksum: neither
				   zero nor same-filled */
	uint64_t pages_skipped; /* pages that a pass came by without a look, because of their age */
	uint64_t pages_clean;   /* pages that a pass came by without a look, because pages_written
				   said that nothing was written there */
	uint64_t pages_busy;    /* pages that lost a look to a busy lock, or for want of an item */
	uint64_t merges;        /* pages that began to share a frame */
	uint64_t zero_merges;   /* pages replaced by the zero page */
	uint64_t unshares;      /* pages that stopped sharing because they were written */
	uint64_t adoptions;     /* pages of clones found to share a frame, or to be zeroed, already, ... */
	uint64_t adoptions_over_limit; /* ... of these, beyond max_page_sharing */
	uint64_t refiles;       /* pages moved from a sparse frame to a fuller one */
	uint64_t failures[PDD_REASONS_MAX]; /* merges that were tried and failed, by enum pdd_reason */
};

/** Of a whole scanner. */
struct pdd_stats {
	size_t size; /* in: sizeof(struct pdd_stats); bytes beyond what the library knows stay 0 */
	/* gauges */
	uint64_t pages_shared;       /* frames with at least one sharer */
	uint64_t pages_sharing;      /* sharers beyond the first of each frame: what is saved */
	uint64_t stable_node_chains; /* frames that lead at least one dup */
	uint64_t stable_node_dups;   /* frames of such chains, the leader included */
	uint64_t frames_kept;        /* without a known sharer, but still mapped by clones */
	int64_t general_profit_bytes; /* (sharing + zero) pages - 48 bytes for each rmap item */
	int64_t net_profit_bytes;    /* (sharing + zero) pages - metadata_bytes */
	uint64_t metadata_bytes;     /* items, extents, frames, roots in use, spaces and regions */
	uint64_t bytes_if_all_unshared; /* memory that it takes on top to unshare everything: the
					   (sharing + zero) pages */
	/* counters */
	uint64_t full_scans;         /* passes completed since the start or pdd_scanner_unmerge() */
	uint64_t prunes;             /* walks over all chains completed */
	uint64_t space_lock_misses;  /* spaces that were busy when tried */
	uint64_t stale_frames;       /* frames that frame_content said were gone */
	uint64_t moved_frames;       /* frames found on, or told to be on, another NUMA node */
	uint64_t stale_twins;        /* twins that were no longer what the index said */
	uint64_t collisions;         /* different contents of equal checksum that were met */
	uint64_t search_compares;    /* contents compared to find equal ones, among collisions only */
	uint64_t chain_compares;     /* frames compared with one of equal checksum as they enter the
					index */
	uint64_t held_compares_equal;   /* pages compared with their frame while held, ... */
	uint64_t held_compares_unequal; /* ... by result */
	uint64_t hook_errors;        /* hooks that failed with other than busy, in all, ... */
	uint64_t hook_errors_by_hook[PDD_HOOKS_MAX]; /* ... and by enum pdd_hook */
	struct pdd_counts counts;    /* over all spaces, also those that were removed */
};

/** @param stats  in: size; out: the rest. @return 0 or -EINVAL. O(spaces + regions). Since: 0.1 */
PDD_API int pdd_scanner_stats(const struct pdd_scanner *scanner, struct pdd_stats *stats);

/** Of the spaces of a domain that are added. @return 0 or -EINVAL. O(spaces). Since: 0.1 */
PDD_API int pdd_domain_counts(const struct pdd_scanner *scanner, uint32_t domain,
			      struct pdd_counts *counts);

/** @return 0 or -EINVAL: NULL, not added. Complexity: O(1). Since: 0.1 */
PDD_API int pdd_space_counts(const struct pdd_space *space, struct pdd_counts *counts);

/** Pages of a region that stopped sharing because they were written; 0 if it is not added. O(1). */
PDD_API uint64_t pdd_region_unshares(const struct pdd_region *region);

#ifdef __cplusplus
}
#endif
#endif
