/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_refile.c - known wish of KSM: frames that writes left sparse are emptied into fuller ones by
 * a prune, and go back. Each page keeps its content whatever happens meanwhile, and what a prune
 * could not do the next one does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

/* Contents that are unlike all others. */
#define UNIQUE(i) (1000 + (uint64_t)(i))

static void set_limit(struct sim *sim, uint32_t limit)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &tunables), 0);
	tunables.max_page_sharing = limit;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &tunables), 0);
}

/* Pages of a few contents in turn, merged, in one space or two. */
static struct sim *world(struct sim_region *regions[2], uint64_t npages, uint64_t ncontents,
			 uint32_t limit)
{
	struct sim *sim = sim_create(&(struct sim_options){ .limit = limit });

	for (unsigned r = 0; r < 2; r++) {
		regions[r] = sim_region_add(sim_space_add(sim, 0), npages / 2);
		for (uint64_t i = 0; i < npages / 2; i++)
			sim_write(regions[r], i, 1 + i % ncontents);
	}
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, npages);
	return sim;
}

/* Of each frame's sharers all but `left` are written with unique contents, and a pass sees it. */
static void make_sparse(struct sim *sim, struct sim_region *const regions[2], uint32_t left)
{
	uint64_t n = 0;

	for (unsigned r = 0; r < 2; r++)
		for (uint64_t i = 0; i < regions[r]->npages; i++)
			if (sim_is_shared(regions[r], i) && regions[r]->pages[i].frame->maps > left)
				sim_write(regions[r], i, UNIQUE(++n));
	sim_pass(sim, UINT64_MAX);
	assert_int_equal(sim_stats(sim).counts.unshares, n);
}

/* 1,000 equal pages in ten frames, of each of which ten sharers are left: one frame is enough. */
static void test_ten_to_one(void **unused)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 1000, 1, 100);
	uint64_t freed;

	assert_int_equal(sim_stats(sim).pages_shared, 10);
	make_sparse(sim, regions, 10);
	assert_int_equal(sim_stats(sim).pages_shared, 10);
	freed = sim->calls[SIM_FRAME_FREE];
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 99);
	assert_int_equal(pdd_frame_sharers(&sim->frames->frame), 100);
	assert_null(sim->frames->next);
	assert_int_equal(sim->calls[SIM_FRAME_FREE] - freed, 9);
	assert_int_equal(sim_stats(sim).counts.refiles, 90);

	/* With a higher limit the others come to that frame, too. */
	set_limit(sim, 1000);
	for (unsigned r = 0; r < 2; r++)
		for (uint64_t i = 0; i < 500; i++)
			if (!sim_is_shared(regions[r], i))
				sim_write(regions[r], i, 1);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_shared, 1);
	assert_int_equal(sim_stats(sim).pages_sharing, 999);
	sim_destroy(sim);
}

/* A prune of one page a step moves one sharer at most in each, and ends. */
static void test_by_and_by(void **unused)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 200, 2, 20);
	uint64_t prunes, refiles = 0, steps = 0;

	make_sparse(sim, regions, 4);
	prunes = sim_stats(sim).prunes;
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	while (sim_stats(sim).prunes == prunes) {
		assert_int_equal(sim_step(sim, 1), PDD_STEP_MORE);
		assert_in_range(sim_stats(sim).counts.refiles - refiles, 0, 1);
		refiles = sim_stats(sim).counts.refiles;
		steps++;
	}
	assert_int_equal(refiles, 2 * 4 * 4);
	/* one for each move, each chain and each 64 trees, and those that find nothing */
	assert_in_range(steps, refiles, refiles + 2 + 2 + 1);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	sim_destroy(sim);
}

static bool armed;

/* Once, the page is written at the very moment before it would be moved. */
static int write_and_remap(void *ctx, struct pdd_region *region, uint64_t first,
			   struct pdd_frame *const *frames, uint64_t npages)
{
	struct sim *sim = ctx;

	if (armed)
		sim_write((struct sim_region *)(void *)region, first,
			  UNIQUE(500 + sim->calls[SIM_FRAMES_REMAP]));
	armed = false;
	return sim_ops.frames_remap(ctx, region, first, frames, npages);
}

