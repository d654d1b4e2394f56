/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * item.h - the library's record of one page (KSM: rmap_item), and of 512 neighbouring ones.
 *
 * The embedder hands over zeroed memory for them, as arrays with each region, or extent by extent
 * on demand (ops.h, extent_get). All fields are private.
 */
#ifndef PAGEDEDUP_ITEM_H
#define PAGEDEDUP_ITEM_H

#include <pagededup/index.h>

/**
 * One page of a region, 48 bytes. While it is in the index its links are a tree node; as a sharer
 * of a frame or a member of a group they are list links.
 *
 * The last word: page number in the region (34 bits), age (7), state (4), reason (5), NUMA node
 * recorded when it was indexed, or the number of pins (10), flags (4).
 */
struct pdd_item {
	struct {
		struct pdd_index_node node;
		struct pdd_region *region;
		uint64_t word;
	} priv;
};

/** 512 neighbouring pages, 64 bytes: the unit in which a step works on pages and holds them. */
struct pdd_extent {
	struct {
		struct pdd_rbnode rb;   /* among the live extents of a region that has them on demand */
		struct pdd_item *items; /* of its pages */
		uint64_t number;        /* in the region */
		uint16_t known;         /* items about which anything is known but that nothing is there */
		uint16_t unsettled;     /* neither indexed, shared, zero, absent nor kept out */
		uint16_t due;           /* items to be looked at in the next pass, at any age */
		uint16_t merged;        /* items that share a frame or were replaced by the zero page */
		uint16_t kept_out;      /* items of pages that are pinned or excluded */
		uint16_t dirty;         /* items of pages that were written and not read since */
		uint16_t reserved16[6];
	} priv;
};

/** An extent with the items of its pages, 24,640 bytes: what extent_get hands over, zeroed. */
struct pdd_extent_block {
	struct pdd_extent extent;
	struct pdd_item items[PDD_EXTENT_PAGES];
};

#endif
