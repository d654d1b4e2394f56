/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_refile.c - pages move from one frame to another of the same content (frames_remap), and no
 * write is lost for it: pages that were written keep their copy, whoever writes just then waits,
 * and counters in pages that are moved all the time come out exact. They do not if the page map is
 * not asked, which shows that the run would notice.
 */
#define _GNU_SOURCE 1
#include "counters.h"
#include "maps.h"
#include "whole.h"

#include <sched.h>
#include <sys/syscall.h>

#include "linux/refile.h"
#include "linux/uapi.h"

static struct rig rig;

static unsigned char *at(uint64_t page)
{
	return pddi_memory_address(&rig.memory, page);
}

/* Frames with the contents of other frames. */
static void make_twins(struct pdd_frame **twins, struct pdd_frame *const *frames, uint32_t n)
{
	struct pdd_frame_wish wishes[PDD_EXTENT_PAGES];
	uint32_t i;

	for (i = 0; i < n; i++)
		wishes[i] = (struct pdd_frame_wish){
			.content = pddi_frame_content(&rig.store, frames[i]),
			.region = &rig.memory.region,
		};
	assert_int_equal(pddi_store_create(&rig.store, twins, wishes, n), (int)n);
}

static int refile(uint64_t first, struct pdd_frame *const *twins, uint64_t n)
{
	int done = pddi_frames_remap(&rig.hold, &rig.budget, &rig.store, &rig.memory, first, twins,
				     n);

	assert_null(rig.hold.memory);
	return done;
}

/* The frames' memory is gone: who shows one of them reads zeros now. */
static void free_frames(struct pdd_frame *const *frames, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		pddi_store_free(&rig.store, frames[i]);
	pddi_store_flush(&rig.store);
}

static void begin(struct pdd_frame **frames, struct pdd_frame **twins, uint32_t flags)
{
	uint64_t i;

	rig_init(&rig, 64, flags);
	for (i = 0; i < 64; i++)
		memset(at(i), (int)i + 1, PAGE);
	rig_merge(&rig, frames, 8, 16);
	make_twins(twins, frames, 16);
}

static void test_pages_move(void **state)
{
	struct pdd_frame *frames[16], *twins[16];
	uint64_t i;

	begin(frames, twins, 0);
	/* A page alone, a run, and the rest; 20 is not there at the moment. */
	assert_int_equal(refile(10, twins + 2, 1), 1);
	assert_int_equal(refile(14, twins + 6, 4), 4);
	assert_int_equal(madvise(at(20), PAGE, MADV_DONTNEED), 0);
	assert_int_equal(refile(8, twins, 2), 2);
	assert_int_equal(refile(11, twins + 3, 3), 3);
	assert_int_equal(refile(18, twins + 10, 6), 6);
	free_frames(frames, 16);
	for (i = 0; i < 16; i++) {
		assert_int_equal(rig_kind(&rig, 8 + i), PDD_PAGE_SHARED);
		assert_int_equal(at(8 + i)[77], 8 + i + 1);
	}
	assert_int_equal(pddi_store_bytes(&rig.store), 16 * PAGE);
	for (i = 0; i < 64; i++)
		assert_false(maps_is_registered(at(i)));
	/* Writing makes copies as ever. */
	memset(at(8), 0x55, 16 * PAGE);
	for (i = 0; i < 16; i++)
		assert_int_equal(*(const unsigned char *)pddi_frame_content(&rig.store, twins[i]),
				 8 + i + 1);
	rig_fini(&rig);
}