static void test_written_before(void **unused)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 100, 1, 10);

	make_sparse(sim, regions, 2);
	sim->scanner.priv.ops.frames_remap = write_and_remap;
	for (uint64_t left = 20; left > 17; left--) {
		uint64_t refiles = sim_stats(sim).counts.refiles;

		assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, left);
		armed = true;
		sim_prune(sim); /* it gives up: the page keeps its copy, says the verification */
		assert_false(armed);
		assert_int_equal(sim_stats(sim).counts.refiles, refiles);
		assert_int_equal(sim_stats(sim).hook_errors, 0);
		sim_pass(sim, UINT64_MAX); /* that it began; sees what was written */
	}
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 17);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	sim_destroy(sim);
}

/* A space is busy: its pages are not moved and nobody waits; the next prune does it. */
static void test_busy(void **unused)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 120, 3, 10);

	make_sparse(sim, regions, 3);
	regions[0]->space->busy = regions[1]->space->busy = true;
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).counts.refiles, 0);
	assert_int_equal(sim->calls[SIM_FRAMES_REMAP], 0);
	regions[1]->space->busy = false;
	sim_prune(sim);
	assert_int_equal(sim_counts(regions[0]->space).refiles, 0);
	regions[0]->space->busy = false;
	sim_passes(sim, 2); /* a prune is still wanted, and comes between them */
	assert_int_equal(sim_stats(sim).pages_shared, 3 * 2);
	sim_destroy(sim);
}

/* frames_remap fails at the k-th call: that chain is left for the next prune. Whether it failed. */
static bool fails_at(uint64_t k, int error)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 100, 2, 10);
	bool failed, busy = error == -EBUSY || error == -EAGAIN;
	uint64_t calls;

	make_sparse(sim, regions, 2);
	sim->fail_mask = BIT(SIM_FRAMES_REMAP);
	sim->fail_errno = error;
	sim->fail_at = k;
	sim->fallible = 0;
	sim_prune(sim);
	calls = sim->calls[SIM_FRAMES_REMAP];
	failed = calls >= k;
	assert_int_equal(sim_stats(sim).counts.refiles, calls - failed);
	assert_int_equal(sim_stats(sim).hook_errors_by_hook[PDD_HOOK_FRAMES_REMAP],
			 failed && !busy);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_shared, 2);
	assert_int_equal(sim_stats(sim).counts.refiles, 2 * 8);
	sim_destroy(sim);
	return failed;
}

static void test_fails(void **unused)
{
	static const int errors[] = { -EBUSY, -EAGAIN, -ENOMEM, -ENOSPC, -EIO };

	for (unsigned e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		uint64_t k = 1;

		while (fails_at(k, errors[e]))
			k++;
		assert_int_equal(k, 2 * 8 + 1);
	}
}

/* A lower limit: frames that have more keep them, later merges go by the new one. */
static void test_lower_limit(void **unused)
{
	struct sim_region *regions[2];
	struct sim *sim = world(regions, 200, 1, 100);

	set_limit(sim, 10);
	sim->limit_lowered = true;
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).counts.refiles, 0);
	for (uint64_t i = 0; i < 95; i++)
		sim_write(regions[0], i, 2);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_shared, 2 + 10); /* nine of 10 and one of 5 */
	for (uint64_t i = 0; i < 95; i++) /* there is no room for them in the two */
		sim_write(regions[0], i, 1);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, 200);
	assert_true(sim_stats(sim).pages_shared >= 2 + 9);
	sim_destroy(sim);
}

static uint64_t sharers_of(struct sim_region *const regions[2], uint64_t content)
{
	uint64_t n = 0;

	for (unsigned r = 0; r < 2; r++)
		for (uint64_t i = 0; i < regions[r]->npages; i++)
			n += sim_is_shared(regions[r], i) &&
			     regions[r]->pages[i].expected == content;
	return n;
}

static uint64_t frames_of(const struct sim *sim, uint64_t content)
{
	unsigned char page[64];
	uint64_t n = 0;

	assert_int_equal(sim->page_size, sizeof(page));
	sim_fill(sim, page, content);
	for (const struct sim_frame *frame = sim->frames; frame; frame = frame->next)
		n += memcmp(frame->data, page, sizeof(page)) == 0;
	return n;
}

static void write_at_random(struct sim *sim, struct sim_region *const regions[2])
{
	static uint64_t unique;

	for (uint64_t n = sim_random(sim, 200); n; n--)
		sim_write(regions[sim_random(sim, 2)], sim_random(sim, 120),
			  sim_random(sim, 2) ? 1 + sim_random(sim, 3) : UNIQUE(++unique));
}

