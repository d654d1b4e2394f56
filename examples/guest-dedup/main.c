/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest-dedup - the memory side of a hypervisor: guests' memory, shared where it is equal.
 *
 *	load each image into memory of its own         guest.c
 *	add that to the deduplicator, one space each   here
 *	scan until nothing is left to do               here, with writers.c meanwhile
 *	verify every page of every guest               guest.c
 *	say what came of it                            report.c
 */
#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pagededup/linux/dedup.h>

#include "guest.h"
#include "options.h"
#include "report.h"
#include "writers.h"

enum {
	PAGE = 4096,
	STEP_PAGES = 16384, /* between two looks at the clock and for ^C */
};

struct job {
	struct options options;
	struct guest *guests;
	struct pdd_counts *counts;
	struct pdd_linux *dedup;
	struct writers *writers;
	struct report report;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
	(void)signal;
	interrupted = 1;
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool complain(const char *what, int err)
{
	fprintf(stderr, "guest-dedup: %s: %s\n", what, strerror(err));
	return false;
}

/* Count merges of pages whose counters were incremented before. */
static void on_event(void *ctx, enum pdd_event event, void *start, uint64_t npages)
{
	struct job *job = ctx;
	unsigned char *address = start;

	for (uint32_t i = 0; event == PDD_EVENT_MERGED && i < job->options.nimages; i++) {
		struct guest *guest = &job->guests[i];
		uint64_t first;

		if (!guest->slot_of || address < guest->memory ||
		    address >= guest->memory + guest->npages * PAGE)
			continue;
		first = (uint64_t)(address - guest->memory) / PAGE;
		for (uint64_t page = first; page < first + npages; page++) {
			uint32_t slot = guest->slot_of[page];

			if (!slot || slot > guest->nslots ||
			    !atomic_load_explicit(&guest->increments[slot - 1],
						  memory_order_relaxed))
				continue;
			job->report.written_pages_merged++;
			writers_merged(job->writers, guest, slot - 1);
		}
	}
}

static bool load(struct job *job)
{
	uint32_t n = job->options.nimages;

	job->guests = calloc(n, sizeof(*job->guests));
	job->counts = calloc(n, sizeof(*job->counts));
	if (!job->guests || !job->counts)
		return complain("loading", ENOMEM);
	for (uint32_t i = 0; i < n; i++)
		if (!guest_load(&job->guests[i], job->options.images[i]))
			return false;
	return true;
}

/* Create the deduplicator and add all guests. */
static bool add(struct job *job)
{
	struct pdd_tunables tunables;
	struct pdd_linux_options options = {
		.size = sizeof(options),
		/* Nobody does direct I/O into these guests. */
		.flags = PDD_LINUX_NO_DEVICE_WRITES,
		.tunables = &tunables,
		.trace = on_event,
		.trace_ctx = job,
	};
	int err;

	pdd_tunables_init(&tunables);
	if (job->options.max_page_sharing)
		tunables.max_page_sharing = job->options.max_page_sharing;
	if (job->options.writers) /* they are to meet merges of their pages often */
		tunables.aging = PDD_AGING_NONE;
	for (uint32_t i = 0; i < job->options.nimages; i++)
		options.expected_pages += job->guests[i].npages;
	err = pdd_linux_create(&job->dedup, &options);
	if (err)
		return complain("creating the deduplicator", -err);
	fputs(pdd_linux_facilities(job->dedup)->missing, stderr);
	for (uint32_t i = 0; i < job->options.nimages; i++) {
		struct guest *guest = &job->guests[i];

		err = pdd_linux_add(job->dedup, &guest->handle,
				    job->options.domain_per_guest ? i + 1 : 0, guest->memory,
				    guest->npages * PAGE);
		if (err)
			return complain(guest->image, -err);
	}
	return true;
}

/* Whether another pass has anything to do. */
static bool is_finished(const struct job *job, const struct pdd_stats *before,
			const struct pdd_stats *now)
{
	if (job->options.passes && job->report.passes >= job->options.passes)
		return true;
	return !job->options.writers && now->counts.pages_due == 0 &&
	       now->counts.merges == before->counts.merges &&
	       now->counts.zero_merges == before->counts.zero_merges;
}

/* Scan to the end, the limit, or ^C. */
static bool scan(struct job *job)
{
	struct writers *writers = job->writers;
	bool terminal = isatty(STDERR_FILENO), progress = terminal || job->options.progress;
	double end = job->options.seconds
			     ? seconds(CLOCK_MONOTONIC) + (double)job->options.seconds
			     : 0;
	struct pdd_stats before = { .size = sizeof(before) }, now = before;
	int step = PDD_STEP_MORE;

	while (!interrupted && (end == 0 || seconds(CLOCK_MONOTONIC) < end)) {
		step = pdd_linux_step(job->dedup, STEP_PAGES, 0);
		if (step < 0)
			break;
		if (step != PDD_STEP_PASS)
			continue;
		job->report.passes++;
		if (writers)
			writers_pass(writers);
		pdd_linux_stats(job->dedup, &now);
		if (progress && !writers)
			report_progress(job->report.passes, &now, terminal);
		if (is_finished(job, &before, &now))
			break;
		before = now;
	}
	if (progress && terminal && !writers)
		fputc('\n', stderr);
	return step < 0 ? complain("scanning", -step) : true;
}

/* Scanning and what belongs to it, measured. */
static bool work(struct job *job)
{
	struct report *report = &job->report;
	double cpu, wall;
	bool ok;

	report->pss_before_bytes = report_pss_bytes();
	cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
	wall = seconds(CLOCK_MONOTONIC);
	if (!add(job))
		return false;
	if (job->options.writers) {
		job->writers = writers_start(job->guests, job->options.nimages,
					     job->options.writers);
		if (!job->writers)
			return false;
	}
	ok = scan(job);
	report->cpu_seconds = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
	report->wall_seconds = seconds(CLOCK_MONOTONIC) - wall;
	if (job->writers)
		report->increments = writers_stop(job->writers);
	return ok;
}

/* Verify, and collect what is to be reported. */
static bool examine(struct job *job)
{
	struct report *report = &job->report;
	const char *why;
	bool ok = true;

	report->guests = job->guests;
	report->counts = job->counts;
	report->nguests = job->options.nimages;
	report->stats.size = sizeof(report->stats);
	pdd_linux_stats(job->dedup, &report->stats);
	for (uint32_t i = 0; i < report->nguests; i++) {
		struct guest *guest = &job->guests[i];

		ok = guest_verify(guest) && ok;
		report->differing_pages += guest->differing;
		report->lost_increments += guest_lost_increments(guest);
		pdd_linux_memory_counts(job->dedup, guest->handle, &job->counts[i]);
	}
	report->pss_after_bytes = report_pss_bytes();
	if (pdd_linux_usage(job->dedup, &report->usage) != 0)
		ok = complain("usage", EIO);
	if (pdd_linux_check(job->dedup, &why) != 0) {
		fprintf(stderr, "guest-dedup: %s\n", why);
		ok = false;
	}
	return ok;
}

static void clean_up(struct job *job)
{
	pdd_linux_destroy(job->dedup);
	for (uint32_t i = 0; job->guests && i < job->options.nimages; i++)
		guest_free(&job->guests[i]);
	free(job->guests);
	free(job->counts);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct job job = { 0 };
	int status = options_read(&job.options, argc, argv);

	if (status >= 0)
		return status;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!load(&job)) {
		clean_up(&job);
		return 2;
	}
	status = 1;
	if (work(&job) && examine(&job)) {
		if (job.options.json)
			report_json(&job.report);
		else
			report_table(&job.report);
		status = job.report.differing_pages || job.report.lost_increments ? 1 : 0;
		if (fflush(stdout) != 0 || ferror(stdout)) {
			complain("writing the report", EIO);
			status = 1;
		}
	}
	clean_up(&job);
	return status;
}
