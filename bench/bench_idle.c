/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_idle [--mib M] [--json]: what a pass costs over real memory in which little happens, with
 * and without write tracking.
 *
 * Two ranges of M MiB (2048 by default) of pages that are all different, each added to a
 * deduplicator of its own, under PDD_LINUX_NO_DEVICE_WRITES; one with PDD_LINUX_NO_TRACKING. After 80 passes every page is old, in
 * the index, and looked at once in 64 passes. Then passes over the one and over the other alternate;
 * before each pair the same pages are written in both ranges: none, a run of 0.1 or 1 % that begins
 * anywhere, or 1 % at random, which touches nearly all extents of 2 MiB. Times are CPU time
 * of the stepping thread, kernel included, for all pages of the range; medians of ROUNDS, after as
 * many rounds as it takes until as many written pages are read in a pass as are written.
 *
 *	pass_ns_per_page           without tracking: the page map is read, a 64th of the pages, too
 *	pass_ns_per_page_tracked   the kernel says which pages were written: the others are left alone
 *	ns_per_written_page        what a written page adds to a pass, tracked
 *	write_ns, write_ns_tracked wall clock of the program's own write to one of these pages: the first
 *	                           write after a pass is noted by the kernel
 *
 * Exit status 1 unless what was counted is right: with tracking, and nothing written, no page is
 * looked at and all are counted as clean; 77 if the kernel cannot track writes.
 */
#define _GNU_SOURCE 1

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <pagededup/linux/dedup.h>

#include "support/measure.h"

#define PAGE_BYTES 4096u
#define ROUNDS 9u
#define SETTLE_PASSES 80u

/* What is written before each pass. */
struct pattern {
	unsigned per_mille; /* of the pages */
	bool scattered;     /* each page at random; else one run that begins anywhere */
};

static const struct pattern patterns[] = { { 0, false }, { 1, false }, { 10, false }, { 10, true } };

struct side {
	struct pdd_linux *dedup;
	struct pdd_linux_memory *handle;
	unsigned char *memory;
	double pass_ns[ROUNDS], write_ns[ROUNDS]; /* per page */
};

static void die(const char *what, int error)
{
	fprintf(stderr, "bench_idle: %s: %s\n", what, strerror(-error));
	exit(1);
}

static double now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static struct pdd_counts counts_of(const struct side *side)
{
	struct pdd_counts counts;
	int error = pdd_linux_memory_counts(side->dedup, side->handle, &counts);

	if (error)
		die("counts", error);
	return counts;
}

