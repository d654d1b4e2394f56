/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_known_bugs_sparse.c - known bugs 18 and 19: scanning and unmerging a mapping of 32 TiB
 * with one page in it took minutes, as they went page by page. Here a region of 2^45 bytes, 2^33
 * pages, costs what is present in it: hooks are counted.
 *
 * The embedder of this file has a directory of the pages that are there, and looks ahead in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define PAGE_SIZE 4096u
#define NPAGES (UINT64_C(1) << 33)
#define PRESENT_MAX 2048u

struct frame {
	struct pdd_frame frame;
	unsigned char bytes[PAGE_SIZE];
};

struct page {
	uint64_t number;
	struct frame *frame; /* that it shows, or NULL */
	unsigned char *bytes;
};

static struct {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct pdd_rbroot roots[64];
	struct pdd_space space;
	struct pdd_region region;
	struct page pages[PRESENT_MAX]; /* by number */
	uint64_t npresent;
	uint64_t calls; /* of all hooks */
	uint64_t gets, unmaps, discards;
	int64_t extents, frames; /* that are out */
} w;

/* The place in the directory of the first page from this number on. */
static uint64_t find(uint64_t number)
{
	uint64_t low = 0, high = w.npresent;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (w.pages[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct page *page_at(uint64_t number)
{
	struct page *page = &w.pages[find(number)];

	assert_int_equal(page->number, number);
	return page;
}

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	w.calls++;
	return true;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	w.calls++;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	uint64_t at = first, end = first + npages;
	uint32_t n = 0;

	w.calls++;
	w.gets++;
	for (uint64_t i = find(first); n < nviews && at < end; n++) {
		uint64_t next = i < w.npresent ? w.pages[i].number : pdd_region_pages(region);

		views[n] = (struct pdd_view){ .npages = 1, .kind = PDD_PAGE_PRIVATE };
		if (next > at) { /* a hole, which may reach far beyond the range */
			views[n].kind = PDD_PAGE_ABSENT;
			views[n].npages = next - at;
		} else if (w.pages[i].frame) {
			views[n].kind = PDD_PAGE_SHARED;
			i++;
		} else {
			views[n].content = w.pages[i++].bytes;
		}
		at += views[n].npages;
	}
	return (int)n;
}

static void nothing(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	w.calls++;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t nframes, uint32_t domain)
{
	w.calls++;
	for (uint32_t i = 0; i < nframes; i++) {
		struct frame *frame = malloc(sizeof(*frame));

		memcpy(frame->bytes, wishes[i].content, PAGE_SIZE);
		frames[i] = &frame->frame;
		w.frames++;
	}
	return (int)nframes;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	w.calls++;
	for (uint64_t i = 0; i < npages; i++)
		page_at(first + i)->frame = (struct frame *)(void *)frames[i];
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	w.calls++;
	w.unmaps++;
	for (uint64_t i = find(first); i < find(first + npages); i++)
		w.pages[i].frame = NULL; /* its bytes are the same still */
	return (int)npages;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	w.calls++;
	return ((struct frame *)(void *)frame)->bytes;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	w.calls++;
	w.frames--;
	free(frame);
}

static int64_t pages_discard(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	uint64_t from = find(first), end = find(first + npages);

	w.calls++;
	w.discards++;
	for (uint64_t i = from; i < end; i++)
		free(w.pages[i].bytes);
	memmove(&w.pages[from], &w.pages[end], (w.npresent - end) * sizeof(w.pages[0]));
	w.npresent -= end - from;
	return (int64_t)npages;
}

static struct pdd_extent_block *extent_get(void *ctx, struct pdd_region *region, uint64_t number)
{
	w.calls++;
	w.extents++;
	return calloc(1, sizeof(struct pdd_extent_block));
}

static void extent_put(void *ctx, struct pdd_region *region, uint64_t number,
		       struct pdd_extent_block *block)
{
	w.calls++;
	w.extents--;
	free(block);
}

static const struct pdd_ops ops = {
	.size = sizeof(ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = nothing,
	.hold = pages_get, /* one thread: nobody writes */
	.release = nothing,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.pages_discard = pages_discard,
	.extent_get = extent_get,
	.extent_put = extent_put,
};

/* Put a page of this content there, where nothing was. */
static void write_page(uint64_t number, uint64_t content)
{
	uint64_t at = find(number), *words = malloc(PAGE_SIZE);

	assert_in_range(w.npresent, 0, PRESENT_MAX - 1);
	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*words); i++)
		words[i] = content * (i + 1);
	memmove(&w.pages[at + 1], &w.pages[at], (w.npresent - at) * sizeof(w.pages[0]));
	w.pages[at] = (struct page){ .number = number, .bytes = (unsigned char *)words };
	w.npresent++;
}

static struct pdd_stats stats_now(void)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	assert_int_equal(pdd_scanner_stats(&w.scanner, &stats), 0);
	return stats;
}

