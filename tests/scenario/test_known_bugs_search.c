/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_search.c - known bugs 8, 9 and 32: searches that miss what is there, and pages
 * that stay in the index longer than they should.
 *
 * Mostly all checksums are equal, so that the index is one tree ordered by contents alone, and
 * each search comes by others. Only then a search has to look at other pages at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "item_internal.h"
#include "sim.h"

/* ---- 8: dead nodes on the path ---- */

#define NODES 8u

struct path {
	struct sim *sim;
	struct sim_region *hand; /* whose page is come by first */
	struct sim_region *nodes[NODES];
};

/* Spaces of one page each, all of other contents and in the index; or with two equal pages each,
 * which share a frame. */
static struct path create_path(bool frames)
{
	struct path p = { .sim = sim_create(&(struct sim_options){ .nroots = 1,
		.checksum = SIM_CHECKSUM_ZERO, .aging = PDD_AGING_NONE }) };

	p.hand = sim_region_add(sim_space_add(p.sim, 0), 1);
	for (unsigned i = 0; i < NODES; i++) {
		p.nodes[i] = sim_region_add(sim_space_add(p.sim, 0), 1 + frames);
		for (uint64_t page = 0; page < p.nodes[i]->npages; page++)
			sim_write(p.nodes[i], page, 1 + i);
	}
	sim_settle(p.sim, 80);
	/* Frames that were founded for false twins go; searches compare from now on. */
	while (pdd_scanner_unmerge(&p.sim->scanner, UINT64_MAX) > 0)
		continue;
	sim_passes(p.sim, 2);
	assert_int_equal(sim_stats(p.sim).pages_shared, frames ? NODES : 0);
	assert_int_equal(sim_stats(p.sim).counts.pages_unshared, frames ? 0 : NODES);
	return p;
}

enum death { ABSENT = 0, BUSY = 1, REFUSED = 2, ZERO = 3, DEATHS = 4 };

static void kill_node(struct sim_region *node, enum death death)
{
	switch (death) {
	case ABSENT: sim_discard(node, 0); break;
	case BUSY: node->space->busy = true; break;
	case REFUSED: node->pages[0].refuse = PDD_REASON_HUGE; break;
	case ZERO:
		sim_discard(node, 0);
		node->pages[0].kind = PDD_PAGE_ZERO;
		break;
	case DEATHS: break;
	}
}

/* The page at hand is equal to one node's; some others die before its second look. */
static void search_past_dead_pages(unsigned twin, unsigned dead, enum death death)
{
	struct path p = create_path(false);
	unsigned ndead = 0;

	sim_write(p.hand, 0, 1 + twin);
	sim_pass(p.sim, UINT64_MAX);
	for (unsigned i = 0; i < NODES; i++) {
		if (dead >> i & 1) {
			kill_node(p.nodes[i], death);
			ndead++;
		}
	}
	sim_step(p.sim, 1); /* the page at hand, and no other */
	if (ndead <= 2)
		assert_true(sim_is_shared(p.hand, 0) && sim_is_shared(p.nodes[twin], 0));
	while (sim_stats(p.sim).full_scans < 4)
		sim_step(p.sim, 1);
	assert_true(sim_is_shared(p.hand, 0) && sim_is_shared(p.nodes[twin], 0));
	sim_destroy(p.sim);
}

/* Known bug 8: a search that met a node whose page was gone said that there was nothing. Here one
 * or two of them do not keep it from finding the twin in the same call, whichever they are; and
 * however many there are, the two meet in the same pass. */
static void test_8_dead_pages_on_the_path(void **unused)
{
	for (unsigned twin = 0; twin < NODES; twin++)
		for (unsigned dead = 0; dead < 1u << NODES; dead++)
			if (!(dead >> twin & 1))
				search_past_dead_pages(twin, dead, (dead + twin) % DEATHS);
}

/* The same for frames that their embedder lost: any number of them, always in the same call. */
static void test_8_gone_frames_on_the_path(void **unused)
{
	for (unsigned twin = 0; twin < NODES; twin++) {
		for (unsigned gone = 0; gone < 1u << NODES; gone++) {
			struct path p;

			if (gone >> twin & 1)
				continue;
			p = create_path(true);
			sim_write(p.hand, 0, 1 + twin);
			sim_pass(p.sim, UINT64_MAX);
			for (unsigned i = 0; i < NODES; i++)
				p.nodes[i]->pages[0].frame->gone = gone >> i & 1;
			sim_step(p.sim, 1);
			assert_true(sim_is_shared(p.hand, 0));
			assert_ptr_equal(p.hand->pages[0].frame, p.nodes[twin]->pages[0].frame);
			sim_destroy(p.sim);
		}
	}
}

