/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_model.c - random operations on simulated memory, whatever fails and whoever writes
 * meanwhile.
 *
 * What is done and what must hold is in support/model.h. Each round is a script of bytes, made of
 * its seed, and played in a process other than this one. If one fails, it is made as short as can be while it fails the
 * same way, said in words, and kept in the file model-SEED.script; PDD_SCRIPT=FILE replays that.
 *
 * PDD_SEED gives the first seed, PDD_ROUNDS the number of rounds, a seed each. PDD_SCRIPTS is the
 * folder for scripts of rounds that fail, here if it is not set.
 */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model_shrink.h"
#include "planted.h"

#define ROUNDS 600u
#define OPERATIONS 600u
#define LEAST_OPERATIONS 300000u /* of those in which hooks fail, half of them each way */
#define LEAST_SEEDS 50u

/* What was done, by how often hooks fail. */
struct tally {
	uint64_t seeds, operations, risked, failed;
};

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

/* ---- a round that fails ---- */

static void keep(const struct model_script *script, char *path, size_t size)
{
	const char *folder = getenv("PDD_SCRIPTS");

	snprintf(path, size, "%s/model-%" PRIu64 ".script", folder ? folder : ".",
		 model_script_seed(script));
	if (!model_script_save(script, path))
		fail_msg("%s: %s", path, strerror(errno));
}

/* As whoever reads of it will do, in a new process. Whether it fails. */
static bool replay(const char *path)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		setenv("PDD_SCRIPT", path, 1);
		execl("/proc/self/exe", program_invocation_name, (char *)NULL);
		_exit(127);
	}
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	return status != 0;
}

static void explain(struct model_script *script, const struct model_run *failure)
{
	uint64_t runs;
	char path[1024];

	print_error("PDD_SEED=%" PRIu64 " fails in operation %" PRIu64 "%s, status %#x:\n%s\n",
		    model_script_seed(script), failure->progress.operations,
		    failure->progress.quiet ? ", when quiet" : "", (unsigned)failure->status,
		    failure->said);
	runs = model_shrink(script, failure);
	print_error("shrunk from %u to %" PRIu64 " operations in %" PRIu64 " runs:\n", OPERATIONS,
		    script->n, runs);
	keep(script, path, sizeof(path));
	if (!replay(path)) /* fuzz.h says why that can be */
		print_error("in a process of its own it does not fail\n");
	print_error("replay: PDD_SCRIPT=%s %s\n", path, program_invocation_name);
}

/* ---- rounds ---- */

static void add(struct tally *tallies, uint64_t seed, const struct model_script_progress *progress)
{
	struct model_script script;
	struct tally *tally;

	model_script_make(&script, seed, 0);
	tally = &tallies[model_script_failures(&script)];
	tally->seeds++;
	tally->operations += progress->operations;
	tally->risked += progress->risked;
	tally->failed += progress->failed;
	model_script_free(&script);
}

/* One that failed in a batch. */
static void fail_round(uint64_t seed, const struct model_run *failure)
{
	struct model_script script;
	struct model_run alone;

	model_script_make(&script, seed, OPERATIONS);
	model_script_run(&script, &alone);
	if (alone.ok)
		print_error("PDD_SEED=%" PRIu64 " fails, but not alone:\n%s\n", seed, failure->said);
	else
		explain(&script, &alone);
	model_script_free(&script);
	fail();
}

static void some_rounds(uint64_t seed, uint64_t n, struct tally *tallies)
{
	struct model_script_progress progress[MODEL_BATCH];
	struct model_run failure;
	uint64_t done = model_script_run_batch(progress, &failure, seed, n, OPERATIONS);

	for (uint64_t i = 0; i < done; i++)
		add(tallies, seed + i, &progress[i]);
	if (done < n)
		fail_round(seed + done, &failure);
}

static void report(const struct tally *tally, double chance)
{
	printf("%2.0f %%: %" PRIu64 " operations, %" PRIu64 " seeds; %" PRIu64 " of %" PRIu64
	       " calls of hooks failed, %.2f %%\n",
	       chance * 100, tally->operations, tally->seeds, tally->failed, tally->risked,
	       tally->risked ? (double)tally->failed / (double)tally->risked * 100 : 0);
}

/* It was as much as was meant, and as much failed. */
static void check_tally(const struct tally *tally, double chance, bool all)
{
	double failed = (double)tally->failed;

	if (all) {
		assert_true(tally->operations >= LEAST_OPERATIONS / 2);
		assert_true(tally->seeds >= LEAST_SEEDS);
	}
	if (tally->risked < 20000)
		return;
	assert_true(failed > 0.8 * chance * (double)tally->risked);
	assert_true(failed < 1.2 * chance * (double)tally->risked);
}

static void test_rounds(void **unused)
{
	uint64_t seed = sim_seed(), rounds = from_environment("PDD_ROUNDS", ROUNDS);
	struct tally tallies[MODEL_FAILURES] = { 0 };

	for (uint64_t i = 0; i < rounds; i += MODEL_BATCH)
		some_rounds(seed + i, rounds - i < MODEL_BATCH ? rounds - i : MODEL_BATCH, tallies);
	for (unsigned i = 0; i < MODEL_FAILURES; i++)
		report(&tallies[i], model_failures[i]);
	assert_int_equal(tallies[0].failed, 0);
	for (unsigned i = 1; i < MODEL_FAILURES; i++)
		check_tally(&tallies[i], model_failures[i], rounds >= ROUNDS);
}

static void test_script(void **unused)
{
	struct model_script_progress progress = { 0 };
	const char *path = getenv("PDD_SCRIPT");
	struct model_script script;

	if (!model_script_load(&script, path))
		fail_msg("%s: %s", path, strerror(errno));
	model_script_play(&script, &progress, true);
	print_message("%" PRIu64 " operations, nothing failed\n", progress.operations);
	model_script_free(&script);
}

int main(void)
{
	const struct CMUnitTest rounds[] = { cmocka_unit_test(test_rounds) };
	const struct CMUnitTest script[] = { cmocka_unit_test(test_script) };
	const char *planted = getenv("PDD_PLANT");

	if (planted && !plant(planted)) {
		fprintf(stderr, "no fault is called %s\n", planted);
		return 2;
	}
	if (getenv("PDD_SCRIPT"))
		return cmocka_run_group_tests(script, NULL, NULL);
	sim_seed();
	return cmocka_run_group_tests(rounds, NULL, NULL);
}
