/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_million_operations.c - s40: 1,000,000 random operations while every hook fails at random,
 * one call in a hundred. Nothing aborts, every content is what the model says, all structures hold
 * (looked at after every thousandth operation), and nothing leaks. test_model.c has more kinds of
 * operations and looks after each, but does fewer.
 *
 * PDD_OPERATIONS gives another number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

#define OPERATIONS 1000000u
#define WORLDS 4u
#define SPACES_MAX 4u
#define PAGES 40u
#define CONTENTS 10u

static struct sim_region *pick_region(struct sim *sim)
{
	uint64_t n = sim_random(sim, SPACES_MAX);
	struct sim_space *space = sim->spaces;

	while (n-- && space->next)
		space = space->next;
	return space->regions;
}

static uint64_t content(struct sim *sim)
{
	uint64_t i = sim_random(sim, CONTENTS);

	return i == 1 ? 1 | SIM_FILLED : i;
}

static void step(struct sim *sim)
{
	struct pdd_budget budget = { .pages = 1 + sim_random(sim, 60) };
	int result;

	sim->stepping = true;
	result = pdd_scanner_step(&sim->scanner, sim->worker, &budget);
	sim->stepping = false;
	assert_in_range(result, PDD_STEP_MORE, PDD_STEP_PASS);
}

static void add_or_remove_space(struct sim *sim)
{
	unsigned n = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next)
		n++;
	if (n == SPACES_MAX)
		sim_space_remove(sim->spaces);
	else if (sim_random(sim, 2))
		sim_space_clone(pick_region(sim)->space);
	else
		sim_region_add_with(sim_space_add(sim, (uint32_t)sim_random(sim, 2)), PAGES, PAGES,
				    sim_random(sim, 2));
}

static void retune(struct sim *sim)
{
	struct pdd_tunables t = sim->scanner.priv.tunables;

	t.index = (uint32_t)sim_random(sim, 2);
	t.aging = (uint32_t)sim_random(sim, PDD_AGING_EPOCH + 1);
	t.use_zero_pages = (uint32_t)sim_random(sim, 2);
	t.max_page_sharing = 2 + (uint32_t)sim_random(sim, 9);
	sim->limit_lowered = true;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &t), 0);
}

/* Any of these may fail, as the hooks do: then all is as it was. */
static void manage(struct sim *sim)
{
	struct sim_region *region = pick_region(sim);
	struct pdd_region *r = &region->region;
	uint64_t first = sim_random(sim, region->npages);
	uint64_t n = 1 + sim_random(sim, region->npages - first);

	switch (sim_random(sim, 12)) {
	case 0: (void)pdd_region_unmerge(r, first, n, 1 + sim_random(sim, 10)); break;
	case 1: (void)pdd_region_discard(r, first, n); break;
	case 2: (void)pdd_region_pin(r, first, 1); break;
	case 3: (void)pdd_region_exclude(r, first, 1 + n % 3); break;
	case 4: (void)pdd_region_include(r, 0, region->npages); break;
	case 5: sim_region_resize(region, 1 + sim_random(sim, region->capacity)); break;
	case 6: add_or_remove_space(sim); break;
	case 7: retune(sim); break;
	case 8: assert_int_equal(pdd_scanner_prune(&sim->scanner), 0); break;
	case 9: region->pages[first].hold_refuse = sim_random(sim, 2) * PDD_REASON_LOCKED; break;
	default:
		for (uint64_t i = 0; i < region->npages; i++)
			(void)pdd_region_unpin(r, i, 1);
		break;
	}
}

static void operate(struct sim *sim)
{
	uint64_t dice = sim_random(sim, 100);
	struct sim_region *region = pick_region(sim);

	if (dice < 50)
		sim_write(region, sim_random(sim, region->npages), content(sim));
	else if (dice < 90)
		step(sim);
	else if (dice < 94)
		region->space->busy = !region->space->busy;
	else
		manage(sim);
}

static uint64_t operations(void)
{
	const char *value = getenv("PDD_OPERATIONS");

	return value ? strtoull(value, NULL, 0) : OPERATIONS;
}

static uint64_t done;

static void run(const struct sim_options *options, uint64_t n)
{
	struct sim *sim = sim_create(options);
	struct pdd_stats stats;

	add_or_remove_space(sim_region_add(sim_space_add(sim, 0), PAGES)->space->sim);
	sim->fail_chance = 0.01;
	sim->partial = true;
	sim->fail_mask |= UINT64_C(1) << SIM_FRAME_CONTENT;
	if (options->checksum)
		sim->fail_mask |= UINT64_C(1) << SIM_CHECKSUM;
	for (uint64_t i = 1; i <= n; i++) {
		operate(sim);
		if (i % 1000 == 0)
			sim_verify(sim);
	}
	done += n;
	stats = sim_stats(sim);
	assert_true(stats.counts.merges > n / 100);
	assert_true(stats.hook_errors > n / 1000);
	sim_destroy(sim);
}

static void test_a_million(void **unused)
{
	for (unsigned world = 0; world < WORLDS; world++)
		run(&(struct sim_options){ .tracked = world & 1,
					   .checksum = world & 2 ? SIM_CHECKSUM_2_BITS
								 : SIM_CHECKSUM_DEFAULT,
					   .limit = 6 },
		    operations() / WORLDS);
	printf("%" PRIu64 " operations\n", done);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_million),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
