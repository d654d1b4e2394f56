/* SPDX-License-Identifier: BSD-2-Clause */
/* contention_world.c - see contention_world.h. */
#define _POSIX_C_SOURCE 200809L

#include "contention_world.h"

#include <stdio.h>
#include <string.h>

const char *const world_lock_names[LOCK_KINDS] = { "try", "wait", "baseline-try" };

int world_wrong(const struct world *world, const char *what)
{
	fprintf(stderr, "bench_contention: %s, %s: %s\n", world_lock_names[world->kind],
		world->contended ? "contended" : "uncontended", what);
	return -1;
}

/* ---- passes ---- */

/* One step; whether it ended a pass. More tries than pages would be waiting in disguise. */
static int step(struct world *world)
{
	const struct pdd_budget budget = { .pages = STEP_PAGES };
	const struct host_space *spaces = world->host.spaces;
	uint64_t tries = spaces[0].tries + spaces[1].tries, begin = bench_now_ns();
	double seconds;
	int ended;

	if (world->kind == LOCK_TRY)
		ended = pdd_scanner_step(&world->scanner, &world->worker, &budget);
	else
		ended = ksm_scan_step(&world->scan, STEP_PAGES) ? PDD_STEP_PASS : PDD_STEP_MORE;
	seconds = (double)(bench_now_ns() - begin) * 1e-9;
	if (world->contended && seconds > world->max_step_s)
		world->max_step_s = seconds;
	if (world->kind == LOCK_TRY && spaces[0].tries + spaces[1].tries - tries > STEP_PAGES)
		return world_wrong(world, "a step tries locks again and again");
	return ended;
}

int world_pass(struct world *world, double *seconds)
{
	uint64_t begin = bench_now_ns();
	int ended;

	world->host.pass++;
	do
		ended = step(world);
	while (ended == PDD_STEP_MORE);
	*seconds += (double)(bench_now_ns() - begin) * 1e-9;
	return ended == PDD_STEP_PASS ? 0 : -1;
}

void world_rewrite_victim(struct world *world)
{
	uint64_t base = CONTENDER_PAGES + world->writes++ * VICTIM_CONTENTS;

	for (uint64_t i = 0; i < VICTIM_PAGES; i++)
		host_write(&world->host.spaces[VICTIM], i, base + i % VICTIM_CONTENTS);
}

void world_contend(struct world *world, bool contended)
{
	struct host_space *contender = &world->host.spaces[CONTENDER];

	contenders_use(world->contenders, contended ? &contender->lock : NULL);
	world->contended = contended;
}

/* ---- the world ---- */

static int start_library(struct world *world)
{
	static const unsigned char secret[PDD_SECRET_LEN_MAX] = { 2, 7, 1, 8 };
	struct pdd_tunables tunables;
	const struct pdd_scanner_options options = {
		.size = sizeof(options), .flags = PDD_SCANNER_UNIFORM_CHECKSUM,
		.roots = world->roots, .nroots = NROOTS, .secret = secret,
		.secret_len = sizeof(secret), .tunables = &tunables,
	};
	int err;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	err = pdd_scanner_init(&world->scanner, &host_ops, &world->host, &options);
	for (unsigned i = 0; i < 2 && !err; i++) {
		struct host_space *space = &world->host.spaces[i];

		err = pdd_space_add(&world->scanner, &space->space, 0);
		if (!err)
			err = pdd_region_add(&space->space, &space->region, 0, space->npages,
					     world->extents[i], world->items[i]);
	}
	return err;
}

static void start_baseline(struct world *world)
{
	const struct ksm_scan_options options = {
		.page_size = HOST_PAGE_BYTES,
		.space_lock = world->kind == LOCK_WAIT ? host_space_lock : NULL,
	};

	ksm_scan_init(&world->scan, &host_ops, &world->host, &options);
	for (unsigned i = 0; i < 2; i++) {
		struct host_space *space = &world->host.spaces[i];

		ksm_scan_add(&world->scan, &world->regions[i], &space->space, &space->region,
			     world->ksm_items[i], space->npages);
	}
}

int world_start(struct world *world, enum lock_kind kind, struct contenders *contenders)
{
	static const uint64_t npages[2] = { CONTENDER_PAGES, VICTIM_PAGES };

	memset(world, 0, sizeof(*world));
	world->kind = kind;
	world->contenders = contenders;
	if (host_init(&world->host, npages, VICTIM_PAGES))
		return -1;
	for (uint64_t i = 0; i < CONTENDER_PAGES; i++)
		host_write(&world->host.spaces[CONTENDER], i, i);
	if (world->kind == LOCK_TRY)
		return start_library(world);
	start_baseline(world);
	return 0;
}

int world_stop(struct world *world)
{
	struct host_space *spaces = world->host.spaces;
	int err = 0;

	world_contend(world, false);
	if (world->kind != LOCK_TRY)
		ksm_scan_fini(&world->scan);
	for (unsigned i = 0; i < 2 && world->kind == LOCK_TRY; i++) {
		while (pdd_space_unmerge(&spaces[i].space, UINT64_MAX) > 0)
			;
		err |= pdd_region_remove(&spaces[i].region) || pdd_space_remove(&spaces[i].space);
	}
	if (err || world->host.nused || host_wrong_pages(&spaces[VICTIM]))
		err = world_wrong(world, "not all was unmerged");
	host_fini(&world->host);
	return err;
}

