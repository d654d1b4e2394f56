/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_statistics_failures.c - hook_errors in all and by hook, failures[] by reason: each hook
 * fails a known number of times, each reason for which a merge can fail is brought about once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

/* Two equal pages and a zero page, looked at once; then a hook fails. */
static struct sim *world(struct sim_region **region, bool sparse)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE, .limit = 2 });

	*region = sim_region_add_with(sim_space_add(sim, 0), 6, 6, sparse);
	sim_write(*region, 0, 1);
	sim_write(*region, 1, 1);
	sim_write(*region, 3, 0);
	sim_pass(sim, UINT64_MAX);
	return sim;
}

/* All is merged. */
static struct sim *merged(struct sim_region **region)
{
	struct sim *sim = world(region, false);

	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_NONE], 3);
	return sim;
}

static void fail_once(struct sim *sim, enum sim_hook hook, int error)
{
	sim->fail_mask = BIT(hook);
	sim->fail_errno = error;
	sim->fail_at = sim->fallible + 1;
}

/* No other hook failed. */
static void assert_errors(const struct sim *sim, enum pdd_hook hook, uint64_t n)
{
	struct pdd_stats stats = sim_stats(sim);

	assert_int_equal(stats.hook_errors, n);
	for (unsigned i = 0; i < PDD_HOOKS_MAX; i++)
		assert_int_equal(stats.hook_errors_by_hook[i], i == (unsigned)hook ? n : 0);
}

/* What a hook needs so that it is called. */
static void step_once(struct sim *sim, struct sim_region *region)
{
	sim_pass(sim, UINT64_MAX);
}

static void unmerge(struct sim *sim, struct sim_region *region)
{
	assert_true(pdd_region_unmerge(&region->region, 0, 6, 6) < 0);
}

static void discard(struct sim *sim, struct sim_region *region)
{
	assert_true(pdd_region_discard(&region->region, 0, 6) < 0);
}

/* Two frames of one sharer each. */
static void refile(struct sim *sim, struct sim_region *region)
{
	uint64_t at = sim->fail_at - sim->fallible;

	sim->fail_at = 0;
	sim_write(region, 4, 1);
	sim_write(region, 5, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	sim_write(region, 0, 50);
	sim_write(region, 4, 51);
	sim->scanner.priv.ops.frames_remap = NULL;
	sim_pass(sim, UINT64_MAX);
	sim->scanner.priv.ops.frames_remap = sim_ops.frames_remap;
	sim->fail_at = sim->fallible + at;
	sim_prune(sim);
}

static void grow(struct sim *sim, struct sim_region *region)
{
	struct sim_region *sparse = sim_region_add_with(region->space, 10, 10, true);

	sim_write(sparse, 3, 3);
	sim_pass(sim, UINT64_MAX);
}

static const struct {
	enum pdd_hook hook;
	enum sim_hook sim_hook;
	bool merged;
	void (*call)(struct sim *sim, struct sim_region *region);
} hooks[] = {
	{ PDD_HOOK_PAGES_GET, SIM_PAGES_GET, false, step_once },
	{ PDD_HOOK_HOLD, SIM_HOLD, false, step_once },
	{ PDD_HOOK_FRAMES_CREATE, SIM_FRAMES_CREATE, false, step_once },
	{ PDD_HOOK_FRAMES_MAP, SIM_FRAMES_MAP, false, step_once },
	{ PDD_HOOK_ZERO_MAP, SIM_ZERO_MAP, false, step_once },
	{ PDD_HOOK_FRAMES_UNMAP, SIM_FRAMES_UNMAP, true, unmerge },
	{ PDD_HOOK_FRAMES_REMAP, SIM_FRAMES_REMAP, true, refile },
	{ PDD_HOOK_PAGES_DISCARD, SIM_PAGES_DISCARD, true, discard },
	{ PDD_HOOK_EXTENT_GET, SIM_EXTENT_GET, true, grow },
};

/* Each hook fails once: an error is counted, busy is none, save for a record that there is not. */
static void test_errors_by_hook(void **unused)
{
	static const int errors[] = { -EIO, -ENOMEM, -ENOSPC, -EINVAL, -1, -EBUSY, -EAGAIN };

	for (unsigned h = 0; h < sizeof(hooks) / sizeof(hooks[0]); h++) {
		for (unsigned e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
			struct sim_region *region;
			struct sim *sim = hooks[h].merged ? merged(&region)
							  : world(&region, false);
			bool busy = errors[e] == -EBUSY || errors[e] == -EAGAIN;

			fail_once(sim, hooks[h].sim_hook, errors[e]);
			hooks[h].call(sim, region);
			assert_true(sim->fallible >= sim->fail_at);
			sim->fail_at = 0;
			assert_errors(sim, hooks[h].hook,
				      !busy || hooks[h].hook == PDD_HOOK_EXTENT_GET);
			sim_settle(sim, 10);
			sim_destroy(sim);
		}
	}
}

/* ---- the checksum hook ---- */

static struct sim_region *target;
static uint64_t checksums; /* asked for in steps */

static void write_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook == SIM_HOLD && before)
		sim_write(target, 3, 9);
	checksums += hook == SIM_CHECKSUM && before && sim->stepping;
}

/* The k-th call of it fails in a pass in which pages are read, a frame is founded, a page is found
 * changed while it is held. False: there are not so many. */
