/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_walks.c - a pass comes by each page that was there when it began, and is there when its turn
 * comes, exactly once: it is described by pages_get, or counted in pages_busy, never both, never
 * twice. Pages that come during a pass are left to the next one, and every pass ends (pass.c,
 * invariants 1 and 2; the loop s13 over locks that come and go).
 *
 * A mirror of all regions notes at each try and each pages_get what the pass came by. Locks are
 * taken and given back at any try; between steps regions and spaces come, grow, shrink and go,
 * above all where walks stand, began, or will go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sim.h"

#define PASSES 400u
#define SPACES 6u
#define REGIONS 16u
#define PAGES (2 * PDD_EXTENT_PAGES + 100) /* of a region at most */

struct mirror {
	struct sim_region *region; /* NULL: free */
	uint64_t npages;           /* there when the pass began, and still there */
	unsigned char came[PAGES]; /* how often the pass came by them */
};

struct world {
	struct sim *sim;
	struct mirror mirrors[REGIONS];
	unsigned nspaces, nregions;
	uint64_t content;
	uint64_t calm; /* one try in so many changes a lock */
	/* the last try, if it failed */
	struct pdd_space *failed;
	struct pdd_place at;
	uint64_t busy_before;
	/* in the pass under way, and in all */
	uint64_t tries, missed;
	uint64_t put_off, misses, resumed, cuts, gone;
};

static struct mirror *mirror_of(struct world *w, const struct pdd_region *region)
{
	for (unsigned i = 0; i < REGIONS; i++)
		if (w->mirrors[i].region && &w->mirrors[i].region->region == region)
			return &w->mirrors[i];
	sim_fail("a region that is not there");
}

/* The pass comes by these pages. */
static void come_by(struct world *w, const struct pdd_region *region, uint64_t first,
		    uint64_t npages)
{
	struct mirror *m = mirror_of(w, region);

	for (uint64_t i = first; i < first + npages; i++) {
		if (i >= m->npages)
			sim_fail("page %" PRIu64 " came during the pass", i);
		if (m->came[i]++)
			sim_fail("the pass comes by page %" PRIu64 " twice", i);
	}
}

/* ---- hooks ---- */

/* Whether pages were missed after the last try is known when the next one begins. */
static void settle_try(struct world *w)
{
	uint64_t n;

	if (!w->failed)
		return;
	n = w->failed->priv.counts.pages_busy - w->busy_before;
	come_by(w, w->at.region, w->at.page, n);
	w->missed += n;
	w->misses += n != 0;
	w->put_off += n == 0;
	w->failed = NULL;
}

static bool trylock(void *ctx, struct pdd_space *space)
{
	struct sim *sim = ctx;
	struct world *w = sim->test;

	settle_try(w);
	assert_int_equal(sim->nlocks, 0); /* no content is there twice */
	for (struct sim_space *s = sim->spaces; s; s = s->next)
		if (sim_random(sim, w->calm) == 0)
			s->busy = sim_random(sim, 4) != 0;
	w->tries++;
	if (sim_ops.space_trylock(ctx, space))
		return true;
	w->failed = space;
	w->at = space->priv.walk.at;
	w->busy_before = space->priv.counts.pages_busy;
	return false;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct sim *sim = ctx;
	struct world *w = sim->test;
	uint64_t described = 0;
	int n;

	if (sim_random(sim, 40) == 0) { /* the rest of what was asked for is missed */
		come_by(w, region, first, npages);
		w->missed += npages;
		return -EBUSY;
	}
	n = sim_ops.pages_get(ctx, region, views, nviews, first, npages);
	for (int i = 0; i < n; i++)
		described += views[i].npages;
	come_by(w, region, first, described < npages ? described : npages);
	return n;
}

static void watch(struct world *w)
{
	w->sim->test = w;
	w->sim->scanner.priv.ops.space_trylock = trylock;
	w->sim->scanner.priv.ops.pages_get = pages_get;
}

/* ---- what happens between steps ---- */

/* All contents differ: nothing is merged, so each try is one of a walk. */
static void fill(struct world *w, struct sim_region *region, uint64_t from)
{
	for (uint64_t i = from; i < region->npages; i++)
		sim_write(region, i, ++w->content);
}

static void add_space(struct world *w)
{
	if (w->nspaces == SPACES)
		return;
	sim_space_add(w->sim, 0);
	w->nspaces++;
}

static struct sim_space *any_space(const struct world *w)
{
	struct sim_space *space = w->sim->spaces;

	for (uint64_t n = sim_random(w->sim, w->nspaces); n; n--)
		space = space->next;
	return space;
}

static void add_region(struct world *w)
{
	struct mirror *m = w->mirrors;

	if (w->nregions == REGIONS)
		return;
	while (m->region)
		m++;
	*m = (struct mirror){ 0 };
	m->region = sim_region_add_with(any_space(w), 1 + sim_random(w->sim, PAGES), PAGES,
					sim_random(w->sim, 4) == 0);
	fill(w, m->region, 0);
	w->nregions++;
}

static void remove_region(struct world *w, struct sim_region *region)
{
	mirror_of(w, &region->region)->region = NULL;
	w->nregions--;
	sim_region_remove(region);
}

static void resize(struct world *w, struct sim_region *region, uint64_t npages)
{
	struct mirror *m = mirror_of(w, &region->region);
	uint64_t old = region->npages;

	if (npages < 1 || npages > PAGES)
		return;
	if (npages < m->npages)
		m->npages = npages;
	sim_region_resize(region, npages);
	fill(w, region, old);
}

static void empty_space(struct world *w, struct sim_space *space)
{
	while (space->regions)
		remove_region(w, space->regions);
}

