/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * search.c - finding equal content: frames first, then items.
 *
 * A node of equal checksum and partition, if it is the only one of its kind, is taken for equal
 * without a look at any content: whatever is merged is compared while it is held, so a wrong guess
 * costs one attempt. So a search reads nodes, calls no hook and takes no lock.
 *
 * If there are several, or if true collisions (different contents of equal checksum) were met in
 * the last COMPARE_PASSES passes, contents are compared on the way down. Frames are in exact order,
 * since they never change. Items are in the order that their contents had when they were inserted.
 *
 * Hard case: stale items among true collisions. If an item's page changed since it was inserted, it
 * stands in the wrong place and may send a search astray, so that equal pages miss each other. So
 * items of one key are two sets, told apart by a mark (ITEM_FRESH) that is the lowest bit of the
 * number of the pass in which the item was inserted, and ordered by it before the content:
 *
 *  - A pass that comes by an item of the index that is not alone with its key takes it out, and
 *    searches for it anew if it is looked at; so does one that misses it because its space is busy.
 *    So after a pass the set of earlier ones is empty, but for items that are alone with their key.
 *  - While a pass that looks at all pages goes on, its own set contains items that it inserted, so
 *    if nothing is written meanwhile their order is exact, and each search in it: when the second
 *    of two equal pages is come by, the first is found, in this very pass. (At most one item may
 *    have been in the set before: one that was alone with its key. All the others were ordered
 *    against it as it is now.)
 *  - The set of the pass before is searched then, as well as it goes: its items are compared as
 *    they are now.
 *
 * Two unequal items per search are checked for still having their recorded checksum; a stale one is
 * taken out and made due, and the search begins again. The third stale one ends it; if that happens
 * in the set of this pass the item at hand is tried again in another pass. All other unequal items
 * are true collisions and cost a compare each, O(log n) of them.
 *
 * To compare with an item, its space is tried (never waited for); busy counts as stale. That is the
 * only lock that a search ever takes. An item of an extent that another thread has claimed, and
 * another thread's group, are not read: the search ends there, and the page at hand is due.
 *
 * Where the index is rebuilt (PDD_INDEX_REBUILT), the set of the pass before does not count at all,
 * and whatever a pass comes by leaves it (look.c): after a pass only its own set is left.
 */
#include "content.h"
#include "scanner_internal.h"

enum {
	CHECKS_PER_SEARCH = 2, /* of unequal items for their recorded checksum */
	STALE_PER_SEARCH = 3,  /* that end a search */
	COMPARE_PASSES = PDD_AGING_PERIOD_MAX + 1, /* so that each page is looked at meanwhile */
};

struct search_key {
	struct pdd_scanner *scanner;
	const struct pdd_space *space; /* of the item at hand: locked */
	const struct pdd_visit *visit; /* that searches */
	const void *content; /* NULL: all items of the partition are equal */
	struct pdd_item *stale;
	uint64_t partition;
	uint32_t checks;
	bool any_set; /* or only that which ... */
	bool fresh;   /* ... this says */
};

uint64_t pddi_node_partition(const struct pdd_index_node *node)
{
	switch (pdd_index_kind(node)) {
	case PDD_KIND_FRAME: return frame_partition(frame_of(node));
	case PDD_KIND_GROUP: return group_of(node)->partition;
	case PDD_KIND_ITEM: break;
	}
	return item_partition(item_of(node));
}

bool pddi_node_is_fresh(const struct pdd_index_node *node)
{
	return pdd_index_kind(node) == PDD_KIND_GROUP ? group_of(node)->fresh
						      : item_is_fresh(item_of(node));
}

/* The set of the pass under way. */
static bool fresh_now(const struct pdd_scanner *scanner)
{
	return pddi_search_fresh_mark(scanner);
}

void pddi_search_collided(struct pdd_scanner *scanner)
{
	scanner->priv.stats.collisions++;
	scanner->priv.compare_passes = COMPARE_PASSES;
}

/* Whether a page still has the checksum that was recorded. */
static bool is_fresh(struct pdd_scanner *scanner, const struct pdd_item *item,
		     const void *content)
{
	struct pdd_checksum checksum;

	return pddi_checksum(scanner, &checksum, content) == PDD_REASON_NONE &&
	       checksum.value == item->priv.node.checksum;
}

