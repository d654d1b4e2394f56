/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model.c - what happens in the model: choices, and the operations they lead to.
 */
#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>

#include "scanner_internal.h"

#define SPACES_MAX 4u
#define REGIONS_MAX 3u /* of a space */

uint64_t model_choose(struct sim *sim, uint64_t below)
{
	struct model *model = sim->test;
	uint64_t number = 0;

	if (!model->bytes || (model->writing && model->random_meanwhile))
		return sim_random(sim, below);
	for (uint64_t room = 1; room < below; room *= 256) {
		number = number * 256 + (model->bytes < model->end ? *model->bytes : 0);
		model->bytes += model->bytes < model->end;
	}
	return number % below;
}

static uint64_t choose(struct sim *sim, uint64_t below)
{
	return model_choose(sim, below);
}

void model_say(struct sim *sim, const char *format, ...)
{
	struct model *model = sim->test;
	va_list args;

	if (!model->loud)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	model->said = true;
}

/* What is done to pages of a region. */
static void say_pages(const struct sim_region *region, const char *what, uint64_t first, uint64_t n)
{
	model_say(region->space->sim, "%s %" PRIu64 " pages from %" PRIu64 " of region %" PRIu64 "\n",
		  what, n, first, region->number);
}

uint64_t model_content(uint64_t i)
{
	if (i == 0)
		return 0;
	if (i == 3)
		return i | SIM_TAIL;
	return i < 3 ? i | SIM_FILLED : i;
}

struct sim_space *model_pick_space(struct sim *sim)
{
	uint64_t n = 0;

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	if (n == 0)
		return NULL;
	n = choose(sim, n);
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

struct sim_region *model_pick_region(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);
	uint64_t n = space ? count_regions(space) : 0;

	if (n == 0)
		return NULL;
	n = choose(sim, n);
	for (struct sim_region *region = space->regions;; region = region->next)
		if (n-- == 0)
			return region;
}

static void write_somewhere(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	const struct model *model = sim->test;
	uint64_t content, page;

	if (!region)
		return;
	content = choose(sim, model->ncontents);
	page = choose(sim, region->npages);
	model_say(sim, "%swrite content %" PRIu64 " to page %" PRIu64 " of region %" PRIu64 "\n",
		  model->writing ? "      meanwhile: " : "", content, page, region->number);
	sim_write(region, page, model_content(content));
}

/* Whether another thread writes now. */
static bool is_time_to_write(struct sim *sim)
{
	struct model *model = sim->test;

	if (model->bytes && !model->random_meanwhile)
		return model->write_in && --model->write_in == 0;
	return (double)sim_random(sim, 1u << 20) < model->write_chance * (1u << 20);
}

void model_at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	struct model *model = sim->test;

	if (sim->stepping && !model->writing && is_time_to_write(sim)) {
		model->writing = true;
		write_somewhere(sim);
		model->writing = false;
	}
}

/* ---- operations ---- */

static void run_of_equal_pages(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	struct model *model = sim->test;
	uint64_t first, n, i = choose(sim, model->ncontents);

	if (!region)
		return;
	first = choose(sim, region->npages);
	n = 1 + choose(sim, region->npages - first);
	model_say(sim, "contents from %" PRIu64 " on in turn: ", i);
	say_pages(region, "write", first, n);
	while (n--)
		sim_write(region, first++, model_content(i++ % model->ncontents));
}

static void discard_somewhere(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	uint64_t page;

	if (!region)
		return;
	page = choose(sim, region->npages);
	say_pages(region, "discard, without the library,", page, 1);
	sim_discard(region, page);
	region->pages[page].written = true; /* who discards on his own tells of it (ops.h) */
}

static void refuse_somewhere(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	struct sim_page *page;
	uint64_t number;

	if (!region)
		return;
	number = choose(sim, region->npages);
	page = &region->pages[number];
	page->refuse = choose(sim, 3) ? PDD_REASON_NONE : PDD_REASON_EXCLUDED;
	page->hold_refuse = choose(sim, 3) ? PDD_REASON_NONE : PDD_REASON_PINNED;
	model_say(sim, "pages_get: %s, hold: %s; ", pdd_reason_name(page->refuse),
		  pdd_reason_name(page->hold_refuse));
	say_pages(region, "from now on for", number, 1);
}

static void lock_or_unlock(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);

	if (!space)
		return;
	space->busy = choose(sim, 3) == 0;
	model_say(sim, "%s space %" PRIu64 "\n", space->busy ? "lock" : "unlock", space->number);
}