/* One whole pass; its CPU time. */
static double pass(const struct side *side)
{
	double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
	int result;

	do
		result = pdd_linux_step(side->dedup, UINT64_MAX, 0);
	while (result == PDD_STEP_MORE);
	if (result != PDD_STEP_PASS)
		die("pdd_linux_step", result);
	return now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void side_create(struct side *side, uint64_t npages, uint32_t flags)
{
	struct pdd_linux_options options = {
		.size = sizeof(options), .flags = flags, .expected_pages = npages,
	};
	size_t length = npages * PAGE_BYTES;
	int error;

	side->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (side->memory == MAP_FAILED)
		die("mmap", -ENOMEM);
	(void)madvise(side->memory, length, MADV_NOHUGEPAGE);
	error = pdd_linux_create(&side->dedup, &options);
	if (!error)
		error = pdd_linux_add(side->dedup, &side->handle, 0, side->memory, length);
	if (error)
		die("pdd_linux_add", error);
	for (uint64_t i = 0; i < npages; i++)
		*(uint64_t *)(void *)(side->memory + i * PAGE_BYTES) = i + 1;
	for (unsigned i = 0; i < SETTLE_PASSES; i++)
		(void)pass(side);
	if (counts_of(side).pages_unshared != npages) {
		fprintf(stderr, "bench_idle: not all pages are in the index\n");
		exit(1);
	}
}

/* Write n pages, so that all stay different; nanoseconds per write. */
static double write_some(const struct side *side, uint64_t npages, uint64_t n, bool scattered,
			 uint64_t seed)
{
	double begin = now_ns(CLOCK_MONOTONIC);
	uint64_t first = next_random(&seed) % npages;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t page = (scattered ? next_random(&seed) : first + i) % npages;

		*(uint64_t *)(void *)(side->memory + page * PAGE_BYTES + 8) += page + 1;
	}
	return n ? (now_ns(CLOCK_MONOTONIC) - begin) / (double)n : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

/* Whether the passes of a tracked range without a written page left all of it alone. */
static bool was_left_alone(const struct pdd_counts *before, const struct pdd_counts *after,
			   uint64_t npages)
{
	return after->pages_scanned == before->pages_scanned &&
	       after->pages_skipped == before->pages_skipped &&
	       after->pages_clean - before->pages_clean == ROUNDS * npages;
}

static bool measure(struct side sides[2], uint64_t npages, const struct pattern *pattern,
		    double *idle_ns, bool json)
{
	struct pdd_counts before, after;
	uint64_t n = npages * pattern->per_mille / 1000;
	double pass_ns[2], write_ns[2];

	for (unsigned round = 0; n && round < SETTLE_PASSES; round++) {
		for (unsigned i = 0; i < 2; i++) {
			(void)write_some(&sides[i], npages, n, pattern->scattered,
					 ~(uint64_t)round);
			(void)pass(&sides[i]);
		}
	}
	before = counts_of(&sides[1]);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < 2; i++) {
			sides[i].write_ns[round] =
				write_some(&sides[i], npages, n, pattern->scattered, round + 1);
			sides[i].pass_ns[round] = pass(&sides[i]) / (double)npages;
		}
	}
	after = counts_of(&sides[1]);
	for (unsigned i = 0; i < 2; i++) {
		pass_ns[i] = median(sides[i].pass_ns);
		write_ns[i] = median(sides[i].write_ns);
	}
	if (!n)
		*idle_ns = pass_ns[1];
	printf(json ? "{\"bench\":\"idle\",\"pages\":%" PRIu64 ",\"written_percent\":%.1f,"
		      "\"scattered\":%s,\"pass_ns_per_page\":%.2f,\"pass_ns_per_page_tracked\":%.2f,"
		      "\"ns_per_written_page\":%.0f,\"write_ns\":%.0f,\"write_ns_tracked\":%.0f}\n"
		    : "%9" PRIu64 " %8.1f %9s %12.2f %12.2f %12.0f %9.0f %9.0f\n",
	       npages, pattern->per_mille / 10.0,
	       json ? (pattern->scattered ? "true" : "false")
		    : (pattern->scattered ? "scattered" : n ? "a run" : "-"),
	       pass_ns[0], pass_ns[1],
	       n ? (pass_ns[1] - *idle_ns) * (double)npages / (double)n : 0, write_ns[0],
	       write_ns[1]);
	fflush(stdout);
	return n || was_left_alone(&before, &after, npages);
}

int main(int argc, char **argv)
{
	static struct side sides[2];
	uint64_t mib = 2048, json = 0;
	const struct measure_option known[] = {
		{ .name = "mib", .value = &mib, .least = 1, .most = 1 << 20 },
		{ .name = "json", .value = &json },
	};
	bool good = true;
	double idle_ns = 0;

	measure_options(argc, argv, known, MEASURE_LENGTH(known));
	side_create(&sides[1], mib * 256, PDD_LINUX_NO_DEVICE_WRITES);
	if (!pdd_linux_facilities(sides[1].dedup)->track_writes) {
		fprintf(stderr, "bench_idle: writes cannot be tracked here: %s",
			pdd_linux_facilities(sides[1].dedup)->missing);
		return 77;
	}
	side_create(&sides[0], mib * 256, PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_TRACKING);
	if (!json)
		printf("%9s %8s %9s %12s %12s %12s %9s %9s\n", "pages", "written", "", "ns/page",
		       "tracked", "ns/written", "write", "tracked");
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		good = measure(sides, mib * 256, &patterns[i], &idle_ns, json) && good;
	for (unsigned i = 0; i < 2; i++)
		pdd_linux_destroy(sides[i].dedup);
	if (!good)
		fprintf(stderr, "bench_idle: pages that were not written were looked at\n");
	return good ? 0 : 1;
}
