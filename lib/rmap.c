/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rmap.c - who maps a frame: its sharers, and clones of their pages that no pass has looked at yet.
 *
 * A *place* is a page of an object. A page of a region that is attached stands at one place.
 *
 * Invariants
 *  1. A region is attached (it has an object) if and only if its interval is in the tree of that
 *     object, which counts it. The interval is [place of page 0, place of the last page].
 *  2. The place of a page changes by attaching and detaching only: neither moving the region nor
 *     resizing it at its end changes that of page 0. So it is recorded, not computed from where the
 *     region stands.
 *  3. During a walk neither sharers nor items nor trees change. Hooks and callbacks do not call the
 *     library, and the walk itself only counts.
 *
 * A walk tells of the sharers first (pass 0). Then (pass 1) it takes them in pieces, as many as the
 * caller has room for, sorts each piece by place, and asks for the regions at each place once. The
 * page that such a region has there maps the frame if it was cloned from the sharer's page, was not
 * written since, and no pass has come by.
 *
 * Hard case: each mapping is told of once, although several sharers may stand at one place (an
 * original and clones that a pass has found), and may be in different pieces.
 *
 *  - A sharer is told of in pass 0, which comes by each once, as the list has it once. Pass 1 knows
 *    it by its item, and passes over it.
 *  - Any other page is met in pass 1 at its place only, and once each time that is gone through: a
 *    tree gives an interval once, and a region has one page at a place.
 *  - Who asks for a place finds the same regions in the same order (3), so the same first one whose
 *    page is a sharer of the frame: the representative of the place. There is one, since the sharer
 *    for which the place is asked for is there itself. Only those sharers go through the place that
 *    have the representative among them; and it is in one piece, once.
 *
 * So sorting is for cost alone: without it each sharer would look for the representative of its
 * place, past clones that stand before it in the tree.
 *
 * What it cannot find: a clone of a page that is no sharer any more, because it was written and a
 * pass came by it, or it was unmerged, unless another sharer stands at its place. A pass that comes
 * by the clone makes it a sharer; until then the embedder knows by its own count that a mapping is
 * missing (frame_is_mapped).
 *
 * Locking: the caller's, see rmap.h. A clone's space is locked while its page is asked for; no lock
 * is held when the callback is called.
 * Complexity: O(s log s) to sort s sharers by place, O(log regions) to find the first region at a
 * place, and O(1) for each further one if they stand side by side in the tree, as clones do; else
 * O(log regions). Nothing recurses or allocates.
 */
#include "scanner_internal.h"

/* ---- objects ---- */

static uint64_t last_place(uint64_t first, uint64_t npages)
{
	return first + (npages - 1);
}

int pdd_region_attach(struct pdd_region *region, struct pdd_object *object, uint64_t object_page)
{
	if (!region || !object || !region->priv.space ||
	    object_page > UINT64_MAX - (region->priv.npages - 1))
		return -EINVAL;
	if (region->priv.object)
		return -EBUSY;
	(void)pdd_interval_insert(&object->priv.regions, &region->priv.interval, object_page,
				  last_place(object_page, region->priv.npages));
	object->priv.nregions++;
	region->priv.object = object;
	return 0;
}

int pdd_region_detach(struct pdd_region *region)
{
	struct pdd_object *object = region ? region->priv.object : NULL;

	if (!object)
		return -EINVAL;
	pdd_interval_remove(&object->priv.regions, &region->priv.interval);
	object->priv.nregions--;
	region->priv.object = NULL;
	return 0;
}

void pddi_region_reattach(struct pdd_region *region)
{
	struct pdd_object *object = region->priv.object;
	uint64_t first;

	if (!object)
		return;
	first = pdd_interval_first(&region->priv.interval);
	PDD_ASSERT(first <= UINT64_MAX - (region->priv.npages - 1)); /* pdd_region_resize() */
	pdd_interval_remove(&object->priv.regions, &region->priv.interval);
	(void)pdd_interval_insert(&object->priv.regions, &region->priv.interval, first,
				  last_place(first, region->priv.npages));
}

/* ---- places ---- */

static struct pdd_region *region_of(struct pdd_interval *interval)
{
	unsigned char *bytes = (unsigned char *)interval;

