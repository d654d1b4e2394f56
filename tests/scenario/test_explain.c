/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_explain.c - every page that is not shared has a reason that a program can read: each state
 * and each reason is brought about and explained. When a page is looked at next:
 * test_explain_next.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

/* Two spaces of one region each. What brings a reason about leaves it at page 0 of `a`. */
struct world {
	struct sim *sim;
	struct sim_region *a, *b;
};

static struct world create(const struct sim_options *options)
{
	struct world w = { .sim = sim_create(options) };

	w.a = sim_region_add(sim_space_add(w.sim, 0), 4);
	w.b = sim_region_add(sim_space_add(w.sim, 0), 4);
	return w;
}

static struct pdd_explanation explain(const struct sim_region *region, uint64_t page)
{
	struct pdd_explanation e = { .size = sizeof(e) };

	assert_int_equal(pdd_region_explain(&region->region, page, &e), 0);
	assert_int_equal(e.size, sizeof(e));
	return e;
}

/* A fallible hook fails from now on. */
static void breaks(struct world *w, enum sim_hook hook, int error)
{
	w->sim->fail_mask = UINT64_C(1) << hook;
	w->sim->fail_errno = error;
	w->sim->fail_chance = 1;
}

/* Two equal pages, of which `a` has page 0, looked at once. */
static void pair(struct world *w)
{
	sim_write(w->a, 0, 1);
	sim_write(w->b, 0, 1);
	sim_pass(w->sim, UINT64_MAX);
}

static void shared(struct world *w)
{
	pair(w);
	sim_pass(w->sim, UINT64_MAX);
}

static void new_page(struct world *w)
{
	sim_write(w->a, 0, 1);
}

static void absent(struct world *w)
{
	sim_pass(w->sim, UINT64_MAX);
}

static void first_look(struct world *w)
{
	sim_write(w->a, 0, SIM_FILLED | 1);
	sim_pass(w->sim, UINT64_MAX);
}

static void changing(struct world *w)
{
	first_look(w);
	sim_write(w->a, 0, 2);
	sim_pass(w->sim, UINT64_MAX);
}

static void unique(struct world *w)
{
	sim_write(w->a, 0, 1);
	sim_passes(w->sim, 2);
}

/* The frame that it shared is lost. */
static void stale(struct world *w)
{
	shared(w);
	w->a->pages[0].frame->gone = true;
	sim_prune(w->sim);
}

static struct sim_region *target;

static void write_before_hold(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook == SIM_HOLD && before)
		sim_write(target, 0, 77);
}

static void changed(struct world *w)
{
	pair(w);
	target = w->a;
	w->sim->at = write_before_hold;
	sim_pass(w->sim, UINT64_MAX);
	w->sim->at = NULL;
}

static void busy(struct world *w)
{
	unique(w);
	sim_write(w->b, 0, 1);
	sim_pass(w->sim, UINT64_MAX);
	w->a->space->busy = true;
	sim_pass(w->sim, UINT64_MAX);
	w->a->space->busy = false;
}

static void pinned(struct world *w)
{
	unique(w);
	assert_int_equal(pdd_region_pin(&w->a->region, 0, 1), 0);
}

static void excluded(struct world *w)
{
	shared(w);
	assert_int_equal(pdd_region_exclude(&w->a->region, 0, 1), 0);
}

static void foreign(struct world *w)
{
	sim_show_foreign(w->a, 0, sim_foreign_frame(w->sim, 5));
	sim_pass(w->sim, UINT64_MAX);
}

static void kernel_zero(struct world *w)
{
	w->a->pages[0].kind = PDD_PAGE_ZERO;
	sim_pass(w->sim, UINT64_MAX);
}

static void mapping_budget(struct world *w)
{
	pair(w);
	breaks(w, SIM_FRAMES_MAP, -ENOSPC);
	sim_pass(w->sim, UINT64_MAX);
}

static void no_memory(struct world *w)
{
	pair(w);
	breaks(w, SIM_FRAMES_CREATE, -ENOMEM);
	sim_pass(w->sim, UINT64_MAX);
}

static void hook_failed(struct world *w)
{
	pair(w);
	breaks(w, SIM_HOLD, -EIO);
	sim_pass(w->sim, UINT64_MAX);
}

static void unmerged(struct world *w)
{
	shared(w);
	assert_int_equal(sim_unmerge(w->a, 0, 1), 1);
}

static void zero(struct world *w)
{
	sim_write(w->a, 0, 0);
	sim_passes(w->sim, 2);
}

