/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_no_system_call.c - s9: a sandboxed process may use the core. It works in a child that may
 * make no system call but write and exit_group, on pain of death by SIGSYS: once through a story
 * with all that an embedder does, and through rounds of the model, with failures and writers.
 *
 * The hooks are those of the simulation. Their heap is made large enough before the filter comes,
 * and malloc is told to ask for no more and to give nothing back.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pagededup/advisor.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

#define HEAP_BYTES ((size_t)256 << 20)
#define ROUNDS 40u
#define OPERATIONS 200u

static const char done[] = "all done without a system call\n";

/* ---- the sandbox ---- */

static void heat_heap(void)
{
	void *heap;

	assert_true(mallopt(M_MMAP_MAX, 0));
	assert_true(mallopt(M_TRIM_THRESHOLD, INT32_MAX));
	heap = malloc(HEAP_BYTES);
	assert_non_null(heap);
	free(heap);
}

/* @return whether the kernel took the filter */
static bool enter_sandbox(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* What became of a child that does this in the sandbox, as of waitpid(). */
static int in_sandbox(void (*deed)(void))
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		heat_heap();
		if (!enter_sandbox())
			_exit(77);
		deed(); /* a failed assertion of it does not come back */
		_exit(write(STDOUT_FILENO, done, sizeof(done) - 1) == sizeof(done) - 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "the kernel takes no seccomp filter here\n");
		_exit(77);
	}
	return status;
}

static void assert_is_done(int status)
{
	if (WIFSIGNALED(status))
		fail_msg("killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- the story ---- */

#define PAGES 1300u /* of each region: three extents, the last one not full */
#define CONTENTS 100u

static bool count_mapping(void *ctx, enum pdd_mapping mapping, struct pdd_region *region,
			  uint64_t page)
{
	++*(uint64_t *)ctx;
	return true;
}

static void set_limit(struct sim *sim, uint32_t limit)
{
	struct pdd_tunables tunables = { .size = sizeof(tunables) };

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &tunables), 0);
	tunables.max_page_sharing = limit;
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &tunables), 0);
}

/* Zero pages, pages of one word, others; after it all that is equal is shared. */
static void fill(struct sim *sim, struct sim_region *const regions[2])
{
	for (unsigned r = 0; r < 2; r++)
		for (uint64_t i = 0; i < PAGES; i++)
			sim_write(regions[r], i,
				  i % CONTENTS | (i % CONTENTS == 1 ? SIM_FILLED : 0));
	sim_settle(sim, 20);
	assert_true(sim_stats(sim).counts.merges > PAGES);
	assert_true(sim_stats(sim).counts.zero_merges > 0);
	assert_true(sim_stats(sim).stable_node_chains > 0);
}

/* Frames get sparse by writes, and are emptied by a prune under a higher limit. */
static void prune(struct sim *sim, struct sim_region *const regions[2])
{
	for (uint64_t i = 0; i < PAGES; i++)
		if (i % 5)
			sim_write(regions[0], i, 1000 + i);
	sim_pass(sim, 100);
	assert_true(sim_stats(sim).counts.unshares > 0);
	set_limit(sim, 64);
	sim_prune(sim);
	assert_true(sim_stats(sim).counts.refiles > 0);
}

/* A fork, and who maps a frame of it. */
static void fork_and_walk(struct sim *sim, struct sim_region *region)
{
	static struct pdd_object object;
	static struct pdd_rmap_room room[64];
	struct sim_space *child;
	uint64_t told = 0;
	uint64_t page = 0;

	assert_int_equal(pdd_region_attach(&region->region, &object, 7), 0);
	child = sim_space_clone(region->space);
	while (!sim_is_shared(region, page))
		page++;
	sim->stepping = true; /* hooks are called as in a step */
	assert_int_equal(pdd_rmap_walk(&sim->scanner, NULL, &region->pages[page].frame->frame,
				       room, 64, count_mapping, &told), 0);
	sim->stepping = false;
	assert_true(told >= 2);
	sim_passes(sim, 2);
	assert_true(sim_stats(sim).counts.adoptions > 0);
	sim_space_remove(child);
	assert_int_equal(pdd_region_detach(&region->region), 0);
}

static void keep_out(struct sim_region *region)
{
	struct pdd_explanation explanation = { .size = sizeof(explanation) };

	assert_int_equal(pdd_region_pin(&region->region, 0, 20), 0);
	assert_int_equal(pdd_region_exclude(&region->region, 10, 600), 0);
	sim_pass(region->space->sim, UINT64_MAX);
	assert_int_equal(pdd_region_explain(&region->region, 5, &explanation), 0);
	assert_string_equal(pdd_reason_name(explanation.reason), "pinned");
	assert_int_equal(pdd_region_include(&region->region, 10, 600), 0);
	assert_int_equal(pdd_region_unpin(&region->region, 0, 20), 0);
}

