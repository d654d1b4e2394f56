/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_model.c - random operations on simulated memory, whatever fails and whoever writes
 * meanwhile.
 *
 * What is done and what must hold is in support/model.h.
 *
 * PDD_SEED gives the first seed, PDD_ROUNDS the number of rounds, a seed each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

#define ROUNDS 400u
#define OPERATIONS 400u

static struct sim_options random_options(uint64_t seed)
{
	static const uint32_t shifts[] = { 3, 4, 6, 9, 12 };
	uint64_t state = seed;

	return (struct sim_options){
		.page_shift = shifts[sim_random_of(&state) % 5],
		.keep_zero_pages = sim_random_of(&state) % 4 == 0,
		.one_look = sim_random_of(&state) % 4 == 0,
		.limit = 2 + (uint32_t)(sim_random_of(&state) % 5),
		.nroots = 16 + sim_random_of(&state) % 64,
		.first_nroots = sim_random_of(&state) % 16, /* most grow */
		.aging = (enum pdd_aging)(sim_random_of(&state) % (PDD_AGING_EPOCH + 1)),
		.max_period = (UINT32_C(1) << sim_random_of(&state) % 8) / 2,
		.index = sim_random_of(&state) % 4 == 0 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
		.tracked = sim_random_of(&state) % 2,
		.checksum = seed % 2 ? SIM_CHECKSUM_DEFAULT
				     : SIM_CHECKSUM_ZERO + sim_random_of(&state) % 2,
		.no_zero_map = sim_random_of(&state) % 4 == 0,
		.nodes_apart = sim_random_of(&state) % 3 == 0,
		.no_refile = sim_random_of(&state) % 4 == 0,
		.no_discard = sim_random_of(&state) % 4 == 0,
	};
}

static void one_round(uint64_t seed, unsigned operations)
{
	static const double chances[] = { 0, 0.01, 0.2 };
	struct sim_options options = random_options(seed);
	struct sim *sim = sim_create(&options);
	struct model model = { .region_pages = 40 };

	sim->random = seed;
	sim->test = &model;
	sim->at = model_at_hook;
	sim->fail_chance = chances[sim_random(sim, 3)];
	sim->partial = sim_random(sim, 2);
	sim->max_views = sim_random(sim, 2) ? 0 : 1 + sim_random(sim, 3);
	sim->single_views = sim_random(sim, 4) == 0;
	model.write_chance = sim_random(sim, 2) ? 0 : 0.05;
	model.gone_frames = sim_random(sim, 4) == 0;
	model.ncontents = 2 + sim_random(sim, MODEL_CONTENTS - 1);
	if (options.checksum)
		sim->fail_mask |= UINT64_C(1) << SIM_CHECKSUM;
	if (model.gone_frames && sim_random(sim, 2))
		sim->fail_mask |= UINT64_C(1) << SIM_FRAME_CONTENT;
	while (operations--)
		model_operate(sim, sim_random(sim, MODEL_DICE));
	model_quiet_phase(sim);
	sim_destroy(sim);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

static void test_rounds(void **unused)
{
	uint64_t seed = sim_seed(), rounds = from_environment("PDD_ROUNDS", ROUNDS);
	bool loud = getenv("PDD_LOUD");

	for (uint64_t i = 0; i < rounds; i++) {
		if (loud)
			fprintf(stderr, "seed %" PRIu64 "\n", seed + i);
		sim_seed_set(seed + i);
		one_round(seed + i, OPERATIONS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounds),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
