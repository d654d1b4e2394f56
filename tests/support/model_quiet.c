/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model_quiet.c - the quiet phase: everything that can be shared must become so.
 */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>

#include "scanner_internal.h"

/* Nothing is pinned or excluded any more. */
static void let_all_in(struct sim *sim)
{
	for (struct sim_space *space = sim->spaces; space; space = space->next) {
		for (struct sim_region *r = space->regions; r; r = r->next) {
			assert_int_equal(pdd_region_include(&r->region, 0, r->npages), 0);
			for (uint64_t i = 0; i < r->npages; i++)
				while (pdd_region_unpin(&r->region, i, 1) == 0)
					;
		}
	}
}

/* No failure, no lock, no writer any more; pages that show lost frames get their own memory. */
static void calm(struct sim *sim)
{
	sim->fail_chance = 0;
	sim->partial = false;
	sim->at = NULL;
	let_all_in(sim);
	for (struct sim_frame *frame = sim->frames; frame; frame = frame->next)
		frame->dropped |= frame->gone;
	for (struct sim_space *space = sim->spaces; space; space = space->next) {
		space->busy = false;
		for (struct sim_region *region = space->regions; region; region = region->next) {
			for (uint64_t i = 0; i < region->npages; i++) {
				struct sim_page *page = &region->pages[i];

				page->refuse = page->hold_refuse = PDD_REASON_NONE;
				if (page->frame && page->frame->dropped)
					sim_write(region, i, page->expected);
			}
		}
	}
}

/* In the index, or only out of it because its checksum collides with others' (search.c). */
static bool is_alone(const struct pdd_item *item)
{
	if (!item)
		return false;
	return item_state(item) == ITEM_INDEXED ||
	       (item_state(item) == ITEM_SEEN && (item_reason(item) == PDD_REASON_UNIQUE ||
						  pddi_reason_stays(item_reason(item))));
}

/* The node of a page that counts. */
static uint64_t node_of(const struct sim *sim, const struct sim_page *page)
{
	if (!sim->options.nodes_apart)
		return 0;
	return page->frame ? page->frame->node : page->node;
}

/* What pages may share. */
struct part {
	uint32_t domain;
	uint64_t node, content;
};

/* Pages of this content and domain: how many there are, share a frame, are alone. */
struct tally {
	uint64_t pages, sharing, unique;
};

static struct tally count(const struct sim *sim, const struct part *part)
{
	struct tally tally = { 0 };

	for (const struct sim_space *space = sim->spaces; space; space = space->next) {
		if (space->domain != part->domain)
			continue;
		for (const struct sim_region *r = space->regions; r; r = r->next) {
			for (uint64_t i = 0; i < r->npages; i++) {
				const struct sim_page *page = &r->pages[i];

				if (page->expected != part->content ||
				    node_of(sim, page) != part->node || page->kind == PDD_PAGE_ABSENT ||
				    page->kind == PDD_PAGE_ZERO)
					continue;
				tally.pages++;
				tally.sharing += page->kind == PDD_PAGE_SHARED;
				tally.unique += is_alone(sim_item(r, i));
			}
		}
	}
	return tally;
}

/* Frames that pages of this content and domain show, and the places that are free in them. */
static uint64_t frames_of(const struct sim *sim, const struct part *part, uint64_t *free)
{
	unsigned char page[4096] __attribute__((aligned(64)));
	uint64_t n = 0;

	*free = 0;
	sim_fill(sim, page, part->content);
	for (const struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
		uint64_t limit = sim->scanner.priv.tunables.max_page_sharing;
		bool equal = frame->domain == part->domain && !frame->dropped &&
			     (!sim->options.nodes_apart || frame->node == part->node);

		for (size_t i = 0; equal && i < sim->page_size; i++)
			equal = frame->data[i] == page[i];
		n += equal;
		*free += equal && frame->maps < limit ? limit - frame->maps : 0;
	}
	return n;
}

