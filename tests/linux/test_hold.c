/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_hold.c - no write is lost and no writer hangs while pages are held, shared, zeroed and
 * given back (races 1, 2, 9, 26 of the adapter). No engine: the hooks are driven at random while
 * threads count in the pages.
 */
#define _GNU_SOURCE 1
#include "counters.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "linux/uapi.h"

#define NPAGES COUNTERS_PAGES
#define SECONDS 2
#define PATIENCE 60 /* seconds, until everything has happened */
#define NS UINT64_C(1000000000)

static struct pdd_frame *shown[NPAGES]; /* the frame that was mapped at each page */
static struct {
	uint64_t mapped, zeroed, released, refused, unmapped, freed, guarded;
} did;

/* The page got other content: its frame is shown nowhere. */
static void forget_frame(struct rig *rig, uint64_t page)
{
	if (shown[page]) {
		pddi_store_free(&rig->store, shown[page]);
		did.freed++;
	}
	shown[page] = NULL;
}

/* Decide what becomes of one held run, page by page, and do it in runs. */
static void settle(struct rig *rig, const struct pdd_view *view, uint64_t first,
		   struct pdd_frame **frames)
{
	uint64_t i = 0;

	while (i < view->npages) {
		uint64_t n = 0;
		const unsigned char *content = (const unsigned char *)view->content + i * PAGE;

		while (i + n < view->npages &&
		       pddi_content_class(content + n * PAGE, PAGE) == PDD_CLASS_ZERO)
			n++;
		if (n) {
			uint64_t k;

			assert_int_equal(rig_zero(rig, first + i, n), (int)n);
			for (k = 0; k < n; k++)
				forget_frame(rig, first + i + k);
			did.zeroed += n;
			i += n;
			continue;
		}
		while (i + n < view->npages && frames[i + n] &&
		       pddi_content_equal(content + n * PAGE,
					  pddi_frame_content(&rig->store, frames[i + n]), PAGE))
			n++;
		if (n) {
			uint64_t k;

			assert_int_equal(rig_map(rig, first + i, frames + i, n), (int)n);
			for (k = 0; k < n; k++) {
				forget_frame(rig, first + i + k);
				shown[first + i + k] = frames[i + k];
				frames[i + k] = NULL;
			}
			did.mapped += n;
			i += n;
			continue;
		}
		pddi_hold_release(&rig->hold, first + i, 1);
		did.released++;
		i++;
	}
}

static void hold_and_settle(struct rig *rig, uint64_t first, uint32_t n)
{
	struct pdd_frame *frames[PDD_EXTENT_PAGES] = { NULL };
	struct pdd_view views[64];
	uint64_t at = 0;
	int nviews, made, i;

	made = rig_create(rig, frames, first, n);
	assert_true(made > 0);
	nviews = rig_hold(rig, views, 64, first, (uint64_t)made);
	assert_true(nviews > 0);
	for (i = 0; i < nviews; at += views[i++].npages) {
		if (views[i].kind != PDD_PAGE_PRIVATE) {
			assert_int_equal(views[i].kind, PDD_PAGE_REFUSED);
			did.refused += views[i].npages;
			continue;
		}
		if (views[i].content == pddi_memory_address(&rig->memory, first + at))
			did.guarded += views[i].npages;
		settle(rig, &views[i], first + at, frames + at);
	}
	assert_null(rig->hold.memory);
	for (i = 0; i < made; i++)
		if (frames[i])
			pddi_store_free(&rig->store, frames[i]);
}

/* Give back copies of a run of pages that show frames. */
static void unmap_run(struct rig *rig, uint64_t first, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n && shown[first + i]; i++)
		;
	if (!i)
		return;
	assert_int_equal(pddi_frames_unmap(&rig->memory, first, i), (int)i);
	did.unmapped += i;
	while (i-- > 0) {
		assert_int_equal(rig_kind(rig, first + i), PDD_PAGE_PRIVATE);
		forget_frame(rig, first + i);
	}
}

/* Pages that change between the founding of their frame and the hold, which are released, are few on
 * a busy machine. */
static bool did_all(void)
{
	return did.mapped && did.zeroed && did.released && did.unmapped;
}

