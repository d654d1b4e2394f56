/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h - the hooks through which the library reads, locks and changes the embedder's pages.
 *
 * Order of calls for one extent in a step (r: its region, s: its space, t: another space):
 *
 *	space_trylock(s)
 *	  pages_written(r)
 *	  pages_get(r) ... checksum ... frames_create ... frame_content ... pages_put(r)
 *	  space_trylock(t)                       twins, one other space at a time
 *	    hold(r') ... frame_content ... frames_map(r') | zero_map(r') | release(r')
 *	  space_unlock(t)
 *	  hold(r) ... frame_content ... frames_map(r) | zero_map(r) | release(r)
 *	  frame_free                             frames that nobody joined
 *	space_unlock(s)
 *
 * extent_get and extent_put come where pages_get and pages_put do. In a prune, between two passes:
 *
 *	frame_content | frame_is_mapped            of every frame
 *	space_trylock(t) frames_remap(r') space_unlock(t) frame_free
 *
 * Several threads. With the hooks lock and unlock any number of threads may call the library for
 * one scanner: steps, each with a worker of its own, and whatever else. Then hooks are called by
 * several threads at once. No two steps are at one extent at the same time; between pages_get and
 * pages_put, and between hold and what ends it, none of the pages of that extent is given to a hook
 * for another step. The space's lock has to be one that several steps can have at once: otherwise
 * the others find it busy.
 *
 * Rules for all hooks
 *  - Called on the thread that called the library, never while a structure of the library is half
 *    linked. They must not call back into the scanner.
 *  - They may sleep, except for those that are called with the scanner's lock held: space_trylock,
 *    frame_content, frame_is_mapped, now_ns, trace, unlock, and, for one page at a time and only
 *    among checksum collisions, pages_get, pages_put, space_unlock and checksum. These must not wait for
 *    anything that is held by whoever calls the library.
 *  - All that return a value may fail at any time. What failed keeps its page and its content; a
 *    later pass tries again. Where a count is returned, 0 counts as busy.
 *  - "n done" means a prefix of the range: a return of k > 0 with k < n is a partial success, after
 *    which the library asks again for the rest, and gets the error then.
 *  - Contents (of views, of frames) are aligned to 8 bytes.
 *  - Page numbers are relative to the region. A range never leaves its region, nor its
 *    extent, save in pages_discard and pages_written.
 */
#ifndef PAGEDEDUP_OPS_H
#define PAGEDEDUP_OPS_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Why a page is not shared. Every page that is neither shared nor a zero page has one. */
enum pdd_reason {
	PDD_REASON_NONE = 0,            /* shared, or at the zero page */
	PDD_REASON_NEW = 1,             /* no pass has come by yet */
	PDD_REASON_ABSENT = 2,          /* nothing is there */
	PDD_REASON_FIRST_LOOK = 3,      /* read once, waits for the second look */
	PDD_REASON_VOLATILE = 4,        /* changed between its last two looks */
	PDD_REASON_UNIQUE = 5,          /* in the index: no page of equal content is known */
	PDD_REASON_STALE = 6,           /* changed since it was put into the index */
	PDD_REASON_CHANGED = 7,         /* changed while it was being merged */
	PDD_REASON_BUSY = 8,            /* its space or its extent was locked */
	PDD_REASON_DEADLINE = 9,        /* the step ended before its turn came */
	PDD_REASON_PINNED = 10,         /* the embedder or a device holds on to it */
	PDD_REASON_PINS_UNSEEN = 11,    /* cannot be held so that pins would be seen */
	PDD_REASON_LOCKED = 12,         /* locked in memory */
	PDD_REASON_HUGE = 13,           /* part of a huge page */
	PDD_REASON_EXCLUDED = 14,       /* excluded by the embedder */
	PDD_REASON_SPECIAL = 15,        /* a kind of memory that cannot be shared */
	PDD_REASON_FOREIGN_FRAME = 16,  /* shared already, with a frame that is not ours */
	PDD_REASON_KERNEL_ZERO = 17,    /* reads zero and has no memory, but not by our doing */
	PDD_REASON_NO_HOLD = 18,        /* no way to stop writes to it here */
	PDD_REASON_MAPPING_BUDGET = 19, /* the budget of mappings is used up */
	PDD_REASON_NO_MEMORY = 20,      /* no memory for a frame */
	PDD_REASON_HOOK_FAILED = 21,    /* a hook failed with another error */
	PDD_REASON_UNMERGED = 22,       /* given back its own copy by an unmerge */
	PDD_REASON_COLLISION = 23,      /* met other content with its checksum; compared next time */
	PDD_REASON_NO_RECORD = 24,      /* in a sparse region, without an item: nothing was there when
					   a pass came by, or extent_get said no */
	PDD_REASONS = 25,               /* their number */
};

/* Room in arrays that are indexed by reason: more reasons do not change the layout. */
#define PDD_REASONS_MAX 32u

/** The name of a reason as users read it ("mapping budget"), "unknown" for other values. */
PDD_API const char *pdd_reason_name(enum pdd_reason reason);

/** What stands at a page. */
enum pdd_page_kind {
	PDD_PAGE_ABSENT = 0,  /* nothing, and it reads zero if it reads at all */
	PDD_PAGE_PRIVATE = 1, /* memory of its own; `content` can be read */
	PDD_PAGE_SHARED = 2,  /* still the frame that frames_map or frames_remap put there */
	PDD_PAGE_ZERO = 3,    /* the zero page */
	PDD_PAGE_REFUSED = 4, /* must be left alone, see `reason` */
	PDD_PAGE_FRAME = 5,   /* the frame `frame` of this library, put there by a clone of a space
				 (fork) before the region was added. The page becomes a sharer of it,
				 and may go on being called so */
	PDD_PAGE_ZEROED = 6,  /* the zero page that zero_map put there, or in what this is a clone of;
				 it becomes one of those that are counted as saved */
};

/** What the trace hook is told. */
enum pdd_event {
	PDD_EVENT_MERGED = 1,   /* the pages began to share frames */
	PDD_EVENT_ZEROED = 2,   /* the pages were replaced by the zero page */
	PDD_EVENT_UNSHARED = 3, /* the pages were found written, and share no more */
};

/** Neighbouring pages of one kind and node, whose contents (if any) are neighbours as well. */
struct pdd_view {
	union {
		const void *content;     /* PRIVATE: of the first page */
		struct pdd_frame *frame; /* FRAME: which all of them show */
	};
	uint64_t npages;
	uint8_t kind;   /* enum pdd_page_kind */
	uint8_t reason; /* enum pdd_reason, for PDD_PAGE_REFUSED */
	uint16_t node;  /* the NUMA node on which the page or the frame lies, below PDD_NODES_MAX; 0
			   if nodes are not kept apart */
};

/** A frame to be made: whose content, and where it would best stand. */
struct pdd_frame_wish {
	const void *content;            /* to be copied; may change meanwhile */
	const struct pdd_region *region; /* place of the twin: numbers only, the page is not to be */
	uint64_t page;                  /* touched. With several threads the region may be removed
					   meanwhile: not to be dereferenced, unless the embedder
					   keeps it */
	uint16_t node;                  /* where nodes are kept apart: the NUMA node it has to be on */
};

/**
 * The hooks. `size` is sizeof(struct pdd_ops) as the embedder knew it; the rest counts as NULL.
 * All are required unless marked optional. `ctx` is what pdd_scanner_init() was given.
 */
struct pdd_ops {
	size_t size;

	/**
	 * Keep the layout of a space still: none of its regions comes, goes, or changes what its
	 * pages are until space_unlock, save by accesses to the memory itself. Shared with other
	 * steps. Never called for a space that the step already holds.
	 * @return whether it was locked; false means busy, and only this space's pages lose a look
	 */
	bool (*space_trylock)(void *ctx, struct pdd_space *space);
	void (*space_unlock)(void *ctx, struct pdd_space *space);

	/**
	 * Describe what stands at pages [first, first + npages), in order and without gaps.
	 * Contents stay readable until pages_put; they may change at any time.
	 * Locks held: the space's. May sleep.
	 * Among checksum collisions a search compares with single pages that it met: pages_get and
	 * pages_put of one page, perhaps of another space that is tried for it, are then called
	 * between those of the extent, whose pages may include that one.
	 *
	 * @param views   out: at most @p nviews of them. A view of kind ABSENT may reach beyond
	 *                the range, up to where something stands again.
	 * @return the number of views, which describe a prefix of the range; 0 or -errno when not
	 *         even the first page can be described: -EBUSY: all that is left of the extent is
	 *         busy; 0 or -EAGAIN: this page is; -ENOMEM: no memory; -ENOSPC: mapping budget;
	 *         others: hook failed
	 */
	int (*pages_get)(void *ctx, struct pdd_region *region, struct pdd_view *views,
			 uint32_t nviews, uint64_t first, uint64_t npages);
	/** End what pages_get began, with the range that its views covered (at most @p npages). */
	void (*pages_put)(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);

	/**
	 * Stop all writes to pages [first, first + npages): from here until release, frames_map or
	 * zero_map of a page no write by anybody changes it, devices included; whoever writes
	 * meanwhile waits, and its write is done on the page that stands there afterwards. A device
	 * cannot wait: a page that one may be writing (direct I/O, VFIO, io_uring) is REFUSED,
	 * reason PINNED, or PINS_UNSEEN if that cannot be told.
	 * Pages may be held only because they lie between others; they are released as they are.
	 * Locks held: the space's. May sleep, but not for a lock of a space.
	 *
	 * @param views  out, as in pages_get: PRIVATE pages are held, and `content` points to what
	 *               they hold, wherever that is meanwhile; REFUSED pages (and all beyond the
	 *               described prefix) are not held, and writers pass
	 * @return the number of views, 0 or -errno when nothing is held
	 */
	int (*hold)(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		    uint64_t first, uint64_t npages);
	/** Let writes go on to held pages, which keep their content. Cannot fail. */
	void (*release)(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);

	/**
	 * Make frames, each with the content at `wish.content` when it is copied. Pages are not
	 * held: a copy of changing content may be anything; the library looks at what came out.
	 * The embedder places a frame where its twin stands if that place was never used before,
	 * so that neighbours become neighbours, else anywhere.
	 * Locks held: the space's whose contents are copied. May sleep.
	 *
	 * @param frames   out: @p nframes pointers; the embedder's descriptors embed pdd_frame, which
	 *                 the library initialises
	 * @param domain   the domain of all of them; the node is that of each wish
	 * @return the number of frames made, a prefix; 0 or -errno (ENOMEM, ENOSPC: no memory) when
	 *         none
	 */
	int (*frames_create)(void *ctx, struct pdd_frame **frames,
			     const struct pdd_frame_wish *wishes, uint32_t nframes,
			     uint32_t domain);

	/**
	 * Replace held pages by frames, ending their hold: page first + i shows frames[i], a first
	 * write to it gives it memory of its own. Cut by the embedder where frames are not
	 * neighbours.
	 * Locks held: the space's. May sleep.
	 *
	 * @return the number of pages replaced, a prefix; the others are still held. 0 or -errno
	 *         when none (ENOSPC: mapping budget; ENOMEM: no memory; EBUSY: busy)
	 */
	int (*frames_map)(void *ctx, struct pdd_region *region, uint64_t first,
			  struct pdd_frame *const *frames, uint64_t npages);

	/**
	 * Give pages that show frames, or the zero page that zero_map put there, memory of their
	 * own with the same content, atomically against writers; the pages may be written before
	 * and after. Others of the range, which have their own already or are absent, stay as they
	 * are: where there are clones (frame_is_mapped), pages that no pass has looked at are given
	 * as well when they are pinned or excluded.
	 * Locks held: the space's, by the embedder. May sleep.
	 * @return the number of pages done, a prefix; 0 or -errno when none
	 */
	int (*frames_unmap)(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);

	/**
	 * The content of a frame, which never changes. It is read at once: before the same thread
	 * calls hold or frames_create again.
	 * @return NULL if the frame is gone, whatever the reason: the library then forgets it
	 *         together with its sharers; what these pages show is the embedder's business
	 */
	const void *(*frame_content)(void *ctx, struct pdd_frame *frame);

	/**
	 * No page shares the frame any more as far as the library knows; it has forgotten it. After
	 * pdd_region_remove() without an unmerge, or pdd_region_discard() without pages_discard,
	 * pages may still show it, if there is no frame_is_mapped: its memory must then stay until
	 * they are unmapped. In a step it comes after pages_put, while nothing is held.
	 */
	void (*frame_free)(void *ctx, struct pdd_frame *frame);

	/**
	 * Optional: replace held pages, all of whose bytes are zero, by the zero page, ending
	 * their hold. Without it, zero pages are merged like any others.
	 * @return as frames_map
	 */
	int (*zero_map)(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages);

	/**
	 * Optional: the checksum of the content of a page or a frame, in place of XXH3. Its value
	 * is mixed unless PDD_SCANNER_UNIFORM_CHECKSUM is set. Equal contents must have equal
	 * checksums; the more often different contents have different ones, the better.
	 * @param value  out
	 * @return 0, or -errno if the content cannot be read (the page is left alone)
	 */
	int (*checksum)(void *ctx, uint64_t *value, const void *content);

	/** Optional: a monotonic clock in nanoseconds. Needed for deadlines, and for the least time
	 * between two prunes. */
	uint64_t (*now_ns)(void *ctx);

	/** Optional: told of what was done to pages [first, first + npages), in the middle of a
	 * step and under the locks held there; must not block. */
	void (*trace)(void *ctx, enum pdd_event event, struct pdd_region *region, uint64_t first,
		      uint64_t npages);

	/**
	 * Optional: whether pages that the library does not know to share the frame still show it:
	 * those of clones at which no pass has looked yet. Asked when its last sharer leaves, and
	 * again at each prune. A frame that is mapped is kept, in its place but closed, until a
	 * page adopts it (PDD_PAGE_FRAME) or nothing shows it any more; then frame_free comes.
	 * Without it there must be no clones. Locks held: any. Must not block.
	 */
	bool (*frame_is_mapped)(void *ctx, struct pdd_frame *frame);

	/**
	 * Optional: let pages that still show the frame that was put there show frames[i] instead,
	 * which has the same content, atomically against writers: a page that was written keeps its
	 * own copy, and counts as not done. Used to empty sparse frames of a chain (chain.h);
	 * without it pruning moves no sharers.
	 * Locks held: the space's. May sleep.
	 * @return the number of pages done, a prefix; 0 or -errno when none
	 */
	int (*frames_remap)(void *ctx, struct pdd_region *region, uint64_t first,
			    struct pdd_frame *const *frames, uint64_t npages);

	/**
	 * Optional: give the memory of pages back, whatever stands there; they read zero
	 * afterwards. Without it pdd_region_discard() only forgets, and the caller clears the pages
	 * under the same lock. The range may be longer than an extent.
	 * Locks held: the space's, exclusively, by the embedder. May sleep.
	 * @return the number of pages done, a prefix; 0 or -errno when none
	 */
	int64_t (*pages_discard)(void *ctx, struct pdd_region *region, uint64_t first,
				 uint64_t npages);

	/**
	 * Optional, both or none: memory for an extent of a region that was added without arrays,
	 * when something stands in it, and back when nothing is known of its pages any more.
	 * @param number  of the extent in the region: its pages begin at number * PDD_EXTENT_PAGES
	 * @return zeroed, aligned to 8 bytes; NULL: not now (its pages lose a look, a later pass
	 *         asks again)
	 */
	struct pdd_extent_block *(*extent_get)(void *ctx, struct pdd_region *region,
					       uint64_t number);
	void (*extent_put)(void *ctx, struct pdd_region *region, uint64_t number,
			   struct pdd_extent_block *block);

	/**
	 * Optional: which of pages [first, first + npages) were written, by whomever, since the
	 * call before this one that told of them, or since the region was added. Asked before any
	 * content of them is read. A page that was not written is not read again; whatever the
	 * answers are, only what was compared while it was held is shared.
	 *
	 * A write that comes during the call is told of by it or by the next one. Pages that were
	 * not there before and are now count as written. So do pages that the embedder discards on
	 * its own, without pdd_region_discard(): else they are taken for what they were until their
	 * extent is looked at for another reason. What the hooks of the library do to a page
	 * may count, or not. Each answer is given once: the library keeps it until the page is
	 * read. Locks held: the space's. May sleep.
	 *
	 * @param bits    out: bit i % 64 of bits[i / 64] set: page first + i was written; zeroed
	 *                before the call
	 * @param npages  1 .. PDD_WRITTEN_PAGES_MAX, in extents one behind the other
	 * @return the number of pages told of, a prefix; 0 or -errno: nothing is known, not even of
	 *         the first page, and all of its extent count as written
	 */
	int64_t (*pages_written)(void *ctx, struct pdd_region *region, uint64_t *bits,
				 uint64_t first, uint64_t npages);

	/**
	 * Optional, both or none: the scanner's lock, which lets several threads call the library.
	 * One lock that waits, such as a mutex; not recursive. It is held while the structures are
	 * read or changed, and not while pages are read, copied, compared among each other, held or
	 * mapped. In a step that is some microseconds at a time; adding a region takes 2 ns for
	 * each page, and a change of merge_across_nodes as long as it takes to empty the index.
	 * Locks are taken in this order: the embedder's own, a space's, this one; under it spaces
	 * are only tried.
	 */
	void (*lock)(void *ctx);
	void (*unlock)(void *ctx);
};

/* Pages that pages_written is asked for at once: one call for many extents keeps its cost down. */
#define PDD_WRITTEN_PAGES_MAX (64u * PDD_EXTENT_PAGES)

/** Hooks that can fail, for statistics. */
enum pdd_hook {
	PDD_HOOK_PAGES_GET = 0,
	PDD_HOOK_HOLD = 1,
	PDD_HOOK_FRAMES_CREATE = 2,
	PDD_HOOK_FRAMES_MAP = 3,
	PDD_HOOK_FRAMES_UNMAP = 4,
	PDD_HOOK_ZERO_MAP = 5,
	PDD_HOOK_CHECKSUM = 6,
	PDD_HOOK_FRAMES_REMAP = 7,
	PDD_HOOK_PAGES_DISCARD = 8,
	PDD_HOOK_EXTENT_GET = 9,
	PDD_HOOK_PAGES_WRITTEN = 10,
	PDD_HOOKS = 11, /* their number */
};

/* Room in arrays that are indexed by hook. */
#define PDD_HOOKS_MAX 16u

/** The name of a hook's member in pdd_ops ("frames_map"), "unknown" for other values. */
PDD_API const char *pdd_hook_name(enum pdd_hook hook);

#ifdef __cplusplus
}
#endif
#endif
