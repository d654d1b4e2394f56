/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.c - the simulated world: spaces, memory, writes, steps.
 */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scanner_internal.h"

void sim_fail_at(const char *file, int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_error("simulation (PDD_SEED=%" PRIu64 "): ", sim_seed());
	vprint_error(format, args);
	print_error("\n");
	va_end(args);
	_fail(file, line);
	abort(); /* not reached */
}

static uint64_t seed;
static bool known;

void sim_seed_set(uint64_t value)
{
	seed = value;
	known = true;
}

uint64_t sim_seed(void)
{
	if (!known) {
		const char *given = getenv("PDD_SEED");

		seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
		known = true;
		printf("PDD_SEED=%" PRIu64 "\n", seed);
	}
	return seed;
}

uint64_t sim_random_of(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t sim_random(struct sim *sim, uint64_t below)
{
	return sim_random_of(&sim->random) % below;
}

static void *allocate(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size);

	if (!memory)
		abort();
	return memory;
}

/* ---- the world ---- */

static void start_scanner(struct sim *sim)
{
	const struct sim_options *options = &sim->options;
	struct pdd_ops ops = sim_ops;
	unsigned char secret[PDD_SECRET_LEN_MAX];
	struct pdd_tunables tunables;
	int err;

	pdd_tunables_init(&tunables);
	if (options->limit)
		tunables.max_page_sharing = options->limit;
	if (options->max_period)
		tunables.max_period_passes = options->max_period;
	tunables.aging = options->aging;
	tunables.index = options->index;
	tunables.use_zero_pages = !options->keep_zero_pages;
	tunables.one_look = options->one_look;
	tunables.merge_across_nodes = !options->nodes_apart;
	tunables.chain_prune_ms = options->prune_ms;

	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)sim_random(sim, 256);
	if (options->no_zero_map)
		ops.zero_map = NULL;
	if (options->no_refile)
		ops.frames_remap = NULL;
	if (options->no_clones)
		ops.frame_is_mapped = NULL;
	if (options->no_discard)
		ops.pages_discard = NULL;
	if (!options->tracked)
		ops.pages_written = NULL;
	if (options->checksum == SIM_CHECKSUM_DEFAULT)
		ops.checksum = NULL;
	err = pdd_scanner_init(&sim->scanner, &ops, sim,
			       &(struct pdd_scanner_options){
				       .size = sizeof(struct pdd_scanner_options),
				       .page_shift = options->page_shift,
				       .roots = sim->roots,
				       .nroots = options->nroots,
				       .secret = secret,
				       .secret_len = sizeof(secret),
				       .tunables = &tunables,
				       .first_nroots = options->first_nroots,
			       });
	if (err)
		sim_fail("pdd_scanner_init: %d", err);
}

struct sim *sim_create(const struct sim_options *options)
{
	struct sim *sim = allocate(1, sizeof(*sim));

	if (options)
		sim->options = *options;
	if (!sim->options.page_shift)
		sim->options.page_shift = 6;
	if (!sim->options.nroots)
		sim->options.nroots = 64;
	sim->page_size = (size_t)1 << sim->options.page_shift;
	sim->random = sim_seed();
	sim->fail_mask = UINT64_C(1) << SIM_TRYLOCK | UINT64_C(1) << SIM_PAGES_GET |
			 UINT64_C(1) << SIM_HOLD | UINT64_C(1) << SIM_FRAMES_CREATE |
			 UINT64_C(1) << SIM_FRAMES_MAP | UINT64_C(1) << SIM_FRAMES_UNMAP |
			 UINT64_C(1) << SIM_ZERO_MAP | UINT64_C(1) << SIM_FRAMES_REMAP |
			 UINT64_C(1) << SIM_PAGES_DISCARD | UINT64_C(1) << SIM_EXTENT_GET |
			 UINT64_C(1) << SIM_PAGES_WRITTEN;
	sim->worker = allocate(1, sizeof(*sim->worker));
	sim->roots = allocate(sim->options.nroots, sizeof(*sim->roots));
	start_scanner(sim);
	return sim;
}

