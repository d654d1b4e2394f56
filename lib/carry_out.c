/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * carry_out.c - carrying out what was decided about an extent, in as few runs as possible.
 *
 *	make the frames of the groups (group.c: pages are copied, nothing is held)
 *	pages_put
 *	the twins, in runs, their space by try
 *	the pages at hand, in runs
 *	settle the groups
 *
 * Invariants
 *  1. When pddi_carry_out() returns, nothing is PENDING.
 *  2. The twin of a group is settled before its members: a stale twin costs no mapping, and a page
 *     that has nobody left to share with is not mapped.
 *  3. At the deadline what is left is cancelled and due, in the middle of a run too; one piece of
 *     a run is carried out in any case.
 *
 * Runs. To hold a run costs the embedder a flush of address translations and some system calls,
 * however short it is; a page more costs little. So a few pages between two decided ones are held
 * with them, and released as they are, if they are known to be quiet: pages in the index. On four
 * guests this makes 927 runs instead of 2,580, for 4 % more pages.
 *
 * Locking: the space at hand is locked by the caller; one other space at a time is tried beside it,
 * and one extent claimed. Tries cannot deadlock. Until a twin's space is locked its owner may
 * withdraw it: what is decided about it is then gone from the list. The scanner's lock is held from
 * looking at a decision until its space is locked, so that neither item nor space can go in
 * between.
 */
#include "scanner_internal.h"

/* Pages between two decided ones that are held with them. */
#define GAP_PAGES_MAX 32u

/* Whether the pages between two decided ones, if any, may be held with them. */
static bool is_bridgeable(const struct pdd_item *a, const struct pdd_item *b)
{
	uint64_t from = item_page(a) + 1, to = item_page(b);

	if (a->priv.region != b->priv.region ||
	    item_page(a) / PDD_EXTENT_PAGES != to / PDD_EXTENT_PAGES || to - from > GAP_PAGES_MAX)
		return false;
	for (uint64_t page = from; page < to; page++)
		if (item_state(pddi_item_at(a->priv.region, page)) != ITEM_INDEXED)
			return false;
	return true;
}

/* The first item from i on whose decision stands: it may have been cancelled meanwhile, and a twin
 * withdrawn (NULL). */
static uint32_t next_decided(const struct pdd_scanner *scanner, struct pdd_item *const *items,
			     uint32_t i, uint32_t nitems)
{
	while (i < nitems && !(items[i] && pddi_merge_is_decided(scanner, items[i])))
		i++;
	return i;
}

/* Collect the longest run that begins with items[*i], and move *i behind it; its length. */
static uint64_t collect_run(struct pdd_scanner *scanner, struct pdd_worker *worker,
			    struct pdd_item *const *items, uint32_t *i, uint32_t nitems)
{
	const struct pdd_item *last = items[*i];
	uint64_t n = 0;

	pddi_merge_collect(scanner, worker, n++, items[*i]);
	*i = next_decided(scanner, items, *i + 1, nitems);
	while (*i < nitems && is_bridgeable(last, items[*i])) {
		const struct pdd_region *region = items[*i]->priv.region;

		for (uint64_t page = item_page(last) + 1; page <= item_page(items[*i]); page++)
			pddi_merge_collect(scanner, worker, n++, pddi_item_at(region, page));
		last = items[*i];
		*i = next_decided(scanner, items, *i + 1, nitems);
	}
	return n;
}

/* Decisions whose time has not come. If it is for a lock they are due however often that happens:
 * it says nothing about the page. */
static void postpone(struct pdd_scanner *scanner, struct pdd_worker *worker, uint64_t n,
		     enum pdd_reason reason)
{
	for (uint64_t i = 0; i < n; i++) {
		struct pdd_item *item = worker->priv.run[i];

		if (!pddi_merge_is_decided(scanner, item))
			continue;
		pddi_merge_cancel(scanner, worker, i, 1, reason);
		item_set_due(item, true);
	}
}

/* Lock the space of a decision, unless it is the one at hand, and claim its extent; why not, if it
 * cannot be. *locked: whether the space is to be unlocked afterwards. */
