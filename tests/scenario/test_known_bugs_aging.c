/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_aging.c - known bugs 28 and 30: equal pages that never met, as they were looked
 * at in different scans; and what was left of a page's age when it had shared a frame.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "item_internal.h"
#include "sim.h"

#define STARTS 8u
#define WAITS 201u
#define PAIRS (STARTS * WAITS)
#define OLD 130u /* passes after which a page has the highest age */

/* A policy, and how long equal pages may have to wait by it. */
struct policy {
	enum pdd_aging aging;
	enum pdd_index_policy index;
	uint32_t max_period;
	unsigned comes;  /* passes from the second look at a page that comes, until it merges */
	unsigned become; /* passes without a merge after an old page became equal to another */
};

/* All but KSM's, COUNTDOWN and REBUILT, which has the fault: see test_alignment.c. A page that is
 * written has to be looked at (a period at most); then it is due in the next pass, and merges in
 * it if the other page is in the index. In one that is rebuilt it may take a period more, less one
 * pass. COUNTDOWN's period is 9: the look, and 8 skips. */
static const struct policy policies[] = {
	{ PDD_AGING_PHASE, PDD_INDEX_RETAINED, 64, 0, 64 },
	{ PDD_AGING_PHASE, PDD_INDEX_RETAINED, 8, 0, 8 },
	{ PDD_AGING_PHASE, PDD_INDEX_REBUILT, 8, 7, 8 + 7 },
	{ PDD_AGING_EPOCH, PDD_INDEX_RETAINED, 8, 0, 8 },
	{ PDD_AGING_EPOCH, PDD_INDEX_REBUILT, 8, 7, 8 + 7 },
	{ PDD_AGING_NONE, PDD_INDEX_RETAINED, 8, 0, 1 },
	{ PDD_AGING_NONE, PDD_INDEX_REBUILT, 8, 0, 1 },
	{ PDD_AGING_COUNTDOWN, PDD_INDEX_RETAINED, 8, 0, 9 },
};

#define POLICIES (sizeof(policies) / sizeof(policies[0]))

static struct sim *world(const struct policy *policy, uint64_t npages, struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = policy->aging,
		.index = policy->index, .max_period = policy->max_period,
		.nroots = npages < 99 ? 8 : 4096 });

	*region = sim_region_add(sim_space_add(sim, 0), npages);
	return sim;
}

static bool is_pair_shared(const struct sim_region *region, uint64_t i, uint64_t npairs)
{
	return sim_is_shared(region, i) && sim_is_shared(region, npairs + i);
}

/* ---- 28 ---- */

/* Pages that came before this pass, and merged in it or earlier. */
static void check_pairs(const struct policy *policy, const struct sim_region *region, uint64_t pass)
{
	for (uint64_t i = 0; i < PAIRS; i++) {
		uint64_t second = i / WAITS + i % WAITS + 1; /* the second look at the younger one */
		bool shared = is_pair_shared(region, i, PAIRS);

		if (pass < second)
			assert_false(shared);
		if (pass >= second + policy->comes)
			assert_true(shared);
	}
}

/* A page comes at pass `start`, an equal one `wait` passes later, for each of both: they share at
 * the second look at the younger one, whether the older one is looked at then or not; with an index
 * that is rebuilt, in the period that begins then. (Pass by pass: test_alignment.c.) */
static void equal_page_comes(const struct policy *policy)
{
	struct sim_region *region;
	struct sim *sim = world(policy, 2 * PAIRS, &region);

	for (uint64_t pass = 0; pass < STARTS + WAITS + policy->comes; pass++) {
		for (uint64_t i = 0; i < PAIRS; i++) {
			if (pass == i / WAITS)
				sim_write(region, i, 1 + i);
			if (pass == i / WAITS + i % WAITS)
				sim_write(region, PAIRS + i, 1 + i);
		}
		sim_pass(sim, UINT64_MAX);
		check_pairs(policy, region, pass);
	}
	assert_int_equal(sim_stats(sim).pages_sharing, PAIRS);
	sim_destroy(sim);
}

