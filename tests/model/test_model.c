/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_model.c - random operations on simulated memory, whatever fails and whoever writes
 * meanwhile.
 *
 * The model is the expected content of each page, which no operation of the library may change.
 * After every operation sim_verify() compares all of it and walks all structures. At the end, in a
 * quiet phase without failures, everything that can be shared must become so: of each content and
 * domain what KSM's formula says.
 *
 * PDD_SEED gives the first seed, PDD_ROUNDS the number of rounds, a seed each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scanner_internal.h"
#include "sim.h"

#define ROUNDS 400u
#define OPERATIONS 400u
#define CONTENTS 8u
#define DOMAINS 2u
#define SPACES_MAX 4u
#define REGIONS_MAX 3u /* of a space */
#define NODES 3u

struct model {
	double write_chance; /* at each hook */
	uint64_t ncontents;
	bool writing;
	bool gone_frames;
};

/* The contents: zero, same-filled ones, others. */
static uint64_t content(uint64_t i)
{
	if (i == 0)
		return 0;
	return i < 3 ? i | SIM_FILLED : i;
}

static struct sim_space *pick_space(struct sim *sim)
{
	uint64_t n = 0;

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	if (n == 0)
		return NULL;
	n = sim_random(sim, n);
	for (struct sim_space *space = sim->spaces;; space = space->next)
		if (n-- == 0)
			return space;
}

static uint64_t count_regions(const struct sim_space *space)
{
	uint64_t n = 0;

	for (const struct sim_region *region = space->regions; region; region = region->next)
		n++;
	return n;
}

static struct sim_region *pick_region(struct sim *sim)
{
	struct sim_space *space = pick_space(sim);
	uint64_t n = space ? count_regions(space) : 0;

	if (n == 0)
		return NULL;
	n = sim_random(sim, n);
	for (struct sim_region *region = space->regions;; region = region->next)
		if (n-- == 0)
			return region;
}

static void write_somewhere(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	struct model *model = sim->test;

	if (region)
		sim_write(region, sim_random(sim, region->npages),
			  content(sim_random(sim, model->ncontents)));
}

/* Another thread writes between two hooks, or while one is about to act. */
static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	struct model *model = sim->test;

	if (sim->stepping && !model->writing &&
	    (double)sim_random(sim, 1u << 20) < model->write_chance * (1u << 20)) {
		model->writing = true;
		write_somewhere(sim);
		model->writing = false;
	}
}

/* ---- operations ---- */

static void run_of_equal_pages(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	struct model *model = sim->test;
	uint64_t first, n, i = sim_random(sim, model->ncontents);

	if (!region)
		return;
	first = sim_random(sim, region->npages);
	n = 1 + sim_random(sim, region->npages - first);
	while (n--)
		sim_write(region, first++, content(i++ % model->ncontents));
}

static void discard_somewhere(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	uint64_t page;

	if (!region)
		return;
	page = sim_random(sim, region->npages);
	sim_discard(region, page);
	region->pages[page].written = true; /* who discards on his own tells of it (ops.h) */
}

static void refuse_somewhere(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	struct sim_page *page;

	if (!region)
		return;
	page = &region->pages[sim_random(sim, region->npages)];
	page->refuse = sim_random(sim, 3) ? PDD_REASON_NONE : PDD_REASON_EXCLUDED;
	page->hold_refuse = sim_random(sim, 3) ? PDD_REASON_NONE : PDD_REASON_PINNED;
}

static void lock_or_unlock(struct sim *sim)
{
	struct sim_space *space = pick_space(sim);

	if (space)
		space->busy = sim_random(sim, 3) == 0;
}

static void unmerge_somewhere(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	uint64_t first;

	if (!region)
		return;
	first = sim_random(sim, region->npages);
	sim_unmerge(region, first, 1 + sim_random(sim, region->npages - first));
}

static void add_region_to(struct sim_space *space)
{
	struct sim *sim = space->sim;
	uint64_t npages = sim_random(sim, 40) ? 1 + sim_random(sim, 40) : 513 + sim_random(sim, 9);

	sim_region_add_with(space, npages, npages + sim_random(sim, 40), sim_random(sim, 3) == 0);
}

static void add_region(struct sim *sim)
{
	struct sim_space *space = pick_space(sim);

	if (space && count_regions(space) < REGIONS_MAX)
		add_region_to(space);
}

static void remove_region(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);

	if (region && sim_random(sim, 2))
		sim_unmerge(region, 0, region->npages);
	if (region)
		sim_region_remove(region);
}

