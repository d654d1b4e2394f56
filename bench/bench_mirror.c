/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_mirror [--mib M] [--rounds N] [--baseline-rounds N] [--json]: memory whose second half is
 * the first one in reverse, until all of it is merged.
 *
 * Page i equals page n-1-i and no other; contents are random. So the pages that found a frame are
 * far apart, a run of them has its twins in reverse, and every page is compared, half of them
 * copied.
 *
 * Both sides run over the same memory through the same plain hooks, in turns, from nothing known:
 * the core, and a model of KSM's scan (baseline/ksm_scan.h). "passes" is the number of the pass
 * after which all pages share, at most 16; the CPU time is that of these passes, for each page of
 * the memory, the median of the rounds. The hooks really copy and compare; mapping is a pointer,
 * so that what an operating system charges for it is left out for both.
 *
 * Exit status 1 if not all is merged, if a page does not show what was written to it, if the frames
 * in use are not one for each pair, or if the library's structures are not what they should be.
 */
#include <inttypes.h>
#include <stdio.h>

#include "baseline/ksm_scan.h"
#include "support/huge_memory.h"
#include "support/measure.h"
#include "support/plain_engine.h"
#include "support/raw_hash.h"

#define PASSES_MAX 16u

static struct {
	uint64_t mib, rounds, baseline_rounds, json;
} options = { .mib = 512, .rounds = 5, .baseline_rounds = 5 };

struct world {
	uint64_t npages;
	struct plain_memory memory;
	struct plain_engine *engine;
	struct ksm_scan ksm;
	struct ksm_region ksm_region;
	struct ksm_item *ksm_items;
};

/* What one side did, in all its rounds. */
struct side {
	const char *name;
	uint64_t passes, merged; /* the same in each */
	struct samples cpu_ns;   /* per page */
};

static int wrong(const struct side *side, const char *what)
{
	fprintf(stderr, "bench_mirror: %s: %s\n", side->name, what);
	return -1;
}

static uint64_t content_of(const struct world *world, uint64_t page)
{
	return page < world->npages / 2 ? page : world->npages - 1 - page;
}

/* What must hold after a round. */
static int verify(const struct world *world, struct side *side, uint64_t passes, uint64_t merged)
{
	if (merged != world->npages)
		return wrong(side, "not all is merged");
	if (world->memory.nused != world->npages / 2)
		return wrong(side, "not one frame for each pair");
	for (uint64_t i = 0; i < world->npages; i++)
		if (!plain_page_is(plain_memory_page(&world->memory, i), PLAIN_RANDOM,
				   content_of(world, i)))
			return wrong(side, "a page shows what was not written to it");
	side->passes = passes;
	side->merged = merged;
	return 0;
}

/* ---- the core ---- */

static uint64_t merged_pages(const struct world *world)
{
	struct pdd_counts counts = { 0 };

	pdd_space_counts(&world->memory.space, &counts);
	return counts.ksm_merging_pages;
}

static int run_core(struct world *world, struct side *side)
{
	uint64_t passes = 0, merged = 0;
	double begin;

	plain_memory_reset(&world->memory, 0, world->npages);
	if (plain_engine_start(world->engine, &world->memory, &plain_ops, NULL))
		return -1;
	begin = measure_cpu_ns();
	while (merged < world->npages && passes < PASSES_MAX) {
		if (plain_engine_pass(world->engine))
			return -1;
		passes++;
		merged = merged_pages(world);
	}
	samples_add(&side->cpu_ns, (measure_cpu_ns() - begin) / (double)world->npages);
	if (pdd_scanner_check(&world->engine->scanner, NULL))
		return wrong(side, "its structures are wrong");
	return verify(world, side, passes, merged);
}

/* ---- the old algorithm ---- */

/* It is to have the library's fastest checksum, too. */
static int checksum(void *ctx, uint64_t *value, const void *content)
{
	*value = raw_checksum(content);
	return 0;
}

static void start_baseline(struct world *world)
{
	const struct ksm_scan_options ksm = { .page_size = PLAIN_PAGE_BYTES };
	struct pdd_ops ops = plain_ops;

	ops.checksum = checksum;
	plain_memory_reset(&world->memory, 0, world->npages);
	for (uint64_t i = 0; i < world->npages; i++)
		world->ksm_items[i] = (struct ksm_item){ .stable = NULL };
	ksm_scan_init(&world->ksm, &ops, &world->memory, &ksm);
	ksm_scan_add(&world->ksm, &world->ksm_region, &world->memory.space,
		     &world->memory.region, world->ksm_items, world->npages);
}

static int run_baseline(struct world *world, struct side *side)
{
	uint64_t passes = 0;
	double begin;
	int err;

	start_baseline(world);
	begin = measure_cpu_ns();
	while (world->ksm.counters.merges < world->npages && passes < PASSES_MAX) {
		while (!ksm_scan_step(&world->ksm, PLAIN_STEP_PAGES))
			;
		passes++;
	}
	samples_add(&side->cpu_ns, (measure_cpu_ns() - begin) / (double)world->npages);
	err = verify(world, side, passes, world->ksm.counters.merges);
	ksm_scan_fini(&world->ksm);
	return err;
}

/* ---- the whole ---- */

static void build(struct world *world)
{
	world->npages = options.mib << 20 >> 12;
	plain_memory_init(&world->memory, world->npages, world->npages / 2);
	for (uint64_t i = 0; i < world->npages; i++)
		plain_fill_page(world->memory.bytes + i * PLAIN_PAGE_BYTES, PLAIN_RANDOM,
				content_of(world, i));
	world->engine = plain_engine_create(world->npages);
	world->ksm_items = huge_alloc(world->npages * sizeof(*world->ksm_items));
}

static int print(const struct world *world, const struct side *core, const struct side *baseline)
{
	const struct measure_field fields[] = {
		FIELD_WORD("bench", "mirror"),
		FIELD_COUNT("pages", world->npages),
		FIELD_COUNT("passes", core->passes),
		FIELD_COUNT("merged", core->merged),
		FIELD_REAL("cpu_ns_per_page", samples_median(&core->cpu_ns)),
		FIELD_COUNT("baseline_passes", baseline->passes),
		FIELD_COUNT("baseline_merged", baseline->merged),
		FIELD_REAL("baseline_cpu_ns_per_page", samples_median(&baseline->cpu_ns)),
	};

	return measure_print(fields, MEASURE_LENGTH(fields),
			     options.json ? MEASURE_JSON : MEASURE_LIST);
}

int main(int argc, char **argv)
{
	const struct measure_option known[] = {
		{ .name = "mib", .value = &options.mib, .least = 1, .most = 1 << 20 },
		{ .name = "rounds", .value = &options.rounds, .least = 1, .most = 99 },
		{ .name = "baseline-rounds", .value = &options.baseline_rounds, .least = 1,
		  .most = 99 },
		{ .name = "json", .value = &options.json },
	};
	struct side core = { .name = "core" }, baseline = { .name = "baseline" };
	static struct world world;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	build(&world);
	for (uint64_t i = 0; i < options.rounds; i++)
		if (run_core(&world, &core) ||
		    (i < options.baseline_rounds && run_baseline(&world, &baseline)))
			return 1;
	return print(&world, &core, &baseline) ? 1 : 0;
}
