/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_settings.c - see ksm_settings.h.
 *
 * While the advisor is on, the kernel manages pages_to_scan itself, so that is not restored then.
 */
#define _GNU_SOURCE 1

#include "ksm_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define KSM_DIR "/sys/kernel/mm/ksm/"

/* In the order of restoring: a change of advisor_mode changes pages_to_scan, run comes last. */
static struct setting {
	const char *name;
	char value[32]; /* as saved; empty: this kernel does not have it */
	char set[32];   /* as set last; empty: it was not */
} settings[] = {
	{ .name = KSM_MAX_MAP_COUNT },
	{ .name = "advisor_mode" },
	{ .name = "advisor_max_cpu" },
	{ .name = "advisor_min_pages_to_scan" },
	{ .name = "advisor_max_pages_to_scan" },
	{ .name = "advisor_target_scan_time" },
	{ .name = "max_page_sharing" },
	{ .name = "merge_across_nodes" },
	{ .name = "sleep_millisecs" },
	{ .name = "smart_scan" },
	{ .name = "stable_node_chains_prune_millisecs" },
	{ .name = "use_zero_pages" },
	{ .name = "pages_to_scan" },
	{ .name = "run" },
};
#define N_SETTINGS (sizeof(settings) / sizeof(settings[0]))

int ksm_complain(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

int ksm_read_text(char *text, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return n < 0 ? -1 : 0;
}

static void path_of(char *path, size_t size, const char *name)
{
	snprintf(path, size, "%s%s", name[0] == '/' ? "" : KSM_DIR, name);
}

/* The value of a setting; of "[none] scan-time" the chosen word. */
static int value_read(char *value, size_t size, const char *name)
{
	char path[128], *open_bracket;

	path_of(path, sizeof(path), name);
	if (ksm_read_text(value, size, path))
		return -1;
	open_bracket = strchr(value, '[');
	if (open_bracket) {
		memmove(value, open_bracket + 1, strlen(open_bracket));
		value[strcspn(value, "]")] = '\0';
	}
	return 0;
}

static int value_write(const char *name, const char *value)
{
	char path[128];
	ssize_t n = -1;
	int fd;

	path_of(path, sizeof(path), name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = write(fd, value, strlen(value));
		close(fd);
	}
	return n < 0 ? ksm_complain("%s = %s: %s", name, value, strerror(errno)) : 0;
}

uint64_t ksm_count(const char *name)
{
	char value[32];

	return value_read(value, sizeof(value), name) ? 0 : strtoull(value, NULL, 10);
}

/* The descriptor stays open, and with it the lock, until the process ends. */
static const char *lock(void)
{
	int fd = open(KSM_DIR "run", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return KSM_DIR " cannot be read";
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return NULL;
	ksm_complain("waiting for another process that measures KSM");
	return flock(fd, LOCK_EX) ? "KSM is being measured already" : NULL;
}

/* Pages merged by others would be unmerged, with run=2, or be mistaken for ours. */
const char *ksm_settings_unusable(void)
{
	const char *why;

	if (access(KSM_DIR "run", F_OK))
		return "this kernel has no KSM (" KSM_DIR ")";
	if (access(KSM_DIR "run", W_OK))
		return KSM_DIR " cannot be written: needs root";
	why = lock();
	if (why)
		return why;
	if (ksm_count("pages_shared") || ksm_count("ksm_zero_pages") ||
	    ksm_count("pages_unshared") || ksm_count("pages_volatile"))
		return "KSM is in use: it knows pages of others";
	return NULL;
}

void ksm_settings_save(void)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (value_read(settings[i].value, sizeof(settings[i].value), settings[i].name))
			settings[i].value[0] = '\0';
	}
}

static struct setting *find(const char *name)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (!strcmp(name, settings[i].name) && *settings[i].value)
			return &settings[i];
	}
	return NULL;
}

bool ksm_settings_has(const char *name)
{
	return find(name);
}

uint64_t ksm_settings_saved(const char *name)
{
	const struct setting *s = find(name);

	return s ? strtoull(s->value, NULL, 10) : 0;
}

int ksm_settings_set(const char *name, const char *value)
{
	struct setting *s = find(name);

	if (!s)
		return 0;
	snprintf(s->set, sizeof(s->set), "%s", value);
	return value_write(name, value);
}

int ksm_settings_check(void)
{
	char now[32];

	for (size_t i = 0; i < N_SETTINGS; i++) {
		const struct setting *s = &settings[i];

		if (*s->set && (value_read(now, sizeof(now), s->name) || strcmp(now, s->set)))
			return ksm_complain("somebody else sets %s to %s", s->name, now);
	}
	return 0;
}

/* Whether the kernel manages pages_to_scan by itself. */
static bool is_advised(void)
{
	const struct setting *mode = find("advisor_mode");

	return mode && strcmp(mode->value, "none");
}

static int restore_one(const struct setting *s)
{
	char now[32];

	if (!*s->value || (!strcmp(s->name, "pages_to_scan") && is_advised()))
		return 0;
	if (!value_read(now, sizeof(now), s->name) && !strcmp(now, s->value))
		return 0;
	if (value_write(s->name, s->value))
		return -1;
	if (value_read(now, sizeof(now), s->name) || strcmp(now, s->value))
		return ksm_complain("%s is %s and was %s", s->name, now, s->value);
	return 0;
}

/* Signals stay blocked meanwhile: one would make the kernel give up unmerging. */
int ksm_settings_restore(void)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	ret = value_write("run", "2");
	for (size_t i = 0; i < N_SETTINGS; i++)
		ret |= restore_one(&settings[i]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}
