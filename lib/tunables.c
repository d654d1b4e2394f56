/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tunables.c - settings: their defaults, their ranges, and what a change brings about.
 *
 * A change is taken over as a whole or not at all. Three settings have to do with what is there
 * already:
 *
 *  - merge_across_nodes decides whether the NUMA node is part of every key. So it cannot change
 *    while there is a frame, and all items leave the index when it does.
 *  - max_page_sharing changes which frames of a chain have room, so the chains are no longer in
 *    order, and pages that wait in the index could join: a prune mends both.
 *  - When use_zero_pages is switched on, there may be zero pages in the index that nobody writes,
 *    so for as many passes as an old page waits for its look no extent is passed over (visit.c).
 */
#include <string.h>

#include "scanner_internal.h"

void pdd_tunables_init(struct pdd_tunables *tunables)
{
	*tunables = (struct pdd_tunables){
		.size = sizeof(*tunables),
		.max_page_sharing = PDD_MAX_PAGE_SHARING,
		.chain_prune_ms = 2000,
		.merge_across_nodes = 1,
		.use_zero_pages = 1,
		.aging = PDD_AGING_PHASE,
		.index = PDD_INDEX_RETAINED,
	};
}

static bool is_valid(const struct pdd_tunables *t)
{
	uint32_t period = t->max_period_passes;
	bool power_of_two = !(period & (period - 1));

	return t->max_page_sharing >= 2 && t->merge_across_nodes <= 1 && t->use_zero_pages <= 1 &&
	       t->aging <= PDD_AGING_EPOCH && power_of_two && period <= PDD_AGING_PERIOD_MAX &&
	       t->one_look <= 1 && t->index <= PDD_INDEX_REBUILT;
}

/* Lay what the caller knows over the settings in force. 0 or -EINVAL. */
static int overlay(struct pdd_tunables *copy, const struct pdd_tunables *tunables)
{
	const unsigned char *bytes = (const unsigned char *)tunables;
	size_t size = tunables->size;

	if (size < sizeof(size) || (size - sizeof(size)) % sizeof(uint32_t))
		return -EINVAL;
	for (size_t i = sizeof(*copy); i < size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(copy, tunables, size < sizeof(*copy) ? size : sizeof(*copy));
	copy->size = sizeof(*copy);
	return is_valid(copy) ? 0 : -EINVAL;
}

/* Take all items out of the index; there is no frame in it. */
static void empty_index(struct pdd_scanner *scanner)
{
	for (uint64_t i = 0; i < scanner->priv.index.nroots; i++) {
		const struct pdd_rbroot *root = &scanner->priv.index.roots[i];

		while (root->node) {
			struct pdd_item *item = item_of((void *)root->node);

			pddi_item_detach(scanner, item, item_reason(item));
			item_set_due(item, true);
		}
	}
}

/* Take over settings that are valid. */
static int apply(struct pdd_scanner *scanner, const struct pdd_tunables *wanted)
{
	struct pdd_tunables *now = &scanner->priv.tunables;

	if (scanner->priv.nstepping || scanner->priv.pruning)
		return -EAGAIN;
	if (wanted->merge_across_nodes != now->merge_across_nodes) {
		if (scanner->priv.nframes)
			return -EBUSY;
		empty_index(scanner);
	}
	if (wanted->max_page_sharing != now->max_page_sharing && scanner->priv.nframes)
		scanner->priv.prune_forced = true;
	if (wanted->use_zero_pages > now->use_zero_pages)
		scanner->priv.restless_passes = PDD_AGING_PERIOD_MAX + 1;
	*now = *wanted;
	return 0;
}

int pddi_tunables_set(struct pdd_scanner *scanner, const struct pdd_tunables *tunables)
{
	struct pdd_tunables wanted = scanner->priv.tunables;
	int err = overlay(&wanted, tunables);

	return err ? err : apply(scanner, &wanted);
}

int pdd_scanner_set_tunables(struct pdd_scanner *scanner, const struct pdd_tunables *tunables)
{
	int err;

	if (!scanner || !tunables)
		return -EINVAL;
	pddi_lock(scanner);
	err = pddi_tunables_set(scanner, tunables);
	pddi_leave(scanner);
	return err;
}

int pdd_scanner_get_tunables(const struct pdd_scanner *scanner, struct pdd_tunables *tunables)
{
	size_t size = tunables ? tunables->size : 0;

	if (!scanner || size < sizeof(size))
		return -EINVAL;
	if (size > sizeof(*tunables))
		memset((char *)tunables + sizeof(*tunables), 0, size - sizeof(*tunables));
	pddi_lock(scanner);
	memcpy(tunables, &scanner->priv.tunables,
	       size < sizeof(*tunables) ? size : sizeof(*tunables));
	pddi_unlock(scanner);
	tunables->size = size;
	return 0;
}
