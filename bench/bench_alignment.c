/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_alignment [--json]: equal pages that come at different times, and the price of old pages.
 *
 * KSM's smart scan let each page count for itself the passes in which it is not looked at, and
 * rebuilt its index in each pass. So two equal old pages that are looked at in different passes
 * never met. The experiment that showed it: a page, and an equal one 0 to 20 passes later; 20
 * starts of each, 64 passes more. Of these 420 pairs it merged 360.
 *
 * Here a model of the old algorithm (baseline/ksm_scan.h) and all policies of the library go
 * through it, on the same hooks, beside 16,384 pages that are alone. When all are old, what 64
 * passes read is counted: pages on average, and at most in one pass.
 *
 * "worst wait" is from the pass with the second look at the younger page, in which a pair can merge
 * first, to the pass in which it does, of the pairs that do. Exit status 1 if a policy merges less,
 * later or at a higher price than it promises, or the old one does not show its fault.
 *
 * Nothing is timed: all figures are counts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/scanner.h>

#include "baseline/ksm_scan.h"
#include "support/measure.h"
#include "support/noop_hooks.h"

#define PAGE_SHIFT 6u
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define NROOTS 16384u

#define STARTS 20u
#define WAITS 21u
#define PAIRS (STARTS * WAITS)
#define LONE 16384u
#define NPAGES (2 * PAIRS + LONE) /* older ones of the pairs, younger ones, pages alone */
#define LAST_COMES (STARTS - 1 + WAITS - 1)
#define PASSES (LAST_COMES + 1 + 64) /* after them the youngest page is 65 passes old */
#define WINDOW 64u
#define NEVER UINT64_MAX

struct host_frame {
	struct pdd_frame frame;
	unsigned char bytes[PAGE_BYTES];
};

/* One space with one region. */
struct host {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[NROOTS];
	struct pdd_space space;
	struct pdd_region region;
	struct pdd_extent extents[NPAGES / PDD_EXTENT_PAGES + 1];
	struct pdd_item items[NPAGES];
	unsigned char kinds[NPAGES]; /* ABSENT, PRIVATE or SHARED */
	unsigned char bytes[NPAGES][PAGE_BYTES];
	struct host_frame *frames[NPAGES]; /* what a SHARED one shows */
	uint64_t merged_at[PAIRS];
	bool is_ksm;
	struct ksm_scan ksm; /* in place of the scanner */
	struct ksm_region ksm_region;
	struct ksm_item ksm_items[NPAGES];
};

struct scenario {
	const char *policy, *index;
	uint32_t aging, index_policy, max_period;
	/* what it promises */
	uint64_t least, most; /* pairs merged */
	uint64_t worst_wait;
	double looks_per_pass; /* at most */
	double peak_over_mean;
	bool is_ksm; /* the model of the old algorithm */
};

#define UNLIMITED 1e9

/* The old ones first. Where the index is retained, pairs do not wait at all, and old pages may
 * be read rarely. Where it is rebuilt they wait for the pass that looks at both: less than a
 * period. */
static const struct scenario scenarios[] = {
	{ .policy = "ksm", .index = "rebuilt", .max_period = 8, .least = 360, .most = 360,
	  .worst_wait = NEVER, .looks_per_pass = UNLIMITED, .peak_over_mean = UNLIMITED,
	  .is_ksm = true },
	{ "countdown", "rebuilt", PDD_AGING_COUNTDOWN, PDD_INDEX_REBUILT, 8, 360, 360, NEVER,
	  UNLIMITED, UNLIMITED, false },
	{ "countdown", "retained", PDD_AGING_COUNTDOWN, PDD_INDEX_RETAINED, 8, PAIRS, PAIRS, 0,
	  UNLIMITED, UNLIMITED, false },
	{ "epoch", "rebuilt", PDD_AGING_EPOCH, PDD_INDEX_REBUILT, 8, PAIRS, PAIRS, 7, UNLIMITED,
	  UNLIMITED, false },
	{ "epoch", "retained", PDD_AGING_EPOCH, PDD_INDEX_RETAINED, 64, PAIRS, PAIRS, 0,
	  LONE / 60.0, UNLIMITED, false },
	{ "phase", "rebuilt", PDD_AGING_PHASE, PDD_INDEX_REBUILT, 8, PAIRS, PAIRS, 7, UNLIMITED,
	  1.3, false },
	{ "phase", "retained", PDD_AGING_PHASE, PDD_INDEX_RETAINED, 64, PAIRS, PAIRS, 0,
	  LONE / 60.0, UNLIMITED, false },
};

