/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * search.c - finding equal content: frames first, then items.
 *
 * A node of equal checksum and domain, if it is the only one of its kind, is taken for equal
 * without a look at any content: whatever is merged is compared while it is held, so a wrong guess
 * costs one attempt. So a search reads nodes, calls no hook and takes no lock.
 *
 * If there are several, or if the item at hand met another content of its checksum before, contents
 * are compared on the way down. Frames are in exact order, since they never change. Items are in
 * the order that their contents had when they were inserted; an item that changed since then may
 * stand in the way of a search ("stale"). Two unequal items per search are checked for still having
 * their recorded checksum; a stale one is taken out and made due, and the search begins again.
 * The third stale one ends the search: the item at hand is tried again in another pass. All other
 * unequal items are true collisions and cost a compare each, O(log n) of them.
 *
 * To compare with an item, its space is tried (never waited for); busy counts as stale.
 */
#include "content.h"
#include "scanner_internal.h"

enum {
	CHECKS_PER_SEARCH = 2, /* of unequal items for their recorded checksum */
	STALE_PER_SEARCH = 3,  /* that end a search */
};

struct search_key {
	struct pdd_scanner *scanner;
	const struct pdd_space *space; /* of the item at hand: locked */
	const void *content; /* NULL: all items of the domain are equal */
	struct pdd_item *stale;
	uint32_t domain;
	uint32_t checks;
};

uint32_t pddi_node_domain(const struct pdd_index_node *node)
{
	switch (pdd_index_kind(node)) {
	case PDD_KIND_FRAME: return frame_of(node)->priv.domain;
	case PDD_KIND_GROUP: return group_of(node)->domain;
	case PDD_KIND_ITEM: break;
	}
	return item_of(node)->priv.region->priv.space->priv.domain;
}

/* Whether a page still has the checksum that was recorded. */
static bool is_fresh(const struct pdd_scanner *scanner, const struct pdd_item *item,
		     const void *content)
{
	struct pdd_checksum checksum;

	return pddi_checksum(scanner, &checksum, content) == 0 &&
	       checksum.value == item->priv.node.checksum;
}

