/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_counters.c - known bugs 14, 15 and 20: counters of one owner that did not add
 * up to those of all, that fell below 0, that a fork copied. (20 by its own test:
 * test_ksm_functional_fork.c.)
 *
 * All counts are 64-bit words, so that all of them are added up here, those of tomorrow included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

#define WORDS (sizeof(struct pdd_counts) / sizeof(uint64_t))
#define DOMAINS 3u
#define SPACES_MAX 8u

union counts {
	struct pdd_counts counts;
	uint64_t words[WORDS];
};

_Static_assert(sizeof(union counts) == WORDS * sizeof(uint64_t), "only words");

/* What owners that are gone had counted. */
static union counts retired;

static void add(union counts *total, const union counts *counts)
{
	for (unsigned i = 0; i < WORDS; i++)
		total->words[i] += counts->words[i];
}

/* Known bug 14: the sum of the owners' counters is the global one, for each domain as for all. */
static void assert_sums(const struct sim *sim)
{
	struct pdd_stats stats = sim_stats(sim);
	union counts of_domain[DOMAINS] = { 0 }, sum = retired, one;

	for (const struct sim_space *space = sim->spaces; space; space = space->next) {
		one.counts = sim_counts(space);
		add(&of_domain[space->domain], &one);
	}
	for (unsigned i = 0; i < DOMAINS; i++) {
		assert_int_equal(pdd_domain_counts(&sim->scanner, i, &one.counts), 0);
		assert_memory_equal(&one, &of_domain[i], sizeof(one));
		add(&sum, &one);
	}
	one.counts = stats.counts;
	assert_memory_equal(&sum, &one, sizeof(one));
	assert_int_equal(stats.pages_shared + stats.pages_sharing, stats.counts.ksm_merging_pages);
	assert_int_equal(stats.counts.reasons[PDD_REASON_NONE],
			 stats.counts.ksm_merging_pages + stats.counts.ksm_zero_pages);
	assert_int_equal(stats.counts.ksm_rmap_items,
			 stats.counts.ksm_merging_pages + stats.counts.ksm_zero_pages +
				 stats.counts.pages_unshared + stats.counts.pages_volatile);
}

/* An owner goes. Its gauges are 0 by then, what it counted stays in the total. */
static void retire(struct sim_space *space)
{
	union counts counts;

	while (space->regions)
		sim_region_remove(space->regions);
	counts.counts = sim_counts(space);
	assert_int_equal(counts.counts.pages, 0);
	assert_int_equal(counts.counts.ksm_rmap_items, 0);
	assert_int_equal(counts.counts.pages_due, 0);
	assert_int_equal(counts.counts.ksm_process_profit_bytes, 0);
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++)
		assert_int_equal(counts.counts.reasons[i], 0);
	add(&retired, &counts);
	sim_space_remove(space);
}

static struct sim_space *random_space(struct sim *sim, unsigned *n)
{
	struct sim_space *space;
	uint64_t which;

	*n = 0;
	for (space = sim->spaces; space; space = space->next)
		++*n;
	which = sim_random(sim, *n);
	for (space = sim->spaces; which--;)
		space = space->next;
	return space;
}

static void pin_or_so(struct sim *sim, struct sim_region *region, uint64_t first, uint64_t n)
{
	struct pdd_region *r = &region->region;

	switch (sim_random(sim, 6)) {
	case 0: (void)pdd_region_pin(r, first, n); break;
	case 1: (void)pdd_region_unpin(r, first, n); break;
	case 2: (void)pdd_region_exclude(r, first, n); break;
	case 3: (void)pdd_region_include(r, first, n); break;
	case 4: (void)pdd_region_discard(r, first, n); break;
	default: (void)pdd_region_unmerge(r, first, n, 1 + sim_random(sim, n)); break;
	}
}

/* One thing that an owner does, or that is done to it. */
static void befall(struct sim *sim)
{
	unsigned nspaces;
	struct sim_space *space = random_space(sim, &nspaces);
	struct sim_region *region = space->regions;
	uint64_t first = sim_random(sim, region->npages);
	uint64_t n = 1 + sim_random(sim, region->npages - first);

	switch (sim_random(sim, 12)) {
	case 0:
		if (nspaces < SPACES_MAX) /* known bug 20: all that the child has is 0 at first */
			space = sim_space_clone(space);
		assert_true(nspaces == SPACES_MAX || sim_counts(space).ksm_rmap_items == 0);
		break;
	case 1:
		if (nspaces > 3)
			retire(space);
		break;
	case 2:
		sim_region_resize(region, 1 + sim_random(sim, region->capacity));
		break;
	case 3:
		sim_space_add(sim, (uint32_t)sim_random(sim, DOMAINS));
		sim_region_add_with(sim->spaces, 20, 30, sim_random(sim, 2));
		if (nspaces >= SPACES_MAX)
			retire(sim->spaces);
		break;
	case 4:
	case 5:
		pin_or_so(sim, region, first, n);
		break;
	case 6:
		region->pages[first].hold_refuse =
			sim_random(sim, 2) ? PDD_REASON_PINNED : PDD_REASON_NONE;
		break;
	default: /* half of what is written is zero */
		for (; n; n--)
			sim_write(region, first + n - 1,
				  sim_random(sim, 2) ? 0 : 1 + sim_random(sim, 6));
	}
}

