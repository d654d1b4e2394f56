/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rmap.c - objects, and walks over who maps a frame: what they find of clones of all kinds,
 * what they count, and how they end. What they find in general is in tests/scenario/test_rmap.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "item_internal.h"
#include "sim.h"

#define NTOLD 4096u

/* What the last walk told. */
static struct told {
	enum pdd_mapping mapping;
	const struct sim_region *region;
	uint64_t page;
} told[NTOLD];
static uint64_t ntold, stop_after;
static struct pdd_rmap_result result;
static struct pdd_rmap_room room[NTOLD + 1];

static const struct sim_region *failing; /* pages_get of this region says: */
static int failure;
static struct pdd_frame *left_over; /* what a view has for a frame where nothing is said of one */

static struct pdd_object objects[2];

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	int n;

	if (failing && region == &failing->region)
		return failure;
	n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	for (int i = 0; i < n; i++)
		if (!views[i].content)
			views[i].frame = left_over;
	return n;
}

static int set_up(void **state)
{
	struct sim *sim = sim_create(NULL);

	sim->scanner.priv.ops.pages_get = pages_get;
	memset(objects, 0, sizeof(objects));
	stop_after = 0;
	failing = NULL;
	left_over = NULL;
	*state = sim;
	return 0;
}

static int tear_down(void **state)
{
	sim_destroy(*state);
	assert_int_equal(pdd_object_regions(&objects[0]), 0);
	assert_int_equal(pdd_object_regions(&objects[1]), 0);
	return 0;
}

/* Add a region at a place of an object, or without an object if that is NULL. */
static struct sim_region *add_region(struct sim_space *space, uint64_t npages,
				     struct pdd_object *object, uint64_t place, bool sparse)
{
	struct sim_region *region = sim_region_add_with(space, npages, npages + 8, sparse);

	if (object)
		assert_int_equal(pdd_region_attach(&region->region, object, place), 0);
	return region;
}

static void write_pages(struct sim_region *region, uint64_t content)
{
	for (uint64_t i = 0; i < region->npages; i++)
		sim_write(region, i, content);
}

/* Let a page show a frame, as a clone does. */
static void show(struct sim_region *region, uint64_t page, struct sim_frame *frame,
		 uint64_t content)
{
	sim_show_foreign(region, page, frame);
	region->pages[page].cloned = true;
	region->pages[page].expected = content;
}

/* ---- a walk, and what it should tell ---- */

static bool note(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	const struct sim *sim = ctx;

	assert_int_equal(sim->nlocks, 0);
	assert_int_equal(sim->ngets, 0);
	assert_true(ntold < NTOLD && page < pdd_region_pages(region));
	told[ntold++] = (struct told){ mapping, (struct sim_region *)(void *)region, page };
	return ntold != stop_after;
}

/* Walk with room for so many sharers. */
static void walk(struct sim *sim, struct sim_frame *frame, size_t n)
{
	struct pdd_region *const beyond = (struct pdd_region *)(void *)sim;

	assert_true(n <= NTOLD);
	ntold = 0;
	room[n].priv.region = beyond;
	left_over = &frame->frame;
	sim->stepping = true; /* hooks are called as in a step */
	assert_int_equal(pdd_rmap_walk(&sim->scanner, &result, &frame->frame, room, n, note, sim),
			 0);
	sim->stepping = false;
	assert_ptr_equal(room[n].priv.region, beyond);
	assert_int_equal(result.hits, ntold);
	sim_verify(sim);
}

static uint64_t times_told(const struct sim_region *region, uint64_t page)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < ntold; i++)
		n += told[i].region == region && told[i].page == page;
	return n;
}

static uint64_t count_told(enum pdd_mapping mapping)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < ntold; i++)
		n += told[i].mapping == mapping;
	return n;
}

