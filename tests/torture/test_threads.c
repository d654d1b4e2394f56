/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads.c - everybody at once, on live memory: threads that step, writers, owners who add
 * and remove, clone, resize, pin, exclude, unmerge, discard, prune and retune, one who walks frames
 * in reverse and reads statistics, one who wants quiet. No write may be lost, no contract be broken
 * (live_hooks.c), no frame be used after it was freed or be left over; and when all is still again,
 * what the library knows must be what the pages show.
 *
 * PDD_SEED and PDD_SECONDS (of each world) can be set; with PDD_STEPPERS there are worlds of so many
 * threads that step only.
 */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "crowd.h"

#define STEPPERS_MAX 4u
#define TRIES 100u /* of so many seconds, until all has happened */

/* ---- the end ---- */

/* What the library knows of a page is what it shows. */
static void check_page(const struct live_region *region, uint64_t number)
{
	struct pdd_explanation explanation = {.size = sizeof(explanation)};
	const struct live_page *page = &region->pages[number];
	bool lost = page->frame && atomic_load(&page->frame->lost);

	live_require(pdd_region_explain(&region->region, number, &explanation) == 0, "explain");
	if ((page->kind == PDD_PAGE_SHARED && !lost) != (explanation.state == PDD_STATE_SHARED) ||
	    (page->frame && !lost && explanation.frame != &page->frame->frame))
		live_fail("page %" PRIu64 " of kind %u is recorded in state %d (%s)", number,
			  page->kind, (int)explanation.state, pdd_reason_name(explanation.reason));
	if ((page->kind == PDD_PAGE_ZERO) != (explanation.state == PDD_STATE_ZERO))
		live_fail("page %" PRIu64 ": zero page", number);
}

/* Passes until all is settled, by one thread. */
static void settle(void)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));
	const struct pdd_budget budget = {.pages = UINT64_MAX};
	struct pdd_tunables tunables = {.size = sizeof(tunables)};
	struct pdd_stats stats = {.size = sizeof(stats)};
	uint64_t merges = UINT64_MAX;
	unsigned n = 0;

	crowd.live->options.failures = crowd.live->options.losses = 0;
	live_require(pdd_scanner_get_tunables(&crowd.live->scanner, &tunables) == 0,
		     "get_tunables");
	tunables.aging = PDD_AGING_NONE;
	live_require(pdd_scanner_set_tunables(&crowd.live->scanner, &tunables) == 0,
		     "set_tunables");
	while (stats.counts.merges + stats.counts.zero_merges != merges || stats.counts.pages_due) {
		int result;

		merges = stats.counts.merges + stats.counts.zero_merges;
		do
			result = pdd_scanner_step(&crowd.live->scanner, worker, &budget);
		while (result == PDD_STEP_MORE);
		live_require(result == PDD_STEP_PASS || result == PDD_STEP_IDLE, "no pass");
		live_require(pdd_scanner_stats(&crowd.live->scanner, &stats) == 0, "stats");
		live_require(++n < 100, "still merging or due after 100 passes");
	}
	for (unsigned s = 0; s < CROWD_SPACES; s++)
		for (unsigned r = 0; crowd.spaces[s] && r < LIVE_REGIONS; r++)
			for (uint64_t i = 0;
			     crowd.spaces[s]->regions[r] && i < crowd.spaces[s]->regions[r]->npages;
			     i++)
				check_page(crowd.spaces[s]->regions[r], i);
	crowd_check();
	crowd_read_statistics();
	free(worker);
}

/* Remove everything; kept frames go with a prune. */
static void finish(void)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));
	const struct pdd_budget budget = {.pages = UINT64_MAX};
	struct pdd_stats stats = {.size = sizeof(stats)};

	for (unsigned left = CROWD_SPACES; left;) { /* clones before what they were cloned from */
		left = 0;
		for (unsigned s = 0; s < CROWD_SPACES; s++) {
			if (crowd.spaces[s] && !crowd_is_cloned(crowd.spaces[s])) {
				live_space_remove(crowd.spaces[s]);
				crowd.spaces[s] = NULL;
			}
			left += crowd.spaces[s] != NULL;
		}
	}
	live_require(pdd_scanner_prune(&crowd.live->scanner) == 0, "prune");
	while (pdd_scanner_step(&crowd.live->scanner, worker, &budget) == PDD_STEP_MORE)
		;
	crowd_check();
	live_require(pdd_scanner_stats(&crowd.live->scanner, &stats) == 0, "stats");
	live_require(!stats.counts.pages && !stats.pages_shared && !stats.pages_sharing &&
			     !stats.frames_kept && !stats.counts.ksm_rmap_items &&
			     !stats.counts.pages_due && !stats.counts.pages_unshared,
		     "a gauge is not 0 after everything went away");
	live_destroy(crowd.live);
	free(worker);
}

/* ---- worlds ---- */

