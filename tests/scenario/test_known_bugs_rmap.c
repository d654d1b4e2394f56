/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_rmap.c - known bugs 12 and 29: addresses that the reverse map got wrong. (KSM's
 * own test for 29, and walks in random worlds: test_rmap.c. The highest page number that there
 * can be: test_known_bugs_sparse.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "item_internal.h"
#include "sim.h"

#define PAGES 16u
#define TOLD_MAX 256u

static struct {
	const struct sim_region *region;
	uint64_t page;
} told[TOLD_MAX];
static unsigned ntold;

static bool tell(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	assert_in_range(ntold, 0, TOLD_MAX - 1);
	assert_in_range(mapping, PDD_MAPPING_SHARER, PDD_MAPPING_CLONE);
	told[ntold].region = (const struct sim_region *)(void *)region;
	told[ntold++].page = page;
	return true;
}

static void walk(struct sim *sim, struct sim_frame *frame)
{
	struct pdd_rmap_room room[TOLD_MAX];

	ntold = 0;
	sim->stepping = true; /* for the hooks, which are called as in a step */
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, &frame->frame, room, TOLD_MAX, tell,
				       NULL),
			 0);
	sim->stepping = false;
}

/* Every page that shows the frame was told of once, and nothing else was. */
static void assert_told_of_all(const struct sim *sim, const struct sim_frame *frame)
{
	unsigned shown = 0;

	for (const struct sim_space *space = sim->spaces; space; space = space->next) {
		for (const struct sim_region *r = space->regions; r; r = r->next) {
			for (uint64_t i = 0; i < r->npages; i++) {
				unsigned times = 0;

				for (unsigned t = 0; t < ntold; t++)
					times += told[t].region == r && told[t].page == i;
				assert_int_equal(times, r->pages[i].frame == frame);
				shown += times;
			}
		}
	}
	assert_int_equal(shown, ntold);
	assert_int_equal(shown, frame->maps);
}

/* ---- 12 ---- */

/* The fields of an item that say nothing about where its page is, or what it is linked in. */
static const uint64_t marks = ((UINT64_C(1) << ITEM_AGE_BITS) - 1) << ITEM_AGE_SHIFT |
			      ((UINT64_C(1) << ITEM_NODE_BITS) - 1) << ITEM_NODE_SHIFT | ITEM_DUE |
			      ITEM_FRESH | UINT64_C(1) << 63;

/* Walk while these bits are turned around in all items. */
static void walk_with(struct sim *sim, struct sim_region *region, uint64_t bits)
{
	struct sim_frame *frame = region->pages[1].frame;

	for (uint64_t i = 0; i < PAGES; i++)
		region->items[i].priv.word ^= bits;
	walk(sim, frame);
	assert_told_of_all(sim, frame);
	for (uint64_t i = 0; i < PAGES; i++) {
		assert_int_equal(item_page(&region->items[i]), i);
		region->items[i].priv.word ^= bits;
	}
}

/* Known bug 12: the address of an item had flags in its low bits, and one of them was not masked,
 * so that the wrong page was unmapped. Here the number of a page shares a word with other fields:
 * each bit of them alone, all of them, and others at random; the pages told of are those that
 * show the frame, by number and by address. (Ranges for hooks: the simulation checks that they
 * are inside.) */
static void test_12_addresses_in_every_state(void **unused)
{
	static const uint64_t places[] = { 0, 1, 12345, (UINT64_C(1) << 52) - PAGES };
	struct sim *sim = sim_create(&(struct sim_options){ .limit = PAGES });
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(region, i, i % 5 ? 1 : 10 + i);
	sim_passes(sim, 2);
	for (unsigned bit = 0; bit < 64; bit++)
		walk_with(sim, region, UINT64_C(1) << bit & marks);
	walk_with(sim, region, marks);
	for (unsigned round = 0; round < 1000; round++)
		walk_with(sim, region, sim_random(sim, UINT64_MAX) & marks);
	for (unsigned p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
		assert_int_equal(pdd_region_move(&region->region, places[p]), 0);
		walk(sim, region->pages[1].frame);
		for (unsigned t = 0; t < ntold; t++) {
			uint64_t address = (pdd_region_first_page(&told[t].region->region) +
					    told[t].page) << 12;

			assert_int_equal(address % 4096, 0);
			assert_in_range(address, places[p] << 12,
					((places[p] + PAGES) << 12) - 4096);
		}
	}
	assert_int_equal(sim_unmerge(region, 0, PAGES), ntold);
	sim_destroy(sim);
}

