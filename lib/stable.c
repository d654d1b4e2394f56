/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stable.c - the frames among the nodes of the index, and the places in them.
 *
 * Invariants
 *  1. A listed frame (FRAME_LISTED) is a leader in the index or a dup of one. Leaders of equal
 *     checksum and partition have different contents, and stand in the order of their contents.
 *  2. A frame lives while it has a sharer or a reserved place, or is kept. When all that is gone it
 *     leaves the index and goes back to the embedder at once. A group reserves a place of its own
 *     while it founds a frame.
 *  3. Whenever a listed frame has room, no item of its key stays in the index unnoticed: when the
 *     frame enters, or gets room again, such an item is taken out and due, and then joins.
 *  4. A kept frame (FRAME_KEPT) is listed and has neither sharer nor reserved place: clones at
 *     which no pass has looked still map it, says the embedder. It takes none, until one of those
 *     pages adopts it; a prune asks for it again.
 *
 * Hard case: finding the leader of a dup. Dups do not know it, so that a handover does not rewrite
 * them. The leader is the frame of the dup's key in the index; if several contents have that key,
 * the contents are compared; if the dup's content cannot be read because it is gone, the rings of
 * these few leaders are searched.
 */
#include "content.h"
#include "scanner_internal.h"

struct stable_key {
	struct pdd_scanner *scanner;
	const void *content; /* NULL: any */
	struct pdd_frame *gone;
	uint64_t partition;
	uint64_t *compares; /* where they are counted */
};

static int stable_order(void *ctx, const struct pdd_index_node *other)
{
	struct stable_key *key = ctx;
	uint64_t partition = pddi_node_partition(other);
	const void *content;

	if (key->partition != partition)
		return key->partition < partition ? -1 : 1;
	if (pdd_index_kind(other) != PDD_KIND_FRAME)
		return -1;
	if (!key->content)
		return 0;
	content = pddi_frame_content(key->scanner, frame_of(other));
	if (!content) {
		key->gone = frame_of(other);
		return 0;
	}
	if (key->compares)
		++*key->compares;
	return pddi_content_compare(key->content, content, key->scanner->priv.page_size);
}

/* The leader of this key or NULL, and the slot where it would stand; drops gone frames it meets. */
static struct pdd_frame *find_slot(struct pdd_scanner *scanner, struct pdd_index_slot *slot,
				   uint64_t checksum, uint64_t partition, const void *content,
				   uint64_t *compares)
{
	for (;;) {
		struct stable_key key = { scanner, content, NULL, partition, compares };
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
	    frame_partition(frame_of(next)) != frame_partition(leader))
		return NULL;
	return frame_of(next);
}

struct pdd_frame *pddi_stable_find(struct pdd_scanner *scanner, uint64_t checksum,
				   uint64_t partition, const void *content, bool *several)
{
	struct pdd_frame *leader = find_slot(scanner, NULL, checksum, partition, content,
					     &scanner->priv.stats.search_compares);

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

struct pdd_frame *pddi_stable_leader(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	struct stable_key key = { scanner, NULL, NULL, frame_partition(frame), NULL };
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
		rest = pddi_stable_leader(scanner, frame);
		pdd_chain_remove(rest, frame);
	} else if (frame->priv.dups) {
		rest = pdd_chain_handover(frame);
		pdd_index_replace(&scanner->priv.index, &frame->priv.node, &rest->priv.node,
				  PDD_KIND_FRAME);
	} else {
		pddi_index_remove(scanner, &frame->priv.node);
	}
	if (chained) {
		stats->stable_node_dups -= rest->priv.dups ? 1 : 2;
		stats->stable_node_chains -= !rest->priv.dups;
	}
	frame->priv.flags &= (uint16_t)~FRAME_LISTED;
	scanner->priv.nframes--;
}

static uint32_t limit_of(const struct pdd_scanner *scanner)
{
	return scanner->priv.tunables.max_page_sharing;
}

/* No sharer and no reserved place is left: keep the frame, if clones map it, or give it back; says
 * whether it went back. */
static bool let_go(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	const struct pdd_ops *ops = &scanner->priv.ops;
	bool kept = frame->priv.flags & FRAME_KEPT;

	/* Pages have shown it if it was listed ever. */
	if (frame->priv.flags & FRAME_LISTED && ops->frame_is_mapped &&
	    ops->frame_is_mapped(scanner->priv.ctx, frame)) {
		frame->priv.flags |= FRAME_KEPT;
		scanner->priv.stats.frames_kept += !kept;
		if (!kept)
			pdd_chain_update(pddi_stable_leader(scanner, frame), frame, limit_of(scanner));
		return false;
	}
	scanner->priv.stats.frames_kept -= kept;
	if (frame->priv.flags & FRAME_LISTED)
		unlist(scanner, frame);
	pddi_frame_free(scanner, frame);
	return true;
}

