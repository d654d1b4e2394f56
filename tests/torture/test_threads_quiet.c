/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads_quiet.c - memory that nobody writes: however many threads step, what they arrive at
 * is what one arrives at, and that follows from the contents alone.
 *
 * What must hold. Let n pages have one content in one domain, and L be max_page_sharing. Once all
 * is settled, pruned, and settled again, no frame can be emptied into others, so they are as few as
 * can be: frames and pages left alone are ceil(n / L) together, and n less that are saved
 * (pages_sharing). If n leaves a remainder of 1 by L, one thread leaves that page alone; several
 * may give it a frame together with one that the others are short of. That is the same saving, so
 * pages_shared and pages_unshared may differ then by one each for such a content, never their sum.
 * Otherwise all is equal. Zero pages are all replaced. Where different contents have one checksum a
 * page may have founded a frame with one of another content, and be left alone in it: that is to
 * be left alone, too.
 *
 * PDD_SEED can be set.
 */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "live.h"

#define THREADS_MAX 4u
#define ROUNDS_MAX 30u
#define COLLISION_ROUNDS 3u
#define SPACES 3u
#define CONTENTS 400u
#define DOMAINS 2u

struct layout {
	const char *name;
	uint64_t npages; /* of each region */
	unsigned nregions;
	uint64_t (*content)(uint64_t page, uint64_t npages); /* below CONTENTS * LIVE_CONTENTS */
	bool sparse;
	bool domains; /* the last space has one of its own */
};

static struct live *live;
static atomic_bool over; /* a pass is */
static uint64_t numbers[DOMAINS][CONTENTS * LIVE_CONTENTS]; /* of pages by content */

/* ---- layouts ---- */

static uint64_t random_duplicates(uint64_t page, uint64_t npages)
{
	return live_random(CONTENTS * LIVE_CONTENTS);
}

static uint64_t few_contents(uint64_t page, uint64_t npages)
{
	return live_random(5);
}

static uint64_t all_equal(uint64_t page, uint64_t npages)
{
	return 7;
}

static uint64_t mirrored(uint64_t page, uint64_t npages)
{
	return 1 + (page < npages / 2 ? page : npages - 1 - page) % (CONTENTS * LIVE_CONTENTS - 1);
}

static uint64_t zeros_between(uint64_t page, uint64_t npages)
{
	return page % 3 ? 0 : 1 + page / 6;
}

static const struct layout layouts[] = {
	{ .name = "random duplicates", .npages = 900, .nregions = 1, .content = random_duplicates },
	{ .name = "few contents", .npages = 1200, .nregions = 2, .content = few_contents,
	  .domains = true },
	{ .name = "all equal", .npages = 1100, .nregions = 1, .content = all_equal },
	{ .name = "mirrored halves", .npages = 2048, .nregions = 1, .content = mirrored },
	{ .name = "zeros", .npages = 700, .nregions = 2, .content = zeros_between,
	  .domains = true },
	{ .name = "sparse", .npages = 3000, .nregions = 1, .content = random_duplicates,
	  .sparse = true },
};

static void fill(const struct layout *layout, struct live_space **spaces)
{
	memset(numbers, 0, sizeof(numbers));
	for (unsigned s = 0; s < SPACES; s++) {
		uint32_t domain = layout->domains && s == SPACES - 1;

		spaces[s] = live_space_add(live, domain);
		for (unsigned r = 0; r < layout->nregions; r++) {
			struct live_region *region =
				live_region_add(spaces[s], layout->npages, layout->sparse);

			for (uint64_t i = 0; i < layout->npages; i++) {
				uint64_t content = layout->content(i, layout->npages);

				if (layout->sparse && i / PDD_EXTENT_PAGES % 2)
					continue;
				live_set(region, i, content);
				numbers[domain][content]++;
			}
		}
	}
}

/* ---- passes by several threads ---- */

static void *run_steps(void *arg)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));

	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	live_me.random += live->ncalls; /* another one in each round */
	while (!atomic_load(&over)) {
		struct pdd_budget budget = { .pages = PDD_EXTENT_PAGES * (1 + live_random(3)) };
		int result = pdd_scanner_step(&live->scanner, worker, &budget);

		live_require(result == PDD_STEP_MORE || result == PDD_STEP_PASS ||
				     result == PDD_STEP_WAIT,
			     "a step failed");
		if (result == PDD_STEP_PASS)
			atomic_store(&over, true);
		else if (result == PDD_STEP_WAIT)
			sched_yield();
	}
	free(worker);
	return NULL;
}

/* The rest of a pass, and perhaps something of the next one. */
static struct pdd_stats run_round(unsigned nthreads)
{
	struct pdd_stats stats = { .size = sizeof(stats) };
	pthread_t threads[THREADS_MAX];

	atomic_store(&over, false);
	for (unsigned i = 0; i < nthreads; i++)
		live_require(!pthread_create(&threads[i], NULL, run_steps,
					     (void *)(uintptr_t)(i + 2)),
			     "pthread_create");
	for (unsigned i = 0; i < nthreads; i++)
		live_require(!pthread_join(threads[i], NULL), "pthread_join");
	live_require(pdd_scanner_stats(&live->scanner, &stats) == 0, "stats");
	return stats;
}

static bool is_equal(const struct pdd_stats *a, const struct pdd_stats *b)
{
	return a->counts.merges == b->counts.merges && a->pages_shared == b->pages_shared &&
	       a->counts.zero_merges == b->counts.zero_merges &&
	       a->counts.pages_unshared == b->counts.pages_unshared &&
	       a->counts.refiles == b->counts.refiles && !b->counts.pages_due;
}