/* The same where the marks come about by themselves: high nodes, high ages, due, either set. */
static void test_12_marks_that_came_about(void **unused)
{
	for (unsigned passes = 2; passes < 140; passes += 23) {
		struct sim *sim = sim_create(&(struct sim_options){
			.limit = PAGES, .nodes_apart = true, .checksum = SIM_CHECKSUM_2_BITS });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);
		int64_t merged;

		for (uint64_t i = 0; i < PAGES; i++) {
			sim_write(region, i, 100 + i);
			sim_migrate(region, i, PDD_NODES_MAX - 1 - i % 2);
		}
		sim_passes(sim, passes);
		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(region, i, 1 + i % 4 / 2);
		sim_passes(sim, 70);
		for (struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
			walk(sim, frame);
			assert_told_of_all(sim, frame);
		}
		merged = (int64_t)sim_stats(sim).counts.ksm_merging_pages;
		assert_in_range(merged, PAGES - 2, PAGES);
		assert_int_equal(sim_unmerge(region, 0, PAGES), merged);
		sim_destroy(sim);
	}
}

/* ---- 29 ---- */

/* What happens in some order to the upper half of an object's pages. */
enum event {
	MOVE = 0,  /* to where the lower half stood */
	FORK = 1,  /* a child, which no pass comes by before the walk, unless SCAN follows */
	SCAN = 2,  /* until everything is merged */
	MOVE_ON = 3, /* to a third place, in all that are there */
	RESIZE = 4, /* it grows at its end */
	EVENTS = 5,
};

static void happen(struct sim *sim, enum event event)
{
	struct sim_space *parent = sim->spaces;
	uint64_t end;

	while (parent->next)
		parent = parent->next; /* the first one */
	switch (event) {
	case MOVE:
		assert_int_equal(pdd_region_move(&parent->regions->region, 0), 0);
		break;
	case FORK:
		sim_space_clone(parent);
		break;
	case SCAN:
		sim_passes(sim, 2);
		break;
	case MOVE_ON:
		for (struct sim_space *space = sim->spaces; space; space = space->next)
			assert_int_equal(pdd_region_move(&space->regions->region, 100), 0);
		break;
	case RESIZE:
	case EVENTS:
		end = parent->regions->npages;
		if (end + 3 > parent->regions->capacity)
			break;
		sim_region_resize(parent->regions, end + 3);
		for (uint64_t i = 0; i < 3; i++)
			sim_write(parent->regions, end + i, SIM_FILLED | 0x77);
		break;
	}
}

/* Known bug 29: the page of the object was computed from the address, which is wrong for a mapping
 * that was moved; after a migration its pages still showed the old memory. Here it is recorded. In
 * whatever order a region is moved, cloned, scanned and resized, all mappings are found. */
static void test_29_moved_regions(void **unused)
{
	for (unsigned order = 0; order < EVENTS * EVENTS * EVENTS * EVENTS * EVENTS; order++) {
		struct sim *sim = sim_create(NULL);
		struct sim_region *upper = sim_region_add_with(sim_space_add(sim, 0), PAGES,
							       2 * PAGES, false);
		struct pdd_object object = { 0 };

		assert_int_equal(pdd_region_attach(&upper->region, &object, PAGES), 0);
		assert_int_equal(pdd_region_move(&upper->region, PAGES), 0);
		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(upper, i, i % 4 ? SIM_FILLED | 0x77 : 20 + i);
		for (unsigned rest = order, n = 0; n < 5; n++, rest /= EVENTS)
			happen(sim, rest % EVENTS);
		for (struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
			walk(sim, frame);
			assert_told_of_all(sim, frame);
		}
		sim_passes(sim, 2);
		assert_true(upper->pages[1].frame);
		walk(sim, upper->pages[1].frame);
		assert_told_of_all(sim, upper->pages[1].frame);
		sim_destroy(sim);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_12_addresses_in_every_state),
		cmocka_unit_test(test_12_marks_that_came_about),
		cmocka_unit_test(test_29_moved_regions),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
