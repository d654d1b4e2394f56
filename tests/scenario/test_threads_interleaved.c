/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_threads_interleaved.c - a second thread comes into the library wherever the first one does
 * not hold the scanner's lock: in steps, prunes, reverse walks and calls of owners. It steps,
 * walks, or does what owners do to spaces that are not locked, at the k-th point, for every k.
 * Whatever it does, contents stay, the structures are valid, and all comes to the end that follows
 * from the contents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interleaved_deeds.h"

#define PAGES 14u
#define PASSES 11u

/* ---- the first thread's story ---- */

static uint64_t content(unsigned region, uint64_t page)
{
	switch (page % 6) {
	case 0:
		return 0;
	case 1:
		return 1 + page; /* in all regions */
	case 2:
		return 2; /* many */
	case 3:
		return 100 * (region + 1) + page; /* unique */
	case 4:
		return 2000 + page / 12; /* in each region twice */
	default:
		return 50 * (region / 2 + 1) + page;
	}
}

static struct sim *world(const struct sim_options *options, bool sparse)
{
	struct sim *sim = sim_create(options);
	unsigned number = 0;

	for (unsigned s = 0; s < 3; s++) {
		struct sim_space *space = sim_space_add(sim, s == 2);

		for (unsigned r = 0; r < 2 - s % 2; r++, number++) {
			struct sim_region *region = sim_region_add_with(space, PAGES, ROOM, sparse);

			for (uint64_t i = 0; i < PAGES; i++)
				sim_write(region, i, content(number, i));
		}
	}
	return sim;
}

/* As its owner. */
static void own(struct sim_space *space, bool owned)
{
	space->busy = owned;
	plan.armed = owned;
}

static void own_something(struct sim *sim, unsigned n)
{
	struct sim_space *space = sim->spaces->next ? sim->spaces->next : sim->spaces;
	struct sim_region *region = space->regions;

	if (!region)
		return;
	own(space, true);
	if (n == 4)
		assert_true(pdd_region_unmerge(&region->region, 0, region->npages, 3) >= 0);
	else if (n == 6)
		assert_int_equal(pdd_region_pin(&region->region, 3, 4), 0);
	else if (n == 7)
		(void)pdd_region_discard(&region->region, 0, 3); /* they may be pinned */
	else if (n == 9)
		sim_region_remove(region);
	own(space, false);
}

/* What happens before a pass: writes that take sharers from frames, owners' calls, a walk. */
static void live(struct sim *sim, unsigned n)
{
	struct sim_frame *frame = a_frame(sim, 1);

	for (struct sim_space *space = sim->spaces; n % 3 == 2 && space; space = space->next)
		for (struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = n % 4; i < r->npages; i += 4)
				if (sim_item(r, i) && !item_is_kept_out(sim_item(r, i)))
					sim_write(r, i, n == 2 ? 3000 + i : 1 + i % 3);
	own_something(sim, n);
	/* Until it begins it is up to the caller that the frame does not go back. */
	plan.arm_locked = n == 5 && frame;
	if (plan.arm_locked)
		walk_frame(sim, frame);
	plan.armed = false;
	if (n == 8)
		assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
}

/* The whole story, with one deed of the other thread in it; false: there are fewer points. */
static bool interleaved(const struct sim_options *options, bool sparse, uint64_t pages, uint64_t k,
			void (*deed)(struct sim *sim))
{
	struct sim *sim = world(options, sparse);
	bool happened;

	plan_begin(sim, k, deed);
	for (unsigned n = 0; n < PASSES; n++) {
		live(sim, n);
		pass_with_points(sim, pages);
	}
	happened = plan_end(sim);
	sim_verify(sim);
	sim_settle(sim, 20);
	for (unsigned n = 0; n < 2; n++) {
		sim_prune(sim);
		sim_settle(sim, 20);
	}
	sim_assert_settled(sim);
	sim_destroy(sim);
	return happened;
}

typedef void (*deed_fn)(struct sim *sim);
static const deed_fn deeds[] = {step_extent, step_all,	   step_on, walk,    prune,  remove_region,
				pin,	     exclude_some, discard, unmerge, resize, clone};

/* Each deed at each stride-th point; another stride begins with another seed. */
static void at_every_point(const struct sim_options *options, bool sparse, uint64_t pages,
			   uint64_t stride)
{
	uint64_t npoints = 0;

	for (unsigned d = 0; d < sizeof(deeds) / sizeof(deeds[0]); d++)
		for (uint64_t k = 1 + (sim_seed() + d) % stride;
		     interleaved(options, sparse, pages, k, deeds[d]); k += stride)
			npoints++;
	assert_true(npoints * stride > 2000);
	print_message("%u points, each %u.\n", (unsigned)npoints, (unsigned)stride);
}

static void test_default(void **unused)
{
	at_every_point(&(struct sim_options){.aging = PDD_AGING_NONE, .nroots = 8}, false, ALL, 1);
}

static void test_small_steps(void **unused)
{
	at_every_point(&(struct sim_options){.aging = PDD_AGING_NONE, .nroots = 8}, false, 5, 17);
}

static void test_short_chains(void **unused)
{
	at_every_point(
		&(struct sim_options){.aging = PDD_AGING_NONE, .limit = 3, .no_clones = true},
		false, ALL, 7);
}

static void test_tracked_sparse(void **unused)
{
	at_every_point(&(struct sim_options){.aging = PDD_AGING_NONE, .tracked = true}, true, ALL,
		       7);
}

static void test_collisions(void **unused)
{
	at_every_point(
		&(struct sim_options){.aging = PDD_AGING_NONE, .checksum = SIM_CHECKSUM_2_BITS},
		false, ALL, 7);
}

static void test_rebuilt(void **unused)
{
	at_every_point(&(struct sim_options){.aging = PDD_AGING_NONE, .index = PDD_INDEX_REBUILT},
		       false, ALL, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default),	     cmocka_unit_test(test_small_steps),
		cmocka_unit_test(test_short_chains), cmocka_unit_test(test_tracked_sparse),
		cmocka_unit_test(test_collisions),   cmocka_unit_test(test_rebuilt),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
