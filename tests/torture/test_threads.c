/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads.c - everybody at once, on live memory: threads that step, writers, owners who add
 * and remove, clone, resize, pin, exclude, unmerge, discard, prune and retune, one who walks frames
 * in reverse and reads statistics, one who wants quiet. No write may be lost, no contract be broken
 * (live_hooks.c), no frame be used after it was freed or be left over; and when all is still again,
 * what the library knows must be what the pages show.
 *
 * Regions come and go under `table`, locked for writing. Whoever uses one locks it for reading: all
 * but the threads that step, which have nothing but the library's own locking.
 *
 * PDD_SEED and PDD_SECONDS (of each world) can be set.
 */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "live.h"

#define SPACES 5u
#define PAGES_MAX 1500u
#define STEPPERS_MAX 4u

static struct live *live;
static struct live_space *spaces[SPACES]; /* under `table` */
static pthread_rwlock_t table;
static atomic_bool stop;
static atomic_ulong nsteps, npasses, nwrites, nops, nwalks, nhits, nquiets, nwaits;

static void count(atomic_ulong *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

static bool is_over(void)
{
	return atomic_load_explicit(&stop, memory_order_relaxed);
}

/* ---- threads that step ---- */

static struct pdd_budget any_budget(void)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	switch (live_random(4)) {
	case 0: budget.pages = 1 + live_random(3); break;
	case 1: budget.pages = 1 + live_random(400); break;
	case 2: budget.pages = PDD_EXTENT_PAGES * (1 + live_random(4)); break;
	default: break;
	}
	if (live_random(3) == 0)
		budget.deadline_ns = live_ops.now_ns(live) + live_random(200000);
	return budget;
}

static void *run_steps(void *arg)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));

	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	live_me.stepping = true;
	while (!is_over()) {
		struct pdd_budget budget = any_budget();
		int result = pdd_scanner_step(&live->scanner, worker, &budget);

		live_require(result >= PDD_STEP_MORE && result <= PDD_STEP_WAIT, "a step failed");
		live_require(!live_me.nreads && !live_me.in_scanner, "a step leaves a lock");
		count(&nsteps);
		if (result == PDD_STEP_PASS)
			count(&npasses);
		else if (result != PDD_STEP_MORE)
			sched_yield();
		if (result == PDD_STEP_WAIT)
			count(&nwaits);
	}
	free(worker);
	return NULL;
}

/* ---- any space, region, range; `table` is locked ---- */

static struct live_space *any_space(void)
{
	return spaces[live_random(SPACES)];
}

static struct live_region *any_region(const struct live_space *space)
{
	return space ? space->regions[live_random(LIVE_REGIONS)] : NULL;
}

/* Of sparse regions every second extent stays empty, unless all do. */
static bool is_hole(const struct live_region *region, uint64_t page)
{
	return !region->extents && page / PDD_EXTENT_PAGES % 2;
}

/* ---- writers ---- */

static void write_some(struct live_region *region)
{
	uint64_t page = live_random(region->npages), n = 1 + live_random(40);

	for (uint64_t end = page + n; page < end && page < region->npages; page++) {
		if (!is_hole(region, page))
			live_write(region, page);
		count(&nwrites);
	}
}

static void *run_writes(void *arg)
{
	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	while (!is_over()) {
		struct live_region *region;

		pthread_rwlock_rdlock(&table);
		region = any_region(any_space());
		if (region)
			write_some(region);
		pthread_rwlock_unlock(&table);
		for (uint64_t n = live_random(20); n; n--)
			sched_yield();
	}
	return NULL;
}

/* ---- owners ---- */

static void add_region(struct live_space *space)
{
	struct live_region *region =
		live_region_add(space, 1 + live_random(PAGES_MAX), live_random(3) == 0);
	unsigned number = 0;

	while (space->regions[number] != region)
		number++;
	if (live->options.clones && !pdd_object_regions(&space->objects[number]))
		live_require(pdd_region_attach(&region->region, &space->objects[number], 0) == 0,
			     "pdd_region_attach");
	for (uint64_t i = 0; i < region->npages; i++)
		if (!is_hole(region, i))
			live_set(region, i,
				 live_random(4) ? live_random(LIVE_CONTENTS)
						: live_random(1u << 20) * LIVE_CONTENTS + 1);
}

