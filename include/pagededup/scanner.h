/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner.h - spaces, regions, passes and steps: the engine.
 *
 * The embedder registers spaces (a guest, an arena) and their regions (runs of pages), and calls
 * pdd_scanner_step() whenever it has time for it. Each step does a bounded part of a pass over all
 * pages, and leaves nothing pending. A page must be seen unchanged by two looks before it is
 * merged.
 *
 * Locking: all calls on one scanner come from one thread at a time. Calls that change spaces or
 * regions need the space's layout locked exclusively by the embedder, or no step running.
 *
 * Nothing is allocated: scanner, workers, spaces, regions, extents and items are the embedder's
 * memory, and stay where they are until they are removed. All but the scanner are zeroed before
 * they are handed in.
 *
 * To end: unmerge and remove all regions, then the spaces. By then frame_free was called for every
 * frame, and the scanner's memory may go.
 */
#ifndef PAGEDEDUP_SCANNER_H
#define PAGEDEDUP_SCANNER_H

#include <pagededup/aging.h>
#include <pagededup/chain.h>
#include <pagededup/checksum.h>
#include <pagededup/ops.h>
#include <pagededup/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pages checksummed together, so that the roots they need are loaded meanwhile. */
#define PDD_BATCH_PAGES 128u
/* Runs that a worker has room to describe at once. */
#define PDD_WORKER_VIEWS 128u

enum pdd_scanner_flags {
	PDD_SCANNER_UNIFORM_CHECKSUM = 1u << 0, /* the checksum hook's bits are evenly spread */
	PDD_SCANNER_KEEP_ZERO_PAGES = 1u << 1,  /* zero pages are pages like any others */
	PDD_SCANNER_ONE_LOOK = 1u << 2, /* memory is known to be still: merge at the first look */
};

struct pdd_scanner_options {
	size_t size;                /* sizeof(struct pdd_scanner_options) */
	uint32_t page_shift;        /* log2 of the page size in bytes, 3 .. 30; 0: 12 */
	uint32_t flags;             /* enum pdd_scanner_flags */
	struct pdd_rbroot *roots;   /* zeroed; lives as long as the scanner */
	uint64_t nroots;            /* a power of two; about one for each page is best */
	const void *secret;         /* random; copied. NULL only with a checksum hook */
	size_t secret_len;          /* PDD_SECRET_LEN_MIN .. PDD_SECRET_LEN_MAX */
	uint32_t max_page_sharing;  /* sharers per frame, at least 2; 0: PDD_MAX_PAGE_SHARING */
	enum pdd_aging aging;       /* PDD_AGING_PHASE by default */
	uint32_t max_period_passes; /* a power of two up to 64; 0: 64 */
};

/** A run of pages that may be shared; zeroed before use. Private fields. */
struct pdd_region {
	struct {
		struct pdd_space *space; /* NULL while not added */
		struct pdd_region *next; /* of the space, in the order in which they were added */
		struct pdd_region *prev;
		uint64_t first_page; /* its place in the space */
		uint64_t npages;
		struct pdd_extent *extents;
	} priv;
};

/** An address space with one layout lock; zeroed before use. Private fields. */
struct pdd_space {
	struct {
		struct pdd_scanner *scanner; /* NULL while not added */
		struct pdd_space *next;
		struct pdd_space *prev;
		struct pdd_region *regions; /* the first */
		struct pdd_region *last;
		struct pdd_counts counts; /* volatile and rmap_items are derived on reading */
		uint32_t domain;
	} priv;
};

/** Pages of equal content that are to found a frame together, while a step carries that out. */
struct pdd_group {
	struct pdd_index_node node; /* in the place of the twin */
	struct pdd_item *twin;
	struct pdd_item *members; /* pages at hand */
	struct pdd_frame *frame;
	const void *content; /* of the first member */
	uint32_t nmembers;
	uint32_t domain;
	bool open; /* in the index: more pages may join */
};

/** What one extent's worth of decisions needs, about 80 KiB; one per thread that steps. */
struct pdd_worker {
	struct {
		struct pdd_view views[PDD_WORKER_VIEWS];
		struct pdd_item *batch[PDD_BATCH_PAGES];
		const void *contents[PDD_BATCH_PAGES];
		struct pdd_checksum checksums[PDD_BATCH_PAGES];
		struct pdd_item *decided[PDD_EXTENT_PAGES]; /* in page order */
		struct pdd_item *run[PDD_EXTENT_PAGES];
		struct pdd_item *twins[PDD_EXTENT_PAGES]; /* of the groups, in order */
		struct pdd_group groups[PDD_EXTENT_PAGES];
		struct pdd_frame_wish wishes[PDD_EXTENT_PAGES];
		struct pdd_frame *frames[PDD_EXTENT_PAGES];
		uint32_t nbatch;
		uint32_t ndecided;
		uint32_t ngroups;
		uint64_t deadline_ns;
		uint32_t runs; /* pieces of runs carried out in this step */
	} priv;
};

