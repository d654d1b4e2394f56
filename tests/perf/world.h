/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h - a plain embedder that counts the calls of its hooks, for scenarios whose cost is exact.
 *
 * Contents are real memory that is really read, copied and compared; what a page shows is a
 * pointer. Nothing is random, nothing depends on time or on addresses, so the same build does the
 * same work to the instruction. Nothing writes while a step runs, so holding a page needs to do
 * nothing.
 *
 * The hooks do as little as they can, since their instructions are counted with the library's.
 * What cannot be done at all, such as an allocation, aborts.
 */
#ifndef PDD_PERF_WORLD_H
#define PDD_PERF_WORLD_H

#include <pagededup/scanner.h>

#define PAGE_BYTES 4096u
#define STEP_PAGES 4096u /* of each step, so that a pass is several */
#define WORLD_SPACES 4u
#define WORLD_REGIONS 128u

/* Hooks whose calls are counted. A space_trylock that says busy counts, too. */
#define WORLD_HOOKS(X) \
	X(space_trylock) \
	X(pages_written) \
	X(pages_get) \
	X(checksum) \
	X(frames_create) \
	X(frame_content) \
	X(hold) \
	X(release) \
	X(frames_map) \
	X(zero_map) \
	X(frame_free) \
	X(frame_is_mapped) \
	X(lock)

enum world_hook {
#define X(hook) WORLD_##hook,
	WORLD_HOOKS(X)
#undef X
	WORLD_NHOOKS,
};

struct world_frame {
	struct pdd_frame frame;
	struct world_frame *next; /* of the free ones */
	unsigned char *bytes;
	uint64_t nmaps; /* pages that show it */
};

struct world_space {
	struct pdd_space space;
	uint32_t busy_every; /* the lock is busy at every so many tries; 0: never */
	uint32_t tries;
};

struct world_region {
	struct pdd_region region;
	unsigned char *bytes;       /* own memory of its pages */
	struct world_frame **shows; /* by page; NULL: its own memory */
	uint64_t *contents;         /* what was written, by page */
	uint64_t *written;          /* bits, by page */
	struct pdd_extent *extents;
	struct pdd_item *items;
	uint64_t npages;
	bool cloned; /* its pages came to show frames by a clone */
};

/* What a scenario may choose. */
struct world_options {
	uint64_t nframes; /* that can be made */
	uint64_t nroots;  /* a power of two */
	uint64_t (*checksum)(uint64_t content); /* NULL: XXH3 */
	bool tracked;     /* pages_written */
	bool locked;      /* lock and unlock, as for several threads, though there is one */
	enum pdd_aging aging;
};

struct world {
	struct pdd_scanner scanner;
	struct pdd_worker worker;
	struct world_options options;
	struct pdd_rbroot *roots;
	struct world_space spaces[WORLD_SPACES];
	struct world_region regions[WORLD_REGIONS];
	unsigned nspaces, nregions;
	struct world_frame *frames, *free_frames;
	unsigned char *frame_bytes;
	struct world_frame zero; /* shown where the zero page stands */
	struct pdd_object object;
	uint64_t hits; /* of reverse walks */
	bool is_locked;
	uint64_t calls[WORLD_NHOOKS];
};

struct world *world_create(const struct world_options *options);
void world_destroy(struct world *world);
struct world_space *world_space_add(struct world *world);
/* Pages of content 0, which is all zero. */
struct world_region *world_region_add(struct world *world, struct world_space *space,
				      uint64_t npages);
/* A region of a clone: it shows what the region shows, all of which has to be frames. */
struct world_region *world_region_clone(struct world *world, struct world_space *space,
					const struct world_region *region);
/* The program writes a page: its first word is the content, the rest is zero. */
void world_write(struct world_region *region, uint64_t page, uint64_t content);
/* So many whole passes. */
void world_passes(struct world *world, unsigned n);
/* Walk the reverse map of each frame that the region shows at an even page. */
void world_rmap_walks(struct world *world, const struct world_region *region);
/* All is valid, and each page shows what was written to it; aborts if not. */
void world_check(struct world *world);

/* Private to world*.c. */
extern const struct pdd_ops world_ops;
void world_require(bool condition, const char *what); /* or abort */
void world_show(struct world_region *region, uint64_t page, struct world_frame *frame);

#endif
