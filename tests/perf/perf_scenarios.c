/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perf_scenarios --list | --print | --run | <scenario>
 *
 *	--list      name and number of pages of each scenario
 *	--print     what each counts while its work is done, checked for what it did
 *	--run       each is done, and nothing is printed: for counting the instructions of
 *	            perf_measured(), which is called once for each
 *	<scenario>  this one is done, for a profile
 *
 * It is linked twice: with the library compiled to count the nodes that searches visit, for
 * --print, and with the library as it is installed, for instructions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "measured.h"
#include "scenarios.h"

extern uint64_t pddi_visits;

/* Counts of the library's own, by where they are in struct pdd_stats. */
#define STATISTICS(X) \
	X(counts.pages_scanned) \
	X(counts.pages_hashed) \
	X(counts.pages_skipped) \
	X(counts.pages_clean) \
	X(counts.pages_busy) \
	X(counts.merges) \
	X(counts.zero_merges) \
	X(space_lock_misses) \
	X(collisions) \
	X(stale_twins) \
	X(search_compares) \
	X(chain_compares) \
	X(held_compares_equal) \
	X(held_compares_unequal)

static void print(const char *scenario, const char *name, uint64_t value)
{
	const char *dot = strchr(name, '.');

	if (value)
		printf("%s %s %" PRIu64 "\n", scenario, dot ? dot + 1 : name, value);
}

/* What is 0 is not printed: a count that appears in a comparison was 0 before. */
static void print_counts(const struct scenario *scenario, const struct pdd_stats *before,
			 const struct world *world)
{
	struct pdd_stats after = { .size = sizeof(after) };

	(void)pdd_scanner_stats(&world->scanner, &after);
#define X(field) print(scenario->name, #field, after.field - before->field);
	STATISTICS(X)
#undef X
	print(scenario->name, "reverse_walk_hits", world->hits);
	print(scenario->name, "node_visits", pddi_visits);
#define X(hook) print(scenario->name, #hook, world->calls[WORLD_##hook]);
	WORLD_HOOKS(X)
#undef X
}

static void run(const struct scenario *scenario, bool count)
{
	struct pdd_stats before = { .size = sizeof(before) };
	struct world *world = world_create(&scenario->options);

	scenario->prepare(world);
	(void)pdd_scanner_stats(&world->scanner, &before);
	memset(world->calls, 0, sizeof(world->calls));
	pddi_visits = 0;
	perf_measured(scenario->work, world);
	if (count) {
		print_counts(scenario, &before, world);
		world_check(world);
	}
	world_destroy(world);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	bool list = !strcmp(what, "--list"), count = !strcmp(what, "--print");
	bool all = count || !strcmp(what, "--run"), known = list || all;

	for (size_t i = 0; i < nscenarios; i++) {
		bool named = !strcmp(what, scenarios[i].name);

		if (list)
			printf("%s %" PRIu64 "\n", scenarios[i].name, scenarios[i].pages);
		if (all || named)
			run(&scenarios[i], count);
		known = known || named;
	}
	if (!known)
		fprintf(stderr, "usage: perf_scenarios --list | --print | --run | <scenario>\n");
	return known ? 0 : 2;
}
