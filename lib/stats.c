/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats.c - reading statistics, and the names of reasons.
 */
#include <string.h>

#include "scanner_internal.h"

const char *pdd_reason_name(enum pdd_reason reason)
{
	static const char *const names[PDD_REASONS] = {
		[PDD_REASON_NONE] = "none",
		[PDD_REASON_NEW] = "new",
		[PDD_REASON_ABSENT] = "absent",
		[PDD_REASON_FIRST_LOOK] = "first look",
		[PDD_REASON_VOLATILE] = "volatile",
		[PDD_REASON_UNIQUE] = "unique",
		[PDD_REASON_STALE] = "stale",
		[PDD_REASON_CHANGED] = "changed while merged",
		[PDD_REASON_BUSY] = "busy",
		[PDD_REASON_DEADLINE] = "deadline",
		[PDD_REASON_PINNED] = "pinned",
		[PDD_REASON_PINS_UNSEEN] = "pins unseen",
		[PDD_REASON_LOCKED] = "locked",
		[PDD_REASON_HUGE] = "huge page",
		[PDD_REASON_EXCLUDED] = "excluded",
		[PDD_REASON_SPECIAL] = "special memory",
		[PDD_REASON_FOREIGN_FRAME] = "foreign frame",
		[PDD_REASON_KERNEL_ZERO] = "kernel's zero page",
		[PDD_REASON_NO_HOLD] = "no hold",
		[PDD_REASON_MAPPING_BUDGET] = "mapping budget",
		[PDD_REASON_NO_MEMORY] = "no memory",
		[PDD_REASON_HOOK_FAILED] = "hook failed",
		[PDD_REASON_UNMERGED] = "unmerged",
		[PDD_REASON_COLLISION] = "checksum collision",
	};

	return (unsigned)reason < PDD_REASONS ? names[reason] : "unknown";
}

/* Everything else that is known of: new, changing, skipped, refused, failed. */
static void derive_volatile(struct pdd_counts *counts)
{
	counts->pages_volatile = counts->ksm_rmap_items - counts->ksm_merging_pages -
				 counts->ksm_zero_pages - counts->pages_unshared;
}

void pddi_counts_add(struct pdd_counts *total, const struct pdd_counts *counts)
{
	total->pages += counts->pages;
	total->ksm_rmap_items += counts->ksm_rmap_items;
	total->ksm_merging_pages += counts->ksm_merging_pages;
	total->ksm_zero_pages += counts->ksm_zero_pages;
	total->pages_unshared += counts->pages_unshared;
	total->pages_due += counts->pages_due;
	for (unsigned i = 0; i < PDD_REASONS; i++)
		total->reasons[i] += counts->reasons[i];
	total->pages_scanned += counts->pages_scanned;
	total->pages_skipped += counts->pages_skipped;
	total->pages_busy += counts->pages_busy;
	total->merges += counts->merges;
	total->zero_merges += counts->zero_merges;
	total->unshares += counts->unshares;
}

int pdd_space_counts(const struct pdd_space *space, struct pdd_counts *counts)
{
	if (!space || !counts || !space->priv.scanner)
		return -EINVAL;
	*counts = space->priv.counts;
	derive_volatile(counts);
	return 0;
}

int pdd_scanner_stats(const struct pdd_scanner *scanner, struct pdd_stats *stats)
{
	struct pdd_stats total = scanner->priv.stats;
	size_t size = stats->size;
	int64_t page_size = (int64_t)scanner->priv.page_size;

	if (size < sizeof(size))
		return -EINVAL;
	for (const struct pdd_space *space = scanner->priv.spaces; space; space = space->priv.next)
		pddi_counts_add(&total.counts, &space->priv.counts);
	derive_volatile(&total.counts);
	total.general_profit_bytes =
		(int64_t)(total.pages_sharing + total.counts.ksm_zero_pages) * page_size -
		(int64_t)(total.counts.pages * sizeof(struct pdd_item));
	if (size > sizeof(total)) {
		memset((char *)stats + sizeof(total), 0, size - sizeof(total));
		memcpy(stats, &total, sizeof(total));
	} else {
		memcpy(stats, &total, size);
	}
	stats->size = size;
	return 0;
}
