/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * content_tree.h - the index of the old algorithm and nothing else: one tree ordered by content.
 *
 * KSM's unstable tree. Each scan starts with an empty one. A page whose checksum is that of the
 * scan before is searched for by comparing it with the page of every node on the way, and linked
 * where the search ends.
 *
 * Locks and page tables are left out: a node knows where its page's content is. The tree is the
 * library's own, and so is the checksum, so that algorithms are compared and nothing else. The
 * model is too fast, if anything.
 */
#ifndef BENCH_CONTENT_TREE_H
#define BENCH_CONTENT_TREE_H

#include <stddef.h>

#include <pagededup/rbtree.h>

/** A page (rmap_item); zeroed before use. */
struct content_item {
	struct pdd_rbnode node;
	const void *content;
	uint32_t checksum;
};

/** A checksum of a page. */
typedef uint64_t (*content_checksum_fn)(const void *content);

/**
 * A scan over neighbouring pages.
 * @param items  one for each page, which remember its checksum
 * @return pages that are in the tree now: the others changed, or are equal to one of these
 */
uint64_t content_tree_scan(struct content_item *items, const void *pages, size_t page_size,
			   uint64_t npages, content_checksum_fn checksum);

#endif
