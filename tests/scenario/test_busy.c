/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_busy.c - s13: a space whose lock is held for ever costs its own pages a look, and nobody
 * else anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define CONTENTS 2048u
#define EACH 4u

struct world {
	struct sim *sim;
	struct sim_region *a, *b;
};

/* A's pages are equal to some of B's; A comes first in every pass. */
static struct world create(void)
{
	struct world w = { .sim = sim_create(&(struct sim_options){ .nroots = 8192 }) };

	w.a = sim_region_add(sim_space_add(w.sim, 0), CONTENTS);
	w.b = sim_region_add(sim_space_add(w.sim, 0), CONTENTS * EACH);
	for (uint64_t i = 0; i < CONTENTS * EACH; i++)
		sim_write(w.b, i, 1 + i % CONTENTS);
	for (uint64_t i = 0; i < CONTENTS; i++)
		sim_write(w.a, i, 1 + i);
	return w;
}

static void assert_b_merged(const struct world *w)
{
	struct pdd_counts counts = sim_counts(w->b->space);

	assert_int_equal(counts.ksm_merging_pages, CONTENTS * EACH);
	assert_int_equal(counts.pages_due, 0);
	assert_int_equal(sim_counts(w->a->space).ksm_merging_pages, 0);
	assert_int_equal(sim_stats(w->sim).pages_shared, CONTENTS);
}

/* Locked before it was scanned. */
static void test_never_seen(void **unused)
{
	struct world w = create();

	w.a->space->busy = true;
	sim_passes(w.sim, 3);
	assert_b_merged(&w);
	assert_int_equal(sim_counts(w.a->space).pages_busy, 3 * CONTENTS);
	sim_destroy(w.sim);
}

/* Locked after its pages were put into the index: B's pages find them there as twins. */
static void test_after_indexing(void **unused)
{
	struct world w = create();

	w.b->space->busy = true;
	sim_passes(w.sim, 2);
	assert_int_equal(sim_counts(w.a->space).pages_unshared, CONTENTS);
	w.b->space->busy = false;
	w.a->space->busy = true;
	sim_passes(w.sim, 3);
	assert_b_merged(&w);
	assert_int_equal(sim_counts(w.a->space).pages_unshared, 0);
	assert_int_equal(sim_counts(w.a->space).reasons[PDD_REASON_BUSY], CONTENTS);

	/* and its pages join as soon as it is free */
	w.a->space->busy = false;
	sim_passes(w.sim, 1);
	assert_int_equal(sim_counts(w.a->space).ksm_merging_pages, CONTENTS);
	sim_destroy(w.sim);
}

/* A pair: the twin's space is busy. The page at hand takes its place in the index. */
static void test_twin_busy(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 1);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 1);
	struct sim_region *c = sim_region_add(sim_space_add(sim, 0), 1);

	sim_write(a, 0, 1);
	sim_passes(sim, 100); /* so old that only being due makes it looked at soon */
	sim_write(b, 0, 1);
	sim_pass(sim, UINT64_MAX);
	a->space->busy = true;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(a, 0), PDD_REASON_BUSY);
	assert_int_equal(sim_reason(b, 0), PDD_REASON_UNIQUE);
	sim_write(c, 0, 1);
	sim_passes(sim, 2);
	assert_true(sim_is_shared(b, 0) && sim_is_shared(c, 0) && !sim_is_shared(a, 0));
	a->space->busy = false;
	sim_pass(sim, UINT64_MAX);
	assert_true(sim_is_shared(a, 0));
	sim_destroy(sim);
}

/* Known bugs 6 and 36: under collisions a busy space does not stand in the way either. */
static void test_collisions(void **unused)
{
	struct sim *sim = sim_create(
		&(struct sim_options){ .checksum = SIM_CHECKSUM_ZERO, .nroots = 1 });
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), 20);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), 20);

	for (uint64_t i = 0; i < 20; i++)
		sim_write(a, i, 1 + i);
	sim_passes(sim, 40);
	assert_int_equal(sim_stats(sim).pages_sharing, 0);
	a->space->busy = true;
	for (uint64_t i = 0; i < 20; i++)
		sim_write(b, i, 5 + i % 10);
	sim_passes(sim, 40);
	assert_int_equal(sim_counts(b->space).ksm_merging_pages, 20);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_seen),
		cmocka_unit_test(test_after_indexing),
		cmocka_unit_test(test_twin_busy),
		cmocka_unit_test(test_collisions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
