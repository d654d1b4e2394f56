/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tunables.c - ksm-behaviour 2, the knobs that are settings here: defaults, the edges of each
 * range, all or nothing, structs of older and newer callers, and when a change is refused.
 *
 *	KSM                                    here
 *	merge_across_nodes                     the same; -EBUSY while there is a frame
 *	max_page_sharing                       the same, but at any time
 *	use_zero_pages                         the same
 *	smart_scan                             aging, max_period_passes
 *	stable_node_chains_prune_millisecs     chain_prune_ms
 *	pages_to_scan, sleep_millisecs, run    not settings: pdd_budget, pdd_scanner_unmerge()
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

#define AT(member) offsetof(struct pdd_tunables, member)

/* Each setting: its default, another value, values that are taken and such that are not. */
static const struct knob {
	size_t at;
	uint32_t preset, other;
	uint32_t good[8];
	unsigned ngood;
	uint32_t bad[8];
	unsigned nbad;
} knobs[] = {
	{ AT(max_page_sharing), 256, 5, { 2, 3, 255, 256, UINT32_MAX }, 5, { 0, 1 }, 2 },
	{ AT(chain_prune_ms), 2000, 7, { 0, 1, 2000, UINT32_MAX }, 4, { 0 }, 0 },
	{ AT(merge_across_nodes), 1, 0, { 0, 1 }, 2, { 2, 255, UINT32_MAX }, 3 },
	{ AT(use_zero_pages), 1, 0, { 0, 1 }, 2, { 2, 256, UINT32_MAX }, 3 },
	{ AT(aging), PDD_AGING_PHASE, PDD_AGING_NONE, { 0, 1, 2, 3 }, 4, { 4, UINT32_MAX }, 2 },
	{ AT(max_period_passes), 0, 4, { 0, 1, 2, 4, 8, 16, 32, 64 }, 8,
	  { 3, 6, 63, 65, 128, 1u << 31, UINT32_MAX }, 7 },
	{ AT(one_look), 0, 1, { 0, 1 }, 2, { 2, UINT32_MAX }, 2 },
	{ AT(index), PDD_INDEX_RETAINED, PDD_INDEX_REBUILT, { 0, 1 }, 2, { 2, UINT32_MAX }, 2 },
};

#define KNOBS (sizeof(knobs) / sizeof(knobs[0]))

static uint32_t *value(struct pdd_tunables *t, const struct knob *knob)
{
	return (uint32_t *)(void *)((unsigned char *)t + knob->at);
}

static struct pdd_tunables get(const struct sim *sim)
{
	struct pdd_tunables t = { .size = sizeof(t) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
	assert_int_equal(t.size, sizeof(t));
	return t;
}

static int set(struct sim *sim, const struct pdd_tunables *t)
{
	return pdd_scanner_set_tunables(&sim->scanner, t);
}

/* What is in force is this, member by member. */
static void assert_in_force(const struct sim *sim, struct pdd_tunables *wanted)
{
	struct pdd_tunables t = get(sim);

	for (unsigned k = 0; k < KNOBS; k++)
		assert_int_equal(*value(&t, &knobs[k]), *value(wanted, &knobs[k]));
}

/* An engine that was given no settings. */
static struct sim *create(void)
{
	struct sim *sim = sim_create(NULL);
	struct pdd_tunables t;