static void count_under_holds(uint32_t flags)
{
	static struct rig rig;
	static struct counters counters;
	uint64_t seed = test_seed(), wrong, writes, k;
	uint64_t begin, spent;
	const char *why = "";

	rig_init(&rig, NPAGES, flags);
	memset(shown, 0, sizeof(shown));
	memset(&did, 0, sizeof(did));
	counters_start(&counters, rig.memory.start, NPAGES, 1, 0, seed);
	begin = now_ns();
	while ((spent = now_ns() - begin) < SECONDS * NS ||
	       (!did_all() && spent < PATIENCE * NS)) {
		uint64_t random = next_random(&seed);
		uint64_t first = random % NPAGES;
		uint32_t n = 1 + (uint32_t)(random >> 32) % 48;
		uint64_t room = PDD_EXTENT_PAGES - first % PDD_EXTENT_PAGES;

		n = n < room ? n : (uint32_t)room;
		rig_track_at_times(&rig, random >> 40);
		hold_and_settle(&rig, first, n);
		if (random >> 62 == 0)
			unmap_run(&rig, first, n);
	}
	wrong = counters_stop(&counters, &writes);
	printf("%llu writes, %llu wrong; pages mapped %llu (held by protection %llu), zeroed %llu, "
	       "released %llu, refused %llu, unmapped %llu, frames freed %llu\n",
	       (unsigned long long)writes, (unsigned long long)wrong,
	       (unsigned long long)did.mapped, (unsigned long long)did.guarded,
	       (unsigned long long)did.zeroed, (unsigned long long)did.released,
	       (unsigned long long)did.refused, (unsigned long long)did.unmapped,
	       (unsigned long long)did.freed);
	assert_int_equal(wrong, 0);
	assert_true(did_all());
	assert_int_equal(pddi_store_check(&rig.store, &why), 0);
	for (k = 0; k < NPAGES; k++)
		if (shown[k])
			pddi_store_free(&rig.store, shown[k]);
	pddi_store_flush(&rig.store);
	assert_int_equal(pddi_store_bytes(&rig.store), 0);
	rig_fini(&rig);
}

static void test_move(void **state)
{
	count_under_holds(PDD_LINUX_NO_DEVICE_WRITES);
	assert_true(did.guarded > 0);
}

static void test_move_without_protection(void **state)
{
	count_under_holds(0);
	assert_int_equal(did.guarded, 0);
	assert_true(did.refused > 0); /* pages that were shared and then written */
}

static void test_protection_only(void **state)
{
	count_under_holds(PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE);
	assert_true(did.guarded > 0);
}

/* --- writers that wait --- */

struct waiter {
	pthread_t thread;
	volatile uint64_t *word;
	bool reads;
	atomic_bool begun;
	atomic_bool done;
	uint64_t seen;
};

static void *access_once(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->begun, true);
	if (w->reads)
		w->seen = __atomic_load_n(w->word, __ATOMIC_RELAXED);
	else
		w->seen = __atomic_fetch_add(w->word, 1, __ATOMIC_RELAXED);
	atomic_store(&w->done, true);
	return NULL;
}

static void start_waiter(struct waiter *w, struct rig *rig, uint64_t page, bool reads)
{
	memset(w, 0, sizeof(*w));
	w->word = (volatile uint64_t *)(void *)pddi_memory_address(&rig->memory, page);
	w->reads = reads;
	pthread_create(&w->thread, NULL, access_once, w);
	while (!atomic_load(&w->begun))
		sched_yield();
	usleep(20000);
}

static void join_waiter(struct waiter *w, uint64_t seen)
{
	uint64_t begin = now_ns();

	while (!atomic_load(&w->done) && now_ns() - begin < UINT64_C(1000000000))
		usleep(100);
	assert_true(atomic_load(&w->done));
	pthread_join(w->thread, NULL);
	assert_int_equal(w->seen, seen);
}

enum ending { END_MAP, END_RELEASE, END_ZERO };

