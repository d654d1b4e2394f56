/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim_verify.c - the proof that all is well between two steps: what pages show, what is open, what
 * the library knows and counts.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scanner_internal.h"

struct pdd_stats sim_stats(const struct sim *sim)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	if (pdd_scanner_stats(&sim->scanner, &stats))
		sim_fail("pdd_scanner_stats failed");
	return stats;
}

struct pdd_counts sim_counts(const struct sim_space *space)
{
	struct pdd_counts counts;

	if (pdd_space_counts(&space->space, &counts))
		sim_fail("pdd_space_counts failed");
	return counts;
}

enum pdd_reason sim_reason(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	if (pdd_region_explain(&region->region, page, &explanation))
		sim_fail("pdd_region_explain failed");
	return explanation.reason;
}

/* What the library knows of a page against what stands there. */
static void verify_item(const struct sim_region *region, uint64_t page)
{
	const struct pdd_item *item = sim_item(region, page);
	const struct sim_page *p = &region->pages[page];
	enum item_state state = item ? item_state(item) : ITEM_NEW;

	if (item && (item_reason(item) == PDD_REASON_NONE) != (state == ITEM_SHARER || state == ITEM_ZERO))
		sim_fail("page %" PRIu64 ": the reason %s does not fit its state %d", page,
			 pdd_reason_name(item_reason(item)), (int)state);
	if (p->kind != PDD_PAGE_SHARED || p->frame->foreign || p->frame->dropped)
		return;
	/* A clone's page is known once it was looked at. */
	if (p->cloned && state != ITEM_SHARER)
		return;
	if (state != ITEM_SHARER || item_frame(item) != &p->frame->frame)
		sim_fail("page %" PRIu64 " shows a frame that it does not share", page);
}

/* What is said not to be written must be what was read (written.c, invariant 1). */
static void verify_tracking(const struct sim_region *region, uint64_t page)
{
	struct sim *sim = region->space->sim;
	const struct pdd_item *item = sim_item(region, page);
	const struct sim_page *p = &region->pages[page];
	struct pdd_checksum checksum;

	if (!sim->options.tracked || !item || item_is_dirty(item) || p->written ||
	    p->kind != PDD_PAGE_PRIVATE ||
	    (item_state(item) != ITEM_SEEN && item_state(item) != ITEM_INDEXED))
		return;
	if (pddi_checksum(&sim->scanner, &checksum, sim_memory(region, page)) ||
	    checksum.value != item->priv.node.checksum || checksum.class_ != item_class(item))
		sim_fail("page %" PRIu64 " was written, and that is not known", page);
}

/* What a page of this content shows. */
static const unsigned char *filled(struct sim *sim, uint64_t content)
{
	unsigned i = content % (sizeof(sim->filled) / sizeof(sim->filled[0]));

	if (sim->filled[i].bytes && sim->filled[i].content == content)
		return sim->filled[i].bytes;
	if (!sim->filled[i].bytes)
		sim->filled[i].bytes = malloc(sim->page_size);
	sim->filled[i].content = content;
	sim_fill(sim, sim->filled[i].bytes, content);
	return sim->filled[i].bytes;
}

static void verify_region(const struct sim_region *region)
{
	struct sim *sim = region->space->sim;

	for (uint64_t i = 0; i < region->npages; i++) {
		const struct sim_page *p = &region->pages[i];
		const void *content = sim_content(region, i);

		if (p->held || p->gets || p->write_waits)
			sim_fail("page %" PRIu64 " is held or got between steps", i);
		if (!content && p->expected != 0)
			sim_fail("page %" PRIu64 " reads zero, its content is lost", i);
		if (content && !(p->frame && p->frame->foreign) &&
		    memcmp(content, filled(sim, p->expected), sim->page_size) != 0)
			sim_fail("page %" PRIu64 " shows a wrong content", i);
		verify_item(region, i);
		verify_tracking(region, i);
	}
}

static void verify_space(const struct sim_space *space)
{
	struct pdd_counts counts = sim_counts(space);
	uint64_t reasons = 0;

	if (space->locked)
		sim_fail("a space is locked between steps");
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
		reasons += counts.reasons[i];
	if (reasons != counts.pages)
		sim_fail("the reasons do not sum up to the pages");
	for (const struct sim_region *region = space->regions; region; region = region->next)
		verify_region(region);
}

static void verify_frame(const struct sim *sim, const struct sim_frame *frame)
{
	uint32_t sharers = pdd_frame_sharers(&frame->frame);
	struct pdd_checksum checksum;

	/* It only changes statistics, and these only if the hook fails. */
	if (pddi_checksum((struct pdd_scanner *)(uintptr_t)&sim->scanner, &checksum, frame->data) ||
	    checksum.value != frame->frame.priv.node.checksum)
		sim_fail("the key of a frame is not that of its content");
	if (sharers == 0 && sim->options.no_clones)
		sim_fail("a frame without sharers was not freed");
	if (sharers > sim->scanner.priv.tunables.max_page_sharing &&
	    !sim_stats(sim).counts.adoptions_over_limit && !sim->limit_lowered)
		sim_fail("a frame has more sharers than the limit");
	if (sharers < frame->maps && sim->options.no_clones)
		sim_fail("a frame is shown by more pages than are known");
}

static void verify_frames(const struct sim *sim)
{
	uint64_t live = 0, dropped = 0, shared;

	shared = sim_stats(sim).pages_shared + sim_stats(sim).frames_kept;

	for (const struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
		if (memcmp(frame->data, frame->copy, sim->page_size) != 0)
			sim_fail("the content of a frame changed");
		dropped += frame->dropped;
		if (frame->foreign || frame->dropped)
			continue;
		verify_frame(sim, frame);
		live++;
	}
	if (shared < live || shared > live + dropped)
		sim_fail("%" PRIu64 " frames live, shared is %" PRIu64, live, shared);
}

/* What was told of is what was counted. Pages that were mapped to a frame while it got lost were told
 * of only. */
static void verify_traced(const struct sim *sim)
{
	struct pdd_stats stats = sim_stats(sim);
	const struct pdd_counts *counts = &stats.counts;

	if (!sim->scanner.priv.ops.trace) /* an older caller's */
		return;
	if ((sim->traced[PDD_EVENT_MERGED] != counts->merges && !stats.stale_frames) ||
	    sim->traced[PDD_EVENT_ZEROED] != counts->zero_merges ||
	    sim->traced[PDD_EVENT_UNSHARED] != counts->unshares)
		sim_fail("%" PRIu64 ", %" PRIu64 " and %" PRIu64 " pages were told of as merged, "
			 "zeroed and unshared, %" PRIu64 ", %" PRIu64 " and %" PRIu64 " counted",
			 sim->traced[PDD_EVENT_MERGED], sim->traced[PDD_EVENT_ZEROED],
			 sim->traced[PDD_EVENT_UNSHARED], counts->merges, counts->zero_merges,
			 counts->unshares);
}

void sim_verify(struct sim *sim)
{
	const char *why = NULL;
	double chance = sim->fail_chance;
	uint64_t at = sim->fail_at;

	sim->fail_chance = 0;
	sim->fail_at = 0;
	sim->verifying = true;
	if (sim->nlocks || sim->ngets || sim->nholds)
		sim_fail("locks, gets or holds are open between steps");
	if (pdd_scanner_check(&sim->scanner, &why))
		sim_fail("%s", why);
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		verify_space(space);
	verify_frames(sim);
	verify_traced(sim);
	sim->verifying = false;
	sim->fail_chance = chance;
	sim->fail_at = at;
}