static void step_with_advice(struct sim *sim)
{
	struct pdd_advisor advisor;

	assert_int_equal(pdd_advisor_init(&advisor, NULL), 0);
	assert_false(!pdd_scanner_quiesce(&sim->scanner));
	assert_int_equal(sim_step(sim, 10), PDD_STEP_QUIET);
	pdd_scanner_resume(&sim->scanner);
	while (sim_step(sim, pdd_advisor_pages(&advisor)) != PDD_STEP_PASS)
		;
	assert_int_equal(pdd_advisor_pass(&advisor, 10, 10), 0);
}

static void tell_the_story(void)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.page_shift = 12, .limit = 8, .nroots = 4096, .first_nroots = 16,
		.tracked = true });
	struct sim_space *space = sim_space_add(sim, 0);
	struct sim_region *regions[2] = {
		sim_region_add_with(space, PAGES, 2 * (uint64_t)PAGES, false),
		sim_region_add_with(sim_space_add(sim, 0), PAGES, PAGES, true),
	};

	fill(sim, regions);
	prune(sim, regions);
	fork_and_walk(sim, regions[1]);
	keep_out(regions[0]);
	step_with_advice(sim);
	sim_region_resize(regions[0], 2 * (uint64_t)PAGES);
	assert_int_equal(pdd_region_move(&regions[0]->region, 1 << 30), 0);
	sim_pass(sim, 777);
	sim_region_resize(regions[0], PAGES);
	assert_true(sim_unmerge(regions[1], 0, PAGES) > 0);
	assert_true(pdd_scanner_unmerge(&sim->scanner, 10) == 10);
	while (pdd_scanner_unmerge(&sim->scanner, UINT64_MAX) > 0)
		;
	assert_int_equal(sim_stats(sim).pages_shared, 0);
	sim_destroy(sim);
}

static void test_story(void **unused)
{
	assert_is_done(in_sandbox(tell_the_story));
}

/* ---- the model ---- */

static void play_a_round(uint64_t seed)
{
	static const double chances[] = { 0, 0.01, 0.2 };
	struct sim *sim = sim_create(&(struct sim_options){
		.page_shift = 6 + (uint32_t)(seed % 2) * 6,
		.limit = 2 + (uint32_t)(seed % 4),
		.first_nroots = 4,
		.tracked = seed % 3 == 0,
		.nodes_apart = seed % 5 == 0 });
	struct model model = { .region_pages = 40,
			       .ncontents = MODEL_CONTENTS,
			       .write_chance = seed % 2 ? 0.05 : 0 };

	sim->random = seed;
	sim->test = &model;
	sim->at = model_at_hook;
	sim->fail_chance = chances[seed % 3];
	for (unsigned i = 0; i < OPERATIONS; i++)
		model_operate(sim, sim_random(sim, MODEL_DICE));
	model_quiet_phase(sim);
	sim_destroy(sim);
}

static void play_rounds(void)
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		sim_seed_set(seed);
		play_a_round(seed);
	}
}

static void test_model(void **unused)
{
	assert_is_done(in_sandbox(play_rounds));
}

/* ---- that it would be noticed ---- */

static void ask_in_a_hook(struct sim *sim, enum sim_hook hook, bool before)
{
	if (hook == SIM_RELEASE || hook == SIM_FRAMES_MAP)
		syscall(SYS_getppid);
}

/* The same merge twice, once with a hook that makes a system call. */
static void merge(void (*at)(struct sim *, enum sim_hook, bool))
{
	struct sim *sim = sim_create(NULL);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 8);

	sim->at = at;
	for (uint64_t i = 0; i < 8; i++)
		sim_write(region, i, 5);
	sim_passes(sim, 2);
	assert_int_equal(sim_stats(sim).pages_sharing, 7);
	sim_destroy(sim);
}

static void merge_quietly(void)
{
	merge(NULL);
}

static void merge_with_a_call(void)
{
	merge(ask_in_a_hook);
}

static void test_one_call_kills(void **unused)
{
	int status;

	assert_is_done(in_sandbox(merge_quietly));
	status = in_sandbox(merge_with_a_call);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_story),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_one_call_kills),
	};
	const char *sanitize = getenv("PDD_SANITIZE");

	if (sanitize && *sanitize) {
		fprintf(stderr, "the sanitizers make system calls of their own\n");
		return 77;
	}
	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
