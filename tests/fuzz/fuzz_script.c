/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_script.c - a script of operations on simulated memory. After each of them sim_verify()
 * compares all contents with the model (support/model.h) and walks all structures; hooks check at
 * every call that the library keeps to their contract. A script may end with the quiet phase, which
 * proves that everything that can be shared is.
 *
 * Input: HEADER bytes of options, then operations, each a byte for its kind and what it needs.
 * Misfortune is an operation of its own: it strikes in the next one, at a hook that is counted, so
 * that bytes behind it mean what they meant without it.
 *
 * Worlds are small, a few regions of up to 32 pages of 8 to 64 bytes, so that scripts are run by
 * the thousand each second.
 */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "fuzz.h"
#include "model.h"
#include "scanner_internal.h"

#define HEADER 8u
#define REGION_PAGES 16u
#define TOLD_MAX 2048u

struct script {
	struct model model; /* sim->test */
	struct pdd_object objects[2];
	bool quiesced;
	bool quiet_phase;
	bool struck; /* misfortune is under way */
};

static struct script *script_of(const struct sim *sim)
{
	return (struct script *)sim->test; /* first member */
}

/* ---- misfortune ---- */

static void prepare_misfortune(struct sim *sim)
{
	static const int errors[] = { 0, -EBUSY, -EAGAIN, -ENOMEM, -ENOSPC, -EIO };
	struct script *script = script_of(sim);

	switch (model_choose(sim, 4)) {
	case 0: /* one call fails */
		sim->fail_errno = errors[model_choose(sim, sizeof(errors) / sizeof(errors[0]))];
		sim->fail_at = sim->fallible + 1 + model_choose(sim, 64);
		break;
	case 1: /* part of a range is done, the call after it fails */
		sim->part_once = 1 + model_choose(sim, REGION_PAGES);
		break;
	case 2: /* another thread writes */
		script->model.write_in = 1 + model_choose(sim, 256);
		break;
	case 3: /* anything may go wrong */
		sim->random = model_choose(sim, 256);
		sim->fail_chance = sim->random % 2 ? 0.02 : 0.2;
		sim->partial = true;
		break;
	}
	script->struck = true;
}

static void end_misfortune(struct sim *sim)
{
	struct script *script = script_of(sim);

	sim->fail_at = sim->part_once = script->model.write_in = 0;
	sim->fail_chance = 0;
	sim->fail_errno = 0;
	sim->partial = false;
	script->struck = false;
}

/* ---- reverse walks ---- */

struct told {
	const struct sim_frame *frame;
	uint64_t sharers, n;
	struct {
		enum pdd_mapping mapping;
		const struct sim_region *region;
		uint64_t page;
	} of[TOLD_MAX];
};

static bool note(void *ctx, enum pdd_mapping mapping, struct pdd_region *region, uint64_t page)
{
	struct told *told = ctx;

	told->sharers += mapping == PDD_MAPPING_SHARER;
	told->of[told->n].mapping = mapping;
	told->of[told->n].region = (const struct sim_region *)(const void *)region;
	told->of[told->n].page = page;
	return ++told->n < TOLD_MAX;
}

static void check_told(const struct told *told, uint64_t i)
{
	struct pdd_explanation is = { .size = sizeof(is) };
	const struct sim_region *region = told->of[i].region;

	fuzz_require(pdd_region_explain(&region->region, told->of[i].page, &is) == 0);
	fuzz_require((is.frame == &told->frame->frame) ==
		     (told->of[i].mapping == PDD_MAPPING_SHARER));
	if (told->of[i].mapping == PDD_MAPPING_CLONE)
		fuzz_require(region->pages[told->of[i].page].frame == told->frame);
}

/* All sharers are told of, once each, and clones that are some. */
static void walk(struct sim *sim)
{
	struct pdd_rmap_room room[8];
	struct pdd_rmap_result result;
	struct sim_frame *frame = sim->frames;
	struct told told;
	uint64_t n = model_choose(sim, 8);

	while (frame && (frame->dropped || frame->foreign || (n && n-- && frame->next)))
		frame = frame->next;
	if (!frame)
		return;
	script_of(sim)->model.write_in = 0; /* what was told would not be so any more */
	told.frame = frame;
	told.sharers = told.n = 0;
	sim->stepping = true; /* hooks are called as in a step */
	fuzz_require(pdd_rmap_walk(&sim->scanner, &result, &frame->frame, room,
				   1 + model_choose(sim, 8), note, &told) == 0);
	sim->stepping = false;
	fuzz_require(result.hits == told.n && result.visits >= told.n);
	fuzz_require(result.stopped || told.sharers == pdd_frame_sharers(&frame->frame));
	for (uint64_t i = 0; i < told.n; i++)
		check_told(&told, i);
}

static void attach_or_detach(struct sim *sim)
{
	struct script *script = script_of(sim);
	struct sim_region *region = model_pick_region(sim);
	struct pdd_object *object = &script->objects[model_choose(sim, 2)];
	bool attached = region && region->region.priv.object;
	uint64_t place = model_choose(sim, 64);

	if (!region)
		return;
	if (place == 63)
		fuzz_require(pdd_region_detach(&region->region) == (attached ? 0 : -EINVAL));
	else
		fuzz_require(pdd_region_attach(&region->region, object, place) ==
			     (attached ? -EBUSY : 0));
}

/* ---- operations that the model does not have ---- */

