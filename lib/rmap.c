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
 *  3. During a walk no tree changes. Sharers may come and go while the scanner's lock is released,
 *     which it is around hooks and callbacks: a cursor keeps the walk's place in the list of
 *     sharers,
 *     and moves on when the sharer at which it stands leaves. What the walk remembers of a sharer
 *     meanwhile are its region and page, not its item. It is a visit (claim.c): the frame stays,
 *     and the extent of a page that is asked for is claimed.
 *
 * In the following nobody else changes sharers. A walk tells of the sharers first (pass 0). Then
 * (pass 1) it takes them in pieces, as many as the caller has room for, sorts each piece by place,
 * and asks for the regions at each place once. The page that such a region has there maps the frame
 * if it was cloned from the sharer's page, was not written since, and no pass has come by.
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
	pddi_lock(region->priv.space->priv.scanner);
	(void)pdd_interval_insert(&object->priv.regions, &region->priv.interval, object_page,
				  last_place(object_page, region->priv.npages));
	object->priv.nregions++;
	region->priv.object = object;
	pddi_unlock(region->priv.space->priv.scanner);
	return 0;
}

int pdd_region_detach(struct pdd_region *region)
{
	struct pdd_object *object = region ? region->priv.object : NULL;

	if (!object)
		return -EINVAL;
	pddi_lock(region->priv.space->priv.scanner);
	pdd_interval_remove(&object->priv.regions, &region->priv.interval);
	object->priv.nregions--;
	region->priv.object = NULL;
	pddi_unlock(region->priv.space->priv.scanner);
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

typedef struct pdd_rmap_room sharer;

/* The place of a sharer's page, whose region is attached. */
static uint64_t place_of(const sharer *s)
{
	return pdd_interval_first(&s->priv.region->priv.interval) + s->priv.page;
}

static const struct pdd_object *object_of(const sharer *s)
{
	return s->priv.region->priv.object;
}

static bool is_same_place(const sharer *a, const sharer *b)
{
	return object_of(a) == object_of(b) && place_of(a) == place_of(b);
}

static bool is_before(const sharer *a, const sharer *b)
{
	if (object_of(a) != object_of(b))
		return (uintptr_t)object_of(a) < (uintptr_t)object_of(b);
	return place_of(a) < place_of(b);
}

/* ---- heap sort: in place, no recursion, n log n at worst ---- */

/* Let sharers[at] sink to where none of its children is behind it. */
static void sink(sharer *sharers, size_t n, size_t at)
{
	sharer one = sharers[at];
	size_t child;

	for (; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_before(&sharers[child], &sharers[child + 1]))
			child++;
		if (!is_before(&one, &sharers[child]))
			break;
		sharers[at] = sharers[child];
	}
	sharers[at] = one;
}

static void sort_by_place(sharer *sharers, size_t n)
{
	for (size_t at = n / 2; at-- > 0;)
		sink(sharers, n, at);
	while (n > 1) {
		sharer last = sharers[0];

		sharers[0] = sharers[--n];
		sharers[n] = last;
		sink(sharers, n, 0);
	}
}

/* ---- the walk's place in the list of sharers ---- */

struct pdd_rmap_cursor {
	struct pdd_rmap_cursor *next; /* of the scanner's */
	struct pdd_item *at;          /* the next sharer */
};

void pddi_cursors_leave(struct pdd_scanner *scanner, const struct pdd_item *item)
{
	for (struct pdd_rmap_cursor *cursor = scanner->priv.cursors; cursor; cursor = cursor->next)
		if (cursor->at == item)
			cursor->at = item->priv.node.u.member.next;
}

static void link_cursor(struct pdd_scanner *scanner, struct pdd_rmap_cursor *cursor)
{
	cursor->next = scanner->priv.cursors;
	scanner->priv.cursors = cursor;
}

static void unlink_cursor(struct pdd_scanner *scanner, const struct pdd_rmap_cursor *cursor)
{
	struct pdd_rmap_cursor **link = &scanner->priv.cursors;

	while (*link != cursor)
		link = &(*link)->next;
	*link = cursor->next;
}

/* ---- the walk ---- */

struct walk {
	struct pdd_scanner *scanner;
	struct pdd_frame *frame;
	pdd_rmap_fn callback;
	void *ctx;
	struct pdd_rmap_result result;
	struct pdd_visit visit;
	struct pdd_rmap_cursor cursor;
};

/* Tell of a mapping, without the lock; false if the walk is to end. */
static bool tell(struct walk *walk, enum pdd_mapping mapping, struct pdd_region *region,
		 uint64_t page)
{
	walk->result.hits++;
	walk->result.stopped = !walk->callback(walk->ctx, mapping, region, page);
	return !walk->result.stopped;
}

/* Take sharers from the cursor on, as many as there is room for; `attached`: only those whose
 * regions are. */
static size_t take_piece(struct walk *walk, sharer *room, size_t nroom, bool attached)
{
	struct pdd_item **at = &walk->cursor.at;
	size_t n = 0;

	for (; *at && n < nroom; *at = (*at)->priv.node.u.member.next)
		if (!attached || (*at)->priv.region->priv.object)
			room[n++] = (sharer){ { (*at)->priv.region, item_page(*at) } };
	return n;
}

