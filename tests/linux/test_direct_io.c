/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_direct_io.c - scenario s67: direct reads of a file into pages that are just being held,
 * shared or zeroed. A device writes those pages without asking anybody, so they must not be
 * replaced; every byte must arrive (race 23). With the hooks driven directly, also while pages are
 * moved from frame to frame, and by pdd_linux_step(), also where the promise of no device writes is
 * kept by pinning.
 *
 * Nobody reads here while a device writes: the reader compares after its read has returned.
 */
#define _GNU_SOURCE 1
#include "rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "linux/refile.h"

#define CHUNK_PAGES 256u
#define FILE_CHUNKS 64u
#define NPAGES (FILE_CHUNKS * CHUNK_PAGES)
#define ROUNDS 4 /* 256 MiB in all */

static int file = -1;

/* The word that fills a page of the file; no page of the memory has it before. */
static uint64_t file_word(uint64_t page)
{
	return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static void fill_words(void *page, uint64_t word)
{
	uint64_t *words = page;
	size_t i;

	for (i = 0; i < PAGE / sizeof(word); i++)
		words[i] = word;
}

static bool has_words(const void *page, uint64_t word)
{
	const uint64_t *words = page;
	size_t i;

	for (i = 0; i < PAGE / sizeof(word); i++)
		if (words[i] != word)
			return false;
	return true;
}

/* A file that can be read directly, in the working directory or wherever that works. */
static int make_file(void)
{
	static const char *const folders[] = { ".", "/var/tmp", "/tmp" };
	static uint64_t chunk[CHUNK_PAGES * PAGE / sizeof(uint64_t)]
		__attribute__((aligned(4096)));
	size_t i;

	for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char path[64];
		uint64_t c, p;
		int fd, direct;

		snprintf(path, sizeof(path), "%s/direct-io-XXXXXX", folders[i]);
		fd = mkstemp(path);
		if (fd < 0)
			continue;
		for (c = 0; c < FILE_CHUNKS; c++) {
			for (p = 0; p < CHUNK_PAGES; p++)
				fill_words(chunk + p * PAGE / sizeof(uint64_t),
					   file_word(c * CHUNK_PAGES + p));
			if (write(fd, chunk, sizeof(chunk)) != sizeof(chunk))
				break;
		}
		fsync(fd);
		direct = c == FILE_CHUNKS ? open(path, O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
		close(fd);
		unlink(path);
		if (direct >= 0 && pread(direct, chunk, PAGE, 0) == (ssize_t)PAGE)
			return direct;
		if (direct >= 0)
			close(direct);
	}
	return -1;
}

struct reader {
	pthread_t thread;
	unsigned char *memory;
	uint64_t first_chunk, chunk_step;
	uint32_t wait_us; /* between filling a chunk and reading into it */
	struct pdd_linux *dedup; /* to pin the chunk while it is read into; NULL: do not */
	struct pdd_linux_memory *handle;
	_Atomic uint64_t at; /* the chunk that is being read */
	atomic_bool done;
	uint64_t lost;
	uint64_t failed;
};

/* Make a chunk zero and duplicate pages in turn, runs of 16. */
static void prepare_chunk(unsigned char *chunk)
{
	uint64_t p;

	for (p = 0; p < CHUNK_PAGES; p++)
		fill_words(chunk + p * PAGE, p / 16 % 2 ? UINT64_C(0xd0d0) : 0);
}

static void *read_all(void *arg)
{
	struct reader *reader = arg;
	uint64_t c, p;

	for (c = reader->first_chunk; c < FILE_CHUNKS; c += reader->chunk_step) {
		unsigned char *chunk = reader->memory + c * CHUNK_PAGES * PAGE;
		size_t length = CHUNK_PAGES * PAGE;

		atomic_store(&reader->at, c);
		prepare_chunk(chunk);
		usleep(reader->wait_us);
		if (reader->dedup)
			reader->failed += pdd_linux_pin(reader->dedup, reader->handle, chunk,
							length) != 0;
		if (pread(file, chunk, length, (off_t)(c * length)) != (ssize_t)length)
			reader->failed++;
		if (reader->dedup)
			reader->failed += pdd_linux_unpin(reader->dedup, reader->handle, chunk,
							  length) != 0;
		for (p = 0; p < CHUNK_PAGES; p++)
			reader->lost += !has_words(chunk + p * PAGE,
						   file_word(c * CHUNK_PAGES + p));
	}
	atomic_store(&reader->done, true);
	return NULL;
}

static void start_reader(struct reader *reader, struct reader how)
{
	*reader = how;
	atomic_store(&reader->at, how.first_chunk);
	assert_int_equal(pthread_create(&reader->thread, NULL, read_all, reader), 0);
}

static uint64_t count_lost(const unsigned char *memory)
{
	uint64_t lost = 0, page;

	for (page = 0; page < NPAGES; page++)
		lost += !has_words(memory + page * PAGE, file_word(page));
	return lost;
}

/* --- the hooks, driven directly --- */

static struct pdd_frame *shown[NPAGES];
static struct {
	uint64_t mapped, zeroed, released, moved, refused[PDD_REASONS];
} did;

static void show(struct rig *rig, uint64_t page, struct pdd_frame *frame)
{
	if (shown[page])
		pddi_store_free(&rig->store, shown[page]);
	shown[page] = frame;
}

/* Replace one held page if it is zero or equal to its frame, which is used up then. */
static void settle(struct rig *rig, const void *content, uint64_t page, struct pdd_frame **frame)
{
	if (pddi_content_class(content, PAGE) == PDD_CLASS_ZERO) {
		assert_int_equal(rig_zero(rig, page, 1), 1);
		show(rig, page, NULL);
		did.zeroed++;
	} else if (pddi_content_equal(content, pddi_frame_content(&rig->store, *frame), PAGE)) {
		assert_int_equal(rig_map(rig, page, frame, 1), 1);
		show(rig, page, *frame);
		*frame = NULL;
		did.mapped++;
	} else {
		pddi_hold_release(&rig->hold, page, 1);
		did.released++;
	}
}

static void merge_some(struct rig *rig, uint64_t first, uint32_t n)
{
	struct pdd_frame *frames[PDD_EXTENT_PAGES];
	struct pdd_view views[PDD_EXTENT_PAGES];
	int made = rig_create(rig, frames, first, n), nviews, i;
	uint64_t page = first, k;

	assert_true(made > 0);
	nviews = rig_hold(rig, views, PDD_EXTENT_PAGES, first, (uint64_t)made);
	assert_true(nviews > 0);
	for (i = 0; i < nviews; page += views[i++].npages) {
		if (views[i].kind != PDD_PAGE_PRIVATE)
			did.refused[views[i].reason] += views[i].npages;
		else
			for (k = 0; k < views[i].npages; k++)
				settle(rig, (const unsigned char *)views[i].content + k * PAGE,
				       page + k, &frames[page + k - first]);
	}
	for (i = 0; i < made; i++)
		if (frames[i])
			pddi_store_free(&rig->store, frames[i]);
}

/* Move pages from the first on that show frames, or did, to new ones of the same content. */
static void refile_some(struct rig *rig, uint64_t first, uint32_t n)
{
	struct pdd_frame_wish wishes[16];
	struct pdd_frame *twins[16];
	uint32_t k, i;
	int done;

	for (k = 0; k < n && shown[first + k]; k++)
		wishes[k] = (struct pdd_frame_wish){
			.content = pddi_frame_content(&rig->store, shown[first + k]),
			.region = &rig->memory.region,
		};
	if (!k)
		return;
	assert_int_equal(pddi_store_create(&rig->store, twins, wishes, k), (int)k);
	done = pddi_frames_remap(&rig->hold, &rig->budget, &rig->store, &rig->memory, first, twins,
				 k);
	for (i = 0; i < k; i++) {
		if ((int)i < done)
			show(rig, first + i, twins[i]);
		else
			pddi_store_free(&rig->store, twins[i]);
		did.moved += (int)i < done;
	}
}

static uint64_t run_hooks(uint32_t flags, bool refile)
{
	static struct rig rig;
	static struct reader reader;
	uint64_t seed = test_seed(), lost = 0, page;
	int round;

	memset(&did, 0, sizeof(did));
	for (round = 0; round < ROUNDS; round++) {
		/* Fresh memory each time: what was merged and broken may not be touched again. */
		rig_init(&rig, NPAGES, flags);
		memset(shown, 0, sizeof(shown));
		start_reader(&reader,
			     (struct reader){ .memory = rig.memory.start, .chunk_step = 1 });
		while (!atomic_load(&reader.done)) {
			uint64_t random = next_random(&seed);
			uint32_t n = 1 + (uint32_t)(random >> 32) % 16;

			page = atomic_load(&reader.at) * CHUNK_PAGES +
			       random % (CHUNK_PAGES - 16);
			rig_track_at_times(&rig, random >> 40);
			merge_some(&rig, page, n);
			if (refile)
				refile_some(&rig, page, n);
		}
		pthread_join(reader.thread, NULL);
		assert_int_equal(reader.failed, 0);
		lost += reader.lost;
		if (!reader.lost)
			lost += count_lost(rig.memory.start);
		for (page = 0; page < NPAGES; page++)
			show(&rig, page, NULL);
		pddi_store_flush(&rig.store);
		assert_int_equal(pddi_store_bytes(&rig.store), 0);
		rig_fini(&rig);
	}
	printf("pages lost %llu; mapped %llu, moved %llu, zeroed %llu, released %llu, pinned %llu, "
	       "pins unseen %llu, absent %llu\n",
	       (unsigned long long)lost, (unsigned long long)did.mapped,
	       (unsigned long long)did.moved, (unsigned long long)did.zeroed,
	       (unsigned long long)did.released,
	       (unsigned long long)did.refused[PDD_REASON_PINNED],
	       (unsigned long long)did.refused[PDD_REASON_PINS_UNSEEN],
	       (unsigned long long)did.refused[PDD_REASON_ABSENT]);
	return lost;
}

static void test_hooks(void **state)
{
	assert_int_equal(run_hooks(0, false), 0);
	assert_true(did.mapped && did.zeroed);
	assert_true(did.refused[PDD_REASON_PINNED]);
	assert_true(did.refused[PDD_REASON_PINS_UNSEEN]); /* merged and broken */
}

/* Moved from frame to frame as well: who writes by a pin has broken the sharing before. */
static void test_refile(void **state)
{
	assert_int_equal(run_hooks(0, true), 0);
	assert_true(did.mapped && did.moved);
}

/* The contract broken: this shows that the test above would notice. How often is chance. */
static void test_broken_promise_is_noticed(void **state)
{
	uint64_t lost = 0;

	for (int tries = 0; !lost && tries < 5; tries++) {
		printf("with the promise of no device writes broken: ");
		lost = run_hooks(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE, false);
	}
	assert_true(lost > 0);
}

/* --- the whole adapter --- */

static void run_steps(uint32_t flags, bool pin)
{
	static struct reader readers[2];
	struct pdd_tunables tunables;
	struct pdd_linux_options options = { .size = sizeof(options),
					     .flags = flags,
					     .tunables = &tunables };
	struct pdd_linux_memory *handle;
	struct pdd_linux *dedup;
	struct pdd_stats stats = { .size = sizeof(stats) };
	uint64_t lost = 0, pinned = 0, passes = 0, merges = 0, zeroed = 0;
	int round, i;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	assert_int_equal(pdd_linux_create(&dedup, &options), 0);
	for (round = 0; round < ROUNDS; round++) {
		unsigned char *memory = mmap(NULL, NPAGES * PAGE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		const char *why = "";

		assert_ptr_not_equal(memory, MAP_FAILED);
		assert_int_equal(pdd_linux_add(dedup, &handle, 0, memory, NPAGES * PAGE), 0);
		for (i = 0; i < 2; i++)
			start_reader(&readers[i], (struct reader){ .memory = memory,
								   .first_chunk = (uint64_t)i,
								   .chunk_step = 2,
								   .wait_us = 5000,
								   .dedup = pin ? dedup : NULL,
								   .handle = handle });
		while (!atomic_load(&readers[0].done) || !atomic_load(&readers[1].done)) {
			int step = pdd_linux_step(dedup, 4096, 0);

			assert_true(step >= 0);
			if (step != PDD_STEP_PASS)
				continue;
			passes++;
			assert_int_equal(pdd_linux_stats(dedup, &stats), 0);
			pinned += stats.counts.reasons[PDD_REASON_PINNED];
		}
		for (i = 0; i < 2; i++) {
			pthread_join(readers[i].thread, NULL);
			assert_int_equal(readers[i].failed, 0);
			lost += readers[i].lost;
		}
		lost += count_lost(memory);
		if (pdd_linux_check(dedup, &why))
			fail_msg("check: %s", why);
		assert_int_equal(pdd_linux_stats(dedup, &stats), 0);
		merges += stats.counts.merges;
		zeroed += stats.counts.zero_merges;
		assert_int_equal(pdd_linux_remove(dedup, handle), 0);
		lost += count_lost(memory);
		munmap(memory, NPAGES * PAGE);
	}
	pdd_linux_destroy(dedup);
	printf("%llu passes: pages lost %llu; merged %llu, zeroed %llu, pinned at the end of a "
	       "pass %llu\n",
	       (unsigned long long)passes, (unsigned long long)lost, (unsigned long long)merges,
	       (unsigned long long)zeroed, (unsigned long long)pinned);
	assert_int_equal(lost, 0);
	assert_true(merges && zeroed);
}

static void test_steps(void **state)
{
	run_steps(0, false);
}

/* The promise kept by pinning what is read into: pages are held in the way that sees no pins. */
static void test_steps_with_pins(void **state)
{
	run_steps(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE, true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_refile),
		cmocka_unit_test(test_broken_promise_is_noticed),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_steps_with_pins),
	};
	struct pddi_probe probe;
	bool able;
	int failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.facilities.write_protect && probe.pagemap_fd >= 0;
	pddi_probe_fini(&probe);
	file = make_file();
	if (!able || file < 0) {
		printf("skipped: %s\n", able ? "no folder whose files can be read directly"
					     : "pages cannot be held in both ways here");
		return SKIPPED;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(file);
	return failed;
}
