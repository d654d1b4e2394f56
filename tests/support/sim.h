/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h - simulated memory: spaces, regions and pages in plain arrays, with hooks that check the
 * contract of ops.h at every call, fail on demand, and let a test act between any two of them.
 *
 * Every page has an expected content, a number that sim_write() sets and sim_fill() makes bytes
 * of. sim_verify() compares what each page shows with it, so a lost or torn write is found at once.
 *
 * A broken contract, a wrong content or a failing pdd_scanner_check() fails the running CMocka test
 * with a message. One thread; a "writer in another thread" is a call of sim_write() in sim->at, and
 * another thread in the library is a call of it there, between two of sim_turn_swap().
 */
#ifndef PDD_TEST_SIM_H
#define PDD_TEST_SIM_H

#include <pagededup/scanner.h>

/* What sim->at is told: a hook is about to act, or has acted. */
enum sim_hook {
	SIM_TRYLOCK = 0,
	SIM_UNLOCK = 1,
	SIM_PAGES_GET = 2,
	SIM_PAGES_PUT = 3,
	SIM_HOLD = 4,
	SIM_RELEASE = 5,
	SIM_FRAMES_CREATE = 6,
	SIM_FRAMES_MAP = 7,
	SIM_FRAMES_UNMAP = 8,
	SIM_FRAME_CONTENT = 9,
	SIM_FRAME_FREE = 10,
	SIM_ZERO_MAP = 11,
	SIM_CHECKSUM = 12,
	SIM_FRAME_IS_MAPPED = 13,
	SIM_FRAMES_REMAP = 14,
	SIM_PAGES_DISCARD = 15,
	SIM_EXTENT_GET = 16,
	SIM_EXTENT_PUT = 17,
	SIM_PAGES_WRITTEN = 18,
	SIM_LOCK_SCANNER = 19, /* before and after: another thread may be in the library */
	SIM_UNLOCK_SCANNER = 20,
	SIM_HOOKS = 21,
};

enum sim_checksum {
	SIM_CHECKSUM_DEFAULT = 0, /* no hook: XXH3 */
	SIM_CHECKSUM_ZERO = 1,    /* 0 for all contents */
	SIM_CHECKSUM_2_BITS = 2,
};

/* Contents: 0 is the zero page; with this bit all words are equal; others have mixed words. */
#define SIM_FILLED (UINT64_C(1) << 32)
#define SIM_TAIL (UINT64_C(1) << 33) /* zeros, but for the last word */

#define SIM_ANSWER_0 1 /* for fail_errno */
#define SIM_ALL_BUT_ONE UINT64_MAX

struct sim_frame {
	struct pdd_frame frame;
	struct sim_frame *next; /* of all that exist, or of those that did */
	struct sim_frame *prev;
	unsigned char *data;
	unsigned char *copy; /* what it must stay */
	uint64_t maps;       /* pages that show it */
	uint32_t domain;
	uint16_t node;       /* NUMA */
	bool foreign; /* not made by the library */
	bool gone;    /* frame_content says NULL */
	bool dropped; /* frame_free came, or frame_content said NULL once */
	bool freed;   /* frame_free came; it exists while pages still show it */
};

/* Where the contents of pages are that one call of hold() holds. */
struct sim_staging {
	uint64_t npages; /* still held */
	unsigned char bytes[];
};

struct sim_page {
	enum pdd_page_kind kind;    /* ABSENT, PRIVATE, SHARED or ZERO */
	struct sim_frame *frame;    /* that a SHARED one shows */
	bool written;               /* since pages_written told of it, or told of never */
	bool cloned;                /* it came to show that, or the zero page, by a clone */
	uint16_t node;              /* NUMA, of a PRIVATE one */
	enum pdd_reason refuse;     /* pages_get and hold refuse it, unless NONE */
	enum pdd_reason hold_refuse; /* only hold does */
	uint64_t expected;          /* content */
	uint32_t gets;              /* between pages_get and pages_put */
	unsigned char *held;        /* where its content is meanwhile */
	struct sim_staging *staging;
	bool write_waits;           /* a write to a held page, done when the hold ends */
	uint64_t waiting;
};

struct sim_region {
	struct pdd_region region;
	struct sim_space *space;
	struct sim_region *next;
	struct sim_page *pages;
	unsigned char *memory; /* of private pages */
	uint64_t npages;
	struct pdd_extent *extents; /* NULL: sparse */
	struct pdd_item *items;
	uint64_t capacity;          /* pages for which the arrays have room */
	uint64_t nblocks;           /* extents on demand that the library has */
	uint64_t number;            /* of all that there were, from 1, for who reads of it */
};

