/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_store.c - frames stand where they are wished, at a place that no other frame ever had; they
 * cannot be written; and what is freed is given back (races 9, 10, 24 of the adapter).
 */
#define _GNU_SOURCE 1
#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define NPAGES 256u

static struct rig rig;

static int setup(void **state)
{
	rig_init(&rig, NPAGES, 0);
	for (uint32_t i = 0; i < NPAGES; i++)
		memset(pddi_memory_address(&rig.memory, i), (int)i + 1, PAGE);
	return 0;
}

static int teardown(void **state)
{
	const char *why = "";

	if (pddi_store_check(&rig.store, &why)) {
		printf("store: %s\n", why);
		return -1;
	}
	rig_fini(&rig);
	return 0;
}

static void assert_content(struct pdd_frame *const *frames, uint32_t n, uint32_t first)
{
	for (uint32_t i = 0; i < n; i++)
		assert_true(pddi_content_equal(pddi_frame_content(&rig.store, frames[i]),
					       pddi_memory_address(&rig.memory, first + i), PAGE));
}

static int64_t blocks(void)
{
	pddi_store_flush(&rig.store);
	return pddi_store_bytes(&rig.store) / (int64_t)PAGE;
}

static void test_wished_places(void **state)
{
	struct pdd_frame *frames[NPAGES];
	uint32_t i;

	assert_int_equal(rig_create(&rig, frames, 10, 20), 20);
	for (i = 0; i < 20; i++)
		assert_int_equal(pddi_frame_place(frames[i]), rig.memory.area->place + 10 + i);
	assert_content(frames, 20, 10);
	assert_int_equal(blocks(), 20);
	assert_int_equal(rig.store.nframes, 20);
	for (i = 0; i < 20; i++)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 0);
}

static void test_used_places_are_refused_for_ever(void **state)
{
	struct pdd_frame *frames[32], *again[32];
	uint64_t place;
	uint32_t i;

	assert_int_equal(rig_create(&rig, frames, 8, 4), 4);
	for (i = 0; i < 4; i++)
		pddi_store_free(&rig.store, frames[i]);
	pddi_store_flush(&rig.store);
	/* 4..7 and 12..15 at their places; those that are refused are neighbours elsewhere. */
	assert_int_equal(rig_create(&rig, again, 4, 12), 12);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pddi_frame_place(again[i]), rig.memory.area->place + 4 + i);
		assert_int_equal(pddi_frame_place(again[8 + i]), rig.memory.area->place + 12 + i);
	}
	place = pddi_frame_place(again[4]);
	assert_int_equal(place, rig.store.overflow->place);
	for (i = 0; i < 4; i++)
		assert_int_equal(pddi_frame_place(again[4 + i]), place + i);
	assert_content(again, 12, 4);
	for (i = 0; i < 12; i++)
		pddi_store_free(&rig.store, again[i]);
	/* Nor are places of overflow areas given out again. */
	assert_int_equal(rig_create(&rig, again, 8, 1), 1);
	assert_int_equal(pddi_frame_place(again[0]), place + 4);
	pddi_store_free(&rig.store, again[0]);
}

static void test_full_overflow_area(void **state)
{
	struct pdd_frame *frames[NPAGES];
	uint64_t place, made = 0;
	uint32_t i;

	assert_int_equal(rig_create(&rig, frames, 0, NPAGES), (int)NPAGES);
	for (i = 0; i < NPAGES; i++)
		pddi_store_free(&rig.store, frames[i]);
	while (made < PDDI_OVERFLOW_PAGES - 10) {
		uint32_t n = PDDI_OVERFLOW_PAGES - 10 - made < NPAGES
				     ? (uint32_t)(PDDI_OVERFLOW_PAGES - 10 - made)
				     : NPAGES;

		assert_int_equal(rig_create(&rig, frames, 0, n), (int)n);
		for (i = 0; i < n; i++)
			pddi_store_free(&rig.store, frames[i]);
		made += n;
	}
	/* Neighbours all of them, but few may wait to be punched. */
	assert_true(pddi_store_bytes(&rig.store) <= 512 * (int64_t)PAGE);
	assert_int_equal(blocks(), 0);
	place = rig.store.overflow->place;
	assert_int_equal(rig_create(&rig, frames, 0, 30), 30);
	assert_int_equal(pddi_frame_place(frames[9]), place + PDDI_OVERFLOW_PAGES - 1);
	assert_int_not_equal(rig.store.overflow->place, place);
	assert_int_equal(pddi_frame_place(frames[10]), rig.store.overflow->place);
	assert_content(frames, 30, 0);
	/* The full area lives on until its last frame is freed. */
	for (i = 0; i < 30; i++)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 0);
}

static void test_punching_spares_neighbours(void **state)
{
	struct pdd_frame *frames[64];
	uint32_t i;

	assert_int_equal(rig_create(&rig, frames, 0, 64), 64);
	for (i = 1; i < 64; i += 2)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 32);
	for (i = 0; i < 64; i += 2)
		assert_content(&frames[i], 1, i);
	/* Backwards, which is batched too. */
	for (i = 62; i < 64; i -= 2)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 0);
}

