/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_sparse [--json]: a pass over, and the unmerging of, very large spaces with little in them.
 *
 * In 2025 KSM took nine minutes to scan and unmerge 32 TiB of address space with one page in it,
 * and less than five seconds after it learned to skip holes. Here the hook calls show what it
 * costs: they depend on the pages that are there, not on what lies between them.
 *
 * Times are medians of five worlds. "scan" is the first pass, in which all extents of items are
 * asked for (their memory is at hand and was touched, so that page faults are not measured);
 * "unmerge" comes after three passes, when all pages share. Exit status 1 if anything is not merged
 * or unmerged as it should be.
 *
 * The embedder is a list of pages in order, in which hooks find theirs by bisection.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/scanner.h>

#include "support/measure.h"

#define PAGE_SHIFT 12u
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define NROOTS 1024u
#define ROUNDS 5u

/* Islands of one page each; a page of the same content stands in a small space of its own. */
struct scenario {
	unsigned bits; /* log2 of the bytes of the space */
	uint64_t npages;
};

static const struct scenario scenarios[] = {
	{ 30, 1 }, { 40, 1 }, { 45, 1 }, { 46, 1 }, { 45, 1000 }, { 45, 10000 },
};

struct host_frame {
	struct pdd_frame frame;
	unsigned char bytes[PAGE_BYTES];
};

/* A page that is there. */
struct host_page {
	uint64_t number;
	bool shared;
	unsigned char *bytes; /* what it shows, too */
};

struct host_region {
	struct pdd_region region;
	struct host_page *pages; /* in order */
	uint64_t npages;
};

struct host {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[NROOTS];
	struct pdd_space spaces[2];
	struct host_region small, large;
	struct host_page partner;
	unsigned char bytes[PAGE_BYTES]; /* of all pages */
	struct pdd_extent_block *blocks; /* one for each island */
	uint64_t nblocks;                /* that were given out */
	uint64_t ncalls;
};

struct row {
	double scan_ms, unmerge_ms;
	uint64_t scan_calls, unmerge_calls, metadata_bytes;
};

/* ---- hooks ---- */

static void called(void *ctx)
{
	((struct host *)ctx)->ncalls++;
}

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	called(ctx);
	return true;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	called(ctx);
}

