/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_contention [--json]: a scan while threads hold the lock of one of two spaces.
 *
 * In the field a KSM that waits for locks scanned at 4 % of its speed while two threads kept a
 * process busy with mapping and unmapping, and another process had to wait for its merges. Here:
 *
 *	contender   64 MiB of unique pages; threads hold its lock nine tenths of the time
 *	victim      8,192 pages, 4 of each of 2,048 contents; nobody holds its lock
 *
 *	try            the library
 *	wait           the model of the old algorithm (baseline/ksm_scan.h), which waits for locks
 *	baseline-try   the same, which gives up a page or a search where a lock is taken
 *
 * In the uncontended case the threads do the same with a lock of their own. Rounds of both cases
 * alternate, and medians of at least five are reported:
 *
 *	*_pages_per_s   victim pages read, per second, while it is rewritten before each pass.
 *	                contended_ratio is above 1 where pages that are not read cost no time
 *	reads_ratio     the same with the pages of both spaces: 1 if contention costs no time
 *	victim_merge_s  from a rewritten victim to one that is all merged; null: not in 50 passes
 *	max_step_ms     the longest step of 4,096 pages while there was contention
 *	busy            tries that failed, or locks that were waited for, in all contended rounds
 *
 * In the end, for the library only, the contender's pages are old: by their age one pass in eight
 * looks at them, if it gets their lock. The victim is rewritten again and again, so that every pass
 * has something to do. worst_wait_passes is the longest time without a look at a page, bound_passes
 * is 16 / free_share, the share of time in which no contender holds the lock.
 *
 * contended_ratio is high wherever pages are not read because their lock is taken, so it says
 * something only together with reads_ratio, victim_merge_s and worst_wait_passes.
 *
 * Exit status 1 if contents or frames are not what they should be, if a victim is not merged, or if
 * the library waited for a lock. No time decides that: whether worst_wait_passes keeps to its bound
 * depends on when the threads run, and is for the reader to judge.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/contention_world.h"
#include "support/measure.h"

#define ROUNDS_MAX 9u
#define MERGE_PASSES_MAX 50u
#define OLD_PASSES 24u
#define WAIT_PASSES 400u /* an even number: the victim is merged in the end */
#define WAIT_PERIOD 8u

/* Rounds, and passes in a round that measure the rate: what waits is slow. */
static const unsigned nrounds[LOCK_KINDS] = { 9, 5, 5 };
static const unsigned rate_passes[LOCK_KINDS] = { 8, 1, 2 };

/* One round; medians of all of them. Indices: whether there was contention. */
struct sample {
	double victim_rate[2], read_rate[2], merge_s[2];
};

struct row {
	struct sample median;
	double max_step_s, free_share;
	uint64_t busy, waits, worst_wait, bound;
};

/* ---- rounds ---- */

static int measure_rate(struct world *world, struct sample *sample)
{
	const struct host_space *spaces = world->host.spaces;
	uint64_t victim = spaces[VICTIM].reads, contender = spaces[CONTENDER].reads;
	double seconds = 0;

	for (unsigned i = 0; i < rate_passes[world->kind]; i++) {
		world_rewrite_victim(world);
		if (world_pass(world, &seconds))
			return -1;
	}
	victim = spaces[VICTIM].reads - victim;
	contender = spaces[CONTENDER].reads - contender;
	if (victim != rate_passes[world->kind] * VICTIM_PAGES)
		return world_wrong(world, "victim pages were not read once in each pass");
	sample->victim_rate[world->contended] = (double)victim / seconds;
	sample->read_rate[world->contended] = (double)(victim + contender) / seconds;
	return 0;
}

static bool is_merged(const struct world *world)
{
	for (uint64_t i = 0; i < VICTIM_PAGES; i++)
		if (!world->host.spaces[VICTIM].pages[i].frame)
			return false;
	return true;
}

