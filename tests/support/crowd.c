/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.c - see crowd.h: threads that step, write, walk frames in reverse and read statistics, and
 * one that wants quiet.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "crowd.h"

struct crowd crowd;

/* ---- threads that step ---- */

static struct pdd_budget any_budget(void)
{
	struct pdd_budget budget = {.pages = UINT64_MAX};

	switch (live_random(4)) {
	case 0:
		budget.pages = 1 + live_random(3);
		break;
	case 1:
		budget.pages = 1 + live_random(400);
		break;
	case 2:
		budget.pages = PDD_EXTENT_PAGES * (1 + live_random(4));
		break;
	default:
		break;
	}
	if (live_random(3) == 0)
		budget.deadline_ns = live_ops.now_ns(crowd.live) + live_random(200000);
	return budget;
}

void *crowd_run_steps(void *arg)
{
	struct pdd_worker *worker = calloc(1, sizeof(*worker));

	live_thread_begin(crowd.live, (unsigned)(uintptr_t)arg);
	live_me.stepping = true;
	while (!crowd_is_over()) {
		struct pdd_budget budget = any_budget();
		int result = pdd_scanner_step(&crowd.live->scanner, worker, &budget);

		live_require(result >= PDD_STEP_MORE && result <= PDD_STEP_WAIT, "a step failed");
		live_require(!live_me.nreads && !live_me.in_scanner, "a step leaves a lock");
		crowd_count(&crowd.nsteps);
		if (result == PDD_STEP_PASS)
			crowd_count(&crowd.npasses);
		else if (result != PDD_STEP_MORE)
			sched_yield();
		if (result == PDD_STEP_WAIT)
			crowd_count(&crowd.nwaits);
	}
	free(worker);
	return NULL;
}

/* ---- any space, region, range; `table` is locked ---- */

struct live_space *crowd_any_space(void)
{
	return crowd.spaces[live_random(CROWD_SPACES)];
}

struct live_region *crowd_any_region(const struct live_space *space)
{
	return space ? space->regions[live_random(LIVE_REGIONS)] : NULL;
}

bool crowd_is_hole(const struct live_region *region, uint64_t page)
{
	return !region->extents && page / PDD_EXTENT_PAGES % 2;
}

/* ---- writers ---- */

static void write_some(struct live_region *region)
{
	uint64_t page = live_random(region->npages), n = 1 + live_random(40);

	for (uint64_t end = page + n; page < end && page < region->npages; page++) {
		if (!crowd_is_hole(region, page))
			live_write(region, page);
		crowd_count(&crowd.nwrites);
	}
}

void *crowd_run_writes(void *arg)
{
	live_thread_begin(crowd.live, (unsigned)(uintptr_t)arg);
	while (!crowd_is_over()) {
		struct live_region *region;

		pthread_rwlock_rdlock(&crowd.table);
		region = crowd_any_region(crowd_any_space());
		if (region)
			write_some(region);
		pthread_rwlock_unlock(&crowd.table);
		for (uint64_t n = live_random(20); n; n--)
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
	crowd_count(&crowd.nhits);
	if (live_random(8) == 0)
		sched_yield();
	return live_random(200) != 0;
}

static void walk(void)
{
	struct live_frame *frame = live_frame_pick(crowd.live);
	struct pdd_rmap_room room[8];
	struct pdd_rmap_result result;

	if (!frame)
		return;
	/* A frame that is being founded is not initialised, and one that went back is not to be
	 * walked: this one has sharers, as the library says, which keep it from both. */
	if (!atomic_load(&frame->freed) && atomic_load(&frame->maps)) {
		live_require(pdd_rmap_walk(&crowd.live->scanner, &result, &frame->frame, room,
					   1 + live_random(8), on_hit, frame) == 0,
			     "pdd_rmap_walk");
		crowd_count(&crowd.nwalks);
	}
	live_frame_put(crowd.live, frame);
}

void crowd_read_statistics(void)
{
	struct pdd_stats stats = {.size = sizeof(stats)};
	uint64_t reasons = 0;

	live_require(pdd_scanner_stats(&crowd.live->scanner, &stats) == 0, "pdd_scanner_stats");
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
	struct pdd_explanation explanation = {.size = sizeof(explanation)};
	struct live_region *region = crowd_any_region(crowd_any_space());

	if (region)
		live_require(pdd_region_explain(&region->region, live_random(region->npages),
						&explanation) == 0,
			     "pdd_region_explain");
}

void *crowd_run_reader(void *arg)
{
	live_thread_begin(crowd.live, (unsigned)(uintptr_t)arg);
	while (!crowd_is_over()) {
		pthread_rwlock_rdlock(&crowd.table);
		walk();
		explain_one();
		pthread_rwlock_unlock(&crowd.table);
		crowd_read_statistics();
		for (uint64_t n = live_random(10); n; n--)
			sched_yield();
	}
	return NULL;
}

/* ---- quiet ---- */

void crowd_check(void)
{
	const char *why = NULL;

	if (pdd_scanner_check(&crowd.live->scanner, &why))
		live_fail("%s", why);
}

void crowd_verify_all(void)
{
	for (unsigned s = 0; s < CROWD_SPACES; s++)
		if (crowd.spaces[s])
			live_verify_space(crowd.spaces[s]);
}

/* No step is under way; `all`: nobody else is at work either. */
static void use_quiet(bool all)
{
	atomic_store(&crowd.live->quiet, true);
	if (all) {
		live_me.alone = true;
		crowd_check();
		crowd_verify_all();
		if (live_random(8) == 0)
			(void)pdd_scanner_unmerge(&crowd.live->scanner, 1 + live_random(2000));
		live_require(crowd_retune() == 0, "set_tunables while it is quiet");
		live_me.alone = false;
	}
	sched_yield();
	atomic_store(&crowd.live->quiet, false);
}

void *crowd_run_quiet(void *arg)
{
	live_thread_begin(crowd.live, (unsigned)(uintptr_t)arg);
	while (!crowd_is_over()) {
		bool all = live_random(4) == 0;

		if (all)
			pthread_rwlock_wrlock(&crowd.table);
		while (!pdd_scanner_quiesce(&crowd.live->scanner))
			sched_yield();
		use_quiet(all);
		pdd_scanner_resume(&crowd.live->scanner);
		if (all)
			pthread_rwlock_unlock(&crowd.table);
		crowd_count(&crowd.nquiets);
		nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
	}
	return NULL;
}
