/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * item.h - the library's record of one page (KSM: rmap_item), and of 512 neighbouring ones.
 *
 * The embedder hands over zeroed memory for them with each region; all fields are private.
 */
#ifndef PAGEDEDUP_ITEM_H
#define PAGEDEDUP_ITEM_H

#include <pagededup/index.h>

/**
 * One page of a region, 48 bytes. While it is in the index its links are a tree node; as a sharer
 * of a frame or a member of a group they are list links.
 *
 * The last word: page number in the region (34 bits), age (7), state (4), reason (5), NUMA node
 * recorded when it was indexed (10), flags (4).
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
		struct pdd_item *items; /* of its pages */
		uint16_t unsettled;     /* items that are neither indexed, shared, zero nor absent */
		uint16_t due;           /* items to be looked at in the next pass, at any age */
		uint32_t reserved32;
		uint64_t reserved64[6];
	} priv;
};

#endif
