/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_threads [--threads T] [--mib M] [--rounds N] [--json]: T threads that step through one
 * pass, against T threads that hash the same pages and do nothing else.
 *
 *	hash     each thread hashes an equal, contiguous share (support/raw_hash.h)
 *	insert   a pass that looks at every page and inserts every page into an empty index
 *	         (one_look, as in bench_unique)
 *	steady   the pass after it: all pages are in the index, and are read and hashed again (no aging,
 *	         no write tracking)
 *
 * Threads share one scanner through its lock, a mutex, in steps of 4,096 pages. Pages are a
 * counter and zeros each. Times are those that go by, divided by the pages of the memory: from the
 * first thread that begins until the last share is hashed, or until a step says that the pass is
 * over. Sides take turns; medians. ratio is hash/steady, the median of the rounds: 1 means that T
 * threads scan as fast as they read. All memory is on huge pages if the system has them. With more
 * threads than processors, or beside other load, the times say little.
 *
 * Then merging, in memory that nobody writes: zero, same-filled, unique and mirrored pages, and
 * such as have hundreds of equals. merged_equal says whether pages_shared, pages_sharing,
 * pages_unshared and ksm_zero_pages come out as with one thread and without the lock, in each of
 * five tries.
 *
 * Exit status 1 if they do not, if a page does not show what was written to it, if a pass did not
 * hash every page or the index does not hold all of them, or if the library's structures are not
 * what they should be. No time decides that.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/measure.h"
#include "support/plain_team.h"
#include "support/raw_hash.h"

#define MERGING_PAGES UINT64_C(16384)
#define MERGING_PASSES 8u /* by far enough: two looks, and a few that were lost */
#define MERGING_STEP_PAGES 512u
#define MERGING_TRIES 5u

static struct {
	uint64_t threads, mib, rounds, json;
} options = { .threads = 2, .mib = 1024, .rounds = 15 };

struct world {
	uint64_t npages;
	struct plain_memory memory;
	struct plain_engine *engine;
	struct plain_team team;
	_Atomic uint64_t sum; /* of all checksums */
};

struct figures {
	struct samples hash, insert, steady, ratio;
};

static int wrong(const char *what)
{
	fprintf(stderr, "bench_threads: %s\n", what);
	return -1;
}

/* ---- speed ---- */

static void hash_share(void *ctx, unsigned number)
{
	struct world *world = ctx;
	uint64_t first = world->npages * number / options.threads;
	uint64_t end = world->npages * (number + 1) / options.threads;

	atomic_fetch_xor_explicit(&world->sum,
				  raw_hash_pages(world->memory.bytes + first * PLAIN_PAGE_BYTES,
						 end - first), memory_order_relaxed);
}

/* The same checksums come out each time, whatever the number of threads. */
static int hash(struct world *world, double *ns, uint64_t expected)
{
	atomic_store_explicit(&world->sum, 0, memory_order_relaxed);
	*ns = team_run(&world->team.team, hash_share, world);
	return atomic_load_explicit(&world->sum, memory_order_relaxed) == expected ?
		0 : wrong("a page was not hashed");
}

/* A pass that hashes every page, after which all of them are in the index. */
static int pass(struct world *world, double *ns)
{
	struct pdd_stats before = { .size = sizeof(before) }, after = before;

	pdd_scanner_stats(&world->engine->scanner, &before);
	if (plain_team_pass(&world->team, ns))
		return -1;
	pdd_scanner_stats(&world->engine->scanner, &after);
	if (after.full_scans <= before.full_scans)
		return wrong("a pass is not counted as one");
	if (after.counts.pages_hashed - before.counts.pages_hashed < world->npages)
		return wrong("a pass did not hash every page");
	if (after.counts.pages_unshared != world->npages)
		return wrong("not all pages are in the index");
	/* What was begun of the next pass is not to make that one shorter. */
	return after.counts.pages_scanned % world->npages ? plain_engine_pass(world->engine) : 0;
}

static int measure(struct world *world, struct figures *figures, uint64_t sum)
{
	double insert, raw, steady, npages = (double)world->npages;
	struct pdd_tunables tunables;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	tunables.one_look = 1;
	plain_memory_reset(&world->memory, 0, world->npages);
	if (plain_team_start(&world->team, &world->memory, &tunables) || pass(world, &insert) ||
	    hash(world, &raw, sum) || pass(world, &steady))
		return -1;
	samples_add(&figures->hash, raw / npages);
	samples_add(&figures->insert, insert / npages);
	samples_add(&figures->steady, steady / npages);
	samples_add(&figures->ratio, raw / steady);
	return 0;
}

static int run_speed(struct world *world, struct figures *figures)
{
	uint64_t sum;

	world->npages = options.mib << 20 >> 12;
	plain_memory_init(&world->memory, world->npages, 0);
	for (uint64_t i = 0; i < world->npages; i++)
		plain_fill_page(world->memory.bytes + i * PLAIN_PAGE_BYTES, PLAIN_COUNTER, i);
	sum = raw_hash_pages(world->memory.bytes, world->npages);
	world->engine = plain_engine_create(world->npages);
	if (plain_team_init(&world->team, world->engine, (unsigned)options.threads,
			    PLAIN_STEP_PAGES))
		return -1;
	for (uint64_t i = 0; i < options.rounds; i++)
		if (measure(world, figures, sum))
			return -1;
	if (pdd_scanner_check(&world->engine->scanner, NULL))
		return wrong("the index is wrong");
	plain_team_fini(&world->team);
	plain_engine_destroy(world->engine);
	plain_memory_fini(&world->memory);
	return 0;
}

