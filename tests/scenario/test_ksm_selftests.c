/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ksm_selftests.c - the rows of the kernel's ksm_tests (ksm-behaviour 3.1), each with its own
 * figures.
 *
 * Each begins with nothing merged, and smart scan is off. "Merge" is two full scans. Pages are 8
 * bytes, so that each byte of them can be given; -C takes larger ones of mixed words.
 *
 * Each row runs twice. With madvise a process registers a mapping before it is scanned. With prctl
 * (row "-t 1") all its mappings are registered, those that come later, too, while ksmd is at work.
 * Here the embedder registers in either case; what prctl adds is the order of things: the memory
 * comes as many regions, the last part first, in the middle of a pass over another process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sim.h"

enum how {
	MADVISE = 0,
	PRCTL = 1,
};

#define PARTS_MAX 10u

struct world {
	struct sim *sim;
	struct sim_region *parts[PARTS_MAX];
	uint64_t each; /* pages of a part */
	uint64_t npages;
	uint64_t others; /* pages of another process, all different */
	enum how how;
};

/* A page of `fill`, whose first byte is `first`. */
static uint64_t page_of(char fill, char first)
{
	unsigned char bytes[sizeof(uint64_t)];
	uint64_t word;

	memset(bytes, fill, sizeof(bytes));
	bytes[0] = (unsigned char)first;
	memcpy(&word, bytes, sizeof(word));
	return word;
}

static void write_page(const struct world *world, uint64_t page, uint64_t content)
{
	sim_write(world->parts[page / world->each], page % world->each, content);
}

static bool is_shared(const struct world *world, uint64_t page)
{
	return sim_is_shared(world->parts[page / world->each], page % world->each);
}

/* Another process is scanned for a pass and a half. */
static void scan_another(struct world *world)
{
	struct sim_region *region = sim_region_add(sim_space_add(world->sim, 0), 4);

	world->others = region->npages;
	for (uint64_t i = 0; i < region->npages; i++)
		sim_write(region, i, 1000000 + i);
	sim_pass(world->sim, 2);
	assert_int_equal(sim_step(world->sim, 2), PDD_STEP_MORE);
}

static struct world world_of(struct sim_options options, uint64_t npages, enum how how)
{
	struct world world = { .how = how, .npages = npages };
	struct sim_space *space;

	if (!options.page_shift)
		options.page_shift = 3;
	options.aging = PDD_AGING_NONE;
	world.sim = sim_create(&options);
	if (how == PRCTL)
		scan_another(&world);
	space = sim_space_add(world.sim, 0);
	world.each = how == MADVISE ? npages : (npages + PARTS_MAX - 1) / PARTS_MAX;
	for (uint64_t end = npages, part = (npages - 1) / world.each; end; part--) {
		world.parts[part] = sim_region_add(space, end - part * world.each);
		end = part * world.each;
	}
	return world;
}

/* run = 1 until full_scans has grown by two since the mappings were there. */
static void merge(const struct world *world)
{
	if (world->how == PRCTL) /* what came in the middle of a pass is none of its business */
		sim_pass(world->sim, UINT64_MAX);
	sim_passes(world->sim, 2);
}

static void assert_figures(const struct world *world, uint64_t shared, uint64_t sharing)
{
	struct pdd_stats stats = sim_stats(world->sim);

	assert_int_equal(stats.pages_shared, shared);
	assert_int_equal(stats.pages_sharing, sharing);
	assert_int_equal(stats.hook_errors, 0);
}

/* The tests' own rule for so many duplicates under a limit of `max` pages per frame. */
static void assert_duplicates(const struct world *world, uint64_t duplicates, uint64_t max)
{
	uint64_t shared = duplicates / max;

	if (duplicates % max <= 1) {
		assert_figures(world, shared, shared * (max - 1));
	} else {
		shared++;
		assert_figures(world, shared, duplicates - shared);
	}
}