struct sim_space *sim_space_add(struct sim *sim, uint32_t domain)
{
	struct sim_space *space = allocate(1, sizeof(*space));

	space->sim = sim;
	space->number = ++sim->nspaces;
	space->domain = domain;
	space->next = sim->spaces;
	sim->spaces = space;
	if (pdd_space_add(&sim->scanner, &space->space, domain))
		sim_fail("pdd_space_add failed");
	return space;
}

struct sim_region *sim_region_add(struct sim_space *space, uint64_t npages)
{
	return sim_region_add_with(space, npages, npages, false);
}

struct sim_region *sim_region_add_with(struct sim_space *space, uint64_t npages, uint64_t capacity,
				       bool sparse)
{
	struct sim_region *region = allocate(1, sizeof(*region));

	region->space = space;
	region->number = ++space->sim->nregions;
	region->npages = npages;
	region->capacity = capacity;
	region->pages = allocate(capacity, sizeof(*region->pages));
	region->memory = allocate(capacity, space->sim->page_size);
	if (!sparse) {
		region->extents = allocate(pdd_region_extents(capacity), sizeof(*region->extents));
		region->items = allocate(capacity, sizeof(*region->items));
	}
	region->next = space->regions;
	space->regions = region;
	if (pdd_region_add(&space->space, &region->region, 0, npages, region->extents,
			   region->items))
		sim_fail("pdd_region_add failed");
	return region;
}

void sim_region_resize(struct sim_region *region, uint64_t npages)
{
	for (uint64_t i = npages; i < region->npages; i++)
		sim_discard(region, i);
	if (npages > region->capacity || pdd_region_resize(&region->region, npages))
		sim_fail("pdd_region_resize failed");
	region->npages = npages;
}

const struct pdd_item *sim_item(const struct sim_region *region, uint64_t page)
{
	const struct pdd_extent *extent =
		pddi_extent_find(&region->region, page / PDD_EXTENT_PAGES);

	return extent ? pddi_extent_item(extent, page) : NULL;
}

/* What a page of a clone shows. */
static void clone_page(struct sim_region *clone, const struct sim_region *region, uint64_t page)
{
	const struct sim_page *from = &region->pages[page];
	struct sim_page *to = &clone->pages[page];

	*to = *from;
	to->cloned = true;
	if (from->kind == PDD_PAGE_SHARED)
		to->frame->maps++;
	else if (from->kind == PDD_PAGE_PRIVATE)
		memcpy(sim_memory(clone, page), sim_memory(region, page),
		       region->space->sim->page_size);
}

struct sim_space *sim_space_clone(struct sim_space *space)
{
	struct sim_space *clone = sim_space_add(space->sim, space->domain);

	for (struct sim_region *region = space->regions; region; region = region->next) {
		struct sim_region *copy = sim_region_add_with(clone, region->npages,
							      region->capacity, !region->extents);
		struct pdd_object *object = region->region.priv.object;

		for (uint64_t i = 0; i < region->npages; i++)
			clone_page(copy, region, i);
		if (object && pdd_region_attach(&copy->region, object,
						pdd_interval_first(&region->region.priv.interval)))
			sim_fail("pdd_region_attach failed");
	}
	return clone;
}

void sim_region_remove(struct sim_region *region)
{
	struct sim_region **link = &region->space->regions;

	for (uint64_t i = 0; i < region->npages; i++)
		sim_discard(region, i);
	if (pdd_region_remove(&region->region))
		sim_fail("pdd_region_remove failed");
	if (region->nblocks)
		sim_fail("%" PRIu64 " extents did not come back", region->nblocks);
	while (*link != region)
		link = &(*link)->next;
	*link = region->next;
	free(region->pages);
	free(region->memory);
	free(region->extents);
	free(region->items);
	free(region);
}

void sim_space_remove(struct sim_space *space)
{
	struct sim_space **link = &space->sim->spaces;

	while (space->regions)
		sim_region_remove(space->regions);
	if (pdd_space_remove(&space->space))
		sim_fail("pdd_space_remove failed");
	while (*link != space)
		link = &(*link)->next;
	*link = space->next;
	free(space);
}

