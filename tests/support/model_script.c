/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model_script.c - rounds of the model as bytes: made, played, kept.
 */
#include "model_script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double model_failures[MODEL_FAILURES] = { 0, 0.01, 0.2 };
void (*model_script_after)(struct sim *sim);
void (*model_script_at)(struct sim *sim, enum sim_hook hook, bool before);

/* ---- bytes ---- */

static void allocate_operations(struct model_script *script, uint64_t n)
{
	script->n = n;
	script->operations = calloc(n ? n : 1, sizeof(*script->operations));
	if (!script->operations)
		abort();
}

void model_script_make(struct model_script *script, uint64_t seed, uint64_t noperations)
{
	uint64_t state = seed;
	unsigned char *operations;

	allocate_operations(script, noperations);
	operations = (unsigned char *)script->operations;
	for (unsigned i = 0; i < MODEL_SCRIPT_HEADER; i++)
		script->header[i] = (unsigned char)sim_random_of(&state);
	for (unsigned i = 0; i < 8; i++)
		script->header[MODEL_SCRIPT_SEED + i] = (unsigned char)(seed >> 8 * i);
	script->header[MODEL_SCRIPT_FAILURES] = seed % 9 == 8 ? 0 : 1 + seed % 9 % 2;
	script->header[MODEL_SCRIPT_QUIET] = 1;
	for (uint64_t i = 0; i < noperations * MODEL_SCRIPT_OPERATION; i++)
		operations[i] = (unsigned char)sim_random_of(&state);
}

void model_script_copy(struct model_script *to, const struct model_script *from)
{
	memcpy(to->header, from->header, sizeof(to->header));
	allocate_operations(to, from->n);
	memcpy(to->operations, from->operations, from->n * sizeof(*from->operations));
}

void model_script_free(struct model_script *script)
{
	free(script->operations);
	script->operations = NULL;
	script->n = 0;
}

uint64_t model_script_seed(const struct model_script *script)
{
	uint64_t seed = 0;

	for (unsigned i = 8; i--;)
		seed = seed << 8 | script->header[MODEL_SCRIPT_SEED + i];
	return seed;
}

unsigned model_script_failures(const struct model_script *script)
{
	return script->header[MODEL_SCRIPT_FAILURES] % MODEL_FAILURES;
}

/* ---- files ---- */

static bool close_file(FILE *file, bool ok)
{
	int error = errno;

	if (fclose(file) != 0)
		return false;
	errno = error;
	return ok;
}

bool model_script_save(const struct model_script *script, const char *path)
{
	FILE *file = fopen(path, "wb");

	if (!file)
		return false;
	return close_file(file, fwrite(script->header, MODEL_SCRIPT_HEADER, 1, file) == 1 &&
					fwrite(script->operations, MODEL_SCRIPT_OPERATION,
					       script->n, file) == script->n);
}

bool model_script_load(struct model_script *script, const char *path)
{
	FILE *file = fopen(path, "rb");
	long size;
	bool ok;

	if (!file)
		return false;
	ok = fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
	     fseek(file, 0, SEEK_SET) == 0;
	if (ok && (size < (long)MODEL_SCRIPT_HEADER ||
		   (size - (long)MODEL_SCRIPT_HEADER) % (long)MODEL_SCRIPT_OPERATION)) {
		errno = EINVAL; /* this is no script */
		ok = false;
	}
	if (!ok)
		return close_file(file, false);
	allocate_operations(script, ((uint64_t)size - MODEL_SCRIPT_HEADER) / MODEL_SCRIPT_OPERATION);
	return close_file(file, fread(script->header, MODEL_SCRIPT_HEADER, 1, file) == 1 &&
					fread(script->operations, MODEL_SCRIPT_OPERATION, script->n,
					      file) == script->n);
}

/* ---- the world ---- */

/* Of so many bits of a byte, all: once in 2, 4, 8. */
static bool all_of(unsigned char byte, unsigned bits)
{
	return (byte & bits) == bits;
}

static struct sim_options read_options(const unsigned char *header)
{
	static const uint32_t shifts[] = { 6, 3, 4, 9, 12 };
	static const enum sim_checksum checksums[] = {
		SIM_CHECKSUM_DEFAULT, SIM_CHECKSUM_DEFAULT, SIM_CHECKSUM_2_BITS, SIM_CHECKSUM_ZERO
	};

	return (struct sim_options){
		.page_shift = shifts[header[10] % 5],
		.keep_zero_pages = all_of(header[11], 0x03),
		.one_look = all_of(header[11], 0x0c),
		.no_zero_map = all_of(header[11], 0x30),
		.no_refile = all_of(header[11], 0xc0),
		.no_discard = all_of(header[12], 0x03),
		.index = all_of(header[12], 0x0c) ? PDD_INDEX_REBUILT : PDD_INDEX_RETAINED,
		.tracked = header[12] & 0x10,
		.nodes_apart = header[13] % 3 == 1,
		.limit = 2 + header[14] % 5u,
		.nroots = 16 + header[15] % 64u,
		.first_nroots = header[16] % 16u, /* most grow */
		.aging = (enum pdd_aging)(header[17] % (PDD_AGING_EPOCH + 1)),
		.max_period = (UINT32_C(1) << header[18] % 8) / 2,
		.checksum = checksums[header[19] % 4],
	};
}

