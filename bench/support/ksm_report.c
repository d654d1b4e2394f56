/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_report.c - see ksm_report.h. */
#include "ksm_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, unsigned n)
{
	double sorted[KSM_ROUNDS_MAX];

	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), compare);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double least(const double *values, unsigned n)
{
	double result = values[0];

	for (unsigned i = 1; i < n; i++)
		result = values[i] < result ? values[i] : result;
	return result;
}

static double greatest(const double *values, unsigned n)
{
	double result = values[0];

	for (unsigned i = 1; i < n; i++)
		result = values[i] > result ? values[i] : result;
	return result;
}

/* A row of the table, or a pair of members. */
static void print_pair(const struct ksm_options *o, const char *name, const double *ksmd,
		       const double *ours, int decimals)
{
	double a = median(ksmd, o->rounds), b = median(ours, o->rounds);

	if (o->json)
		printf(",\"ksmd_%s\":%.*f,\"ours_%s\":%.*f", name, decimals, a, name, decimals, b);
	else
		printf("%-20s %14.*f %14.*f\n", name, decimals, a, decimals, b);
}

static void print_head(const struct ksm_options *o, const struct ksm_series series[2],
		       const double *ratios)
{
	const struct ksm_source *source = &o->source;
	double ratio = median(series[0].cpu_s, o->rounds) / median(series[1].cpu_s, o->rounds);
	const char *fill = source->dataset == KSM_GUESTS ? "images"
			   : source->random ? "random" : "counter";

	printf(o->json ? "{\"bench\":\"ksm\",\"dataset\":\"%s\",\"fill\":\"%s\","
			 "\"pages\":%" PRIu64 ",\"rounds\":%u,\"cpu_ratio\":%.3f,"
			 "\"cpu_ratio_min\":%.3f,\"cpu_ratio_max\":%.3f"
		       : "%s, %s, %" PRIu64 " pages, %u rounds\n"
			 "cpu_ratio %.2f (%.2f to %.2f in a round)\n",
	       ksm_dataset_names[source->dataset], fill, source->npages, o->rounds, ratio,
	       least(ratios, o->rounds), greatest(ratios, o->rounds));
}

void ksm_report(const struct ksm_options *o, const struct ksm_series series[2])
{
	const struct ksm_series *k = &series[KSM_SIDE_KSMD], *u = &series[KSM_SIDE_OURS];
	double ratios[KSM_ROUNDS_MAX], ns[2][KSM_ROUNDS_MAX];

	for (unsigned i = 0; i < o->rounds; i++) {
		ratios[i] = k->cpu_s[i] / u->cpu_s[i];
		ns[0][i] = k->cpu_s[i] * 1e9 / (double)o->source.npages;
		ns[1][i] = u->cpu_s[i] * 1e9 / (double)o->source.npages;
	}
	print_head(o, series, ratios);
	if (!o->json)
		printf("%-20s %14s %14s\n", "", "ksmd", "ours");
	print_pair(o, "cpu_s", k->cpu_s, u->cpu_s, 6);
	print_pair(o, "wall_s", k->wall_s, u->wall_s, 6);
	print_pair(o, "cpu_ns_per_page", ns[0], ns[1], 1);
	print_pair(o, "passes", k->passes, u->passes, 0);
	print_pair(o, "looks_per_page", k->looks, u->looks, 3);
	print_pair(o, "saved_pages", k->saved, u->saved, 0);
	print_pair(o, "shared_pages", k->shared, u->shared, 0);
	print_pair(o, "zero_pages", k->zero, u->zero, 0);
	print_pair(o, "mappings", k->mappings, u->mappings, 0);
	if (!o->no_idle) {
		print_pair(o, "idle_ns_per_page", k->idle_ns, u->idle_ns, 2);
		print_pair(o, "idle_looks_per_page", k->idle_looks, u->idle_looks, 4);
	}
	fputs(o->json ? "}\n" : "", stdout);
}