static void wake_after(struct rig *rig, uint64_t page, enum ending ending)
{
	struct pdd_frame *frame;
	struct pdd_view view;
	struct waiter writer, reader;
	uint64_t value = ending == END_ZERO ? 0 : 41;

	*(volatile uint64_t *)(void *)pddi_memory_address(&rig->memory, page) = value;
	assert_int_equal(rig_create(rig, &frame, page, 1), 1);
	assert_int_equal(rig_hold(rig, &view, 1, page, 1), 1);
	assert_int_equal(view.kind, PDD_PAGE_PRIVATE);
	start_waiter(&writer, rig, page, false);
	assert_false(atomic_load(&writer.done));
	if (pddi_hold_is_staged(&rig->hold, page)) {
		start_waiter(&reader, rig, page, true);
		assert_false(atomic_load(&reader.done));
	}
	assert_true(pddi_content_equal(view.content, pddi_frame_content(&rig->store, frame), PAGE));
	if (ending == END_MAP)
		assert_int_equal(rig_map(rig, page, &frame, 1), 1);
	else if (ending == END_ZERO)
		assert_int_equal(rig_zero(rig, page, 1), 1);
	else
		pddi_hold_release(&rig->hold, page, 1);
	join_waiter(&writer, value);
	assert_int_equal(*(volatile uint64_t *)(void *)pddi_memory_address(&rig->memory, page),
			 value + 1);
	if (view.content != pddi_memory_address(&rig->memory, page)) {
		while (!atomic_load(&reader.done))
			sched_yield();
		pthread_join(reader.thread, NULL);
	}
	/* The frame is as it was, whatever was written to the page. */
	assert_int_equal(*(const uint64_t *)pddi_frame_content(&rig->store, frame), value);
	if (ending == END_MAP)
		assert_int_equal(rig_kind(rig, page), PDD_PAGE_PRIVATE);
	pddi_store_free(&rig->store, frame);
}

static void test_waiters(void **state)
{
	static const uint32_t all[] = { PDD_LINUX_NO_DEVICE_WRITES,
					PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE };

	for (size_t i = 0; i < 2; i++) {
		static struct rig rig;
		int round;

		rig_init(&rig, 16, all[i]);
		/* The second round finds pages in mappings of the store. */
		for (round = 0; round < 2; round++) {
			wake_after(&rig, 3, END_RELEASE);
			wake_after(&rig, 3, END_MAP);
			wake_after(&rig, 3, END_MAP);
			wake_after(&rig, 3, END_ZERO);
		}
		rig_fini(&rig);
	}
}

/* Waiters of all pages of a run whose pages end in different ways, and of a hole in it. */
static void test_mixed_endings(void **state)
{
	static struct rig rig;
	struct waiter waiters[6];
	struct pdd_frame *frames[6];
	struct pdd_view views[8];
	uint64_t page;

	rig_init(&rig, 1024, PDD_LINUX_NO_DEVICE_WRITES);
	for (page = 512; page < 518; page++)
		if (page != 513) /* stays a hole */
			*(uint64_t *)(void *)pddi_memory_address(&rig.memory, page) = page;
	rig_merge(&rig, frames, 516, 1);
	*(uint64_t *)(void *)pddi_memory_address(&rig.memory, 516) = 516;

	assert_int_equal(rig_hold(&rig, views, 8, 512, 6), 5);
	assert_int_equal(views[0].kind, PDD_PAGE_PRIVATE);
	assert_int_equal(views[1].kind, PDD_PAGE_REFUSED);
	assert_int_equal(views[1].reason, PDD_REASON_ABSENT);
	assert_int_equal(views[2].npages, 2);
	assert_ptr_equal(views[3].content, pddi_memory_address(&rig.memory, 516));
	assert_int_equal(views[4].npages, 1);
	for (page = 0; page < 6; page++)
		start_waiter(&waiters[page], &rig, 512 + page, false);

	/* 512 released, 514 mapped, 515 released, 516 and 517 zeroed as if they were zero. */
	pddi_hold_release(&rig.hold, 512, 1);
	join_waiter(&waiters[0], 512);
	{
		struct pdd_frame_wish wish = { .content = views[2].content,
					       .region = &rig.memory.region,
					       .page = 514 };

		assert_int_equal(pddi_store_create(&rig.store, frames + 2, &wish, 1), 1);
	}
	assert_int_equal(rig_map(&rig, 514, frames + 2, 1), 1);
	join_waiter(&waiters[2], 514);
	pddi_hold_release(&rig.hold, 515, 1);
	join_waiter(&waiters[3], 515);
	assert_int_equal(rig_zero(&rig, 516, 2), 2);
	join_waiter(&waiters[4], 0);
	join_waiter(&waiters[5], 0);
	join_waiter(&waiters[1], 0); /* the hole's waits until the end of the hold */
	assert_null(rig.hold.memory);
	rig_fini(&rig);
}