static enum pdd_reason lock(struct pdd_scanner *scanner, struct pdd_worker *worker,
			    const struct pdd_space *at_hand, const struct pdd_item *item,
			    bool *locked)
{
	struct pdd_space *space = item->priv.region->priv.space;
	struct pdd_visit *visit = &worker->priv.visit;

	*locked = false;
	if (pddi_is_late(scanner, worker))
		return PDD_REASON_DEADLINE;
	if (space != at_hand) {
		*locked = scanner->priv.ops.space_trylock(scanner->priv.ctx, space);
		scanner->priv.stats.space_lock_misses += !*locked;
		if (!*locked)
			return PDD_REASON_BUSY;
	}
	if (pddi_claim(scanner, visit, &visit->beside, item->priv.region, item_page(item)))
		return PDD_REASON_NONE;
	pddi_pass_again(scanner, item->priv.region, item_page(item));
	return PDD_REASON_BUSY;
}

static void unlock(struct pdd_scanner *scanner, struct pdd_space *space)
{
	pddi_unlock(scanner);
	scanner->priv.ops.space_unlock(scanner->priv.ctx, space);
	pddi_lock(scanner);
}

/* Carry out decisions, which are ordered by region and page. */
static void carry_out(struct pdd_scanner *scanner, struct pdd_worker *worker,
		      const struct pdd_space *at_hand, struct pdd_item *const *items, uint32_t nitems)
{
	uint32_t i = 0;

	while ((i = next_decided(scanner, items, i, nitems)) < nitems) {
		struct pdd_space *space = items[i]->priv.region->priv.space;
		bool locked;
		enum pdd_reason reason = lock(scanner, worker, at_hand, items[i], &locked);
		uint64_t n = collect_run(scanner, worker, items, &i, nitems);

		if (reason == PDD_REASON_NONE)
			pddi_merge_run(scanner, worker, n);
		else
			postpone(scanner, worker, n, reason);
		pddi_unclaim(&worker->priv.visit.beside);
		if (locked)
			unlock(scanner, space);
	}
}

static bool is_before(const struct pdd_item *a, const struct pdd_item *b)
{
	if (a->priv.region != b->priv.region)
		return (uintptr_t)a->priv.region < (uintptr_t)b->priv.region;
	return item_page(a) < item_page(b);
}

/* Collect the twins of the groups that have a frame, in order. Mostly they are in order already,
 * since equal pages tend to come in equal runs; Shell's sort is quick then, and never slow for
 * 512. */
static uint32_t sort_twins(struct pdd_worker *worker)
{
	static const uint32_t gaps[] = { 301, 132, 57, 23, 10, 4, 1 };
	struct pdd_item **twins = worker->priv.twins;
	uint32_t n = 0;

	for (uint32_t i = 0; i < worker->priv.ngroups; i++)
		if (worker->priv.groups[i].frame && worker->priv.groups[i].twin)
			twins[n++] = worker->priv.groups[i].twin;
	for (uint32_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
		for (uint32_t i = gaps[g]; i < n; i++) {
			struct pdd_item *twin = twins[i];
			uint32_t j = i;

			for (; j >= gaps[g] && is_before(twin, twins[j - gaps[g]]); j -= gaps[g])
				twins[j] = twins[j - gaps[g]];
			twins[j] = twin;
		}
	}
	/* An owner who withdraws one takes it out of here, too. */
	for (uint32_t i = 0; i < n; i++)
		item_group(twins[i])->entry = &twins[i];
	return n;
}

static void carry_out_twins(struct pdd_scanner *scanner, struct pdd_worker *worker,
			    const struct pdd_space *at_hand)
{
	carry_out(scanner, worker, at_hand, worker->priv.twins, sort_twins(worker));
	for (uint32_t i = 0; i < worker->priv.ngroups; i++) {
		struct pdd_group *group = &worker->priv.groups[i];

		if (group->frame && !group->joined)
			pddi_group_twin_failed(scanner, group,
					       (enum pdd_reason)group->twin_reason);
	}
}

void pddi_carry_out(struct pdd_scanner *scanner, struct pdd_worker *worker,
		    const struct pdd_space *at_hand)
{
	carry_out_twins(scanner, worker, at_hand);
	carry_out(scanner, worker, at_hand, worker->priv.decided, worker->priv.ndecided);
	pddi_groups_settle(scanner, worker);
	worker->priv.ndecided = 0;
}
