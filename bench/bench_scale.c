/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_scale [--max-mib M] [--max-entries-mi N] [--rounds N] [--json]: the cost of a page as there
 * are more and more of them.
 *
 * A tree gets deeper, and its nodes leave the cache. Two series, each in powers of two from 65,536:
 *
 *	passes      up to 2 Mi pages (8 GiB, --max-mib): a pass of the core that looks at every page
 *	            and inserts all of them into an index that was empty before, as bench_unique has
 *	            it, with one look; each page is a counter and zeros
 *	index only  up to 64 Mi entries (--max-entries-mi): the index alone, nothing is hashed: random
 *	            checksums are searched for and linked, in batches that are loaded ahead as the
 *	            scanner does it. Entries are as large as items; one root for each
 *
 * In each round all sizes take their turn, and every size does as much work as the largest: passes
 * go over all of the memory, in windows of their size; indexes are filled anew until they had 4 Mi
 * entries at least. So each figure is a mean over at least that, and the median of the rounds is
 * reported, CPU time per page. Of the passes, hash_ns_per_page is hashing and nothing else, which
 * takes turns with the pass; ratio_to_hash is the quotient in a round, which is less
 * disturbed by what else the machine does. Everything is on huge pages if the system has them.
 *
 * Exit status 1 if a pass did not hash every page or the index does not hold all of them
 * afterwards, or if an index is not what it should be. No time decides that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/huge_memory.h"
#include "support/measure.h"
#include "support/plain_engine.h"
#include "support/turns.h"

#define LEAST (UINT64_C(1) << 16)
#define SIZES_MAX 16u
#define ENTRIES_PER_ROUND (UINT64_C(4) << 20)
#define LEVELS_AHEAD 4u /* nodes of a search that are loaded ahead, as in lib/batch.c */

static struct {
	uint64_t max_mib, max_entries_mi, rounds, json;
} options = { .max_mib = 8192, .max_entries_mi = 64, .rounds = 5 };

/* What is measured of one size. */
struct row {
	uint64_t pages;
	bool index_only;
	struct samples ns, hash_ns, ratio;
};

static int wrong(const struct row *row, const char *what)
{
	fprintf(stderr, "bench_scale: %" PRIu64 " pages: %s\n", row->pages, what);
	return -1;
}

/* Rows of sizes up to the largest. Their number. */
static unsigned make_rows(struct row *rows, uint64_t largest, bool index_only)
{
	unsigned n = 0;

	for (uint64_t pages = LEAST; pages <= largest && n < SIZES_MAX; pages *= 2)
		rows[n++] = (struct row){ .pages = pages, .index_only = index_only };
	return n;
}

/* ---- passes ---- */

static int insert_window(struct plain_engine *engine, struct plain_memory *memory,
			 const struct row *row, uint64_t first, struct turns_side *core,
			 struct turns_side *hash)
{
	struct pdd_stats stats = { .size = sizeof(stats) };
	struct pdd_tunables tunables;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	tunables.one_look = 1;
	plain_memory_reset(memory, first, row->pages);
	if (plain_engine_start(engine, memory, &plain_ops, &tunables) ||
	    turns_pass(engine, core, hash))
		return -1;
	pdd_scanner_stats(&engine->scanner, &stats);
	if (stats.counts.pages_hashed != row->pages)
		return wrong(row, "a pass did not hash every page");
	if (stats.counts.pages_unshared != row->pages)
		return wrong(row, "not all pages are in the index");
	return 0;
}

static int measure_passes(struct plain_engine *engine, struct plain_memory *memory,
			  struct row *row)
{
	struct turns_side core = { 0 }, hash = { 0 };

	for (uint64_t first = 0; first + row->pages <= memory->room; first += row->pages)
		if (insert_window(engine, memory, row, first, &core, &hash))
			return -1;
	samples_add(&row->ns, turns_ns_per_page(&core));
	samples_add(&row->hash_ns, turns_ns_per_page(&hash));
	samples_add(&row->ratio, turns_ns_per_page(&core) / turns_ns_per_page(&hash));
	return pdd_scanner_check(&engine->scanner, NULL) ? wrong(row, "the index is wrong") : 0;
}

static int run_passes(struct row *rows, unsigned nrows)
{
	static struct plain_memory memory;
	uint64_t npages = rows[nrows - 1].pages;
	struct plain_engine *engine;

	plain_memory_init(&memory, npages, 0);
	for (uint64_t i = 0; i < npages; i++)
		plain_fill_page(memory.memory + i * PLAIN_PAGE_BYTES, PLAIN_COUNTER, i);
	engine = plain_engine_create(npages);
	for (uint64_t round = 0; round < options.rounds; round++)
		for (unsigned i = 0; i < nrows; i++)
			if (measure_passes(engine, &memory, &rows[i]))
				return -1;
	plain_engine_destroy(engine);
	plain_memory_fini(&memory);
	return 0;
}

/* ---- the index alone ---- */

/* As large as an item. */
struct entry {
	struct pdd_index_node node;
	uint64_t rest[2];
};

_Static_assert(sizeof(struct entry) == sizeof(struct pdd_item), "a fair stand-in");