/* Order of the content at hand against an item's, whose page can be read under its space's lock. */
static int order_locked(struct search_key *key, struct pdd_item *item)
{
	struct pdd_scanner *scanner = key->scanner;
	struct pdd_region *region = item->priv.region;
	struct pdd_view view = { .npages = 0 };
	int n, cmp = 0;

	n = scanner->priv.ops.pages_get(scanner->priv.ctx, region, &view, 1, item_page(item), 1);
	if (n <= 0 || view.kind != PDD_PAGE_PRIVATE) {
		key->stale = item;
	} else {
		scanner->priv.stats.search_compares++;
		cmp = pddi_content_compare(key->content, view.content, scanner->priv.page_size);
		if (cmp != 0 && key->checks > 0) {
			key->checks--;
			if (!is_fresh(scanner, item, view.content))
				key->stale = item;
		}
		if (cmp != 0 && !key->stale)
			pddi_search_collided(scanner);
	}
	if (n > 0)
		scanner->priv.ops.pages_put(scanner->priv.ctx, region, item_page(item), 1);
	return key->stale ? 0 : cmp;
}

static int order_item(struct search_key *key, struct pdd_item *item)
{
	const struct pdd_scanner *scanner = key->scanner;
	struct pdd_space *space = item->priv.region->priv.space;
	int cmp;

	if (pddi_is_claimed(scanner, key->visit, item->priv.region, item_page(item))) {
		return 0; /* what is in it must not be read: whatever it is, it is taken */
	}
	if (space == key->space)
		return order_locked(key, item);
	if (!scanner->priv.ops.space_trylock(scanner->priv.ctx, space)) {
		key->scanner->priv.stats.space_lock_misses++;
		key->stale = item;
		return 0;
	}
	cmp = order_locked(key, item);
	scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
	return cmp;
}

static int order_group(const struct search_key *key, const struct pdd_group *group)
{
	/* Pages that another thread has, and holds perhaps: whatever is in them, it is taken. */
	if (group->visit != key->visit)
		return 0;
	key->scanner->priv.stats.search_compares++;
	return pddi_content_compare(key->content, group->content, key->scanner->priv.page_size);
}

/* Items and groups, behind the frames of their checksum and partition. */
static int search_order(void *ctx, const struct pdd_index_node *other)
{
	struct search_key *key = ctx;
	uint64_t partition = pddi_node_partition(other);

	if (key->partition != partition)
		return key->partition < partition ? -1 : 1;
	if (pdd_index_kind(other) == PDD_KIND_FRAME)
		return 1;
	if (!key->any_set && key->fresh != pddi_node_is_fresh(other))
		return key->fresh ? 1 : -1;
	if (!key->content)
		return 0;
	/* Once something is stale, the descent only has to end. */
	if (key->stale)
		return 0;
	return pdd_index_kind(other) == PDD_KIND_GROUP ? order_group(key, group_of(other))
						       : order_item(key, item_of(other));
}

static void evict(struct pdd_scanner *scanner, struct pdd_item *item)
{
	scanner->priv.stats.stale_twins++;
	pddi_item_detach(scanner, item, PDD_REASON_STALE);
	item_set_due(item, true);
	item_set_dirty(item, true);
}

/* The first item or group of this key that has the content; content NULL: of any content. */
static struct pdd_index_node *find_item(struct search_key *key, struct pdd_index_slot *slot,
					uint64_t checksum)
{
	return pdd_index_find_slot(&key->scanner->priv.index, slot, checksum, search_order, key);
}

/* The key of a search for an item of any content: in a rebuilt index only in the set of this pass.
 */
static struct search_key key_of(struct pdd_scanner *scanner, uint64_t partition)
{
	return (struct search_key){
		.scanner = scanner,
		.partition = partition,
		.any_set = !pddi_rebuilds(scanner),
		.fresh = fresh_now(scanner),
	};
}

/* Whether another item or group of the same key stands behind this one. */
static bool has_equal_behind(const struct pdd_index_node *node)
{
	return pddi_has_same_key(node, pdd_index_next_equal(node));
}

static enum search_result result_of(const struct pdd_index_node *node)
{
	if (!node)
		return SEARCH_NOTHING;
	return pdd_index_kind(node) == PDD_KIND_GROUP ? SEARCH_GROUP : SEARCH_TWIN;
}

/* Search one set with compares, and throw out what is found to be stale. False: too much was. */
static bool search_set(struct search_key *key, struct pdd_index_node **node,
		       struct pdd_index_slot *slot, uint64_t checksum, uint32_t *stale)
{
	for (;;) {
		*node = find_item(key, slot, checksum);
		if (!key->stale)
			return true;
		evict(key->scanner, key->stale);
		key->stale = NULL;
		if (++*stale == STALE_PER_SEARCH)
			return false;
	}
}

static enum search_result search_items(struct pdd_scanner *scanner, const struct pdd_visit *visit,
				       struct pdd_index_node **node, struct pdd_index_slot *slot,
				       struct pdd_item *item, const void *content)
{
	uint64_t checksum = item->priv.node.checksum;
	struct search_key key = key_of(scanner, item_partition(item));
	uint32_t stale = 0;