/* Pages that show the zero page by our doing. */
static uint64_t zero_pages(const struct sim *sim)
{
	uint64_t n = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		for (const struct sim_region *r = space->regions; r; r = r->next)
			for (uint64_t i = 0; i < r->npages; i++)
				n += r->pages[i].kind == PDD_PAGE_ZERO;
	return n;
}

/* Known bug 14: a page that the zero page replaced stayed counted as the owner's own, which was
 * noticed when the owner went. After any sequence of events the sums are right; and after a pass
 * that nothing stood in the way of the count of zero pages is what there is. */
static void test_14_owners_add_up(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 3, .max_period = 4 });

	memset(&retired, 0, sizeof(retired));
	for (uint32_t domain = 0; domain < DOMAINS; domain++)
		sim_region_add_with(sim_space_add(sim, domain), 20, 30, domain == 1);
	for (unsigned round = 0; round < 3000; round++) {
		befall(sim);
		assert_sums(sim);
		sim->fail_chance = round % 4 ? 0.1 : 0;
		if (round % 4 == 0) {
			sim_passes(sim, 1 + sim->scanner.priv.in_pass);
			assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, zero_pages(sim));
		} else {
			sim_step(sim, 1 + sim_random(sim, 40));
		}
		assert_sums(sim);
	}
	assert_true(retired.counts.zero_merges && retired.counts.adoptions);
	while (sim->spaces)
		retire(sim->spaces);
	assert_sums(sim);
	sim_destroy(sim);
}

/* ---- 15 ---- */

/* Between any two hooks a program writes: it fills pages with zeros, or others over those that
 * are about to be, or just were, replaced. No gauge of a space is more than its pages, which it
 * would be if it fell below 0. */
static void place_and_unplace(struct sim *sim, enum sim_hook hook, bool before)
{
	if (!sim->stepping)
		return;
	for (struct sim_space *space = sim->spaces; space; space = space->next) {
		const struct pdd_counts *counts = &space->space.priv.counts;
		struct sim_region *region = space->regions;

		assert_in_range(counts->ksm_zero_pages, 0, region->npages);
		assert_in_range(counts->pages_zero_filled, 0, region->npages);
		assert_in_range(counts->ksm_merging_pages, 0, region->npages);
		assert_in_range(counts->pages_unshared, 0, region->npages);
		assert_in_range(counts->ksm_rmap_items, 0, region->npages);
		assert_in_range(counts->pages_due, 0, region->npages);
		if (sim_random(sim, 4) == 0)
			sim_write(region, sim_random(sim, region->npages), sim_random(sim, 3) / 2);
	}
}

/* Known bug 15: zero pages were placed and written at once, the counter was not atomic, and fell
 * below 0. All calls of the library come from one thread, so the writes come between hooks. */
static void test_15_never_negative(void **unused)
{
	for (unsigned keep = 0; keep < 2; keep++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.keep_zero_pages = keep, .aging = PDD_AGING_NONE });

		for (unsigned i = 0; i < 3; i++)
			sim_region_add(sim_space_add(sim, 0), 30);
		sim->at = place_and_unplace;
		for (unsigned round = 0; round < 600; round++) {
			sim_step(sim, 1 + sim_random(sim, 60));
			assert_in_range(sim_stats(sim).counts.ksm_zero_pages, 0, keep ? 0 : 90);
			if (round % 50 == 49)
				assert_true(sim_unmerge(sim->spaces->regions, 0, 30) >= 0);
		}
		sim->at = NULL;
		assert_true(keep || sim_stats(sim).counts.zero_merges > 100);
		for (struct sim_space *space = sim->spaces; space; space = space->next)
			for (uint64_t i = 0; i < 30; i++)
				sim_write(space->regions, i, 100 + i);
		sim_passes(sim, 1 + sim->scanner.priv.in_pass);
		assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
		assert_int_equal(sim_stats(sim).counts.pages_zero_filled, 0);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_14_owners_add_up),
		cmocka_unit_test(test_15_never_negative),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