/* Pages get one of three contents or a unique one, also between steps of a prune. When a prune was
 * completed in peace there are as few frames of each content as can be, whatever the checksums. */
static void test_fewest_frames(void **unused)
{
	uint64_t refiles = 0;

	for (unsigned round = 0; round < 60; round++) {
		uint32_t limit = 2 + round % 7;
		struct sim *sim = sim_create(&(struct sim_options){
			.limit = limit,
			.checksum = round % 3 ? SIM_CHECKSUM_DEFAULT : SIM_CHECKSUM_ZERO,
		});
		struct sim_region *regions[2] = {
			sim_region_add(sim_space_add(sim, 0), 120),
			sim_region_add(sim_space_add(sim, 0), 120),
		};

		sim->random += round;
		for (unsigned i = 0; i < 20; i++) {
			write_at_random(sim, regions);
			assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
			for (uint64_t n = sim_random(sim, 20); n; n--)
				sim_step(sim, 1 + sim_random(sim, 4));
			sim_passes(sim, (unsigned)sim_random(sim, 3));
		}
		sim_passes(sim, 2);
		sim_prune(sim);
		for (uint64_t content = 1; content <= 3; content++)
			assert_int_equal(frames_of(sim, content),
					 (sharers_of(regions, content) + limit - 1) / limit);
		refiles += sim_stats(sim).counts.refiles;
		sim_destroy(sim);
	}
	assert_true(refiles > 60); /* in most rounds there are many, in a few none */
}

/* What clones kept is asked for again; a frame that nothing shows any more goes back. */
static void test_kept(void **unused)
{
	struct sim_region *regions[2], *copy;
	struct sim *sim = world(regions, 16, 1, 4);
	uint64_t asked;

	copy = sim_space_clone(regions[0]->space)->regions;
	copy->space->busy = true;
	make_sparse(sim, regions, 0);
	assert_int_equal(sim_stats(sim).frames_kept, 2);
	asked = sim->calls[SIM_FRAME_IS_MAPPED];
	sim_prune(sim);
	assert_int_equal(sim->calls[SIM_FRAME_IS_MAPPED] - asked, 2);
	assert_int_equal(sim_stats(sim).frames_kept, 2);
	for (uint64_t i = 0; i < copy->npages; i++)
		sim_discard(copy, i);
	sim_prune(sim);
	assert_int_equal(sim_stats(sim).frames_kept, 0);
	assert_null(sim->frames);
	sim_destroy(sim);
}

/* A frame that is gone is dropped, dup or leader, and its sharers are due. */
static void test_stale(void **unused)
{
	for (unsigned lost = 0; lost < 5; lost++) {
		struct sim_region *regions[2];
		struct sim *sim = world(regions, 20, 1, 4);
		struct sim_frame *frame = sim->frames;

		for (unsigned i = 0; i < lost; i++)
			frame = frame->next;
		frame->gone = true;
		sim_prune(sim);
		assert_int_equal(sim_stats(sim).stale_frames, 1);
		assert_int_equal(sim_stats(sim).pages_shared, 4);
		assert_int_equal(sim_stats(sim).counts.reasons[PDD_REASON_STALE], 4);
		assert_int_equal(sim_stats(sim).counts.pages_due, 4);
		sim_destroy(sim);
	}
}

/* Trees without frames cost little, but not nothing: many of them take many steps. */
static void test_empty_trees(void **unused)
{
	struct sim *sim = sim_create(&(struct sim_options){.nroots = 4096});
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 2);
	uint64_t prunes, nsteps = 0;

	sim_write(region, 0, 1);
	sim_write(region, 1, 1);
	sim_settle(sim, 4);
	prunes = sim_stats(sim).prunes;
	assert_int_equal(pdd_scanner_prune(&sim->scanner), 0);
	for (; sim_stats(sim).prunes == prunes; nsteps++)
		sim_step(sim, 1);
	assert_in_range(nsteps, 4096 / 64, 4096 / 64 + 2);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_trees),
		cmocka_unit_test(test_ten_to_one),
		cmocka_unit_test(test_by_and_by),
		cmocka_unit_test(test_written_before),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_fails),
		cmocka_unit_test(test_lower_limit),
		cmocka_unit_test(test_fewest_frames),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_stale),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
