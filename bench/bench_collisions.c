/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_collisions [--pages N] [--fill counter|random] [--rounds N] [--json]: somebody crafted
 * pages that are all different and all of one checksum (s30).
 *
 * Then the index of the library is what KSM's trees always are: one tree, ordered by content. Each
 * side hashes every page, with the same function; but to the core the checksum is always 0.
 *
 *	insert    the pass that takes the second look at all pages, and puts them into the index
 *	steady    the passes after that: among collisions each page is taken out of the index and
 *	          searched for anew (search.c)
 *	baseline  a scan of the model of KSM's unstable tree (baseline/content_tree.h): compares
 *	          memory at every level, and is built anew each time
 *
 * CPU time, medians of rounds; in a round both sides take turns, pass by scan, and ratios are formed
 * within it. "compares" are contents that the core compared in a pass, by its statistics.
 * tests/scenario/test_adversaries.c counts both sides' compares, and gates them.
 *
 * Exit status 1 if a pass did not hash every page that shows no frame, if not all of them
 * are alone in the index or in a frame afterwards, if the index is not valid, or if the baseline
 * did not insert every page.
 */
#include <inttypes.h>
#include <stdio.h>

#include "baseline/content_tree.h"
#include "support/huge_memory.h"
#include "support/measure.h"
#include "support/plain_engine.h"
#include "support/raw_hash.h"

#define FRAMES 4096u /* far more than are made for false twins */

static const char *const fills[] = { "counter", "random", NULL };

static struct {
	uint64_t pages, fill, rounds, json;
} options = { .pages = 50000, .rounds = 7 };

struct world {
	uint64_t npages;
	struct plain_memory memory;
	struct plain_engine *engine;
	struct content_item *items;
};

/* Nanoseconds and compares per page, save the ratios. */
struct figures {
	struct samples insert, steady, baseline, insert_ratio, steady_ratio;
	struct samples insert_compares, steady_compares;
};

static int wrong(const char *what)
{
	fprintf(stderr, "bench_collisions: %s\n", what);
	return -1;
}

/* ---- both sides ---- */

/* All of it is read, for nothing. */
static int checksum(void *ctx, uint64_t *value, const void *content)
{
	*value = raw_checksum(content) * 0;
	return 0;
}

static uint64_t compares(const struct pdd_stats *stats)
{
	return stats->search_compares + stats->chain_compares + stats->held_compares_equal +
	       stats->held_compares_unequal;
}

static int measure_pass(struct world *world, double *ns, struct samples *ncompares)
{
	struct pdd_stats before = { .size = sizeof(before) }, after = before;
	double begin;

	pdd_scanner_stats(&world->engine->scanner, &before);
	begin = measure_cpu_ns();
	if (plain_engine_pass(world->engine))
		return -1;
	*ns = (measure_cpu_ns() - begin) / (double)world->npages;
	pdd_scanner_stats(&world->engine->scanner, &after);
	if (after.counts.pages_hashed - before.counts.pages_hashed + before.pages_shared !=
	    world->npages)
		return wrong("a pass did not hash every page");
	samples_add(ncompares,
		    (double)(compares(&after) - compares(&before)) / (double)world->npages);
	return 0;
}

static int measure_scan(struct world *world, double *ns)
{
	double begin = measure_cpu_ns();
	uint64_t inserted = content_tree_scan(world->items, world->memory.bytes, PLAIN_PAGE_BYTES,
					      world->npages, raw_checksum);

	*ns = (measure_cpu_ns() - begin) / (double)world->npages;
	return inserted == world->npages ? 0 : wrong("the baseline did not insert every page");
}

/* A pass, and a scan right after it. */
static int measure_both(struct world *world, struct samples *ours, struct samples *ncompares,
			struct samples *theirs, struct samples *ratio)
{
	double pass, scan;

	if (measure_pass(world, &pass, ncompares) || measure_scan(world, &scan))
		return -1;
	samples_add(ours, pass);
	samples_add(theirs, scan);
	samples_add(ratio, pass / scan);
	return 0;
}

/* ---- the whole ---- */

static int check(const struct world *world)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	pdd_scanner_stats(&world->engine->scanner, &stats);
	if (pdd_scanner_check(&world->engine->scanner, NULL))
		return wrong("the index is wrong");
	if (stats.counts.pages_unshared + stats.pages_shared != world->npages ||
	    stats.pages_sharing)
		return wrong("not all pages are alone");
	return 0;
}

static int round_of_both(struct world *world, struct figures *figures)
{
	struct pdd_ops ops = plain_ops;
	struct pdd_tunables tunables;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	ops.checksum = checksum;
	plain_memory_reset(&world->memory, 0, world->npages);
	if (plain_engine_start(world->engine, &world->memory, &ops, &tunables) ||
	    plain_engine_pass(world->engine)) /* the first look */
		return -1;
	return measure_both(world, &figures->insert, &figures->insert_compares,
			    &figures->baseline, &figures->insert_ratio) ||
	       plain_engine_pass(world->engine) || /* who met a false twin */
	       measure_both(world, &figures->steady, &figures->steady_compares,
			    &figures->baseline, &figures->steady_ratio) ||
	       check(world);
}

static int run(struct world *world, struct figures *figures)
{
	world->npages = options.pages;
	plain_memory_init(&world->memory, world->npages, FRAMES);
	for (uint64_t i = 0; i < world->npages; i++) /* no page is zero */
		plain_fill_page(world->memory.memory + i * PLAIN_PAGE_BYTES,
				(enum plain_fill)options.fill, 1 + i);
	world->engine = plain_engine_create(world->npages);
	world->items = huge_alloc(world->npages * sizeof(*world->items));
	plain_memory_reset(&world->memory, 0, world->npages);
	content_tree_scan(world->items, world->memory.bytes, PLAIN_PAGE_BYTES, world->npages,
			  raw_checksum); /* the scan before: it remembers the checksums */
	for (uint64_t i = 0; i < options.rounds; i++)
		if (round_of_both(world, figures))
			return -1;
	return 0;
}

static int print(const struct world *world, const struct figures *figures)
{
	const struct measure_field fields[] = {
		FIELD_WORD("bench", "collisions"),
		FIELD_WORD("fill", fills[options.fill]),
		FIELD_COUNT("pages", world->npages),
		FIELD_REAL("insert_pass_ns_per_page", samples_median(&figures->insert)),
		FIELD_REAL("steady_pass_ns_per_page", samples_median(&figures->steady)),
		FIELD_REAL("baseline_content_ns_per_page", samples_median(&figures->baseline)),
		FIELD_REAL("insert_ratio", samples_median(&figures->insert_ratio)),
		FIELD_REAL("steady_ratio", samples_median(&figures->steady_ratio)),
		FIELD_REAL("insert_compares_per_page", samples_median(&figures->insert_compares)),
		FIELD_REAL("steady_compares_per_page", samples_median(&figures->steady_compares)),
	};

	return measure_print(fields, MEASURE_LENGTH(fields),
			     options.json ? MEASURE_JSON : MEASURE_LIST);
}

int main(int argc, char **argv)
{
	const struct measure_option known[] = {
		{ .name = "pages", .value = &options.pages, .least = 100, .most = 1 << 24 },
		{ .name = "fill", .value = &options.fill, .words = fills },
		{ .name = "rounds", .value = &options.rounds, .least = 1, .most = 49 },
		{ .name = "json", .value = &options.json },
	};
	static struct figures figures;
	static struct world world;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	return run(&world, &figures) || print(&world, &figures) ? 1 : 0;
}
