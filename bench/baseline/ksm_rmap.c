/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_rmap.c - see ksm_rmap.h.
 *
 * Two passes over the sharers: the first for the VMAs of the sharer's own process, the second for
 * those of all others, which finds children that the scanner has not seen. Each asks for the whole
 * anon_vma, and leaves out the VMAs that do not contain the address.
 */
#include "ksm_rmap.h"

void ksm_vma_link(struct ksm_anon_vma *anon_vma, struct ksm_vma *vma, uint64_t page_offset)
{
	(void)pdd_interval_insert(&anon_vma->vmas, &vma->interval, page_offset,
				  page_offset + vma->npages - 1);
}

static struct ksm_vma *vma_of(struct pdd_interval *interval)
{
	return (struct ksm_vma *)(void *)interval; /* the first member */
}

_Static_assert(offsetof(struct ksm_vma, interval) == 0, "vma_of casts");

/* The VMAs that one sharer knows of; false if the walk is to end. */
static bool walk_item(const struct ksm_rmap_item *item, bool others, uint64_t *visits,
		      ksm_rmap_fn rmap_one, void *ctx)
{
	struct pdd_interval *interval =
		pdd_interval_find_first(&item->anon_vma->vmas, 0, UINT64_MAX);

	for (; interval; interval = pdd_interval_find_next(interval, 0, UINT64_MAX)) {
		struct ksm_vma *vma = vma_of(interval);

		(*visits)++;
		if (item->page < vma->first_page || item->page - vma->first_page >= vma->npages)
			continue;
		if ((vma->mm != item->mm) != others)
			continue;
		if (!rmap_one(ctx, vma, item->page))
			return false;
	}
	return true;
}

uint64_t ksm_rmap_walk(const struct ksm_rmap_item *items, ksm_rmap_fn rmap_one, void *ctx)
{
	uint64_t visits = 0;

	for (int others = 0; others < 2; others++)
		for (const struct ksm_rmap_item *item = items; item; item = item->next)
			if (!walk_item(item, others, &visits, rmap_one, ctx))
				return visits;
	return visits;
}
