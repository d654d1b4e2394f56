/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_kept_frames.c - s66: a frame that no page is known to share stays as long as a clone shows
 * it at which no pass has looked yet. Otherwise the clone would read memory that is free.
 *
 * That a page shows the right content at any time, and that no frame is freed while pages show it,
 * is checked by the simulation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

/* Pages of one content, merged, and a clone that is busy, so that no pass looks at it. */
static struct sim *world(struct sim_region **parent, struct sim_region **child, uint64_t npages,
			 uint32_t limit)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit });

	*parent = sim_region_add(sim_space_add(sim, 0), npages);
	for (uint64_t i = 0; i < npages; i++)
		sim_write(*parent, i, 1);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, npages);
	*child = sim_space_clone((*parent)->space)->regions;
	(*child)->space->busy = true;
	return sim;
}

static void assert_kept(const struct sim *sim, uint64_t nframes)
{
	assert_int_equal(sim_stats(sim).frames_kept, nframes);
	assert_int_equal(sim_stats(sim).pages_shared + sim_stats(sim).pages_sharing, 0);
}

/* The parent's pages leave the frame, in one way or another. */
static void leave(struct sim_region *parent, unsigned way)
{
	struct sim *sim = parent->space->sim;

	switch (way) {
	case 0: /* written, and seen */
		for (uint64_t i = 0; i < parent->npages; i++)
			sim_write(parent, i, 10 + i);
		sim_pass(sim, UINT64_MAX);
		break;
	case 1:
		assert_int_equal(sim_unmerge(parent, 0, parent->npages), parent->npages);
		assert_int_equal(pdd_region_exclude(&parent->region, 0, parent->npages), 0);
		break;
	case 2:
		assert_int_equal(pdd_region_discard(&parent->region, 0, parent->npages), 0);
		break;
	case 3:
		assert_int_equal(pdd_region_pin(&parent->region, 0, parent->npages), 0);
		break;
	case 4:
		sim_space_remove(parent->space);
		break;
	}
	sim_verify(sim);
}

/* The row: merge, clone, the parent leaves, prune, then the child is read and looked at. */
static void test_row(void **unused)
{
	for (unsigned way = 0; way < 5; way++) {
		struct sim_region *parent, *child;
		struct sim *sim = world(&parent, &child, 2, 0);
		unsigned char content[64];

		leave(parent, way);
		assert_kept(sim, 1);
		sim_prune(sim);
		assert_kept(sim, 1);
		assert_int_equal(sim->calls[SIM_FRAME_FREE], 0);
		sim_fill(sim, content, 1);
		for (uint64_t i = 0; i < 2; i++)
			assert_memory_equal(sim_content(child, i), content, sizeof(content));
		child->space->busy = false;
		sim_passes(sim, 2);
		assert_int_equal(sim_stats(sim).counts.adoptions, 2);
		assert_int_equal(sim_stats(sim).counts.adoptions_over_limit, 0);
		assert_int_equal(sim_stats(sim).frames_kept, 0);
		assert_int_equal(sim_counts(child->space).ksm_merging_pages, 2);
		assert_int_equal(sim_stats(sim).pages_shared, 1);
		assert_int_equal(sim->calls[SIM_FRAME_FREE], 0);
		/* An ordinary frame from now on: it goes back with the last of them. */
		leave(child, 0);
		assert_int_equal(sim->calls[SIM_FRAME_FREE], 1);
		sim_destroy(sim);
	}
}

/* No pass ever looks at the clone, which writes its pages or goes: a prune finds it out. */
static void test_never_looked_at(void **unused)
{
	for (unsigned gone = 0; gone < 2; gone++) {
		struct sim_region *parent, *child;
		struct sim *sim = world(&parent, &child, 4, 2);

		leave(parent, 0);
		assert_kept(sim, 2);
		if (gone)
			sim_space_remove(child->space);
		else
			for (uint64_t i = 0; i < 4; i++)
				sim_write(child, i, 50 + i);
		assert_kept(sim, 2); /* nobody has told */
		sim_prune(sim);
		assert_kept(sim, 0);
		assert_int_equal(sim->calls[SIM_FRAME_FREE], 2);
		assert_null(sim->frames);
		sim_destroy(sim);
	}
}

