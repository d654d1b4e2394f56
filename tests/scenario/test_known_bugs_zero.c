/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_zero.c - known bug 11: between the checksum of a zero page and its replacement
 * the mapping went; KSM had not looked whether it was there, and crashed. When the zero page
 * cannot be put there, that ends it: nothing else is tried with the page in this look.
 *
 * A region itself cannot go between two hooks of a step, since its space is locked there. What
 * can is what stands at its pages; between two steps everything can.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define PAGES 6u
#define BIT(hook) (UINT64_C(1) << (hook))

/* What becomes of a page. */
enum fate { GONE = 0, KERNEL_ZERO = 1, SPECIAL = 2, FOREIGN = 3, FATES = 4 };

static struct {
	struct sim_region *region;
	unsigned pages; /* by their bits */
	enum fate fate;
	struct sim_frame *frame;
} vanish;

static void become(struct sim_region *region, uint64_t page, enum fate fate)
{
	switch (fate) {
	case GONE: sim_discard(region, page); break;
	case KERNEL_ZERO:
		sim_discard(region, page);
		region->pages[page].kind = PDD_PAGE_ZERO;
		break;
	case SPECIAL: region->pages[page].refuse = PDD_REASON_SPECIAL; break;
	case FOREIGN:
	case FATES: sim_show_foreign(region, page, vanish.frame); break;
	}
}

static void vanish_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_HOLD || !before)
		return;
	for (uint64_t i = 0; i < PAGES; i++)
		if (vanish.pages >> i & 1)
			become(vanish.region, i, vanish.fate);
	vanish.pages = 0;
}

static struct sim *world(bool sparse)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });

	vanish.region = sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(vanish.region, i, 0);
	return sim;
}

static void assert_zero_pages(const struct sim *sim, uint64_t n)
{
	struct pdd_counts counts = sim_stats(sim).counts;

	assert_int_equal(counts.ksm_zero_pages, n);
	assert_int_equal(counts.zero_merges, n);
	assert_int_equal(sim->traced[PDD_EVENT_ZEROED], n);
	/* Nothing else was tried. */
	assert_int_equal(sim->calls[SIM_FRAMES_CREATE], 0);
	assert_int_equal(counts.ksm_merging_pages, 0);
}

/* Any of the pages of a run are not there any more when they are to be held. */
static void test_11_pages_vanish(void **unused)
{
	for (unsigned round = 0; round < (1u << PAGES) * FATES * 2; round++) {
		unsigned gone = round / FATES / 2, left = 0;
		struct sim *sim = world(round & 1);

		vanish.frame = sim_foreign_frame(sim, 0);
		vanish.fate = round / 2 % FATES;
		vanish.pages = gone;
		sim_pass(sim, UINT64_MAX);
		sim->at = vanish_before_hold;
		sim_pass(sim, UINT64_MAX);
		sim->at = NULL;
		for (uint64_t i = 0; i < PAGES; i++) {
			bool zeroed = sim_reason(vanish.region, i) == PDD_REASON_NONE;

			assert_int_equal(zeroed, !(gone >> i & 1));
			left += zeroed;
		}
		assert_zero_pages(sim, left);
		sim_passes(sim, 2);
		assert_zero_pages(sim, left);
		for (uint64_t i = 0; i < PAGES; i++) { /* and back again */
			vanish.region->pages[i].refuse = PDD_REASON_NONE;
			if (gone >> i & 1)
				sim_write(vanish.region, i, 0);
		}
		sim_passes(sim, 2);
		assert_zero_pages(sim, PAGES);
		sim_destroy(sim);
	}
}

/* The range is unregistered between the two looks, after any step: shrunk, discarded, removed, or
 * removed and added again. What comes again needs two looks again. */
static void test_11_region_goes_between_looks(void **unused)
{
	for (unsigned round = 0; round < PAGES * 4 * 2; round++) {
		unsigned steps = round / 8 + 1, how = round / 2 % 4;
		struct sim *sim = world(round & 1);
		struct sim_space *space = vanish.region->space;
		uint64_t left;

		for (unsigned i = 0; i < steps; i++)
			sim_step(sim, 1);
		if (how == 0)
			sim_region_resize(vanish.region, 1);
		else if (how == 1)
			assert_int_equal(pdd_region_discard(&vanish.region->region, 0, PAGES), 0);
		else
			sim_region_remove(vanish.region);
		if (how == 3) {
			vanish.region = sim_region_add_with(space, PAGES, PAGES, round & 1);
			for (uint64_t i = 0; i < PAGES; i++)
				sim_write(vanish.region, i, 0);
		}
		left = how == 0 ? 1 : how == 3 ? PAGES : 0;
		if (sim->scanner.priv.in_pass)
			sim_pass(sim, 1);
		if (how == 3) {
			assert_zero_pages(sim, 0);
			sim_pass(sim, 1);
			assert_zero_pages(sim, 0);
		}
		if (how != 2)
			sim_pass(sim, 1);
		assert_zero_pages(sim, left);
		sim_destroy(sim);
	}
}

/* zero_map fails after `part` pages of the run. Pages that fail stay as they are in this look,
 * with the reason of the error, and no frame is made for them. */
static void fail_after(uint64_t part, int error, enum pdd_reason reason, bool used_up)
{
	/* A page fails alone, unless others would, too, or the hook was busy in the middle. */
	bool alone = !used_up && (part == 0 || reason != PDD_REASON_BUSY);
	struct sim *sim = world(false);

	sim_pass(sim, UINT64_MAX);
	sim->fail_mask = BIT(SIM_ZERO_MAP);
	sim->fail_errno = error;
	sim->fallible = 0;
	sim->part_once = part;
	sim->fail_at = part ? 0 : 1;
	sim_pass(sim, UINT64_MAX);
	for (uint64_t i = 0; i < PAGES; i++) {
		bool fails = alone ? i == part : i >= part;

		assert_int_equal(sim_reason(vanish.region, i), fails ? reason : PDD_REASON_NONE);
	}
	assert_zero_pages(sim, alone ? PAGES - 1 : part);
	sim->fail_at = 0;
	sim_pass(sim, UINT64_MAX);
	assert_zero_pages(sim, PAGES);
	sim_destroy(sim);
}

static void test_11_zero_map_fails(void **unused)
{
	for (uint64_t part = 0; part < PAGES; part++) {
		fail_after(part, -EBUSY, PDD_REASON_BUSY, false);
		fail_after(part, -EFAULT, PDD_REASON_HOOK_FAILED, false);
		fail_after(part, -ENOMEM, PDD_REASON_NO_MEMORY, true);
		fail_after(part, -ENOSPC, PDD_REASON_MAPPING_BUDGET, true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_11_pages_vanish),
		cmocka_unit_test(test_11_region_goes_between_looks),
		cmocka_unit_test(test_11_zero_map_fails),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