struct row {
	uint64_t merged, worst_wait;
	double looks_per_pass, peak_over_mean;
};

/* ---- hooks: nobody but the benchmark writes, and not while a step is under way ---- */

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct host *host = ctx;
	uint64_t at = first, end = first + npages;
	uint32_t n = 0;

	while (n < nviews && at < end) {
		struct pdd_view *view = &views[n++];
		uint8_t kind = host->kinds[at];

		*view = (struct pdd_view){ .kind = kind };
		if (kind == PDD_PAGE_PRIVATE)
			view->content = host->bytes[at];
		while (at < end && host->kinds[at] == kind) {
			view->npages++;
			at++;
		}
	}
	return (int)n;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct host_frame *frame = calloc(1, sizeof(*frame));

	if (!frame)
		return 0;
	memcpy(frame->bytes, wishes[0].content, PAGE_BYTES);
	frames[0] = &frame->frame;
	return 1;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	struct host *host = ctx;

	for (uint64_t i = 0; i < npages; i++) {
		host->frames[first + i] = (struct host_frame *)(void *)frames[i];
		host->kinds[first + i] = PDD_PAGE_SHARED;
	}
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct host *host = ctx;

	for (uint64_t i = first; i < first + npages; i++) {
		if (host->kinds[i] != PDD_PAGE_SHARED)
			continue;
		memcpy(host->bytes[i], host->frames[i]->bytes, PAGE_BYTES);
		host->kinds[i] = PDD_PAGE_PRIVATE;
	}
	return (int)npages;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	return ((struct host_frame *)(void *)frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	free(frame); /* the first member */
}

static const struct pdd_ops ops = {
	.size = sizeof(ops),
	.space_trylock = noop_space_trylock,
	.space_unlock = noop_space_unlock,
	.pages_get = pages_get,
	.pages_put = noop_range,
	.hold = pages_get,
	.release = noop_range,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
};

/* ---- the experiment ---- */

static int build(struct host *host, const struct scenario *s)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3 };
	struct pdd_tunables tunables;
	const struct pdd_scanner_options options = {
		.size = sizeof(options), .page_shift = PAGE_SHIFT, .roots = host->roots,
		.nroots = NROOTS, .secret = secret, .secret_len = sizeof(secret),
		.tunables = &tunables,
	};
	const struct ksm_scan_options ksm = { .page_size = PAGE_BYTES, .smart_scan = true };

	pdd_tunables_init(&tunables);
	tunables.aging = s->aging;
	tunables.index = s->index_policy;
	tunables.max_period_passes = s->max_period;
	for (unsigned i = 0; i < PAIRS; i++)
		host->merged_at[i] = NEVER;
	if (pdd_scanner_init(&host->scanner, &ops, host, &options) ||
	    pdd_space_add(&host->scanner, &host->space, 0) ||
	    pdd_region_add(&host->space, &host->region, 0, NPAGES, host->extents, host->items))
		return -1;
	host->is_ksm = s->is_ksm;
	ksm_scan_init(&host->ksm, &ops, host, &ksm);
	ksm_scan_add(&host->ksm, &host->ksm_region, &host->space, &host->region, host->ksm_items,
		     NPAGES);
	return 0;
}

static int tear_down(struct host *host)
{
	if (host->is_ksm)
		ksm_scan_fini(&host->ksm);
	return pdd_scanner_unmerge(&host->scanner, UINT64_MAX) < 0 ||
	       pdd_region_remove(&host->region) || pdd_space_remove(&host->space);
}

/* Pages of equal content have equal numbers. */
static void write_page(struct host *host, uint64_t page, uint64_t content)
{
	for (unsigned i = 0; i < PAGE_BYTES / sizeof(content); i++)
		memcpy(host->bytes[page] + i * sizeof(content), &(uint64_t){ content * NPAGES + i },
		       sizeof(content));
	host->kinds[page] = PDD_PAGE_PRIVATE;
}

/* The pass in which the younger page of a pair comes. */
static uint64_t second_comes(uint64_t pair)
{
	return pair / WAITS + pair % WAITS;
}

static void write_pages(struct host *host, uint64_t pass)
{
	for (uint64_t i = 0; i < PAIRS; i++) {
		if (i / WAITS == pass)
			write_page(host, i, 1 + i);
		if (second_comes(i) == pass)
			write_page(host, PAIRS + i, 1 + i);
	}
	for (uint64_t i = 2 * PAIRS; pass == 0 && i < NPAGES; i++)
		write_page(host, i, 1 + i);
}