/* A frame gained or lost a place: keep the chain in order, and call for joiners. */
static void changed(struct pdd_scanner *scanner, struct pdd_frame *frame, bool was_full)
{
	if (!(frame->priv.flags & FRAME_LISTED))
		return;
	pdd_chain_update(pddi_stable_leader(scanner, frame), frame, limit_of(scanner));
	if (was_full && pdd_frame_has_room(frame, limit_of(scanner)))
		pddi_search_evict(scanner, frame->priv.node.checksum, frame_partition(frame));
}

/* Something was taken away from a frame. */
static void lost_one(struct pdd_scanner *scanner, struct pdd_frame *frame, bool was_full)
{
	if (pdd_frame_places(frame) == 0)
		let_go(scanner, frame);
	else
		changed(scanner, frame, was_full);
}

void pddi_stable_drop_empty(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	if (pdd_frame_places(frame) == 0 && !(frame->priv.flags & FRAME_KEPT))
		let_go(scanner, frame);
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
	leader = find_slot(scanner, &slot, frame->priv.node.checksum, frame_partition(frame),
			   content, &stats->chain_compares);
	if (leader) {
		stats->stable_node_dups += leader->priv.dups ? 1 : 2;
		stats->stable_node_chains += !leader->priv.dups;
		pdd_chain_insert(leader, frame, limit_of(scanner));
	} else {
		pddi_index_link(scanner, &slot, &frame->priv.node, PDD_KIND_FRAME);
	}
	frame->priv.flags |= FRAME_LISTED;
	scanner->priv.nframes++;
	if (pdd_frame_has_room(frame, limit_of(scanner)))
		pddi_search_evict(scanner, frame->priv.node.checksum, frame_partition(frame));
}

struct pdd_frame *pddi_stable_reserve(struct pdd_scanner *scanner, struct pdd_frame *leader)
{
	struct pdd_frame *frame = pdd_chain_pick(leader, limit_of(scanner));

	if (!frame)
		return NULL;
	pdd_frame_reserve(frame);
	if (!pdd_frame_has_room(frame, limit_of(scanner)))
		pdd_chain_update(leader, frame, limit_of(scanner));
	return frame;
}

void pddi_stable_unreserve(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	bool was_full = !pdd_frame_has_room(frame, limit_of(scanner));

	pdd_frame_unreserve(frame);
	lost_one(scanner, frame, was_full);
}

/* Link a sharer, and count it. */
static void take_sharer(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item)
{
	struct pdd_stats *stats = &scanner->priv.stats;

	PDD_INVARIANT(!(frame->priv.flags & FRAME_GONE));
	if (frame->priv.nsharers == 0)
		stats->pages_shared++;
	else
		stats->pages_sharing++;
	pdd_frame_insert_sharer(frame, item);
}

/* Unlink a sharer, and count it no more. */
static void drop_sharer(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item)
{
	struct pdd_stats *stats = &scanner->priv.stats;

	pddi_cursors_leave(scanner, item);
	pdd_frame_remove_sharer(frame, item);
	if (frame->priv.nsharers == 0)
		stats->pages_shared--;
	else
		stats->pages_sharing--;
}

void pddi_stable_join(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item)
{
	pdd_frame_unreserve(frame);
	item_set(item, ITEM_SHARER, PDD_REASON_NONE);
	/* Both may have moved to another node since the place was reserved. */
	item_field_set(item, ITEM_NODE_SHIFT, ITEM_NODE_BITS, frame->priv.numa_node);
	take_sharer(scanner, frame, item);
	item_counts(item)->merges++;
}

bool pddi_stable_adopt(struct pdd_scanner *scanner, struct pdd_frame *frame, struct pdd_item *item)
{
	struct pdd_counts *counts = item_counts(item);
	bool had_room = pdd_frame_has_room(frame, limit_of(scanner));
	const void *content;

	if (!(frame->priv.flags & FRAME_LISTED) ||
	    frame->priv.domain != item->priv.region->priv.space->priv.domain)
		return false;
	content = pddi_frame_content(scanner, frame);
	if (!content) {
		pddi_stable_gone(scanner, frame);
		return false;
	}
	if (frame->priv.flags & FRAME_KEPT) {
		frame->priv.flags &= (uint16_t)~FRAME_KEPT;
		scanner->priv.stats.frames_kept--;
		had_room = true;
	}
	item->priv.node.checksum = frame->priv.node.checksum;
	item_set_node(item, frame->priv.numa_node);
	item_set_all(item, ITEM_SHARER, pddi_content_class(content, scanner->priv.page_size),
		     PDD_REASON_NONE);
	take_sharer(scanner, frame, item);
	counts->adoptions++;
	counts->adoptions_over_limit += !had_room;
	changed(scanner, frame, !had_room || frame->priv.nsharers == 1);
	return true;
}