	return (struct pdd_region *)(void *)(bytes - offsetof(struct pdd_region, priv.interval));
}

/* The place of an item's page, whose region is attached. */
static uint64_t item_place(const struct pdd_item *item)
{
	return pdd_interval_first(&item->priv.region->priv.interval) + item_page(item);
}

static const struct pdd_object *item_object(const struct pdd_item *item)
{
	return item->priv.region->priv.object;
}

static bool is_same_place(const struct pdd_item *a, const struct pdd_item *b)
{
	return item_object(a) == item_object(b) && item_place(a) == item_place(b);
}

static bool is_before(const struct pdd_item *a, const struct pdd_item *b)
{
	if (item_object(a) != item_object(b))
		return (uintptr_t)item_object(a) < (uintptr_t)item_object(b);
	return item_place(a) < item_place(b);
}

/* ---- heap sort: in place, no recursion, n log n at worst ---- */

/* Let items[at] sink to where none of its children is behind it. */
static void sink(struct pdd_item **items, size_t n, size_t at)
{
	struct pdd_item *item = items[at];
	size_t child;

	for (; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_before(items[child], items[child + 1]))
			child++;
		if (!is_before(item, items[child]))
			break;
		items[at] = items[child];
	}
	items[at] = item;
}

static void sort_by_place(struct pdd_item **items, size_t n)
{
	for (size_t at = n / 2; at-- > 0;)
		sink(items, n, at);
	while (n > 1) {
		struct pdd_item *last = items[0];

		items[0] = items[--n];
		items[n] = last;
		sink(items, n, 0);
	}
}

/* ---- the walk ---- */

struct walk {
	struct pdd_scanner *scanner;
	struct pdd_frame *frame;
	pdd_rmap_fn callback;
	void *ctx;
	struct pdd_rmap_result result;
};

/* Tell of a mapping; false if the walk is to end. */
static bool tell(struct walk *walk, enum pdd_mapping mapping, struct pdd_region *region,
		 uint64_t page)
{
	walk->result.hits++;
	walk->result.stopped = !walk->callback(walk->ctx, mapping, region, page);
	return !walk->result.stopped;
}

static void tell_sharers(struct walk *walk)
{
	for (struct pdd_item *item = walk->frame->priv.sharers; item;
	     item = item->priv.node.u.member.next) {
		walk->result.visits++;
		if (!tell(walk, PDD_MAPPING_SHARER, item->priv.region, item_page(item)))
			return;
	}
}

/* The item that a region has at a place; NULL if a sparse region has none. */
static struct pdd_item *item_at_place(const struct pdd_region *region, uint64_t place)
{
	uint64_t page = place - pdd_interval_first(&region->priv.interval);
	struct pdd_extent *extent = pddi_extent_find(region, page / PDD_EXTENT_PAGES);

	return extent ? pddi_extent_item(extent, page) : NULL;
}

static bool is_sharer_of(const struct pdd_item *item, const struct pdd_frame *frame)
{
	return item && item_state(item) == ITEM_SHARER && item_frame(item) == frame;
}

/* Whether a page that is no sharer of the frame may map it. Not if it shows something else, or has
 * memory of its own and must not be touched. */
static bool may_map(const struct pdd_item *item)
{
	return !item || (!item_is_kept_out(item) && item_state(item) != ITEM_SHARER &&
			 item_state(item) != ITEM_ZERO);
}

/* What stands at a page, whose space is locked: whether it maps the frame, or cannot be seen. */
static bool maps(struct walk *walk, enum pdd_mapping *mapping, struct pdd_region *region,
		 uint64_t page)
{
	struct pdd_scanner *scanner = walk->scanner;
	const struct pdd_ops *ops = &scanner->priv.ops;
	struct pdd_view view = { .npages = 0 };
	int n = ops->pages_get(scanner->priv.ctx, region, &view, 1, page, 1);

	if (n <= 0) {
		(void)pddi_reason(scanner, PDD_HOOK_PAGES_GET, n);
		*mapping = PDD_MAPPING_UNKNOWN;
		return true;
	}
	ops->pages_put(scanner->priv.ctx, region, page, 1);
	/* Of a frame that was put there and forgotten, nobody says which it is. */
	*mapping = view.kind == PDD_PAGE_SHARED ? PDD_MAPPING_UNKNOWN : PDD_MAPPING_CLONE;
	return view.kind == PDD_PAGE_SHARED ||
	       (view.kind == PDD_PAGE_FRAME && view.frame == walk->frame);
}