/* Memory that consists of several mappings, which do not join for all that they are alike. */
static void cut_memory(struct rig *rig, uint64_t first, uint64_t npages)
{
	void *pages = mmap(NULL, npages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	(void)madvise(pages, npages * PAGE, MADV_NOHUGEPAGE);
	memset(pages, 1, npages * PAGE); /* its pages are numbered by where it is */
	assert_ptr_not_equal(mremap(pages, npages * PAGE, npages * PAGE,
				    MREMAP_MAYMOVE | MREMAP_FIXED,
				    pddi_memory_address(&rig->memory, first)),
			     MAP_FAILED);
}

static void test_several_mappings(void **state)
{
	static const uint32_t all[] = { PDD_LINUX_NO_DEVICE_WRITES,
					PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE };

	for (size_t f = 0; f < 2; f++) {
		static struct rig rig;
		struct pdd_view views[8];
		struct pdd_frame *frames[64];
		uint64_t i;

		rig_init(&rig, 64, all[f]);
		memset(pddi_memory_address(&rig.memory, 0), 1, 64 * PAGE);
		cut_memory(&rig, 8, 5);
		cut_memory(&rig, 13, 1);
		cut_memory(&rig, 40, 20);
		for (i = 0; i < 64; i++)
			memset(pddi_memory_address(&rig.memory, i), (int)i + 1, PAGE);
		/* Held as one, and released with all its content. */
		assert_int_equal(rig_hold(&rig, views, 8, 0, 64), 1);
		assert_int_equal(views[0].kind, PDD_PAGE_PRIVATE);
		assert_int_equal(views[0].npages, 64);
		pddi_hold_release(&rig.hold, 0, 64);
		for (i = 0; i < 64; i++)
			assert_int_equal(pddi_memory_address(&rig.memory, i)[99], i + 1);
		/* Zeroed: the zero page everywhere where that is put. */
		assert_int_equal(rig_hold(&rig, views, 8, 5, 50), 1);
		assert_int_equal(rig_zero(&rig, 5, 50), 50);
		for (i = 5; f == 0 && i < 55; i++)
			assert_int_equal(rig_kind(&rig, i), PDD_PAGE_ZERO);
		for (i = 0; i < 64; i++)
			assert_int_equal(pddi_memory_address(&rig.memory, i)[99],
					 i < 5 || i >= 55 ? i + 1 : 0);
		memset(pddi_memory_address(&rig.memory, 0), 7, 64 * PAGE);
		rig_merge(&rig, frames, 0, 64);
		for (i = 0; i < 64; i++)
			assert_int_equal(pddi_memory_address(&rig.memory, i)[99], 7);
		rig_fini(&rig);
	}
}

/* --- refusals --- */

/* Pages that another process shares are refused, those around them are held. */
static void test_refusal_in_the_middle(void **state)
{
	static struct rig rig;
	struct pdd_view views[8];
	int pipes[2], i;
	pid_t child;

	rig_init(&rig, 64, 0);
	for (i = 0; i < 64; i++)
		memset(pddi_memory_address(&rig.memory, (uint64_t)i), i + 1, PAGE);
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		char c;

		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) != 0);
	}
	close(pipes[0]);
	/* Written after the fork, a page is ours alone; 10 and 20..29 are not written. */
	for (i = 0; i < 64; i++)
		if (i != 10 && (i < 20 || i > 29))
			pddi_memory_address(&rig.memory, (uint64_t)i)[5] = 7;
	assert_int_equal(rig_hold(&rig, views, 8, 0, 64), 5);
	for (i = 0; i < 5; i++) {
		static const uint64_t npages[] = { 10, 1, 9, 10, 34 };

		assert_int_equal(views[i].npages, npages[i]);
		assert_int_equal(views[i].kind, i % 2 ? PDD_PAGE_REFUSED : PDD_PAGE_PRIVATE);
		assert_int_equal(views[i].reason, i % 2 ? PDD_REASON_PINNED : PDD_REASON_NONE);
	}
	pddi_memory_address(&rig.memory, 25)[0] = 1; /* a refused page's writer passes */
	pddi_hold_release(&rig.hold, 0, 64);
	for (i = 0; i < 64; i++)
		assert_int_equal(pddi_memory_address(&rig.memory, (uint64_t)i)[9], i + 1);
	/* With room for two views, the rest is not held and its writers pass. */
	assert_int_equal(rig_hold(&rig, views, 2, 0, 64), 2);
	memset(pddi_memory_address(&rig.memory, 11), 0, 53 * PAGE);
	pddi_hold_release(&rig.hold, 0, 11);
	assert_null(rig.hold.memory);
	close(pipes[1]);
	waitpid(child, NULL, 0);
	rig_fini(&rig);
}