static void test_28_equal_page_comes(void **unused)
{
	for (size_t i = 0; i < POLICIES; i++)
		equal_page_comes(&policies[i]);
}

/* Both are old, of different contents; then one is written, after any wait, and is equal to the
 * other. The pass of its phase finds that out; it is due then, and merges in the next one, or, with
 * an index that is rebuilt, when the other one is looked at. */
static void become_equal(const struct policy *policy)
{
	struct sim_region *region;
	struct sim *sim = world(policy, 2 * WAITS, &region);
	uint64_t passes[WAITS] = { 0 }; /* since they are equal */
	uint64_t most = 0;

	for (uint64_t i = 0; i < 2 * WAITS; i++)
		sim_write(region, i, 1 + i);
	sim_passes(sim, OLD);
	for (uint64_t pass = 0; pass < WAITS + policy->become; pass++) {
		if (pass < WAITS)
			sim_write(region, WAITS + pass, 1 + pass);
		sim_pass(sim, UINT64_MAX);
		for (uint64_t i = 0; i < WAITS && i <= pass; i++) {
			passes[i] += !is_pair_shared(region, i, WAITS);
			most = passes[i] > most ? passes[i] : most;
			assert_in_range(passes[i], 0, policy->become);
		}
	}
	assert_int_equal(sim_stats(sim).pages_sharing, WAITS);
	if (policy->aging != PDD_AGING_PHASE) /* by the phases of 201 contents it may be less */
		assert_int_equal(most, policy->become);
	sim_destroy(sim);
}

static void test_28_old_pages_become_equal(void **unused)
{
	for (size_t i = 0; i < POLICIES; i++)
		become_equal(&policies[i]);
}

/* Passes from the second look at the younger page on in which pages must have been looked at
 * together, if they ever are. With COUNTDOWN the younger one has to grow old first. */
static unsigned time_to_meet(const struct policy *policy)
{
	switch (policy->aging) {
	case PDD_AGING_NONE: return 0;
	case PDD_AGING_COUNTDOWN: return 13 + 9;
	case PDD_AGING_EPOCH:
	case PDD_AGING_PHASE: break;
	}
	return policy->max_period - 1;
}

/* The index is of no help: all checksums are equal, so that a page that a pass skips leaves the
 * index (search.c). Other pages keep it so. A page comes, and an equal one `wait` passes later:
 * they have to be looked at in one pass, whatever their ages. Whether they merge. */
static bool meet_in_one_pass(const struct policy *policy, unsigned wait)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = policy->aging,
		.index = policy->index, .max_period = policy->max_period, .nroots = 1,
		.checksum = SIM_CHECKSUM_ZERO });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 8);
	bool met;

	for (uint64_t i = 2; i < 8; i++)
		sim_write(region, i, 1 + i);
	sim_passes(sim, 6);
	sim_write(region, 0, 100);
	sim_passes(sim, wait);
	sim_write(region, 1, 100);
	sim_passes(sim, 2);
	assert_true(sim->scanner.priv.compare_passes > 0);
	for (unsigned n = time_to_meet(policy); n && !is_pair_shared(region, 0, 1); n--)
		sim_pass(sim, UINT64_MAX);
	met = is_pair_shared(region, 0, 1);
	sim_destroy(sim);
	return met;
}

/* Known bug 28: each item counted down for itself, so two equal pages could be looked at in turns
 * for ever: of 420 pairs 60 never merged. Here equal pages have equal phases, and periods are
 * nested. COUNTDOWN has neither: it owes what it merges otherwise to the index, which keeps pages
 * of no other's checksum only. So among collisions it has KSM's fault, for KSM's waits. */
static void test_28_all_waits(void **unused)
{
	for (size_t i = 0; i < POLICIES; i++) {
		for (unsigned wait = 0; wait < WAITS; wait++) {
			unsigned left = wait % 9;
			bool never = policies[i].aging == PDD_AGING_COUNTDOWN && wait >= 13 &&
				     (left == 4 || left == 6 || left == 7);

			if (meet_in_one_pass(&policies[i], wait) == never)
				fail_msg("policy %zu, wait %u", i, wait);
		}
	}
}

