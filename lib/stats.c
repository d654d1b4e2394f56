/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c - reading statistics: nothing is counted here, what the files of the engine keep is added
 * up, and a few figures are derived.
 */
#include <string.h>

#include "scanner_internal.h"

/* Everything else that is known of: new, changing, skipped, refused, failed. */
static void derive(const struct pdd_scanner *scanner, struct pdd_counts *counts)
{
	uint64_t saved = counts->ksm_merging_pages + counts->ksm_zero_pages;

	counts->pages_volatile = counts->ksm_rmap_items - saved - counts->pages_unshared;
	counts->ksm_process_profit_bytes =
		(int64_t)(saved * scanner->priv.page_size) -
		(int64_t)(counts->ksm_rmap_items * sizeof(struct pdd_item));
}

void pddi_counts_add(struct pdd_counts *total, const struct pdd_counts *counts)
{
	total->pages += counts->pages;
	total->ksm_rmap_items += counts->ksm_rmap_items;
	total->ksm_merging_pages += counts->ksm_merging_pages;
	total->ksm_zero_pages += counts->ksm_zero_pages;
	total->pages_unshared += counts->pages_unshared;
	total->pages_due += counts->pages_due;
	total->pages_zero_filled += counts->pages_zero_filled;
	total->pages_same_filled += counts->pages_same_filled;
	for (unsigned i = 0; i < PDD_REASONS_MAX; i++) {
		total->reasons[i] += counts->reasons[i];
		total->failures[i] += counts->failures[i];
	}
	total->pages_scanned += counts->pages_scanned;
	total->pages_hashed += counts->pages_hashed;
	total->pages_skipped += counts->pages_skipped;
	total->pages_clean += counts->pages_clean;
	total->pages_busy += counts->pages_busy;
	total->merges += counts->merges;
	total->zero_merges += counts->zero_merges;
	total->unshares += counts->unshares;
	total->adoptions += counts->adoptions;
	total->adoptions_over_limit += counts->adoptions_over_limit;
	total->refiles += counts->refiles;
}

int pdd_space_counts(const struct pdd_space *space, struct pdd_counts *counts)
{
	if (!space || !counts || !space->priv.scanner)
		return -EINVAL;
	pddi_lock(space->priv.scanner);
	*counts = space->priv.counts;
	derive(space->priv.scanner, counts);
	pddi_unlock(space->priv.scanner);
	return 0;
}

int pdd_domain_counts(const struct pdd_scanner *scanner, uint32_t domain, struct pdd_counts *counts)
{
	if (!scanner || !counts)
		return -EINVAL;
	*counts = (struct pdd_counts){ 0 };
	pddi_lock(scanner);
	for (const struct pdd_space *space = scanner->priv.spaces; space; space = space->priv.next)
		if (space->priv.domain == domain)
			pddi_counts_add(counts, &space->priv.counts);
	derive(scanner, counts);
	pddi_unlock(scanner);
	return 0;
}

uint64_t pdd_region_unshares(const struct pdd_region *region)
{
	uint64_t unshares;

	if (!region || !region->priv.space)
		return 0;
	pddi_lock(region->priv.space->priv.scanner);
	unshares = region->priv.unshares;
	pddi_unlock(region->priv.space->priv.scanner);
	return unshares;
}

/* Items, extents, spaces and regions of a space. */
static uint64_t space_metadata_bytes(const struct pdd_space *space)
{
	uint64_t bytes = sizeof(*space);

	for (const struct pdd_region *region = space->priv.regions; region;
	     region = region->priv.next) {
		bytes += sizeof(*region);
		if (region->priv.extents)
			bytes += region->priv.npages * sizeof(struct pdd_item) +
				 pdd_region_extents(region->priv.npages) * sizeof(struct pdd_extent);
		else
			bytes += region->priv.nlive * sizeof(struct pdd_extent_block);
	}
	return bytes;
}

/* What follows from the figures that are there. */
static void derive_stats(const struct pdd_scanner *scanner, struct pdd_stats *total)
{
	uint64_t saved;

	total->metadata_bytes = scanner->priv.index.nroots * sizeof(struct pdd_rbroot) +
				scanner->priv.nframes * sizeof(struct pdd_frame);
	for (const struct pdd_space *space = scanner->priv.spaces; space; space = space->priv.next) {
		pddi_counts_add(&total->counts, &space->priv.counts);
		total->metadata_bytes += space_metadata_bytes(space);
	}
	saved = total->pages_sharing + total->counts.ksm_zero_pages;
	total->bytes_if_all_unshared = saved * scanner->priv.page_size;
	total->general_profit_bytes =
		(int64_t)total->bytes_if_all_unshared -
		(int64_t)(total->counts.ksm_rmap_items * sizeof(struct pdd_item));
	total->net_profit_bytes =
		(int64_t)total->bytes_if_all_unshared - (int64_t)total->metadata_bytes;
	derive(scanner, &total->counts);
}

int pdd_scanner_stats(const struct pdd_scanner *scanner, struct pdd_stats *stats)
{
	size_t size = stats ? stats->size : 0;
	struct pdd_stats total;

	if (!scanner || size < sizeof(size))
		return -EINVAL;
	pddi_lock(scanner);
	total = scanner->priv.stats;
	derive_stats(scanner, &total);
	pddi_unlock(scanner);
	if (size > sizeof(total))
		memset((char *)stats + sizeof(total), 0, size - sizeof(total));
	memcpy(stats, &total, size < sizeof(total) ? size : sizeof(total));
	stats->size = size;
	return 0;
}
