/* SPDX-License-Identifier: BSD-2-Clause */
/* checksum_tree.c - see checksum_tree.h. */
#include "checksum_tree.h"

static struct checksum_item *item_of(struct pdd_rbnode *node)
{
	return (struct checksum_item *)(void *)node;
}

_Static_assert(offsetof(struct checksum_item, node) == 0, "item_of casts");

/* Whether no page of equal checksum was there. */
static bool search_insert(struct pdd_rbroot *tree, struct checksum_item *item)
{
	struct pdd_rbnode *parent = NULL, **slot = &tree->node;

	while (*slot) {
		uint64_t other;

		parent = *slot;
		other = item_of(parent)->checksum;
		if (item->checksum == other)
			return false;
		slot = item->checksum < other ? &parent->left : &parent->right;
	}
	pdd_rb_link(tree, &item->node, parent, slot, 0);
	return true;
}

uint64_t checksum_tree_scan(struct checksum_item *items, const void *pages, size_t page_size,
			    uint64_t npages, checksum_fn checksum)
{
	struct pdd_rbroot tree = { NULL };
	uint64_t ninserted = 0;

	for (uint64_t i = 0; i < npages; i++) {
		items[i].checksum = checksum((const unsigned char *)pages + i * page_size);
		ninserted += search_insert(&tree, &items[i]);
	}
	return ninserted;
}
