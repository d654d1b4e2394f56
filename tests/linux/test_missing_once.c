/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_missing_once.c - s7: a facility is missing, and a thousand ranges of memory are added. That is
 * told once, by pdd_linux_facilities(), and not once for each range: nothing is printed, no event
 * comes, no hook counts as failed; and what is switched off is not tried at all.
 *
 * A filter of system calls makes the kernel answer EINVAL, in a child.
 */
#define _GNU_SOURCE 1
#include "maps.h"
#include "whole.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "linux/uapi.h"

#define MEMORIES 1000u /* as the scenario says */

/* From here on each ioctl with this request fails with EINVAL. False: filters are not allowed. */
static bool forbid_ioctl(uint32_t request)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static uint64_t events;

static void count_event(void *ctx, enum pdd_event event, void *start, uint64_t npages)
{
	(void)ctx, (void)event, (void)start, (void)npages;
	events++;
}

static unsigned lines_with(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)) != NULL; text++)
		n++;
	return n;
}

/* A thousand pages that could be shared, each a memory of its own, and three passes. */
static unsigned char *m;

static struct pdd_linux *thousand(uint32_t flags)
{
	struct pdd_linux_options options = { .size = sizeof(options), .flags = flags,
					     .trace = count_event };
	struct pdd_linux_memory *memory;
	struct pdd_linux *dedup;

	m = map_pages(MEMORIES);
	if (pdd_linux_create(&dedup, &options))
		_exit(10);
	for (size_t i = 0; i < MEMORIES; i++) {
		fill_page(m, i, 1);
		if (pdd_linux_add(dedup, &memory, 0, m + i * PAGE, PAGE))
			_exit(11);
	}
	for (unsigned passes = 0; passes < 3;)
		passes += pdd_linux_step(dedup, UINT64_MAX, 0) == PDD_STEP_PASS;
	return dedup;
}

/* No userfaultfd: nothing can be held. */
static int no_userfaultfd(void)
{
	struct pdd_linux *dedup = thousand(0);
	const struct pdd_linux_facilities *have = pdd_linux_facilities(dedup);
	struct pdd_stats stats = stats_of(dedup);

	if (have->userfaultfd || have->move || have->track_writes)
		return 1;
	if (lines_with(have->missing, "userfaultfd for accesses") != 1 ||
	    lines_with(have->missing, "\n") > 3)
		return 2;
	if (stats.counts.reasons[PDD_REASON_NO_HOLD] != MEMORIES || stats.counts.merges)
		return 3;
	if (stats.hook_errors || events)
		return 4;
	return 0;
}

/* Without PAGEMAP_SCAN there is no tracking, and the rest works. */
static int no_pagemap_scan(void)
{
	struct pdd_linux *dedup = thousand(0);
	const struct pdd_linux_facilities *have = pdd_linux_facilities(dedup);
	struct pdd_stats stats = stats_of(dedup);

	if (have->pagemap_scan || have->track_writes || !have->userfaultfd)
		return 1;
	if (lines_with(have->missing, "PAGEMAP_SCAN") != 1)
		return 2;
	if (stats.counts.ksm_merging_pages != MEMORIES || stats.counts.pages_clean)
		return 3;
	if (stats.hook_errors || events == 0)
		return 4;
	return 0;
}

/* Switched off, nothing is registered for being asked, nor told. */
static int switched_off(void)
{
	struct pdd_linux *dedup = thousand(PDD_LINUX_NO_TRACKING);
	struct pdd_stats stats = stats_of(dedup);

	if (pdd_linux_facilities(dedup)->track_writes || stats.counts.pages_clean ||
	    stats.hook_errors || maps_is_registered(m) ||
	    maps_is_registered(m + (MEMORIES - 1) * PAGE))
		return 1;
	return stats.counts.ksm_merging_pages == MEMORIES ? 0 : 2;
}

/* What a child returns in which a request is refused; nothing may be printed. */
static void in_child(int (*fn)(void), uint32_t request)
{
	int fds[2], status;
	char text[256];
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (!child) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		if (request && !forbid_ioctl(request))
			_exit(SKIPPED);
		_exit(fn());
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], text, sizeof(text)), 0);
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_s7_no_userfaultfd(void **state)
{
	in_child(no_userfaultfd, (uint32_t)UFFDIO_API);
}

static void test_s7_no_pagemap_scan(void **state)
{
	in_child(no_pagemap_scan, (uint32_t)PAGEMAP_SCAN);
}

static void test_s7_switched_off(void **state)
{
	in_child(switched_off, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_s7_no_userfaultfd),
		cmocka_unit_test(test_s7_no_pagemap_scan),
		cmocka_unit_test(test_s7_switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
