/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * space.h - spaces and regions: which pages may be shared, and what an embedder does to them.
 *
 * They come, grow, shrink, move and go at any time between two steps, also in the middle of a pass.
 * What is added during a pass is looked at from the next pass on.
 *
 * Clones. After a fork or clone of a space the embedder adds the child as a space of its own, in
 * the same domain, with regions of its own. Its pages_get answers PDD_PAGE_FRAME where a page
 * shows a frame of the parent; the first look makes the page a sharer (an adoption), above the
 * limit if need be. Until then frame_is_mapped keeps the frame, and a reverse walk finds the page
 * through its object (rmap.h).
 *
 * Locking: each function needs the layout of the space locked exclusively by the embedder, or no
 * step running. Which thread may call is said in scanner.h.
 */
#ifndef PAGEDEDUP_SPACE_H
#define PAGEDEDUP_SPACE_H

#include <pagededup/interval.h>
#include <pagededup/item.h>
#include <pagededup/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A run of pages that may be shared; zeroed before use. Private fields. */
struct pdd_region {
	struct {
		struct pdd_space *space; /* NULL while not added */
		struct pdd_region *next; /* of the space, in the order in which they were added */
		struct pdd_region *prev;
		uint64_t first_page; /* its place in the space */
		uint64_t npages;
		struct pdd_extent *extents; /* an array; NULL: on demand, in `live` */
		struct pdd_rbroot live;     /* extents by number */
		uint64_t nlive;
		uint64_t first_pass; /* that comes by it */
		uint64_t grown_pass; /* 1 + the pass during which it grew ... */
		uint64_t pass_pages; /* ... and which comes by so many of its pages */
		uint64_t unshares;
		uint64_t written_pass; /* 1 + the pass in which pages_written told of ... */
		uint64_t written_from; /* ... pages from this one on ... */
		uint64_t written_end;  /* ... and before this one */
		struct pdd_object *object; /* NULL while not attached */
		struct pdd_interval interval; /* its pages of the object */
	} priv;
};

/** A page of a space; region NULL: behind the last one. */
struct pdd_place {
	struct pdd_region *region;
	uint64_t page;
};

/** How a pass comes by the pages of a space (pass.c). Private. */
struct pdd_walk {
	struct pdd_place at;     /* where it goes on */
	struct pdd_place begin;  /* with which it began; region NULL: with the first one */
	struct pdd_place resume; /* the first one that this pass missed */
	bool wrapped;            /* it goes on from the first page to `begin` */
	uint64_t pass;           /* 1 + the pass in which it began */
	struct pdd_space *next;  /* of those that were put off */
	bool missed;             /* pages of it, in this pass or the one before */
	struct pdd_space *next_missed;
};

/** An address space with one layout lock; zeroed before use. Private fields. */
struct pdd_space {
	struct {
		struct pdd_scanner *scanner; /* NULL while not added */
		struct pdd_space *next;
		struct pdd_space *prev;
		struct pdd_region *regions; /* the first */
		struct pdd_region *last;
		struct pdd_walk walk;
		struct pdd_counts counts; /* what is derived on reading is 0 here */
		uint32_t domain;
	} priv;
};

/**
 * @param domain  trust boundary: pages of different domains never share a frame
 * @return 0; -EBUSY: the space is added already; -EINVAL: NULL
 * Calls hooks: none. Complexity: O(1). Since: 0.1
 */
PDD_API int pdd_space_add(struct pdd_scanner *scanner, struct pdd_space *space, uint32_t domain);

/** @return 0; -EBUSY: it still has regions; -EINVAL: it is not added. O(1), or O(spaces that are busy)
 * in a pass that found such. Since: 0.1 */
PDD_API int pdd_space_remove(struct pdd_space *space);

/** Of a space that is added. Complexity: O(1). Since: 0.1 */
static inline uint32_t pdd_space_domain(const struct pdd_space *space)
{
	return space->priv.domain;
}

/** Extents that a region of this many pages needs. */
static inline uint64_t pdd_region_extents(uint64_t npages)
{
	return npages / PDD_EXTENT_PAGES + (npages % PDD_EXTENT_PAGES != 0);
}

/**
 * Add a run of pages.
 *
 * With arrays it costs 48.1 bytes for each page. Sparse memory, of which little is there, comes
 * without: extents are then asked for where something stands (extent_get), and holes are skipped
 * as far as pages_get says.
 *
 * @param first_page  its place in the space: address >> page_shift
 * @param npages      1 .. PDD_REGION_PAGES_MAX
 * @param extents     pdd_region_extents(npages), zeroed; NULL: sparse
 * @param items       @p npages, zeroed; NULL: sparse
 * @return 0; -EBUSY: added already; -EINVAL: NULL, npages or first_page out of range, the space is
 *         not added, only one of the arrays, or none without the hooks extent_get and extent_put
 * Calls hooks: none. Complexity: O(npages); O(1) if sparse. Since: 0.1
 */
PDD_API int pdd_region_add(struct pdd_space *space, struct pdd_region *region, uint64_t first_page,
			   uint64_t npages, struct pdd_extent *extents, struct pdd_item *items);

