/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_unmerge.c - known bugs 13 and 34: what KSM got wrong when sharing was to end and
 * something stood in the way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))
#define PAGES 20u

/* ---- 13: somebody has a veto ---- */

static struct {
	uint32_t pages; /* that nobody may unmap, by their bits */
	int error;      /* what frames_unmap answers then */
	uint64_t calls;
	uint64_t most; /* calls that there may be */
} veto;

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	uint64_t n = 0;

	assert_in_range(++veto.calls, 1, veto.most);
	while (n < npages && !(veto.pages >> (first + n) & 1))
		n++;
	return n ? sim_ops.frames_unmap(ctx, region, first, n) : veto.error;
}

static struct sim *world_of_vetos(struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = 4, .aging = PDD_AGING_NONE });

	*region = sim_region_add(sim_space_add(sim, 0), PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(*region, i, i % 5 ? 1 : 0); /* zero pages among them */
	sim_passes(sim, 2);
	for (uint64_t i = 7; i < 10; i++) /* and pages that need no unmerging */
		sim_write(*region, i, 100 + i);
	sim->scanner.priv.ops.frames_unmap = frames_unmap;
	veto.calls = 0;
	veto.most = 2 * PAGES;
	return sim;
}

static bool is_merged(const struct sim_region *region, uint64_t page)
{
	return region->pages[page].kind != PDD_PAGE_PRIVATE;
}

/* Unmerge page by page, each range by one call that either gets on or fails. */
static void unmerge_each(struct sim_region *region)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		int64_t n = sim_unmerge(region, i, 1);

		if (veto.pages >> i & 1)
			assert_int_equal(n, veto.error ? veto.error : -EBUSY);
		else
			assert_in_range(n, 0, 1);
		assert_int_equal(is_merged(region, i), veto.pages >> i & 1);
	}
}

/* Known bug 13: breaking a page by a write fault was intercepted (by a userfaultfd), so nothing was
 * broken, and it tried for ever. Here a veto on any pages costs one call for the whole range: it
 * tells the error, or what was done before it; the others can be unmerged, and later all. */
static void test_13_veto(void **unused)
{
	static const int errors[] = { 0, -EBUSY, -EPERM, -ENOMEM };
	const uint32_t merged = (1u << PAGES) - 1 - (7u << 7);
	uint64_t random = sim_seed();

	for (unsigned round = 0; round < 400; round++) {
		struct sim_region *region;
		struct sim *sim = world_of_vetos(&region);
		uint64_t done = 0;
		int64_t n;

		veto.error = errors[round % 4];
		veto.pages = (uint32_t)(sim_random_of(&random) & sim_random_of(&random)) & merged;
		if (round < 4)
			veto.pages = merged;
		while ((n = sim_unmerge(region, 0, PAGES)) > 0)
			done += (uint64_t)n;
		for (uint64_t i = 0; i < PAGES && !(veto.pages >> i & 1); i++)
			assert_false(is_merged(region, i));
		if (veto.pages)
			assert_int_equal(n, veto.error ? veto.error : -EBUSY);
		assert_in_range(veto.calls, 1, PAGES);
		assert_in_range(done, 0, PAGES);
		veto.most += 2 * PAGES;
		unmerge_each(region);
		veto.pages = 0;
		unmerge_each(region);
		assert_int_equal(pdd_scanner_unmerge(&sim->scanner, UINT64_MAX), 0);
		assert_null(sim->frames);
		sim_destroy(sim);
	}
}

/* Pinning and excluding have to unmerge first: under a veto they fail, at once, and keep nobody
 * out; so does unmerging a space or everything. */
static void test_13_veto_on_others(void **unused)
{
	for (unsigned page = 0; page < PAGES; page++) {
		struct sim_region *region;
		struct sim *sim = world_of_vetos(&region);
		struct pdd_region *r = &region->region;

		if (!is_merged(region, page)) {
			sim_destroy(sim);
			continue;
		}
		veto.pages = 1u << page;
		veto.error = -EPERM;
		assert_int_equal(pdd_region_pin(r, 0, PAGES), -EPERM);
		assert_int_equal(pdd_region_exclude(r, 0, PAGES), -EPERM);
		assert_int_equal(pdd_region_unpin(r, 0, 1), -EINVAL);
		assert_int_equal(pdd_space_unmerge(&region->space->space, UINT64_MAX),
				 page == PAGES - 1 ? -EPERM : pdd_region_unmerge(r, 0, PAGES, 1));
		while (pdd_scanner_unmerge(&sim->scanner, 1) > 0)
			continue;
		assert_int_equal(pdd_scanner_unmerge(&sim->scanner, 1), -EPERM);
		sim_verify(sim);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_PINNED], 0);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_EXCLUDED], 0);
		veto.pages = 0;
		assert_int_equal(pdd_region_pin(r, 0, PAGES), 0);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_PINNED], PAGES);
		sim_destroy(sim);
	}
}