/* What a story is to leave. */
static const struct {
	void (*story)(struct world *w);
	enum pdd_page_state state;
	enum pdd_reason reason;
	enum pdd_class class_;
	bool due;
} stories[] = {
	{ shared, PDD_STATE_SHARED, PDD_REASON_NONE, PDD_CLASS_OTHER, false },
	{ zero, PDD_STATE_ZERO, PDD_REASON_NONE, PDD_CLASS_ZERO, false },
	{ new_page, PDD_STATE_NEW, PDD_REASON_NEW, PDD_CLASS_OTHER, false },
	{ absent, PDD_STATE_NEW, PDD_REASON_ABSENT, PDD_CLASS_OTHER, false },
	{ first_look, PDD_STATE_SEEN, PDD_REASON_FIRST_LOOK, PDD_CLASS_FILLED, true },
	{ changing, PDD_STATE_SEEN, PDD_REASON_VOLATILE, PDD_CLASS_OTHER, true },
	{ unique, PDD_STATE_UNSHARED, PDD_REASON_UNIQUE, PDD_CLASS_OTHER, false },
	{ stale, PDD_STATE_NEW, PDD_REASON_STALE, PDD_CLASS_OTHER, true },
	{ changed, PDD_STATE_SEEN, PDD_REASON_CHANGED, PDD_CLASS_OTHER, true },
	{ busy, PDD_STATE_SEEN, PDD_REASON_BUSY, PDD_CLASS_OTHER, true },
	{ pinned, PDD_STATE_NEW, PDD_REASON_PINNED, PDD_CLASS_OTHER, false },
	{ excluded, PDD_STATE_NEW, PDD_REASON_EXCLUDED, PDD_CLASS_OTHER, false },
	{ foreign, PDD_STATE_NEW, PDD_REASON_FOREIGN_FRAME, PDD_CLASS_OTHER, false },
	{ kernel_zero, PDD_STATE_NEW, PDD_REASON_KERNEL_ZERO, PDD_CLASS_OTHER, false },
	{ mapping_budget, PDD_STATE_SEEN, PDD_REASON_MAPPING_BUDGET, PDD_CLASS_OTHER, true },
	{ no_memory, PDD_STATE_SEEN, PDD_REASON_NO_MEMORY, PDD_CLASS_OTHER, true },
	{ hook_failed, PDD_STATE_SEEN, PDD_REASON_HOOK_FAILED, PDD_CLASS_OTHER, true },
	{ unmerged, PDD_STATE_NEW, PDD_REASON_UNMERGED, PDD_CLASS_OTHER, false },
};

static void test_stories(void **unused)
{
	for (unsigned i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
		struct world w = create(NULL);
		struct pdd_explanation e;

		stories[i].story(&w);
		sim_verify(w.sim);
		e = explain(w.a, 0);
		assert_int_equal(e.state, stories[i].state);
		assert_int_equal(e.reason, stories[i].reason);
		assert_int_equal(e.class_, stories[i].class_);
		assert_int_equal(e.due, stories[i].due);
		assert_int_equal(e.excluded, e.reason == PDD_REASON_EXCLUDED);
		assert_int_equal(e.npins, e.reason == PDD_REASON_PINNED);
		assert_ptr_equal(e.frame, e.state == PDD_STATE_SHARED
						  ? &w.a->pages[0].frame->frame
						  : NULL);
		assert_true(sim_counts(w.a->space).reasons[e.reason] > 0);
		sim_destroy(w.sim);
	}
}

/* What a view says is what is told: of pages that cannot be read, and of such that cannot be held.
 * */
static void test_refused(void **unused)
{
	static const enum pdd_reason reasons[] = {
		PDD_REASON_PINNED,  PDD_REASON_PINS_UNSEEN,   PDD_REASON_LOCKED,
		PDD_REASON_HUGE,    PDD_REASON_EXCLUDED,      PDD_REASON_SPECIAL,
		PDD_REASON_NO_HOLD, PDD_REASON_MAPPING_BUDGET,
	};

	for (unsigned i = 0; i < 2 * sizeof(reasons) / sizeof(reasons[0]); i++) {
		struct world w = create(NULL);

		pair(&w);
		if (i % 2)
			w.a->pages[0].refuse = reasons[i / 2];
		else
			w.a->pages[0].hold_refuse = reasons[i / 2];
		sim_pass(w.sim, UINT64_MAX);
		assert_int_equal(explain(w.a, 0).reason, reasons[i / 2]);
		/* what cannot be read is forgotten */
		assert_int_equal(explain(w.a, 0).state, i % 2 ? PDD_STATE_NEW : PDD_STATE_SEEN);
		assert_int_equal(explain(w.a, 0).npins, 0);
		assert_false(explain(w.a, 0).excluded);
		w.a->pages[0].refuse = w.a->pages[0].hold_refuse = PDD_REASON_NONE;
		sim_pass(w.sim, UINT64_MAX);
		assert_int_equal(explain(w.a, 0).reason,
				 i % 2 ? PDD_REASON_FIRST_LOOK : PDD_REASON_NONE);
		sim_destroy(w.sim);
	}
}

