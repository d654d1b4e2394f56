/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_rmap.h - a model of KSM's reverse walk as it was before 2026, to be measured against.
 *
 * An anon_vma knows all VMAs that may map its pages, in an interval tree. The walk knew the address
 * of a sharer, but not which page of the anon_vma that is, and so asked the tree for everything.
 *
 * The tree is the library's own, so that the two algorithms are compared, and not two trees. Locks
 * are left out: the model is too fast, if anything.
 */
#ifndef BENCH_KSM_RMAP_H
#define BENCH_KSM_RMAP_H

#include <pagededup/interval.h>

/** A mapping of pages [page_offset, page_offset + npages) of an anon_vma. */
struct ksm_vma {
	struct pdd_interval interval;
	const void *mm;
	uint64_t first_page; /* address >> page shift */
	uint64_t npages;
};

struct ksm_anon_vma {
	struct pdd_interval_tree vmas;
};

/** A sharer: what was known of it when it was merged. */
struct ksm_rmap_item {
	struct ksm_rmap_item *next;
	const struct ksm_anon_vma *anon_vma;
	const void *mm;
	uint64_t page; /* address >> page shift */
};

void ksm_vma_link(struct ksm_anon_vma *anon_vma, struct ksm_vma *vma, uint64_t page_offset);

/** Looks in the page table whether the VMA maps the frame at this address. False ends the walk. */
typedef bool (*ksm_rmap_fn)(void *ctx, struct ksm_vma *vma, uint64_t page);

/** Walk all sharers of a frame. @return the number of VMAs visited */
uint64_t ksm_rmap_walk(const struct ksm_rmap_item *items, ksm_rmap_fn rmap_one, void *ctx);

#endif