static void begin(uint64_t npages, uint64_t first_page)
{
	unsigned char secret[PDD_SECRET_LEN_MAX] = { 1, 2, 3 };
	struct pdd_scanner_options options = {
		.size = sizeof(options), .roots = w.roots, .nroots = 64,
		.secret = secret, .secret_len = sizeof(secret),
	};

	memset(&w, 0, sizeof(w));
	assert_int_equal(pdd_scanner_init(&w.scanner, &ops, NULL, &options), 0);
	assert_int_equal(pdd_space_add(&w.scanner, &w.space, 0), 0);
	assert_int_equal(pdd_region_add(&w.space, &w.region, first_page, npages, NULL, NULL), 0);
}

/* The extents in which something is present. */
static uint64_t extents_present(void)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < w.npresent; i++)
		n += i == 0 || w.pages[i].number / PDD_EXTENT_PAGES !=
				       w.pages[i - 1].number / PDD_EXTENT_PAGES;
	return n;
}

/* One pass, with a budget that goes by what is present, and the calls that it may cost: for each
 * such extent one visit to look at it and one for the hole behind it, and some for each page. */
static void pass(void)
{
	uint64_t extents = extents_present(), calls = w.calls, gets = w.gets;
	struct pdd_budget budget = { .pages = (2 * extents + 1) * PDD_EXTENT_PAGES };
	const char *why = "";

	assert_int_equal(pdd_scanner_step(&w.scanner, &w.worker, &budget), PDD_STEP_PASS);
	assert_in_range(w.gets - gets, 1, 2 * extents + 1 + 2 * w.npresent);
	assert_in_range(w.calls - calls, 1, 6 * (2 * extents + 1) + 12 * w.npresent);
	if (pdd_scanner_check(&w.scanner, &why))
		fail_msg("%s", why);
	assert_int_equal(w.extents, extents);
	assert_int_equal(stats_now().counts.ksm_rmap_items, w.npresent);
	assert_int_equal(stats_now().counts.pages, pdd_region_pages(&w.region));
}

/* Everything goes: once for what is there, and at no cost where nothing is. */
static void end(void)
{
	uint64_t calls;

	assert_true(pdd_region_unmerge(&w.region, 0, pdd_region_pages(&w.region), UINT64_MAX) >= 0);
	w.discards = 0;
	assert_int_equal(pdd_region_discard(&w.region, 0, pdd_region_pages(&w.region)), 0);
	assert_int_equal(w.discards, 1);
	assert_int_equal(w.npresent + (uint64_t)w.extents + (uint64_t)w.frames, 0);
	calls = w.calls;
	assert_int_equal(pdd_region_remove(&w.region), 0);
	assert_int_equal(pdd_space_remove(&w.space), 0);
	assert_int_equal(w.calls, calls);
}

static enum pdd_reason reason_of(uint64_t page)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_explain(&w.region, page, &explanation), 0);
	return explanation.reason;
}

/* ---- the tests ---- */

/* Known bug 18. */
static void test_18_one_page(void **unused)
{
	static const uint64_t places[] = {
		0, 1, 511, 512, NPAGES / 2 + 7, NPAGES - 513, NPAGES - 512, NPAGES - 1,
	};

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		begin(NPAGES, 0);
		pass(); /* nothing is there: lock, get, put, unlock */
		assert_int_equal(w.calls, 4);
		write_page(places[i], 1);
		for (unsigned n = 0; n < 5; n++)
			pass();
		assert_int_equal(reason_of(places[i]), PDD_REASON_UNIQUE);
		assert_int_equal(reason_of(places[i] ^ (UINT64_C(1) << 30)), PDD_REASON_NO_RECORD);
		assert_int_equal(stats_now().counts.reasons[PDD_REASON_NO_RECORD],
				 NPAGES - PDD_EXTENT_PAGES);
		end();
	}
}

/* Islands in the middle, across the ends of extents, and at the very ends; pages of one merge with
 * those of others. */
static void write_islands(void)
{
	static const uint64_t islands[][2] = {
		{ 0, 3 }, { 509, 6 }, { 1 << 20, 40 }, { (UINT64_C(1) << 32) - 2, 5 },
		{ NPAGES - 600, 2 }, { NPAGES - 3, 3 },
	};

	for (unsigned i = 0; i < sizeof(islands) / sizeof(islands[0]); i++)
		for (uint64_t page = 0; page < islands[i][1]; page++)
			write_page(islands[i][0] + page, 1 + page % 2);
}