/* Walks with all kinds of room tell of so many different pages, sharers first. */
static void check_walks(struct sim *sim, struct sim_frame *frame, uint64_t hits)
{
	static const size_t rooms[] = { 1, 2, 3, 5, 16, NTOLD };

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		bool clones = false;

		walk(sim, frame, rooms[i]);
		assert_int_equal(ntold, hits);
		assert_false(result.stopped);
		for (uint64_t j = 0; j < ntold; j++) {
			assert_int_equal(times_told(told[j].region, told[j].page), 1);
			assert_false(clones && told[j].mapping == PDD_MAPPING_SHARER);
			clones |= told[j].mapping != PDD_MAPPING_SHARER;
		}
	}
}

/* ---- objects ---- */

static void test_attach(void **state)
{
	struct sim_region *r = add_region(sim_space_add(*state, 0), 8, NULL, 0, false);
	struct pdd_object *object = &objects[0];
	struct pdd_region not_added = { 0 };

	assert_int_equal(pdd_region_attach(NULL, object, 0), -EINVAL);
	assert_int_equal(pdd_region_attach(&r->region, NULL, 0), -EINVAL);
	assert_int_equal(pdd_region_attach(&not_added, object, 0), -EINVAL);
	assert_int_equal(pdd_region_attach(&r->region, object, UINT64_MAX - 6), -EINVAL);
	assert_int_equal(pdd_region_detach(NULL), -EINVAL);
	assert_int_equal(pdd_region_detach(&not_added), -EINVAL);
	assert_int_equal(pdd_region_detach(&r->region), -EINVAL);
	assert_int_equal(pdd_object_regions(object), 0);

	assert_int_equal(pdd_region_attach(&r->region, object, UINT64_MAX - 7), 0);
	assert_int_equal(pdd_region_attach(&r->region, object, 0), -EBUSY);
	assert_int_equal(pdd_region_attach(&r->region, &objects[1], 0), -EBUSY);
	assert_int_equal(pdd_object_regions(object), 1);
	assert_int_equal(pdd_region_resize(&r->region, 9), -EINVAL); /* beyond 64 bits */
	assert_int_equal(pdd_region_detach(&r->region), 0);
	assert_int_equal(pdd_region_detach(&r->region), -EINVAL);
	assert_int_equal(pdd_object_regions(object), 0);
	assert_int_equal(pdd_region_attach(&r->region, &objects[1], 0), 0);
	assert_int_equal(pdd_object_regions(&objects[1]), 1);
}

/* A scene: a region with 4 equal pages, another one and a zero page; one without an object, with
 * two of the equal pages. */
static struct sim_frame *begin(struct sim *sim, struct sim_region **attached)
{
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *region = add_region(space, 6, &objects[0], 40, false);

	write_pages(region, 9);
	sim_write(region, 4, 10);
	sim_write(region, 5, 0);
	write_pages(add_region(space, 2, NULL, 0, false), 9);
	sim_passes(sim, 2);
	assert_non_null(region->pages[0].frame);
	assert_int_equal(pdd_frame_sharers(&region->pages[0].frame->frame), 6);
	*attached = region;
	return region->pages[0].frame;
}

/* The region of a space that is attached. */
static struct sim_region *attached_of(const struct sim_space *space)
{
	struct sim_region *region = space->regions;

	while (!region->region.priv.object)
		region = region->next;
	return region;
}

static void test_removal_detaches(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);
	struct sim_space *clone = sim_space_clone(r->space);

	sim_space_clone(r->space);
	assert_int_equal(pdd_object_regions(&objects[0]), 3);
	check_walks(*state, frame, 14);
	sim_space_remove(clone);
	assert_int_equal(pdd_object_regions(&objects[0]), 2);
	check_walks(*state, frame, 10);
	assert_int_equal(pdd_region_detach(&r->region), 0);
	check_walks(*state, frame, 6);
}

/* ---- walks ---- */

static bool never(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	fail();
	return true;
}

