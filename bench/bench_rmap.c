/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_rmap [--json]: who maps this frame, in objects that very many regions map.
 *
 * Cases are re-enactments of what was reported of KSM: a frame with one sharer in an object with
 * 22,169 regions, one with 256 sharers in an object with 20,000, and the same with clones, of which
 * some were scanned and some were not.
 *
 * Each is walked with pdd_rmap_walk() and with a model of the old algorithm (baseline/ksm_rmap.h).
 * Both have to find what the page tables say, the former each mapping once and without a visit in
 * vain; else the exit status is 1. Times are CPU time, medians of alternating rounds, with warm
 * caches.
 *
 * The pages are real enough: regions of one page, each at a page of its own of the object, looked
 * at and merged by passes through ordinary hooks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/scanner.h>

#include "baseline/ksm_rmap.h"
#include "support/measure.h"
#include "support/noop_hooks.h"

#define PAGE_SHIFT 6u
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define FIRST_PAGE UINT64_C(0x1000) /* of all regions, so that address and offset differ */
#define NROOTS 32768u
#define ROUNDS 7u
#define ROUND_NS 2e6

enum { PARENT, SCANNED, HIDDEN, SPACES };

/* A frame, as the embedder sees it. */
struct host_frame {
	struct pdd_frame frame;
	uint64_t nmapped;
	unsigned char bytes[PAGE_BYTES];
};

/* A region of one page, and its line of the page table. */
struct host_region {
	struct pdd_region region;
	struct pdd_extent extent;
	struct pdd_item item;
	struct ksm_vma vma;
	struct host_frame *frame; /* that it shows; NULL: memory of its own */
	bool cloned;              /* it shows it since it was cloned */
	unsigned found;           /* how often a walk told of it */
	unsigned char bytes[PAGE_BYTES];
};

struct host {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[NROOTS];
	struct pdd_space spaces[SPACES];
	struct pdd_object object;
	struct ksm_anon_vma anon_vma;
	struct host_region *regions;
	uint64_t nregions;
	struct ksm_rmap_item *items; /* the sharers */
	struct pdd_rmap_room room[PDD_MAX_PAGE_SHARING];
	const struct host_frame *walked;
	uint64_t nfound;
	bool wrong;
};

/* Regions of the parent first, of which the first `equal` have equal pages, then clones. */
struct scenario {
	const char *name;
	uint64_t regions; /* of the parent */
	uint64_t equal;
	bool written;     /* all equal pages but the first are, after the merge */
	uint64_t scanned; /* clones of the first equal pages, which a pass sees */
	uint64_t hidden;  /* clones of these and further equal pages, which no pass sees */
	uint64_t skipped; /* equal pages before the first hidden clone */
};

static const struct scenario scenarios[] = {
	{ .name = "one sharer", .regions = 22169, .equal = 2, .written = true },
	{ .name = "256 sharers", .regions = 20000, .equal = 256 },
	{ .name = "with clones", .regions = 20000, .equal = 200, .scanned = 56, .hidden = 100,
	  .skipped = 16 },
};

struct row {
	uint64_t sharers, hits, visits, full_visits, ns, full_ns;
};

/* ---- hooks ---- */

static struct host_region *host_region(struct pdd_region *region)
{
	return (struct host_region *)(void *)region; /* the first member */
}

static struct host_frame *host_frame(struct pdd_frame *frame)
{
	return (struct host_frame *)(void *)frame;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct host_region *r = host_region(region);

	views[0] = (struct pdd_view){ .npages = 1 };
	if (!r->frame) {
		views[0].kind = PDD_PAGE_PRIVATE;
		views[0].content = r->bytes;
	} else {
		views[0].kind = r->cloned ? PDD_PAGE_FRAME : PDD_PAGE_SHARED;
		views[0].frame = &r->frame->frame;
	}
	return 1;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct host_frame *frame = calloc(1, sizeof(*frame));

	if (!frame)
		return -1;
	memcpy(frame->bytes, wishes[0].content, PAGE_BYTES);
	frames[0] = &frame->frame;
	return 1;
}

static void show(struct host_region *r, struct host_frame *frame, bool cloned)
{
	if (r->frame)
		r->frame->nmapped--;
	if (frame)
		frame->nmapped++;
	r->frame = frame;
	r->cloned = cloned;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	show(host_region(region), host_frame(frames[0]), false);
	return 1;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct host_region *r = host_region(region);

	memcpy(r->bytes, r->frame->bytes, PAGE_BYTES);
	show(r, NULL, false);
	return 1;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	return host_frame(frame)->bytes;
}

static bool frame_is_mapped(void *ctx, struct pdd_frame *frame)
{
	return host_frame(frame)->nmapped > 0;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	free(frame);
}

static const struct pdd_ops ops = {
	.size = sizeof(ops),
	.space_trylock = noop_space_trylock,
	.space_unlock = noop_space_unlock,
	.pages_get = pages_get,
	.pages_put = noop_range,
	.hold = pages_get, /* nobody writes */
	.release = noop_range,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_is_mapped = frame_is_mapped,
	.frame_free = frame_free,
};

