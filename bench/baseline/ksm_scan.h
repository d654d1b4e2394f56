/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_scan.h - a model of KSM's scan as it was before 2026, to be measured against.
 *
 * A scan comes by every page. A page that is unchanged since the scan before is searched for in the
 * stable tree, and then in the unstable tree, both ordered by content. The unstable tree holds
 * pages as they are now: it is forgotten at the start of each scan, and every node that a search
 * compares with has to be found first, under the lock of its owner. The scan waits for that lock; a
 * patch of 2026 tries it, and gives up what it was doing for a page where it is taken.
 *
 * It runs on the hooks of the library, and on the library's red-black trees and checksum, so that
 * algorithms are compared and nothing else. As in the kernel a page is looked at after its owner's
 * lock was given back: the embedder keeps contents readable until pages_put without that lock.
 *
 * Left out: chains (there is no limit of sharers), zero pages, NUMA, domains, and the accounting of
 * processes. The model is too fast, if anything.
 */
#ifndef BENCH_KSM_SCAN_H
#define BENCH_KSM_SCAN_H

#include <pagededup/ops.h>
#include <pagededup/rbtree.h>

/** Wait until the layout of a space can be locked, shared; given back by space_unlock. */
typedef void (*ksm_space_lock_fn)(void *ctx, struct pdd_space *space);

struct ksm_scan_options {
	size_t page_size;
	ksm_space_lock_fn space_lock; /* NULL: locks are tried, as in the patch */
	bool smart_scan;              /* skip pages that were found unshared again and again */
};

/** A page that is known (rmap_item); zeroed before use. */
struct ksm_item {
	struct pdd_rbnode node;    /* in the unstable tree of the scan under way, or in none */
	struct ksm_item *next;     /* of the sharers of one frame */
	struct ksm_item **pprev;
	struct ksm_stable *stable; /* whose frame its page shows; NULL: none */
	struct ksm_region *region;
	uint32_t checksum;
	uint8_t age;
	uint8_t skips;
};

/** Pages to be scanned; zeroed before use. */
struct ksm_region {
	struct ksm_region *next;
	struct pdd_space *space;
	struct pdd_region *region;
	struct ksm_item *items; /* one for each page */
	uint64_t npages;
};

/** What was done since the start. */
struct ksm_counters {
	uint64_t looks;             /* pages whose checksum was computed */
	uint64_t skips;             /* pages that smart_scan left out */
	uint64_t stable_compares;   /* contents compared in searches, by tree */
	uint64_t unstable_compares;
	uint64_t lock_waits;        /* locks that were waited for */
	uint64_t lock_misses;       /* tries that failed */
	uint64_t searches_aborted;  /* searches that such a try, or a page that is gone, ended */
	uint64_t merges;            /* pages that began to show a frame */
	uint64_t full_scans;
};

struct ksm_scan {
	struct pdd_ops ops;
	void *ctx;
	struct ksm_scan_options options;
	struct pdd_rbroot stable;
	struct pdd_rbroot unstable;
	struct ksm_region *regions;
	struct ksm_region *cursor; /* NULL: between two scans */
	uint64_t cursor_page;
	struct ksm_counters counters;
};

/** @param ops  copied; of the optional hooks only `checksum` is used */
void ksm_scan_init(struct ksm_scan *scan, const struct pdd_ops *ops, void *ctx,
		   const struct ksm_scan_options *options);

/** Between two scans: scan these pages, too. @param items  zeroed, one for each page */
void ksm_scan_add(struct ksm_scan *scan, struct ksm_region *pages, struct pdd_space *space,
		  struct pdd_region *region, struct ksm_item *items, uint64_t npages);

/** Come by so many pages at most (pages_to_scan). @return whether that ended a scan */
bool ksm_scan_step(struct ksm_scan *scan, uint64_t npages);

/** Unmerge everything, while nobody else works on the spaces: no lock is taken. */
void ksm_scan_fini(struct ksm_scan *scan);

#endif
