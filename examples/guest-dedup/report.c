/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.c - what guest-dedup prints.
 */
#define _GNU_SOURCE

#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 4096 };

uint64_t report_pss_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	uint64_t kib = 0;
	bool found = false;

	if (!file)
		return 0;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "Pss: %" SCNu64, &kib) == 1;
	fclose(file);
	return kib * 1024;
}

static uint64_t saved_bytes(const struct report *report)
{
	return (report->stats.pages_sharing + report->stats.counts.ksm_zero_pages) * PAGE;
}

static int64_t net_profit_bytes(const struct report *report)
{
	return (int64_t)saved_bytes(report) - (int64_t)report->usage.metadata_bytes;
}

static void field(const char *name, uint64_t value)
{
	printf("\"%s\": %" PRIu64 ", ", name, value);
}

void report_json(const struct report *report)
{
	const struct pdd_counts *all = &report->stats.counts;

	printf("{");
	field("guests", report->nguests);
	field("pages", all->pages);
	field("zero", all->ksm_zero_pages);
	field("shared", report->stats.pages_shared);
	field("sharing", report->stats.pages_sharing);
	field("unshared", all->pages_unshared);
	field("volatile", all->pages_volatile);
	field("skipped", all->pages_skipped);
	field("passes", report->passes);
	field("saved_bytes", saved_bytes(report));
	field("metadata_bytes", report->usage.metadata_bytes);
	printf("\"net_profit_bytes\": %" PRId64 ", ", net_profit_bytes(report));
	field("mappings", report->usage.memory_mappings);
	printf("\"cpu_seconds\": %.6f, \"wall_seconds\": %.6f, ", report->cpu_seconds,
	       report->wall_seconds);
	field("pss_before_bytes", report->pss_before_bytes);
	field("pss_after_bytes", report->pss_after_bytes);
	field("verified_pages", all->pages);
	field("differing_pages", report->differing_pages);
	field("increments", report->increments);
	field("lost_increments", report->lost_increments);
	field("written_pages_merged", report->written_pages_merged);
	field("store_bytes", report->usage.store_bytes);
	printf("\"reasons\": {");
	for (int reason = 1, n = 0; reason < PDD_REASONS; reason++)
		if (all->reasons[reason])
			printf("%s\"%s\": %" PRIu64, n++ ? ", " : "",
			       pdd_reason_name((enum pdd_reason)reason), all->reasons[reason]);
	printf("}}\n");
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* The last part of a path. */
static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void reasons_line(const struct pdd_counts *all)
{
	const char *sep = "";

	printf("not shared: ");
	for (int reason = 1; reason < PDD_REASONS; reason++) {
		if (!all->reasons[reason])
			continue;
		printf("%s%" PRIu64 " %s", sep, all->reasons[reason],
		       pdd_reason_name((enum pdd_reason)reason));
		sep = ", ";
	}
	printf("%s pages\n", *sep ? "" : "0");
}

void report_table(const struct report *report)
{
	const struct pdd_stats *stats = &report->stats;
	const struct pdd_counts *all = &stats->counts;
	double total = mib(all->pages * PAGE), saved = mib(saved_bytes(report));

	printf("%-24s %9s %9s %9s %9s %9s %9s\n", "guest", "pages", "zero", "merged", "unshared",
	       "volatile", "differing");
	for (uint32_t i = 0; i < report->nguests; i++) {
		const struct pdd_counts *counts = &report->counts[i];

		printf("%-24.24s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
		       " %9" PRIu64 "\n",
		       base(report->guests[i].image), counts->pages, counts->ksm_zero_pages,
		       counts->ksm_merging_pages, counts->pages_unshared, counts->pages_volatile,
		       report->guests[i].differing);
	}
	printf("%-24s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
	       "\n\n",
	       "all", all->pages, all->ksm_zero_pages, all->ksm_merging_pages,
	       all->pages_unshared, all->pages_volatile, report->differing_pages);

	printf("saved       %.1f of %.1f MiB (%.1f %%): %" PRIu64 " zero pages, and %" PRIu64
	       " pages that share %" PRIu64 " frames with another\n",
	       saved, total, 100 * saved / total, all->ksm_zero_pages, stats->pages_sharing,
	       stats->pages_shared);
	printf("kernel says %.1f MiB before, %.1f MiB after (proportional set size)\n",
	       mib(report->pss_before_bytes), mib(report->pss_after_bytes));
	printf("net profit  %.1f MiB, after %.1f MiB of metadata\n",
	       (double)net_profit_bytes(report) / (1 << 20), mib(report->usage.metadata_bytes));
	printf("cost        %" PRIu64 " passes, %.2f s of CPU, %.2f s in all, %" PRIu64
	       " mappings\n",
	       report->passes, report->cpu_seconds, report->wall_seconds,
	       report->usage.memory_mappings);
	reasons_line(all);
	if (report->increments)
		printf("writers     %" PRIu64 " increments, %" PRIu64 " lost; %" PRIu64
		       " merges of pages that had been written\n",
		       report->increments, report->lost_increments, report->written_pages_merged);
	printf("verified    %" PRIu64 " pages, %" PRIu64 " differ\n", all->pages,
	       report->differing_pages);
}

void report_progress(uint64_t pass, const struct pdd_stats *stats, bool terminal)
{
	uint64_t saved = stats->pages_sharing + stats->counts.ksm_zero_pages;

	fprintf(stderr, "%spass %" PRIu64 ": %.1f of %.1f MiB saved, %" PRIu64 " pages due%s",
		terminal ? "\r" : "", pass, mib(saved * PAGE), mib(stats->counts.pages * PAGE),
		stats->counts.pages_due, terminal ? "\033[K" : "\n");
}