struct sim_space {
	struct pdd_space space;
	struct sim *sim;
	struct sim_space *next;
	struct sim_region *regions;
	uint32_t domain;
	uint64_t number; /* of all that there were, from 1, for who reads of it */
	bool busy;   /* a test holds its lock */
	bool locked; /* a step does */
};

struct sim_options {
	uint32_t page_shift; /* 0: 6 */
	uint32_t limit;      /* 0: 256 */
	uint64_t nroots; /* 0: 64 */
	uint64_t first_nroots; /* 0: nroots */
	enum pdd_aging aging;
	uint32_t max_period; /* 0: by the policy */
	enum pdd_index_policy index;
	bool tracked; /* pages_written */
	enum sim_checksum checksum;
	bool keep_zero_pages;
	bool one_look;
	bool nodes_apart;
	uint32_t prune_ms; /* 0: after each pass, if wanted */
	bool no_zero_map;
	bool no_refile;  /* no frames_remap */
	bool no_clones;  /* no frame_is_mapped */
	bool no_discard; /* no pages_discard */
};

/* What a step, or another call of the library, has open: a thread that stands still in the middle
 * of it, while another one is at work (sim_turn_swap()). */
struct sim_turn {
	struct sim_space *locks[2];
	unsigned nlocks;
	uint64_t ngets, nholds;
	bool stepping;
	/* extents of which it has pages got or held */
	struct {
		const struct sim_region *region;
		uint64_t number;
	} extents[4];
	unsigned nextents;
};

struct sim {
	struct pdd_scanner scanner;
	struct pdd_worker *worker;
	struct sim_options options;
	struct pdd_rbroot *roots;
	size_t page_size;
	struct sim_space *spaces;
	struct sim_frame *frames;
	struct sim_frame *past_frames; /* so that a use after free is seen */
	uint64_t nspaces, nregions;    /* that there were */
	uint64_t random;
	struct {
		uint64_t content;
		unsigned char *bytes; /* that sim_fill() makes of it */
	} filled[16];                 /* so that sim_verify() need not ask anew for each page */

	/* what the step under way has open */
	struct sim_space *locks[2];
	unsigned nlocks;
	uint64_t ngets, nholds;
	bool stepping, verifying;
	bool cut_short; /* the call under way is the one of `fail_short` */
	bool limit_lowered; /* a test did: frames may have more sharers than the limit */

	/* failures */
	uint64_t fail_mask;  /* 1 << enum sim_hook; by default all that may fail, save
			      * SIM_FRAME_CONTENT (the frame is lost) and SIM_CHECKSUM */
	uint64_t fallible;   /* calls so far, but those of sim_verify() */
	uint64_t fail_at;    /* the call that fails, from 1; 0: none */
	uint64_t fail_times; /* calls from that one on that do; 0: 1 */
	double fail_chance;  /* of each call */
	uint64_t risked;     /* calls so far that had a chance to fail */
	uint64_t failed[SIM_HOOKS];
	void (*on_failure)(struct sim *sim, enum sim_hook hook); /* this call is to fail */
	int fail_errno;      /* 0: one at random; SIM_ANSWER_0: no error, but nothing done */
	uint64_t fail_short; /* instead of failing, `fail_at` does at most so many pages of a longer
			      * range; SIM_ALL_BUT_ONE */
	bool partial;        /* chance of a partial result, whenever there can be one */
	uint64_t part_once;  /* the next longer range is done so far, the call after it fails */
	uint64_t max_views;  /* 0: as many as there are */
	bool single_views;   /* one page in each view */

	bool scanner_locked; /* nobody but the step under way may call the library */
	const struct sim_turn *other; /* that stands still: its extents are not to be touched */

	void (*at)(struct sim *sim, enum sim_hook hook, bool before);
	void *test; /* for `at` */
	uint64_t calls[SIM_HOOKS];
	uint64_t held_pages, read_pages; /* given out by hold, by pages_get */
	uint64_t traced[4];              /* pages by enum pdd_event */
	uint64_t now;                    /* the clock; hooks and pages cost time */
	uint64_t ns_per_hook, ns_per_page;
};

/* The seed: PDD_SEED or the time, printed once. Every sim starts from it. */
uint64_t sim_seed(void);
void sim_seed_set(uint64_t seed); /* a failure will name it */
uint64_t sim_random_of(uint64_t *state);
uint64_t sim_random(struct sim *sim, uint64_t below);

