/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_unique [--mib M] [--fill counter|random] [--rounds N] [--baseline-rounds N] [--looks 1|2]
 * [--json]: a pass over pages none of which can be shared, against hashing them and nothing else.
 *
 * In the field a scan of 2 GiB of such pages, each a counter and zeros, cost KSM 5 us per page.
 * What it cannot do without is reading them once. Hence the two sides:
 *
 *	hash     the checksum that the scanner uses (pdd_checksum_fastest()) of all pages in address
 *	         order, in a tight loop
 *	insert   a pass of the core, with plain hooks over ordinary memory, that looks at every page
 *	         and puts every page into an index that was empty before it
 *	steady   the passes after that: every page is in the index, and is read and hashed again
 *	         (no aging, no write tracking)
 *	xxh3     XXH3 with the same secret in a tight loop of its own, to show that "hash" is not slow
 *
 * With --looks 1, the default, pages are inserted at their first look (tunable one_look), so that
 * one pass does all that an insertion costs: the first touch of the record, the hash, the search
 * and the link. With 2, a pass that is not measured took the first look, and the measured one has
 * less to do.
 *
 * Of the old algorithm only the index is measured, driven by the same checksum (baseline/): a tree
 * ordered by content, built anew in each scan of pages that did not change, and a tree ordered by
 * checksum.
 *
 * Figures are CPU time, medians of rounds. Within a round a pass and hashing take turns
 * (support/turns.h), and so do "xxh3" and "hash"; a ratio is one of sums over a pass. The
 * baselines take part in the first rounds, scan by scan. Pages, items, extents, roots and the
 * records of the baselines are on huge pages if the system has them. metadata_bytes_per_page is
 * all memory that was handed in to the core.
 *
 * Exit status 1 if, by the library's statistics, a measured pass did not hash every page, if the
 * index does not hold all of them afterwards, if the index or a baseline is not what it should be,
 * or if the two raw loops do not compute the same. No time decides that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "baseline/checksum_tree.h"
#include "baseline/content_tree.h"
#include "support/huge_memory.h"
#include "support/measure.h"
#include "support/plain_engine.h"
#include "support/raw_hash.h"
#include "support/turns.h"

static const char *const fills[] = { "counter", "random", NULL };

static struct {
	uint64_t mib, fill, rounds, baseline_rounds, looks, json;
} options = { .mib = 2048, .rounds = 7, .baseline_rounds = 3, .looks = 1 };

struct world {
	uint64_t npages;
	struct plain_memory memory;
	struct plain_engine *engine;
	struct content_item *content_items;
	struct checksum_item *checksum_items;
};

/* Nanoseconds per page, save the ratios. */
struct figures {
	struct samples hash, xxh3, insert, steady, insert_ratio, steady_ratio;
	struct samples content, checksum;
};

static int wrong(const char *what)
{
	fprintf(stderr, "bench_unique: %s\n", what);
	return -1;
}

/* ---- the core ---- */

/* A pass that reads and hashes every page, after which all of them are in the index. */
static int measure_pass(struct world *world, struct samples *ns, struct samples *ratio,
			struct samples *hash_ns)
{
	struct pdd_stats before = { .size = sizeof(before) }, after = before;
	struct turns_side core = { 0 }, hash = { 0 };

	pdd_scanner_stats(&world->engine->scanner, &before);
	if (turns_pass(world->engine, &core, &hash))
		return -1;
	pdd_scanner_stats(&world->engine->scanner, &after);
	if (after.full_scans != before.full_scans + 1)
		return wrong("a pass is not counted as one");
	if (after.counts.pages_hashed - before.counts.pages_hashed != world->npages)
		return wrong("a pass did not hash every page");
	if (after.counts.pages_unshared != world->npages)
		return wrong("not all pages are in the index");
	samples_add(ns, turns_ns_per_page(&core));
	samples_add(ratio, turns_ns_per_page(&core) / turns_ns_per_page(&hash));
	samples_add(hash_ns, turns_ns_per_page(&hash));
	return 0;
}

static int start(struct world *world)
{
	struct pdd_tunables tunables;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	tunables.one_look = options.looks == 1;
	plain_memory_reset(&world->memory, 0, world->npages);
	if (plain_engine_start(world->engine, &world->memory, &plain_ops, &tunables))
		return -1;
	return options.looks == 1 ? 0 : plain_engine_pass(world->engine);
}

static int measure_core(struct world *world, struct figures *figures)
{
	return start(world) ||
	       measure_pass(world, &figures->insert, &figures->insert_ratio, &figures->hash) ||
	       measure_pass(world, &figures->steady, &figures->steady_ratio, &figures->hash);
}