/**
 * Grow or shrink a region at its end, in place. Pages that are cut off are forgotten as by
 * pdd_region_remove().
 *
 * @param npages  1 .. PDD_REGION_PAGES_MAX. To grow, the arrays that the region was added with must
 *                have room for it, zeroed
 * @return 0; -EINVAL: not added, npages out of range, the place in the space or in the object would
 *         overflow
 * Calls hooks: those of pdd_region_remove. Complexity: O(pages that come or go). Since: 0.1
 */
PDD_API int pdd_region_resize(struct pdd_region *region, uint64_t npages);

/** The region stands elsewhere in its space now, with all it shows. Its offset in its object stays.
 * @return 0; -EINVAL: not added, out of range. O(1). Since: 0.1 */
PDD_API int pdd_region_move(struct pdd_region *region, uint64_t first_page);

/**
 * Forget a region and all its pages, which keep what they show: to be used when the memory goes
 * away, or after pdd_region_unmerge(). It is detached from its object. Without a frame_is_mapped
 * hook frame_free is called for frames that its pages may still show: if the memory stays, unmerge
 * first.
 * @return 0; -EINVAL: not added
 * Calls hooks: frame_content, frame_is_mapped, frame_free, extent_put. Complexity: O(npages), of
 * live extents if sparse. Since: 0.1
 */
PDD_API int pdd_region_remove(struct pdd_region *region);

static inline struct pdd_space *pdd_region_space(const struct pdd_region *region)
{
	return region->priv.space;
}

static inline uint64_t pdd_region_first_page(const struct pdd_region *region)
{
	return region->priv.first_page;
}

static inline uint64_t pdd_region_pages(const struct pdd_region *region)
{
	return region->priv.npages;
}

/**
 * Give pages that share a frame, or were replaced by the zero page, memory of their own. They stay
 * eligible: who does not want them merged again excludes them.
 *
 * Pages of a clone at which no pass has looked yet are not known to share anything; a pass makes
 * them known.
 *
 * Incremental: the next call goes on where this one stopped, since what is unmerged is not found
 * again. Parts in which nothing is merged cost O(1) for each 512 pages, holes of a sparse region
 * nothing.
 *
 * @param budget  pages to unmerge at most, at least 1
 * @return the number of pages unmerged, less than @p budget only if the rest of the range was gone
 *         through or a hook failed; 0: nothing in the range is merged. -errno of frames_unmap if the
 *         first page that is left could not be unmerged (-EBUSY if it answered 0): all is valid,
 *         a later call tries again. -EINVAL: not added, not in the region, no budget
 * Calls hooks: frames_unmap, frame_content, frame_is_mapped, frame_free.
 * Complexity: O(pages unmerged + extents of the range). Since: 0.1
 */
PDD_API int64_t pdd_region_unmerge(struct pdd_region *region, uint64_t first, uint64_t npages,
				   uint64_t budget);

/** pdd_region_unmerge() of all regions of a space; 0: nothing is merged in it any more. */
PDD_API int64_t pdd_space_unmerge(struct pdd_space *space, uint64_t budget);

/**
 * Keep the library away from pages, because a device or somebody else holds on to them: they have
 * memory of their own when it returns, and no hook but pages_written is called for them until as
 * many calls of pdd_region_unpin() have come, up to 511. Their reason is PDD_REASON_PINNED.
 *
 * @return 0; -EINVAL: not added, not in the region; -EOVERFLOW: one of them is pinned 511 times;
 *         -ENOMEM: extent_get said no; -errno of frames_unmap. Then nothing is pinned by this call
 * Calls hooks: frames_unmap, frame_content, frame_is_mapped, frame_free, extent_get.
 * Complexity: O(npages). Since: 0.1
 */
PDD_API int pdd_region_pin(struct pdd_region *region, uint64_t first, uint64_t npages);

/** @return 0; -EINVAL: not added, not in the region, one of them is not pinned: nothing is changed.
 * Calls hooks: none. Complexity: O(npages). Since: 0.1 */
PDD_API int pdd_region_unpin(struct pdd_region *region, uint64_t first, uint64_t npages);

/** As pdd_region_pin(), but once, until pdd_region_include(); the reason is PDD_REASON_EXCLUDED. */
PDD_API int pdd_region_exclude(struct pdd_region *region, uint64_t first, uint64_t npages);

/** Undo pdd_region_exclude() where it was done. @return 0 or -EINVAL: not added, not in the region.
 * Calls hooks: none. Complexity: O(npages). Since: 0.1 */
PDD_API int pdd_region_include(struct pdd_region *region, uint64_t first, uint64_t npages);

/**
 * Discard memory (a balloon, free page reporting): the pages stop sharing, all that is known of
 * them is forgotten, and their memory is given back by the hook pages_discard, after which they read
 * zero. Without the hook it only forgets, and the caller clears the pages under the same lock.
 * Excluded pages stay excluded.
 *
 * @return 0; -EINVAL: not added, not in the region; -EBUSY: one of the pages is pinned, nothing is
 *         done; -errno of pages_discard: pages before the one that failed are discarded, the others
 *         are as they were
 * Calls hooks: pages_discard, frame_content, frame_is_mapped, frame_free, extent_put.
 * Complexity: O(npages), of live extents if sparse. Since: 0.1
 */
PDD_API int pdd_region_discard(struct pdd_region *region, uint64_t first, uint64_t npages);

#ifdef __cplusplus
}
#endif
#endif
