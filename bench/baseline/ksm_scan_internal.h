/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_scan_internal.h - what ksm_scan.c and ksm_merge.c know of each other. */
#ifndef BENCH_KSM_SCAN_INTERNAL_H
#define BENCH_KSM_SCAN_INTERNAL_H

#include "ksm_scan.h"

static inline uint64_t ksm_page_of(const struct ksm_item *item)
{
	return (uint64_t)(item - item->region->items);
}

/* Find out what stands at a page. Its owner's lock is needed for that, but not to read it. False:
 * the lock is taken, or nothing can be found out. */
bool ksm_get_page(struct ksm_scan *scan, const struct ksm_item *item, struct pdd_view *view);
void ksm_put_page(struct ksm_scan *scan, const struct ksm_item *item);

/* The frame of equal content; if there is none, NULL and the place where it would stand. */
struct ksm_stable *ksm_stable_search(struct ksm_scan *scan, const void *content,
				     struct pdd_rbnode **parent, struct pdd_rbnode ***slot);
/* Let a page show a frame as well, if it can be locked and still has that content. */
void ksm_merge_with(struct ksm_scan *scan, struct ksm_item *item, struct ksm_stable *stable);
/* Let two pages show a frame, of which the twin is in the unstable tree. If the twin cannot, the
 * page is made private again; where that fails as well its frame is alone until another page finds
 * it. */
void ksm_merge_two(struct ksm_scan *scan, struct ksm_item *item, struct ksm_item *twin,
		   const void *content);
/* A page does not show its frame any more. */
void ksm_leave(struct ksm_scan *scan, struct ksm_item *item);

#endif
