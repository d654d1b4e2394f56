/*
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * ksmd_images [--json] [--scans N] IMAGE...: what the kernel's own page merging does with these
 * memory images, and what it costs. Needs root, and a kernel whose KSM nobody else uses. (bench_ksm
 * sets the library beside it.)
 *
 * Each image is put into anonymous memory of 4096-byte pages, and ksmd scans it N times (2: one
 * look to see that a page keeps still, one to merge it). Reported are the pages merged, the CPU
 * time of ksmd and the wall time of these scans, and the CPU time of an idle scan that looks at
 * every page (smart_scan 0), which is the mean of three more.
 *
 * At the end, after an error and after a signal, everything is unmerged (run=2) and all settings
 * are written back and compared. Only SIGKILL prevents that.
 *
 * Exit status: 0; 1 after an error; 77 if it cannot be measured here; 128 + the signal's number.
 */
#define _DEFAULT_SOURCE

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/ksm_memory.h"
#include "support/ksm_settings.h"
#include "support/ksmd.h"

#define IDLE_SCANS 3
#define SCANS_MAX 1000 /* the usage says so, too */
#define SKIP 77

struct result {
	double cpu_s, wall_s, idle_cpu_s;
	uint64_t scans, looks;
	struct ksm_pass last; /* of the scans that count */
};

static int measure_scans(struct result *r, uint64_t scans)
{
	for (r->scans = 0; r->scans < scans; r->scans++) {
		if (ksmd_scan(NULL, &r->last))
			return -1;
		r->cpu_s += r->last.cpu_s;
		r->wall_s += r->last.wall_s;
		r->looks += r->last.looks;
	}
	return 0;
}

static int measure_idle(struct result *r)
{
	struct ksm_pass pass;

	for (int i = 0; i < IDLE_SCANS; i++) {
		if (ksmd_scan(NULL, &pass))
			return -1;
		r->idle_cpu_s += pass.cpu_s / IDLE_SCANS;
	}
	return 0;
}

static void print(const struct result *r, const struct ksm_source *source, bool json)
{
	printf(json ?
		"{\"guests\": %u, \"pages\": %" PRIu64 ", \"ksmd_cpu_s\": %.6f, "
		"\"ksmd_wall_s\": %.6f, \"scans\": %" PRIu64 ", \"looks_per_page\": %.3f, "
		"\"shared\": %" PRIu64 ", \"sharing\": %" PRIu64 ", \"zero\": %" PRIu64 ", "
		"\"idle_scan_cpu_s\": %.6f}\n" :
		"guests            %12u\npages             %12" PRIu64 "\n"
		"ksmd CPU          %12.6f s\nksmd wall         %12.6f s\n"
		"scans             %12" PRIu64 "\nlooks per page    %12.3f\n"
		"shared            %12" PRIu64 "\nsharing           %12" PRIu64 "\n"
		"zero              %12" PRIu64 "\nidle scan CPU     %12.6f s\n",
	       source->nimages, source->npages, r->cpu_s, r->wall_s, r->scans,
	       (double)r->looks / (double)source->npages, r->last.shared, r->last.sharing,
	       r->last.zero, r->idle_cpu_s);
}

/* -1: go on; 0: it was asked for help; 2: usage. */
static int read_options(struct ksm_source *source, uint64_t *scans, bool *json, int argc,
			char **argv)
{
	static const char usage[] = "usage: ksmd_images [--json] [--scans 1..1000] IMAGE...\n";
	int at = 1;

	if (at < argc && !strcmp(argv[at], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--json"))
			*json = true;
		else if (!strcmp(argv[at], "--scans") && at + 1 < argc)
			*scans = strtoull(argv[++at], NULL, 10);
		else
			break;
	}
	source->images = (const char *const *)&argv[at];
	source->nimages = (unsigned)(argc - at);
	if (at < argc && argv[at][0] != '-' && source->nimages <= KSM_PARTS_MAX && *scans >= 1 &&
	    *scans <= SCANS_MAX)
		return -1;
	fputs(usage, stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static struct ksm_memory memory;
	struct ksm_source source = { .dataset = KSM_GUESTS };
	struct result r = { 0 };
	uint64_t scans = 2;
	bool json = false;
	const char *why;
	int ret = read_options(&source, &scans, &json, argc, argv);

	if (ret >= 0)
		return ret;
	why = ksmd_unusable();
	if (why) {
		ksm_complain("%s", why);
		return SKIP;
	}
	ksm_catch_signals();
	ret = ksm_source_size(&source) || ksm_memory_fill(&memory, &source) ||
	      ksm_memory_offer(&memory);
	if (!ret && !ksm_signal) {
		ksm_settings_save();
		ret = ksmd_reset(false) || measure_scans(&r, scans) || measure_idle(&r);
		ret |= ksm_settings_restore();
	}
	if (ksm_signal)
		return 128 + ksm_signal;
	if (!ret)
		print(&r, &source, json);
	return ret || fflush(stdout) ? 1 : 0;
}