/* Ask the embedder for a page, and tell of it if it maps the frame. False if the walk is to end. */
static bool ask(struct walk *walk, struct pdd_region *region, uint64_t page)
{
	struct pdd_scanner *scanner = walk->scanner;
	const struct pdd_ops *ops = &scanner->priv.ops;
	enum pdd_mapping mapping = PDD_MAPPING_UNKNOWN;
	bool hit = true;

	if (ops->space_trylock(scanner->priv.ctx, region->priv.space)) {
		hit = maps(walk, &mapping, region, page);
		ops->space_unlock(scanner->priv.ctx, region->priv.space);
	} else {
		scanner->priv.stats.space_lock_misses++;
	}
	return !hit || tell(walk, mapping, region, page);
}

/* Of the pages at a place, the first that is a sharer of the frame. */
static const struct pdd_item *representative(const struct walk *walk,
					     const struct pdd_object *object, uint64_t place)
{
	struct pdd_interval *interval =
		pdd_interval_find_first(&object->priv.regions, place, place);

	for (; interval; interval = pdd_interval_find_next(interval, place, place)) {
		const struct pdd_item *item = item_at_place(region_of(interval), place);

		if (is_sharer_of(item, walk->frame))
			return item;
	}
	return NULL;
}

/* Tell of the clones at the place of some sharers, all of a piece that are there. */
static void tell_clones(struct walk *walk, struct pdd_item *const *sharers, size_t n)
{
	const struct pdd_object *object = item_object(sharers[0]);
	const uint64_t place = item_place(sharers[0]);
	const struct pdd_item *first = representative(walk, object, place);
	struct pdd_interval *interval;
	size_t i = 0;

	while (i < n && sharers[i] != first)
		i++;
	if (i == n)
		return; /* another piece has it, and does this */
	for (interval = pdd_interval_find_first(&object->priv.regions, place, place); interval;
	     interval = pdd_interval_find_next(interval, place, place)) {
		struct pdd_region *region = region_of(interval);
		const struct pdd_item *item = item_at_place(region, place);

		if (is_sharer_of(item, walk->frame))
			continue;
		walk->result.visits++;
		if (may_map(item) && !ask(walk, region, place - pdd_interval_first(interval)))
			return;
	}
}

/* Take sharers whose regions are attached, from *next on, as many as there is room for. */
static size_t take_piece(struct pdd_item **sharers, size_t nsharers, struct pdd_item **next)
{
	size_t n = 0;

	for (; *next && n < nsharers; *next = (*next)->priv.node.u.member.next)
		if (item_object(*next))
			sharers[n++] = *next;
	return n;
}

/* Tell of the clones at the places of a piece of the sharers. */
static void work_on_piece(struct walk *walk, struct pdd_item **sharers, size_t n)
{
	size_t first = 0, end;

	sort_by_place(sharers, n);
	for (; first < n && !walk->result.stopped; first = end) {
		for (end = first + 1; end < n && is_same_place(sharers[first], sharers[end]);)
			end++;
		tell_clones(walk, &sharers[first], end - first);
	}
}

int pdd_rmap_walk(struct pdd_scanner *scanner, struct pdd_rmap_result *result,
		  struct pdd_frame *frame, struct pdd_item **sharers, size_t nsharers,
		  pdd_rmap_fn callback, void *ctx)
{
	struct walk walk = { .scanner = scanner, .frame = frame, .callback = callback, .ctx = ctx };
	struct pdd_item *next;
	size_t n;

	if (result)
		*result = walk.result;
	if (!scanner || !frame || !sharers || nsharers == 0 || !callback)
		return -EINVAL;
	tell_sharers(&walk);
	next = frame->priv.sharers;
	while (!walk.result.stopped && (n = take_piece(sharers, nsharers, &next)) > 0)
		work_on_piece(&walk, sharers, n);
	if (result)
		*result = walk.result;
	return 0;
}