/* Load what the searches of a batch will read. */
static void load_ahead(const struct pdd_index *index, const struct entry *entries, uint64_t n)
{
	const struct pdd_index_node *nodes[PDD_BATCH_PAGES];

	for (uint64_t i = 0; i < n; i++)
		pdd_index_prefetch(index, entries[i].node.checksum);
	for (uint64_t i = 0; i < n; i++)
		nodes[i] = pdd_index_prefetch_first(index, entries[i].node.checksum);
	for (unsigned level = 1; level < LEVELS_AHEAD; level++)
		for (uint64_t i = 0; i < n; i++)
			if (nodes[i])
				nodes[i] = pdd_index_prefetch_below(nodes[i],
								    entries[i].node.checksum);
}

/* Insert entries, which are all different. The number of those that were. */
static uint64_t insert(struct pdd_index *index, struct entry *entries, uint64_t n, uint64_t seed)
{
	uint64_t ninserted = 0;

	for (uint64_t i = 0; i < n; i++)
		entries[i].node.checksum = pdd_checksum_mix(seed + i);
	load_ahead(index, entries, n);
	for (uint64_t i = 0; i < n; i++) {
		struct pdd_index_slot slot;

		if (pdd_index_find_slot(index, &slot, entries[i].node.checksum, NULL, NULL))
			continue;
		pdd_index_link(index, &slot, &entries[i].node, PDD_KIND_ITEM);
		ninserted++;
	}
	return ninserted;
}

static int measure_index(struct pdd_rbroot *roots, struct entry *entries, struct row *row,
			 uint64_t seed)
{
	uint64_t repeats = row->pages < ENTRIES_PER_ROUND ? ENTRIES_PER_ROUND / row->pages : 1;
	uint64_t ninserted = 0;
	struct pdd_index index;
	double ns = 0;

	for (uint64_t r = 0; r < repeats; r++) {
		double begin;

		memset(roots, 0, row->pages * sizeof(*roots));
		memset(entries, 0, row->pages * sizeof(*entries));
		if (pdd_index_init(&index, roots, row->pages, row->pages))
			return wrong(row, "no index");
		begin = measure_cpu_ns();
		for (uint64_t i = 0; i < row->pages; i += PDD_BATCH_PAGES)
			ninserted += insert(&index, entries + i, PDD_BATCH_PAGES,
					    seed + r * row->pages + i);
		ns += measure_cpu_ns() - begin;
	}
	samples_add(&row->ns, ns / (double)(repeats * row->pages));
	if (ninserted != repeats * row->pages ||
	    (!seed && pdd_index_check(&index, NULL) != (int64_t)row->pages))
		return wrong(row, "the index is not what it should be");
	return 0;
}

_Static_assert(LEAST % PDD_BATCH_PAGES == 0, "batches are full");

static int run_index(struct row *rows, unsigned nrows)
{
	uint64_t n = rows[nrows - 1].pages;
	struct pdd_rbroot *roots = huge_alloc(n * sizeof(*roots));
	struct entry *entries = huge_alloc(n * sizeof(*entries));

	for (uint64_t round = 0; round < options.rounds; round++)
		for (unsigned i = 0; i < nrows; i++)
			if (measure_index(roots, entries, &rows[i], round << 32))
				return -1;
	huge_free(roots, n * sizeof(*roots));
	huge_free(entries, n * sizeof(*entries));
	return 0;
}

/* ---- rows ---- */

static int print(const struct row *rows, unsigned nrows)
{
	for (unsigned i = 0; i < nrows; i++) {
		const struct row *row = &rows[i];
		const struct measure_field fields[] = {
			FIELD_WORD("bench", "scale"),
			FIELD_COUNT("pages", row->pages),
			FIELD_REAL("ns_per_page", samples_median(&row->ns)),
			FIELD_BOOL("index_only", row->index_only),
			FIELD_REAL("to_smallest",
				   samples_median(&row->ns) / samples_median(&rows[0].ns)),
			FIELD_REAL("hash_ns_per_page", samples_median(&row->hash_ns)),
			FIELD_REAL("ratio_to_hash", samples_median(&row->ratio)),
		};
		enum measure_style style = i ? MEASURE_LINE : MEASURE_HEAD;

		if (measure_print(fields, MEASURE_LENGTH(fields),
				  options.json ? MEASURE_JSON : style))
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct measure_option known[] = {
		{ .name = "max-mib", .value = &options.max_mib, .least = 256, .most = 1 << 20 },
		{ .name = "max-entries-mi", .value = &options.max_entries_mi, .least = 1,
		  .most = 1024 },
		{ .name = "rounds", .value = &options.rounds, .least = 1, .most = 99 },
		{ .name = "json", .value = &options.json },
	};
	static struct row passes[SIZES_MAX], indexes[SIZES_MAX];
	unsigned npasses, nindexes;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	npasses = make_rows(passes, options.max_mib << 20 >> 12, false);
	nindexes = make_rows(indexes, options.max_entries_mi << 20, true);
	return run_passes(passes, npasses) || print(passes, npasses) ||
	       run_index(indexes, nindexes) || print(indexes, nindexes) ? 1 : 0;
}
