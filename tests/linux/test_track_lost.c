/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track_lost.c - no write is missing from what pages_written tells, whatever else the adapter
 * does to the pages: holds, merges, zero pages, refiling, unmerging, discarding. Processors write,
 * the kernel's code too (pread). The counts in the pages come out exact as well.
 *
 * What can be checked while others write: all pages are read between two answers. If two answers in
 * a row do not tell of a page, nothing may have changed it from before the first to the second, so
 * what was read before the first and what was read between them must be the same bytes. (Save where
 * the adapter itself made the page zero, which the library knows without being told.)
 */
#define _GNU_SOURCE 1
#include "counters.h"

#include "linux/discard.h"
#include "linux/refile.h"

#define NPAGES 2048u
#define COUNTED 1536u /* the others are scribbled on, and discarded */
#define ROUNDS 80u
#define TURNS 3u /* things that are done between two looks */

static struct rig rig;
static struct pdd_frame *shown[NPAGES];
static struct {
	uint64_t told, not_told, checked, missing;
	uint64_t mapped, zeroed, released, refused, unmapped, refiled, discarded;
} did;

/* --- what was read --- */

struct page_read {
	uint64_t hash;        /* of what was read after the last answer */
	uint64_t hash_before; /* and after the one before it */
	bool told;            /* by the last answer */
	uint32_t nreads;      /* since the page was made zero */
};

static struct page_read reads[NPAGES];

/* Words are written only at multiples of 64 bytes here. */
#define STRIDE 64

/* Read while others write, which is what is tested. */
__attribute__((no_sanitize("thread"), noinline)) static uint64_t
hash_page(const unsigned char *page)
{
	uint64_t hash = 0;
	size_t i;

	for (i = 0; i < PAGE; i += STRIDE) {
		uint64_t word = *(const volatile uint64_t *)(const void *)(page + i);

		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	}
	return hash;
}

/* Ask, check, read. */
static void look(uint64_t first, uint64_t n)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)], i;

	rig_written(&rig, bits, first, n);
	for (i = 0; i < n; i++) {
		struct page_read *read = &reads[first + i];
		bool told = pddi_bit_test(bits, i);

		did.told += told;
		did.not_told += !told;
		if (!told && !read->told && read->nreads >= 2) {
			did.checked++;
			did.missing += read->hash != read->hash_before;
		}
		read->nreads++;
		read->told = told;
		read->hash_before = read->hash;
		read->hash = hash_page(pddi_memory_address(&rig.memory, first + i));
	}
}

/* --- who writes without counting --- */

static void *scribble(void *arg)
{
	struct counters *counters = arg;
	uint64_t seed = (uintptr_t)&seed | 1;

	while (!atomic_load_explicit(&counters->stop, memory_order_relaxed)) {
		uint64_t random = next_random(&seed);
		unsigned char *page = pddi_memory_address(
			&rig.memory, COUNTED + random % (NPAGES - COUNTED));
		uint64_t word = random >> 40 & 7 ? random : 0;

		*(volatile uint64_t *)(void *)(page + (random >> 20 & 63) * STRIDE) = word;
		usleep(20);
	}
	return NULL;
}

/* --- what the adapter does --- */

static void forget_frame(uint64_t page)
{
	if (shown[page])
		pddi_store_free(&rig.store, shown[page]);
	shown[page] = NULL;
}

/* Replace one held page if that can be. */
static void settle(const void *content, uint64_t page, struct pdd_frame **frame, bool release)
{
	if (release) {
		pddi_hold_release(&rig.hold, page, 1);
		did.released++;
	} else if (pddi_content_class(content, PAGE) == PDD_CLASS_ZERO) {
		assert_int_equal(rig_zero(&rig, page, 1), 1);
		forget_frame(page);
		reads[page].nreads = 0;
		did.zeroed++;
	} else if (pddi_content_equal(content, pddi_frame_content(&rig.store, *frame), PAGE)) {
		assert_int_equal(rig_map(&rig, page, frame, 1), 1);
		rig_show(&rig, shown, page, *frame);
		*frame = NULL;
		did.mapped++;
	} else {
		pddi_hold_release(&rig.hold, page, 1);
		did.released++;
	}
}

static void hold_some(uint64_t first, uint32_t n, uint64_t random)
{
	struct pdd_frame *frames[PDD_EXTENT_PAGES];
	struct pdd_view views[PDD_EXTENT_PAGES];
	int made = rig_create(&rig, frames, first, n), nviews, i;
	uint64_t page = first, k;

	assert_true(made > 0);
	nviews = rig_hold(&rig, views, PDD_EXTENT_PAGES, first, (uint64_t)made);
	assert_true(nviews > 0);
	for (i = 0; i < nviews; page += views[i++].npages) {
		const unsigned char *content = views[i].content;

		did.refused += views[i].kind == PDD_PAGE_PRIVATE ? 0 : views[i].npages;
		for (k = 0; views[i].kind == PDD_PAGE_PRIVATE && k < views[i].npages; k++)
			settle(content + k * PAGE, page + k, &frames[page + k - first],
			       random >> (page + k) % 61 & 1);
	}
	assert_null(rig.hold.memory);
	for (i = 0; i < made; i++)
		if (frames[i])
			pddi_store_free(&rig.store, frames[i]);
}