static void unmerge_somewhere(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	uint64_t first, n;

	if (!region)
		return;
	first = choose(sim, region->npages);
	n = 1 + choose(sim, region->npages - first);
	say_pages(region, "unmerge", first, n);
	sim_unmerge(region, first, n);
}

static void add_region_to(struct sim_space *space)
{
	struct sim *sim = space->sim;
	const struct model *model = sim->test;
	uint64_t most = model->region_pages, npages, capacity;
	bool sparse;

	npages = model->small || choose(sim, 40) ? 1 + choose(sim, most) : 513 + choose(sim, 9);
	sparse = choose(sim, 3) == 0;
	capacity = npages + choose(sim, most);
	model_say(sim, "add region %" PRIu64 " of %" PRIu64 " pages%s, at most %" PRIu64
		  ", to space %" PRIu64 " of domain %" PRIu32 "\n",
		  sim->nregions + 1, npages, sparse ? ", sparse" : "", capacity, space->number,
		  space->domain);
	sim_region_add_with(space, npages, capacity, sparse);
}

void model_add_region(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);

	if (space && count_regions(space) < REGIONS_MAX)
		add_region_to(space);
}

static void remove_region(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);

	if (!region)
		return;
	model_say(sim, "remove region %" PRIu64 "\n", region->number);
	if (choose(sim, 2)) {
		say_pages(region, "      but first unmerge", 0, region->npages);
		sim_unmerge(region, 0, region->npages);
	}
	sim_region_remove(region);
}

static void clone_space(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);

	model_say(sim, "clone space %" PRIu64 ": space %" PRIu64 ", regions from %" PRIu64 " on\n",
		  space->number, sim->nspaces + 1, sim->nregions + 1);
	sim_space_clone(space);
}

static void remove_space(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);

	model_say(sim, "remove space %" PRIu64 "\n", space->number);
	sim_space_remove(space);
}

static void add_or_remove_space(struct sim *sim)
{
	uint64_t n = 0;

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	if (n < SPACES_MAX && n && choose(sim, 3) == 0)
		clone_space(sim);
	else if (n < SPACES_MAX && choose(sim, 3))
		add_region_to(sim_space_add(sim, (uint32_t)choose(sim, MODEL_DOMAINS)));
	else if (n > 1 && choose(sim, 3) == 0)
		remove_space(sim);
}

/* The embedder loses a frame: its content is gone for the library, pages still show it. */
static void lose_frame(struct sim *sim)
{
	const struct model *model = sim->test;

	if (!model->gone_frames || !sim->frames || sim->frames->freed)
		return;
	model_say(sim, "lose the newest frame\n");
	sim->frames->gone = true;
}

/* ---- what an embedder does to ranges ---- */

static struct sim_region *pick_range(struct sim *sim, uint64_t *first, uint64_t *n)
{
	struct sim_region *region = model_pick_region(sim);

	if (!region)
		return NULL;
	*first = choose(sim, region->npages);
	*n = 1 + choose(sim, region->npages - *first);
	if (choose(sim, 2))
		*n = 1;
	return region;
}

/* Whoever keeps the library away finds memory of the pages' own, save where a frame was lost. */
static void assert_own_memory(const struct sim_region *region, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++) {
		const struct sim_page *page = &region->pages[i];

		if (page->kind == PDD_PAGE_ZERO || (page->frame && !page->frame->dropped))
			sim_fail("page %" PRIu64 " is kept out, and has no memory of its own", i);
	}
}

static void keep_out_somewhere(struct sim *sim)
{
	static const char *const names[] = { "pin", "unpin", "exclude", "include" };
	uint64_t first, n, what = choose(sim, 4);
	struct sim_region *region = pick_range(sim, &first, &n);

	if (!region)
		return;
	say_pages(region, names[what], first, n);
	if (what == 1)
		(void)pdd_region_unpin(&region->region, first, n);
	else if (what == 3)
		assert_int_equal(pdd_region_include(&region->region, first, n), 0);
	else if ((what == 0 ? pdd_region_pin : pdd_region_exclude)(&region->region, first, n) == 0)
		assert_own_memory(region, first, n);
}

static void discard_range(struct sim *sim)
{
	uint64_t first, n;
	struct sim_region *region = pick_range(sim, &first, &n);

	if (!region)
		return;
	say_pages(region, "discard", first, n);
	if (pdd_region_discard(&region->region, first, n))
		return;
	for (uint64_t i = first; sim->options.no_discard && i < first + n; i++)
		sim_discard(region, i); /* without the hook that is the caller's part */
}