static void add_space(void)
{
	unsigned number = (unsigned)live_random(SPACES);

	if (spaces[number])
		return;
	spaces[number] = live_space_add(live, (uint32_t)live_random(2));
	live_space_lock(spaces[number]);
	add_region(spaces[number]);
	live_space_unlock(spaces[number]);
}

/* Whether clones of the space are attached to its objects. */
static bool is_cloned(const struct live_space *space)
{
	for (unsigned r = 0; r < LIVE_REGIONS; r++) {
		uint64_t own = space->regions[r] &&
			       space->regions[r]->region.priv.object == &space->objects[r];

		if (pdd_object_regions(&space->objects[r]) != own)
			return true;
	}
	return false;
}

static void remove_space(void)
{
	unsigned number = (unsigned)live_random(SPACES);

	if (!spaces[number] || is_cloned(spaces[number]))
		return;
	live_space_remove(spaces[number]);
	spaces[number] = NULL;
}

static void clone_space(void)
{
	struct live_space *space = any_space();
	unsigned number = (unsigned)live_random(SPACES);

	if (!space || spaces[number] || !live->options.clones)
		return;
	live_space_lock(space);
	spaces[number] = live_space_clone(space);
	live_space_unlock(space);
}

static void reorganise(void)
{
	struct live_space *space = any_space();
	unsigned number = (unsigned)live_random(LIVE_REGIONS);

	switch (live_random(6)) {
	case 0: add_space(); return;
	case 1: remove_space(); return;
	case 2: clone_space(); return;
	default: break;
	}
	if (!space)
		return;
	live_space_lock(space);
	if (!space->regions[number])
		add_region(space);
	else if (live_random(2))
		live_region_remove(space, number);
	else
		live_region_resize(space->regions[number],
				   1 + live_random(space->regions[number]->capacity));
	live_space_unlock(space);
}

static void keep_out(struct live_region *region, uint64_t first, uint64_t n)
{
	bool pin = live_random(2);
	int err;

	for (uint64_t i = first; i < first + n; i++)
		if (region->pages[i].kept_out)
			return;
	err = pin ? pdd_region_pin(&region->region, first, n)
		  : pdd_region_exclude(&region->region, first, n);
	for (uint64_t i = first; !err && i < first + n; i++) {
		live_page_lock(&region->pages[i]);
		live_require(region->pages[i].kind == PDD_PAGE_PRIVATE ||
				     region->pages[i].kind == PDD_PAGE_ABSENT,
			     "a page that is kept out has no memory of its own");
		live_page_unlock(&region->pages[i]);
		region->pages[i].kept_out = pin ? LIVE_PINNED : LIVE_EXCLUDED;
	}
	live_require(!err || live->options.failures, "a page cannot be kept out");
}

/* Undo it for the pages from the first on that are kept out alike. */
static void let_in(struct live_region *region, uint64_t first)
{
	uint8_t how = region->pages[first].kept_out;
	uint64_t n = 0;
	int err;

	for (; how && first + n < region->npages && region->pages[first + n].kept_out == how; n++)
		region->pages[first + n].kept_out = LIVE_OPEN;
	if (!how)
		return;
	err = how == LIVE_PINNED ? pdd_region_unpin(&region->region, first, n)
				 : pdd_region_include(&region->region, first, n);
	live_require(!err, "a page cannot be let in");
}

static void use_region(struct live_region *region)
{
	uint64_t first = live_random(region->npages), n = 1 + live_random(100);
	int64_t done = 0;

	if (n > region->npages - first)
		n = region->npages - first;
	switch (live_random(6)) {
	case 0:
	case 1: keep_out(region, first, n); break;
	case 2:
	case 3: let_in(region, first); break;
	case 4: done = pdd_region_unmerge(&region->region, first, n, n); break;
	default: done = pdd_region_discard(&region->region, first, n); break;
	}
	live_require(done >= 0 || done == -EBUSY || live->options.failures,
		     "an owner's call failed");
}

