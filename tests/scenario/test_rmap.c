/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rmap.c - who maps a frame, in general and by the cases of the kernel's own test: after
 * random operations walks with any room tell of each mapping once, as what all pages show demands;
 * of a frame that migrates all who map it are found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define NTOLD 4096u

static struct told {
	enum pdd_mapping mapping;
	const struct sim_region *region;
	uint64_t page;
} told[NTOLD];
static uint64_t ntold;
static struct pdd_rmap_result result;

static bool note(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	const struct sim *sim = ctx;

	assert_int_equal(sim->nlocks, 0);
	assert_true(ntold < NTOLD);
	told[ntold++] = (struct told){ mapping, (struct sim_region *)(void *)region, page };
	return true;
}

static void walk(struct sim *sim, struct sim_frame *frame, size_t n)
{
	struct pdd_rmap_room room[NTOLD];

	ntold = 0;
	sim->stepping = true; /* hooks are called as in a step */
	assert_int_equal(pdd_rmap_walk(&sim->scanner, &result, &frame->frame, room, n, note, sim),
			 0);
	sim->stepping = false;
	sim_verify(sim);
}

/* ---- random operations ---- */

static struct pdd_object objects[2];

static uint64_t times_told(enum pdd_mapping mapping, const struct sim_region *region, uint64_t page)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < ntold; i++)
		n += told[i].mapping == mapping && told[i].region == region && told[i].page == page;
	return n;
}

static struct pdd_explanation explain(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&region->region, page, &explanation), 0);
	return explanation;
}

/* Whether a sharer of the frame stands at this page's place in its object. */
static bool is_near_sharer(const struct sim *sim, const struct sim_frame *frame,
			   const struct sim_region *region, uint64_t page)
{
	const struct pdd_object *object = region->region.priv.object;
	uint64_t place = pdd_interval_first(&region->region.priv.interval) + page;

	for (const struct sim_space *s = sim->spaces; object && s; s = s->next) {
		for (const struct sim_region *r = s->regions; r; r = r->next) {
			uint64_t other = place - pdd_interval_first(&r->region.priv.interval);

			if (r->region.priv.object == object && other < r->npages &&
			    explain(r, other).frame == &frame->frame)
				return true;
		}
	}
	return false;
}

/* Hold what a walk told of a page against what is so. How often it should be visited. */
static uint64_t check_page(const struct sim *sim, const struct sim_frame *frame,
			   const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation is = explain(region, page);
	bool sharer = is.frame == &frame->frame;
	bool near = !sharer && is_near_sharer(sim, frame, region, page);
	bool asked = near && !is.frame && is.state != PDD_STATE_ZERO && !is.excluded && !is.npins;
	bool unknown = asked && (region->space->busy || sim->fail_chance > 0);
	bool clone = asked && !unknown && region->pages[page].frame == frame;

	assert_int_equal(times_told(PDD_MAPPING_SHARER, region, page), sharer);
	assert_int_equal(times_told(PDD_MAPPING_CLONE, region, page), clone);
	assert_int_equal(times_told(PDD_MAPPING_UNKNOWN, region, page), unknown);
	return sharer + near;
}

static void check_walk(struct sim *sim, struct sim_frame *frame, size_t n)
{
	uint64_t visits = 0;

	walk(sim, frame, n);
	for (const struct sim_space *s = sim->spaces; s; s = s->next)
		for (const struct sim_region *r = s->regions; r; r = r->next)
			for (uint64_t page = 0; page < r->npages; page++)
				visits += check_page(sim, frame, r, page);
	assert_int_equal(result.visits, visits);
	assert_int_equal(result.hits, ntold);
	for (uint64_t i = 1; i < ntold; i++) /* sharers come first */
		assert_false(told[i].mapping == PDD_MAPPING_SHARER &&
			     told[i - 1].mapping != PDD_MAPPING_SHARER);
}