/* ---- 9: nothing stays in the index ---- */

#define SPACES 6u
#define PAGES 8u

static struct {
	struct sim_region *regions[SPACES];
	bool missed[SPACES]; /* in this pass a lock of it was busy */
} nine;

static unsigned number_of(const struct pdd_space *space)
{
	unsigned i = 0;

	while (&nine.regions[i]->space->space != space)
		i++;
	return i;
}

/* Of half of the spaces the lock is busy now and then, for a visit as for a search. */
static bool trylock(void *ctx, struct pdd_space *space)
{
	unsigned i = number_of(space);

	if (i % 2 && sim_random(ctx, 3) == 0) {
		nine.missed[i] = true;
		return false;
	}
	return sim_ops.space_trylock(ctx, space);
}

/* The whole extent is busy. */
static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	unsigned i = number_of(pdd_region_space(region));

	if (i % 2 && sim_random(ctx, 8) == 0) {
		nine.missed[i] = true;
		return -EBUSY;
	}
	return sim_ops.pages_get(ctx, region, views, nviews, first, npages);
}

static void befall(struct sim *sim)
{
	for (unsigned n = 0; n < 4; n++) {
		struct sim_region *region = nine.regions[sim_random(sim, SPACES)];
		uint64_t page = sim_random(sim, PAGES);

		switch (sim_random(sim, 4)) {
		case 0: sim_discard(region, page); break;
		case 1: region->pages[page].refuse = PDD_REASON_LOCKED; break;
		default:
			region->pages[page].refuse = PDD_REASON_NONE;
			sim_write(region, page, 1 + sim_random(sim, 40));
		}
	}
}

/* A space that a pass came by: what is in the index is there, and came into it in this pass, if
 * it is not alone with its key. The one that was alone before may have stayed. */
static unsigned check_space(const struct sim_region *region, bool fresh)
{
	unsigned stayed = 0;

	for (uint64_t i = 0; i < PAGES; i++) {
		const struct pdd_item *item = sim_item(region, i);

		if (item_state(item) != ITEM_INDEXED)
			continue;
		assert_int_equal(region->pages[i].kind, PDD_PAGE_PRIVATE);
		assert_int_equal(region->pages[i].refuse, PDD_REASON_NONE);
		stayed += item_is_fresh(item) != fresh;
	}
	return stayed;
}

/* Known bug 9: one way out of the function for a page left it in the unstable tree, and two scans
 * later that was noticed, by a number of 8 bits that wraps around. Here an item of the index has
 * one bit for the pass in which it came, so that wraps around in every other pass. */
static void random_busy(enum sim_checksum checksum)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = 1, .checksum = checksum,
		.limit = 3, .aging = PDD_AGING_NONE });

	for (unsigned i = 0; i < SPACES; i++)
		nine.regions[i] = sim_region_add(sim_space_add(sim, 0), PAGES);
	sim->scanner.priv.ops.space_trylock = trylock;
	sim->scanner.priv.ops.pages_get = pages_get;
	for (unsigned pass = 0; pass < 400; pass++) {
		unsigned stayed = 0;

		befall(sim);
		for (unsigned i = 0; i < SPACES; i++)
			nine.missed[i] = false;
		sim_pass(sim, 1 + sim_random(sim, 20)); /* each step is checked */
		for (unsigned i = 0; i < SPACES; i++)
			if (!nine.missed[i])
				stayed += check_space(nine.regions[i], pass & 1);
		if (checksum != SIM_CHECKSUM_DEFAULT) /* one for each key */
			assert_in_range(stayed, 0, checksum == SIM_CHECKSUM_ZERO ? 1 : 4);
	}
	sim->scanner.priv.ops.space_trylock = sim_ops.space_trylock;
	sim->scanner.priv.ops.pages_get = sim_ops.pages_get;
	sim_settle(sim, 80);
	sim_destroy(sim);
}

static void test_9_random_busy(void **unused)
{
	random_busy(SIM_CHECKSUM_ZERO);
	random_busy(SIM_CHECKSUM_2_BITS);
	random_busy(SIM_CHECKSUM_DEFAULT);
}

/* Pages that stayed from a pass when their space was busy, and changed since, stand in wrong
 * places, in the set of the pass before or, two passes later, in that of the pass itself. However
 * the busy passes follow each other, two equal pages of spaces that are never busy meet soon. */
