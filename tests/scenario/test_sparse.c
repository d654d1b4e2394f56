/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_sparse.c - ksm-behaviour 3.5 row 2, known bugs 18 and 19: a space of 2^45 bytes (32 TiB)
 * with one page in it. KSM scanned and unmerged it page by page, for nine minutes. Here both cost
 * what is there: a constant number of hook calls for each island of pages, whatever lies between
 * them, and one extent of items. So each takes microseconds; bench_sparse tells how many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <pagededup/scanner.h>

#define PAGE_BYTES 4096u
#define REGION_PAGES (UINT64_C(1) << (45 - 12))
#define NROOTS 64u

enum call {
	TRYLOCK,
	UNLOCK,
	PAGES_GET,
	PAGES_PUT,
	HOLD,
	RELEASE,
	FRAMES_CREATE,
	FRAMES_MAP,
	FRAMES_UNMAP,
	ZERO_MAP,
	FRAME_CONTENT,
	FRAME_FREE,
	EXTENT_GET,
	EXTENT_PUT,
	CALLS,
};

struct frame {
	struct pdd_frame frame;
	unsigned char bytes[PAGE_BYTES];
};

/* A page that is there. */
struct page {
	unsigned char bytes[PAGE_BYTES]; /* also what it shows */
	uint64_t number;
	enum pdd_page_kind kind;
};

struct host {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[NROOTS];
	struct pdd_space space;
	struct pdd_region region;
	struct page *pages; /* in order */
	uint64_t npages;
	uint64_t calls[CALLS];
	uint64_t extents, frames; /* that there are */
};

/* ---- hooks ---- */

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	((struct host *)ctx)->calls[TRYLOCK]++;
	return true;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	((struct host *)ctx)->calls[UNLOCK]++;
}

/* The first page from a number on. */
static struct page *find(const struct host *host, uint64_t number)
{
	uint64_t low = 0, high = host->npages;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (host->pages[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return &host->pages[low];
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	struct host *host = ctx;
	const struct page *page = find(host, first), *end = host->pages + host->npages;
	uint64_t at = first;
	uint32_t n = 0;

	host->calls[PAGES_GET]++;
	while (n < nviews && at < first + npages) {
		struct pdd_view *view = &views[n++];

		*view = (struct pdd_view){ .npages = 1 };
		if (page == end || page->number > at) { /* up to the next one */
			view->npages = (page == end ? pdd_region_pages(region) : page->number) - at;
		} else {
			view->kind = (uint8_t)page->kind;
			view->content = page->kind == PDD_PAGE_PRIVATE ? page->bytes : NULL;
			page++;
		}
		at += view->npages;
	}
	return (int)n;
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	((struct host *)ctx)->calls[PAGES_PUT]++;
}

/* All islands are single pages, so that the library asks for one at a time. */
static struct page *at(void *ctx, enum call call, uint64_t first, uint64_t npages)
{
	struct host *host = ctx;
	struct page *page = find(host, first);

	host->calls[call]++;
	assert_int_equal(page->number, first);
	assert_int_equal(npages, 1);
	return page;
}

static int hold(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		uint64_t first, uint64_t npages)
{
	views[0] = (struct pdd_view){
		.content = at(ctx, HOLD, first, npages)->bytes,
		.npages = 1,
		.kind = PDD_PAGE_PRIVATE,
	};
	return 1;
}

static void release(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	((struct host *)ctx)->calls[RELEASE]++;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	struct frame *frame = calloc(1, sizeof(*frame));

	((struct host *)ctx)->calls[FRAMES_CREATE]++;
	((struct host *)ctx)->frames++;
	memcpy(frame->bytes, wishes[0].content, PAGE_BYTES);
	frames[0] = &frame->frame;
	return 1;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	at(ctx, FRAMES_MAP, first, npages)->kind = PDD_PAGE_SHARED;
	return 1;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	at(ctx, FRAMES_UNMAP, first, npages)->kind = PDD_PAGE_PRIVATE;
	return 1;
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	at(ctx, ZERO_MAP, first, npages)->kind = PDD_PAGE_ZERO;
	return 1;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	((struct host *)ctx)->calls[FRAME_CONTENT]++;
	return ((struct frame *)(void *)frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	((struct host *)ctx)->calls[FRAME_FREE]++;
	((struct host *)ctx)->frames--;
	free(frame);
}

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *region, uint64_t number)
{
	struct host *host = ctx;

	host->calls[EXTENT_GET]++;
	host->extents++;
	return calloc(1, sizeof(struct pdd_extent_block));
}

static void extent_put(void *ctx, struct pdd_region *region, uint64_t number,
		       struct pdd_extent_block *block)
{
	struct host *host = ctx;

	host->calls[EXTENT_PUT]++;
	host->extents--;
	free(block);
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
	.zero_map = zero_map,
	.extent_get = extent_get,
	.extent_put = extent_put,
};

/* ---- the world ---- */

/* Pages filled with one byte, at about equal distances and at any place in their extent but the
 * last, behind which the hole would not begin in the same extent and cost one call more. */
static struct host *create(uint64_t region_pages, uint64_t npages, int byte)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1, 2, 3 };
	struct host *host = calloc(1, sizeof(*host));
	struct pdd_scanner_options options = {
		.size = sizeof(options),
		.roots = host->roots,
		.nroots = NROOTS,
		.secret = secret,
		.secret_len = sizeof(secret),
	};