void sim_destroy(struct sim *sim)
{
	struct pdd_stats stats;

	sim->fail_at = 0;
	sim->fail_chance = 0;
	while (sim->spaces)
		sim_space_remove(sim->spaces);
	sim_prune(sim); /* what was kept for clones that are gone */
	sim_verify(sim);
	stats = sim_stats(sim);
	if (stats.counts.pages || stats.counts.ksm_rmap_items || stats.counts.ksm_merging_pages ||
	    stats.counts.ksm_zero_pages || stats.counts.pages_unshared ||
	    stats.counts.pages_volatile || stats.counts.pages_due || stats.pages_shared ||
	    stats.pages_sharing || stats.stable_node_chains || stats.stable_node_dups ||
	    stats.counts.pages_zero_filled || stats.counts.pages_same_filled ||
	    stats.frames_kept || stats.general_profit_bytes || stats.bytes_if_all_unshared ||
	    stats.counts.ksm_process_profit_bytes)
		sim_fail("a gauge is not 0 after everything went away");
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
		if (stats.counts.reasons[i])
			sim_fail("%" PRIu64 " pages are %s after everything went away",
				 stats.counts.reasons[i], pdd_reason_name(i));
	while (sim->frames) {
		if (!sim->frames->foreign)
			sim_fail("a frame leaked");
		sim_frame_destroy(sim, sim->frames);
	}
	while (sim->past_frames) {
		struct sim_frame *frame = sim->past_frames;

		sim->past_frames = frame->next;
		free(frame);
	}
	for (size_t i = 0; i < sizeof(sim->filled) / sizeof(sim->filled[0]); i++)
		free(sim->filled[i].bytes);
	free(sim->roots);
	free(sim->worker);
	free(sim);
}

/* ---- memory ---- */

void sim_fill(const struct sim *sim, void *page, uint64_t content)
{
	uint64_t *words = page, state = content;
	size_t nwords = sim->page_size / sizeof(*words);

	for (size_t i = 0; i < nwords; i++) {
		if (content & SIM_TAIL)
			words[i] = i == nwords - 1 ? content : 0;
		else if (content & SIM_FILLED || content == 0 || nwords == 1)
			words[i] = content;
		else
			words[i] = sim_random_of(&state);
	}
}

unsigned char *sim_memory(const struct sim_region *region, uint64_t page)
{
	return region->memory + page * region->space->sim->page_size;
}

/* What a program reads there; NULL for zeros. */
const void *sim_content(const struct sim_region *region, uint64_t page)
{
	const struct sim_page *p = &region->pages[page];

	if (p->held)
		return p->held;
	if (p->kind == PDD_PAGE_SHARED)
		return p->frame->data;
	return p->kind == PDD_PAGE_PRIVATE ? sim_memory(region, page) : NULL;
}

struct sim_frame *sim_frame_create(struct sim *sim, const void *content, uint32_t domain)
{
	struct sim_frame *frame = allocate(1, sizeof(*frame));

	frame->data = allocate(1, sim->page_size);
	frame->copy = allocate(1, sim->page_size);
	memcpy(frame->data, content, sim->page_size);
	memcpy(frame->copy, content, sim->page_size);
	frame->domain = domain;
	frame->next = sim->frames;
	if (frame->next)
		frame->next->prev = frame;
	sim->frames = frame;
	return frame;
}

struct sim_frame *sim_foreign_frame(struct sim *sim, uint64_t content)
{
	unsigned char *page = allocate(1, sim->page_size);
	struct sim_frame *frame;

	sim_fill(sim, page, content);
	frame = sim_frame_create(sim, page, 0);
	frame->foreign = true;
	free(page);
	return frame;
}

void sim_frame_destroy(struct sim *sim, struct sim_frame *frame)
{
	if (memcmp(frame->data, frame->copy, sim->page_size) != 0)
		sim_fail("the content of a frame changed");
	if (frame->prev)
		frame->prev->next = frame->next;
	else
		sim->frames = frame->next;
	if (frame->next)
		frame->next->prev = frame->prev;
	free(frame->data);
	free(frame->copy);
	frame->freed = true;
	frame->next = sim->past_frames;
	sim->past_frames = frame;
}

