/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_scan.c - see ksm_scan.h.
 *
 * Of each page:
 *	lock its space, get the page, unlock
 *	it still shows its frame ....... done
 *	smart_scan ..................... skipped
 *	checksum changed ............... remembered, done
 *	stable tree: an equal frame .... hold, compare, map
 *	unstable tree: an equal page ... both get a frame, which goes into the stable tree
 *	none ........................... the page goes into the unstable tree
 *
 * ksm_merge.c is about frames, this file about the rest.
 */
#include "ksm_scan_internal.h"

#include <string.h>

#include <pagededup/checksum.h>

static struct ksm_item *item_of(struct pdd_rbnode *node)
{
	return (struct ksm_item *)(void *)node; /* the first member */
}

_Static_assert(offsetof(struct ksm_item, node) == 0, "item_of casts");

/* ---- a page ---- */

/* Compare with the page of a node as it is now. False: it cannot be read, which ends the search. */
static bool compare(struct ksm_scan *scan, const struct ksm_item *item, const void *content,
		    int *order)
{
	struct pdd_view view;
	bool readable = ksm_get_page(scan, item, &view);

	if (!readable)
		return false;
	readable = view.kind == PDD_PAGE_PRIVATE;
	if (readable) {
		scan->counters.unstable_compares++;
		*order = memcmp(content, view.content, scan->options.page_size);
	}
	ksm_put_page(scan, item);
	return readable;
}

/* A page of equal content; NULL if there is none, and then the page at hand is in the tree, or the
 * search had to be given up. */
static struct ksm_item *unstable_search_insert(struct ksm_scan *scan, struct ksm_item *item,
					       const void *content)
{
	struct pdd_rbnode *parent = NULL, **slot = &scan->unstable.node;

	while (*slot) {
		int order;

		parent = *slot;
		if (!compare(scan, item_of(parent), content, &order)) {
			scan->counters.searches_aborted++;
			return NULL;
		}
		if (order == 0)
			return item_of(parent);
		slot = order < 0 ? &parent->left : &parent->right;
	}
	pdd_rb_link(&scan->unstable, &item->node, parent, slot, 0);
	return NULL;
}

/* Whether the checksum is that of the scan before. */
static bool is_calm(struct ksm_scan *scan, struct ksm_item *item, const void *content)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1 };
	uint64_t value;
	bool calm;

	scan->counters.looks++;
	if (!scan->ops.checksum)
		value = pdd_checksum_page(content, scan->options.page_size, secret,
					  sizeof(secret)).value;
	else if (scan->ops.checksum(scan->ctx, &value, content))
		return false;
	calm = item->checksum == (uint32_t)value;
	item->checksum = (uint32_t)value;
	return calm;
}

static void compare_and_merge(struct ksm_scan *scan, struct ksm_item *item, const void *content)
{
	struct pdd_rbnode *parent, **slot;
	struct ksm_stable *stable;
	struct ksm_item *twin;

	if (!is_calm(scan, item, content))
		return;
	stable = ksm_stable_search(scan, content, &parent, &slot);
	if (stable) {
		ksm_merge_with(scan, item, stable);
		return;
	}
	twin = unstable_search_insert(scan, item, content);
	if (twin)
		ksm_merge_two(scan, item, twin, content);
}

/* Every page counts down its own skips: 1 at the ages 3, 2 to 5, 4 to 8, then 8. */
static bool is_skipped(struct ksm_scan *scan, struct ksm_item *item)
{
	uint8_t age = item->age;

	item->age += age < UINT8_MAX;
	if (!scan->options.smart_scan || age < 3)
		return false;
	if (item->skips) {
		item->skips--;
		scan->counters.skips++;
		return true;
	}
	item->skips = age <= 3 ? 1 : age <= 5 ? 2 : age <= 8 ? 4 : 8;
	return false;
}

/* Whether the page counts as one of the batch: a skipped one does not. */
static bool scan_page(struct ksm_scan *scan, struct ksm_item *item)
{
	struct pdd_view view;
	bool skipped = false;

	if (!ksm_get_page(scan, item, &view))
		return true;
	if (view.kind == PDD_PAGE_PRIVATE) {
		if (item->stable) /* written since */
			ksm_leave(scan, item);
		skipped = is_skipped(scan, item);
		if (!skipped)
			compare_and_merge(scan, item, view.content);
	}
	ksm_put_page(scan, item);
	return !skipped;
}

/* ---- scans ---- */

void ksm_scan_init(struct ksm_scan *scan, const struct pdd_ops *ops, void *ctx,
		   const struct ksm_scan_options *options)
{
	memset(scan, 0, sizeof(*scan));
	memcpy(&scan->ops, ops, ops->size < sizeof(*ops) ? ops->size : sizeof(*ops));
	scan->ctx = ctx;
	scan->options = *options;
}

void ksm_scan_add(struct ksm_scan *scan, struct ksm_region *pages, struct pdd_space *space,
		  struct pdd_region *region, struct ksm_item *items, uint64_t npages)
{
	struct ksm_region **link = &scan->regions;

	while (*link)
		link = &(*link)->next;
	*link = pages;
	*pages = (struct ksm_region){
		.space = space, .region = region, .items = items, .npages = npages,
	};
	for (uint64_t i = 0; i < npages; i++)
		items[i].region = pages;
}

bool ksm_scan_step(struct ksm_scan *scan, uint64_t npages)
{
	if (!scan->cursor) {
		scan->unstable.node = NULL; /* not taken apart */
		scan->cursor = scan->regions;
		scan->cursor_page = 0;
	}
	while (scan->cursor && npages) {
		npages -= scan_page(scan, &scan->cursor->items[scan->cursor_page]);
		if (++scan->cursor_page == scan->cursor->npages) {
			scan->cursor = scan->cursor->next;
			scan->cursor_page = 0;
		}
	}
	if (scan->cursor)
		return false;
	scan->counters.full_scans++;
	return true;
}

void ksm_scan_fini(struct ksm_scan *scan)
{
	for (struct ksm_region *pages = scan->regions; pages; pages = pages->next) {
		scan->ops.frames_unmap(scan->ctx, pages->region, 0, pages->npages);
		for (uint64_t i = 0; i < pages->npages; i++)
			if (pages->items[i].stable)
				ksm_leave(scan, &pages->items[i]);
	}
	memset(scan, 0, sizeof(*scan));
}