/* Between steps of others, or in the middle of one: then not now. */
static int retune(void)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };

	live_require(pdd_scanner_get_tunables(&live->scanner, &tunables) == 0, "get_tunables");
	tunables.max_page_sharing = live_random(2) ? 2 + (uint32_t)live_random(6) : 256;
	tunables.chain_prune_ms = live_random(2) ? 0 : 5;
	tunables.use_zero_pages = (uint32_t)live_random(2);
	tunables.aging = live_random(2) ? PDD_AGING_NONE : PDD_AGING_PHASE;
	tunables.one_look = live_random(4) == 0;
	tunables.index = live_random(4) ? PDD_INDEX_RETAINED : PDD_INDEX_REBUILT;
	return pdd_scanner_set_tunables(&live->scanner, &tunables);
}

static void retune_now(void)
{
	int err = retune();

	live_require(err == 0 || err == -EAGAIN, "pdd_scanner_set_tunables");
}

static void own_space(struct live_space *space)
{
	struct live_region *region;

	if (!space)
		return;
	live_space_lock(space);
	region = any_region(space);
	if (region)
		use_region(region);
	else if (live_random(4) == 0)
		(void)pdd_space_unmerge(&space->space, 1 + live_random(1000));
	live_space_unlock(space);
}

static void *run_owner(void *arg)
{
	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	while (!is_over()) {
		uint64_t dice = live_random(32);
		bool all = dice < 4;

		if (all)
			pthread_rwlock_wrlock(&table);
		else
			pthread_rwlock_rdlock(&table);
		if (all)
			reorganise();
		else if (dice == 4)
			live_require(pdd_scanner_prune(&live->scanner) == 0, "pdd_scanner_prune");
		else if (dice == 5)
			retune_now();
		else
			own_space(any_space());
		pthread_rwlock_unlock(&table);
		count(&nops);
		for (uint64_t n = live_random(30); n; n--)
			sched_yield();
	}
	return NULL;
}

/* ---- reverse walks, statistics ---- */

static bool on_hit(void *ctx, enum pdd_mapping mapping, struct pdd_region *pdd_region,
		   uint64_t page)
{
	const struct live_region *region = (const struct live_region *)(void *)pdd_region;
	const struct live_frame *frame = ctx;

	live_require(!live_me.in_scanner, "a walk calls back with the lock held");
	live_require(page < region->npages && region->space->domain == frame->domain,
		     "a walk tells of a page that cannot be");
	count(&nhits);
	if (live_random(8) == 0)
		sched_yield();
	return live_random(200) != 0;
}

static void walk(void)
{
	struct live_frame *frame = live_frame_pick(live);
	struct pdd_rmap_room room[8];
	struct pdd_rmap_result result;

	if (!frame)
		return;
	/* A frame that is being founded is not initialised, and one that went back is not to be
	 * walked: this one has sharers, as the library says, which keep it from both. */
	if (!atomic_load(&frame->freed) && atomic_load(&frame->maps)) {
		live_require(pdd_rmap_walk(&live->scanner, &result, &frame->frame, room,
					   1 + live_random(8), on_hit, frame) == 0,
			     "pdd_rmap_walk");
		count(&nwalks);
	}
	live_frame_put(live, frame);
}

/* Each snapshot adds up, for it is taken under the lock. */
static void read_statistics(void)
{
	struct pdd_stats stats = { .size = sizeof(stats) };
	uint64_t reasons = 0;

	live_require(pdd_scanner_stats(&live->scanner, &stats) == 0, "pdd_scanner_stats");
	live_require(stats.counts.ksm_merging_pages == stats.pages_shared + stats.pages_sharing,
		     "merging pages are not shared + sharing");
	live_require(stats.counts.ksm_rmap_items ==
			     stats.counts.ksm_merging_pages + stats.counts.ksm_zero_pages +
				     stats.counts.pages_unshared + stats.counts.pages_volatile,
		     "rmap items do not add up");
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
		reasons += stats.counts.reasons[i];
	live_require(reasons == stats.counts.pages, "reasons do not add up to pages");
	live_require(stats.counts.reasons[0] ==
			     stats.counts.ksm_merging_pages + stats.counts.ksm_zero_pages,
		     "reason none is not merging + zero");
}