/* A page stops showing what is not its own. */
void sim_unmap_page(struct sim *sim, struct sim_page *page)
{
	struct sim_frame *frame = page->frame;

	page->frame = NULL;
	if (frame && --frame->maps == 0 && frame->freed)
		sim_frame_destroy(sim, frame);
}

void sim_write(struct sim_region *region, uint64_t page, uint64_t content)
{
	struct sim_page *p = &region->pages[page];

	p->expected = content;
	if (p->held) {
		p->write_waits = true;
		p->waiting = content;
		return;
	}
	sim_unmap_page(region->space->sim, p);
	sim_fill(region->space->sim, sim_memory(region, page), content);
	p->kind = PDD_PAGE_PRIVATE;
	p->written = true;
}

void sim_migrate(struct sim_region *region, uint64_t page, uint16_t node)
{
	struct sim_page *p = &region->pages[page];

	if (p->frame)
		p->frame->node = node;
	else
		p->node = node;
}

void sim_discard(struct sim_region *region, uint64_t page)
{
	struct sim_page *p = &region->pages[page];

	sim_unmap_page(region->space->sim, p);
	p->kind = PDD_PAGE_ABSENT;
	p->expected = 0;
}

void sim_show_foreign(struct sim_region *region, uint64_t page, struct sim_frame *frame)
{
	struct sim_page *p = &region->pages[page];

	sim_discard(region, page);
	p->kind = PDD_PAGE_SHARED;
	p->frame = frame;
	p->written = true;
	frame->maps++;
}

bool sim_is_shared(const struct sim_region *region, uint64_t page)
{
	return region->pages[page].kind == PDD_PAGE_SHARED;
}

/* ---- steps ---- */

enum pdd_step sim_step_until(struct sim *sim, uint64_t pages, uint64_t deadline)
{
	struct pdd_budget budget = { .pages = pages, .deadline_ns = deadline };
	int result;

	sim->stepping = true;
	result = pdd_scanner_step(&sim->scanner, sim->worker, &budget);
	sim->stepping = false;
	if (result < 0)
		sim_fail("pdd_scanner_step: %d", result);
	sim_verify(sim);
	return (enum pdd_step)result;
}

enum pdd_step sim_step(struct sim *sim, uint64_t pages)
{
	return sim_step_until(sim, pages, 0);
}

void sim_pass(struct sim *sim, uint64_t pages_per_step)
{
	enum pdd_step result;

	do {
		result = sim_step(sim, pages_per_step);
	} while (result == PDD_STEP_MORE);
	if (result != PDD_STEP_PASS)
		sim_fail("no pass was completed");
}

void sim_passes(struct sim *sim, unsigned n)
{
	while (n--)
		sim_pass(sim, UINT64_MAX);
}

unsigned sim_settle(struct sim *sim, unsigned most)
{
	for (unsigned n = 1; n <= most; n++) {
		struct pdd_counts before = sim_stats(sim).counts, after;

		sim_pass(sim, UINT64_MAX);
		after = sim_stats(sim).counts;
		if (after.merges == before.merges && after.zero_merges == before.zero_merges &&
		    after.pages_due == 0)
			return n;
	}
	sim_fail("still merging or due after %u passes", most);
}

int64_t sim_unmerge(struct sim_region *region, uint64_t first, uint64_t npages)
{
	int64_t n = pdd_region_unmerge(&region->region, first, npages, UINT64_MAX);

	sim_verify(region->space->sim);
	return n;
}

void sim_prune(struct sim *sim)
{
	uint64_t before = sim_stats(sim).prunes;

	if (pdd_scanner_prune(&sim->scanner))
		sim_fail("pdd_scanner_prune failed");
	for (unsigned n = 0; sim_stats(sim).prunes == before; n++) {
		if (n == 1000000)
			sim_fail("a prune does not end");
		sim_step(sim, 1);
	}
}