static bool fail_checksum(uint64_t k)
{
	struct sim *sim = sim_create(&(struct sim_options){ .checksum = SIM_CHECKSUM_2_BITS });
	bool failed;

	target = sim_region_add(sim_space_add(sim, 0), 5);
	for (uint64_t i = 0; i < 5; i++)
		sim_write(target, i, i < 2 ? 1 : i < 4 ? 0 : 7);
	sim_pass(sim, UINT64_MAX);
	sim->at = write_before_hold;
	checksums = 0;
	sim->fallible = 0;
	sim->fail_mask = BIT(SIM_CHECKSUM);
	sim->fail_at = k;
	sim_pass(sim, UINT64_MAX);
	sim->at = NULL;
	failed = checksums >= k;
	sim->fail_at = 0;
	assert_errors(sim, PDD_HOOK_CHECKSUM, failed);
	sim_settle(sim, 70);
	sim_destroy(sim);
	return failed;
}

static void test_checksum_errors(void **unused)
{
	for (uint64_t k = 1; fail_checksum(k);)
		k++;
}

/* ---- failures by reason ---- */

/* The merge of the zero page fails, once, for each reason for which it can. */
static void test_failures_of_one(void **unused)
{
	static const struct {
		int error;
		enum sim_hook hook;
		enum pdd_reason refuse, reason;
	} ways[] = {
		{ -EBUSY, SIM_ZERO_MAP, PDD_REASON_NONE, PDD_REASON_BUSY },
		{ -ENOSPC, SIM_ZERO_MAP, PDD_REASON_NONE, PDD_REASON_MAPPING_BUDGET },
		{ -ENOMEM, SIM_ZERO_MAP, PDD_REASON_NONE, PDD_REASON_NO_MEMORY },
		{ -EIO, SIM_ZERO_MAP, PDD_REASON_NONE, PDD_REASON_HOOK_FAILED },
		{ 0, SIM_HOLD, PDD_REASON_PINNED, PDD_REASON_PINNED },
		{ 0, SIM_HOLD, PDD_REASON_PINS_UNSEEN, PDD_REASON_PINS_UNSEEN },
		{ 0, SIM_HOLD, PDD_REASON_LOCKED, PDD_REASON_LOCKED },
		{ 0, SIM_HOLD, PDD_REASON_NO_HOLD, PDD_REASON_NO_HOLD },
		{ 0, SIM_HOLD, PDD_REASON_NONE, PDD_REASON_CHANGED }, /* written meanwhile */
	};

	for (unsigned w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
		struct sim *sim = world(&target, false);

		if (ways[w].error)
			fail_once(sim, ways[w].hook, ways[w].error);
		else if (!ways[w].refuse)
			sim->at = write_before_hold;
		target->pages[3].hold_refuse = ways[w].refuse;
		sim_pass(sim, UINT64_MAX);
		sim->at = NULL;
		sim->fail_at = 0;
		for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
			assert_int_equal(sim_stats(sim).counts.failures[i], i == ways[w].reason);
		assert_int_equal(sim_stats(sim).counts.zero_merges, 0);
		assert_int_equal(sim_stats(sim).counts.merges, 2);
		assert_int_equal(sim_reason(target, 3), ways[w].reason);
		sim_destroy(sim);
	}
}

/* No merge can fail because a page is new, looked at once, or alone. */
static void assert_reasons_of_failures(const struct sim *sim)
{
	static const enum pdd_reason none[] = {
		PDD_REASON_NONE,       PDD_REASON_NEW,	    PDD_REASON_ABSENT,
		PDD_REASON_FIRST_LOOK, PDD_REASON_VOLATILE, PDD_REASON_UNIQUE,
		PDD_REASON_UNMERGED,   PDD_REASON_NO_RECORD,
	};

	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (sim_stats(sim).counts.failures[none[i]])
			fail_msg("a merge failed for the reason \"%s\"", pdd_reason_name(none[i]));
}

/* The page whose twin failed takes its place in the index, and is no failure of its own. */
static void test_failures_of_two(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region, false);

	region->pages[0].hold_refuse = PDD_REASON_PINNED;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.failures[PDD_REASON_PINNED], 1);
	assert_int_equal(sim_reason(region, 1), PDD_REASON_UNIQUE);
	assert_reasons_of_failures(sim);
	sim_destroy(sim);
}

/* A group of three of which no frame can be made: all of them fail for the same reason. */
static void test_failures_of_a_group(void **unused)
{
	static const int errors[] = { -ENOMEM, -ENOSPC, -EIO };
	static const enum pdd_reason reasons[] = { PDD_REASON_NO_MEMORY, PDD_REASON_NO_MEMORY,
						   PDD_REASON_HOOK_FAILED };

	for (unsigned e = 0; e < 3; e++) {
		struct sim *sim = sim_create(NULL);
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 3);

		for (uint64_t i = 0; i < 3; i++)
			sim_write(region, i, 1);
		sim_pass(sim, UINT64_MAX);
		fail_once(sim, SIM_FRAMES_CREATE, errors[e]);
		sim_pass(sim, UINT64_MAX);
		sim->fail_at = 0;
		assert_int_equal(sim_stats(sim).counts.failures[reasons[e]], 3);
		assert_reasons_of_failures(sim);
		assert_int_equal(sim_stats(sim).counts.pages_due, 3);
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 3);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_by_hook),
		cmocka_unit_test(test_checksum_errors),
		cmocka_unit_test(test_failures_of_one),
		cmocka_unit_test(test_failures_of_two),
		cmocka_unit_test(test_failures_of_a_group),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