/* What happens while an operation with luck goes on. */
struct misfortune {
	double fail_chance, write_chance;
	bool partial;
};

static struct misfortune read_world(const struct model_script *script, struct sim *sim,
				    struct model *model)
{
	const unsigned char *header = script->header;

	model->region_pages = 40;
	model->random_meanwhile = true;
	model->gone_frames = all_of(header[20], 0x03);
	model->ncontents = 2 + header[21] % (MODEL_CONTENTS - 1);
	sim->single_views = all_of(header[20], 0x0c);
	sim->max_views = header[22] % 2 ? 1 + header[22] / 2 % 3 : 0;
	if (sim->options.checksum)
		sim->fail_mask |= UINT64_C(1) << SIM_CHECKSUM;
	if (model->gone_frames && header[20] & 0x10)
		sim->fail_mask |= UINT64_C(1) << SIM_FRAME_CONTENT;
	return (struct misfortune){
		.fail_chance = model_failures[model_script_failures(script)],
		.write_chance = header[23] % 2 ? 0.05 : 0,
		.partial = header[20] & 0x20,
	};
}

/* ---- play ---- */

static void at_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	if (model_script_at)
		model_script_at(sim, hook, before);
	model_at_hook(sim, hook, before);
}

static void say_failure(struct sim *sim, enum sim_hook hook)
{
	static const char *const names[SIM_HOOKS] = {
		[SIM_TRYLOCK] = "space_trylock",
		[SIM_PAGES_GET] = "pages_get",
		[SIM_HOLD] = "hold",
		[SIM_FRAMES_CREATE] = "frames_create",
		[SIM_FRAMES_MAP] = "frames_map",
		[SIM_FRAMES_UNMAP] = "frames_unmap",
		[SIM_FRAME_CONTENT] = "frame_content",
		[SIM_ZERO_MAP] = "zero_map",
		[SIM_CHECKSUM] = "checksum",
		[SIM_FRAMES_REMAP] = "frames_remap",
		[SIM_PAGES_DISCARD] = "pages_discard",
		[SIM_EXTENT_GET] = "extent_get",
		[SIM_PAGES_WRITTEN] = "pages_written",
	};

	model_say(sim, "      meanwhile: %s fails\n", names[hook] ? names[hook] : "a hook");
}

static void operate(struct sim *sim, const unsigned char *operation,
		    const struct misfortune *misfortune)
{
	struct model *model = sim->test;
	unsigned luck = operation[MODEL_SCRIPT_LUCK] | operation[MODEL_SCRIPT_LUCK + 1] << 8u;

	sim->random = luck;
	sim->fail_chance = luck ? misfortune->fail_chance : 0;
	sim->partial = luck && misfortune->partial;
	model->write_chance = luck ? misfortune->write_chance : 0;
	model->bytes = operation + MODEL_SCRIPT_CHOICES;
	model->end = operation + MODEL_SCRIPT_OPERATION;
	model_operate(sim, operation[MODEL_SCRIPT_KIND] * MODEL_DICE / 256);
	if (model->bytes == model->end)
		sim_fail("an operation has to choose more than it has bytes for");
}

static void note_failures(const struct sim *sim, struct model_script_progress *progress)
{
	progress->risked = sim->risked;
	progress->failed = 0;
	for (unsigned i = 0; i < SIM_HOOKS; i++)
		progress->failed += sim->failed[i];
}

void model_script_play(const struct model_script *script, struct model_script_progress *progress,
		       bool loud)
{
	struct sim_options options = read_options(script->header);
	struct model model = { .loud = loud };
	struct misfortune misfortune;
	struct sim *sim;

	sim_seed_set(model_script_seed(script));
	sim = sim_create(&options);
	misfortune = read_world(script, sim, &model);
	sim->test = &model;
	sim->at = at_hook;
	sim->on_failure = say_failure;
	for (uint64_t i = 0; i < script->n; i++) {
		progress->operations = i + 1;
		model_say(sim, "%4" PRIu64 ": ", i + 1);
		operate(sim, script->operations[i], &misfortune);
		if (model_script_after)
			model_script_after(sim);
		note_failures(sim, progress);
	}
	model.bytes = NULL;
	sim->random = model_script_seed(script);
	if (script->header[MODEL_SCRIPT_QUIET] % 2) {
		progress->quiet = true;
		model_say(sim, "      the quiet phase\n");
		model_quiet_phase(sim);
	}
	sim_destroy(sim);
	progress->done = true;
}
