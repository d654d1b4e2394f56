/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model.h - operations on simulated memory, whatever fails and whoever writes meanwhile, chosen by
 * a random generator or by the bytes of a script.
 *
 * The model is the expected content of each page, which no operation of the library may change.
 * After every operation sim_verify() compares all of it and walks all structures. At the end, in a
 * quiet phase without failures, everything that can be shared must become so: of each content and
 * domain what KSM's formula says.
 *
 * sim->test is the model, sim->at is model_at_hook(), set by the test.
 */
#ifndef PDD_TEST_MODEL_H
#define PDD_TEST_MODEL_H

#include "sim.h"

#define MODEL_CONTENTS 8u
#define MODEL_DOMAINS 2u
#define MODEL_NODES 3u
#define MODEL_DICE 100u

struct model {
	double write_chance;   /* at each hook, if choices are random */
	uint64_t write_in;     /* if they are bytes: after so many hooks, once; 0: not at all */
	uint64_t ncontents;    /* 2 .. MODEL_CONTENTS */
	uint64_t region_pages; /* of most regions, at most */
	bool small;            /* no region is larger than that */
	bool gone_frames;      /* frames may get lost */
	bool writing;
	const unsigned char *bytes; /* what is left of the script; NULL: choices are random */
	const unsigned char *end;
	bool random_meanwhile;      /* what happens at hooks is random all the same */
	bool loud, said;            /* say in words what is done; whether the operation was said */
};

/* A number below another, random or from the script; 0 when that is used up. */
uint64_t model_choose(struct sim *sim, uint64_t below);
/* The contents: zero, same-filled ones, one that ends unlike zero, others. */
uint64_t model_content(uint64_t i);

/* To stderr, if it is loud. */
void model_say(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* NULL if there is none, or the space that was chosen has none. */
struct sim_space *model_pick_space(struct sim *sim);
struct sim_region *model_pick_region(struct sim *sim);
void model_add_region(struct sim *sim);

/* Another thread writes between two hooks, or while one is about to act. */
void model_at_hook(struct sim *sim, enum sim_hook hook, bool before);
/* One operation, of which `dice` says the kind, below MODEL_DICE; then sim_verify(). */
void model_operate(struct sim *sim, uint64_t dice);
/* Ends failures, locks and writes; proves that all is shared, unmerges, and proves it again. */
void model_quiet_phase(struct sim *sim);

#endif