static void remove_space(struct world *w)
{
	const struct pdd_scanner *scanner = &w->sim->scanner;
	struct pdd_space *spaces[] = { scanner->priv.walking, scanner->priv.put_off,
				       scanner->priv.put_off ? scanner->priv.put_off_last : NULL,
				       &any_space(w)->space };
	struct pdd_space *space = spaces[sim_random(w->sim, 4)];

	if (!space)
		return;
	w->gone += space != spaces[3];
	empty_space(w, (struct sim_space *)(void *)space);
	sim_space_remove((struct sim_space *)(void *)space);
	w->nspaces--;
}

/* The region of a place that a walk keeps, or any region; the page in it. NULL: none. */
static struct sim_region *any_place(struct world *w, uint64_t *page)
{
	const struct pdd_walk *walk = &any_space(w)->space.priv.walk;
	struct pdd_place places[] = { walk->at, walk->begin, walk->resume, { 0 } };
	struct pdd_place place = places[sim_random(w->sim, 4)];
	const struct mirror *m = &w->mirrors[sim_random(w->sim, REGIONS)];

	*page = place.page;
	if (place.region) {
		w->cuts++;
		return (struct sim_region *)(void *)place.region;
	}
	*page = sim_random(w->sim, PAGES);
	return m->region;
}

static void change(struct world *w)
{
	struct sim_space *space = any_space(w);
	uint64_t page, more = 1 + sim_random(w->sim, 600);
	struct sim_region *region = any_place(w, &page);

	switch (sim_random(w->sim, 16)) {
	case 0: case 1: case 2: case 3: add_region(w); break;
	case 4: add_space(w); break;
	case 5: remove_space(w); break;
	case 6: /* the one that was added last */
		if (space->regions)
			remove_region(w, space->regions);
		break;
	case 7:
		if (sim_random(w->sim, 4) == 0)
			empty_space(w, space);
		break;
	case 8: case 9:
		if (region)
			remove_region(w, region);
		break;
	case 10: case 11:
		if (region)
			resize(w, region, region->npages + more);
		break;
	case 12: case 13: /* at the place, just before or just behind it */
		if (region)
			resize(w, region, page + sim_random(w->sim, 3) - 1);
		break;
	default: /* and back again */
		if (region && page && page <= region->npages) {
			resize(w, region, page);
			resize(w, region, page + more);
		}
	}
	if (!w->nspaces)
		add_space(w);
	if (!w->nregions)
		add_region(w);
}

/* ---- passes ---- */

static void begin_pass(struct world *w)
{
	w->tries = 0;
	for (unsigned i = 0; i < REGIONS; i++) {
		struct mirror *m = &w->mirrors[i];

		m->npages = m->region ? m->region->npages : 0;
		memset(m->came, 0, sizeof(m->came));
	}
	for (const struct sim_space *s = w->sim->spaces; s; s = s->next)
		w->resumed += s->space.priv.walk.resume.region != NULL;
}

static void end_pass(struct world *w)
{
	for (unsigned i = 0; i < REGIONS; i++)
		for (uint64_t page = 0; page < w->mirrors[i].npages; page++)
			if (w->mirrors[i].region && !w->mirrors[i].came[page])
				sim_fail("the pass does not come by page %" PRIu64, page);
	assert_int_equal(sim_stats(w->sim).counts.pages_busy, w->missed);
	sim_verify(w->sim);
}

/* Without the walk over everything, which would take longer than the step. */
static enum pdd_step step(struct world *w, uint64_t pages)
{
	struct pdd_budget budget = { .pages = pages };
	int result;

	w->sim->stepping = true;
	result = pdd_scanner_step(&w->sim->scanner, w->sim->worker, &budget);
	w->sim->stepping = false;
	settle_try(w);
	return (enum pdd_step)result;
}

static void one_pass(struct world *w, bool changes)
{
	uint64_t budget = UINT64_C(1) << sim_random(w->sim, 12), most = 2, steps = 0;
	enum pdd_step result;

	begin_pass(w);
	for (unsigned i = 0; i < REGIONS; i++)
		most += 3 * w->mirrors[i].npages;
	do {
		result = step(w, 1 + sim_random(w->sim, budget));
		assert_in_range(result, PDD_STEP_MORE, PDD_STEP_PASS);
		if (++steps > most + SPACES || w->tries > most + SPACES)
			sim_fail("a pass does not end");
		if (result == PDD_STEP_PASS)
			end_pass(w);
		if (changes && sim_random(w->sim, 4) == 0)
			change(w);
	} while (result == PDD_STEP_MORE);
}

static void random_passes(bool changes)
{
	static struct world w;

	w = (struct world){ .sim = sim_create(&(struct sim_options){ .page_shift = 3,
								      .nroots = 16384 }) };
	watch(&w);
	while (w.nspaces < SPACES)
		add_space(&w);
	while (w.nregions < (changes ? REGIONS / 2 : REGIONS))
		add_region(&w);
	for (unsigned i = 0; i < PASSES; i++) {
		w.calm = UINT64_C(1) << sim_random(w.sim, 7);
		one_pass(&w, changes);
	}
	/* or it has shown nothing */
	assert_true(w.put_off > PASSES / 4 && w.misses > PASSES / 4 && w.resumed > PASSES / 8);
	assert_true(!changes || (w.cuts > PASSES / 2 && w.gone > 3));
	sim_destroy(w.sim);
}

/* s13: the same regions all the time, locks that come and go. */
static void test_once_while_locks_come_and_go(void **unused)
{
	random_passes(false);
}

/* Regions and spaces come and go as well, under the walk, too. */
static void test_once_while_all_changes(void **unused)
{
	random_passes(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once_while_locks_come_and_go),
		cmocka_unit_test(test_once_while_all_changes),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