/* ---- building a scenario ---- */

static int passes(struct host *host, unsigned n)
{
	const struct pdd_budget budget = { .pages = UINT64_MAX };

	for (; n; n--) {
		int step;

		while ((step = pdd_scanner_step(&host->scanner, &host->worker, &budget)) ==
		       PDD_STEP_MORE)
			;
		if (step != PDD_STEP_PASS)
			return -1;
	}
	return 0;
}

/* Add the next region, at this page of the object and of its space. */
static int add_region(struct host *host, unsigned space, uint64_t page)
{
	struct host_region *r = &host->regions[host->nregions++];

	if (pdd_region_add(&host->spaces[space], &r->region, FIRST_PAGE + page, 1, &r->extent,
			   &r->item) ||
	    pdd_region_attach(&r->region, &host->object, page))
		return -1;
	r->vma.mm = &host->spaces[space];
	r->vma.first_page = FIRST_PAGE + page;
	r->vma.npages = 1;
	ksm_vma_link(&host->anon_vma, &r->vma, page);
	return 0;
}

/* Clone regions of equal pages, from the first one on. */
static int add_clones(struct host *host, unsigned space, uint64_t first, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct host_region *r = &host->regions[host->nregions];

		if (add_region(host, space, first + i))
			return -1;
		show(r, host->regions[first + i].frame, true);
	}
	return 0;
}

/* What the old algorithm knows of the sharers. */
static void know_sharer(struct host *host, struct ksm_rmap_item *item,
			const struct host_region *region)
{
	item->next = host->items;
	item->anon_vma = &host->anon_vma;
	item->mm = region->vma.mm;
	item->page = region->vma.first_page;
	host->items = item;
}

/* Make pages [from, to) of the parent differ from all others. */
static void write_pages(struct host *host, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		show(&host->regions[i], NULL, false);
		memcpy(host->regions[i].bytes, &(uint64_t){ i + 1 }, sizeof(i));
	}
}

static int build(struct host *host, const struct scenario *s, struct ksm_rmap_item *items)
{
	uint64_t sharers = s->written ? 1 : s->equal;

	for (unsigned i = 0; i < SPACES; i++)
		if (pdd_space_add(&host->scanner, &host->spaces[i], 0))
			return -1;
	for (uint64_t i = 0; i < s->regions; i++) {
		memset(host->regions[i].bytes, 0x5a, PAGE_BYTES - 1);
		if (add_region(host, PARENT, i))
			return -1;
	}
	write_pages(host, s->equal, s->regions);
	if (passes(host, 2))
		return -1;
	if (s->written)
		write_pages(host, 1, s->equal);
	if (add_clones(host, SCANNED, 0, s->scanned) || passes(host, 1) ||
	    add_clones(host, HIDDEN, s->skipped, s->hidden))
		return -1;
	for (uint64_t i = 0; i < sharers; i++)
		know_sharer(host, &items[i], &host->regions[i]);
	for (uint64_t i = 0; i < s->scanned; i++)
		know_sharer(host, &items[sharers + i], &host->regions[s->regions + i]);
	host->walked = host->regions[0].frame;
	return host->walked ? 0 : -1;
}

static int tear_down(struct host *host)
{
	/* Clones that no pass has seen are the embedder's to copy: the frame is kept for them. */
	for (uint64_t i = 0; i < host->nregions; i++)
		if (pdd_region_space(&host->regions[i].region) == &host->spaces[HIDDEN])
			frames_unmap(host, &host->regions[i].region, 0, 1);
	if (pdd_scanner_unmerge(&host->scanner, UINT64_MAX) < 0)
		return -1;
	for (uint64_t i = 0; i < host->nregions; i++)
		if (pdd_region_remove(&host->regions[i].region))
			return -1;
	return 0;
}

/* ---- the two walks ---- */

static bool count_found(void *ctx, enum pdd_mapping mapping, struct pdd_region *region,
			uint64_t page)
{
	struct host *host = ctx;

	host->nfound++;
	return true;
}

static bool count_found_full(void *ctx, struct ksm_vma *vma, uint64_t page)
{
	const struct host_region *r = (const struct host_region *)(const void *)
		((const char *)vma - offsetof(struct host_region, vma));
	struct host *host = ctx;

	host->nfound += r->frame == host->walked;
	return true;
}

/* Note what was found, and see that it is said of it what is right. */
static bool note_found(void *ctx, enum pdd_mapping mapping, struct pdd_region *region,
		       uint64_t page)
{
	struct host *host = ctx;
	struct host_region *r = host_region(region);
	bool hidden = pdd_region_space(region) == &host->spaces[HIDDEN];

	r->found++;
	host->wrong |= page != 0 || mapping != (hidden ? PDD_MAPPING_CLONE : PDD_MAPPING_SHARER);
	return true;
}

static bool note_found_full(void *ctx, struct ksm_vma *vma, uint64_t page)
{
	struct host_region *r = (struct host_region *)(void *)
		((char *)vma - offsetof(struct host_region, vma));
	struct host *host = ctx;

	if (r->frame != host->walked)
		return true;
	r->found = 1; /* it finds clones that were scanned several times */
	host->wrong |= page != vma->first_page;
	return true;
}