static void fill(const struct world *world, char byte)
{
	for (uint64_t i = 0; i < world->npages; i++)
		write_page(world, i, page_of(byte, byte));
}

/* "-M -p 10", and the rule for other numbers of pages. */
static void merge_row(enum how how)
{
	static const uint32_t numbers[] = { 10, 2, 256, 257, 258, 513, 514 };
	static const uint32_t limits[] = { 256, 3, 9 };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		for (unsigned l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
			struct world world = world_of((struct sim_options){ .limit = limits[l] },
						      numbers[i], how);

			fill(&world, '*');
			merge(&world);
			assert_duplicates(&world, numbers[i], limits[l]);
			if (numbers[i] == 10 && limits[l] == 256)
				assert_figures(&world, 1, 9);
			assert_int_equal(sim_stats(world.sim).counts.pages_volatile, 0);
			sim_destroy(world.sim);
		}
	}
}

/* "-U": byte 0 of both pages of a pair is written. */
static void unmerge_row(enum how how)
{
	struct world world = world_of((struct sim_options){ 0 }, 2, how);

	fill(&world, '*');
	merge(&world);
	assert_figures(&world, 1, 1);
	write_page(&world, 0, page_of('*', '-'));
	write_page(&world, 1, page_of('*', '+'));
	sim_pass(world.sim, UINT64_MAX);
	assert_figures(&world, 0, 0);
	assert_null(world.sim->frames);
	sim_destroy(world.sim);
}

/* "-Z -p 10 -z 0" and "-Z -p 10 -z 1" */
static void zero_row(enum how how)
{
	for (unsigned use = 0; use < 2; use++) {
		struct sim_options options = { .keep_zero_pages = !use };
		struct world world = world_of(options, 10, how);

		fill(&world, 0);
		merge(&world);
		assert_figures(&world, use ? 0 : 1, use ? 0 : 9);
		assert_int_equal(sim_stats(world.sim).counts.ksm_zero_pages, use ? 10 : 0);
		sim_destroy(world.sim);
	}
}

/* "-N -m 1" and "-N -m 0": an equal page on each of two nodes. */
static void numa_row(enum how how)
{
	for (unsigned across = 0; across < 2; across++) {
		struct sim_options options = { .nodes_apart = !across };
		struct world world = world_of(options, 2, how);

		fill(&world, '*');
		sim_migrate(world.parts[1 / world.each], 1 % world.each, 1);
		merge(&world);
		assert_figures(&world, across, across);
		assert_int_equal(sim_stats(world.sim).counts.pages_unshared,
				 world.others + (across ? 0 : 2));
		sim_destroy(world.sim);
	}
}

#define AMOUNT 25600u /* pages of 4 KiB in 100 MiB */

/* "-P -s 100": 100 MiB of equal pages all merge. What it reports is the time. */
static void amount_row(enum how how)
{
	struct world world = world_of((struct sim_options){ 0 }, AMOUNT, how);

	fill(&world, '*');
	merge(&world);
	assert_figures(&world, 100, 25500);
	assert_duplicates(&world, AMOUNT, PDD_MAX_PAGE_SHARING);
	assert_int_equal(sim_stats(world.sim).counts.ksm_merging_pages, AMOUNT);
	sim_destroy(world.sim);
}

/* "-H -s 100": the same in huge pages. They are left alone; once they are broken up, all of their
 * pages merge, also equal ones of the same huge page (known bug 10). */
static void huge_row(enum how how)
{
	struct world world = world_of((struct sim_options){ 0 }, AMOUNT, how);

	fill(&world, '*');
	for (uint64_t i = 0; i < AMOUNT; i++)
		world.parts[i / world.each]->pages[i % world.each].refuse = PDD_REASON_HUGE;
	merge(&world);
	assert_figures(&world, 0, 0);
	assert_int_equal(sim_stats(world.sim).counts.reasons[PDD_REASON_HUGE], AMOUNT);
	assert_int_equal(world.sim->calls[SIM_HOLD], 0);
	for (uint64_t i = 0; i < AMOUNT; i++)
		world.parts[i / world.each]->pages[i % world.each].refuse = PDD_REASON_NONE;
	sim_passes(world.sim, 2);
	assert_figures(&world, 100, 25500);
	sim_destroy(world.sim);
}

