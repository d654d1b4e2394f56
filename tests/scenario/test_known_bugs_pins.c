/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_pins.c - known bugs 7 and 26: pages to which somebody else holds on, and places
 * where no page is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "sim.h"

/* ---- 7: pins that are released when a scan starts ---- */

/* How a page is kept from being merged. */
enum pin {
	GET = 0,     /* pages_get says so */
	HOLD = 1,    /* only hold does */
	CALLED = 2,  /* pdd_region_pin() */
	EXCLUDED = 3,
	PINS = 4,
};

/* Whom it is to merge with. */
enum partner { NOBODY_YET = 0, FRAME = 1, TWIN = 2, PINNED_TWIN = 3, PARTNERS = 4 };

static struct sim_region *pinned;
static bool release_now;

/* Pages 0 and 1, if that is pinned too. */
static void set_pins(enum pin pin, uint64_t npages, bool on)
{
	struct pdd_region *region = &pinned->region;

	for (uint64_t i = 0; i < npages; i++) {
		if (pin == GET)
			pinned->pages[i].refuse = on ? PDD_REASON_PINNED : PDD_REASON_NONE;
		if (pin == HOLD)
			pinned->pages[i].hold_refuse = on ? PDD_REASON_PINNED : PDD_REASON_NONE;
	}
	if (pin == CALLED)
		assert_int_equal(on ? pdd_region_pin(region, 0, npages)
				    : pdd_region_unpin(region, 0, npages),
				 0);
	if (pin == EXCLUDED)
		assert_int_equal(on ? pdd_region_exclude(region, 0, npages)
				    : pdd_region_include(region, 0, npages),
				 0);
}

/* Caches are drained when the scan starts: with the first lock of a pass. */
static void drain(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_TRYLOCK || !before || !release_now)
		return;
	release_now = false;
	for (uint64_t i = 0; i < 2; i++)
		pinned->pages[i].refuse = pinned->pages[i].hold_refuse = PDD_REASON_NONE;
}

/* Page 0 has been there for `age` passes when it is pinned for `passes`; then it merges in
 * `most`. */
static void pin_for(unsigned age, unsigned passes, enum pin pin, enum partner partner,
		    enum pdd_aging aging, unsigned most)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = aging, .max_period = 8 });
	struct sim_region *others = sim_region_add(sim_space_add(sim, 0), 2);
	uint64_t npins = partner == PINNED_TWIN ? 2 : 1;

	pinned = sim_region_add(sim_space_add(sim, 0), 2);
	sim_write(pinned, 0, 7);
	sim_passes(sim, age);
	sim_write(pinned, npins - 1, 7);
	for (uint64_t i = 0; i < 2; i++)
		if (partner == FRAME || (partner == TWIN && i == 0))
			sim_write(others, i, 7);
	set_pins(pin, npins, true);
	sim_passes(sim, passes);
	assert_false(sim_is_shared(pinned, 0));
	if (partner == NOBODY_YET)
		sim_write(others, 0, 7);
	if (pin == CALLED || pin == EXCLUDED) {
		set_pins(pin, npins, false);
	} else {
		release_now = true;
		sim->at = drain;
	}
	for (unsigned i = 0; i < most && !sim_is_shared(pinned, 0); i++)
		sim_pass(sim, UINT64_MAX);
	sim->at = NULL;
	assert_true(sim_is_shared(pinned, 0));
	assert_true(partner == FRAME || sim_is_shared(partner == PINNED_TWIN ? pinned : others,
						      partner == PINNED_TWIN ? 1 : 0));
	sim_destroy(sim);
}

/* Known bug 7: references that were left in caches kept pages from being merged, now and then for
 * ever; they are drained when a scan starts. Here a page whose pins are released then merges in
 * this pass or the next one, however long it was pinned. Only if hold refused it again and again,
 * and without a sign of its release, it waits for the pass of its age. */
static void test_7_pins_released_at_scan_start(void **unused)
{
	for (unsigned passes = 0; passes <= 140; passes += passes < 12 ? 1 : 16) {
		for (enum partner partner = 0; partner < PARTNERS; partner++) {
			for (enum pin pin = 0; pin < PINS; pin++) {
				unsigned most = pin == HOLD && passes > 1 ? 8 + 1 : 2;

				pin_for(0, passes, pin, partner, PDD_AGING_NONE, 2);
				pin_for(0, passes, pin, partner, PDD_AGING_PHASE, most);
				pin_for(130, passes, pin, partner, PDD_AGING_PHASE, most);
			}
		}
	}
}

/* ---- 26: there is no page ---- */

/* What stands there instead. A page that is exclusive to a device is not present for others. */
enum thing { NOTHING = 0, KERNEL_ZERO = 1, EXCLUSIVE = 2, FOREIGN = 3, OURS = 4, THINGS = 5 };