static void unmap_some(uint64_t first, uint64_t n)
{
	uint64_t i;

	assert_int_equal(pddi_frames_unmap(&rig.memory, first, n), n);
	for (i = 0; i < n; i++)
		forget_frame(first + i);
	did.unmapped += n;
}

static void refile_some(uint64_t first, uint32_t n)
{
	struct pdd_frame *frames[PDD_EXTENT_PAGES];
	int made = rig_create(&rig, frames, first, n), i;

	for (i = 0; i < made; i++) {
		struct pdd_frame *old = shown[first + (uint64_t)i];

		if (old && !memcmp(pddi_frame_content(&rig.store, old),
				   pddi_frame_content(&rig.store, frames[i]), PAGE) &&
		    pddi_frames_remap(&rig.hold, &rig.budget, &rig.store, &rig.memory,
				      first + (uint64_t)i, &frames[i], 1) == 1) {
			rig_show(&rig, shown, first + (uint64_t)i, frames[i]);
			did.refiled++;
		} else {
			pddi_store_free(&rig.store, frames[i]);
		}
	}
}

static void discard_some(uint64_t first, uint64_t n)
{
	int64_t done;

	for (; n; first += (uint64_t)done, n -= (uint64_t)done) {
		int64_t i;

		done = pddi_discard(&rig.budget, &rig.memory, first, n);
		assert_true(done > 0);
		for (i = 0; i < done; i++) {
			forget_frame(first + (uint64_t)i);
			reads[first + (uint64_t)i].nreads = 0;
		}
		did.discarded += (uint64_t)done;
	}
}

/* The next page that shows a frame; behind the last there is none. */
static uint64_t next_shown(uint64_t page)
{
	while (page < NPAGES && !shown[page])
		page++;
	return page;
}

static uint32_t within_extent(uint64_t first, uint32_t n)
{
	uint64_t room = PDD_EXTENT_PAGES - first % PDD_EXTENT_PAGES;

	return n < room ? n : (uint32_t)room;
}

static void do_something(uint64_t random)
{
	uint64_t first = random % NPAGES;
	uint32_t n = within_extent(first, 1 + (uint32_t)(random >> 32) % 24);

	switch (random >> 60) {
	case 0:
		unmap_some(first, n);
		break;
	case 1:
		first = next_shown(first);
		if (first < NPAGES)
			refile_some(first, within_extent(first, n));
		break;
	case 2:
		/* No page that is counted in: the counts would be gone. */
		first = COUNTED + first % (NPAGES - COUNTED);
		discard_some(first, within_extent(first, n));
		break;
	default:
		hold_some(first, n, next_random(&random));
		break;
	}
}

static void track_under_writers(uint32_t flags)
{
	static struct counters counters;
	uint64_t seed = test_seed(), wrong, writes, round, turn, page;
	pthread_t scribbler;

	rig_init(&rig, NPAGES, flags);
	rig.track.vector = 100;
	memset(shown, 0, sizeof(shown));
	memset(reads, 0, sizeof(reads));
	memset(&did, 0, sizeof(did));
	counters_start(&counters, rig.memory.start, COUNTED, 256, 20, seed);
	assert_int_equal(pthread_create(&scribbler, NULL, scribble, &counters), 0);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t random = next_random(&seed);

		if (random & 1)
			look(0, NPAGES);
		else
			look(random % NPAGES, 1 + (random >> 32) % (NPAGES - random % NPAGES));
		for (turn = 0; turn < TURNS; turn++)
			do_something(next_random(&seed));
	}
	wrong = counters_stop(&counters, &writes);
	pthread_join(scribbler, NULL);
	printf("%llu counts, %llu wrong; told %llu, not told %llu, of these checked %llu; missing "
	       "%llu\n",
	       (unsigned long long)writes, (unsigned long long)wrong,
	       (unsigned long long)did.told, (unsigned long long)did.not_told,
	       (unsigned long long)did.checked, (unsigned long long)did.missing);
	printf("pages mapped %llu, zeroed %llu, released %llu, refused %llu, unmapped %llu, "
	       "refiled %llu, discarded %llu\n",
	       (unsigned long long)did.mapped, (unsigned long long)did.zeroed,
	       (unsigned long long)did.released, (unsigned long long)did.refused,
	       (unsigned long long)did.unmapped, (unsigned long long)did.refiled,
	       (unsigned long long)did.discarded);
	assert_int_equal(wrong, 0);
	assert_int_equal(did.missing, 0);
	assert_true(did.told > 1000 && did.checked > 3000);
	assert_true(did.mapped && did.zeroed && did.released && did.unmapped && did.discarded);
	pddi_track_stop(&rig.probe, &rig.memory);
	for (page = 0; page < NPAGES; page++)
		forget_frame(page);
	rig_fini(&rig);
}

static void test_move(void **state)
{
	track_under_writers(PDD_LINUX_NO_DEVICE_WRITES);
	assert_true(did.refiled > 0);
}

static void test_move_without_protection(void **state)
{
	track_under_writers(0);
}

static void test_protection_only(void **state)
{
	track_under_writers(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_move_without_protection),
		cmocka_unit_test(test_protection_only),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