/* A kept frame takes no page, until one of a clone adopted it. */
static void test_closed(void **unused)
{
	struct sim_region *parent, *child;
	struct sim *sim = world(&parent, &child, 3, 0);
	const struct sim_frame *kept = sim->frames;

	leave(parent, 0);
	assert_kept(sim, 1);
	sim_write(parent, 0, 1); /* alone with that content */
	sim_passes(sim, 3);
	assert_false(sim_is_shared(parent, 0));
	assert_kept(sim, 1);
	sim_write(parent, 1, 1); /* two found a frame of their own, a dup of the kept one */
	sim_passes(sim, 3);
	assert_true(sim_is_shared(parent, 0) && sim_is_shared(parent, 1));
	assert_ptr_not_equal(parent->pages[0].frame, kept);
	assert_int_equal(sim_stats(sim).frames_kept, 1);
	assert_int_equal(sim_stats(sim).stable_node_dups, 2);
	child->space->busy = false;
	sim_passes(sim, 2); /* and a prune makes one frame of the two */
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 4);
	sim_destroy(sim);
}

/* A page that waits for want of room joins the frame that is adopted. */
static void test_opens(void **unused)
{
	struct sim_region *parent, *child;
	struct sim *sim = world(&parent, &child, 3, 0);

	leave(parent, 0);
	sim_write(parent, 0, 1);
	sim_passes(sim, 3);
	assert_int_equal(sim_reason(parent, 0), PDD_REASON_UNIQUE);
	child->space->busy = false;
	sim_passes(sim, 2);
	assert_true(sim_is_shared(parent, 0));
	assert_ptr_equal(parent->pages[0].frame, child->pages[0].frame);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	sim_destroy(sim);
}

/* Clones share a full frame beyond its limit; that is counted, and nobody else may do it. */
static void test_over_the_limit(void **unused)
{
	struct sim_region *parent, *child;
	struct sim *sim = world(&parent, &child, 4, 4);

	child->space->busy = false;
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 7);
	assert_int_equal(sim_stats(sim).counts.adoptions, 4);
	assert_int_equal(sim_stats(sim).counts.adoptions_over_limit, 4);
	leave(parent, 1); /* half of them go: full, no more */
	sim_write(sim_region_add(child->space, 1), 0, 1);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	sim_write(child, 0, 5); /* and another one: room for the new page */
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 4);
	sim_destroy(sim);
}

/* Clones of clones, which are written, looked at, or busy for long, and go; also without prunes. */
static void test_random(void **unused)
{
	unsigned adopting = 0;

	for (unsigned round = 0; round < 80; round++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.limit = 2 + round % 4,
			.checksum = round % 4 ? SIM_CHECKSUM_DEFAULT : SIM_CHECKSUM_ZERO,
			.prune_ms = round % 3 ? 0 : 1000,
			.nodes_apart = round % 5 == 0,
		});
		unsigned nspaces = 1;

		sim->random += round;
		sim->now = 1;
		sim_region_add(sim_space_add(sim, 0), 30);
		for (unsigned step = 0; step < 120; step++) {
			struct sim_space *space = sim->spaces;

			for (uint64_t n = sim_random(sim, nspaces); n; n--)
				space = space->next;
			for (uint64_t n = sim_random(sim, 15); n; n--)
				sim_write(space->regions, sim_random(sim, 30), sim_random(sim, 5));
			space->busy = sim_random(sim, 2);
			if (nspaces < 6 && sim_random(sim, 10) == 0) {
				sim_space_clone(space);
				nspaces++;
			} else if (nspaces > 1 && sim_random(sim, 15) == 0) {
				sim_space_remove(space);
				nspaces--;
			}
			sim_step(sim, 1 + sim_random(sim, 90));
		}
		adopting += sim_stats(sim).counts.adoptions > 0;
		sim_destroy(sim);
	}
	/* By chance a clone has nothing to adopt now and then. */
	assert_true(adopting > 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_never_looked_at),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_opens),
		cmocka_unit_test(test_over_the_limit),
		cmocka_unit_test(test_random),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