void pddi_stable_refile(struct pdd_scanner *scanner, struct pdd_item *item, struct pdd_frame *source,
			struct pdd_frame *target)
{
	bool was_full = !pdd_frame_has_room(source, limit_of(scanner));

	if (target->priv.flags & FRAME_GONE)
		return; /* meanwhile: what the page shows is the embedder's business */
	if (item_state(item) != ITEM_SHARER) { /* the source is gone, and took it along */
		(void)pddi_stable_adopt(scanner, target, item);
		return;
	}
	drop_sharer(scanner, source, item);
	/* One of them may have moved to another node meanwhile. */
	item_field_set(item, ITEM_NODE_SHIFT, ITEM_NODE_BITS, target->priv.numa_node);
	take_sharer(scanner, target, item);
	item_counts(item)->refiles++;
	changed(scanner, target, false);
	lost_one(scanner, source, was_full);
}

void pddi_stable_leave(struct pdd_scanner *scanner, struct pdd_item *item, enum pdd_reason reason)
{
	struct pdd_frame *frame = item_frame(item);
	bool was_full = !pdd_frame_has_room(frame, limit_of(scanner));

	drop_sharer(scanner, frame, item);
	scanner->priv.prune_wanted = true;
	pddi_item_reset(item, reason);
	lost_one(scanner, frame, was_full);
}

void pddi_stable_gone(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	scanner->priv.stats.stale_frames += !(frame->priv.flags & FRAME_GONE);
	scanner->priv.stats.frames_kept -= !!(frame->priv.flags & FRAME_KEPT);
	frame->priv.flags |= FRAME_GONE;
	frame->priv.flags &= (uint16_t)~FRAME_KEPT;
	scanner->priv.prune_wanted = true;
	if (frame->priv.flags & FRAME_LISTED)
		unlist(scanner, frame);
	while (frame->priv.sharers) {
		struct pdd_item *item = frame->priv.sharers;

		drop_sharer(scanner, frame, item);
		pddi_item_reset(item, PDD_REASON_STALE);
		item_set_due(item, true);
	}
	if (pdd_frame_places(frame) == 0)
		let_go(scanner, frame);
}

/* ---- NUMA ---- */

void pddi_stable_move(struct pdd_scanner *scanner, struct pdd_frame *frame, uint16_t node)
{
	if (!(frame->priv.flags & FRAME_LISTED) || frame->priv.numa_node == node)
		return;
	scanner->priv.stats.moved_frames++;
	unlist(scanner, frame);
	frame->priv.numa_node = node;
	for (struct pdd_item *item = frame->priv.sharers; item;
	     item = item->priv.node.u.member.next)
		item_field_set(item, ITEM_NODE_SHIFT, ITEM_NODE_BITS, node);
	pddi_stable_insert(scanner, frame);
}

int pdd_frame_moved(struct pdd_scanner *scanner, struct pdd_frame *frame, uint16_t node)
{
	if (!scanner || !frame || node >= PDD_NODES_MAX)
		return -EINVAL;
	pddi_lock(scanner);
	pddi_stable_move(scanner, frame, pddi_node(scanner, node));
	pddi_leave(scanner);
	return 0;
}

/* ---- prune ---- */

/* Ask whether a frame still is what it was; false: it went back. */
static bool ask(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	if (frame->priv.flags & FRAME_KEPT)
		return !let_go(scanner, frame);
	if (pddi_frame_content(scanner, frame))
		return true;
	pddi_stable_gone(scanner, frame);
	return false;
}

struct pdd_frame *pddi_stable_tidy(struct pdd_scanner *scanner, struct pdd_frame *leader,
				   uint64_t *nframes)
{
	struct pdd_frame *dup = leader->priv.dups, *heir;
	uint64_t ndups = 0;

	for (const struct pdd_frame *d = dup; d && (!ndups || d != dup); d = d->priv.node.u.dup.next)
		ndups++;
	*nframes = ndups + 1;
	/* The dups first, so that their leader stays the same; what is asked may leave the ring. */
	while (ndups--) {
		struct pdd_frame *next = dup->priv.node.u.dup.next;

		ask(scanner, dup);
		dup = next;
	}
	heir = leader->priv.dups;
	if (!ask(scanner, leader))
		leader = heir;
	if (!leader)
		return NULL;
	pdd_chain_sort(leader, limit_of(scanner));
	if (pdd_chain_pick(leader, limit_of(scanner)))
		pddi_search_evict(scanner, leader->priv.node.checksum, frame_partition(leader));
	return leader;
}