static void test_walk_errors(void **state)
{
	struct sim_region *r;
	struct sim *sim = *state;
	struct pdd_frame *frame = &begin(sim, &r)->frame;

	memset(&result, 0xff, sizeof(result));
	assert_int_equal(pdd_rmap_walk(NULL, &result, frame, room, 1, never, NULL), -EINVAL);
	assert_true(result.hits == 0 && result.visits == 0 && !result.stopped);
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, NULL, room, 1, never, NULL), -EINVAL);
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, frame, NULL, 1, never, NULL), -EINVAL);
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, frame, room, 0, never, NULL), -EINVAL);
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, frame, room, 1, NULL, NULL), -EINVAL);
	ntold = 0;
	sim->stepping = true;
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, frame, room, 1, note, sim), 0);
	sim->stepping = false;
	assert_int_equal(ntold, 6);
}

static void test_clones_scanned_and_not(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);
	struct sim_space *child = sim_space_clone(r->space);

	check_walks(*state, frame, 10); /* not the clones of what has no object, */
	sim_passes(*state, 1);
	check_walks(*state, frame, 12); /* until a pass sees them */
	sim_space_clone(r->space);
	sim_space_clone(child); /* a grandchild */
	check_walks(*state, frame, 20);
	assert_int_equal(result.visits, 20);
	sim_space_remove(r->space);
	check_walks(*state, frame, 14); /* clones are found through the child */
	sim_passes(*state, 1);
	check_walks(*state, frame, 18);
	assert_int_equal(pdd_frame_sharers(&frame->frame), 18);
}

/* What is examined in vain counts as visited. Nobody is asked for pages that are kept out. */
static void test_private_clones_are_not_told(void **state)
{
	struct sim_region *parent, *r;
	struct sim *sim = *state;
	struct sim_frame *frame = begin(sim, &parent);
	uint64_t gets;

	r = attached_of(sim_space_clone(parent->space));
	sim_write(r, 1, 77);
	check_walks(sim, frame, 9);
	assert_int_equal(result.visits, 10);
	assert_int_equal(times_told(r, 1), 0);

	sim_write(r, 0, 78);
	sim_write(r, 2, 0);
	sim_write(r, 3, 10); /* as page 4 of both */
	assert_int_equal(pdd_region_pin(&r->region, 0, 1), 0);
	assert_int_equal(pdd_region_exclude(&r->region, 1, 1), 0);
	sim_passes(sim, 3);
	assert_int_equal(r->pages[2].kind, PDD_PAGE_ZERO);
	assert_int_equal(r->pages[3].kind, PDD_PAGE_SHARED);
	gets = sim->calls[SIM_PAGES_GET];
	check_walks(sim, frame, 8); /* the clones of those without an object were scanned */
	assert_int_equal(result.visits, 12);
	assert_int_equal(sim->calls[SIM_PAGES_GET], gets);
}

/* A sharer is told of although it was written since: only a pass finds that out. */
static void test_written_sharer(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);

	sim_write(r, 2, 5);
	check_walks(*state, frame, 6);
	sim_passes(*state, 1);
	check_walks(*state, frame, 5);
}

static void test_stop(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);

	sim_space_clone(r->space);
	sim_space_clone(r->space);
	for (size_t n = 1; n <= 6; n += 5) {
		for (stop_after = 1; stop_after <= 14; stop_after++) {
			walk(*state, frame, n);
			assert_int_equal(ntold, stop_after);
			assert_int_equal(result.visits, stop_after);
			assert_true(result.stopped);
		}
	}
	stop_after = 15;
	walk(*state, frame, 6);
	assert_int_equal(ntold, 14);
	assert_false(result.stopped);
}