/* A whole pass. */
static int pass(struct host *host)
{
	const struct pdd_budget budget = { .pages = UINT64_MAX };
	int step;

	if (host->is_ksm) {
		while (!ksm_scan_step(&host->ksm, NPAGES))
			;
		return 0;
	}
	while ((step = pdd_scanner_step(&host->scanner, &host->worker, &budget)) == PDD_STEP_MORE)
		;
	return step == PDD_STEP_PASS ? 0 : -1;
}

static int run_pairs(struct host *host, struct row *row)
{
	for (uint64_t n = 0; n < PASSES; n++) {
		write_pages(host, n);
		if (pass(host))
			return -1;
		for (uint64_t i = 0; i < PAIRS; i++)
			if (host->merged_at[i] == NEVER && host->kinds[i] == PDD_PAGE_SHARED &&
			    host->frames[i] == host->frames[PAIRS + i])
				host->merged_at[i] = n;
	}
	for (uint64_t i = 0; i < PAIRS; i++) {
		uint64_t wait = host->merged_at[i] - (second_comes(i) + 1);

		if (host->merged_at[i] == NEVER)
			continue;
		row->merged++;
		if (wait > row->worst_wait)
			row->worst_wait = wait;
	}
	return 0;
}

static uint64_t looks(const struct host *host)
{
	struct pdd_counts counts = { 0 };

	if (host->is_ksm)
		return host->ksm.counters.looks;
	pdd_space_counts(&host->space, &counts);
	return counts.pages_scanned;
}

static int count_looks(struct host *host, struct row *row)
{
	uint64_t before = looks(host), last = before, peak = 0;

	for (unsigned n = 0; n < WINDOW; n++) {
		uint64_t now;

		if (pass(host))
			return -1;
		now = looks(host);
		peak = now - last > peak ? now - last : peak;
		last = now;
	}
	row->looks_per_pass = (double)(last - before) / WINDOW;
	row->peak_over_mean = (double)peak / row->looks_per_pass;
	return 0;
}

static int run(const struct scenario *s, struct row *row)
{
	struct host *host = calloc(1, sizeof(*host));
	int err = host ? build(host, s) : -1;

	if (!err)
		err = run_pairs(host, row) || count_looks(host, row) || tear_down(host);
	free(host);
	return err;
}

/* ---- rows ---- */

static bool is_kept(const struct scenario *s, const struct row *row)
{
	return row->merged >= s->least && row->merged <= s->most &&
	       row->worst_wait <= s->worst_wait && row->looks_per_pass <= s->looks_per_pass &&
	       row->peak_over_mean <= s->peak_over_mean;
}

static void print_head(void)
{
	printf("%-10s %-9s %10s %6s %7s %11s %11s %10s\n", "policy", "index", "max period", "pairs",
	       "merged", "worst wait", "looks/pass", "peak/mean");
}

static void print(const struct scenario *s, const struct row *row, bool json)
{
	printf(json ?
		"{\"bench\": \"alignment\", \"policy\": \"%s\", \"index\": \"%s\", "
		"\"max_period\": %" PRIu32 ", \"pairs\": %u, \"merged\": %" PRIu64 ", "
		"\"worst_wait_passes\": %" PRIu64 ", \"looks_per_pass\": %.2f, "
		"\"peak_over_mean\": %.3f}\n" :
		"%-10s %-9s %10" PRIu32 " %6u %7" PRIu64 " %11" PRIu64 " %11.2f %10.3f\n",
	       s->policy, s->index, s->max_period, PAIRS, row->merged, row->worst_wait,
	       row->looks_per_pass, row->peak_over_mean);
}

int main(int argc, char **argv)
{
	uint64_t json = 0;
	const struct measure_option known = { .name = "json", .value = &json };
	int result = 0;

	measure_options(argc, argv, &known, 1);
	if (!json)
		print_head();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		const struct scenario *s = &scenarios[i];
		struct row row = { 0 };

		if (run(s, &row)) {
			fprintf(stderr, "bench_alignment: %s, %s: failed\n", s->policy, s->index);
			return 1;
		}
		print(s, &row, json);
		if (!is_kept(s, &row)) {
			fprintf(stderr, "bench_alignment: %s, %s: not what it promises\n",
				s->policy, s->index);
			result = 1;
		}
	}
	return fflush(stdout) ? 1 : result;
}