/* What is known of a page, for the reader of a failure. */
static void show_page(const struct sim_region *region, uint64_t page)
{
	const struct pdd_item *item = sim_item(region, page);

	print_error("page %" PRIu64 ": kind %d, state %d, age %u, %s%s\n", page,
		    (int)region->pages[page].kind, (int)item_state(item), item_age(item),
		    pdd_reason_name(item_reason(item)), item_is_due(item) ? ", due" : "");
}

static void show(const struct sim *sim, const struct part *part)
{
	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = 0; i < r->npages; i++)
				if (space->domain == part->domain &&
				    r->pages[i].expected == part->content &&
				    r->pages[i].kind != PDD_PAGE_ABSENT)
					show_page(r, i);
}

/* Everything that can be shared is; exactly so: in as few frames as possible. */
static void assert_shared(const struct sim *sim, const struct part *part, bool exactly)
{
	const struct pdd_tunables *tunables = &sim->scanner.priv.tunables;
	bool keeps_zero = sim->options.no_zero_map || !tunables->use_zero_pages;
	bool collide = sim->options.checksum != SIM_CHECKSUM_DEFAULT;
	uint64_t limit = tunables->max_page_sharing, free, frames;
	struct tally tally = count(sim, part);

	frames = frames_of(sim, part, &free);
	/* Those that were merged before zero pages were replaced stay so. Under forced collisions
	 * one that became zero unnoticed may have founded a frame. */
	if (part->content == 0 && !keeps_zero && tally.pages != tally.sharing) {
		show(sim, part);
		sim_fail("%" PRIu64 " zero pages are not replaced", tally.pages);
	}
	if (tally.sharing != tally.pages &&
	    (tally.sharing + 1 != tally.pages || free || tally.unique != 1)) {
		show(sim, part);
		sim_fail("domain %u, node %" PRIu64 ", content %" PRIu64 ": %" PRIu64 " of %" PRIu64
			 " pages share, %" PRIu64 " unique, %" PRIu64 " places are free",
			 part->domain, part->node, part->content, tally.sharing, tally.pages,
			 tally.unique, free);
	}
	/* Then pages of one content may be spread over more frames than needed, too. */
	if (exactly && !collide && frames != tally.pages / limit + (tally.pages % limit >= 2))
		sim_fail("%" PRIu64 " frames for %" PRIu64 " pages", frames, tally.pages);
}

static void assert_all_shared(const struct sim *sim, bool exactly)
{
	const struct model *model = sim->test;
	struct part part;

	for (part.domain = 0; part.domain < MODEL_DOMAINS; part.domain++)
		for (part.node = 0; part.node < (sim->options.nodes_apart ? MODEL_NODES : 1); part.node++)
			for (uint64_t i = 0; i < model->ncontents; i++) {
				part.content = model_content(i);
				assert_shared(sim, &part, exactly);
			}
}

/* The last of the passes may be that in which collisions were forgotten, and are met again: whom that
 * made due settles in the next ones. */
static void quiet_passes(struct sim *sim, unsigned passes)
{
	sim_passes(sim, passes);
	(void)sim_settle(sim, 4);
}

void model_quiet_phase(struct sim *sim)
{
	struct pdd_tunables t = { .size = sizeof(t) };
	unsigned passes;

	if (!sim->spaces)
		return;
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	/* With this policy some equal pages never meet, as in KSM, where those that are skipped
	 * leave the index. */
	if (t.aging == PDD_AGING_COUNTDOWN)
		t.aging = PDD_AGING_EPOCH;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
	/* every page is looked at twice, and once more after what that brought about */
	passes = 3 * (pddi_max_period(&sim->scanner) + 1) + 8;
	calm(sim);
	model_add_region(sim);
	quiet_passes(sim, passes);
	assert_all_shared(sim, false);
	while (pdd_scanner_unmerge(&sim->scanner, 1 + model_choose(sim, 50)) > 0)
		sim_verify(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_rmap_items, 0);
	quiet_passes(sim, passes);
	assert_all_shared(sim, true);
}