/* Clones that cannot be seen are told of as such, each once, and it is counted why. */
static void test_unknown(void **state)
{
	static const int failures[] = { 0, -EBUSY, -EIO };
	struct sim *sim = *state;
	struct sim_region *parent, *r;
	struct sim_frame *frame = begin(sim, &parent);
	uint64_t gets = sim->calls[SIM_PAGES_GET];

	r = attached_of(sim_space_clone(parent->space));
	sim_write(r, 1, 77);
	r->space->busy = true;
	check_walks(sim, frame, 10);
	assert_int_equal(count_told(PDD_MAPPING_UNKNOWN), 4);
	assert_int_equal(times_told(r, 1), 1);
	assert_int_equal(sim->calls[SIM_PAGES_GET], gets);
	assert_int_equal(sim_stats(sim).space_lock_misses, 4 * 6); /* pages, walks */
	r->space->busy = false;
	failing = r;
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		failure = failures[i];
		check_walks(sim, frame, 10);
		assert_int_equal(count_told(PDD_MAPPING_UNKNOWN), 4);
		assert_int_equal(sim_stats(sim).hook_errors, failure == -EIO ? 4 * 6 : 0);
	}
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_PAGES_GET], 4 * 6);
	failing = NULL;
	check_walks(sim, frame, 9);
	assert_int_equal(times_told(r, 1), 0);
	assert_int_equal(count_told(PDD_MAPPING_CLONE), 3);
}

/* A sharer's own space is not locked: its being busy changes nothing. */
static void test_busy_sharers(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);

	r->space->busy = true;
	check_walks(*state, frame, 6);
}

static void test_moved_region_keeps_its_offset(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);
	uint64_t addresses = 0;

	sim_space_clone(r->space);
	assert_int_equal(pdd_region_move(&r->region, 7000), 0);
	check_walks(*state, frame, 10);
	for (uint64_t i = 0; i < ntold; i++) {
		uint64_t at = pdd_region_first_page(&told[i].region->region) + told[i].page;

		if (told[i].region == r)
			addresses += at == 7000 + told[i].page;
	}
	assert_int_equal(addresses, 4);
	sim_space_clone(r->space);
	check_walks(*state, frame, 14);
}

static void test_resized_region(void **state)
{
	struct sim_region *parent, *r;
	struct sim_frame *frame = begin(*state, &parent);

	r = attached_of(sim_space_clone(parent->space));
	sim_region_resize(r, 2);
	check_walks(*state, frame, 8);
	assert_int_equal(result.visits, 8);
	sim_region_resize(r, 4);
	show(r, 2, frame, 9);
	show(r, 3, frame, 9);
	check_walks(*state, frame, 10);
	sim_passes(*state, 1);
	check_walks(*state, frame, 12);
	assert_int_equal(pdd_object_regions(&objects[0]), 2);
}

/* Regions of one space can map the same pages; also the last ones of an object; also sparse ones,
 * of which the library has nothing. */
static void test_one_space_maps_a_page_thrice(void **state)
{
	struct sim *sim = *state;
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *c = add_region(space, 40, &objects[0], UINT64_MAX - 39, true);
	struct sim_region *a = add_region(space, 8, &objects[0], UINT64_MAX - 7, false);
	struct sim_region *b = add_region(space, 3, &objects[0], UINT64_MAX - 2, true);
	struct sim_frame *frame;

	write_pages(a, 1);
	sim_passes(sim, 2);
	frame = a->pages[0].frame;
	assert_int_equal(b->nblocks + c->nblocks, 0);
	for (uint64_t page = 0; page < 3; page++)
		show(b, page, frame, 1);
	for (uint64_t page = 34; page < 40; page++)
		show(c, page, frame, 1);
	check_walks(sim, frame, 17);
	assert_int_equal(result.visits, 19); /* two pages of c have nothing there */
	sim_passes(sim, 1);
	check_walks(sim, frame, 17);
	assert_int_equal(pdd_frame_sharers(&frame->frame), 17);
}

/* A clone whose original shares no more is found when a pass has come by it. Until then the frame
 * is kept. */