static void add_or_remove_space(struct sim *sim)
{
	uint64_t n = 0;

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	if (n < SPACES_MAX && n && sim_random(sim, 3) == 0)
		sim_space_clone(pick_space(sim));
	else if (n < SPACES_MAX && sim_random(sim, 3))
		add_region_to(sim_space_add(sim, (uint32_t)sim_random(sim, DOMAINS)));
	else if (n > 1 && sim_random(sim, 3) == 0)
		sim_space_remove(pick_space(sim));
}

/* The embedder loses a frame: its content is gone for the library, pages still show it. */
static void lose_frame(struct sim *sim)
{
	const struct model *model = sim->test;

	if (model->gone_frames && sim->frames && !sim->frames->freed)
		sim->frames->gone = true;
}

/* ---- what an embedder does to ranges ---- */

static struct sim_region *pick_range(struct sim *sim, uint64_t *first, uint64_t *n)
{
	struct sim_region *region = pick_region(sim);

	if (!region)
		return NULL;
	*first = sim_random(sim, region->npages);
	*n = 1 + sim_random(sim, region->npages - *first);
	if (sim_random(sim, 2))
		*n = 1;
	return region;
}

static void keep_out_somewhere(struct sim *sim)
{
	uint64_t first, n, what = sim_random(sim, 4);
	struct sim_region *region = pick_range(sim, &first, &n);

	if (!region)
		return;
	if (what == 0)
		(void)pdd_region_pin(&region->region, first, n);
	else if (what == 1)
		(void)pdd_region_unpin(&region->region, first, n);
	else if (what == 2)
		(void)pdd_region_exclude(&region->region, first, n);
	else
		assert_int_equal(pdd_region_include(&region->region, first, n), 0);
}

static void discard_range(struct sim *sim)
{
	uint64_t first, n;
	struct sim_region *region = pick_range(sim, &first, &n);

	if (!region || pdd_region_discard(&region->region, first, n))
		return;
	for (uint64_t i = first; sim->options.no_discard && i < first + n; i++)
		sim_discard(region, i); /* without the hook that is the caller's part */
}

static void resize_somewhere(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);

	if (region)
		sim_region_resize(region, 1 + sim_random(sim, region->capacity));
}

static void migrate_somewhere(struct sim *sim)
{
	uint64_t first, n;
	struct sim_region *region = pick_range(sim, &first, &n);
	uint16_t node = (uint16_t)sim_random(sim, NODES);
	struct sim_frame *frame;

	if (!region)
		return;
	sim_migrate(region, first, node);
	frame = region->pages[first].frame;
	if (frame && !frame->foreign && !frame->dropped && sim_random(sim, 2))
		assert_int_equal(pdd_frame_moved(&sim->scanner, &frame->frame, node), 0);
}

static void unmerge_much(struct sim *sim)
{
	struct sim_space *space = pick_space(sim);
	uint64_t budget = 1 + sim_random(sim, 30);

	if (space && sim_random(sim, 2))
		(void)pdd_space_unmerge(&space->space, budget);
	else
		(void)pdd_scanner_unmerge(&sim->scanner, budget);
}

static void retune(struct sim *sim)
{
	struct pdd_tunables t = { .size = sizeof(t) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	switch (sim_random(sim, 6)) {
	case 0:
		t.max_page_sharing = 2 + (uint32_t)sim_random(sim, 6);
		sim->limit_lowered = true;
		break;
	case 1: t.use_zero_pages = (uint32_t)sim_random(sim, 2); break;
	case 2: t.aging = (uint32_t)sim_random(sim, PDD_AGING_EPOCH + 1); break;
	case 3: t.max_period_passes = (1u << sim_random(sim, 8)) / 2; break;
	case 4: t.merge_across_nodes = (uint32_t)sim_random(sim, 2); break;
	case 5: t.index = (uint32_t)sim_random(sim, PDD_INDEX_REBUILT + 1); break;
	}
	if (pdd_scanner_set_tunables(&sim->scanner, &t) == 0)
		sim->options.nodes_apart = !t.merge_across_nodes;
}

static void manage(struct sim *sim)
{
	switch (sim_random(sim, 9)) {
	case 0:
	case 1: keep_out_somewhere(sim); break;
	case 2: discard_range(sim); break;
	case 3: resize_somewhere(sim); break;
	case 4:
	case 5: migrate_somewhere(sim); break;
	case 6: unmerge_much(sim); break;
	case 7: retune(sim); break;
	case 8: (void)pdd_scanner_prune(&sim->scanner); break;
	}
}

static void operate(struct sim *sim)
{
	uint64_t dice = sim_random(sim, 100);

	if (dice < 40)
		write_somewhere(sim);
	else if (dice < 45)
		run_of_equal_pages(sim);
	else if (dice < 48)
		discard_somewhere(sim);
	else if (dice < 52)
		refuse_somewhere(sim);
	else if (dice < 56)
		lock_or_unlock(sim);
	else if (dice < 59)
		unmerge_somewhere(sim);
	else if (dice < 61)
		add_region(sim);
	else if (dice < 62)
		remove_region(sim);
	else if (dice < 64)
		add_or_remove_space(sim);
	else if (dice < 66)
		lose_frame(sim);
	else if (dice < 74)
		manage(sim);
	else if (dice < 92)
		sim_step(sim, 1 + sim_random(sim, 20));
	else
		sim_step(sim, UINT64_MAX);
	sim_verify(sim);
}

/* ---- the quiet phase ---- */

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

	for (part.domain = 0; part.domain < DOMAINS; part.domain++)
		for (part.node = 0; part.node < (sim->options.nodes_apart ? NODES : 1); part.node++)
			for (uint64_t i = 0; i < model->ncontents; i++) {
				part.content = content(i);
				assert_shared(sim, &part, exactly);
			}
}