/* ---- 34: unmerging everything is aborted ---- */

/* Items of all sorts in the index and out of it, frames in chains; a pass is under way. */
static struct sim *world_in_pass(struct sim_region *regions[2], enum sim_checksum checksum,
				 unsigned steps)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.limit = 3, .nroots = 1, .checksum = checksum, .aging = PDD_AGING_NONE });

	for (unsigned r = 0; r < 2; r++) {
		regions[r] = sim_region_add(sim_space_add(sim, 0), PAGES);
		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(regions[r], i, i % 4 < 3 ? i % 4 : 100 + i + r * PAGES);
		sim_passes(sim, checksum ? 8 : 3); /* so each came in another pass */
	}
	for (unsigned r = 0; r < 2; r++)
		for (uint64_t i = r; i < PAGES; i += 7)
			sim_write(regions[r], i, 200 + i + r * PAGES);
	for (unsigned i = 0; i < steps; i++)
		sim_step(sim, 3);
	return sim;
}

/* Every item leaves the index or enters it, from the state that the abort left. */
static void go_on(struct sim *sim, struct sim_region *const regions[2], unsigned how)
{
	if (how & 1)
		for (unsigned i = 0; i < 20; i++)
			sim_step(sim, 3);
	for (uint64_t i = 0; i < PAGES; i++)
		if (i % 3 == how % 3)
			sim_write(regions[how / 3 % 2], i, 1 + i % 4);
	sim_passes(sim, how % 4);
	if (how == 5) {
		sim_region_resize(regions[0], 5);
		sim_verify(sim);
	}
}

/* Whether the k-th fallible call came. `mask` says which they are. */
static bool abort_at(uint64_t mask, enum sim_checksum checksum, uint64_t k, unsigned how)
{
	struct sim_region *regions[2];
	struct sim *sim = world_in_pass(regions, checksum, how);
	uint64_t scans = sim_stats(sim).full_scans;
	int64_t n = 1;
	bool came;

	sim->fail_mask = mask;
	sim->fallible = 0;
	sim->fail_at = k;
	sim->fail_errno = -EINTR;
	n = pdd_scanner_unmerge(&sim->scanner, UINT64_MAX);
	came = sim->fallible >= k;
	sim->fail_at = 0;
	sim_verify(sim);
	assert_int_equal(sim_stats(sim).full_scans, scans);
	if (mask == BIT(SIM_FRAMES_UNMAP) && came)
		assert_true(k == 1 ? n == -EINTR : n > 0);
	go_on(sim, regions, how);
	do {
		n = pdd_scanner_unmerge(&sim->scanner, 3);
		sim_verify(sim);
	} while (n > 0);
	assert_int_equal(n, 0);
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_rmap_items, 0);
	assert_int_equal(sim_stats(sim).full_scans, 0);
	if (mask == BIT(SIM_FRAMES_UNMAP)) /* else some pages show a lost one */
		assert_null(sim->frames);
	sim_passes(sim, 3);
	sim_settle(sim, 70);
	assert_true(sim_stats(sim).pages_sharing > 0);
	sim_destroy(sim);
	return came;
}

/* Known bug 34: an aborted unmerge left items that looked as if they were inserted in the pass
 * under way, while the next one began with an empty tree; they were then taken out of a tree that
 * they were not in. At each call that may fail, in every part of a pass, with and without
 * collisions. */
static void test_34_aborted_anywhere(void **unused)
{
	for (unsigned how = 0; how < 8; how++) {
		uint64_t k = 1;

		while (abort_at(BIT(SIM_FRAMES_UNMAP), SIM_CHECKSUM_DEFAULT, k, how))
			k++;
		assert_true(k > 4);
		for (k = 1; abort_at(BIT(SIM_FRAMES_UNMAP), SIM_CHECKSUM_2_BITS, k, how);)
			k++;
		for (k = 1; abort_at(BIT(SIM_FRAME_CONTENT), SIM_CHECKSUM_2_BITS, k, how);)
			k++;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_13_veto),
		cmocka_unit_test(test_13_veto_on_others),
		cmocka_unit_test(test_34_aborted_anywhere),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
