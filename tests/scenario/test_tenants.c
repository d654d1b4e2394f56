/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_tenants.c - s62: what happens in one domain does not depend on the others in any way that a
 * tenant, or his statistics, could see. The same writes are done to domains that are alone with
 * their scanner and to domains that have one in common, and all figures must be the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define DOMAINS 3u
#define PAGES 40u
#define CLONES 2u

static const uint32_t domains[DOMAINS] = { 0, 7, UINT32_MAX };

/* A domain: two spaces, and some clones of the first. */
struct tenant {
	struct sim *sim;
	struct sim_region *regions[2 + CLONES];
	unsigned nregions;
};

static void create(struct tenant *tenant, struct sim *sim, uint32_t domain)
{
	*tenant = (struct tenant){ .sim = sim, .nregions = 2 };
	for (unsigned i = 0; i < 2; i++)
		tenant->regions[i] = sim_region_add(sim_space_add(sim, domain), PAGES);
}

static void write_at_random(struct tenant *tenant, uint64_t *random)
{
	for (uint64_t n = sim_random_of(random) % 40; n; n--) {
		struct sim_region *region =
			tenant->regions[sim_random_of(random) % tenant->nregions];

		sim_write(region, sim_random_of(random) % PAGES, sim_random_of(random) % 12);
	}
	if (sim_random_of(random) % 8 == 0 && tenant->nregions < 2 + CLONES)
		tenant->regions[tenant->nregions++] =
			sim_space_clone(tenant->regions[0]->space)->regions;
	if (sim_random_of(random) % 8 == 0)
		assert_true(sim_unmerge(tenant->regions[1], sim_random_of(random) % PAGES, 1) >= 0);
}

/* Which pages share a frame, as the number of the first page of those. */
static uint64_t first_sharer(const struct tenant *tenant, const struct sim_page *page)
{
	uint64_t n = 0;

	for (unsigned r = 0; r < tenant->nregions; r++)
		for (uint64_t i = 0; i < PAGES; i++, n++)
			if (tenant->regions[r]->pages[i].frame == page->frame)
				return n;
	return n;
}

static void assert_same(const struct tenant *a, const struct tenant *b, uint32_t domain)
{
	struct pdd_stats stats = sim_stats(b->sim);
	struct pdd_counts of_domain, alone;

	assert_int_equal(pdd_domain_counts(&a->sim->scanner, domain, &of_domain), 0);
	assert_int_equal(pdd_domain_counts(&b->sim->scanner, domain, &alone), 0);
	assert_memory_equal(&of_domain, &alone, sizeof(alone));
	assert_memory_equal(&stats.counts, &alone, sizeof(alone));
	for (unsigned r = 0; r < a->nregions; r++)
		for (uint64_t i = 0; i < PAGES; i++) {
			const struct sim_page *p = &a->regions[r]->pages[i];
			const struct sim_page *q = &b->regions[r]->pages[i];

			assert_int_equal(p->kind, q->kind);
			assert_int_equal(sim_reason(a->regions[r], i),
					 sim_reason(b->regions[r], i));
			assert_int_equal(first_sharer(a, p), first_sharer(b, q));
			if (p->kind == PDD_PAGE_SHARED && !p->frame->dropped)
				assert_int_equal(p->frame->frame.priv.domain, domain);
		}
}

/* Prunes come for all domains at once, whoever is the cause; so here they come always. */
static void prune_and_pass(struct sim *sim)
{
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	sim_pass(sim, UINT64_MAX);
}

static void run(uint64_t seed, uint32_t limit)
{
	const struct sim_options options = { .limit = limit, .aging = PDD_AGING_NONE };
	struct sim *common = sim_create(&options);
	struct tenant together[DOMAINS], alone[DOMAINS];
	uint64_t random[DOMAINS];

	for (unsigned d = 0; d < DOMAINS; d++) {
		create(&together[d], common, domains[d]);
		create(&alone[d], sim_create(&options), domains[d]);
		random[d] = seed + d;
	}
	for (unsigned pass = 0; pass < 30; pass++) {
		for (unsigned d = 0; d < DOMAINS; d++) {
			uint64_t again = random[d];

			write_at_random(&together[d], &random[d]);
			write_at_random(&alone[d], &again);
			prune_and_pass(alone[d].sim);
		}
		prune_and_pass(common);
		for (unsigned d = 0; d < DOMAINS; d++)
			assert_same(&together[d], &alone[d], domains[d]);
	}
	for (unsigned d = 0; d < DOMAINS; d++) {
		assert_true(sim_stats(alone[d].sim).pages_sharing > 0);
		sim_destroy(alone[d].sim);
	}
	sim_destroy(common);
}

static void test_as_if_alone(void **unused)
{
	for (unsigned round = 0; round < 30; round++)
		run(sim_seed() + 1000 * round, 2 + round % 9);
}

/* The row as it stands: the same page in domains A and B, and twice in A. */
static void test_row(void **unused)
{
	for (unsigned collide = 0; collide < 2; collide++) {
		struct sim *sim = sim_create(&(struct sim_options){
			.checksum = collide ? SIM_CHECKSUM_ZERO : SIM_CHECKSUM_DEFAULT,
		});
		struct sim_region *a = sim_region_add(sim_space_add(sim, 1), 2);
		struct sim_region *b = sim_region_add(sim_space_add(sim, 2), 1);
		struct pdd_counts counts;

		sim_write(a, 0, 5);
		sim_write(a, 1, 5);
		sim_write(b, 0, 5);
		sim_passes(sim, 70);
		assert_ptr_equal(a->pages[0].frame, a->pages[1].frame);
		assert_true(sim_is_shared(a, 0) && !sim_is_shared(b, 0));
		assert_int_equal(pdd_domain_counts(&sim->scanner, 1, &counts), 0);
		assert_int_equal(counts.ksm_merging_pages, 2);
		assert_int_equal(pdd_domain_counts(&sim->scanner, 2, &counts), 0);
		assert_int_equal(counts.ksm_merging_pages, 0);
		assert_int_equal(counts.reasons[PDD_REASON_UNIQUE], 1);
		/* B was not even held to be compared: no time that it takes tells of A. */
		assert_int_equal(sim->held_pages, 2);
		assert_int_equal(sim_stats(sim).search_compares + sim_stats(sim).collisions, 0);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_if_alone),
		cmocka_unit_test(test_row),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