static void test_clone_of_what_shares_no_more(void **state)
{
	struct sim *sim = *state;
	struct sim_region *r = add_region(sim_space_add(sim, 0), 2, &objects[0], 0, false);
	struct sim_space *clone;
	struct sim_frame *frame;

	write_pages(r, 6);
	sim_passes(sim, 2);
	frame = r->pages[0].frame;
	clone = sim_space_clone(r->space);
	clone->busy = true;
	sim_write(r, 0, 70);
	sim_passes(sim, 1);
	check_walks(sim, frame, 2);
	assert_int_equal(frame->maps, 3);
	sim_write(r, 1, 71);
	sim_passes(sim, 1);
	check_walks(sim, frame, 0);
	assert_int_equal(frame->maps, 2);
	clone->busy = false;
	sim_passes(sim, 1);
	check_walks(sim, frame, 2);
}

/* A place is asked for once, however many sharers stand there: they are sorted for that. */
static void test_sharers_are_sorted_by_place(void **state)
{
	struct sim *sim = *state;
	struct sim_frame *frame;
	uintptr_t object = 0;
	uint64_t place = 0;

	for (unsigned i = 0; i < 12; i++) {
		struct sim_space *space = sim_space_add(sim, 0);

		for (unsigned j = 0; j < 3; j++)
			write_pages(add_region(space, 7, &objects[(i + j) % 2],
					       5 * i * (j + 1) % 37, false), 4);
	}
	sim_passes(sim, 2);
	frame = sim->spaces->regions->pages[0].frame;
	check_walks(sim, frame, 12 * 3 * 7);
	for (uint64_t i = 0; i < ntold; i++) {
		const struct pdd_region *r = room[i].priv.region;
		uint64_t its_place =
			pdd_interval_first(&r->priv.interval) + room[i].priv.page;

		assert_true(object < (uintptr_t)r->priv.object ||
			    (object == (uintptr_t)r->priv.object && place <= its_place));
		object = (uintptr_t)r->priv.object;
		place = its_place;
	}
}

/* Known bug 12: page numbers are exact whatever else an item records. */
static void test_12_page_numbers_of_all_ages(void **state)
{
	struct sim_region *r;
	struct sim_frame *frame = begin(*state, &r);

	for (unsigned i = 0; i < 2 * PDD_AGE_MAX; i++) {
		struct sim_space *clone = sim_space_clone(r->space);

		check_walks(*state, frame, 10);
		sim_passes(*state, 1);
		check_walks(*state, frame, 12);
		sim_space_remove(clone);
	}
}

static void test_12_page_numbers_on_all_nodes(void **unused)
{
	static const uint16_t nodes[] = { 1, 2, 512, PDD_NODES_MAX - 1 };

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		struct sim *sim = sim_create(&(struct sim_options){ .nodes_apart = true });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 5);

		write_pages(region, 3);
		for (uint64_t page = 0; page < region->npages; page++)
			sim_migrate(region, page, nodes[i]);
		sim_passes(sim, 2);
		check_walks(sim, region->pages[0].frame, 5);
		sim_destroy(sim);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_attach),
		TEST(test_removal_detaches),
		TEST(test_walk_errors),
		TEST(test_clones_scanned_and_not),
		TEST(test_private_clones_are_not_told),
		TEST(test_written_sharer),
		TEST(test_stop),
		TEST(test_unknown),
		TEST(test_busy_sharers),
		TEST(test_moved_region_keeps_its_offset),
		TEST(test_resized_region),
		TEST(test_one_space_maps_a_page_thrice),
		TEST(test_clone_of_what_shares_no_more),
		TEST(test_sharers_are_sorted_by_place),
		TEST(test_12_page_numbers_of_all_ages),
		TEST(test_12_page_numbers_on_all_nodes),
	};

	sim_seed();
	return cmocka_run_group_tests_name("rmap", tests, NULL, NULL);
}