/* Contents and frames. The old algorithm with tries may fail to merge while there is contention. */
static int check(const struct world *world, bool merged)
{
	const struct host *host = &world->host;

	if (host_wrong_pages(&host->spaces[CONTENDER]) || host_wrong_pages(&host->spaces[VICTIM]))
		return world_wrong(world, "a page has another content");
	if (!merged)
		return world->kind == LOCK_BASELINE_TRY && world->contended
			       ? 0 : world_wrong(world, "not merged");
	for (uint64_t i = 0; i < VICTIM_PAGES; i++)
		if (host->spaces[VICTIM].pages[i].frame->nmaps != VICTIM_SHARERS)
			return world_wrong(world, "a frame has too few sharers, or too many");
	if (host->nused != VICTIM_CONTENTS)
		return world_wrong(world, "frames are left that no page shows");
	return 0;
}

static int measure_merge(struct world *world, struct sample *sample)
{
	double seconds = 0;
	bool merged = false;

	world_rewrite_victim(world);
	for (unsigned i = 0; i < MERGE_PASSES_MAX && !merged; i++) {
		if (world_pass(world, &seconds))
			return -1;
		merged = is_merged(world);
	}
	sample->merge_s[world->contended] = merged ? seconds : NAN;
	return check(world, merged);
}

static int measure_round(struct world *world, struct sample *sample)
{
	const struct host_space *spaces = world->host.spaces;

	for (unsigned contended = 0; contended < 2; contended++) {
		uint64_t misses = spaces[0].misses + spaces[1].misses;

		world_contend(world, contended);
		if (measure_rate(world, sample) || measure_merge(world, sample))
			return -1;
		if (!contended && spaces[0].misses + spaces[1].misses != misses)
			return world_wrong(world, "a lock was taken all the same");
	}
	return 0;
}

/* ---- waiting for a look ---- */

/* A pass in which the victim is read: it was rewritten, or, every second time, it merges. */
static int busy_pass(struct world *world, unsigned i)
{
	double seconds = 0;

	if (i % 2 == 0)
		world_rewrite_victim(world);
	return world_pass(world, &seconds);
}

static int measure_waits(struct world *world, struct row *row)
{
	struct host_space *contender = &world->host.spaces[CONTENDER];
	struct pdd_tunables tunables;
	uint64_t held, begin;
	int err;

	pdd_tunables_init(&tunables);
	tunables.max_period_passes = WAIT_PERIOD;
	err = pdd_scanner_set_tunables(&world->scanner, &tunables);
	world_contend(world, false);
	for (unsigned i = 0; i < OLD_PASSES && !err; i++)
		err = busy_pass(world, i);
	world_contend(world, true);
	host_waits_begin(&world->host, contender);
	held = contenders_held_ns(world->contenders);
	begin = bench_now_ns();
	for (unsigned i = 0; i < WAIT_PASSES && !err; i++)
		err = busy_pass(world, i);
	held = contenders_held_ns(world->contenders) - held;
	row->free_share = 1 - (double)held / (double)(bench_now_ns() - begin);
	row->bound = (uint64_t)(16 / row->free_share);
	row->worst_wait = host_waits_end(&world->host, contender);
	return err ? err : check(world, is_merged(world));
}

/* ---- rows ---- */

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	if (isnan(*x) || isnan(*y)) /* not merged: longer than all others */
		return !!isnan(*x) - !!isnan(*y);
	return (*x > *y) - (*x < *y);
}

/* The median of one field, the double number `offset` of each sample. */
static double median(const struct sample *samples, unsigned n, size_t offset)
{
	double values[ROUNDS_MAX];

	for (unsigned i = 0; i < n; i++)
		values[i] = ((const double *)(const void *)&samples[i])[offset];
	/* cppcheck-suppress uninitvar ; there is at least one round */
	qsort(values, n, sizeof(values[0]), compare);
	return values[n / 2];
}