/* ---- merging ---- */

/* What ends up shared, of all pages. */
struct merged {
	uint64_t shared, sharing, unshared, zero;
};

/* Contents below 256 are one word, repeated; the others are random. */
static uint64_t content_of(uint64_t page)
{
	static const uint64_t mirror = MERGING_PAGES / 2;

	switch (page % 8) {
	case 0:
		return 0;
	case 1:
		return 1 + page / 8 % 100; /* same-filled: 20 equals or so */
	case 2:
		return 256 + page / 8 % 5; /* more equals than a frame takes */
	case 3:
		return 512 + page / 8 % 8; /* exactly as many */
	case 4:
	case 5:
		return 1024 + page; /* unique */
	default: /* mirrored, one offset up: 6 meets 6, and 7 meets 7 */
		return 1024 + MERGING_PAGES + (page < mirror ? page : page - mirror);
	}
}

static void fill(void *page, uint64_t content)
{
	uint64_t *words = page;

	if (content >= 256) {
		plain_fill_page(page, PLAIN_RANDOM, content);
		return;
	}
	for (unsigned i = 0; i < PLAIN_PAGE_BYTES / 8; i++)
		words[i] = content;
}

static int verify(const struct plain_engine *engine, struct merged *merged)
{
	struct pdd_stats stats = { .size = sizeof(stats) };
	static uint64_t page[PLAIN_PAGE_BYTES / 8];

	if (pdd_scanner_check(&engine->scanner, NULL))
		return wrong("the structures are wrong");
	for (uint64_t i = 0; i < MERGING_PAGES; i++) {
		fill(page, content_of(i));
		if (memcmp(page, plain_memory_page(engine->memory, i), sizeof(page)))
			return wrong("a page shows what was not written to it");
	}
	pdd_scanner_stats(&engine->scanner, &stats);
	*merged = (struct merged){ stats.pages_shared, stats.pages_sharing,
				   stats.counts.pages_unshared, stats.counts.ksm_zero_pages };
	return 0;
}

static int merge_alone(struct plain_engine *engine, struct plain_memory *memory,
		       struct merged *merged)
{
	plain_memory_reset(memory, 0, MERGING_PAGES);
	if (plain_engine_start(engine, memory, &plain_ops, NULL))
		return -1;
	for (unsigned i = 0; i < MERGING_PASSES; i++)
		if (plain_engine_pass(engine))
			return -1;
	return verify(engine, merged);
}

static int merge_together(struct plain_engine *engine, struct plain_memory *memory,
			  struct merged *merged)
{
	struct plain_team team;
	double ns;
	int err;

	plain_memory_reset(memory, 0, MERGING_PAGES);
	err = plain_team_init(&team, engine, (unsigned)options.threads, MERGING_STEP_PAGES) ||
	      plain_team_start(&team, memory, NULL);
	for (unsigned i = 0; !err && i < MERGING_PASSES; i++)
		err = plain_team_pass(&team, &ns);
	plain_team_fini(&team);
	return err ? -1 : verify(engine, merged);
}

static int run_merging(bool *equal)
{
	static struct plain_memory memory;
	struct plain_engine *engine = plain_engine_create(MERGING_PAGES);
	struct merged alone, together;

	plain_memory_init(&memory, MERGING_PAGES, MERGING_PAGES);
	for (uint64_t i = 0; i < MERGING_PAGES; i++)
		fill(memory.bytes + i * PLAIN_PAGE_BYTES, content_of(i));
	if (merge_alone(engine, &memory, &alone))
		return -1;
	*equal = alone.shared && alone.unshared && alone.zero;
	for (unsigned i = 0; i < MERGING_TRIES; i++) {
		if (merge_together(engine, &memory, &together))
			return -1;
		if (!memcmp(&alone, &together, sizeof(alone)))
			continue;
		*equal = false;
		fprintf(stderr, "shared, sharing, unshared, zero: %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " alone, %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" together\n", alone.shared, alone.sharing, alone.unshared, alone.zero,
			together.shared, together.sharing, together.unshared, together.zero);
	}
	plain_engine_destroy(engine);
	plain_memory_fini(&memory);
	return 0;
}

/* ---- the whole ---- */

static int print(const struct world *world, const struct figures *figures, bool equal)
{
	const struct measure_field fields[] = {
		FIELD_WORD("bench", "threads"),
		FIELD_COUNT("threads", options.threads),
		FIELD_COUNT("pages", world->npages),
		FIELD_REAL("hash_ns_per_page", samples_median(&figures->hash)),
		FIELD_REAL("steady_pass_ns_per_page", samples_median(&figures->steady)),
		FIELD_REAL("insert_pass_ns_per_page", samples_median(&figures->insert)),
		FIELD_REAL("ratio", samples_median(&figures->ratio)),
		FIELD_BOOL("merged_equal", equal),
	};

	return measure_print(fields, MEASURE_LENGTH(fields),
			     options.json ? MEASURE_JSON : MEASURE_LIST);
}

int main(int argc, char **argv)
{
	const struct measure_option known[] = {
		{ .name = "threads", .value = &options.threads, .least = 1, .most = TEAM_MAX },
		{ .name = "mib", .value = &options.mib, .least = 16, .most = 1 << 20 },
		{ .name = "rounds", .value = &options.rounds, .least = 1, .most = 99 },
		{ .name = "json", .value = &options.json },
	};
	static struct figures figures;
	static struct world world;
	bool equal;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	if (run_speed(&world, &figures) || run_merging(&equal) ||
	    print(&world, &figures, equal))
		return 1;
	return equal ? 0 : 1;
}
