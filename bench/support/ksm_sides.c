/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_sides.c - see ksm_sides.h.
 *
 * Child and parent talk by a pair of sockets. The child says that it is ready, or how its own
 * measurement went; the parent lets it go on to compare; the child says what came of that. A child
 * that fails just ends, after a complaint. It is never waited for without listening for signals.
 *
 * The child leaves the signals of a terminal to its parent, and is killed with it.
 */
#define _DEFAULT_SOURCE

#include "ksm_sides.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ksm_ours.h"
#include "ksm_settings.h"
#include "ksmd.h"

/* Ages of KSM: looked at in one scan of nine at last, all pages in the same one. */
#define KSMD_SETTLE_SCANS 24u
#define KSMD_IDLE_SCANS 18u

struct child {
	pid_t pid;
	int fd;
};

/* --- the child --- */

static int say(int fd, const struct ksm_result *result)
{
	ssize_t n = write(fd, result, sizeof(*result));

	return n == (ssize_t)sizeof(*result) ? 0 : -1;
}

static int child_work(int fd, enum ksm_side side, enum ksm_task task,
		      const struct ksm_source *source)
{
	struct ksm_result result = { 0 };
	struct ksm_memory memory;
	int64_t differing;
	char go;
	int ret = ksm_memory_fill(&memory, source);

	if (!ret)
		ret = side == KSM_SIDE_OURS ? ksm_ours_measure(&result.figures, &result.mappings,
							       &memory, task)
					    : ksm_memory_offer(&memory);
	if (ret || say(fd, &result) || read(fd, &go, 1) != 1)
		return 1;
	differing = ksm_memory_differing(&memory);
	if (differing < 0)
		return 1;
	result.differing = (uint64_t)differing;
	return say(fd, &result) ? 1 : 0;
}

static int child_start(struct child *child, enum ksm_side side, enum ksm_task task,
		       const struct ksm_source *source)
{
	static const int of_terminal[] = { SIGINT, SIGHUP, SIGQUIT };
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return ksm_complain("socketpair: %s", strerror(errno));
	child->pid = fork();
	if (child->pid == 0) {
		for (size_t i = 0; i < sizeof(of_terminal) / sizeof(of_terminal[0]); i++)
			signal(of_terminal[i], SIG_IGN);
		signal(SIGTERM, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		_exit(child_work(fds[1], side, task, source));
	}
	close(fds[1]);
	child->fd = fds[0];
	if (child->pid < 0) {
		close(fds[0]);
		return ksm_complain("fork: %s", strerror(errno));
	}
	return 0;
}

/* --- the parent --- */

/* A signal may come just before poll sleeps: then it is seen after the next tenth of a second. */
static int hear(const struct child *child, struct ksm_result *result)
{
	struct pollfd want = { .fd = child->fd, .events = POLLIN };

	while (!ksm_signal) {
		int n = poll(&want, 1, 100);

		if (n == 0 || (n < 0 && errno == EINTR))
			continue;
		if (n > 0 && recv(child->fd, result, sizeof(*result), MSG_WAITALL) ==
			     (ssize_t)sizeof(*result))
			return 0;
		break;
	}
	return ksm_signal ? -1 : ksm_complain("a measurement ended early");
}

static int child_go_on(const struct child *child)
{
	return send(child->fd, "", 1, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static void child_end(const struct child *child)
{
	close(child->fd);
	kill(child->pid, SIGKILL); /* it is there until it is waited for */
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int ksmd_measure(struct ksm_figures *figures, enum ksm_task task, uint64_t npages)
{
	struct ksm_passer passer = {
		.pass = ksmd_scan,
		.name = "ksmd",
		.npages = npages,
		.settle_passes = KSMD_SETTLE_SCANS,
		.idle_passes = KSMD_IDLE_SCANS,
	};
	int ret = ksmd_reset(task == KSM_TASK_IDLE);

	if (!ret)
		ret = ksm_passes_measure(figures, &passer, task);
	return ksmd_stop() || ret ? -1 : 0;
}

int ksm_side_measure(struct ksm_result *result, enum ksm_side side, enum ksm_task task,
		     const struct ksm_source *source)
{
	struct ksm_figures by_ksmd;
	struct child child;
	int ret;

	if (child_start(&child, side, task, source))
		return -1;
	ret = hear(&child, result);
	if (!ret && side == KSM_SIDE_KSMD)
		ret = ksmd_measure(&by_ksmd, task, source->npages);
	if (!ret)
		ret = child_go_on(&child) || hear(&child, result) ? -1 : 0;
	if (!ret && side == KSM_SIDE_KSMD)
		result->figures = by_ksmd;
	child_end(&child);
	return ret;
}
