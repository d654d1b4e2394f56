/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_recent.c - what is told of a frame is what the frame contains, wherever it is told from: the
 * slots in which it was made, those into which it was read, or the mapping of the store.
 */
#define _GNU_SOURCE 1
#include "rig.h"

#define NPAGES 2048u

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_init(&rig, NPAGES, 0);
	for (uint64_t i = 0; i < NPAGES; i++)
		memset(pddi_memory_address(&rig.memory, i), (int)(i % 251) + 1, PAGE);
	return 0;
}

static int teardown(void **state)
{
	const char *why = "";

	(void)state;
	assert_int_equal(pddi_store_check(&rig.store, &why), 0);
	rig_fini(&rig);
	return 0;
}

/* Make frames of pages from `from` on, with wishes for the pages from `to` on or from it down. */
static int make(struct pdd_frame **frames, uint64_t from, uint64_t to, uint32_t n, bool descends)
{
	static struct pdd_frame_wish wishes[NPAGES];

	for (uint32_t i = 0; i < n; i++)
		wishes[i] = (struct pdd_frame_wish){
			.content = pddi_memory_address(&rig.memory, from + i),
			.region = &rig.memory.region,
			.page = descends ? to - i : to + i,
		};
	return pddi_store_create(&rig.store, frames, wishes, n);
}

/* What the file has at a frame's place. */
static void read_file(unsigned char *page, const struct pdd_frame *frame)
{
	assert_int_equal(pread(rig.store.fd, page, PAGE,
			       (off_t)(pddi_frame_place(frame) * PAGE)),
			 PAGE);
}

/* The frame is told as, and is, the copy of page `from`. */
static void assert_frame(struct pdd_frame *frame, uint64_t from)
{
	unsigned char page[PAGE];

	read_file(page, frame);
	assert_memory_equal(page, pddi_memory_address(&rig.memory, from), PAGE);
	assert_memory_equal(pddi_frame_content(&rig.store, frame), page, PAGE);
}

/* A mirror: wishes for descending places get them, by one run. */
static void test_descending(void **state)
{
	static struct pdd_frame *frames[600];

	(void)state;
	assert_int_equal(make(frames, 1000, 900, 600, true), 600);
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(pddi_frame_place(frames[i]), rig.memory.area->place + 900 - i);
		assert_frame(frames[i], 1000 + i);
	}
	/* Down to the first place of the area, and not beyond. */
	assert_int_equal(make(frames, 10, 3, 4, true), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(pddi_frame_place(frames[i]), rig.memory.area->place + 3 - i);
		assert_frame(frames[i], 10 + i);
	}
}

/* A source in the middle is gone: those before it are made, in whichever order their places are. */
static void test_vanished(void **state)
{
	static struct pdd_frame *frames[16];

	(void)state;
	munmap(pddi_memory_address(&rig.memory, 505), PAGE);
	assert_int_equal(make(frames, 500, 100, 16, true), 5);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(pddi_frame_place(frames[i]), rig.memory.area->place + 100 - i);
		assert_frame(frames[i], 500 + i);
	}
	assert_int_equal(make(frames + 5, 505, 95, 11, true), -EFAULT);
	assert_int_equal(rig.store.nframes, 5);
	assert_int_equal(pddi_store_bytes(&rig.store), 5 * (int64_t)PAGE);
	/* The places that were not used are given out with other content. */
	assert_int_equal(make(frames + 5, 700, 85, 11, false), 11);
	for (uint32_t i = 5; i < 16; i++)
		assert_frame(frames[i], 695 + i);
}

/* More frames than there are slots: those told of in an era stay, wherever they are told from. */
static void test_many(void **state)
{
	static struct pdd_frame *frames[NPAGES];
	static const unsigned char *contents[NPAGES];
	uint64_t seed = test_seed();

	(void)state;
	for (uint32_t i = 0; i < NPAGES; i += 512)
		assert_int_equal(make(frames + i, i, i, 512, false), 512);
	for (int era = 0; era < 8; era++) {
		pddi_recent_renew(&rig.store.recent);
		for (uint32_t k = 0; k < NPAGES; k++) {
			uint32_t i = era ? (uint32_t)(next_random(&seed) % NPAGES) : k;

			contents[i] = pddi_frame_content(&rig.store, frames[i]);
			assert_int_equal(contents[i][PAGE - 1], i % 251 + 1);
		}
		for (uint32_t i = 0; i < NPAGES; i++) {
			if (contents[i])
				assert_int_equal(contents[i][7], i % 251 + 1);
			contents[i] = NULL;
		}
	}
}

/* A frame may be made of what is told of another. */
static void test_frame_of_frames(void **state)
{
	static struct pdd_frame *frames[64], *copies[64];
	static struct pdd_frame_wish wishes[64];

	(void)state;
	assert_int_equal(make(frames, 0, 0, 64, false), 64);
	for (uint32_t i = 0; i < 64; i++)
		wishes[i] = (struct pdd_frame_wish){
			.content = pddi_frame_content(&rig.store, frames[63 - i]),
			.region = &rig.memory.region,
			.page = PDDI_RECENT_PAGES + i, /* the slot of another frame's */
		};
	assert_int_equal(pddi_store_create(&rig.store, copies, wishes, 64), 64);
	for (uint32_t i = 0; i < 64; i++) {
		assert_frame(copies[i], 63 - i);
		assert_frame(frames[i], i);
	}
}

/* Without slots all of it works as well. */
static void test_without_slots(void **state)
{
	static struct pdd_frame *frames[64];

	(void)state;
	pddi_recent_fini(&rig.store.recent);
	assert_int_equal(make(frames, 0, 63, 64, true), 64);
	for (uint32_t i = 0; i < 64; i++)
		assert_frame(frames[i], i);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_descending, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vanished, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_frame_of_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_slots, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
