/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stable.c - the frames among the nodes of the index, and the places in them.
 *
 * Invariants
 *  1. A listed frame (FRAME_LISTED) is a leader in the index or a dup of one. Leaders of equal
 *     checksum and domain have different contents, and stand in the order of their contents.
 *  2. A frame lives while it has a sharer or a promised place. When both are gone it leaves the
 *     index and goes back to the embedder at once. A group keeps a promise of its own while it
 *     founds a frame.
 *  3. Whenever a listed frame has room, no item of its key stays in the index unnoticed: when the
 *     frame enters, or gets room again, such an item is taken out and due, and then joins.
 *
 * Hard case: finding the leader of a dup. Dups do not know it, so that a handover does not rewrite
 * them. The leader is the frame of the dup's key in the index; if several contents have that key,
 * the contents are compared; if the dup's content cannot be read because it is gone, the rings of
 * these few leaders are searched.
 */
#include "content.h"
#include "scanner_internal.h"

struct stable_key {
	const struct pdd_scanner *scanner;
	const void *content; /* NULL: any */
	struct pdd_frame *gone;
	uint32_t domain;
};

static int stable_order(void *ctx, const struct pdd_index_node *other)
{
	struct stable_key *key = ctx;
	uint32_t domain = pddi_node_domain(other);
	const void *content;

	if (key->domain != domain)
		return key->domain < domain ? -1 : 1;
	if (pdd_index_kind(other) != PDD_KIND_FRAME)
		return -1;
	if (!key->content)
		return 0;
	content = pddi_frame_content(key->scanner, frame_of(other));
	if (!content) {
		key->gone = frame_of(other);
		return 0;
	}
	return pddi_content_compare(key->content, content, key->scanner->priv.page_size);
}

/* The leader of this key or NULL, and the slot where it would stand; drops gone frames it meets. */
static struct pdd_frame *find_slot(struct pdd_scanner *scanner, struct pdd_index_slot *slot,
				   uint64_t checksum, uint32_t domain, const void *content)
{
	for (;;) {
		struct stable_key key = { scanner, content, NULL, domain };
		struct pdd_index_node *node;

		node = pdd_index_find_slot(&scanner->priv.index, slot, checksum, stable_order, &key);
		if (!key.gone)
			return node ? frame_of(node) : NULL;
		pddi_stable_gone(scanner, key.gone);
	}
}

/* The leader behind this one that has the same key, but another content. */
static struct pdd_frame *next_leader(const struct pdd_frame *leader)
{
	struct pdd_index_node *next = pdd_index_next_equal(&leader->priv.node);

	if (!next || pdd_index_kind(next) != PDD_KIND_FRAME ||
	    frame_of(next)->priv.domain != leader->priv.domain)
		return NULL;
	return frame_of(next);
}

struct pdd_frame *pddi_stable_find(struct pdd_scanner *scanner, uint64_t checksum, uint32_t domain,
				   const void *content, bool *several)
{
	struct pdd_frame *leader = find_slot(scanner, NULL, checksum, domain, content);

	if (several)
		*several = leader && next_leader(leader);
	return leader;
}

static bool ring_has(const struct pdd_frame *leader, const struct pdd_frame *frame)
{
	const struct pdd_frame *dup = leader->priv.dups;

	if (!dup)
		return false;
	do {
		if (dup == frame)
			return true;
		dup = dup->priv.node.u.dup.next;
	} while (dup != leader->priv.dups);
	return false;
}

static struct pdd_frame *leader_of(const struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	struct stable_key key = { scanner, NULL, NULL, frame->priv.domain };
	struct pdd_index_node *node;
	struct pdd_frame *leader;

	if (!pdd_frame_is_dup(frame))
		return frame;
	node = pdd_index_find_slot(&scanner->priv.index, NULL, frame->priv.node.checksum,
				   stable_order, &key);
	PDD_ASSERT(node);
	leader = frame_of(node);
	if (!next_leader(leader))
		return leader;
	key.content = pddi_frame_content(scanner, frame);
	if (key.content) {
		node = pdd_index_find_slot(&scanner->priv.index, NULL, frame->priv.node.checksum,
					   stable_order, &key);
		if (node && !key.gone)
			return frame_of(node);
	}
	while (!ring_has(leader, frame))
		leader = next_leader(leader);
	return leader;
}

static void unlist(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	struct pdd_stats *stats = &scanner->priv.stats;
	struct pdd_frame *rest = frame; /* who leads the others afterwards */
	bool chained = pdd_frame_is_dup(frame) || frame->priv.dups;

	if (pdd_frame_is_dup(frame)) {
		rest = leader_of(scanner, frame);
		pdd_chain_remove(rest, frame);
	} else if (frame->priv.dups) {
		rest = pdd_chain_handover(frame);
		pdd_index_replace(&scanner->priv.index, &frame->priv.node, &rest->priv.node,
				  PDD_KIND_FRAME);
	} else {
		pdd_index_remove(&scanner->priv.index, &frame->priv.node);
	}
	if (chained) {
		stats->stable_node_dups -= rest->priv.dups ? 1 : 2;
		stats->stable_node_chains -= !rest->priv.dups;
	}
	frame->priv.flags &= (uint16_t)~FRAME_LISTED;
}