static void test_9_leftovers_keep_nobody_apart(void **unused)
{
	for (unsigned pattern = 0; pattern < 64; pattern++) {
		struct sim *sim = sim_create(&(struct sim_options){ .nroots = 1,
			.checksum = SIM_CHECKSUM_ZERO, .aging = PDD_AGING_NONE });
		struct sim_region *regions[3];
		unsigned apart = 0;

		for (unsigned i = 0; i < 3; i++)
			regions[i] = sim_region_add(sim_space_add(sim, 0), i == 1 ? 12 : 1);
		for (unsigned pass = 0; pass < 48; pass++) {
			regions[1]->space->busy = pattern >> pass % 6 & 1;
			for (uint64_t i = 0; i < 12; i++)
				sim_write(regions[1], i, 100 + sim_random(sim, 1000));
			if (pass % 6 == 0) {
				sim_write(regions[0], 0, 10 + pass);
				sim_write(regions[2], 0, 10 + pass);
				apart = 0;
			}
			sim_pass(sim, UINT64_MAX);
			apart += !sim_is_shared(regions[0], 0) || !sim_is_shared(regions[2], 0);
			assert_in_range(apart, 0, 3); /* the first look included */
		}
		sim_destroy(sim);
	}
}

/* ---- 32: checksum 0 ---- */

/* A third of all contents has checksum 0, a third all ones. */
static int checksum(void *ctx, uint64_t *value, const void *content)
{
	const uint64_t *words = content;

	*value = words[0] % 3 == 0 ? 0 : words[0] % 3 == 1 ? UINT64_MAX : words[0];
	return 0;
}

/* The n-th content whose checksum is of this third. */
static uint64_t content_of(struct sim *sim, unsigned third, unsigned n)
{
	uint64_t words[8], found = 0;

	for (n++; n; n -= words[0] % 3 == third)
		sim_fill(sim, words, ++found);
	return found;
}

static struct sim *world_of_zero(uint64_t nroots, bool one_look, struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){ .nroots = nroots, .limit = 3,
		.one_look = one_look, .checksum = SIM_CHECKSUM_ZERO });

	sim->scanner.priv.ops.checksum = checksum;
	sim->scanner.priv.flags |= PDD_SCANNER_UNIFORM_CHECKSUM; /* so that 0 stays 0 */
	*region = sim_region_add(sim_space_add(sim, 0), 24);
	return sim;
}

/* Known bug 32: a checksum of 0 was to mean that there is none, so that pages that had it were
 * never searched for. Here it is one like others, and so are all ones: such pages need two looks,
 * merge, make chains, find their frame later, are found in the index, and start anew after a
 * write. */
static void test_32_checksum_zero(void **unused)
{
	for (unsigned how = 0; how < 4; how++) {
		struct sim_region *region;
		struct sim *sim = world_of_zero(how & 1 ? 1 : 64, how & 2, &region);

		for (uint64_t i = 0; i < 21; i++)
			sim_write(region, i, content_of(sim, i % 3, 0));
		/* One in the index, where a frame has its checksum. */
		sim_write(region, 21, content_of(sim, 0, 1));
		sim_pass(sim, UINT64_MAX);
		if (!(how & 2)) {
			assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_FIRST_LOOK], 22);
			assert_int_equal(sim_stats(sim).pages_shared, 0);
			sim_pass(sim, UINT64_MAX);
		}
		sim_settle(sim, 80);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 3 * 6);
		assert_int_equal(sim_stats(sim).stable_node_dups, 3 * 2);
		for (uint64_t i = 0; i < 3; i++) /* one of each is left over, and finds a twin */
			sim_write(region, 21 + i, content_of(sim, (unsigned)i, 0));
		sim_passes(sim, 3);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 3 * 8);
		sim_write(region, 0, content_of(sim, 0, 0));
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_is_shared(region, 0), how >> 1 & 1);
		sim_pass(sim, UINT64_MAX);
		assert_true(sim_is_shared(region, 0));
		assert_int_equal(sim_unmerge(region, 0, 24), 24);
		sim_passes(sim, 3);
		sim_prune(sim);
		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 3 * 8);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_8_dead_pages_on_the_path),
		cmocka_unit_test(test_8_gone_frames_on_the_path),
		cmocka_unit_test(test_9_random_busy),
		cmocka_unit_test(test_9_leftovers_keep_nobody_apart),
		cmocka_unit_test(test_32_checksum_zero),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