#define PAGES 5u
#define OURS_CONTENT 50u

static struct {
	struct sim_region *region;
	unsigned pages; /* that change, by their bits */
	enum thing thing;
	struct sim_frame *frame;
	uint64_t touched; /* pages that a hook acted upon though they were not held */
} change;

static void become(struct sim_region *region, uint64_t page, enum thing thing)
{
	switch (thing) {
	case NOTHING: sim_discard(region, page); break;
	case KERNEL_ZERO:
		sim_discard(region, page);
		region->pages[page].kind = PDD_PAGE_ZERO;
		break;
	case EXCLUSIVE: region->pages[page].refuse = PDD_REASON_SPECIAL; break;
	case FOREIGN: sim_show_foreign(region, page, change.frame); break;
	case OURS:
	case THINGS: /* as after a fork, from another page's frame */
		sim_show_foreign(region, page, change.frame);
		region->pages[page].cloned = true;
		region->pages[page].expected = OURS_CONTENT;
		break;
	}
}

static void change_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook != SIM_HOLD || !before)
		return;
	for (uint64_t i = 0; i < PAGES; i++)
		if (change.pages >> i & 1)
			become(change.region, i, change.thing);
	change.pages = 0;
}

static uint64_t not_held(struct sim_region *region, uint64_t first, uint64_t npages)
{
	uint64_t n = 0;

	for (uint64_t i = first; i < first + npages; i++)
		n += !region->pages[i].held;
	return n;
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	change.touched += not_held((struct sim_region *)(void *)region, first, npages);
	sim_ops.release(ctx, region, first, npages);
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	change.touched += not_held((struct sim_region *)(void *)region, first, npages);
	return sim_ops.frames_map(ctx, region, first, frames, npages);
}

/* Pages of a and b that are equal one to one. Those of one of them, twins or pages at hand,
 * change between the moment they are found and the moment they are to be held. Page 2 is not
 * decided about: it lies between others that are, and may be held with them. */
static void change_pages(bool twins, unsigned pages, enum thing thing)
{
	struct sim *sim = sim_create(&(struct sim_options){ .aging = PDD_AGING_NONE });
	struct sim_region *c = sim_region_add(sim_space_add(sim, 0), 2);
	struct sim_region *a = sim_region_add(sim_space_add(sim, 0), PAGES);
	struct sim_region *b = sim_region_add(sim_space_add(sim, 0), PAGES);

	sim->scanner.priv.ops.release = release;
	sim->scanner.priv.ops.frames_map = frames_map;
	for (uint64_t i = 0; i < 2; i++)
		sim_write(c, i, OURS_CONTENT);
	for (uint64_t i = 0; i < PAGES; i++) {
		sim_write(a, i, i == 2 ? 20 : 1 + i);
		sim_write(b, i, i == 2 ? 21 : 1 + i);
	}
	b->space->busy = true; /* c merges, and a waits in the index */
	sim_passes(sim, 2);
	b->space->busy = false;
	sim_pass(sim, UINT64_MAX);
	change.frame = thing == OURS ? c->pages[0].frame : sim_foreign_frame(sim, 60);
	change.region = twins ? a : b;
	change.pages = pages;
	change.thing = thing;
	change.touched = 0;
	sim->at = change_before_hold;
	sim_pass(sim, UINT64_MAX);
	sim->at = NULL;
	assert_int_equal(change.pages, 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		bool changed = pages >> i & 1;

		if (changed)
			assert_true(change.region->pages[i].frame ==
				    (thing >= FOREIGN ? change.frame : NULL));
		if (i != 2)
			assert_int_equal(sim_reason(change.region, i) == PDD_REASON_NONE, !changed);
	}
	assert_int_equal(change.touched, 0);
	sim_passes(sim, 2);
	for (uint64_t i = 0; i < PAGES; i++) { /* all are back */
		change.region->pages[i].refuse = PDD_REASON_NONE;
		if (pages >> i & 1)
			sim_write(change.region, i, i == 2 ? 22 : 1 + i);
	}
	sim_passes(sim, 3);
	for (uint64_t i = 0; i < PAGES; i++)
		assert_int_equal(sim_is_shared(a, i) && sim_is_shared(b, i), i != 2);
	sim_destroy(sim);
}

/* Known bug 26: an entry that was not present was treated as a mapping and write-protected. Here
 * what hold does not hold is not touched, whatever is there: it is not read, compared, replaced
 * or released, and keeps what it shows. */
static void test_26_not_present(void **unused)
{
	for (unsigned twins = 0; twins < 2; twins++)
		for (unsigned pages = 0; pages < 1u << PAGES; pages++)
			for (enum thing thing = 0; thing < THINGS; thing++)
				change_pages(twins, pages, thing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_7_pins_released_at_scan_start),
		cmocka_unit_test(test_26_not_present),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