	key.space = item->priv.region->priv.space;
	key.visit = visit;
	key.checks = CHECKS_PER_SEARCH;

	*node = find_item(&key, slot, checksum);
	if (!*node || !(scanner->priv.compare_passes || has_equal_behind(*node)))
		return result_of(*node);
	key.content = content;
	key.any_set = false;
	if (!search_set(&key, node, slot, checksum, &stale))
		return SEARCH_GIVE_UP;
	if (*node || pddi_rebuilds(scanner))
		return result_of(*node);
	key.fresh = !fresh_now(scanner);
	stale = 0;
	if (search_set(&key, node, NULL, checksum, &stale) && *node)
		return result_of(*node);
	if (stale == 0)
		return SEARCH_NOTHING;
	/* What was thrown out may have been next to the slot. */
	key.fresh = fresh_now(scanner);
	stale = 0;
	return search_set(&key, node, slot, checksum, &stale) ? result_of(*node) : SEARCH_GIVE_UP;
}

/* Search among frames and items, some of which have the checksum. */
static enum search_result search(struct pdd_scanner *scanner, const struct pdd_visit *visit,
				 struct pdd_index_node **node, struct pdd_index_slot *slot,
				 struct pdd_item *item, const void *content)
{
	uint64_t checksum = item->priv.node.checksum;
	uint64_t partition = item_partition(item);
	struct pdd_frame *leader, *frame;
	bool several;

	leader = pddi_stable_find(scanner, checksum, partition, NULL, &several);
	if (leader && (several || scanner->priv.compare_passes))
		leader = pddi_stable_find(scanner, checksum, partition, content, NULL);
	frame = leader ? pddi_stable_reserve(scanner, leader) : NULL;
	if (frame) {
		*node = &frame->priv.node;
		return SEARCH_RESERVED;
	}
	return search_items(scanner, visit, node, slot, item, content);
}

/* Whether another thread has what was found: a group of its own, or an item where it is at work. */
static bool is_taken(const struct pdd_scanner *scanner, const struct pdd_visit *visit,
		     const struct pdd_index_node *node)
{
	if (pdd_index_kind(node) == PDD_KIND_GROUP)
		return group_of(node)->visit != visit;
	return pddi_is_claimed(scanner, visit, item_of(node)->priv.region, item_page(item_of(node)));
}

enum search_result pddi_search(struct pdd_scanner *scanner, const struct pdd_visit *visit,
			       struct pdd_index_node **node, struct pdd_index_slot *slot,
			       struct pdd_item *item, const void *content)
{
	enum search_result result;

	/* Most pages are unlike all others: one descent. */
	*node = pdd_index_find_slot(&scanner->priv.index, slot, item->priv.node.checksum, NULL,
				    NULL);
	if (!*node)
		return SEARCH_NOTHING;
	result = search(scanner, visit, node, slot, item, content);
	if ((result == SEARCH_TWIN || result == SEARCH_GROUP) && is_taken(scanner, visit, *node))
		return SEARCH_BUSY;
	return result;
}

bool pddi_search_is_alone(const struct pdd_scanner *scanner, const struct pdd_item *item)
{
	return !scanner->priv.nbeside || !pddi_is_beside(&item->priv.node);
}

void pddi_search_link(struct pdd_scanner *scanner, const struct pdd_index_slot *slot,
		      struct pdd_item *item, enum pdd_class class_, enum pdd_reason reason)
{
	item_set_all(item, ITEM_INDEXED, class_, reason);
	item->priv.word = (item->priv.word & ~ITEM_FRESH) | pddi_search_fresh_mark(scanner);
	pddi_index_link(scanner, slot, &item->priv.node, PDD_KIND_ITEM);
}

bool pddi_search_insert(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	struct search_key key = key_of(scanner, item_partition(item));
	struct pdd_index_slot slot;

	if (find_item(&key, &slot, item->priv.node.checksum))
		return false;
	pddi_search_link(scanner, &slot, item, item_class(item), reason);
	return true;
}

/* Among collisions the item is of this content or of another one. There it is not evicted: it is
 * taken out and searched for anew whenever a pass looks at it. */
void pddi_search_evict(struct pdd_scanner *scanner, uint64_t checksum, uint64_t partition)
{
	struct search_key key = { .scanner = scanner, .partition = partition, .any_set = true };
	struct pdd_index_node *node = find_item(&key, NULL, checksum);

	if (!node || pdd_index_kind(node) == PDD_KIND_GROUP || scanner->priv.compare_passes ||
	    has_equal_behind(node))
		return;
	pddi_item_detach(scanner, item_of(node), item_reason(item_of(node)));
	item_set_due(item_of(node), true);
}
