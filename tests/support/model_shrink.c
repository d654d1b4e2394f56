/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model_shrink.c - scripts in child processes; the shortest script that can be found quickly.
 *
 * Shrinking goes on until nothing helps any more: what comes after the operation that failed is cut
 * off; blocks of operations are taken out, half of all first, then ever smaller ones, down to single
 * ones; then bytes become 0. Each try is a run of its own. Since operations have their own bytes and
 * their own luck (model_script.h), one that does not matter goes without a change of the others.
 */
#define _GNU_SOURCE

#include "model_shrink.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_SECONDS 60u    /* then it hangs */
#define SHRINK_SECONDS 100 /* then it is short enough */

/* ---- one run ---- */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

/* Of a child, and shared with it. */
static struct model_script_progress *shared;
static int words = -1; /* what it writes to stderr */

/* In the child. */
static void prepare(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	const struct rlimit none = { 0, 0 };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_DFL); /* CMocka has handlers */
	setrlimit(RLIMIT_CORE, &none);
	setenv("CMOCKA_TEST_ABORT", "1", 1); /* what fails ends the process */
	must(dup2(words, STDERR_FILENO) >= 0, "dup2");
	alarm(RUN_SECONDS);
}

/* As fork(). */
static pid_t start(void)
{
	pid_t child;

	if (words < 0) {
		shared = mmap(NULL, MODEL_BATCH * sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		must(shared != MAP_FAILED, "mmap");
		words = memfd_create("words", MFD_CLOEXEC);
		must(words >= 0, "memfd_create");
	}
	memset(shared, 0, MODEL_BATCH * sizeof(*shared));
	must(ftruncate(words, 0) == 0 && lseek(words, 0, SEEK_SET) == 0, "ftruncate");
	fflush(NULL);
	child = fork();
	must(child >= 0, "fork");
	if (child == 0)
		prepare();
	return child;
}

static bool is_number(const char *at)
{
	return *at >= '0' && *at <= '9';
}

/* Without its numbers, which differ from run to run: digits, and what 0x begins. The number of a
 * line, behind a colon, stays. */
static void leave_out_numbers(char *way, const char *said)
{
	for (char before = ' '; *said; before = *way++) {
		*way = *said++;
		if (!is_number(way) || before == ':' || is_number(&before))
			continue;
		*way = '#';
		while (is_number(said) || *said == 'x' || (*said >= 'a' && *said <= 'f'))
			said++;
	}
	*way = '\0';
}

/* The line that says where a test failed, and the one before it, which says what; if there is none,
 * the first that has a word. */
static void pick_lines(struct model_run *run, char *text)
{
	char before[sizeof(run->said) / 2] = "", *rest = NULL;
	const size_t most = sizeof(before) - 1;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strlen(line) > most)
			line[most] = '\0';
		if (strstr(line, ": error: Failure!")) {
			snprintf(run->said, sizeof(run->said), "%s\n%s", before, line);
			return;
		}
		if (!*run->said && strpbrk(line, "abcdefghijklmnopqrstuvwxyz"))
			strcpy(run->said, line);
		strcpy(before, line);
	}
}

/* The end of it, which says most. */
static void read_said(struct model_run *run)
{
	char text[65536];
	off_t size = lseek(words, 0, SEEK_END);
	off_t from = size < (off_t)sizeof(text) ? 0 : size - (off_t)sizeof(text) + 1;
	ssize_t n = pread(words, text, sizeof(text) - 1, from);

	text[n < 0 ? 0 : n] = '\0';
	pick_lines(run, text);
	leave_out_numbers(run->way, run->said);
}

static void end(struct model_run *run, pid_t child)
{
	memset(run, 0, sizeof(*run));
	must(waitpid(child, &run->status, 0) == child, "waitpid");
	run->ok = run->status == 0;
	if (!run->ok)
		read_said(run);
}

void model_script_run(const struct model_script *script, struct model_run *run)
{
	pid_t child = start();

	if (child == 0) {
		model_script_play(script, shared, false);
		exit(0); /* not _exit(), so that coverage is counted */
	}
	end(run, child);
	run->progress = *shared;
}