/* Rounds until two in a row change nothing; the number of those before. */
static unsigned settle(struct pdd_stats *stats, unsigned nthreads)
{
	unsigned n = 0, still = 0;

	/* Among collisions most searches meet a page of an extent at which another thread is, and
	 * take it out. So several threads come near to the end, and one gets there. */
	for (; live->options.two_bits && nthreads > 1 && n < COLLISION_ROUNDS; n++)
		(void)run_round(nthreads);
	if (n)
		nthreads = 1;
	for (*stats = run_round(nthreads); still < 2; n++) {
		struct pdd_stats before = *stats;

		*stats = run_round(nthreads);
		still = is_equal(&before, stats) ? still + 1 : 0;
		live_require(n < ROUNDS_MAX, "still merging or due after 30 passes");
	}
	return n - 1;
}

/* ---- what must be ---- */

struct wanted {
	uint64_t sharing, shared, unshared, zero;
	uint64_t loose; /* contents of which a page may be left alone, or not */
	bool simple;    /* one frame is enough for each content */
};

static struct wanted want(uint32_t limit, bool collisions)
{
	struct wanted w = { .zero = numbers[0][0] + numbers[1][0], .simple = true };

	for (unsigned d = 0; d < DOMAINS; d++) {
		for (unsigned c = 1; c < CONTENTS * LIVE_CONTENTS; c++) {
			uint64_t n = numbers[d][c], places = (n + limit - 1) / limit;

			w.sharing += n - places;
			w.unshared += n % limit == 1;
			w.shared += places - (n % limit == 1);
			w.loose += (n > 1 || collisions) && n % limit == 1;
			w.simple &= n <= limit;
		}
	}
	return w;
}

static void check(const struct pdd_stats *stats, const struct wanted *w, const char *when)
{
	const char *why = NULL;

	if (pdd_scanner_check(&live->scanner, &why))
		live_fail("%s", why);
	if (stats->pages_sharing != w->sharing || stats->counts.ksm_zero_pages != w->zero ||
	    stats->pages_shared + stats->counts.pages_unshared != w->shared + w->unshared ||
	    stats->pages_shared < w->shared || stats->pages_shared > w->shared + w->loose)
		live_fail("%s: shared %" PRIu64 " of %" PRIu64 " (and %" PRIu64
			  "), sharing %" PRIu64 " of %" PRIu64 ", unshared %" PRIu64
			  " of %" PRIu64 ", zero %" PRIu64 " of %" PRIu64,
			  when, stats->pages_shared, w->shared, w->loose, stats->pages_sharing,
			  w->sharing, stats->counts.pages_unshared, w->unshared,
			  stats->counts.ksm_zero_pages, w->zero);
}

static void finish(struct live_space **spaces)
{
	for (unsigned s = 0; s < SPACES; s++) {
		live_verify_space(spaces[s]);
		live_space_remove(spaces[s]);
	}
	live_destroy(live);
}

static void run(const struct live_options *options, const struct layout *layout, unsigned nthreads)
{
	struct live_space *spaces[SPACES];
	uint32_t limit = options->tunables.max_page_sharing;
	struct pdd_stats stats;
	struct wanted w;
	unsigned before, after;

	live = live_create(options);
	fill(layout, spaces);
	w = want(limit, options->two_bits);
	before = settle(&stats, nthreads);
	/* Among collisions equal pages may found a frame each, until a prune: before the first
	 * collision is met pages of one checksum are taken for equal, and threads miss each other's. */
	if (w.simple && !options->two_bits)
		check(&stats, &w, layout->name);
	live_require(pdd_scanner_prune(&live->scanner) == 0, "prune");
	after = settle(&stats, nthreads);
	live_require(pdd_scanner_prune(&live->scanner) == 0, "prune");
	after += settle(&stats, nthreads);
	check(&stats, &w, layout->name);
	printf("%-18s limit %3u, %u threads: %2u + %u passes, %" PRIu64 " refiled\n", layout->name,
	       limit, nthreads, before, after, stats.counts.refiles);
	finish(spaces);
}

static uint64_t seed(void)
{
	static uint64_t value;
	const char *given = getenv("PDD_SEED");

	if (!value) {
		value = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
		printf("PDD_SEED=%" PRIu64 "\n", value);
	}
	return value;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void run_all(struct live_options options)
{
	static const uint32_t limits[] = { 256, 8, 2 };
	const unsigned nlimits = sizeof(limits) / sizeof(limits[0]);
	/* Compares among collisions cost more than all else, and so do sanitizers: one limit,
	 * another each time. */
	bool one = options.two_bits || SANITIZED;
	unsigned first = one ? seed() % nlimits : 0;

	options.seed = seed();
	for (unsigned l = first; l < (one ? first + 1 : nlimits); l++) {
		options.tunables.max_page_sharing = limits[l];
		for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
			for (unsigned n = 1; n <= THREADS_MAX; n += options.two_bits ? 3 : 1)
				run(&options, &layouts[i], n);
	}
}

static struct live_options with(enum pdd_index_policy index, bool two_bits)
{
	struct live_options options = { .two_bits = two_bits };

	pdd_tunables_init(&options.tunables);
	options.tunables.aging = PDD_AGING_NONE;
	options.tunables.index = index;
	return options;
}

static void test_retained(void **unused)
{
	run_all(with(PDD_INDEX_RETAINED, false));
}

static void test_rebuilt(void **unused)
{
	run_all(with(PDD_INDEX_REBUILT, false));
}

/* Nearly all that a search meets are collisions. */
static void test_collisions(void **unused)
{
	run_all(with(PDD_INDEX_RETAINED, true));
}

static void test_collisions_rebuilt(void **unused)
{
	run_all(with(PDD_INDEX_REBUILT, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retained),
		cmocka_unit_test(test_rebuilt),
		cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_collisions_rebuilt),
	};

	seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