static void measure_raw(const struct world *world, struct figures *figures)
{
	struct turns_side hash = { 0 }, xxh3 = { 0 };

	for (uint64_t i = 0; i * TURNS_PAGES < world->npages; i++) {
		uint64_t elsewhere = i + world->npages / 2 / TURNS_PAGES;

		turns_hash(&world->memory, &hash, i, raw_hash_pages);
		turns_hash(&world->memory, &xxh3, elsewhere, raw_xxh3_pages);
	}
	samples_add(&figures->hash, turns_ns_per_page(&hash));
	samples_add(&figures->xxh3, turns_ns_per_page(&xxh3));
}

/* ---- the baselines ---- */

static uint64_t scan_content(struct world *world)
{
	return content_tree_scan(world->content_items, world->memory.bytes, PLAIN_PAGE_BYTES,
				 world->npages, raw_checksum);
}

static int measure_baselines(struct world *world, struct figures *figures)
{
	double begin = measure_cpu_ns(), middle;
	uint64_t by_content = scan_content(world), by_checksum;

	middle = measure_cpu_ns();
	by_checksum = checksum_tree_scan(world->checksum_items, world->memory.bytes,
					 PLAIN_PAGE_BYTES, world->npages, raw_checksum);
	samples_add(&figures->content, (middle - begin) / (double)world->npages);
	samples_add(&figures->checksum, (measure_cpu_ns() - middle) / (double)world->npages);
	if (by_content != world->npages || by_checksum != world->npages)
		return wrong("a baseline did not insert every page");
	return 0;
}

/* ---- the whole ---- */

static int build(struct world *world)
{
	world->npages = options.mib << 20 >> 12;
	plain_memory_init(&world->memory, world->npages, 0);
	for (uint64_t i = 0; i < world->npages; i++)
		plain_fill_page(world->memory.bytes + i * PLAIN_PAGE_BYTES,
				(enum plain_fill)options.fill, i);
	world->engine = plain_engine_create(world->npages);
	if (raw_hash_pages(world->memory.bytes, world->npages) !=
	    raw_xxh3_pages(world->memory.bytes, world->npages))
		return wrong("the raw loops do not compute the same");
	if (!options.baseline_rounds)
		return 0;
	world->content_items = huge_alloc(world->npages * sizeof(*world->content_items));
	world->checksum_items = huge_alloc(world->npages * sizeof(*world->checksum_items));
	scan_content(world); /* the scan before: it remembers the checksums */
	return 0;
}

static int run(struct world *world, struct figures *figures)
{
	for (uint64_t i = 0; i < options.rounds; i++) {
		if (measure_core(world, figures) ||
		    (i < options.baseline_rounds && measure_baselines(world, figures)))
			return -1;
		measure_raw(world, figures);
	}
	if (pdd_scanner_check(&world->engine->scanner, NULL))
		return wrong("the index is wrong");
	return 0;
}

static int print(const struct world *world, const struct figures *figures)
{
	const struct measure_field fields[] = {
		FIELD_WORD("bench", "unique"),
		FIELD_WORD("fill", fills[options.fill]),
		FIELD_COUNT("pages", world->npages),
		FIELD_REAL("hash_ns_per_page", samples_median(&figures->hash)),
		FIELD_REAL("xxh3_ns_per_page", samples_median(&figures->xxh3)),
		FIELD_REAL("insert_pass_ns_per_page", samples_median(&figures->insert)),
		FIELD_REAL("steady_pass_ns_per_page", samples_median(&figures->steady)),
		FIELD_REAL("ratio_to_hash", samples_median(&figures->insert_ratio)),
		FIELD_REAL("steady_ratio_to_hash", samples_median(&figures->steady_ratio)),
		FIELD_REAL("baseline_content_ns_per_page", samples_median(&figures->content)),
		FIELD_REAL("baseline_checksum_tree_ns_per_page",
			   samples_median(&figures->checksum)),
		FIELD_REAL("metadata_bytes_per_page",
			   (double)plain_engine_metadata_bytes(world->npages) /
				   (double)world->npages),
	};

	return measure_print(fields, MEASURE_LENGTH(fields),
			     options.json ? MEASURE_JSON : MEASURE_LIST);
}

int main(int argc, char **argv)
{
	const struct measure_option known[] = {
		{ .name = "mib", .value = &options.mib, .least = 1, .most = 1 << 20 },
		{ .name = "fill", .value = &options.fill, .words = fills },
		{ .name = "rounds", .value = &options.rounds, .least = 1, .most = 49 },
		{ .name = "baseline-rounds", .value = &options.baseline_rounds, .most = 49 },
		{ .name = "looks", .value = &options.looks, .least = 1, .most = 2 },
		{ .name = "json", .value = &options.json },
	};
	struct figures figures = { .hash.n = 0 };
	static struct world world;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	return build(&world) || run(&world, &figures) || print(&world, &figures) ? 1 : 0;
}