/* Protecting a place where nothing is, or where a frame is shown, holds nothing. */
static void test_protection_refuses(void **state)
{
	static struct rig rig;
	struct pdd_frame *frames[4];
	struct pdd_view views[8];
	unsigned char *hole;

	rig_init(&rig, 16, PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE);
	memset(pddi_memory_address(&rig.memory, 0), 1, 16 * PAGE);
	hole = pddi_memory_address(&rig.memory, 3);
	madvise(hole, PAGE, MADV_DONTNEED);
	rig_merge(&rig, frames, 8, 4);
	pddi_memory_address(&rig.memory, 9)[0] = 2;

	assert_int_equal(rig_hold(&rig, views, 8, 0, 12), 6);
	assert_int_equal(views[0].npages, 3);
	assert_int_equal(views[1].kind, PDD_PAGE_REFUSED);
	assert_int_equal(views[1].reason, PDD_REASON_ABSENT);
	assert_int_equal(views[2].npages, 4);
	assert_int_equal(views[3].kind, PDD_PAGE_REFUSED);
	assert_int_equal(views[3].reason, PDD_REASON_CHANGED);
	assert_int_equal(views[4].kind, PDD_PAGE_PRIVATE);
	assert_int_equal(views[4].npages, 1);
	assert_int_equal(views[5].kind, PDD_PAGE_REFUSED);
	assert_int_equal(views[5].npages, 2);
	/* Writers of what is not held pass. */
	hole[0] = 3;
	pddi_memory_address(&rig.memory, 11)[0] = 4;
	pddi_hold_release(&rig.hold, 0, 12);
	assert_null(rig.hold.memory);
	assert_int_equal(rig_kind(&rig, 8), PDD_PAGE_SHARED);
	assert_int_equal(hole[0], 3);
	assert_int_equal(hole[1], 0);
	rig_fini(&rig);
}

/* --- what it costs --- */

static double measure(uint32_t flags, uint32_t run, bool map)
{
	static struct rig rig;
	static struct pdd_frame *frames[16384];
	uint32_t npages = 16384, at, i;
	uint64_t begin, spent;

	rig_init(&rig, npages, flags);
	for (at = 0; at < npages; at++)
		memset(pddi_memory_address(&rig.memory, at), 3, PAGE);
	for (at = 0; at < npages; at += 512)
		assert_int_equal(rig_create(&rig, frames + at, at, 512), 512);
	for (at = 0; at < npages; at++) /* read once: not what is measured */
		assert_int_equal(*(const char *)pddi_frame_content(&rig.store, frames[at]), 3);
	begin = now_ns();
	/* Every second run, so that each costs its mappings. */
	for (at = 0; at < npages; at += 2 * run) {
		struct pdd_view views[2];

		if (rig_hold(&rig, views, 2, at, run) != 1 || views[0].npages != run)
			fail();
		if (!map)
			pddi_hold_release(&rig.hold, at, run);
		else if (rig_map(&rig, at, frames + at, run) != (int)run)
			fail();
	}
	spent = now_ns() - begin;
	for (i = 0; i < npages; i++)
		pddi_store_free(&rig.store, frames[i]);
	rig_fini(&rig);
	return (double)spent / 1000.0 / (npages / 2);
}

static void test_cost(void **state)
{
	static const uint32_t runs[] = { 1, 4, 32, 256 };
	size_t i;

	printf("microseconds per page, by length of the run\n"
	       "     run   move+map  move+release  protect+map  protect+release\n");
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		uint32_t guard = PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE;

		printf("%8u %10.2f %13.2f %12.2f %16.2f\n", runs[i], measure(0, runs[i], true),
		       measure(0, runs[i], false), measure(guard, runs[i], true),
		       measure(guard, runs[i], false));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waiters),
		cmocka_unit_test(test_mixed_endings),
		cmocka_unit_test(test_several_mappings),
		cmocka_unit_test(test_refusal_in_the_middle),
		cmocka_unit_test(test_protection_refuses),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_move_without_protection),
		cmocka_unit_test(test_protection_only),
		cmocka_unit_test(test_cost),
	};
	struct pddi_probe probe;
	bool able;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.facilities.write_protect;
	fputs(probe.missing, stdout);
	pddi_probe_fini(&probe);
	if (!able) {
		printf("skipped: pages cannot be held in both ways here\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