	host->npages = npages;
	host->pages = calloc(npages + 1, sizeof(*host->pages));
	for (uint64_t i = 0; i < npages; i++) {
		host->pages[i].number = region_pages / (npages + 1) * (i + 1);
		host->pages[i].number -= host->pages[i].number % PDD_EXTENT_PAGES;
		host->pages[i].number += i % (PDD_EXTENT_PAGES - 1);
		host->pages[i].kind = PDD_PAGE_PRIVATE;
		memset(host->pages[i].bytes, byte, PAGE_BYTES);
	}
	assert_int_equal(pdd_scanner_init(&host->scanner, &ops, host, &options), 0);
	assert_int_equal(pdd_space_add(&host->scanner, &host->space, 0), 0);
	assert_int_equal(pdd_region_add(&host->space, &host->region, 0, region_pages, NULL, NULL),
			 0);
	return host;
}

static void destroy(struct host *host)
{
	assert_int_equal(pdd_scanner_check(&host->scanner, NULL), 0);
	assert_int_equal(pdd_region_remove(&host->region), 0);
	assert_int_equal(pdd_space_remove(&host->space), 0);
	assert_int_equal(host->extents, 0);
	assert_int_equal(host->frames, 0);
	free(host->pages);
	free(host);
}

static uint64_t all_calls(const struct host *host)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < CALLS; i++)
		n += host->calls[i];
	return n;
}

static void pass(struct host *host)
{
	struct pdd_budget budget = { .pages = UINT64_MAX };

	memset(host->calls, 0, sizeof(host->calls));
	assert_int_equal(pdd_scanner_step(&host->scanner, &host->worker, &budget), PDD_STEP_PASS);
}

static int64_t unmerge(struct host *host)
{
	memset(host->calls, 0, sizeof(host->calls));
	return pdd_space_unmerge(&host->space, UINT64_MAX);
}

static struct pdd_stats stats_of(const struct host *host)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	assert_int_equal(pdd_scanner_stats(&host->scanner, &stats), 0);
	return stats;
}

/* The row: one page in 2^45 bytes. A pass visits the hole before it, and it. */
static void test_row(void **unused)
{
	struct host *host = create(REGION_PAGES, 1, 0);

	for (unsigned n = 0; n < 10; n++) {
		pass(host);
		assert_int_equal(host->calls[PAGES_GET], 2);
		assert_int_equal(host->calls[EXTENT_GET], n == 0);
		/* in the second pass it is held and replaced */
		assert_int_equal(all_calls(host), 4 * 2 + (n == 0) + (n == 1 ? 2 : 0));
	}
	assert_int_equal(stats_of(host).counts.ksm_zero_pages, 1);
	assert_int_equal(stats_of(host).counts.pages_scanned, 2);
	assert_int_equal(stats_of(host).counts.pages, REGION_PAGES);
	assert_int_equal(stats_of(host).metadata_bytes,
			 sizeof(host->space) + sizeof(host->region) + sizeof(host->roots) +
				 sizeof(struct pdd_extent_block));
	assert_int_equal(unmerge(host), 1);
	assert_int_equal(all_calls(host), 1);
	assert_int_equal(unmerge(host), 0);
	assert_int_equal(all_calls(host), 0);
	destroy(host);
}