/* Its content has the checksum of another one; searches compare then, and it gets its place. */
static void test_collision(void **unused)
{
	struct world w = create(&(struct sim_options){ .checksum = SIM_CHECKSUM_ZERO });

	sim_write(w.a, 0, 1);
	sim_write(w.b, 0, 2);
	sim_passes(w.sim, 2);
	assert_true(explain(w.a, 0).reason == PDD_REASON_COLLISION ||
		    explain(w.b, 0).reason == PDD_REASON_COLLISION);
	sim_settle(w.sim, 10);
	assert_int_equal(explain(w.a, 0).reason, PDD_REASON_UNIQUE);
	assert_int_equal(explain(w.b, 0).reason, PDD_REASON_UNIQUE);
	assert_int_equal(explain(w.a, 0).state, PDD_STATE_UNSHARED);
	sim_destroy(w.sim);
}

/* The step ended before its turn came: due, and done in the next one. */
static void test_deadline(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 100);
	uint64_t late = 0;

	for (uint64_t i = 0; i < 100; i += 2)
		sim_write(region, i, 0); /* runs of one page each */
	sim_pass(sim, UINT64_MAX);
	sim->ns_per_hook = 1000;
	sim_step_until(sim, UINT64_MAX, sim->now + 5000);
	for (uint64_t i = 0; i < 100; i += 2) {
		struct pdd_explanation e = explain(region, i);

		assert_int_equal(e.class_, PDD_CLASS_ZERO);
		if (e.state == PDD_STATE_ZERO)
			continue;
		assert_int_equal(e.state, PDD_STATE_SEEN);
		assert_int_equal(e.reason, PDD_REASON_DEADLINE);
		assert_int_equal(e.next_look_passes, 0);
		assert_true(e.due);
		late++;
	}
	assert_in_range(late, 1, 49);
	sim_passes(sim, 1);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, 50);
	sim_destroy(sim);
}

/* A sparse region: no record, before and after a look; something stands there: as any other page.
 * */
static void test_no_record(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add_with(sim_space_add(sim, 0), 2000, 2000, true);
	struct pdd_explanation e;

	for (unsigned pass = 0; pass < 2; pass++) {
		e = explain(region, 1999);
		assert_int_equal(e.state, PDD_STATE_NEW);
		assert_int_equal(e.reason, PDD_REASON_NO_RECORD);
		assert_int_equal(e.next_look_passes, 0);
		assert_int_equal(e.age + e.npins + e.due + e.excluded, 0);
		assert_null(e.frame);
		sim_pass(sim, UINT64_MAX);
	}
	sim_write(region, 1999, 1);
	assert_int_equal(explain(region, 1999).reason, PDD_REASON_NO_RECORD);
	sim_passes(sim, 2);
	assert_int_equal(explain(region, 1999).reason, PDD_REASON_UNIQUE);
	assert_int_equal(explain(region, 1998).reason, PDD_REASON_ABSENT);
	assert_int_equal(explain(region, 1000).reason, PDD_REASON_NO_RECORD);
	assert_int_equal(explain(region, 1999).age, 2);
	sim_destroy(sim);
}

/* Older and newer callers: as far as they know, and zeros behind what the library knows. */
static void test_sizes(void **unused)
{
	struct {
		struct pdd_explanation e;
		unsigned char newer[16];
	} big;
	struct world w = create(NULL);
	struct pdd_explanation all, e;

	shared(&w);
	all = explain(w.a, 0);
	for (size_t size = sizeof(size_t); size <= sizeof(e); size++) {
		memset(&e, 0x5a, sizeof(e));
		e.size = size;
		assert_int_equal(pdd_region_explain(&w.a->region, 0, &e), 0);
		assert_int_equal(e.size, size);
		if (size >= offsetof(struct pdd_explanation, age))
			assert_int_equal(e.state, PDD_STATE_SHARED);
		for (size_t i = size; i < sizeof(e); i++)
			assert_int_equal(((unsigned char *)&e)[i], 0x5a);
	}
	memset(&big, 0x5a, sizeof(big));
	big.e.size = sizeof(big);
	assert_int_equal(pdd_region_explain(&w.a->region, 0, &big.e), 0);
	assert_int_equal(big.e.size, sizeof(big));
	assert_ptr_equal(big.e.frame, all.frame);
	for (size_t i = 0; i < sizeof(big.newer); i++)
		assert_int_equal(big.newer[i], 0);
	sim_destroy(w.sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stories),	  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_collision), cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_no_record), cmocka_unit_test(test_sizes),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