static void quiesce_or_resume(struct sim *sim)
{
	struct script *script = script_of(sim);

	script->quiesced = !script->quiesced;
	if (script->quiesced)
		fuzz_require(pdd_scanner_quiesce(&sim->scanner));
	else
		pdd_scanner_resume(&sim->scanner);
}

static void move_region(struct sim *sim)
{
	struct sim_region *region = model_pick_region(sim);

	if (region)
		fuzz_require(pdd_region_move(&region->region, model_choose(sim, 256)) == 0);
}

static void step_until_deadline(struct sim *sim)
{
	uint64_t pages = 1 + model_choose(sim, 32);

	sim->ns_per_hook = model_choose(sim, 3);
	sim->ns_per_page = model_choose(sim, 2);
	sim_step_until(sim, pages, 1 + sim->now + model_choose(sim, 64));
}

static void change_views(struct sim *sim)
{
	sim->max_views = model_choose(sim, 4);
	sim->single_views = model_choose(sim, 2);
}

static void operate(struct sim *sim)
{
	uint64_t kind = model_choose(sim, 256);
	bool struck = script_of(sim)->struck;

	if (kind < 200)
		model_operate(sim, kind / 2);
	else if (kind < 204)
		quiesce_or_resume(sim);
	else if (kind < 208)
		move_region(sim);
	else if (kind < 216)
		attach_or_detach(sim);
	else if (kind < 224)
		walk(sim);
	else if (kind < 230)
		step_until_deadline(sim);
	else if (kind < 232)
		change_views(sim);
	else
		prepare_misfortune(sim);
	if (kind >= 200)
		sim_verify(sim);
	if (struck)
		end_misfortune(sim);
}

/* ---- worlds ---- */

static struct sim_options read_options(const uint8_t *header)
{
	static const uint32_t shifts[] = { 6, 3, 4 };
	static const enum sim_checksum checksums[] = {
		SIM_CHECKSUM_DEFAULT, SIM_CHECKSUM_2_BITS, SIM_CHECKSUM_DEFAULT, SIM_CHECKSUM_ZERO
	};

	return (struct sim_options){
		.page_shift = shifts[header[0] % 3],
		.keep_zero_pages = header[0] & 4,
		.one_look = header[0] & 8,
		.tracked = header[0] & 16,
		.no_zero_map = header[0] & 32,
		.nodes_apart = header[0] & 64,
		.no_refile = header[0] & 128,
		.limit = 2 + header[1] % 5,
		.nroots = 64, /* it grows to them */
		.first_nroots = 1 + header[2] % 5,
		.checksum = checksums[header[2] / 8 % 4],
		.no_discard = header[2] & 32,
		.index = header[2] & 64 ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
		.aging = (enum pdd_aging)(header[3] % (PDD_AGING_EPOCH + 1)),
		.max_period = header[3] / 4 % 8 == 7 ? 0 : 1u << header[3] / 4 % 8,
	};
}

static void set_up_script(struct script *script, struct sim *sim, const uint8_t *header)
{
	script->model.region_pages = REGION_PAGES;
	script->model.small = header[4] % 16 != 15;
	script->model.gone_frames = header[4] & 32;
	script->model.ncontents = 2 + header[5] % (MODEL_CONTENTS - 1);
	script->quiet_phase = header[5] >= 240 && script->model.small; /* it takes long */
	if (sim->options.checksum)
		sim->fail_mask |= UINT64_C(1) << SIM_CHECKSUM;
	if (script->model.gone_frames && header[4] & 64)
		sim->fail_mask |= UINT64_C(1) << SIM_FRAME_CONTENT;
	sim->random = 0;
	sim->test = &script->model;
	sim->at = model_at_hook;
}

/* A region of contents that go round. */
static void add_first(struct sim *sim, uint32_t domain, uint8_t what)
{
	const struct model *model = sim->test;
	struct sim_space *space = sim_space_add(sim, domain);
	uint64_t npages = 8 + what % 8 * 3;
	struct sim_region *region = sim_region_add_with(space, npages, 32, what & 8);

	for (uint64_t i = 0; i < npages && what & 16; i++)
		sim_write(region, i, model_content(i % model->ncontents));
}

static void play(struct sim *sim, struct script *script)
{
	while (script->model.bytes < script->model.end)
		operate(sim);
	end_misfortune(sim);
	if (script->quiesced)
		quiesce_or_resume(sim);
	script->model.bytes = NULL; /* they are used up */
	if (script->quiet_phase && pddi_max_period(&sim->scanner) <= 2)
		model_quiet_phase(sim);
	sim->at = NULL;
	sim_destroy(sim);
	fuzz_require(!pdd_object_regions(&script->objects[0]));
	fuzz_require(!pdd_object_regions(&script->objects[1]));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	sim_seed_set(0);
	return setenv("CMOCKA_TEST_ABORT", "1", 1); /* what fails ends the process */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = fuzz_bytes(data, size);
	struct script script = { .quiesced = false };
	struct sim_options options;
	struct sim *sim;

	if (fuzz_left(&bytes) <= HEADER)
		return 0;
	options = read_options(data);
	sim = sim_create(&options);
	set_up_script(&script, sim, data);
	script.model.bytes = bytes.at + HEADER;
	script.model.end = bytes.end;
	if (data[6])
		add_first(sim, 0, data[6]);
	if (data[7])
		add_first(sim, data[7] / 32 % MODEL_DOMAINS, data[7]);
	play(sim, &script);
	return 0;
}