/* "-D -s 100": everything merged is unmerged. What it reports is the time; here it is the number of
 * calls: neighbouring pages are given back together, an extent at a time. */
static void unmerge_amount_row(enum how how)
{
	struct world world = world_of((struct sim_options){ 0 }, AMOUNT, how);

	fill(&world, '*');
	merge(&world);
	assert_figures(&world, 100, 25500);
	assert_int_equal(pdd_scanner_unmerge(&world.sim->scanner, UINT64_MAX), AMOUNT);
	sim_verify(world.sim);
	assert_figures(&world, 0, 0);
	assert_null(world.sim->frames);
	for (uint64_t i = 0; i < AMOUNT; i++)
		assert_false(is_shared(&world, i));
	assert_int_equal(world.sim->calls[SIM_FRAMES_UNMAP], AMOUNT / PDD_EXTENT_PAGES);
	assert_int_equal(pdd_scanner_unmerge(&world.sim->scanner, UINT64_MAX), 0);
	sim_destroy(world.sim);
}

#define PAIRS 2000u

/* A write into every even page makes the pairs unequal, or undoes that. */
static void write_pairs(const struct world *world, bool equal)
{
	for (uint64_t pair = 0; pair < PAIRS; pair++)
		write_page(world, 2 * pair, (equal ? 0 : PAIRS) + 1 + pair);
}

/* "-C": 2000 pairs, each of its own content; every even page is written before and after they were
 * merged. (In the original they are runs of '+' and '*' of different lengths.) */
static void cow_row(enum how how)
{
	struct world world =
		world_of((struct sim_options){ .page_shift = 6, .nroots = 4096 }, 2 * PAIRS, how);
	struct pdd_counts counts;

	for (uint64_t pair = 0; pair < PAIRS; pair++)
		write_page(&world, 2 * pair + 1, 1 + pair);
	write_pairs(&world, false);
	merge(&world);
	assert_figures(&world, 0, 0);
	assert_int_equal(sim_stats(world.sim).counts.pages_unshared, 2 * PAIRS + world.others);

	write_pairs(&world, true);
	sim_passes(world.sim, 2);
	assert_figures(&world, PAIRS, PAIRS);

	write_pairs(&world, false);
	for (uint64_t pair = 0; pair < PAIRS; pair++)
		assert_true(!is_shared(&world, 2 * pair) && is_shared(&world, 2 * pair + 1));
	sim_pass(world.sim, UINT64_MAX);
	assert_figures(&world, PAIRS, 0); /* each odd page still shows its frame */
	counts = sim_stats(world.sim).counts;
	assert_int_equal(counts.unshares, PAIRS);
	assert_int_equal(counts.pages_volatile, PAIRS);

	write_pairs(&world, true);
	sim_passes(world.sim, 2);
	assert_figures(&world, PAIRS, PAIRS);
	sim_destroy(world.sim);
}

/* A test of each row, by madvise and by prctl ("-t 1"). */
#define ROW(name)                                    \
	static void test_##name(void **unused)       \
	{                                            \
		name##_row(MADVISE);                 \
	}                                            \
	static void test_##name##_t_1(void **unused) \
	{                                            \
		name##_row(PRCTL);                   \
	}

ROW(merge)
ROW(unmerge)
ROW(zero)
ROW(numa)
ROW(amount)
ROW(huge)
ROW(unmerge_amount)
ROW(cow)

#define TESTS(name) cmocka_unit_test(test_##name), cmocka_unit_test(test_##name##_t_1)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TESTS(merge),  TESTS(unmerge), TESTS(zero),           TESTS(numa),
		TESTS(amount), TESTS(huge),    TESTS(unmerge_amount), TESTS(cow),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