static void walk(struct host *host, struct pdd_rmap_result *result, size_t room, pdd_rmap_fn fn)
{
	struct pdd_frame *frame = &host->regions[0].frame->frame;

	if (pdd_rmap_walk(&host->scanner, result, frame, host->room, room, fn, host))
		host->wrong = true;
}

/* Whether each region that shows the frame was found, once, and no other. */
static bool found_all(struct host *host)
{
	bool right = !host->wrong;

	for (uint64_t i = 0; i < host->nregions; i++) {
		struct host_region *r = &host->regions[i];

		right &= r->found == (r->frame == host->walked);
		r->found = 0;
	}
	return right;
}

static int verify(struct host *host, struct row *row)
{
	static const size_t rooms[] = { 1, 7, PDD_MAX_PAGE_SHARING };
	struct pdd_rmap_result result;

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		walk(host, &result, rooms[i], note_found);
		if (!found_all(host) || result.stopped || result.visits != result.hits ||
		    result.hits != host->walked->nmapped) {
			fprintf(stderr, "bench_rmap: a walk in pieces of %zu is wrong\n", rooms[i]);
			return -1;
		}
	}
	row->hits = result.hits;
	row->visits = result.visits;
	row->full_visits = ksm_rmap_walk(host->items, note_found_full, host);
	if (!found_all(host)) {
		fprintf(stderr, "bench_rmap: the full walk found other mappings\n");
		return -1;
	}
	return 0;
}

/* ---- time ---- */

static void walk_once(struct host *host)
{
	walk(host, NULL, PDD_MAX_PAGE_SHARING, count_found);
}

static void walk_full_once(struct host *host)
{
	(void)ksm_rmap_walk(host->items, count_found_full, host);
}

/* As often as it takes to be measured well; nanoseconds for one. */
static double time_ns(struct host *host, void (*once)(struct host *host))
{
	for (uint64_t n = 1;; n *= 2) {
		double begin = measure_cpu_ns(), ns;

		for (uint64_t i = 0; i < n; i++)
			once(host);
		ns = measure_cpu_ns() - begin;
		if (ns >= ROUND_NS)
			return ns / (double)n;
	}
}

static void measure(struct host *host, struct row *row)
{
	struct samples ns = { .n = 0 }, full_ns = { .n = 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		samples_add(&ns, time_ns(host, walk_once));
		samples_add(&full_ns, time_ns(host, walk_full_once));
	}
	row->ns = (uint64_t)samples_median(&ns);
	row->full_ns = (uint64_t)samples_median(&full_ns);
}

/* ---- rows ---- */

static void print_head(void)
{
	printf("%-12s %8s %8s %6s %7s %12s %9s %13s\n", "case", "regions", "sharers", "hits",
	       "visits", "full visits", "ns", "full walk ns");
}

static void print(const struct host *host, const struct scenario *s, const struct row *row,
		  bool json)
{
	printf(json ?
		"{\"bench\": \"rmap\", \"case\": \"%s\", \"regions\": %" PRIu64 ", "
		"\"sharers\": %" PRIu64 ", \"hits\": %" PRIu64 ", \"visits\": %" PRIu64 ", "
		"\"full_walk_visits\": %" PRIu64 ", \"ns\": %" PRIu64 ", "
		"\"full_walk_ns\": %" PRIu64 "}\n" :
		"%-12s %8" PRIu64 " %8" PRIu64 " %6" PRIu64 " %7" PRIu64 " %12" PRIu64
		" %9" PRIu64 " %13" PRIu64 "\n",
	       s->name, host->nregions, row->sharers, row->hits, row->visits, row->full_visits,
	       row->ns, row->full_ns);
}

static int run(struct host *host, const struct scenario *s, bool json)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3 };
	const struct pdd_scanner_options options = {
		.size = sizeof(options), .page_shift = PAGE_SHIFT, .roots = host->roots,
		.nroots = NROOTS, .secret = secret, .secret_len = sizeof(secret),
	};
	struct ksm_rmap_item items[PDD_MAX_PAGE_SHARING];
	struct row row = { 0 };

	host->regions = calloc(s->regions + s->scanned + s->hidden, sizeof(*host->regions));
	if (!host->regions || pdd_scanner_init(&host->scanner, &ops, host, &options) ||
	    build(host, s, items)) {
		fprintf(stderr, "bench_rmap: %s: cannot be built\n", s->name);
		return -1;
	}
	row.sharers = pdd_frame_sharers(&host->walked->frame);
	if (verify(host, &row))
		return -1;
	measure(host, &row);
	print(host, s, &row, json);
	return tear_down(host);
}

int main(int argc, char **argv)
{
	uint64_t json = 0;
	const struct measure_option known = { .name = "json", .value = &json };

	measure_options(argc, argv, &known, 1);
	if (!json)
		print_head();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		struct host *host = calloc(1, sizeof(*host));
		int err = host ? run(host, &scenarios[i], json) : -1;

		if (host)
			free(host->regions);
		free(host);
		if (err)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