static void explain_one(void)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };
	struct live_region *region = any_region(any_space());

	if (region)
		live_require(pdd_region_explain(&region->region, live_random(region->npages),
						&explanation) == 0,
			     "pdd_region_explain");
}

static void *run_reader(void *arg)
{
	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	while (!is_over()) {
		pthread_rwlock_rdlock(&table);
		walk();
		explain_one();
		pthread_rwlock_unlock(&table);
		read_statistics();
		for (uint64_t n = live_random(10); n; n--)
			sched_yield();
	}
	return NULL;
}

/* ---- quiet ---- */

static void check(void)
{
	const char *why = NULL;

	if (pdd_scanner_check(&live->scanner, &why))
		live_fail("%s", why);
}

static void verify_all(void)
{
	for (unsigned s = 0; s < SPACES; s++)
		if (spaces[s])
			live_verify_space(spaces[s]);
}

/* No step is under way; `all`: nobody else is at work either. */
static void use_quiet(bool all)
{
	atomic_store(&live->quiet, true);
	if (all) {
		live_me.alone = true;
		check();
		verify_all();
		if (live_random(8) == 0)
			(void)pdd_scanner_unmerge(&live->scanner, 1 + live_random(2000));
		live_require(retune() == 0, "set_tunables while it is quiet");
		live_me.alone = false;
	}
	sched_yield();
	atomic_store(&live->quiet, false);
}

static void *run_quiet(void *arg)
{
	live_thread_begin(live, (unsigned)(uintptr_t)arg);
	while (!is_over()) {
		bool all = live_random(4) == 0;

		if (all)
			pthread_rwlock_wrlock(&table);
		while (!pdd_scanner_quiesce(&live->scanner))
			sched_yield();
		use_quiet(all);
		pdd_scanner_resume(&live->scanner);
		if (all)
			pthread_rwlock_unlock(&table);
		count(&nquiets);
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	}
	return NULL;
}

/* ---- the end ---- */

/* What the library knows of a page is what it shows. */
static void check_page(const struct live_region *region, uint64_t number)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };
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
	const struct pdd_budget budget = { .pages = UINT64_MAX };
	struct pdd_tunables tunables = { .size = sizeof(tunables) };
	struct pdd_stats stats = { .size = sizeof(stats) };
	uint64_t merges = UINT64_MAX;
	unsigned n = 0;

	live->options.failures = live->options.losses = 0;
	live_require(pdd_scanner_get_tunables(&live->scanner, &tunables) == 0, "get_tunables");
	tunables.aging = PDD_AGING_NONE;
	live_require(pdd_scanner_set_tunables(&live->scanner, &tunables) == 0, "set_tunables");
	while (stats.counts.merges + stats.counts.zero_merges != merges || stats.counts.pages_due) {
		int result;

		merges = stats.counts.merges + stats.counts.zero_merges;
		do
			result = pdd_scanner_step(&live->scanner, worker, &budget);
		while (result == PDD_STEP_MORE);
		live_require(result == PDD_STEP_PASS || result == PDD_STEP_IDLE, "no pass");
		live_require(pdd_scanner_stats(&live->scanner, &stats) == 0, "stats");
		live_require(++n < 100, "still merging or due after 100 passes");
	}
	for (unsigned s = 0; s < SPACES; s++)
		for (unsigned r = 0; spaces[s] && r < LIVE_REGIONS; r++)
			for (uint64_t i = 0;
			     spaces[s]->regions[r] && i < spaces[s]->regions[r]->npages; i++)
				check_page(spaces[s]->regions[r], i);
	check();
	read_statistics();
	free(worker);
}

