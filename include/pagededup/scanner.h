/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scanner.h - passes and steps: the engine.
 *
 * The embedder registers spaces (a guest, an arena) and their regions (runs of pages, space.h), and
 * calls pdd_scanner_step() whenever it has time for it. Each step does a bounded part of a pass
 * over all pages, and leaves nothing pending. A page must be seen unchanged by two looks before it
 * is merged. Between two passes chains are pruned, if frames lost sharers.
 *
 * Locking: with the hooks lock and unlock (ops.h) any thread may call at any time, and several may
 * step through one pass, each with a worker of its own. Without them all calls on one scanner come
 * from one thread at a time, save pdd_scanner_quiesce() and pdd_scanner_resume(). In either case
 * calls that change spaces or regions need the space's layout locked exclusively by the embedder,
 * or no step running; some calls say that they need no step running at all.
 *
 * Nothing is allocated: scanner, workers, spaces, regions, extents and items are the embedder's
 * memory, and stay where they are until they are removed. All but the scanner are zeroed before
 * they are handed in.
 *
 * To end: unmerge and remove all regions, then the spaces. By then frame_free was called for every
 * frame, and the scanner's memory may go. (Where there were clones, kept frames go with a prune
 * that comes after that: pdd_scanner_prune() and steps, until `frames_kept` is 0.)
 */
#ifndef PAGEDEDUP_SCANNER_H
#define PAGEDEDUP_SCANNER_H

#include <pagededup/chain.h>
#include <pagededup/checksum.h>
#include <pagededup/explain.h>
#include <pagededup/rmap.h>
#include <pagededup/space.h>
#include <pagededup/tunables.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pages checksummed together, so that the roots they need are loaded meanwhile. */
#define PDD_BATCH_PAGES 128u
/* Extents that a pass of several threads comes by once more at its end. */
#define PDD_AGAIN_MAX 256u
/* Runs that a worker has room to describe at once. */
#define PDD_WORKER_VIEWS 128u

enum pdd_scanner_flags {
	PDD_SCANNER_UNIFORM_CHECKSUM = 1u << 0, /* the checksum hook's bits are evenly spread */
};

struct pdd_scanner_options {
	size_t size;              /* sizeof(struct pdd_scanner_options) */
	uint32_t page_shift;      /* log2 of the page size in bytes, 3 .. 30; 0: 12 */
	uint32_t flags;           /* enum pdd_scanner_flags */
	struct pdd_rbroot *roots; /* zeroed, such as fresh anonymous memory; lives as long as the
				     scanner */
	uint64_t nroots;          /* room for so many, 8 bytes each: one for each page that there will
				     ever be is best. With fewer, searches get longer, by the
				     logarithm of pages per root */
	uint64_t first_nroots;    /* of them in use from the start, 1 .. nroots; 0: all. More come into
				     use one by one as pages come into the index, in O(log n) each.
				     Those not in use are not touched, so room that is mapped with
				     MAP_NORESERVE costs addresses only */
	const void *secret;       /* random; copied. NULL only with a checksum hook */
	size_t secret_len;        /* PDD_SECRET_LEN_MIN .. PDD_SECRET_LEN_MAX */
	const struct pdd_tunables *tunables; /* copied; NULL: the defaults */
};

/* ---- what follows up to struct pdd_budget is private: it is here for its size. The files that its
 * comments name are those of the library's source. ---- */

/** An extent that a visit has to itself. */
struct pdd_claim {
	const struct pdd_region *region; /* NULL: none */
	uint64_t number;
};

/** What a step is at, or a reverse walk, so that others leave it alone (claim.c). */
struct pdd_visit {
	struct pdd_visit *next; /* a younger one */
	struct pdd_visit *prev;
	uint64_t number;
	struct pdd_claim at;     /* whose pages are looked at */
	struct pdd_claim beside; /* whose pages are held, or asked for */
};

/** Pages of equal content that are to found a frame together, while a step carries that out. */
struct pdd_group {
	struct pdd_index_node node; /* in the place of the twin */
	const struct pdd_visit *visit; /* whose group it is */
	struct pdd_item *twin;
	struct pdd_item *members; /* pages at hand */
	struct pdd_frame *frame;
	struct pdd_item **entry; /* of the twin among the worker's, NULL: none */
	const void *content;     /* of the first member */
	uint64_t partition;  /* domain and node */
	uint32_t nmembers;
	bool open;   /* in the index: more pages may join */
	bool fresh;  /* the twin's place among true collisions, see search.c */
	bool joined; /* the twin became a sharer of the frame; if not, ... */
	uint8_t twin_reason; /* ... why */
};

/** A look at a page. */
struct pdd_look {
	struct pdd_item *item;
	const void *content;
	struct pdd_checksum checksum; /* recorded, then read */
	int err;                      /* of reading it */
	uint8_t intent;               /* what is to be done with it, see look.c */
};

