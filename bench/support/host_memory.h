/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host_memory.h - an embedder for benchmarks: spaces of one region each, in ordinary memory.
 *
 * Contents are real memory that is really read, copied and compared. What a page shows is a
 * pointer: its own memory or a frame, so that mapping costs next to nothing. Every space has a
 * reader-writer lock; the hooks try it for reading. Nothing writes to pages while a step runs, so
 * holding a page needs to do nothing.
 *
 * Both the library and the models of the old algorithm run on it, and it counts for both in the
 * same way: pages whose content went through the checksum, and the locks.
 */
#ifndef BENCH_HOST_MEMORY_H
#define BENCH_HOST_MEMORY_H

#include <pthread.h>

#include <pagededup/scanner.h>

#define HOST_PAGE_BYTES 4096u

struct host_frame {
	struct pdd_frame frame;
	struct host_frame *next; /* of the free ones */
	unsigned char *bytes;
	uint64_t nmaps; /* pages that show it */
};

struct host_page {
	struct host_frame *frame; /* which it shows; NULL: its own memory */
	uint64_t content;         /* what it must show */
	uint64_t last_look;       /* pass */
};

struct host_space {
	struct pdd_space space;
	struct pdd_region region;
	pthread_rwlock_t lock;
	unsigned char *bytes; /* own memory of its pages */
	struct host_page *pages;
	uint64_t npages;
	uint64_t nlocked; /* pages_get and so on come while it is locked */

	/* counters */
	uint64_t tries, misses, waits;
	uint64_t reads;      /* contents that were checksummed */
	uint64_t worst_wait; /* passes between two looks at a page, at most */
};

struct host {
	struct host_space spaces[2];
	struct host_frame *frames; /* all of them */
	struct host_frame *free;
	unsigned char *frame_bytes;
	uint64_t nframes, nused;
	uint64_t pass; /* number of the one under way, set by the benchmark */
};

extern const struct pdd_ops host_ops; /* their ctx is a struct host; checksums are uniform */

/** Memory for so many frames and pages, which are to be written first. 0 or -1. */
int host_init(struct host *host, const uint64_t npages[2], uint64_t nframes);
void host_fini(struct host *host);

/** The program writes a whole page. Different numbers are different contents. */
void host_write(struct host_space *space, uint64_t page, uint64_t content);
/** Pages that do not show what was written last. */
uint64_t host_wrong_pages(const struct host_space *space);
/** Wait for the lock of a space, for reading: what the old algorithm does. Counted in `waits`. */
void host_space_lock(void *ctx, struct pdd_space *space);
/** Begin to watch how many passes the pages of a space wait for a look, and end it. */
void host_waits_begin(struct host *host, struct host_space *space);
uint64_t host_waits_end(struct host *host, struct host_space *space);

#endif
