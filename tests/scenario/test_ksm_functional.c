/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_ksm_functional.c - the rows of the kernel's ksm_functional_tests (ksm-behaviour 3.2), each
 * by its name. unmerge_uffd_wp is in test_unmerge_vetoed.c. Left out are prctl and
 * prctl_fork_exec: there is no flag of a process here to be asked for, and no exec; what an
 * embedder registers is merged.
 *
 * As there: 2 MiB, that is 512 pages of one byte; before each, nothing is merged; "no duplicates"
 * says that no two pages show the same memory. A page is 8 bytes. What KSM counts at a write fault
 * is counted here by the next pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim.h"

#define PAGES 512u
#define HALF 256u

static struct sim *world(void)
{
	return sim_create(&(struct sim_options){ .page_shift = 3, .aging = PDD_AGING_NONE });
}

static uint64_t page_of(unsigned char byte)
{
	return byte * UINT64_C(0x0101010101010101);
}

static void merge(struct sim_region *region, unsigned char byte)
{
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, 0);
	for (uint64_t i = 0; i < PAGES; i++)
		sim_write(region, i, page_of(byte));
	sim_passes(region->space->sim, 2);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(sim_is_shared(region, i), byte != 0);
	if (byte)
		assert_true(sim_counts(region->space).ksm_merging_pages >= PAGES);
}

static struct sim_region *map_and_merge(struct sim_space *space, unsigned char byte)
{
	struct sim_region *region = sim_region_add(space, PAGES);

	merge(region, byte);
	return region;
}

/* Every page has memory of its own, or none. */
static void assert_no_duplicates(const struct sim_region *region, uint64_t first, uint64_t npages)
{
	for (uint64_t i = first; i < first + npages; i++)
		assert_true(region->pages[i].kind == PDD_PAGE_PRIVATE ||
			    region->pages[i].kind == PDD_PAGE_ABSENT);
}

static void test_unmerge(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region = map_and_merge(sim_space_add(sim, 0), 0xcf);

	assert_int_equal(sim_unmerge(region, 0, PAGES), PAGES);
	assert_no_duplicates(region, 0, PAGES);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, 0);
	assert_null(sim->frames);
	sim_destroy(sim);
}

static void test_unmerge_zero_pages(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region = map_and_merge(sim_space_add(sim, 0), 0);

	assert_int_equal(sim_counts(region->space).ksm_zero_pages, 512);
	assert_int_equal(sim_unmerge(region, 0, HALF), HALF);
	assert_int_equal(sim_counts(region->space).ksm_zero_pages, 256);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 256);
	assert_no_duplicates(region, 0, HALF);
	for (uint64_t i = HALF; i < PAGES; i++)
		sim_write(region, i, i);
	assert_no_duplicates(region, 0, PAGES);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_counts(region->space).ksm_zero_pages, 0);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 0);
	sim_destroy(sim);
}

/* The first half is discarded: through the library, or behind its back. */
static void discarded(bool sparse, bool told)
{
	struct sim *sim = world();
	struct sim_region *region =
		sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, sparse);

	merge(region, 0xcf);
	for (uint64_t i = 0; !told && i < HALF; i++)
		sim_discard(region, i);
	if (told)
		assert_int_equal(pdd_region_discard(&region->region, 0, HALF), 0);
	sim_verify(sim);
	assert_int_equal(sim_unmerge(region, 0, PAGES), told ? HALF : PAGES);
	assert_int_equal(sim->calls[SIM_FRAMES_UNMAP], 1); /* holes cost nothing */
	assert_no_duplicates(region, 0, PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(region->pages[i].kind == PDD_PAGE_ABSENT, i < HALF);
	assert_null(sim->frames);
	assert_int_equal(sim_unmerge(region, 0, PAGES), 0);
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_reason(region, 0), PDD_REASON_ABSENT);
	sim_destroy(sim);
}

static void test_unmerge_discarded(void **unused)
{
	for (unsigned i = 0; i < 4; i++)
		discarded(i & 1, i & 2);
}

/* ---- prot_none ---- */

static void refuse(struct sim_region *region, enum pdd_reason by_get, enum pdd_reason by_hold)
{
	for (uint64_t i = 0; i < PAGES; i++) {
		region->pages[i].refuse = by_get;
		region->pages[i].hold_refuse = by_hold;
	}
}

/* Pages that show frames lose their access rights: they keep what they show, the program (a
 * debugger of it) can still write them, and they are unmerged like any others. */
static void test_prot_none(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region = map_and_merge(sim_space_add(sim, 0), 0x11);

	refuse(region, PDD_REASON_SPECIAL, PDD_REASON_NONE);
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, PAGES);
	for (uint64_t i = 0; i < HALF; i++)
		sim_write(region, i, 1000 + i);
	assert_int_equal(sim_unmerge(region, HALF, HALF), HALF);
	assert_no_duplicates(region, 0, PAGES);
	sim_passes(sim, 2);
	assert_no_duplicates(region, 0, PAGES);
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_SPECIAL], HALF);
	refuse(region, PDD_REASON_NONE, PDD_REASON_NONE);
	sim_pass(sim, UINT64_MAX); /* now it is seen that they were written */
	assert_int_equal(sim_counts(region->space).unshares, HALF);
	assert_null(sim->frames);
	sim_destroy(sim);
}