uint64_t model_script_run_batch(struct model_script_progress *progress, struct model_run *run,
				uint64_t seed, uint64_t n, uint64_t noperations)
{
	pid_t child = start();
	uint64_t done = 0;

	for (uint64_t i = 0; child == 0 && i < n; i++) {
		struct model_script script;

		model_script_make(&script, seed + i, noperations);
		alarm(RUN_SECONDS);
		model_script_play(&script, &shared[i], false);
		model_script_free(&script);
	}
	if (child == 0)
		exit(0);
	end(run, child);
	while (done < n && shared[done].done)
		done++;
	memcpy(progress, shared, n * sizeof(*progress));
	if (done < n)
		run->progress = shared[done];
	return run->ok || done < n ? done : n - 1; /* else it went wrong at its very end */
}

/* ---- shrinking ---- */

struct shrinking {
	struct model_script *script; /* the shortest so far */
	const struct model_run *failure;
	uint64_t runs;
	time_t end;
};

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static bool is_tired(const struct shrinking *shrinking)
{
	return now() >= shrinking->end;
}

static bool fails_so(struct shrinking *shrinking, const struct model_script *script)
{
	struct model_run run;

	shrinking->runs++;
	model_script_run(script, &run);
	return !run.ok && run.status == shrinking->failure->status &&
	       strcmp(run.way, shrinking->failure->way) == 0;
}

/* Do without these operations. */
static bool take_out(struct shrinking *shrinking, uint64_t first, uint64_t n)
{
	struct model_script *script = shrinking->script, less;

	if (n > script->n - first)
		n = script->n - first;
	model_script_copy(&less, script);
	memmove(less.operations + first, less.operations + first + n,
		(less.n - first - n) * sizeof(*less.operations));
	less.n -= n;
	if (!fails_so(shrinking, &less)) {
		model_script_free(&less);
		return false;
	}
	model_script_free(script);
	*script = less;
	return true;
}

static bool take_out_blocks(struct shrinking *shrinking)
{
	bool helped = false;

	for (uint64_t n = (shrinking->script->n + 1) / 2; n; n = n == 1 ? 0 : (n + 1) / 2)
		for (uint64_t at = shrinking->script->n; at && !is_tired(shrinking);) {
			at = at > n ? at - n : 0; /* the last ones are likelier to matter less */
			helped |= at < shrinking->script->n && take_out(shrinking, at, n);
		}
	return helped;
}

/* Make these bytes of the script 0. */
static bool clear(struct shrinking *shrinking, unsigned char *bytes, size_t n)
{
	unsigned char were[MODEL_SCRIPT_OPERATION + MODEL_SCRIPT_HEADER];
	bool zero = true;

	for (size_t i = 0; i < n; i++)
		zero &= bytes[i] == 0;
	if (zero || is_tired(shrinking))
		return false;
	memcpy(were, bytes, n);
	memset(bytes, 0, n);
	if (fails_so(shrinking, shrinking->script))
		return true;
	memcpy(bytes, were, n);
	return false;
}

/* All of them at once, or any. */
static bool clear_any(struct shrinking *shrinking, unsigned char *bytes, size_t n)
{
	bool helped = clear(shrinking, bytes, n);

	for (size_t i = 0; i < n; i++)
		helped |= clear(shrinking, bytes + i, 1);
	return helped;
}

static bool make_simple(struct shrinking *shrinking)
{
	struct model_script *script = shrinking->script;
	bool helped = clear_any(shrinking, script->header + 8, MODEL_SCRIPT_HEADER - 8);

	for (uint64_t i = 0; i < script->n; i++) {
		unsigned char *operation = script->operations[i];

		helped |= clear(shrinking, operation + MODEL_SCRIPT_LUCK, 2);
		helped |= clear_any(shrinking, operation + MODEL_SCRIPT_CHOICES,
				    MODEL_SCRIPT_OPERATION - MODEL_SCRIPT_CHOICES);
	}
	return helped;
}

uint64_t model_shrink(struct model_script *script, const struct model_run *failure)
{
	struct shrinking shrinking = { script, failure, 0, now() + SHRINK_SECONDS };
	uint64_t begun = failure->progress.operations;

	if (!failure->progress.quiet && begun && begun < script->n)
		(void)take_out(&shrinking, begun, script->n - begun);
	do
		(void)take_out_blocks(&shrinking);
	while (make_simple(&shrinking) && !is_tired(&shrinking));
	return shrinking.runs;
}