	pdd_tunables_init(&t);
	assert_int_equal(t.size, sizeof(t));
	assert_int_equal(set(sim, &t), 0);
	return sim;
}

static void test_defaults(void **unused)
{
	unsigned char secret[PDD_SECRET_LEN_MIN] = { 1 };
	struct pdd_tunables t, read = { .size = sizeof(read) };
	struct pdd_rbroot root = { 0 };
	struct pdd_scanner scanner;

	pdd_tunables_init(&t);
	for (unsigned k = 0; k < KNOBS; k++)
		assert_int_equal(*value(&t, &knobs[k]), knobs[k].preset);
	assert_int_equal(pdd_scanner_init(&scanner, &sim_ops, NULL,
					  &(struct pdd_scanner_options){
						  .size = sizeof(struct pdd_scanner_options),
						  .roots = &root,
						  .nroots = 1,
						  .secret = secret,
						  .secret_len = sizeof(secret),
					  }),
			 0);
	assert_int_equal(pdd_scanner_get_tunables(&scanner, &read), 0);
	for (unsigned k = 0; k < KNOBS; k++)
		assert_int_equal(*value(&read, &knobs[k]), knobs[k].preset);
}

/* The edges of each range; a value that is refused changes none of the others. */
static void test_ranges(void **unused)
{
	struct sim *sim = create();

	for (unsigned k = 0; k < KNOBS; k++) {
		struct pdd_tunables before = get(sim), t;

		for (unsigned i = 0; i < knobs[k].nbad; i++) {
			t = before;
			for (unsigned other = 0; other < KNOBS; other++)
				*value(&t, &knobs[other]) = knobs[other].other;
			*value(&t, &knobs[k]) = knobs[k].bad[i];
			assert_int_equal(set(sim, &t), -EINVAL);
			assert_in_force(sim, &before);
		}
		for (unsigned i = 0; i < knobs[k].ngood; i++) {
			t = before;
			*value(&t, &knobs[k]) = knobs[k].good[i];
			assert_int_equal(set(sim, &t), 0);
			assert_int_equal(set(sim, &t), 0); /* the same again */
			assert_in_force(sim, &t);
		}
		assert_int_equal(set(sim, &before), 0);
	}
	sim_destroy(sim);
}

/* A caller that knows fewer of them sets those, and reads those; what lies behind keeps its value.
 * */
static void test_older_callers(void **unused)
{
	for (unsigned n = 0; n <= KNOBS; n++) {
		struct sim *sim = create();
		struct pdd_tunables t, wanted = get(sim);
		size_t size = sizeof(size_t) + n * sizeof(uint32_t);

		memset(&t, 0xff, sizeof(t)); /* out of range, but none of his */
		t.size = size;
		for (unsigned k = 0; k < n; k++) {
			*value(&t, &knobs[k]) = knobs[k].other;
			*value(&wanted, &knobs[k]) = knobs[k].other;
		}
		assert_int_equal(set(sim, &t), 0);
		assert_in_force(sim, &wanted);

		memset(&t, 0x5a, sizeof(t));
		t.size = size;
		assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), 0);
		assert_int_equal(t.size, size);
		for (unsigned k = 0; k < KNOBS; k++)
			assert_int_equal(*value(&t, &knobs[k]),
					 k < n ? *value(&wanted, &knobs[k]) : 0x5a5a5a5a);
		sim_destroy(sim);
	}
}

/* Sizes that cannot be: too small, or within a member. */
static void test_odd_sizes(void **unused)
{
	struct sim *sim = create();
	struct pdd_tunables before = get(sim), t = before;

	for (unsigned k = 0; k < KNOBS; k++)
		*value(&t, &knobs[k]) = knobs[k].other;
	for (t.size = 0; t.size < sizeof(t); t.size++) {
		if (t.size >= sizeof(size_t) && t.size % sizeof(uint32_t) == 0)
			continue;
		assert_int_equal(set(sim, &t), -EINVAL);
		assert_in_force(sim, &before);
	}
	for (t.size = 0; t.size < sizeof(size_t); t.size++)
		assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &t), -EINVAL);
	sim_destroy(sim);
}

/* A newer caller's further settings must be 0, which says "as before they were there". */
static void test_newer_callers(void **unused)
{
	struct {
		struct pdd_tunables t;
		unsigned char newer[16];
	} big = { .newer = { 0 } };
	struct sim *sim = create();
	struct pdd_tunables before = get(sim);

	big.t = before;
	big.t.size = sizeof(big);
	big.t.max_page_sharing = 9;
	for (size_t i = 0; i < sizeof(big.newer); i++) {
		big.newer[i] = 1;
		assert_int_equal(set(sim, &big.t), -EINVAL);
		assert_in_force(sim, &before);
		big.newer[i] = 0;
	}
	assert_int_equal(set(sim, &big.t), 0);
	memset(big.newer, 0x5a, sizeof(big.newer));
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &big.t), 0);
	assert_int_equal(big.t.size, sizeof(big));
	assert_int_equal(big.t.max_page_sharing, 9);
	for (size_t i = 0; i < sizeof(big.newer); i++)
		assert_int_equal(big.newer[i], 0);
	sim_destroy(sim);
}

/* Bytes behind the last setting would have to be 0, since the next one may stand in them within the
 * size that the callers of today give. */