/* Walk all frames, with this much room and as much as is needed; also while pages_get fails. */
static void check_walks(struct sim *sim)
{
	for (struct sim_frame *frame = sim->frames; frame; frame = frame->next) {
		check_walk(sim, frame, 1 + sim_random(sim, 6));
		check_walk(sim, frame, NTOLD);
	}
	if (sim->frames && sim_random(sim, 4) == 0) {
		sim->fail_chance = 1;
		check_walk(sim, sim->frames, 2);
		sim->fail_chance = 0;
	}
}

/* A space with regions that overlap in their objects, with few contents in their pages. */
static void random_space(struct sim *sim)
{
	struct sim_space *space = sim_space_add(sim, 0);
	uint64_t n = 1 + sim_random(sim, 3);

	for (uint64_t i = 0; i < n; i++) {
		struct sim_region *r = sim_region_add_with(space, 1 + sim_random(sim, 6), 8,
							   sim_random(sim, 2));

		if (sim_random(sim, 4))
			assert_int_equal(pdd_region_attach(&r->region, &objects[sim_random(sim, 2)],
							   sim_random(sim, 8)), 0);
		for (uint64_t page = 0; page < r->npages; page++)
			if (sim_random(sim, 5))
				sim_write(r, page, sim_random(sim, 4));
	}
}

static void reattach(struct sim *sim, struct sim_region *r)
{
	if (r->region.priv.object)
		assert_int_equal(pdd_region_detach(&r->region), 0);
	if (sim_random(sim, 3))
		assert_int_equal(pdd_region_attach(&r->region, &objects[sim_random(sim, 2)],
						   sim_random(sim, 8)), 0);
}

static void random_change(struct sim *sim, struct sim_region *r)
{
	uint64_t page = sim_random(sim, r->npages);

	switch (sim_random(sim, 8)) {
	case 0:
	case 1:
		if (!explain(r, page).npins)
			sim_write(r, page, sim_random(sim, 4));
		break;
	case 2:
		r->space->busy = !r->space->busy;
		break;
	case 3:
		assert_int_equal(pdd_region_pin(&r->region, page, 1), 0);
		break;
	case 4:
		(void)pdd_region_unpin(&r->region, page, 1);
		break;
	case 5:
		assert_int_equal(pdd_region_move(&r->region, sim_random(sim, 1000)), 0);
		break;
	case 6:
		sim_region_resize(r, 1 + sim_random(sim, 8));
		break;
	case 7:
		reattach(sim, r);
		break;
	}
}

static struct sim_space *random_of_spaces(struct sim *sim, uint64_t nspaces)
{
	struct sim_space *space = sim->spaces;

	for (uint64_t i = sim_random(sim, nspaces); i; i--)
		space = space->next;
	return space;
}

static void random_operation(struct sim *sim, uint64_t *nspaces)
{
	struct sim_space *space = random_of_spaces(sim, *nspaces);

	switch (sim_random(sim, 12)) {
	case 0:
	case 1:
		if (*nspaces < 12) {
			sim_space_clone(space);
			++*nspaces;
		}
		break;
	case 2:
		if (*nspaces < 6) {
			random_space(sim);
			++*nspaces;
		}
		break;
	case 3:
		if (*nspaces > 1 && sim_random(sim, 2)) {
			sim_space_remove(space);
			--*nspaces;
		}
		break;
	case 4:
	case 5:
		sim_pass(sim, UINT64_MAX);
		break;
	default:
		random_change(sim, space->regions);
		break;
	}
}

static void test_random_operations(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 8 });
	uint64_t nspaces = 1, most = 0;

	random_space(sim);
	sim->fail_mask = UINT64_C(1) << SIM_PAGES_GET;
	for (unsigned op = 0; op < 3000; op++) {
		random_operation(sim, &nspaces);
		check_walks(sim);
		most = most < ntold ? ntold : most;
	}
	assert_true(most > 5);
	sim_destroy(sim);
}

/* ---- the kernel's own test of its reverse map, by name ---- */