static double seconds(void)
{
	const char *value = getenv("PDD_SECONDS");

	return value ? strtod(value, NULL) : 0.4;
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

typedef void *(*thread_fn)(void *arg);

static void run_threads(unsigned nsteppers)
{
	static const thread_fn others[] = {crowd_run_writes, crowd_run_writes, crowd_run_owner,
					   crowd_run_owner,  crowd_run_reader, crowd_run_quiet};
	enum {
		OTHERS = sizeof(others) / sizeof(others[0])
	};
	pthread_t threads[STEPPERS_MAX + OTHERS];
	unsigned n = 0;

	atomic_store(&crowd.stop, false);
	for (; n < nsteppers; n++)
		live_require(!pthread_create(&threads[n], NULL, crowd_run_steps,
					     (void *)(uintptr_t)(n + 2)),
			     "pthread_create");
	for (unsigned i = 0; i < OTHERS; i++, n++)
		live_require(
			!pthread_create(&threads[n], NULL, others[i], (void *)(uintptr_t)(n + 2)),
			"pthread_create");
	nanosleep(&(struct timespec){.tv_sec = (time_t)seconds(),
				     .tv_nsec = (long)(seconds() * 1e9) % 1000000000},
		  NULL);
	atomic_store(&crowd.stop, true);
	while (n--)
		live_require(!pthread_join(threads[n], NULL), "pthread_join");
}

/* Whether everything that a world is for has happened; on a busy machine it may take its time. */
static bool is_enough(void)
{
	struct pdd_stats stats = {.size = sizeof(stats)};

	live_thread_begin(crowd.live, 1);
	live_require(pdd_scanner_stats(&crowd.live->scanner, &stats) == 0, "stats");
	return crowd.nsteps && crowd.npasses && crowd.nwrites && crowd.nops && crowd.nquiets &&
	       stats.counts.merges;
}

static void report(unsigned nsteppers)
{
	struct pdd_stats stats = {.size = sizeof(stats)};

	live_require(pdd_scanner_stats(&crowd.live->scanner, &stats) == 0, "stats");
	printf("%u threads: %lu steps, %lu waits, %lu passes, %lu writes, %lu owners' calls, "
	       "%lu walks, %lu hits, %lu quiet; %" PRIu64 " merges, %" PRIu64 " adoptions, %" PRIu64
	       " refiles, %" PRIu64 " prunes, %" PRIu64 " lost, %lu of %lu hooks failed\n",
	       nsteppers, crowd.nsteps, crowd.nwaits, crowd.npasses, crowd.nwrites, crowd.nops,
	       crowd.nwalks, crowd.nhits, crowd.nquiets, stats.counts.merges,
	       stats.counts.adoptions, stats.counts.refiles, stats.prunes, stats.stale_frames,
	       crowd.live->nfailed, crowd.live->ncalls);
}

static void run_world(const struct live_options *options, unsigned nsteppers)
{
	struct live_options seeded = *options;
	pthread_rwlockattr_t attr;

	seeded.seed = seed() + nsteppers;
	crowd.live = live_create(&seeded);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&crowd.table, &attr);
	pthread_rwlockattr_destroy(&attr);
	for (unsigned n = 0; n < 20; n++)
		crowd_add_space();
	for (unsigned tries = 0; tries < TRIES; tries++) {
		run_threads(nsteppers);
		if (is_enough())
			break;
	}
	report(nsteppers);
	assert_true(is_enough());
	crowd.nsteps = crowd.nwaits = crowd.npasses = crowd.nwrites = crowd.nops = crowd.nwalks =
		crowd.nhits = crowd.nquiets = 0;
	crowd_verify_all();
	crowd_check();
	settle();
	crowd_verify_all();
	finish();
	pthread_rwlock_destroy(&crowd.table);
}

static void run_worlds(const struct live_options *options)
{
	const char *given = getenv("PDD_STEPPERS");
	unsigned long only = given ? strtoul(given, NULL, 0) : 0;

	if (only) {
		assert_true(only <= STEPPERS_MAX);
		run_world(options, (unsigned)only);
		return;
	}
	for (unsigned nsteppers = 1; nsteppers <= STEPPERS_MAX; nsteppers *= 2)
		run_world(options, nsteppers);
}

static void test_plain(void **unused)
{
	run_worlds(&(struct live_options){.nroots = 256});
}

static void test_tracked_failures(void **unused)
{
	run_worlds(&(struct live_options){.tracked = true, .failures = 20});
}

static void test_clones_lost_frames(void **unused)
{
	run_worlds(&(struct live_options){.clones = true, .failures = 10, .losses = 5});
}

static void test_clones_tracked_collisions(void **unused)
{
	run_worlds(&(struct live_options){
		.nroots = 4, .clones = true, .tracked = true, .two_bits = true, .failures = 5});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_tracked_failures),
		cmocka_unit_test(test_clones_lost_frames),
		cmocka_unit_test(test_clones_tracked_collisions),
	};

	seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