/** The engine; set up by pdd_scanner_init(). Private fields. */
struct pdd_scanner {
	struct {
		struct pdd_ops ops;
		void *ctx;
		struct pdd_index index;
		size_t page_size;
		uint32_t flags;
		uint32_t max_page_sharing;
		enum pdd_aging aging;
		uint32_t max_period;
		struct pdd_space *spaces; /* the first */
		struct pdd_space *last;
		struct pdd_region *cursor; /* where the pass goes on; NULL: nothing is left of it */
		uint64_t cursor_page;
		bool in_pass;
		uint64_t epoch; /* number of the pass under way */
		struct pdd_stats stats;
		unsigned char secret[PDD_SECRET_LEN_MAX];
		size_t secret_len;
	} priv;
};

struct pdd_budget {
	uint64_t pages;       /* to come by at most, at least 1 */
	uint64_t deadline_ns; /* on the clock of now_ns; 0: none. One run of work may begin in any
				 case, so that every step gets on */
};

enum pdd_step {
	PDD_STEP_MORE = 0, /* the budget is used up, the pass goes on */
	PDD_STEP_PASS = 1, /* a pass was completed */
	PDD_STEP_IDLE = 2, /* there is no region */
};

/**
 * @param ops      copied; hooks beyond ops->size count as NULL
 * @param ctx      first argument of every hook
 * @param options  read once
 * @return 0; -EINVAL: a required hook is missing, a size is smaller than the struct was in 0.1,
 *         bytes beyond the known options are not zero, an unknown flag, page_shift, nroots,
 *         secret_len, max_page_sharing or max_period_passes out of range, no secret and no
 *         checksum hook
 * Calls hooks: none. Since: 0.1
 */
PDD_API int pdd_scanner_init(struct pdd_scanner *scanner, const struct pdd_ops *ops, void *ctx,
			     const struct pdd_scanner_options *options);

/**
 * @param domain  trust boundary: pages of different domains never share a frame
 * @return 0; -EBUSY: the space is added already
 * Calls hooks: none. Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_space_add(struct pdd_scanner *scanner, struct pdd_space *space, uint32_t domain);

/** @return 0; -EBUSY: it still has regions; -EINVAL: it is not added. O(1). Since: 0.1 */
PDD_API int pdd_space_remove(struct pdd_space *space);

/** Extents that a region of this many pages needs. */
static inline uint64_t pdd_region_extents(uint64_t npages)
{
	return (npages + PDD_EXTENT_PAGES - 1) / PDD_EXTENT_PAGES;
}

/**
 * Add a run of pages; the pass under way comes by it if it has not passed its space yet.
 *
 * @param first_page  its place in the space: address >> page_shift
 * @param npages      1 .. PDD_REGION_PAGES_MAX
 * @param extents     pdd_region_extents(npages), zeroed
 * @param items       @p npages, zeroed
 * @return 0; -EBUSY: added already; -EINVAL: npages out of range, NULL, the space is not added
 * Locking: the space exclusively. Calls hooks: none. Complexity: O(npages). Since: 0.1
 */
PDD_API int pdd_region_add(struct pdd_space *space, struct pdd_region *region, uint64_t first_page,
			   uint64_t npages, struct pdd_extent *extents, struct pdd_item *items);

/**
 * Give the shared pages of a range memory of their own. They stay eligible.
 * @return the number of pages unmerged, or -errno of frames_unmap after the first that it refused
 *         (those before it are unmerged; a second call goes on); -EINVAL: not in the region
 * Locking: the space exclusively. Calls hooks: frames_unmap, frame_content, frame_free.
 * Complexity: O(npages). Since: 0.1
 */
PDD_API int64_t pdd_region_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages);

/**
 * Forget a region and all its pages, which keep what they show: to be used when the memory goes
 * away, or after pdd_region_unmerge(). frame_free is called for frames that its pages may still
 * show: if the memory stays, unmerge first.
 * @return 0; -EINVAL: not added
 * Locking: the space exclusively. Calls hooks: frame_content, frame_free. Complexity: O(npages).
 * Since: 0.1
 */
PDD_API int pdd_region_remove(struct pdd_region *region);

/**
 * Do a bounded part of a pass. It ends at the end of the pass even if the budget is not used up.
 *
 * @param worker  zeroed before its first use; not used by two calls at once
 * @return enum pdd_step, or -EINVAL: no budget, or a deadline without the now_ns hook
 * Calls hooks: all but frames_unmap. Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_scanner_step(struct pdd_scanner *scanner, struct pdd_worker *worker,
			     const struct pdd_budget *budget);

/** @param stats  in: size; out: the rest. @return 0 or -EINVAL. O(spaces). Since: 0.1 */
PDD_API int pdd_scanner_stats(const struct pdd_scanner *scanner, struct pdd_stats *stats);

/** @return 0 or -EINVAL: not added. Complexity: O(1). Since: 0.1 */
PDD_API int pdd_space_counts(const struct pdd_space *space, struct pdd_counts *counts);

/**
 * Walk everything and prove it: the index, chains, sharers, states and statistics.
 * @param why  out, may be NULL: a static string
 * @return 0, or -EUCLEAN
 * Calls hooks: frame_content. Complexity: O(pages + roots). Since: 0.1
 */
PDD_API int pdd_scanner_check(const struct pdd_scanner *scanner, const char **why);

#ifdef __cplusplus
}
#endif
#endif