/* Give the frame back if nothing keeps it; says whether. */
static bool put(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	if (frame->priv.nsharers || frame->priv.nreserved)
		return false;
	if (frame->priv.flags & FRAME_LISTED)
		unlist(scanner, frame);
	scanner->priv.ops.frame_free(scanner->priv.ctx, frame);
	return true;
}

/* A frame of which something was taken away: keep the chain in order, and call for joiners. */
static void lost_one(struct pdd_scanner *scanner, struct pdd_frame *frame, bool was_full)
{
	uint32_t limit = scanner->priv.max_page_sharing;

	if (put(scanner, frame) || !(frame->priv.flags & FRAME_LISTED))
		return;
	pdd_chain_update(leader_of(scanner, frame), frame, limit);
	if (was_full && pdd_frame_has_room(frame, limit))
		pddi_search_evict(scanner, frame->priv.node.checksum, frame->priv.domain);
}

void pddi_stable_insert(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	const void *content = pddi_frame_content(scanner, frame);
	struct pdd_stats *stats = &scanner->priv.stats;
	struct pdd_index_slot slot;
	struct pdd_frame *leader;

	if (!content) {
		pddi_stable_gone(scanner, frame);
		return;
	}
	leader = find_slot(scanner, &slot, frame->priv.node.checksum, frame->priv.domain, content);
	if (leader) {
		stats->stable_node_dups += leader->priv.dups ? 1 : 2;
		stats->stable_node_chains += !leader->priv.dups;
		pdd_chain_insert(leader, frame, scanner->priv.max_page_sharing);
	} else {
		pdd_index_link(&slot, &frame->priv.node, PDD_KIND_FRAME);
	}
	frame->priv.flags |= FRAME_LISTED;
	if (pdd_frame_has_room(frame, scanner->priv.max_page_sharing))
		pddi_search_evict(scanner, frame->priv.node.checksum, frame->priv.domain);
}

struct pdd_frame *pddi_stable_reserve(struct pdd_scanner *scanner, struct pdd_frame *leader)
{
	uint32_t limit = scanner->priv.max_page_sharing;
	struct pdd_frame *frame = pdd_chain_pick(leader, limit);

	if (!frame)
		return NULL;
	frame->priv.nreserved++;
	if (!pdd_frame_has_room(frame, limit))
		pdd_chain_update(leader, frame, limit);
	return frame;
}

void pddi_stable_unreserve(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	bool was_full = !pdd_frame_has_room(frame, scanner->priv.max_page_sharing);

	PDD_ASSERT(frame->priv.nreserved > 0);
	frame->priv.nreserved--;
	lost_one(scanner, frame, was_full);
}

void pddi_stable_join(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item)
{
	struct pdd_stats *stats = &scanner->priv.stats;

	PDD_ASSERT(frame->priv.nreserved > 0);
	PDD_INVARIANT(!(frame->priv.flags & FRAME_GONE));
	if (frame->priv.nsharers == 0)
		stats->pages_shared++;
	else
		stats->pages_sharing++;
	frame->priv.nreserved--;
	item_set(item, ITEM_SHARER, PDD_REASON_NONE);
	pdd_frame_insert_sharer(frame, item);
	item_counts(item)->merges++;
}

/* Unlink a sharer and forget what was known of its page. */
static void drop_sharer(struct pdd_scanner *scanner, struct pdd_frame *frame,
			struct pdd_item *item, enum pdd_reason reason)
{
	struct pdd_stats *stats = &scanner->priv.stats;

	pdd_frame_remove_sharer(frame, item);
	if (frame->priv.nsharers == 0)
		stats->pages_shared--;
	else
		stats->pages_sharing--;
	pddi_item_reset(item, reason);
}

void pddi_stable_leave(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	struct pdd_frame *frame = item_frame(item);
	bool was_full = !pdd_frame_has_room(frame, scanner->priv.max_page_sharing);

	drop_sharer(scanner, frame, item, reason);
	lost_one(scanner, frame, was_full);
}

void pddi_stable_gone(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	frame->priv.flags |= FRAME_GONE;
	if (frame->priv.flags & FRAME_LISTED)
		unlist(scanner, frame);
	while (frame->priv.sharers) {
		struct pdd_item *item = frame->priv.sharers;

		drop_sharer(scanner, frame, item, PDD_REASON_STALE);
		item_set_due(item, true);
	}
	put(scanner, frame);
}