/* Neither by an instruction through a mapping nor by shrinking. */
static void test_never_writable(void **state)
{
	struct pdd_frame *frames[8];
	char line[512];
	int mappings = 0;
	FILE *maps;

	rig_merge(&rig, frames, 0, 8);
	maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		char perms[5];

		if (!strstr(line, "pagededup-store"))
			continue;
		mappings++;
		assert_int_equal(sscanf(line, "%*x-%*x %4s", perms), 1);
		assert_false(perms[3] == 's' && perms[1] == 'w');
		assert_int_equal(perms[2], '-');
	}
	fclose(maps);
	assert_true(mappings >= 2);
	assert_int_equal(ftruncate(rig.store.fd, 0), -1);
	assert_true(fcntl(rig.store.fd, F_GET_SEALS) & F_SEAL_SHRINK);
	assert_true(fcntl(rig.store.fd, F_GETFD) & FD_CLOEXEC);
	/* A write to a page that shows a frame stays in that page. */
	pddi_memory_address(&rig.memory, 3)[0] = 99;
	assert_int_equal(*(const unsigned char *)pddi_frame_content(&rig.store, frames[3]), 4);
	for (uint32_t i = 0; i < 8; i++)
		if (i != 3)
			assert_content(&frames[i], 1, i);
}

/* A page of a mapping whose frame was freed shows its own copy, and no other frame ever. */
static void test_freed_place_shows_nothing_else(void **state)
{
	struct pdd_frame *frames[2], *others[64];
	unsigned char *page = pddi_memory_address(&rig.memory, 0);

	rig_merge(&rig, frames, 0, 1);
	page[0] = 7;
	pddi_store_free(&rig.store, frames[0]);
	pddi_store_flush(&rig.store);
	assert_int_equal(page[0], 7);
	assert_int_equal(page[1], 1);
	assert_int_equal(rig_create(&rig, others, 0, 64), 64);
	/* The program is told not to, but even so it sees nothing of anybody else. */
	assert_int_equal(madvise(page, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(page[0], 0);
	assert_int_equal(page[1], 0);
}

static void test_area_outlives_its_memory(void **state)
{
	static struct pdd_linux_memory other;
	struct pdd_frame *frames[4];
	struct pdd_frame_wish wishes[4];
	uint32_t i;

	rig_add_memory(&rig, &other, 1000);
	for (i = 0; i < 4; i++)
		wishes[i] = (struct pdd_frame_wish){
			.content = pddi_memory_address(&rig.memory, 20 + i),
			.region = &other.region,
			.page = 996 + i,
		};
	assert_int_equal(pddi_store_create(&rig.store, frames, wishes, 4), 4);
	rig_drop_memory(&rig, &other);
	assert_content(frames, 4, 20);
	for (i = 0; i < 4; i++)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 0);
	assert_ptr_equal(rig.store.areas, rig.memory.area);
	assert_null(rig.store.areas->next);
}

/* A source that vanishes in the middle of a run: a prefix is made, the rest is as before. */
static void test_vanished_source(void **state)
{
	struct pdd_frame *frames[16];

	munmap(pddi_memory_address(&rig.memory, 5), PAGE);
	assert_int_equal(rig_create(&rig, frames, 0, 16), 5);
	assert_content(frames, 5, 0);
	assert_int_equal(rig_create(&rig, frames + 5, 5, 11), -EFAULT);
	assert_int_equal(rig.store.nframes, 5);
	assert_int_equal(blocks(), 5);
	assert_int_equal(rig_create(&rig, frames + 6, 6, 2), 2);
	assert_int_equal(pddi_frame_place(frames[6]), rig.memory.area->place + 6);
}

static void test_no_space(void **state)
{
	struct rlimit limit, small;
	struct pdd_frame *frames[64];
	struct pddi_area *area;
	uint64_t end = rig.store.end;
	uint32_t i;

	getrlimit(RLIMIT_FSIZE, &limit);
	small = limit;
	small.rlim_cur = (rig.memory.area->place + 10) * PAGE + 100; /* in the middle of page 10 */
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(pddi_store_area_add(&rig.store, &area, 1000), -EFBIG);
	assert_int_equal(rig.store.end, end);
	assert_int_equal(rig_create(&rig, frames, 4, 20), 6);
	assert_content(frames, 6, 4);
	assert_int_equal(rig_create(&rig, frames + 6, 10, 14), -ENOSPC);
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(blocks(), 6);
	assert_int_equal(rig_create(&rig, frames + 6, 10, 14), 14);
	assert_int_equal(pddi_frame_place(frames[6]), rig.memory.area->place + 10);
	assert_content(frames, 20, 4);
	for (i = 0; i < 20; i++)
		pddi_store_free(&rig.store, frames[i]);
	assert_int_equal(blocks(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_wished_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_used_places_are_refused_for_ever, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_full_overflow_area, setup, teardown),
		cmocka_unit_test_setup_teardown(test_punching_spares_neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_writable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_freed_place_shows_nothing_else, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_area_outlives_its_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vanished_source, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_space, setup, teardown),
	};
	struct pddi_probe probe;
	bool able;

	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.pagemap_fd >= 0;
	pddi_probe_fini(&probe);
	if (!able) {
		printf("skipped: pages cannot be held here\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
