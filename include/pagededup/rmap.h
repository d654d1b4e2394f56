/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rmap.h - reverse map: who maps this frame?
 *
 * Needed to migrate or poison a frame, or to protect it: everybody who maps it has to be found,
 * also clones (forks) of spaces at which no pass has looked yet, so that the library does not know
 * them as sharers.
 *
 * An *object* is what regions map: several regions, also of several spaces after a clone, can map
 * the same pages of it. Regions are attached to an object at an offset; a walk asks the object's
 * interval tree for the regions that contain exactly the page of the object that a sharer maps. So
 * it visits those that may map the frame, and no others: KSM asks for the whole object, and a page
 * of one with 20,000 regions costs 20,000 visits.
 *
 * The offset is recorded, not computed from the address: a region that was moved keeps it.
 */
#ifndef PAGEDEDUP_RMAP_H
#define PAGEDEDUP_RMAP_H

#include <pagededup/chain.h>
#include <pagededup/space.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What regions map; zeroed before use. Private fields. */
struct pdd_object {
	struct {
		struct pdd_interval_tree regions;
		uint64_t nregions;
	} priv;
};

/**
 * The region maps an object's pages [object_page, object_page + pages of the region). All regions
 * of an object belong to spaces of one scanner.
 * @return 0; -EBUSY: it is attached already; -EINVAL: not added, NULL, the object would need page
 *         numbers beyond 64 bits
 * Locking: the space exclusively, and no walk of the object under way. O(log regions). Since: 0.1
 */
PDD_API int pdd_region_attach(struct pdd_region *region, struct pdd_object *object,
			      uint64_t object_page);

/** Removing a region does it, too. @return 0; -EINVAL: not attached. As attach. Since: 0.1 */
PDD_API int pdd_region_detach(struct pdd_region *region);

/** Regions that are attached to it; it may go when there are none. O(1). Since: 0.1 */
static inline uint64_t pdd_object_regions(const struct pdd_object *object)
{
	return object->priv.nregions;
}

/** How sure it is that a page maps the frame. */
enum pdd_mapping {
	PDD_MAPPING_SHARER = 0,  /* a sharer: it does, unless it was written since the last look */
	PDD_MAPPING_CLONE = 1,   /* pages_get says so: a clone that is not looked at yet */
	PDD_MAPPING_UNKNOWN = 2, /* its space is busy, pages_get failed, or it shows a frame of which
				    nothing is known any more: it may */
};

/** Told of a mapping. @return false to end the walk. No lock of the library is held, nor the
 * space's; it must not call back into the scanner. */
typedef bool (*pdd_rmap_fn)(void *ctx, enum pdd_mapping mapping, struct pdd_region *region,
			    uint64_t page);

/** Room of a walk for one sharer. Private fields. */
struct pdd_rmap_room {
	struct {
		struct pdd_region *region;
		uint64_t page;
	} priv;
};

/** What a walk did. */
struct pdd_rmap_result {
	uint64_t hits;   /* calls of the callback */
	uint64_t visits; /* different mappings that were examined, the sharers' own included */
	bool stopped;    /* by the callback */
};

/**
 * Call back once for each mapping of a frame: first for its sharers, then for clones found through
 * their objects. A clone of a page that is no sharer any more is not found until a pass has come by
 * the clone; nor are those of a kept frame (frame_is_mapped). The embedder's own count of mappings
 * tells that they are missing.
 *
 * @param result   out, may be NULL
 * @param frame    that has not gone back (frame_free) when the walk begins; it does not before the
 *                 walk ends
 * @param room     for @p nroom sharers, as many as are worked on together. With at least
 *                 pdd_frame_sharers() of them the cost is as below; with fewer, a page of an
 *                 object that several sharers map is searched once for each piece
 * @return 0; -EINVAL: NULL, no room
 * Locking: as all calls on a scanner; no region is added, moved, resized or removed meanwhile.
 * Spaces of clones are tried: those that the caller has locked itself, so that the try fails, are
 * UNKNOWN, and so are pages where a step is at work. Steps of other threads may go on: pages that
 * are sharers from the begin of the walk to its end are told of once; a page that begins or ends to
 * be one meanwhile may be, and clones at its place may be told of twice.
 * Calls hooks: space_trylock, pages_get, pages_put, space_unlock; for clones only.
 * Complexity: O(s log s + s log regions + visits) for s sharers. Since: 0.1
 */
PDD_API int pdd_rmap_walk(struct pdd_scanner *scanner, struct pdd_rmap_result *result,
			  struct pdd_frame *frame, struct pdd_rmap_room *room, size_t nroom,
			  pdd_rmap_fn callback, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
