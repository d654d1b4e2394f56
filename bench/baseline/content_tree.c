/* SPDX-License-Identifier: BSD-2-Clause */
/* content_tree.c - see content_tree.h. */
#include "content_tree.h"

#include <string.h>

static struct content_item *item_of(struct pdd_rbnode *node)
{
	return (struct content_item *)(void *)node;
}

_Static_assert(offsetof(struct content_item, node) == 0, "item_of casts");

/* Whether no page of equal content was there. */
static bool search_insert(struct pdd_rbroot *tree, struct content_item *item, size_t page_size)
{
	struct pdd_rbnode *parent = NULL, **slot = &tree->node;

	while (*slot) {
		int order;

		parent = *slot;
		order = memcmp(item->content, item_of(parent)->content, page_size);
		if (order == 0)
			return false;
		slot = order < 0 ? &parent->left : &parent->right;
	}
	pdd_rb_link(tree, &item->node, parent, slot, 0);
	return true;
}

uint64_t content_tree_scan(struct content_item *items, const void *pages, size_t page_size,
			   uint64_t npages, content_checksum_fn checksum)
{
	struct pdd_rbroot tree = { NULL };
	uint64_t ninserted = 0;

	for (uint64_t i = 0; i < npages; i++) {
		struct content_item *item = &items[i];
		uint32_t now;

		item->content = (const unsigned char *)pages + i * page_size;
		now = (uint32_t)checksum(item->content);
		if (now == item->checksum)
			ninserted += search_insert(&tree, item, page_size);
		item->checksum = now;
	}
	return ninserted;
}