static void tell_sharers(struct walk *walk, sharer *room, size_t nroom)
{
	size_t n;

	walk->cursor.at = walk->frame->priv.sharers;
	while (!walk->result.stopped && (n = take_piece(walk, room, nroom, false)) > 0) {
		pddi_unlock(walk->scanner);
		for (size_t i = 0; i < n && !walk->result.stopped; i++) {
			walk->result.visits++;
			(void)tell(walk, PDD_MAPPING_SHARER, room[i].priv.region,
				   room[i].priv.page);
		}
		pddi_lock(walk->scanner);
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
	int n;

	pddi_unlock(scanner);
	n = ops->pages_get(scanner->priv.ctx, region, &view, 1, page, 1);
	if (n > 0)
		ops->pages_put(scanner->priv.ctx, region, page, 1);
	pddi_lock(scanner);
	if (n <= 0) {
		(void)pddi_reason(scanner, PDD_HOOK_PAGES_GET, n);
		*mapping = PDD_MAPPING_UNKNOWN;
		return true;
	}
	/* Of a frame that was put there and forgotten, nobody says which it is. */
	*mapping = view.kind == PDD_PAGE_SHARED ? PDD_MAPPING_UNKNOWN : PDD_MAPPING_CLONE;
	return view.kind == PDD_PAGE_SHARED ||
	       (view.kind == PDD_PAGE_FRAME && view.frame == walk->frame);
}

/* Ask the embedder for a page, and tell of it if it maps the frame. False if the walk is to end. */
static bool ask(struct walk *walk, struct pdd_region *region, uint64_t page)
{
	struct pdd_scanner *scanner = walk->scanner;
	enum pdd_mapping mapping = PDD_MAPPING_UNKNOWN;
	bool hit = true, locked;

	locked = scanner->priv.ops.space_trylock(scanner->priv.ctx, region->priv.space);
	scanner->priv.stats.space_lock_misses += !locked;
	if (locked && pddi_claim(scanner, &walk->visit, &walk->visit.beside, region, page)) {
		hit = maps(walk, &mapping, region, page);
		pddi_unclaim(&walk->visit.beside);
	}
	pddi_unlock(scanner);
	if (locked)
		scanner->priv.ops.space_unlock(scanner->priv.ctx, region->priv.space);
	if (hit)
		(void)tell(walk, mapping, region, page);
	pddi_lock(scanner);
	return !walk->result.stopped;
}

/* Of the pages at a place, the first that is a sharer of the frame, in *first; false: none is. */
static bool representative(const struct walk *walk, sharer *first, const struct pdd_object *object,
			   uint64_t place)
{
	struct pdd_interval *interval =
		pdd_interval_find_first(&object->priv.regions, place, place);

	for (; interval; interval = pdd_interval_find_next(interval, place, place)) {
		struct pdd_region *region = region_of(interval);

		if (is_sharer_of(item_at_place(region, place), walk->frame)) {
			*first = (sharer){ { region, place - pdd_interval_first(interval) } };
			return true;
		}
	}
	return false;
}

/* Whether a sharer is among n of them. */
static bool is_among(const sharer *one, const sharer *sharers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sharers[i].priv.region == one->priv.region &&
		    sharers[i].priv.page == one->priv.page)
			return true;
	return false;
}

/* Tell of the clones at the place of some sharers, all of a piece that are there. */
static void tell_clones(struct walk *walk, const sharer *sharers, size_t n)
{
	const struct pdd_object *object = object_of(&sharers[0]);
	const uint64_t place = place_of(&sharers[0]);
	struct pdd_interval *interval;
	sharer first;

	/* If it is in another piece, that does this. */
	if (!representative(walk, &first, object, place) || !is_among(&first, sharers, n))
		return;
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

/* Tell of the clones at the places of a piece of the sharers. */
static void work_on_piece(struct walk *walk, sharer *sharers, size_t n)
{
	size_t first = 0, end;

	sort_by_place(sharers, n);
	for (; first < n && !walk->result.stopped; first = end) {
		for (end = first + 1; end < n && is_same_place(&sharers[first], &sharers[end]);)
			end++;
		tell_clones(walk, &sharers[first], end - first);
	}
}

int pdd_rmap_walk(struct pdd_scanner *scanner, struct pdd_rmap_result *result,
		  struct pdd_frame *frame, struct pdd_rmap_room *room, size_t nroom,
		  pdd_rmap_fn callback, void *ctx)
{
	struct walk walk = { .scanner = scanner, .frame = frame, .callback = callback, .ctx = ctx };
	size_t n;

	if (result)
		*result = walk.result;
	if (!scanner || !frame || !room || nroom == 0 || !callback)
		return -EINVAL;
	pddi_lock(scanner);
	pddi_visit_begin(scanner, &walk.visit);
	link_cursor(scanner, &walk.cursor);
	tell_sharers(&walk, room, nroom);
	walk.cursor.at = frame->priv.sharers;
	while (!walk.result.stopped && (n = take_piece(&walk, room, nroom, true)) > 0)
		work_on_piece(&walk, room, n);
	unlink_cursor(scanner, &walk.cursor);
	pddi_visit_end(scanner, &walk.visit);
	pddi_leave(scanner);
	if (result)
		*result = walk.result;
	return 0;
}