static void test_no_blind_bytes(void **unused)
{
	struct sim *sim = create();
	struct pdd_tunables t = get(sim);

	assert_int_equal(AT(index) + sizeof(uint32_t), sizeof(t)); /* there are none today */
	assert_int_equal(set(sim, &t), 0);
	sim_destroy(sim);
}

/* ---- merge_across_nodes ---- */

static struct sim *world(struct sim_region **region)
{
	struct sim *sim = create();

	*region = sim_region_add(sim_space_add(sim, 0), 40);
	for (uint64_t i = 0; i < 40; i++) {
		sim_write(*region, i, i < 20 ? 1 : 100 + i);
		sim_migrate(*region, i, (uint16_t)(i % 4));
	}
	return sim;
}

static int set_across(struct sim *sim, uint32_t across)
{
	struct pdd_tunables t = get(sim);
	int err;

	t.merge_across_nodes = across;
	err = set(sim, &t);
	if (!err)
		sim->options.nodes_apart = !across;
	return err;
}

/* -EBUSY while pages are shared; the same value, and all other settings, are no change of it. */
static void test_across_while_shared(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region);
	struct pdd_tunables t, before;

	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	before = t = get(sim);
	assert_int_equal(set_across(sim, 0), -EBUSY);
	assert_int_equal(set_across(sim, 1), 0);
	t.merge_across_nodes = 0;
	t.use_zero_pages = 0;
	t.max_page_sharing = 7;
	assert_int_equal(set(sim, &t), -EBUSY);
	assert_in_force(sim, &before);
	t.max_page_sharing = 0; /* what is wrong in itself comes first */
	assert_int_equal(set(sim, &t), -EINVAL);
	sim_verify(sim);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);

	while (pdd_scanner_unmerge(&sim->scanner, 3))
		sim_verify(sim);
	assert_int_equal(set_across(sim, 0), 0);
	sim_settle(sim, 10);
	assert_int_equal(sim_stats(sim).pages_shared, 4); /* one for each node */
	assert_int_equal(set_across(sim, 1), -EBUSY);
	sim_destroy(sim);
}

/* Only kept frames are left: nobody shares them as far as is known, but clones show them. */
static void test_across_while_kept(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region);
	struct sim_space *clone;

	sim_passes(sim, 2);
	clone = sim_space_clone(region->space);
	while (pdd_scanner_unmerge(&sim->scanner, 100) > 0)
		;
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_stats(sim).frames_kept, 1);
	assert_int_equal(set_across(sim, 0), -EBUSY);
	sim_space_remove(clone);
	assert_int_equal(set_across(sim, 0), -EBUSY); /* nobody has asked for it yet */
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_int_equal(set_across(sim, 0), 0);
	sim_destroy(sim);
}

/* A change takes all pages out of the index and makes them due, in the middle of a pass, too. */
static void test_across_empties_the_index(void **unused)
{
	for (uint64_t steps = 0; steps < 3; steps++) {
		struct sim *sim = create();
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 40);
		uint64_t indexed;

		for (uint64_t i = 0; i < 40; i++) {
			sim_write(region, i, 100 + i / 2);
			sim_migrate(region, i, (uint16_t)(i % 2));
		}
		assert_int_equal(set_across(sim, 0), 0);
		sim_passes(sim, 100); /* all are old */
		indexed = sim_stats(sim).counts.pages_unshared;
		assert_int_equal(indexed, 40);
		for (uint64_t i = 0; i < steps; i++)
			sim_step(sim, 15);
		assert_int_equal(set_across(sim, 1), 0);
		sim_verify(sim);
		assert_int_equal(sim_stats(sim).counts.pages_unshared, 0);
		assert_int_equal(sim_stats(sim).counts.pages_due, 40);
		assert_int_equal(set_across(sim, 0), 0);
		assert_int_equal(set_across(sim, 1), 0);
		sim_passes(sim, steps ? 2 : 1);
		assert_int_equal(sim_stats(sim).pages_shared, 20);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_older_callers),
		cmocka_unit_test(test_odd_sizes),
		cmocka_unit_test(test_newer_callers),
		cmocka_unit_test(test_no_blind_bytes),
		cmocka_unit_test(test_across_while_shared),
		cmocka_unit_test(test_across_while_kept),
		cmocka_unit_test(test_across_empties_the_index),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
