/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * micro_chain.c - a chain of n frames, against a list (BSD's TAILQ) that is searched for a frame
 * with room, from its head.
 *
 *	fill      pages join until all frames are full: pick, reserve, update. A frame has room for
 *	          255 more
 *	churn     in a full chain a page leaves a random frame, and another one joins
 *	insert    a full frame comes and goes: insert, remove
 *	handover  the leader goes and comes back as a dup; in the list the first frame as the last
 *
 * Sharers are places here, not items: linking an item into a list of sharers costs both the same.
 */
#include <stdlib.h>

#include <bsd/sys/queue.h>

#include <pagededup/chain.h>

#include "micro.h"

#define LIMIT PDD_MAX_PAGE_SHARING
#define STEPS 4096u /* of a run, but for fill */

static const uint64_t sizes[] = { 8, 64, 1024, 0 };

struct list_frame {
	TAILQ_ENTRY(list_frame) link;
	uint32_t nplaces;
	uint32_t rest[11]; /* as large as a frame of the chain */
};

_Static_assert(sizeof(struct list_frame) == sizeof(struct pdd_frame), "the same memory");

TAILQ_HEAD(list, list_frame);

/* Frame n is the one that comes and goes. */
struct state {
	uint64_t n;
	struct pdd_frame *own;
	struct pdd_frame *leader;
	struct list_frame *frames;
	struct list list;
	uint32_t random[STEPS];
};

/* ---- what is measured ---- */

static inline bool own_join(struct state *s)
{
	struct pdd_frame *frame = pdd_chain_pick(s->leader, LIMIT);

	if (!frame)
		return false;
	pdd_frame_reserve(frame);
	pdd_chain_update(s->leader, frame, LIMIT);
	return true;
}

static inline bool list_join(struct state *s)
{
	struct list_frame *frame;

	TAILQ_FOREACH(frame, &s->list, link)
		if (frame->nplaces < LIMIT)
			break;
	if (!frame)
		return false;
	frame->nplaces++;
	return true;
}

static uint64_t own_fill(void *state, uint64_t n)
{
	uint64_t joined = 0;

	for (uint64_t i = 0; i < n; i++)
		joined += own_join(state);
	return joined;
}

static uint64_t list_fill(void *state, uint64_t n)
{
	uint64_t joined = 0;

	for (uint64_t i = 0; i < n; i++)
		joined += list_join(state);
	return joined;
}

static uint64_t own_churn(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t joined = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct pdd_frame *frame = &s->own[s->random[i]];

		pdd_frame_unreserve(frame);
		pdd_chain_update(s->leader, frame, LIMIT);
		joined += own_join(s);
	}
	return joined;
}

static uint64_t list_churn(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t joined = 0;

	for (uint64_t i = 0; i < n; i++) {
		s->frames[s->random[i]].nplaces--;
		joined += list_join(s);
	}
	return joined;
}

static uint64_t own_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t dups = 0;

	for (uint64_t i = 0; i < n; i++) {
		pdd_chain_insert(s->leader, &s->own[s->n], LIMIT);
		dups += pdd_frame_is_dup(&s->own[s->n]);
		pdd_chain_remove(s->leader, &s->own[s->n]);
	}
	return dups;
}

static uint64_t list_insert(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t last = 0;

	for (uint64_t i = 0; i < n; i++) {
		TAILQ_INSERT_TAIL(&s->list, &s->frames[s->n], link);
		last += TAILQ_LAST(&s->list, list) == &s->frames[s->n];
		TAILQ_REMOVE(&s->list, &s->frames[s->n], link);
	}
	return last;
}

static uint64_t own_handover(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t heirs = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct pdd_frame *old = s->leader;

		s->leader = pdd_chain_handover(old);
		heirs += s->leader && s->leader != old;
		pdd_chain_insert(s->leader, old, LIMIT);
	}
	return heirs;
}

static uint64_t list_handover(void *state, uint64_t n)
{
	struct state *s = state;
	uint64_t heirs = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct list_frame *old = TAILQ_FIRST(&s->list);

		TAILQ_REMOVE(&s->list, old, link);
		heirs += TAILQ_FIRST(&s->list) != NULL;
		TAILQ_INSERT_TAIL(&s->list, old, link);
	}
	return heirs;
}

/* ---- before and after ---- */

static void teardown(void *state)
{
	struct state *s = state;

	free(s->own);
	free(s->frames);
	free(s);
}

static void *setup(uint64_t n, uint64_t *iterations)
{
	struct state *s = calloc(1, sizeof(*s));

	*iterations = STEPS;
	if (!s)
		return NULL;
	s->n = n;
	s->own = calloc(n + 1, sizeof(*s->own));
	s->frames = calloc(n + 1, sizeof(*s->frames));
	if (!s->own || !s->frames) {
		teardown(s);
		return NULL;
	}
	for (uint64_t i = 0; i < STEPS; i++)
		s->random[i] = (uint32_t)(micro_key(i) % n);
	return s;
}

static void *setup_fill(uint64_t n, uint64_t *iterations)
{
	void *state = setup(n, iterations);

	*iterations = n * (LIMIT - 1);
	return state;
}

/* Both with the same places in each frame. */
static void build(struct state *s, uint32_t nplaces)
{
	TAILQ_INIT(&s->list);
	for (uint64_t i = 0; i <= s->n; i++) {
		pdd_frame_init(&s->own[i], 1, 0, 0);
		s->frames[i].nplaces = nplaces;
		for (uint32_t j = 0; j < nplaces; j++)
			pdd_frame_reserve(&s->own[i]);
		if (i == s->n)
			break;
		TAILQ_INSERT_TAIL(&s->list, &s->frames[i], link);
		if (i > 0)
			pdd_chain_insert(&s->own[0], &s->own[i], LIMIT);
	}
	s->leader = &s->own[0];
}

static void prepare_empty(void *state)
{
	build(state, 1);
}

static void prepare_full(void *state)
{
	build(state, LIMIT);
}

static bool own_is_full(struct state *s)
{
	for (uint64_t i = 0; i < s->n; i++)
		if (pdd_frame_places(&s->own[i]) != LIMIT)
			return false;
	return pdd_chain_check(s->leader, NULL) == (int64_t)s->n && !own_join(s);
}

static bool list_is_full(struct state *s)
{
	const struct list_frame *frame;
	uint64_t n = 0;

	TAILQ_FOREACH(frame, &s->list, link)
		n += frame->nplaces == LIMIT;
	return n == s->n && !list_join(s);
}

static bool own_filled(void *state, uint64_t result)
{
	struct state *s = state;

	return result == s->n * (LIMIT - 1) && own_is_full(s);
}

static bool list_filled(void *state, uint64_t result)
{
	struct state *s = state;

	return result == s->n * (LIMIT - 1) && list_is_full(s);
}

static bool own_went_on(void *state, uint64_t result)
{
	return result == STEPS && own_is_full(state);
}

static bool list_went_on(void *state, uint64_t result)
{
	return result == STEPS && list_is_full(state);
}

#define BOTH(operation, setup, prepare, check) \
	{ "chain/" #operation "/pagededup", sizes, setup, prepare, own_##operation, own_##check, \
	  teardown }, \
	{ "chain/" #operation "/list", sizes, setup, prepare, list_##operation, list_##check, \
	  teardown }

static const struct micro_case cases[] = {
	BOTH(fill, setup_fill, prepare_empty, filled),
	BOTH(churn, setup, prepare_full, went_on),
	BOTH(insert, setup, prepare_full, went_on),
	BOTH(handover, setup, prepare_full, went_on),
};
MICRO_CASES(cases)
