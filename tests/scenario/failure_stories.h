/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failure_stories.h - what tests have in common that tell a story again and again, in which the
 * k-th call of a hook that may fail does so, for every k until there is no k-th call, and in every
 * way that ops.h allows.
 */
#ifndef PDD_TEST_FAILURE_STORIES_H
#define PDD_TEST_FAILURE_STORIES_H

#include <errno.h>

#include "sim.h"

#define BIT(hook) (UINT64_C(1) << (hook))

/* How a call ends: with an error, with 0 for a count, or after one page, or all but one, of
 * several. Hooks that answer yes or no, or with a pointer, say no. */
struct outcome {
	int error;
	uint64_t done;
};

static const struct outcome outcomes[] = {
	{SIM_ANSWER_0, 0}, {-EBUSY, 0}, {-EAGAIN, 0}, {-ENOMEM, 0},
	{-ENOSPC, 0},	   {-EIO, 0},	{0, 1},	      {0, SIM_ALL_BUT_ONE},
};

#define OUTCOMES (sizeof(outcomes) / sizeof(outcomes[0]))

/* n calls, the k-th from now on and those behind it, end so. mask: of which hooks; 0: all that the
 * simulation has fail by default. */
static inline void fail_calls(struct sim *sim, uint64_t mask, uint64_t k, uint64_t n,
			      const struct outcome *outcome)
{
	if (mask)
		sim->fail_mask = mask;
	sim->fail_errno = outcome->error;
	sim->fail_short = outcome->done;
	sim->fallible = 0;
	sim->fail_at = k;
	sim->fail_times = n;
}

/* A story: what is there, what goes on while a hook fails, and what must have become of it after
 * some passes in which none does. */
struct story {
	struct sim_options options;
	void (*begin)(struct sim *sim);
	void (*act)(struct sim *sim);
	void (*check)(struct sim *sim);
};

/* Whether there was a k-th call, which failed, and n - 1 behind it. */
static inline bool tell(const struct story *story, uint64_t mask, uint64_t k,
			const struct outcome *outcome, uint64_t n, bool partial)
{
	struct sim_options options = story->options;
	struct sim *sim;
	bool failed;

	options.aging = PDD_AGING_NONE;
	sim = sim_create(&options);
	story->begin(sim);
	sim->partial = partial;
	fail_calls(sim, mask, k, n, outcome);
	story->act(sim);
	sim_verify(sim);
	failed = sim->fallible >= k;
	sim->fail_at = 0;
	sim->partial = false;
	sim_passes(sim, 2); /* the end of this one, and one that comes by all */
	sim_settle(sim, 10);
	if (!(mask & BIT(SIM_FRAME_CONTENT))) /* else some pages show a lost frame */
		story->check(sim);
	sim_destroy(sim);
	return failed;
}

/* Every call, in every way, and n - 1 behind it. The number of times that the story was told with a
 * failure in it. */
static inline uint64_t tell_of_all(const struct story *story, uint64_t mask, uint64_t n,
				   bool partial)
{
	uint64_t told = 0;

	for (unsigned i = 0; i < OUTCOMES; i++)
		for (uint64_t k = 1; tell(story, mask, k, &outcomes[i], n, partial); k++)
			told++;
	return told;
}

/* A frame is lost, at every look at it. */
static inline void tell_of_lost_frames(const struct story *story)
{
	uint64_t k = 1;

	while (tell(story, BIT(SIM_FRAME_CONTENT), k, &outcomes[0], 1, false))
		k++;
	assert_true(k > 1);
}

#endif