/* Order of the content at hand against an item's, whose page can be read under its space's lock. */
static int order_locked(struct search_key *key, struct pdd_item *item)
{
	const struct pdd_scanner *scanner = key->scanner;
	struct pdd_region *region = item->priv.region;
	struct pdd_view view;
	int n, cmp = 0;

	n = scanner->priv.ops.pages_get(scanner->priv.ctx, region, &view, 1, item_page(item), 1);
	if (n <= 0 || view.kind != PDD_PAGE_PRIVATE) {
		key->stale = item;
	} else {
		cmp = pddi_content_compare(key->content, view.content, scanner->priv.page_size);
		if (cmp != 0 && key->checks > 0) {
			key->checks--;
			if (!is_fresh(scanner, item, view.content))
				key->stale = item;
		}
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

/* Items and groups, behind the frames of their checksum and domain. */
static int search_order(void *ctx, const struct pdd_index_node *other)
{
	struct search_key *key = ctx;
	uint32_t domain = pddi_node_domain(other);

	if (key->domain != domain)
		return key->domain < domain ? -1 : 1;
	switch (pdd_index_kind(other)) {
	case PDD_KIND_FRAME:
		return 1;
	case PDD_KIND_GROUP:
		if (!key->content)
			return 0;
		return pddi_content_compare(key->content, group_of(other)->content,
					    key->scanner->priv.page_size);
	case PDD_KIND_ITEM: break;
	}
	/* Once something is stale, the descent only has to end. */
	return key->content && !key->stale ? order_item(key, item_of(other)) : 0;
}

static void evict(struct pdd_scanner *scanner, struct pdd_item *item)
{
	scanner->priv.stats.stale_twins++;
	pddi_item_detach(scanner, item, PDD_REASON_STALE);
	item_set_due(item, true);
}

/* The first item or group of this key that has the content; content NULL: of any content. */
static struct pdd_index_node *find_item(struct search_key *key, struct pdd_index_slot *slot,
					uint64_t checksum)
{
	return pdd_index_find_slot(&key->scanner->priv.index, slot, checksum, search_order, key);
}

/* Whether another item or group of the same key stands behind this one. */
static bool has_equal_behind(const struct pdd_index_node *node)
{
	const struct pdd_index_node *next = pdd_index_next_equal(node);

	return next && pddi_node_domain(next) == pddi_node_domain(node);
}

static enum search_result search_items(struct pdd_scanner *scanner, struct pdd_index_node **node,
				       struct pdd_index_slot *slot, struct pdd_item *item,
				       const void *content)
{
	struct search_key key = {
		.scanner = scanner,
		.space = item->priv.region->priv.space,
		.domain = item->priv.region->priv.space->priv.domain,
		.checks = CHECKS_PER_SEARCH,
	};
	uint32_t stale = 0;

	*node = find_item(&key, slot, item->priv.node.checksum);
	if (*node && (item_collides(item) || has_equal_behind(*node))) {
		key.content = content;
		for (;;) {
			*node = find_item(&key, slot, item->priv.node.checksum);
			if (!key.stale)
				break;
			evict(scanner, key.stale);
			key.stale = NULL;
			if (++stale == STALE_PER_SEARCH)
				return SEARCH_GIVE_UP;
		}
	}
	if (!*node)
		return SEARCH_NOTHING;
	return pdd_index_kind(*node) == PDD_KIND_GROUP ? SEARCH_GROUP : SEARCH_TWIN;
}

enum search_result pddi_search(struct pdd_scanner *scanner, struct pdd_index_node **node,
			       struct pdd_index_slot *slot, struct pdd_item *item,
			       const void *content)
{
	uint64_t checksum = item->priv.node.checksum;
	uint32_t domain = item->priv.region->priv.space->priv.domain;
	struct pdd_frame *leader, *frame;
	bool several;

	/* Most pages are unlike all others: one descent. */
	*node = pdd_index_find_slot(&scanner->priv.index, slot, checksum, NULL, NULL);
	if (!*node)
		return SEARCH_NOTHING;

	leader = pddi_stable_find(scanner, checksum, domain, NULL, &several);
	if (leader && (several || item_collides(item)))
		leader = pddi_stable_find(scanner, checksum, domain, content, NULL);
	frame = leader ? pddi_stable_reserve(scanner, leader) : NULL;
	if (frame) {
		*node = &frame->priv.node;
		return SEARCH_RESERVED;
	}
	return search_items(scanner, node, slot, item, content);
}

bool pddi_search_is_alone(const struct pdd_item *item)
{
	const struct pdd_index_node *node = &item->priv.node;
	const struct pdd_rbnode *rb = pdd_rb_prev(&node->u.rb);
	const struct pdd_index_node *prev = (const struct pdd_index_node *)(const void *)rb;

	if (prev && prev->checksum == node->checksum && pdd_index_kind(prev) != PDD_KIND_FRAME &&
	    pddi_node_domain(prev) == pddi_node_domain(node))
		return false;
	return !has_equal_behind(node);
}

bool pddi_search_insert(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	struct search_key key = {
		.scanner = scanner,
		.domain = item->priv.region->priv.space->priv.domain,
	};
	struct pdd_index_slot slot;

	if (find_item(&key, &slot, item->priv.node.checksum))
		return false;
	item_set(item, ITEM_INDEXED, reason);
	pdd_index_link(&slot, &item->priv.node, PDD_KIND_ITEM);
	return true;
}

void pddi_search_evict(struct pdd_scanner *scanner, uint64_t checksum, uint32_t domain)
{
	struct search_key key = { .scanner = scanner, .domain = domain };
	struct pdd_index_node *node = find_item(&key, NULL, checksum);

	while (node && pdd_index_kind(node) == PDD_KIND_GROUP)
		node = has_equal_behind(node) ? pdd_index_next_equal(node) : NULL;
	if (!node)
		return;
	pddi_item_detach(scanner, item_of(node), item_reason(item_of(node)));
	item_set_due(item_of(node), true);
}