/* The first page from a number on; may be behind the last. */
static struct host_page *find(struct pdd_region *region, uint64_t number)
{
	const struct host_region *r = (struct host_region *)(void *)region; /* the first member */
	uint64_t low = 0, high = r->npages;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (r->pages[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return r->pages + low;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	const struct host_region *r = (struct host_region *)(void *)region;
	const struct host_page *page = find(region, first), *end = r->pages + r->npages;
	uint64_t at = first;
	uint32_t n = 0;

	called(ctx);
	while (n < nviews && at < first + npages) {
		struct pdd_view *view = &views[n++];

		*view = (struct pdd_view){ .npages = 1 };
		if (page == end || page->number > at) {
			view->npages = (page == end ? pdd_region_pages(region) : page->number) - at;
		} else {
			view->kind = page->shared ? PDD_PAGE_SHARED : PDD_PAGE_PRIVATE;
			view->content = page->shared ? NULL : page->bytes;
			page++;
		}
		at += view->npages;
	}
	return (int)n;
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	called(ctx);
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	called(ctx);
	views[0] = (struct pdd_view){
		.content = find(region, first)->bytes, .npages = 1, .kind = PDD_PAGE_PRIVATE,
	};
	return 1;
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	called(ctx);
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct host_frame *frame = calloc(1, sizeof(*frame));

	called(ctx);
	if (!frame)
		return 0;
	memcpy(frame->bytes, wishes[0].content, PAGE_BYTES);
	frames[0] = &frame->frame;
	return 1;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	called(ctx);
	find(region, first)->shared = true;
	return 1;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	called(ctx);
	find(region, first)->shared = false;
	return 1;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	called(ctx);
	return ((struct host_frame *)(void *)frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	called(ctx);
	free(frame);
}

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *region, uint64_t number)
{
	struct host *host = ctx;

	called(ctx);
	return &host->blocks[host->nblocks++];
}

static void extent_put(void *ctx, struct pdd_region *region, uint64_t number,
		       struct pdd_extent_block *block)
{
	called(ctx);
}

static const struct pdd_ops ops = {
	.size = sizeof(ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = pages_put,
	.hold = hold,
	.release = release,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.extent_get = extent_get,
	.extent_put = extent_put,
};

/* ---- the world ---- */

static int allocate(struct host *host, uint64_t npages)
{
	size_t size = (npages + 1) * sizeof(*host->blocks);
	volatile unsigned char *touch;

	host->large.npages = npages;
	host->large.pages = calloc(npages, sizeof(*host->large.pages));
	host->blocks = calloc(npages + 1, sizeof(*host->blocks));
	if (!host->large.pages || !host->blocks)
		return -1;
	touch = (volatile unsigned char *)host->blocks;
	for (size_t i = 0; i < size; i += PAGE_BYTES)
		touch[i] = 0;
	return 0;
}

static int build(struct host *host, const struct scenario *s)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3 };
	const struct pdd_scanner_options options = {
		.size = sizeof(options), .page_shift = PAGE_SHIFT, .roots = host->roots,
		.nroots = NROOTS, .secret = secret, .secret_len = sizeof(secret),
	};
	uint64_t region_pages = UINT64_C(1) << (s->bits - PAGE_SHIFT);

	for (unsigned i = 0; i < PAGE_BYTES; i++)
		host->bytes[i] = (unsigned char)(i * i);
	host->partner.bytes = host->bytes;
	host->small = (struct host_region){ .pages = &host->partner, .npages = 1 };
	if (allocate(host, s->npages))
		return -1;
	for (uint64_t i = 0; i < s->npages; i++) {
		host->large.pages[i].number = region_pages / (s->npages + 1) * (i + 1);
		host->large.pages[i].bytes = host->bytes;
	}
	return pdd_scanner_init(&host->scanner, &ops, host, &options) ||
	       pdd_space_add(&host->scanner, &host->spaces[0], 0) ||
	       pdd_space_add(&host->scanner, &host->spaces[1], 0) ||
	       pdd_region_add(&host->spaces[0], &host->small.region, 0, 1, NULL, NULL) ||
	       pdd_region_add(&host->spaces[1], &host->large.region, 0, region_pages, NULL, NULL);
}

static int tear_down(struct host *host)
{
	return pdd_region_remove(&host->small.region) || pdd_region_remove(&host->large.region) ||
	       pdd_space_remove(&host->spaces[0]) || pdd_space_remove(&host->spaces[1]);
}

static int pass(struct host *host)
{
	const struct pdd_budget budget = { .pages = UINT64_MAX };

	return pdd_scanner_step(&host->scanner, &host->worker, &budget) != PDD_STEP_PASS;
}

static uint64_t merged(const struct host *host)
{
	struct pdd_counts counts = { 0 };

	pdd_space_counts(&host->spaces[1], &counts);
	return counts.ksm_merging_pages;
}

static int measure(struct host *host, const struct scenario *s, struct row *row)
{
	struct pdd_stats stats = { .size = sizeof(stats) };
	double begin = measure_wall_ns();

	host->ncalls = 0;
	if (pass(host))
		return -1;
	row->scan_ms = (measure_wall_ns() - begin) * 1e-6;
	row->scan_calls = host->ncalls;
	/* The last page of a frame that would be alone may be left over. */
	if (pass(host) || pass(host) || merged(host) + 1 < s->npages + (s->npages == 1) ||
	    pdd_scanner_stats(&host->scanner, &stats))
		return -1;
	row->metadata_bytes = stats.metadata_bytes;
	host->ncalls = 0;
	begin = measure_wall_ns();
	if (pdd_space_unmerge(&host->spaces[1], UINT64_MAX) + 1 < (int64_t)s->npages)
		return -1;
	row->unmerge_ms = (measure_wall_ns() - begin) * 1e-6;
	row->unmerge_calls = host->ncalls;
	return merged(host) ? -1 : 0;
}

static int run(const struct scenario *s, struct row *row)
{
	struct host *host = calloc(1, sizeof(*host));
	int err = host ? build(host, s) : -1;

	if (!err)
		err = measure(host, s, row) || tear_down(host);
	if (host) {
		free(host->large.pages);
		free(host->blocks);
	}
	free(host);
	return err;
}

/* ---- rows ---- */

/* One row of all rounds: median times; the rest is the same in each. */
static int run_all(const struct scenario *s, struct row *row)
{
	struct samples scan_ms = { .n = 0 }, unmerge_ms = { .n = 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (run(s, row))
			return -1;
		samples_add(&scan_ms, row->scan_ms);
		samples_add(&unmerge_ms, row->unmerge_ms);
	}
	row->scan_ms = samples_median(&scan_ms);
	row->unmerge_ms = samples_median(&unmerge_ms);
	return 0;
}

static void print_head(void)
{
	printf("%-8s %8s %10s %11s %11s %14s %12s\n", "bytes", "pages", "scan ms", "unmerge ms",
	       "scan calls", "unmerge calls", "metadata");
}

static void print(const struct scenario *s, const struct row *row, bool json)
{
	if (json)
		printf("{\"bench\": \"sparse\", \"bytes\": %" PRIu64 ", \"present_pages\": %" PRIu64
		       ", \"scan_ms\": %.4f, \"unmerge_ms\": %.4f, \"hook_calls_scan\": %" PRIu64
		       ", \"hook_calls_unmerge\": %" PRIu64 ", \"metadata_bytes\": %" PRIu64 "}\n",
		       UINT64_C(1) << s->bits, s->npages, row->scan_ms, row->unmerge_ms,
		       row->scan_calls, row->unmerge_calls, row->metadata_bytes);
	else
		printf("2^%-6u %8" PRIu64 " %10.4f %11.4f %11" PRIu64 " %14" PRIu64 " %12" PRIu64
		       "\n", s->bits, s->npages, row->scan_ms, row->unmerge_ms, row->scan_calls,
		       row->unmerge_calls, row->metadata_bytes);
}

int main(int argc, char **argv)
{
	uint64_t json = 0;
	const struct measure_option known = { .name = "json", .value = &json };

	measure_options(argc, argv, &known, 1);
	if (!json)
		print_head();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		struct row row = { 0 };

		if (run_all(&scenarios[i], &row)) {
			fprintf(stderr, "bench_sparse: 2^%u bytes, %" PRIu64 " pages: failed\n",
				scenarios[i].bits, scenarios[i].npages);
			return 1;
		}
		print(&scenarios[i], &row, json);
	}
	return fflush(stdout) ? 1 : 0;
}