/* They had none when they were registered: no page is read, held or merged, and each says why. */
static void test_prot_none_first(void **unused)
{
	static const enum pdd_reason reasons[] = { PDD_REASON_EXCLUDED, PDD_REASON_SPECIAL };

	for (unsigned i = 0; i < 2; i++) {
		struct sim *sim = world();
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), PAGES);

		refuse(region, reasons[i], PDD_REASON_NONE);
		for (uint64_t page = 0; page < PAGES; page++)
			sim_write(region, page, page_of(0x11));
		sim_passes(sim, 5);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, 0);
		assert_int_equal(sim_counts(region->space).reasons[reasons[i]], PAGES);
		assert_int_equal(sim_counts(region->space).pages_scanned + sim->held_pages, 0);
		assert_int_equal(sim_unmerge(region, 0, PAGES), 0);
		refuse(region, PDD_REASON_NONE, PDD_REASON_NONE);
		sim_passes(sim, 2);
		assert_int_equal(sim_counts(region->space).ksm_merging_pages, PAGES);
		sim_destroy(sim);
	}
}

/* They lose their rights for one pass, at different moments. Afterwards a page that is like no
 * other is "unique" again: no reason outlives what it says,
 * though one of hold is kept when the page is indexed. */
static void test_prot_none_lifted(void **unused)
{
	static const enum pdd_reason reasons[] = { PDD_REASON_SPECIAL, PDD_REASON_PINNED };

	for (unsigned i = 0; i < 6; i++) {
		struct sim *sim = world();
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 1);

		sim_write(region, 0, page_of(0x11));
		sim_passes(sim, 1 + i / 2);
		region->pages[0].refuse = reasons[i % 2];
		sim_pass(sim, UINT64_MAX);
		assert_int_equal(sim_reason(region, 0), reasons[i % 2]);
		region->pages[0].refuse = PDD_REASON_NONE;
		sim_passes(sim, 2);
		assert_int_equal(sim_reason(region, 0), PDD_REASON_UNIQUE);
		sim_destroy(sim);
	}
}

/* They can be read, but not be held. Two equal ones must not found a frame in every pass for
 * nothing, but be left to their age; and both say why they are not merged. */
static void test_prot_none_hold(void **unused)
{
	static const enum pdd_reason reasons[] = { PDD_REASON_PINNED, PDD_REASON_SPECIAL,
						   PDD_REASON_LOCKED, PDD_REASON_HUGE,
						   PDD_REASON_EXCLUDED };

	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct sim *sim = sim_create(&(struct sim_options){ .page_shift = 3 });
		struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 2);

		for (uint64_t page = 0; page < 2; page++) {
			sim_write(region, page, page_of(0x11));
			region->pages[page].hold_refuse = reasons[i];
		}
		sim_passes(sim, 300);
		assert_int_equal(sim->calls[SIM_FRAMES_MAP], 0);
		assert_null(sim->frames);
		/* Of two pages, 14 at most are looked at for their age, and some are due. */
		assert_in_range(sim->calls[SIM_FRAMES_CREATE], 1, 40);
		assert_int_equal(sim_reason(region, 0), reasons[i]);
		assert_int_equal(sim_reason(region, 1), reasons[i]);
		sim_destroy(sim);
	}
}

/* ---- prctl_unmerge ---- */

/* The process is not to be merged any more: excluded pages are unmerged, and no pass touches them
 * until they are included again. Others go on. */
static void test_prctl_unmerge(void **unused)
{
	struct sim *sim = world();
	struct sim_region *region = map_and_merge(sim_space_add(sim, 0), 0xcf);
	uint64_t gets = sim->calls[SIM_PAGES_GET], holds = sim->held_pages;
	struct sim_region *other;

	assert_int_equal(pdd_region_exclude(&region->region, 0, PAGES), 0);
	sim_verify(sim);
	assert_no_duplicates(region, 0, PAGES);
	assert_null(sim->frames);
	assert_int_equal(sim_counts(region->space).reasons[PDD_REASON_EXCLUDED], PAGES);
	sim_passes(sim, 5);
	assert_int_equal(sim->calls[SIM_PAGES_GET], gets);

	other = map_and_merge(sim_space_add(sim, 0), 0xcf);
	sim_passes(sim, 5);
	assert_no_duplicates(region, 0, PAGES);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, 0);
	assert_int_equal(sim_counts(other->space).ksm_merging_pages, PAGES);
	assert_int_equal(sim->held_pages, holds + PAGES); /* its own */

	assert_int_equal(pdd_region_include(&region->region, 0, PAGES), 0);
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(region->space).ksm_merging_pages, PAGES);
	sim_destroy(sim);
}

/* ---- prctl_fork ---- */

/* A merge works in a child and in a child of that, in what they map themselves and in what they
 * inherit; in one alone, and with the parent's pages of equal content. */
static void test_prctl_fork(void **unused)
{
	struct sim *sim = world();
	struct sim_space *parent = sim_space_add(sim, 0), *child, *grandchild;
	struct sim_region *inherited = sim_region_add(parent, 2), *mapped;

	sim_write(inherited, 0, page_of(1));
	sim_write(inherited, 1, page_of(1));
	child = sim_space_clone(parent);
	grandchild = sim_space_clone(child);
	mapped = map_and_merge(grandchild, 0xcf);
	assert_int_equal(sim_unmerge(mapped, 0, PAGES), PAGES);
	assert_no_duplicates(mapped, 0, PAGES);
	sim_region_remove(mapped);

	for (struct sim_space *space = sim->spaces; space; space = space->next)
		assert_int_equal(sim_counts(space).ksm_merging_pages, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 5);
	sim_space_remove(parent);
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(child).ksm_merging_pages, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 3);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmerge),
		cmocka_unit_test(test_unmerge_zero_pages),
		cmocka_unit_test(test_unmerge_discarded),
		cmocka_unit_test(test_prot_none),
		cmocka_unit_test(test_prot_none_first),
		cmocka_unit_test(test_prot_none_lifted),
		cmocka_unit_test(test_prot_none_hold),
		cmocka_unit_test(test_prctl_unmerge),
		cmocka_unit_test(test_prctl_fork),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