/* The content of a frame moves elsewhere: all pages that show it are told, and only these. */
static void migrate(struct sim *sim, struct sim_frame *frame, uint64_t mappings)
{
	unsigned char *data = malloc(sim->page_size), *old = frame->data;

	memcpy(data, old, sim->page_size);
	walk(sim, frame, 8);
	assert_int_equal(frame->maps, mappings);
	assert_int_equal(ntold, mappings);
	for (uint64_t i = 0; i < ntold; i++) {
		assert_true(told[i].mapping != PDD_MAPPING_UNKNOWN);
		assert_ptr_equal(told[i].region->pages[told[i].page].frame, frame);
		assert_int_equal(times_told(told[i].mapping, told[i].region, told[i].page), 1);
	}
	frame->data = data;
	free(old);
}

/* migrate.ksm: a tree of processes, each with a region of its own full of 0xcf. */
static void test_migrate_ksm(void **unused)
{
	static struct pdd_object own[5];
	struct sim *sim = sim_create(NULL);
	struct sim_space *child = NULL;
	struct sim_frame *frame;

	for (unsigned i = 0; i < 5; i++) {
		struct sim_region *region;

		child = sim_space_add(sim, 0);
		region = sim_region_add(child, 4);
		assert_int_equal(pdd_region_attach(&region->region, &own[i], 64), 0);
		for (uint64_t page = 0; page < 4; page++)
			sim_write(region, page, SIM_FILLED | 0xcf);
	}
	sim_passes(sim, 2);
	frame = child->regions->pages[0].frame;
	assert_non_null(frame);
	migrate(sim, frame, 20);

	/* and with a child of one of them, which no pass has seen, and a grandchild */
	child = sim_space_clone(child);
	sim_space_clone(child);
	migrate(sim, frame, 28);
	sim_passes(sim, 1);
	sim_space_clone(child);
	migrate(sim, frame, 32);
	sim_destroy(sim);
}

/*
 * migrate.ksm_and_mremap: of 32 equal pages the second 16 are moved over the first 16 and then
 * merged, so that their place in the object is not what their address says.
 */
static void test_migrate_ksm_and_mremap(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *first = sim_region_add(space, 16), *second = sim_region_add(space, 16);
	struct sim_region *other;
	struct pdd_object object = { 0 };
	struct sim_frame *frame;
	bool at[16] = { false };
	uint64_t gets;

	assert_int_equal(pdd_region_move(&second->region, 16), 0);
	assert_int_equal(pdd_region_attach(&first->region, &object, 0), 0);
	assert_int_equal(pdd_region_attach(&second->region, &object, 16), 0);
	for (uint64_t page = 0; page < 16; page++) {
		sim_write(first, page, SIM_FILLED | 0x77);
		sim_write(second, page, SIM_FILLED | 0x77);
	}
	sim_region_remove(first);
	assert_int_equal(pdd_region_move(&second->region, 0), 0);
	sim_passes(sim, 2);
	frame = second->pages[0].frame;
	assert_non_null(frame);
	migrate(sim, frame, 16);
	for (uint64_t i = 0; i < 16; i++)
		at[pdd_region_first_page(&told[i].region->region) + told[i].page] = true;
	for (uint64_t i = 0; i < 16; i++)
		assert_true(at[i]);

	/* A child is found by its place. What is at the place that the address would be is not
	 * even asked for. */
	sim_space_clone(space);
	other = sim_region_add(sim_space_add(sim, 0), 16);
	assert_int_equal(pdd_region_attach(&other->region, &object, 0), 0);
	gets = sim->calls[SIM_PAGES_GET];
	migrate(sim, frame, 32);
	assert_int_equal(sim->calls[SIM_PAGES_GET], gets + 16);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_migrate_ksm),
		cmocka_unit_test(test_migrate_ksm_and_mremap),
	};

	sim_seed();
	return cmocka_run_group_tests_name("rmap", tests, NULL, NULL);
}
