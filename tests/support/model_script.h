/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model_script.h - rounds of the model as bytes, so that one that fails can be made shorter, kept in
 * a file, and replayed; model_shrink.h does so.
 *
 * A script is a header, of which the world is made, and operations. Each has bytes of its own: its
 * kind, its luck, and what it chooses. All that happens at random while it goes on - which hooks
 * fail, who writes, how much is done of a range - follows from its luck alone. So an operation that
 * is taken out changes nothing in what the others are told to do. Of everything 0 is the simplest;
 * luck 0 is that nothing happens meanwhile.
 *
 * In a file the bytes follow each other as they are.
 */
#ifndef PDD_TEST_MODEL_SCRIPT_H
#define PDD_TEST_MODEL_SCRIPT_H

#include "model.h"

#define MODEL_SCRIPT_HEADER 24u
#define MODEL_SCRIPT_OPERATION 16u

/* Places in the header; the rest is model_script.c's. */
#define MODEL_SCRIPT_SEED 0u     /* 8 bytes, the lowest first */
#define MODEL_SCRIPT_FAILURES 8u /* modulo MODEL_FAILURES */
#define MODEL_SCRIPT_QUIET 9u    /* odd: the quiet phase is its end */

/* Places in an operation. */
#define MODEL_SCRIPT_KIND 0u
#define MODEL_SCRIPT_LUCK 1u /* 2 bytes */
#define MODEL_SCRIPT_CHOICES 3u

/* How often hooks fail. */
#define MODEL_FAILURES 3u
extern const double model_failures[MODEL_FAILURES]; /* 0, 1 %, 20 % */

struct model_script {
	unsigned char header[MODEL_SCRIPT_HEADER];
	unsigned char (*operations)[MODEL_SCRIPT_OPERATION];
	uint64_t n;
};

/* How far it came; kept up to date, so that one that failed tells, too. */
struct model_script_progress {
	uint64_t operations; /* begun */
	bool quiet;          /* the quiet phase has begun */
	bool done;
	uint64_t risked;     /* calls of hooks that could have failed by chance */
	uint64_t failed;     /* of those */
};

/* All of it at random; the seeds share out how often hooks fail: of 9 in a row four have 1 %, four
 * 20 %, one none. */
void model_script_make(struct model_script *script, uint64_t seed, uint64_t noperations);
void model_script_copy(struct model_script *to, const struct model_script *from);
void model_script_free(struct model_script *script);
uint64_t model_script_seed(const struct model_script *script);
/* An index of model_failures. */
unsigned model_script_failures(const struct model_script *script);

/* Do all of it, and fail the CMocka test that runs if something is wrong. `loud`: say in words what
 * is done. */
void model_script_play(const struct model_script *script, struct model_script_progress *progress,
		       bool loud);

/* False, and errno. */
bool model_script_save(const struct model_script *script, const char *path);
bool model_script_load(struct model_script *script, const char *path);

/* Faults that a test plants, NULL: none. After each operation, and at each hook. */
extern void (*model_script_after)(struct sim *sim);
extern void (*model_script_at)(struct sim *sim, enum sim_hook hook, bool before);

#endif