static int measure(struct world *world, struct row *row)
{
	const struct host_space *spaces = world->host.spaces;
	double *medians = (double *)(void *)&row->median;
	struct sample samples[ROUNDS_MAX];
	unsigned n = nrounds[world->kind];
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++)
		err = measure_round(world, &samples[i]);
	for (size_t i = 0; i < sizeof(row->median) / sizeof(double) && !err; i++)
		medians[i] = median(samples, n, i);
	row->max_step_s = world->max_step_s;
	row->busy = spaces[0].misses + spaces[1].misses;
	if (!err && world->kind == LOCK_TRY)
		err = measure_waits(world, row);
	row->waits = spaces[0].waits + spaces[1].waits;
	return err;
}

/* What is exact, at the end. */
static int judge(const struct world *world, const struct row *row)
{
	if (world->kind == LOCK_WAIT)
		return row->waits ? 0 : world_wrong(world, "no lock was waited for");
	if (row->waits)
		return world_wrong(world, "a lock was waited for");
	return 0;
}

static void print_head(void)
{
	printf("%-12s %9s %9s %6s %6s %9s %9s %8s %9s %6s %6s %6s\n", "lock", "free/s", "busy/s",
	       "ratio", "reads", "merge s", "free s", "step ms", "busy", "share", "wait", "bound");
}

/* A number, or null. */
static const char *number(char text[32], double value, bool known)
{
	if (known && !isnan(value))
		snprintf(text, 32, "%.6g", value);
	else
		strcpy(text, "null");
	return text;
}

static void print(const struct world *world, const struct row *row, bool json)
{
	const struct sample *m = &row->median;
	bool is_library = world->kind == LOCK_TRY;
	char merge[32], merge_free[32], share[32], wait[32], bound[32];

	printf(json ? "{\"bench\": \"contention\", \"lock\": \"%s\", "
		      "\"uncontended_pages_per_s\": %.0f, \"contended_pages_per_s\": %.0f, "
		      "\"contended_ratio\": %.4f, \"reads_ratio\": %.4f, \"victim_merge_s\": %s, "
		      "\"victim_merge_uncontended_s\": %s, \"max_step_ms\": %.3f, "
		      "\"busy\": %" PRIu64 ", \"free_share\": %s, \"worst_wait_passes\": %s, "
		      "\"bound_passes\": %s}\n"
		    : "%-12s %9.0f %9.0f %6.3f %6.3f %9s %9s %8.2f %9" PRIu64 " %6.6s %6s %6s\n",
	       world_lock_names[world->kind], m->victim_rate[0], m->victim_rate[1],
	       m->victim_rate[1] / m->victim_rate[0], m->read_rate[1] / m->read_rate[0],
	       number(merge, m->merge_s[1], true), number(merge_free, m->merge_s[0], true),
	       row->max_step_s * 1e3, row->busy, number(share, row->free_share, is_library),
	       number(wait, (double)row->worst_wait, is_library),
	       number(bound, (double)row->bound, is_library));
	fflush(stdout);
}

static int run(enum lock_kind kind, struct contenders *contenders, bool json)
{
	struct world *world = malloc(sizeof(*world));
	struct row row = { 0 };
	int err;

	if (!world)
		return -1;
	err = world_start(world, kind, contenders);
	if (err)
		return err;
	err = measure(world, &row);
	if (!err) {
		print(world, &row, json);
		err = judge(world, &row);
	}
	err |= world_stop(world);
	free(world);
	return err;
}

int main(int argc, char **argv)
{
	uint64_t json = 0;
	const struct measure_option known = { .name = "json", .value = &json };
	struct contenders contenders;
	int err = 0;

	measure_options(argc, argv, &known, 1);
	if (contenders_start(&contenders, 1))
		return 1;
	if (!json)
		print_head();
	for (int kind = 0; kind < LOCK_KINDS; kind++)
		err |= run((enum lock_kind)kind, &contenders, json);
	contenders_stop(&contenders);
	return err || fflush(stdout) ? 1 : 0;
}