struct sim *sim_create(const struct sim_options *options); /* NULL: defaults */
/* Remove everything, and prove that every gauge is 0 and no frame is left. */
void sim_destroy(struct sim *sim);
struct sim_space *sim_space_add(struct sim *sim, uint32_t domain);
void sim_space_remove(struct sim_space *space); /* with its regions */
struct sim_region *sim_region_add(struct sim_space *space, uint64_t npages); /* all absent */
/* With room to grow up to `capacity` pages; or without arrays. */
struct sim_region *sim_region_add_with(struct sim_space *space, uint64_t npages, uint64_t capacity,
				       bool sparse);
void sim_region_resize(struct sim_region *region, uint64_t npages);
/* Its memory goes away, too. */
void sim_region_remove(struct sim_region *region);
/* A fork: a new space of the same domain, in which regions show what they show in this one. Regions
 * that are attached to an object are attached to it in the clone as well. */
struct sim_space *sim_space_clone(struct sim_space *space);
/* The item of a page; NULL if a sparse region has none. */
const struct pdd_item *sim_item(const struct sim_region *region, uint64_t page);

void sim_fill(const struct sim *sim, void *page, uint64_t content);
/* A write by the program: of a held page it waits, of a frame or the zero page it copies. */
void sim_write(struct sim_region *region, uint64_t page, uint64_t content);
/* The memory of a page, or the frame that it shows, moves to another NUMA node. */
void sim_migrate(struct sim_region *region, uint64_t page, uint16_t node);
/* Between steps only: nothing stands there any more. */
void sim_discard(struct sim_region *region, uint64_t page);
/* Between steps only: the page shows this frame, or one that the library knows nothing of. */
void sim_show_foreign(struct sim_region *region, uint64_t page, struct sim_frame *frame);
struct sim_frame *sim_foreign_frame(struct sim *sim, uint64_t content);
const void *sim_content(const struct sim_region *region, uint64_t page);
bool sim_is_shared(const struct sim_region *region, uint64_t page);

/* A step of so many pages, with sim_verify() after it. */
enum pdd_step sim_step(struct sim *sim, uint64_t pages);
enum pdd_step sim_step_until(struct sim *sim, uint64_t pages, uint64_t deadline);
/* Steps until a pass was completed. */
void sim_pass(struct sim *sim, uint64_t pages_per_step);
void sim_passes(struct sim *sim, unsigned n);
/* Passes until one merges nothing and leaves nothing due, at most `most`; their number. */
unsigned sim_settle(struct sim *sim, unsigned most);
/* Where nothing fails any more, after passes until all is settled: what the library knows of each
 * page is what it shows, and what follows from the contents was reached: of n equal pages
 * ceil(n / limit) frames, and pages left alone, remain. Contents below SIM_SETTLED_CONTENTS. */
#define SIM_SETTLED_CONTENTS 4096u
#define SIM_SETTLED_DOMAINS 2u
void sim_assert_settled(const struct sim *sim);
/* With no budget. */
int64_t sim_unmerge(struct sim_region *region, uint64_t first, uint64_t npages);
/* A prune, now and all of it. */
void sim_prune(struct sim *sim);

/* In sim->at, where the scanner's lock is not held: what is open belongs to a thread that stands
 * still from here on, and another one goes on, which has this open; a zeroed turn has nothing. */
void sim_turn_swap(struct sim *sim, struct sim_turn *turn);

/* Contents, the contract between steps, pdd_scanner_check(), statistics against the pages. */
void sim_verify(struct sim *sim);
struct pdd_stats sim_stats(const struct sim *sim);
struct pdd_counts sim_counts(const struct sim_space *space);
enum pdd_reason sim_reason(const struct sim_region *region, uint64_t page);

/* Private to sim*.c. */
extern const struct pdd_ops sim_ops;
#define sim_fail(...) sim_fail_at(__FILE__, __LINE__, __VA_ARGS__)
void sim_fail_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));
unsigned char *sim_memory(const struct sim_region *region, uint64_t page);
void sim_unmap_page(struct sim *sim, struct sim_page *page);
bool sim_turn_uses(const struct sim_turn *turn, const struct sim_region *region, uint64_t number);
struct sim_frame *sim_frame_create(struct sim *sim, const void *content, uint32_t domain);
void sim_frame_destroy(struct sim *sim, struct sim_frame *frame);

#endif
