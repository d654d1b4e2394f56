/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_ours.c - see ksm_ours.h.
 *
 * There is no promise that no device writes into the memory (PDD_LINUX_NO_DEVICE_WRITES): ksmd has
 * none either. So an idle pass reads one extent in 256, besides asking who wrote.
 */
#define _DEFAULT_SOURCE

#include "ksm_ours.h"

#include <string.h>
#include <time.h>

#include <pagededup/linux/dedup.h>

#include "ksm_settings.h"

struct ours {
	const struct ksm_memory *memory;
	enum ksm_task task;
	struct pdd_linux *dedup; /* NULL before the first pass */
	uint64_t looks;          /* in all passes */
};

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int failed(const char *what, int error)
{
	return ksm_complain("%s: %s", what, strerror(-error));
}

static int begin(struct ours *ours)
{
	struct pdd_tunables tunables;
	struct pdd_linux_options options = {
		.size = sizeof(options),
		.tunables = &tunables,
		.expected_pages = ours->memory->source->npages,
	};
	struct pdd_linux_memory *handle;
	int error;

	pdd_tunables_init(&tunables);
	tunables.max_page_sharing = 256;
	tunables.use_zero_pages = 1;
	if (ours->task != KSM_TASK_IDLE) {
		options.flags = PDD_LINUX_NO_TRACKING;
		tunables.aging = PDD_AGING_NONE;
	}
	error = pdd_linux_create(&ours->dedup, &options);
	if (error)
		return failed("pdd_linux_create", error);
	for (unsigned i = 0; i < ours->memory->nparts; i++) {
		const struct ksm_part *part = &ours->memory->parts[i];

		error = pdd_linux_add(ours->dedup, &handle, 0, part->bytes,
				      part->npages * KSM_PAGE_BYTES);
		if (error)
			return failed("pdd_linux_add", error);
	}
	return 0;
}

static int pass_of_ours(void *ctx, struct ksm_pass *pass)
{
	struct ours *ours = ctx;
	struct pdd_stats stats = { .size = sizeof(stats) };
	double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
	int step;

	if (!ours->dedup && begin(ours))
		return -1;
	do
		step = pdd_linux_step(ours->dedup, UINT64_MAX, 0);
	while (step == PDD_STEP_MORE);
	pass->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	pass->wall_s = seconds(CLOCK_MONOTONIC) - wall;
	if (step != PDD_STEP_PASS)
		return failed("pdd_linux_step", step);
	step = pdd_linux_stats(ours->dedup, &stats);
	if (step)
		return failed("pdd_linux_stats", step);
	pass->looks = stats.counts.pages_scanned - ours->looks;
	ours->looks = stats.counts.pages_scanned;
	pass->shared = stats.pages_shared;
	pass->sharing = stats.pages_sharing;
	pass->zero = stats.counts.ksm_zero_pages;
	return 0;
}

int ksm_ours_measure(struct ksm_figures *figures, uint64_t *mappings,
		     const struct ksm_memory *memory, enum ksm_task task)
{
	struct ours ours = { .memory = memory, .task = task };
	struct ksm_passer passer = {
		.pass = pass_of_ours,
		.ctx = &ours,
		.name = "the library",
		.npages = memory->source->npages,
		/* The longest period is 64 passes, from age 65 on; what devices may have written
		 * is read once in 256. */
		.settle_passes = 80,
		.idle_passes = 256,
	};
	struct pdd_linux_usage usage;
	const char *why = "";
	int error = ksm_passes_measure(figures, &passer, task);

	if (error)
		return error;
	error = pdd_linux_usage(ours.dedup, &usage);
	if (error)
		return failed("pdd_linux_usage", error);
	*mappings = usage.mappings;
	error = pdd_linux_check(ours.dedup, &why);
	return error ? ksm_complain("pdd_linux_check: %s", why) : 0;
}