/* A page that was written keeps what was written, and those behind it are not touched. */
static void test_written_pages_stay(void **state)
{
	struct pdd_frame *frames[16], *twins[16];
	uint64_t i;

	begin(frames, twins, 0);
	at(8)[1] = 0x66;
	at(12)[1] = 0x67;
	assert_int_equal(refile(8, twins, 16), 0);
	assert_int_equal(refile(9, twins + 1, 15), 3);
	assert_int_equal(refile(24, twins, 1), 0); /* anonymous */
	free_frames(frames, 4);
	assert_int_equal(rig_kind(&rig, 8), PDD_PAGE_PRIVATE);
	assert_int_equal(rig_kind(&rig, 12), PDD_PAGE_PRIVATE);
	assert_int_equal(at(8)[1], 0x66);
	assert_int_equal(at(8)[2], 9);
	assert_int_equal(at(11)[1], 12);
	assert_int_equal(at(12)[1], 0x67);
	assert_int_equal(at(13)[1], 14); /* its frame lives */
	at(8)[1] = 0x68;
	at(13)[1] = 0x69; /* nobody waits for ever */
	assert_int_equal(at(13)[1], 0x69);
	for (i = 0; i < 64; i++)
		assert_false(maps_is_registered(at(i)));
	rig_fini(&rig);
}

/* Without a mapping to spare a page shows what it showed. */
static void test_no_budget(void **state)
{
	struct pdd_frame *frames[16], *twins[16];

	begin(frames, twins, 0);
	rig.budget.limit = 1;
	rig.budget.patience = 100;
	assert_int_equal(refile(10, twins + 2, 4), -ENOSPC);
	free_frames(twins, 16);
	assert_int_equal(rig_kind(&rig, 10), PDD_PAGE_SHARED);
	assert_int_equal(at(10)[3], 11);
	assert_false(maps_is_registered(at(10)));
	at(10)[3] = 0x44;
	assert_int_equal(at(10)[3], 0x44);
	assert_int_equal(*(const unsigned char *)pddi_frame_content(&rig.store, frames[2]), 11);
	rig_fini(&rig);
}

/* --- a writer in the middle --- */

struct waiter {
	pthread_t thread;
	unsigned char *byte;
	atomic_bool begun, done;
};

static void *write_once(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->begun, true);
	__atomic_fetch_add(w->byte, 1, __ATOMIC_RELAXED);
	atomic_store(&w->done, true);
	return NULL;
}

static void start_waiter(struct waiter *w, uint64_t page)
{
	w->byte = at(page);
	atomic_init(&w->begun, false);
	atomic_init(&w->done, false);
	assert_int_equal(pthread_create(&w->thread, NULL, write_once, w), 0);
	while (!atomic_load(&w->begun))
		sched_yield();
	usleep(20000);
	assert_false(atomic_load(&w->done));
}

/* Held pages can be read; who writes them waits, until they show the new frame or are released. */
static void test_writers_wait(void **state)
{
	struct pdd_frame *frames[16], *twins[16];
	struct waiter moved, released;

	begin(frames, twins, 0);
	assert_int_equal(pddi_hold_framed(&rig.hold, &rig.memory, 10, 4, false), 4);
	start_waiter(&moved, 11);
	start_waiter(&released, 13);
	assert_int_equal(__atomic_load_n(at(11), __ATOMIC_RELAXED), 12);
	assert_int_equal(__atomic_load_n(at(13), __ATOMIC_RELAXED), 14);
	assert_int_equal(pddi_frames_map(&rig.hold, &rig.budget, &rig.store, &rig.memory, 10,
					 twins + 2, 2),
			 2);
	pthread_join(moved.thread, NULL);
	assert_false(atomic_load(&released.done));
	pddi_hold_release(&rig.hold, 12, 2);
	assert_null(rig.hold.memory);
	pthread_join(released.thread, NULL);
	free_frames(frames + 2, 2);
	assert_int_equal(at(10)[0], 11);
	assert_int_equal(at(11)[0], 13);
	assert_int_equal(at(11)[1], 12);
	assert_int_equal(at(13)[0], 15);
	rig_fini(&rig);
}

/* --- counters --- */

#define BUSY_PAGES 512u
#define MOVES 3000u

static struct pdd_frame *shown[BUSY_PAGES]; /* mapped at the page last */
static struct {
	uint64_t mapped, moved, kept;
} did;

/* Move a run of pages that were merged, and perhaps written since, to new frames. The old ones go,
 * so that a page that shows one of them still would lose its content. `map`: what to ask. */
