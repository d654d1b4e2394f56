/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * claim.c - who works where, so that several threads keep out of each other's way.
 *
 * A visit is what a step does at one extent, or a reverse walk. The scanner lists the visits under
 * way, the oldest first; each says at which extents it is: the one that it reads, and beside that
 * one in which it holds pages or asks for one.
 *
 * Invariants
 *  1. An extent is claimed by one visit at a time. Only who claimed it calls pages_get, hold and
 *     what ends them for its pages, changes recorded checksums, or makes pages show something else.
 *     So nobody reads a page while another one holds it.
 *  2. No search takes an item of an extent that another visit has claimed (search.c). So an item that
 *     is PENDING there was decided by the visit itself, or before it came: those it leaves alone.
 *  3. A frame goes back to the embedder when all visits have ended that were under way when nobody
 *     shared it any more: until then their views may name it.
 *
 * There are as many visits as threads, so they are searched one by one. Claims are tried, never
 * waited for: no two visits can wait for each other.
 *
 * Locking: the scanner's lock.
 */
#include "scanner_internal.h"

void pddi_visit_begin(struct pdd_scanner *scanner, struct pdd_visit *visit)
{
	*visit = (struct pdd_visit){
		.number = ++scanner->priv.visit_number,
		.prev = scanner->priv.last_visit,
	};
	if (visit->prev)
		visit->prev->next = visit;
	else
		scanner->priv.visits = visit;
	scanner->priv.last_visit = visit;
}

void pddi_visit_end(struct pdd_scanner *scanner, struct pdd_visit *visit)
{
	if (visit->prev)
		visit->prev->next = visit->next;
	else
		scanner->priv.visits = visit->next;
	if (visit->next)
		visit->next->prev = visit->prev;
	else
		scanner->priv.last_visit = visit->prev;
}

static bool is_at(const struct pdd_claim *claim, const struct pdd_region *region, uint64_t number)
{
	return claim->region == region && claim->number == number;
}

bool pddi_is_claimed(const struct pdd_scanner *scanner, const struct pdd_visit *mine,
		     const struct pdd_region *region, uint64_t page)
{
	uint64_t number = page / PDD_EXTENT_PAGES;

	for (const struct pdd_visit *visit = scanner->priv.visits; visit; visit = visit->next)
		if (visit != mine && (is_at(&visit->at, region, number) ||
				      is_at(&visit->beside, region, number)))
			return true;
	return false;
}

bool pddi_claim(const struct pdd_scanner *scanner, struct pdd_visit *visit, struct pdd_claim *claim,
		const struct pdd_region *region, uint64_t page)
{
	if (pddi_is_claimed(scanner, visit, region, page))
		return false;
	*claim = (struct pdd_claim){ region, page / PDD_EXTENT_PAGES };
	return true;
}

void pddi_unclaim(struct pdd_claim *claim)
{
	*claim = (struct pdd_claim){ 0 };
}

/* ---- frames that go back ---- */

/* The frame's links and its checksum are of no use any more. */
void pddi_frame_free(struct pdd_scanner *scanner, struct pdd_frame *frame)
{
	frame->priv.node.checksum = scanner->priv.visit_number;
	frame->priv.node.u.dup.next = NULL;
	if (scanner->priv.freed)
		scanner->priv.last_freed->priv.node.u.dup.next = frame;
	else
		scanner->priv.freed = frame;
	scanner->priv.last_freed = frame;
}

void pddi_frames_flush(struct pdd_scanner *scanner)
{
	struct pdd_frame *frame;

	while ((frame = scanner->priv.freed) != NULL) {
		if (scanner->priv.visits &&
		    scanner->priv.visits->number <= frame->priv.node.checksum)
			return;
		scanner->priv.freed = frame->priv.node.u.dup.next;
		pddi_unlock(scanner);
		scanner->priv.ops.frame_free(scanner->priv.ctx, frame);
		pddi_lock(scanner);
	}
}