static void quiet_phase(struct sim *sim)
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
	add_region(sim);
	sim_passes(sim, passes);
	assert_all_shared(sim, false);
	while (pdd_scanner_unmerge(&sim->scanner, 1 + sim_random(sim, 50)) > 0)
		sim_verify(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_rmap_items, 0);
	sim_passes(sim, passes);
	assert_all_shared(sim, true);
}

/* ---- rounds ---- */

static struct sim_options random_options(uint64_t seed)
{
	static const uint32_t shifts[] = { 3, 4, 6, 9, 12 };
	uint64_t state = seed;

	return (struct sim_options){
		.page_shift = shifts[sim_random_of(&state) % 5],
		.keep_zero_pages = sim_random_of(&state) % 4 == 0,
		.one_look = sim_random_of(&state) % 4 == 0,
		.limit = 2 + (uint32_t)(sim_random_of(&state) % 5),
		.nroots = 16 + sim_random_of(&state) % 64,
		.first_nroots = sim_random_of(&state) % 16, /* most grow */
		.aging = (enum pdd_aging)(sim_random_of(&state) % (PDD_AGING_EPOCH + 1)),
		.max_period = (UINT32_C(1) << sim_random_of(&state) % 8) / 2,
		.index = sim_random_of(&state) % 4 == 0 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
		.tracked = sim_random_of(&state) % 2,
		.checksum = seed % 2 ? SIM_CHECKSUM_DEFAULT
				     : SIM_CHECKSUM_ZERO + sim_random_of(&state) % 2,
		.no_zero_map = sim_random_of(&state) % 4 == 0,
		.nodes_apart = sim_random_of(&state) % 3 == 0,
		.no_refile = sim_random_of(&state) % 4 == 0,
		.no_discard = sim_random_of(&state) % 4 == 0,
	};
}

static void one_round(uint64_t seed, unsigned operations)
{
	static const double chances[] = { 0, 0.01, 0.2 };
	struct sim_options options = random_options(seed);
	struct sim *sim = sim_create(&options);
	struct model model = { 0 };

	sim->random = seed;
	sim->test = &model;
	sim->at = at_hook;
	sim->fail_chance = chances[sim_random(sim, 3)];
	sim->partial = sim_random(sim, 2);
	sim->max_views = sim_random(sim, 2) ? 0 : 1 + sim_random(sim, 3);
	sim->single_views = sim_random(sim, 4) == 0;
	model.write_chance = sim_random(sim, 2) ? 0 : 0.05;
	model.gone_frames = sim_random(sim, 4) == 0;
	model.ncontents = 2 + sim_random(sim, CONTENTS - 1);
	if (options.checksum)
		sim->fail_mask |= UINT64_C(1) << SIM_CHECKSUM;
	if (model.gone_frames && sim_random(sim, 2))
		sim->fail_mask |= UINT64_C(1) << SIM_FRAME_CONTENT;
	while (operations--)
		operate(sim);
	quiet_phase(sim);
	sim_destroy(sim);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

static void test_rounds(void **unused)
{
	uint64_t seed = sim_seed(), rounds = from_environment("PDD_ROUNDS", ROUNDS);
	bool loud = getenv("PDD_LOUD");

	for (uint64_t i = 0; i < rounds; i++) {
		if (loud)
			fprintf(stderr, "seed %" PRIu64 "\n", seed + i);
		sim_seed_set(seed + i);
		one_round(seed + i, OPERATIONS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