/* ---- 30 ---- */

static struct pdd_explanation explain(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&region->region, page, &explanation), 0);
	return explanation;
}

/* Ways out of a frame. */
enum way { WRITTEN = 0, WRITTEN_OTHER = 1, UNMERGED = 2, GONE = 3, DISCARDED = 4, WAYS = 5 };

/* What is known of page 0, which just left its frame: nothing, and nothing of what it was. */
static void assert_new(const struct sim_region *region)
{
	const struct pdd_item *item = sim_item(region, 0);
	struct pdd_explanation explanation = explain(region, 0);

	assert_int_equal(explanation.state, PDD_STATE_NEW);
	assert_int_equal(explanation.age, 0);
	assert_int_equal(item->priv.node.checksum, 0);
	assert_int_equal(item_class(item), PDD_CLASS_OTHER);
}

static void leave(struct sim *sim, struct sim_region *region, enum way way)
{
	switch (way) {
	case WRITTEN:
		sim_write(region, 0, 7); /* the same again, in memory of its own */
		return;                  /* known at the next look */
	case WRITTEN_OTHER:
		sim_write(region, 0, 8);
		return;
	case UNMERGED:
		assert_int_equal(sim_unmerge(region, 0, 1), 1);
		break;
	case GONE:
		region->pages[0].frame->gone = true;
		sim_prune(sim);
		break;
	case DISCARDED:
	default:
		assert_int_equal(pdd_region_discard(&region->region, 0, 1), 0);
		break;
	}
	assert_new(region);
	sim_write(region, 0, 7);
}

/* A page shares a frame at the age of `age` passes or so, does so for a while, and leaves it. */
static void share_and_leave(unsigned age, enum way way)
{
	struct sim_region *region;
	struct sim *sim = world(&policies[0], 4, &region);
	struct pdd_counts before;
	uint32_t shared_age;

	sim_write(region, 0, 7);
	sim_passes(sim, age);
	for (uint64_t i = 1; i < 4; i++)
		sim_write(region, i, 7);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 4);
	shared_age = explain(region, 0).age;
	before = sim_stats(sim).counts;
	sim_passes(sim, 70); /* no aging policy reads or changes a sharer's age */
	assert_int_equal(explain(region, 0).age, shared_age);
	assert_int_equal(sim_stats(sim).counts.pages_skipped, before.pages_skipped);
	assert_int_equal(sim_stats(sim).counts.pages_scanned, before.pages_scanned);

	leave(sim, region, way);
	if (sim->scanner.priv.in_pass) /* a step of the prune began it */
		sim_pass(sim, UINT64_MAX);
	if (explain(region, 0).age != 1 || sim_reason(region, 0) == PDD_REASON_NONE)
		sim_pass(sim, UINT64_MAX);
	/* One look was not enough, though the frame has this content and its checksum was known. */
	assert_int_equal(explain(region, 0).reason, PDD_REASON_FIRST_LOOK);
	assert_int_equal(explain(region, 0).age, 1);
	assert_false(sim_is_shared(region, 0));
	sim_pass(sim, UINT64_MAX);
	if (way == WRITTEN_OTHER)
		assert_int_equal(explain(region, 0).reason, PDD_REASON_UNIQUE);
	else if (way != GONE) /* then the others show nothing to share */
		assert_true(sim_is_shared(region, 0));
	sim_destroy(sim);
}

/* Known bug 30: what a shared page recorded lay over its checksum and age, so that after a write
 * they were garbage, and skipping read them while it was shared. Here a page that leaves its
 * frame, in whatever way, starts anew: it needs two looks, which come in the next two passes. */
static void test_30_leaving_starts_anew(void **unused)
{
	for (unsigned age = 0; age < 140; age += age < 20 ? 1 : 7)
		for (enum way way = 0; way < WAYS; way++)
			share_and_leave(age, way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_28_equal_page_comes),
		cmocka_unit_test(test_28_old_pages_become_equal),
		cmocka_unit_test(test_28_all_waits),
		cmocka_unit_test(test_30_leaving_starts_anew),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