static void test_18_islands(void **unused)
{
	begin(NPAGES, 0);
	write_islands();
	for (unsigned n = 0; n < 70; n++)
		pass();
	assert_int_equal(stats_now().counts.ksm_merging_pages, w.npresent);
	assert_int_equal(stats_now().pages_shared, 2);
	assert_in_range(stats_now().metadata_bytes, 1,
			8 * (sizeof(struct pdd_extent_block) + 128) + 1024);
	assert_int_equal(pdd_region_resize(&w.region, NPAGES - 300), 0); /* the last one goes */
	w.npresent -= 3;
	for (unsigned n = 0; n < 3; n++)
		free(w.pages[w.npresent + n].bytes);
	pass();
	end();
}

/* Pages come and go anywhere, one by one and in clusters. */
static void test_18_pages_come_and_go(void **unused)
{
	uint64_t random = sim_seed();

	begin(NPAGES, 0);
	for (unsigned round = 0; round < 150; round++) {
		uint64_t at = sim_random_of(&random) % (NPAGES - 8);

		if (round % 3 == 0 && w.npresent)
			at = w.pages[at % w.npresent].number;
		assert_int_equal(pdd_region_discard(&w.region, at, 8), 0);
		for (unsigned i = 0; i < 8; i += 1 + round % 3)
			write_page(at + i, 1 + i % 3);
		if (round % 7 == 6)
			assert_int_equal(pdd_region_discard(&w.region, at & ~(uint64_t)0x7fffffff,
							    UINT64_C(1) << 31),
					 0);
		pass();
		if (round % 5 == 4) { /* some vanish, and nobody tells */
			(void)pages_discard(NULL, &w.region, w.pages[w.npresent / 2].number, 512);
			pass();
		}
	}
	end();
}

/* Known bug 19: unmerging calls a hook once for each run of merged pages, and none where there are
 * none, at once as in pieces. */
static void test_19_unmerge(void **unused)
{
	for (uint64_t budget = 1; budget; budget = budget > NPAGES ? 0 : budget * 4096) {
		uint64_t merged, done = 0, calls;
		int64_t n;

		begin(NPAGES, 0);
		write_islands();
		for (unsigned i = 0; i < 3; i++)
			pass();
		merged = stats_now().counts.ksm_merging_pages;
		calls = w.calls;
		while ((n = pdd_region_unmerge(&w.region, 0, NPAGES, budget)) > 0)
			done += (uint64_t)n;
		assert_int_equal(n, 0);
		assert_int_equal(done, merged);
		/* Six islands, two of which are in two extents each. */
		assert_int_equal(w.unmaps, budget == 1 ? merged : 8);
		assert_in_range(w.calls - calls, 1, w.unmaps + 3 * merged);
		calls = w.calls;
		assert_int_equal(pdd_region_unmerge(&w.region, 0, NPAGES, budget), 0);
		assert_int_equal(pdd_space_unmerge(&w.space, budget), 0);
		assert_int_equal(w.calls, calls);
		end();
	}
}

static bool tell(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	uint64_t *sum = ctx, address = (pdd_region_first_page(region) + page) * PAGE_SIZE;

	assert_in_range(page, PDD_REGION_PAGES_MAX - 2, PDD_REGION_PAGES_MAX - 1);
	assert_in_range(address, UINT64_MAX - 2 * PAGE_SIZE + 1, UINT64_MAX - PAGE_SIZE + 1);
	*sum += page;
	return true;
}

/* Known bug 12, for the highest page number that an item has room for, and the highest address. */
static void test_12_highest_page(void **unused)
{
	struct pdd_rmap_room room[4];
	uint64_t sum = 0;

	begin(PDD_REGION_PAGES_MAX, (UINT64_C(1) << 52) - PDD_REGION_PAGES_MAX);
	for (uint64_t i = 1; i <= 2; i++)
		write_page(PDD_REGION_PAGES_MAX - i, 1);
	for (unsigned n = 0; n < 150; n++)
		pass();
	assert_int_equal(pdd_rmap_walk(&w.scanner, NULL, &w.pages[0].frame->frame, room, 4, tell,
				       &sum),
			 0);
	assert_int_equal(sum, 2 * PDD_REGION_PAGES_MAX - 3);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_18_one_page),
		cmocka_unit_test(test_18_islands),
		cmocka_unit_test(test_18_pages_come_and_go),
		cmocka_unit_test(test_19_unmerge),
		cmocka_unit_test(test_12_highest_page),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