/** A search that is about to be made. */
struct pdd_search_ahead {
	uint64_t checksum;
	const struct pdd_index_node *node; /* how far it is loaded */
};

/** What one extent's worth of decisions needs, about 100 KiB; one per thread that steps. */
struct pdd_worker {
	struct {
		struct pdd_visit visit;
		struct pdd_view views[PDD_WORKER_VIEWS];
		struct pdd_look batch[PDD_BATCH_PAGES];
		struct pdd_search_ahead searches[PDD_BATCH_PAGES];
		struct pdd_item *decided[PDD_EXTENT_PAGES]; /* in page order */
		struct pdd_item *run[PDD_EXTENT_PAGES];
		uint8_t fates[PDD_EXTENT_PAGES];    /* of the pages of the run, see merge.c */
		uint8_t verdicts[PDD_EXTENT_PAGES]; /* of comparing them */
		struct pdd_item *twins[PDD_EXTENT_PAGES]; /* of the groups, in order */
		struct pdd_group groups[PDD_EXTENT_PAGES];
		struct pdd_frame_wish wishes[PDD_EXTENT_PAGES];
		struct pdd_frame *frames[PDD_EXTENT_PAGES];
		int errors[PDD_EXTENT_PAGES]; /* of reading frames */
		uint64_t written[PDD_WRITTEN_PAGES_MAX / 64]; /* what pages_written answers */
		uint64_t dirty[PDD_EXTENT_PAGES / 64];        /* marks set aside, see visit.c */
		bool only_due; /* other pages are passed over */
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
		pdd_checksum_fn checksum_page; /* where there is no hook for it */
		size_t page_size;
		uint32_t flags;
		struct pdd_tunables tunables;
		struct pdd_space *spaces; /* the first */
		struct pdd_space *last;
		struct pdd_space *walking; /* whose walk is under way; NULL: none in order is left */
		bool walk_begun;
		bool walk_last; /* no space behind it has pages */
		struct pdd_space *put_off; /* first of those that were busy in this pass */
		struct pdd_space *put_off_last;
		struct pdd_space *missed; /* of which the pass missed pages */
		struct pdd_place again[PDD_AGAIN_MAX]; /* to come by once more, see pass.c */
		uint32_t nagain;
		bool coming_again;
		bool is_turn; /* of one of them */
		bool in_pass;
		bool prune_wanted; /* a frame lost a sharer since the last prune, or the like */
		bool prune_forced;
		bool in_prune;
		uint8_t compare_passes; /* searches compare at once: true collisions were met */
		uint8_t restless_passes; /* pages that were not written are come by all the same */
		uint32_t quiescing; /* atomic */
		uint32_t steps;     /* under way; atomic */
		uint64_t prune_root;     /* the tree at which the prune goes on, and ... */
		uint64_t prune_checksum; /* ... where in it, behind ... */
		uint64_t prune_skip;     /* ... so many frames of this checksum */
		bool prune_tidied;       /* the chain there is in order already */
		uint64_t pruned_ns;      /* when the last one began, ... */
		uint64_t pruned_pass;    /* ... and 1 + the pass before which it did */
		uint64_t epoch;          /* number of the pass under way */
		uint64_t nframes;        /* in the index, dups and kept ones included */
		uint64_t nbeside;        /* nodes beside others of their key, but the first */
		struct pdd_visit *visits; /* under way, the oldest first */
		struct pdd_visit *last_visit;
		uint64_t visit_number;    /* of the youngest so far */
		uint32_t nstepping;       /* steps that are at pages */
		bool pruning;             /* a step is in a prune */
		bool prune_waits;         /* a step waits for others, to prune */
		struct pdd_frame *freed;  /* to go back, first in first out */
		struct pdd_frame *last_freed;
		struct pdd_rmap_cursor *cursors; /* of reverse walks under way */
		struct pdd_stats stats;
		unsigned char secret[PDD_SECRET_LEN_MAX];
		size_t secret_len;
	} priv;
};

struct pdd_budget {
	uint64_t pages;       /* to come by at most, at least 1; a lock that is tried in vain counts
				 as a page; in a prune, frames and sharers */
	uint64_t deadline_ns; /* on the clock of now_ns; 0: none. What has begun is finished: a call of
				 pages_written, of pages_get, the look at 2 MiB, a run. One run of
				 work may begin in any case, so that every step gets on */
};

enum pdd_step {
	PDD_STEP_MORE = 0, /* the pass goes on: the budget or the time is used up, for a prune
			      perhaps, or pdd_scanner_quiesce() was called meanwhile */
	PDD_STEP_PASS = 1, /* a pass was completed */
	PDD_STEP_IDLE = 2, /* there is no region */
	PDD_STEP_QUIET = 3, /* nothing was done: pdd_scanner_quiesce() */
	PDD_STEP_WAIT = 4,  /* nothing is left to begin before another thread is through with what it is
			       at: the last extents of the pass, the extent that comes next, a prune.
			       Yield, and call again */
};