static void refile_run(const struct pddi_pagemap *map, uint64_t first, uint32_t n)
{
	struct pdd_frame *twins[PDD_EXTENT_PAGES];
	uint32_t i = 0;
	int done;

	while (i < n && shown[first + i])
		i++;
	n = i;
	if (!n)
		return;
	make_twins(twins, shown + first, n);
	rig.hold.map = map;
	done = refile(first, twins, n);
	rig.hold.map = &rig.map;
	assert_true(done >= 0 || done == -EBUSY);
	for (i = 0; i < n; i++) {
		if ((int)i < done) {
			rig_show(&rig, shown, first + i, twins[i]);
			did.moved++;
		} else {
			pddi_store_free(&rig.store, twins[i]);
			did.kept++;
		}
	}
	pddi_store_flush(&rig.store);
}

/* A page map that calls all pages of the memory the store's, whatever was written. */
static struct pddi_pagemap make_liar(void)
{
	struct pddi_pagemap liar = { .fd = memfd_create("liar", MFD_CLOEXEC), .page_shift = 12 };
	uint64_t entries[BUSY_PAGES], i;

	for (i = 0; i < BUSY_PAGES; i++)
		entries[i] = PDDI_PM_PRESENT | PDDI_PM_FILE | PDDI_PM_UFFD_WP;
	assert_int_equal(pwrite(liar.fd, entries, sizeof(entries),
				(off_t)(((uintptr_t)at(0) >> 12) * sizeof(entries[0]))),
			 sizeof(entries));
	return liar;
}

/* Until many pages were moved; the number of lost writes. */
static uint64_t count_under_refiles(bool lie, uint32_t flags)
{
	static struct counters counters;
	uint64_t seed = test_seed(), wrong, writes, i;
	struct pddi_pagemap map;

	rig_init(&rig, BUSY_PAGES, flags);
	memset(&did, 0, sizeof(did));
	map = lie ? make_liar() : rig.map;
	counters_start(&counters, rig.memory.start, BUSY_PAGES, 1, 0, seed);
	while (did.moved < MOVES || (!lie && did.kept < MOVES / 10)) {
		uint64_t random = next_random(&seed);
		uint32_t n = 1 + (uint32_t)(random >> 32) % 8;
		uint64_t first = random % (BUSY_PAGES - n);

		rig_track_at_times(&rig, random >> 40);
		did.mapped += rig_merge_busy(&rig, shown, first, n);
		for (i = 0; i < n; i++)
			refile_run(&map, first + i, n - (uint32_t)i);
	}
	wrong = counters_stop(&counters, &writes);
	printf("%llu writes, %llu wrong; pages merged %llu, moved %llu, written before %llu\n",
	       (unsigned long long)writes, (unsigned long long)wrong,
	       (unsigned long long)did.mapped, (unsigned long long)did.moved,
	       (unsigned long long)did.kept);
	for (i = 0; i < BUSY_PAGES; i++)
		rig_show(&rig, shown, i, NULL);
	pddi_store_flush(&rig.store);
	assert_int_equal(pddi_store_bytes(&rig.store), 0);
	if (lie)
		close(map.fd);
	rig_fini(&rig);
	return wrong;
}

static void test_counters(void **state)
{
	const uint32_t promise = PDD_LINUX_NO_DEVICE_WRITES;

	assert_int_equal(count_under_refiles(false, promise), 0);
	assert_int_equal(count_under_refiles(false, promise | PDD_LINUX_NO_MOVE), 0);
}

static void test_lying_page_map_is_noticed(void **state)
{
	printf("with a page map that lies: ");
	assert_true(count_under_refiles(true, PDD_LINUX_NO_DEVICE_WRITES) > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_move),
		cmocka_unit_test(test_written_pages_stay),
		cmocka_unit_test(test_no_budget),
		cmocka_unit_test(test_writers_wait),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_lying_page_map_is_noticed),
	};

	return can_hold() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