/* What a pass costs depends on what is there only: exactly the same in 2^32 bytes and in 2^46. */
static void test_passes(void **unused)
{
	static const uint64_t npages[] = { 0, 1, 2, 3, 100, 1000 };

	for (unsigned bits = 20; bits <= 34; bits += 7) {
		for (unsigned i = 0; i < sizeof(npages) / sizeof(npages[0]); i++) {
			uint64_t n = npages[i];
			struct host *host = create(UINT64_C(1) << bits, n, 7);

			pass(host);
			assert_int_equal(host->calls[PAGES_GET], n + 1);
			assert_int_equal(all_calls(host), 4 * (n + 1) + n);
			pass(host);
			assert_int_equal(host->calls[FRAMES_MAP], n > 1 ? n : 0);
			for (unsigned again = 0; again < 3; again++) {
				pass(host);
				assert_int_equal(all_calls(host), 4 * (n + 1));
			}
			assert_int_equal(host->extents, n);
			assert_int_equal(pdd_scanner_check(&host->scanner, NULL), 0);
			destroy(host);
		}
	}
}

/* Unmerging asks for the pages that are merged, and for nothing else. */
static void test_unmerges(void **unused)
{
	for (uint64_t n = 2; n <= 1026; n += 256) {
		struct host *host = create(REGION_PAGES, n, 7);
		uint64_t first, frames;

		pass(host);
		pass(host);
		first = host->pages[0].number;
		frames = host->frames;
		memset(host->calls, 0, sizeof(host->calls));
		assert_int_equal(pdd_region_unmerge(&host->region, 0, first, 1), 0);
		assert_int_equal(pdd_region_unmerge(&host->region, first + 1, 1000, 1), 0);
		assert_int_equal(all_calls(host), 0);
		assert_int_equal(unmerge(host), n);
		assert_int_equal(host->calls[FRAMES_UNMAP], n);
		assert_int_equal(host->calls[FRAME_FREE], frames);
		assert_int_equal(all_calls(host), n + frames);
		destroy(host);
	}
}

/* Pages go away: their extents go back at the next pass, and from then on passes are as short as if
 * they had never been there. */
static void test_pages_go(void **unused)
{
	struct host *host = create(REGION_PAGES, 1000, 7);

	for (unsigned n = 0; n < 3; n++)
		pass(host);
	host->npages = 0;
	pass(host);
	assert_int_equal(host->calls[EXTENT_PUT], 1000);
	assert_int_equal(host->extents, 0);
	pass(host);
	assert_int_equal(all_calls(host), 4);
	destroy(host);
}

/* Steps of few pages take an extent of them for each island, and one for each hole, at most. */
static void test_small_steps(void **unused)
{
	for (uint64_t budget = 1; budget <= 512; budget *= 8) {
		struct host *host = create(REGION_PAGES, 5, 7);
		uint64_t steps = 0;
		int result;

		do {
			result = pdd_scanner_step(&host->scanner, &host->worker,
						  &(struct pdd_budget){ .pages = budget });
			steps++;
		} while (result == PDD_STEP_MORE);
		assert_int_equal(result, PDD_STEP_PASS);
		assert_in_range(steps, 1, 6 * 2 * (PDD_EXTENT_PAGES / budget));
		assert_int_equal(stats_of(host).counts.pages_scanned, 5);
		destroy(host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row),
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_unmerges),
		cmocka_unit_test(test_pages_go),
		cmocka_unit_test(test_small_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
