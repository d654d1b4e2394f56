/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum_tree.h - the obvious cure of the old algorithm's index: one tree ordered by checksum.
 *
 * A walk touches nodes, no pages; but there is still one tree for all pages, so that a walk gets
 * longer the more there are, and every step of it is a cache miss. What a forest and prefetching
 * add is measured against this one. The tree is the library's own.
 */
#ifndef BENCH_CHECKSUM_TREE_H
#define BENCH_CHECKSUM_TREE_H

#include <stddef.h>

#include <pagededup/rbtree.h>

/** A page; zeroed before use. */
struct checksum_item {
	struct pdd_rbnode node;
	uint64_t checksum;
};

typedef uint64_t (*checksum_fn)(const void *content);

/** Insert neighbouring pages into an empty tree. @return pages that are in it: no two have equal
 * checksums */
uint64_t checksum_tree_scan(struct checksum_item *items, const void *pages, size_t page_size,
			    uint64_t npages, checksum_fn checksum);

#endif
