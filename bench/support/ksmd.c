/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksmd.c - see ksmd.h.
 *
 * Scans have to be counted exactly. A batch of pages_to_scan pages ends at the end of a scan, so
 * with a huge batch each batch is one scan, after which ksmd sleeps for sleep_millisecs. That is
 * ten minutes here, and writing another value wakes ksmd for exactly one more scan. (With no sleep
 * at all it would be in the next scan before anybody saw that one has ended.)
 *
 * ksmd's CPU time comes from /proc/PID/schedstat, in nanoseconds, while it sleeps, which makes it
 * final; without that file from /proc/PID/stat, in clock ticks. Its wall time is seen to a
 * millisecond, for each scan.
 */
#define _DEFAULT_SOURCE

#include "ksmd.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ksm_settings.h"

#define KTHREAD_FLAG 0x200000u
#define SCAN_LIMIT_S 300

volatile sig_atomic_t ksm_signal;
static char ksmd_pid[24];

static void on_signal(int number)
{
	ksm_signal = number;
}

void ksm_catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Fields of /proc/PID/stat behind the name: its state is the first. NULL if there are none. */
static const char *stat_fields(char *text, size_t size, const char *pid)
{
	char path[64], *end;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (ksm_read_text(text, size, path))
		return NULL;
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end + 2 : NULL;
}

/* The kernel thread, not some process that has its name. */
static bool is_ksmd(const char *pid)
{
	char text[1024];
	const char *fields = stat_fields(text, sizeof(text), pid);
	unsigned int flags;

	return fields && strstr(text, " (ksmd) ") &&
	       sscanf(fields, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && (flags & KTHREAD_FLAG);
}

static bool find_ksmd(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (proc && !found && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_ksmd(entry->d_name))
			continue;
		snprintf(ksmd_pid, sizeof(ksmd_pid), "%.20s", entry->d_name);
		found = true;
	}
	if (proc)
		closedir(proc);
	return found;
}

const char *ksmd_unusable(void)
{
	const char *why = ksm_settings_unusable();

	if (why)
		return why;
	if (sysconf(_SC_PAGESIZE) != 4096)
		return "pages are not of 4096 bytes here";
	return find_ksmd() ? NULL : "cannot see the kernel thread ksmd from here";
}

static bool is_asleep(void)
{
	char text[1024];
	const char *fields = stat_fields(text, sizeof(text), ksmd_pid);

	return fields && fields[0] == 'S';
}

static double cpu_seconds(void)
{
	char path[64], text[1024];
	const char *fields;
	unsigned long user, kernel;

	snprintf(path, sizeof(path), "/proc/%.20s/schedstat", ksmd_pid);
	if (!ksm_read_text(text, sizeof(text), path) && text[0])
		return (double)strtoull(text, NULL, 10) * 1e-9;
	fields = stat_fields(text, sizeof(text), ksmd_pid);
	if (!fields || sscanf(fields, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			      &user, &kernel) != 2)
		return 0;
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double wall_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Wakes ksmd from its sleep: any value that it did not go to sleep with will do. */
static int wake(void)
{
	static bool other;

	other = !other;
	return ksm_settings_set("sleep_millisecs", other ? "600001" : "600000");
}

/* Only the first scan is begun by this; the others by waking ksmd from its sleep. */
static int start(void)
{
	return ksm_count("run") == 1 ? 0 : ksm_settings_set("run", "1");
}

int ksmd_stop(void)
{
	return ksm_settings_set("run", "0");
}

int ksmd_reset(bool smart_scan)
{
	if (ksm_settings_set("run", "2") || ksm_settings_set("advisor_mode", "none") ||
	    ksm_settings_set("smart_scan", smart_scan ? "1" : "0") ||
	    ksm_settings_set("use_zero_pages", "1") ||
	    ksm_settings_set("max_page_sharing", "256") || wake() ||
	    ksm_settings_set("pages_to_scan", "4000000000"))
		return -1;
	return ksmd_stop();
}

/*
 * The state is read before the count of scans: if ksmd slept and, looked up afterwards, no scan had
 * ended, then this scan has not begun, and waking cannot cause another one. When this returns ksmd
 * sleeps again, so that its times and counts are final.
 */
static int wait_for_scan(uint64_t scans_before, double begin)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (!ksm_signal) {
		bool asleep = is_asleep();
		bool done = ksm_count("full_scans") != scans_before;

		if (asleep && done)
			return 0;
		if (asleep && wake())
			return -1;
		if (wall_seconds() - begin > SCAN_LIMIT_S)
			return ksm_complain("no scan by ksmd in %d s", SCAN_LIMIT_S);
		nanosleep(&pause, NULL);
	}
	return -1;
}

int ksmd_scan(void *unused, struct ksm_pass *pass)
{
	uint64_t looks = ksm_count("pages_scanned"), scans = ksm_count("full_scans");
	double cpu = cpu_seconds(), wall = wall_seconds();

	if (start() || wait_for_scan(scans, wall))
		return -1;
	*pass = (struct ksm_pass){
		.cpu_s = cpu_seconds() - cpu,
		.wall_s = wall_seconds() - wall,
		.looks = ksm_count("pages_scanned") - looks,
		.shared = ksm_count("pages_shared"),
		.sharing = ksm_count("pages_sharing"),
		.zero = ksm_count("ksm_zero_pages"),
	};
	if (ksm_count("full_scans") != scans + 1)
		return ksm_complain("ksmd made more than one scan");
	return ksm_settings_check();
}
