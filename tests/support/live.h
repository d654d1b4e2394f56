/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live.h - an embedder for tests of several threads: real memory, which threads step over, write
 * and reorganise at the same time. Its hooks check the contract of ops.h at every call.
 *
 * Pages are small (64 bytes), so that many fit. Each has a lock: a writer takes it for one write,
 * and a page that is held is one whose lock a step keeps, so that holding really stops writers.
 * What a page must show is known (`content`, under the same lock), and every write checks it first:
 * a write that got lost is found by the next one, or at the end.
 *
 * A frame is memory of its own. It has a reference for the library, one for each page that shows
 * it, and one for whoever walks it; the last one frees the memory, so that the sanitizers see a use
 * after that.
 *
 * What is broken ends the program with a message and the seed.
 */
#ifndef PDD_TEST_LIVE_H
#define PDD_TEST_LIVE_H

#include <pagededup/scanner.h>
#include <pthread.h>
#include <stdatomic.h>

#define LIVE_PAGE_SHIFT 6u
#define LIVE_WORDS ((1u << LIVE_PAGE_SHIFT) / 8)
#define LIVE_CONTENTS 12u /* that a page goes round by being written */
#define LIVE_REGIONS 4u   /* of a space, at most */
#define LIVE_EXTENTS 8u   /* of a region, at most */

struct live_frame {
	struct pdd_frame frame;
	struct live_frame *next; /* of all */
	struct live_frame *prev;
	atomic_uint refs;
	atomic_uint maps;  /* pages that show it */
	atomic_bool freed; /* frame_free came */
	atomic_bool lost;  /* frame_content says NULL */
	uint32_t domain;
	uint64_t data[LIVE_WORDS];
};

struct live_page {
	atomic_uint lock;    /* number of the thread that has it, 0: none */
	atomic_bool written; /* since pages_written told of it */
	/* under the lock */
	bool held;
	bool cloned; /* it came to show that by a clone */
	uint8_t kind; /* ABSENT, PRIVATE, SHARED or ZERO */
	struct live_frame *frame;
	uint64_t content; /* that it must show */
	/* under the space's lock */
	uint8_t kept_out; /* enum live_kept_out */
};

enum live_kept_out {
	LIVE_OPEN = 0,
	LIVE_PINNED = 1,
	LIVE_EXCLUDED = 2,
};

/* The thread whose step, or walk, has pages of an extent got or held. */
struct live_user {
	atomic_uint thread;
	uint64_t npages; /* its own */
};

struct live_region {
	struct pdd_region region;
	struct live_space *space;
	uint64_t npages;
	uint64_t capacity; /* for which there is memory */
	struct live_page *pages;
	_Atomic(uint64_t) *words; /* of private pages */
	struct pdd_extent *extents; /* NULL: sparse */
	struct pdd_item *items;
	atomic_uint nblocks;
	struct live_user users[LIVE_EXTENTS];
};

struct live_space {
	struct pdd_space space;
	struct live *live;
	pthread_rwlock_t lock; /* its layout: owners write, steps read */
	uint32_t domain;
	struct pdd_object objects[LIVE_REGIONS]; /* what its regions map, and those of clones */
	struct live_region *regions[LIVE_REGIONS];
};

struct live_options {
	uint64_t seed;
	uint64_t nroots;     /* 0: 1024 */
	struct pdd_tunables tunables; /* size 0: the defaults */
	bool two_bits;       /* checksums of 2 bits */
	bool tracked;        /* pages_written */
	bool clones;         /* frame_is_mapped */
	bool no_refile;      /* no frames_remap */
	bool calm;           /* no yielding in hooks */
	unsigned failures;   /* of 1000 calls that may fail */
	unsigned losses;     /* of 10000 calls of frame_content that lose the frame */
};

struct live {
	struct pdd_scanner scanner;
	struct live_options options;
	struct pdd_rbroot *roots;
	pthread_mutex_t lock;        /* the scanner's */
	pthread_mutex_t frames_lock; /* of the list */
	struct live_frame *frames;
	atomic_bool quiet; /* no hook may be called in a step */
	atomic_ulong ncalls, nfailed;
};

struct live *live_create(const struct live_options *options);
/* Everything was removed: prove that all frames went back. Kept ones have until now. */
void live_destroy(struct live *live);

/* A thread begins to use the world; number from 1, its own. */
void live_thread_begin(struct live *live, unsigned number);
uint64_t live_random(uint64_t below); /* of this thread */

struct live_space *live_space_add(struct live *live, uint32_t domain);
void live_space_remove(struct live_space *space); /* with its regions; nobody else uses it */
struct live_region *live_region_add(struct live_space *space, uint64_t npages, bool sparse);
/* The space is locked. Memory goes away, too. */
void live_region_remove(struct live_space *space, unsigned number);
void live_region_resize(struct live_region *region, uint64_t npages);
/* A new space that shows what this one shows, which is locked. */
struct live_space *live_space_clone(struct live_space *space);

/* As an owner. */
void live_space_lock(struct live_space *space);
void live_space_unlock(struct live_space *space);

/* Set the content of a page; go on to its next content, having checked the one before. */
void live_set(struct live_region *region, uint64_t page, uint64_t content);
void live_write(struct live_region *region, uint64_t page);
/* Check what a page shows. */
void live_verify_page(struct live_region *region, uint64_t page);
void live_verify_space(struct live_space *space);

/* A frame that exists, with a reference; NULL: none was found. And give that up. */
struct live_frame *live_frame_pick(struct live *live);
void live_frame_put(struct live *live, struct live_frame *frame);

/* Private to live*.c. */
struct live_thread {
	struct live *live;
	unsigned number;
	uint64_t random;
	bool in_scanner;           /* it has the scanner's lock */
	bool stepping;             /* set by the test */
	struct live_space *reads[4]; /* spaces that it has locked as a step, ... */
	unsigned nreads;
	struct live_space *writes; /* ... as an owner */
	uint64_t nused;            /* pages that it has got or held */
	bool alone;                /* no step is under way, and nobody else at work */
};
extern _Thread_local struct live_thread live_me;
extern const struct pdd_ops live_ops;

#define live_fail(...) live_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void live_fail_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));
#define live_require(condition, what)                \
	do {                                         \
		if (!(condition))                    \
			live_fail("%s", what);       \
	} while (0)

uint64_t live_word(uint64_t content, unsigned i);
void live_page_lock(struct live_page *page);
void live_page_unlock(struct live_page *page);
/* What a page whose lock is held does: give up its frame, or get memory of its own again. */
void live_drop_frame(struct live *live, struct live_page *page);
void live_make_private(struct live_region *region, uint64_t page);

#endif