static void resize_somewhere(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);
	uint64_t npages;

	if (!region)
		return;
	npages = 1 + choose(sim, region->capacity);
	model_say(sim, "resize region %" PRIu64 " to %" PRIu64 " pages\n", region->number, npages);
	sim_region_resize(region, npages);
}

static void migrate_somewhere(struct sim *sim)
{
	uint64_t first, n;
	struct sim_region *region = pick_range(sim, &first, &n);
	uint16_t node = (uint16_t)choose(sim, MODEL_NODES);
	struct sim_frame *frame;

	if (!region)
		return;
	model_say(sim, "to node %u: ", node);
	say_pages(region, "migrate", first, 1);
	sim_migrate(region, first, node);
	frame = region->pages[first].frame;
	if (frame && !frame->foreign && !frame->dropped && choose(sim, 2))
		assert_int_equal(pdd_frame_moved(&sim->scanner, &frame->frame, node), 0);
}

static void unmerge_much(struct sim *sim)
{
	struct sim_space *space = model_pick_space(sim);
	uint64_t budget = 1 + choose(sim, 30);

	if (space && choose(sim, 2)) {
		model_say(sim, "unmerge %" PRIu64 " pages of space %" PRIu64 "\n", budget,
			  space->number);
		(void)pdd_space_unmerge(&space->space, budget);
	} else {
		model_say(sim, "unmerge %" PRIu64 " pages\n", budget);
		(void)pdd_scanner_unmerge(&sim->scanner, budget);
	}
}

static void retune(struct sim *sim)
{
	struct pdd_tunables t = { .size = sizeof(t) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	switch (choose(sim, 6)) {
	case 0:
		t.max_page_sharing = 2 + (uint32_t)choose(sim, 6);
		sim->limit_lowered = true;
		break;
	case 1: t.use_zero_pages = (uint32_t)choose(sim, 2); break;
	case 2: t.aging = (uint32_t)choose(sim, PDD_AGING_EPOCH + 1); break;
	case 3: t.max_period_passes = (1u << choose(sim, 8)) / 2; break;
	case 4: t.merge_across_nodes = (uint32_t)choose(sim, 2); break;
	case 5: t.index = (uint32_t)choose(sim, PDD_INDEX_REBUILT + 1); break;
	}
	model_say(sim, "set limit %" PRIu32 ", use_zero_pages %" PRIu32 ", aging %" PRIu32
		  ", max_period %" PRIu32 ", merge_across_nodes %" PRIu32 ", index %" PRIu32 "\n",
		  t.max_page_sharing, t.use_zero_pages, t.aging, t.max_period_passes,
		  t.merge_across_nodes, t.index);
	if (pdd_scanner_set_tunables(&sim->scanner, &t) == 0)
		sim->options.nodes_apart = !t.merge_across_nodes;
}

static void prune(struct sim *sim)
{
	model_say(sim, "prune\n");
	(void)pdd_scanner_prune(&sim->scanner);
}

static void step(struct sim *sim, uint64_t pages)
{
	if (pages == UINT64_MAX)
		model_say(sim, "step over all pages\n");
	else
		model_say(sim, "step over %" PRIu64 " pages\n", pages);
	sim_step(sim, pages);
}

static void manage(struct sim *sim)
{
	switch (choose(sim, 9)) {
	case 0:
	case 1: keep_out_somewhere(sim); break;
	case 2: discard_range(sim); break;
	case 3: resize_somewhere(sim); break;
	case 4:
	case 5: migrate_somewhere(sim); break;
	case 6: unmerge_much(sim); break;
	case 7: retune(sim); break;
	case 8: prune(sim); break;
	}
}

void model_operate(struct sim *sim, uint64_t dice)
{
	struct model *model = sim->test;

	model->said = false;
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
		model_add_region(sim);
	else if (dice < 62)
		remove_region(sim);
	else if (dice < 64)
		add_or_remove_space(sim);
	else if (dice < 66)
		lose_frame(sim);
	else if (dice < 74)
		manage(sim);
	else
		step(sim, dice < 92 ? 1 + choose(sim, 20) : UINT64_MAX);
	if (!model->said)
		model_say(sim, "nothing: there is nothing to do it to\n");
	if (dice < 74) /* a step does it by itself */
		sim_verify(sim);
}