/**
 * @param ops      copied; hooks beyond ops->size count as NULL
 * @param ctx      first argument of every hook
 * @param options  read once
 * @return 0; -EINVAL: a required hook is missing, a size is smaller than the struct was in 0.1 or
 *         ends within a member, bytes beyond the known options are not zero, an unknown flag,
 *         page_shift, nroots, first_nroots or secret_len out of range, no secret and no checksum
 *         hook, only one of extent_get and extent_put or of lock and unlock, bad tunables
 *         (pdd_scanner_set_tunables())
 * Calls hooks: none. Since: 0.1
 */
PDD_API int pdd_scanner_init(struct pdd_scanner *scanner, const struct pdd_ops *ops, void *ctx,
			     const struct pdd_scanner_options *options);

/**
 * Do a bounded part of a pass, or, if it is time for one, of a prune. It ends at the end of the
 * pass even if the budget is not used up.
 *
 * Threads that step at the same time take extents in turn, so budgets should be whole extents, as
 * many as time allows. The last one out ends the pass, and is told so.
 *
 * @param worker  zeroed before its first use; not used by two calls at once
 * @return enum pdd_step, or -EINVAL: NULL, no budget, or a deadline without the now_ns hook
 * Calls hooks: all but frames_unmap and pages_discard. Complexity: O(pages). Since: 0.1
 */
PDD_API int pdd_scanner_step(struct pdd_scanner *scanner, struct pdd_worker *worker,
			     const struct pdd_budget *budget);

/**
 * Let steps begin no new work on pages, for a fork, a snapshot, or anything that wants the memory
 * in peace. The step under way ends within one run of work, as at its deadline; steps that come
 * later return PDD_STEP_QUIET at once, until pdd_scanner_resume(). That is not counted: one resume
 * ends it for all who asked. May be called again, to wait:
 *
 *	while (!pdd_scanner_quiesce(scanner))
 *		sched_yield();
 *
 * @return whether no step is under way: no page is got or held, no space locked by one
 * Locking: none: from any thread at any time, also in a hook. Calls hooks: none.
 * Complexity: O(1). Since: 0.1
 */
PDD_API bool pdd_scanner_quiesce(struct pdd_scanner *scanner);

/** Let steps work again. Locking: none, as pdd_scanner_quiesce(). O(1). Since: 0.1 */
PDD_API void pdd_scanner_resume(struct pdd_scanner *scanner);

/**
 * Begin a prune with the next step, whatever the time and the pass: stale frames are dropped, kept
 * ones asked for, chains put in order, and sharers of sparse frames moved to fuller ones
 * (frames_remap), so that the emptied frames go back. `prunes` in the statistics tells when it is
 * done. Otherwise prunes come between two passes, if a frame lost a sharer or went stale since the
 * last one or there are kept frames, and chain_prune_ms have gone by.
 * @return 0 or -EINVAL: NULL. Calls hooks: none. Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_scanner_prune(struct pdd_scanner *scanner);

/**
 * Unmerge everything (KSM: run = 2), in pieces: pdd_space_unmerge() of all spaces. When nothing is
 * merged any more, all that is known of pages is forgotten and full_scans begins at 0 again. Pages
 * of clones at which no pass has looked are not known to be merged: they keep showing their frames,
 * which are kept; the next steps begin with a prune, which asks for these.
 *
 * @param budget  pages to unmerge at most, at least 1
 * @return the number of pages unmerged; 0: done. Or -errno as pdd_region_unmerge()
 * Locking: no step running (pdd_scanner_quiesce()). Calls hooks: as pdd_region_unmerge(), and
 * extent_put. Complexity: O(pages unmerged + extents), the last call O(pages). Since: 0.1
 */
PDD_API int64_t pdd_scanner_unmerge(struct pdd_scanner *scanner, uint64_t budget);

/**
 * Tell that a frame lies on another NUMA node now. It moves to the pages of that node, and joins a
 * chain there if equal content is shared already. Otherwise it is found out when a pass comes by
 * one of its sharers. Without effect where nodes are not kept apart.
 * @param node  0 .. PDD_NODES_MAX - 1
 * @return 0 or -EINVAL: NULL, node out of range
 * Calls hooks: frame_content, frame_is_mapped, frame_free. Complexity: O(log frames). Since: 0.1
 */
PDD_API int pdd_frame_moved(struct pdd_scanner *scanner, struct pdd_frame *frame, uint16_t node);

/**
 * Walk everything and prove it: the index, chains, sharers, states and statistics.
 * @param why  out, may be NULL: a static string
 * @return 0, or -EUCLEAN
 * Locking: no step running, and nobody else who changes anything.
 * Calls hooks: frame_content. Complexity: O(pages + roots). Since: 0.1
 */
PDD_API int pdd_scanner_check(const struct pdd_scanner *scanner, const char **why);

#ifdef __cplusplus
}
#endif
#endif