/* Remove everything; kept frames go with a prune. */
static void finish(void)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));
	const struct pdd_budget budget = { .pages = UINT64_MAX };
	struct pdd_stats stats = { .size = sizeof(stats) };

	for (unsigned left = SPACES; left;) { /* clones before what they were cloned from */
		left = 0;
		for (unsigned s = 0; s < SPACES; s++) {
			if (spaces[s] && !is_cloned(spaces[s])) {
				live_space_remove(spaces[s]);
				spaces[s] = NULL;
			}
			left += spaces[s] != NULL;
		}
	}
	live_require(pdd_scanner_prune(&live->scanner) == 0, "prune");
	while (pdd_scanner_step(&live->scanner, worker, &budget) == PDD_STEP_MORE)
		;
	check();
	live_require(pdd_scanner_stats(&live->scanner, &stats) == 0, "stats");
	live_require(!stats.counts.pages && !stats.pages_shared && !stats.pages_sharing &&
			     !stats.frames_kept && !stats.counts.ksm_rmap_items &&
			     !stats.counts.pages_due && !stats.counts.pages_unshared,
		     "a gauge is not 0 after everything went away");
	live_destroy(live);
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
	static const thread_fn others[] = { run_writes, run_writes, run_owner, run_owner,
					    run_reader, run_quiet };
	enum { OTHERS = sizeof(others) / sizeof(others[0]) };
	pthread_t threads[STEPPERS_MAX + OTHERS];
	unsigned n = 0;

	atomic_store(&stop, false);
	for (; n < nsteppers; n++)
		live_require(!pthread_create(&threads[n], NULL, run_steps,
					     (void *)(uintptr_t)(n + 2)),
			     "pthread_create");
	for (unsigned i = 0; i < OTHERS; i++, n++)
		live_require(!pthread_create(&threads[n], NULL, others[i],
					     (void *)(uintptr_t)(n + 2)),
			     "pthread_create");
	nanosleep(&(struct timespec){ .tv_sec = (time_t)seconds(),
				      .tv_nsec = (long)(seconds() * 1e9) % 1000000000 },
		  NULL);
	atomic_store(&stop, true);
	while (n--)
		live_require(!pthread_join(threads[n], NULL), "pthread_join");
}

static void report(unsigned nsteppers)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	live_require(pdd_scanner_stats(&live->scanner, &stats) == 0, "stats");
	printf("%u threads: %lu steps, %lu waits, %lu passes, %lu writes, %lu owners' calls, "
	       "%lu walks, %lu hits, %lu quiet; %" PRIu64 " merges, %" PRIu64 " adoptions, %" PRIu64
	       " refiles, %" PRIu64 " prunes, %" PRIu64 " lost, %lu of %lu hooks failed\n",
	       nsteppers, nsteps, nwaits, npasses, nwrites, nops, nwalks, nhits, nquiets,
	       stats.counts.merges, stats.counts.adoptions, stats.counts.refiles, stats.prunes,
	       stats.stale_frames, live->nfailed, live->ncalls);
	assert_true(nsteps && npasses && nwrites && nops && nquiets && stats.counts.merges);
	nsteps = nwaits = npasses = nwrites = nops = nwalks = nhits = nquiets = 0;
}

static void run_world(const struct live_options *options, unsigned nsteppers)
{
	struct live_options seeded = *options;
	pthread_rwlockattr_t attr;

	seeded.seed = seed() + nsteppers;
	live = live_create(&seeded);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&table, &attr);
	pthread_rwlockattr_destroy(&attr);
	for (unsigned n = 0; n < 20; n++)
		add_space();
	run_threads(nsteppers);
	live_thread_begin(live, 1);
	report(nsteppers);
	verify_all();
	check();
	settle();
	verify_all();
	finish();
	pthread_rwlock_destroy(&table);
}

static void run_worlds(const struct live_options *options)
{
	for (unsigned nsteppers = 1; nsteppers <= STEPPERS_MAX; nsteppers *= 2)
		run_world(options, nsteppers);
}

static void test_plain(void **unused)
{
	run_worlds(&(struct live_options){ .nroots = 256 });
}

static void test_tracked_failures(void **unused)
{
	run_worlds(&(struct live_options){ .tracked = true, .failures = 20 });
}

static void test_clones_lost_frames(void **unused)
{
	run_worlds(&(struct live_options){ .clones = true, .failures = 10, .losses = 5 });
}

static void test_clones_tracked_collisions(void **unused)
{
	run_worlds(&(struct live_options){
		.nroots = 4, .clones = true, .tracked = true, .two_bits = true, .failures = 5 });
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
