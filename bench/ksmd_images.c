/*
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * ksmd_images [--json] [--scans N] IMAGE...: what the kernel's own page merging does with these
 * memory images, and what it costs. Needs root, and a kernel whose KSM nobody else uses.
 *
 * Each image is read into anonymous memory of 4096-byte pages, and ksmd scans it N times (2: one
 * look to see that a page keeps still, one to merge it). Reported are the pages merged, the CPU
 * time of ksmd and the wall time of these scans, and the CPU time of an idle scan, which is the
 * mean of three more.
 *
 * Scans have to be counted exactly. A batch of pages_to_scan pages ends at the end of a scan, so
 * with a huge batch each batch is one scan, after which ksmd sleeps for sleep_millisecs. That is
 * ten minutes here, and writing another value wakes ksmd for exactly one more scan. A first scan
 * that looked at less than half of the pages (memory that came in behind the cursor) does not
 * count, but its time does; "looks_per_page" says what became of it.
 *
 * ksmd's CPU time comes from /proc/PID/schedstat, in nanoseconds, while it sleeps; without that
 * file from /proc/PID/stat, in clock ticks.
 *
 * Settings: all are read first. At the end, after an error and after a signal, everything is
 * unmerged (run=2) and all are written back and compared. Only SIGKILL prevents that. While the
 * advisor is on, the kernel manages pages_to_scan itself, so that is not restored then.
 *
 * Exit status: 0; 1 after an error; 77 if it cannot be measured here; 128 + the signal's number.
 */
#define _DEFAULT_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define KSM_DIR "/sys/kernel/mm/ksm/"
#define KTHREAD_FLAG 0x200000u
#define IDLE_SCANS 3
#define SCAN_LIMIT_S 300
#define SKIP 77

/* In the order of restoring: a change of advisor_mode changes pages_to_scan, run comes last. */
static struct setting {
	const char *name;
	char value[32];		/* empty: this kernel does not have it */
} settings[] = {
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

struct result {
	int guests;
	uint64_t pages;
	double cpu_s;
	double wall_s;
	uint64_t scans;
	uint64_t looks;
	uint64_t shared;
	uint64_t sharing;
	uint64_t zero;
	double idle_cpu_s;
};

static volatile sig_atomic_t caught_signal;

static void on_signal(int number)
{
	caught_signal = number;
}

__attribute__((format(printf, 1, 2))) static int complain(const char *format, ...)
{
	va_list args;

	fputs("ksmd_images: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

/* Reads a small file without its newline. */
static int read_text(char *text, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return n < 0 ? -1 : 0;
}

/* The value of a KSM file; of "[none] scan-time" the chosen word. */
static int ksm_read(char *value, size_t size, const char *name)
{
	char path[128], *open_bracket;

	snprintf(path, sizeof(path), KSM_DIR "%s", name);
	if (read_text(value, size, path))
		return -1;
	open_bracket = strchr(value, '[');
	if (open_bracket) {
		memmove(value, open_bracket + 1, strlen(open_bracket));
		value[strcspn(value, "]")] = '\0';
	}
	return 0;
}

static uint64_t ksm_count(const char *name)
{
	char value[32];

	return ksm_read(value, sizeof(value), name) ? 0 : strtoull(value, NULL, 10);
}

static int ksm_write(const char *name, const char *value)
{
	char path[128];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), KSM_DIR "%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = write(fd, value, strlen(value));
		close(fd);
	}
	return n < 0 ? complain("%s = %s: %s", name, value, strerror(errno)) : 0;
}

static void settings_save(void)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (ksm_read(settings[i].value, sizeof(settings[i].value), settings[i].name))
			settings[i].value[0] = '\0';
	}
}

static const char *saved(const char *name)
{
	for (size_t i = 0; i < N_SETTINGS; i++) {
		if (!strcmp(name, settings[i].name))
			return settings[i].value;
	}
	return "";
}

/* Sets what this kernel has; what it does not have cannot be on. */
static int set(const char *name, const char *value)
{
	return *saved(name) ? ksm_write(name, value) : 0;
}

static int setting_restore(const struct setting *s)
{
	const char *mode = saved("advisor_mode");
	char now[32];

	if (!*s->value || (!strcmp(s->name, "pages_to_scan") && *mode && strcmp(mode, "none")))
		return 0;
	if (!ksm_read(now, sizeof(now), s->name) && !strcmp(now, s->value))
		return 0;
	if (ksm_write(s->name, s->value))
		return -1;
	if (ksm_read(now, sizeof(now), s->name) || strcmp(now, s->value))
		return complain("%s is %s and was %s", s->name, now, s->value);
	return 0;
}

/* Signals stay blocked meanwhile: one would make the kernel give up unmerging. */
static int settings_restore(void)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	ret = ksm_write("run", "2");
	for (size_t i = 0; i < N_SETTINGS; i++)
		ret |= setting_restore(&settings[i]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ret;
}

/* Fields of /proc/PID/stat behind the name: its state is the first. NULL if there are none. */
static const char *stat_fields(char *text, size_t size, const char *pid)
{
	char path[64], *end;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (read_text(text, size, path))
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

static int find_ksmd(char *pid, size_t size)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool found = false;

	while (proc && !found && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !is_ksmd(entry->d_name))
			continue;
		snprintf(pid, size, "%.20s", entry->d_name);
		found = true;
	}
	if (proc)
		closedir(proc);
	return found ? 0 : -1;
}

static bool is_asleep(const char *pid)
{
	char text[1024];
	const char *fields = stat_fields(text, sizeof(text), pid);

	return fields && fields[0] == 'S';
}

static double cpu_seconds(const char *pid)
{
	char path[64], text[1024];
	const char *fields;
	unsigned long user, kernel;

	snprintf(path, sizeof(path), "/proc/%.20s/schedstat", pid);
	if (!read_text(text, sizeof(text), path) && text[0])
		return (double)strtoull(text, NULL, 10) * 1e-9;
	fields = stat_fields(text, sizeof(text), pid);
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
	return ksm_write("sleep_millisecs", other ? "600001" : "600000");
}

/*
 * One scan. The state is read before the count of scans: if ksmd slept and, looked up afterwards,
 * no scan had ended, then this scan has not begun, and waking cannot cause another one. When this
 * returns ksmd sleeps again, so that its times and counts are final.
 */
static int scan_once(const char *pid)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t before = ksm_count("full_scans");
	double begin = wall_seconds();

	while (!caught_signal) {
		bool asleep = is_asleep(pid);
		bool done = ksm_count("full_scans") != before;

		if (asleep && done)
			return 0;
		if (asleep && wake())
			return -1;
		if (wall_seconds() - begin > SCAN_LIMIT_S)
			return complain("no scan in %d s", SCAN_LIMIT_S);
		nanosleep(&pause, NULL);
	}
	return -1;
}

static int set_up(void)
{
	if (ksm_write("run", "2") || set("advisor_mode", "none") || set("smart_scan", "0") ||
	    set("use_zero_pages", "1") || set("max_page_sharing", "256") || wake() ||
	    ksm_write("pages_to_scan", "4000000000") || ksm_write("run", "0"))
		return -1;
	return 0;
}

static int measure_scans(struct result *r, const char *pid, uint64_t scans)
{
	uint64_t looks = ksm_count("pages_scanned"), counted = 0;
	double cpu = cpu_seconds(pid), wall = wall_seconds();

	if (ksm_write("run", "1"))
		return -1;
	for (r->scans = 0; counted < scans && r->scans < scans + 2; r->scans++) {
		uint64_t seen = ksm_count("pages_scanned");

		if (scan_once(pid))
			return -1;
		counted += counted > 0 || ksm_count("pages_scanned") - seen >= r->pages / 2;
	}
	r->wall_s = wall_seconds() - wall;
	r->cpu_s = cpu_seconds(pid) - cpu;
	r->looks = ksm_count("pages_scanned") - looks;
	if (ksm_write("run", "0"))
		return -1;
	r->shared = ksm_count("pages_shared");
	r->sharing = ksm_count("pages_sharing");
	r->zero = ksm_count("ksm_zero_pages");
	return counted == scans ? 0 : complain("ksmd did not look at the pages");
}

static int measure_idle(struct result *r, const char *pid)
{
	double cpu = cpu_seconds(pid);

	if (ksm_write("run", "1"))
		return -1;
	for (int i = 0; i < IDLE_SCANS; i++) {
		if (scan_once(pid))
			return -1;
	}
	r->idle_cpu_s = (cpu_seconds(pid) - cpu) / IDLE_SCANS;
	return 0;
}

static int read_all(int fd, unsigned char *memory, size_t size)
{
	while (size > 0 && !caught_signal) {
		ssize_t n = read(fd, memory, size < (1u << 30) ? size : (1u << 30));

		if (n <= 0)
			return -1;
		memory += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The memory is mergeable at once: nothing happens to it before run is 1. */
static int load(struct result *r, const char *path)
{
	struct stat st;
	void *memory;
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0 || fstat(fd, &st))
		return complain("%s: %s", path, strerror(errno));
	if (st.st_size == 0 || st.st_size % PAGE_BYTES)
		return complain("%s: not a whole number of pages", path);
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ret = memory == MAP_FAILED || madvise(memory, (size_t)st.st_size, MADV_MERGEABLE) ? -1 : 0;
	if (!ret)	/* fails where there are no huge pages at all */
		madvise(memory, (size_t)st.st_size, MADV_NOHUGEPAGE);
	if (!ret)
		ret = read_all(fd, memory, (size_t)st.st_size);
	if (ret && !caught_signal)
		complain("%s: %s", path, strerror(errno));
	close(fd);
	r->pages += (uint64_t)st.st_size / PAGE_BYTES;
	r->guests++;
	return ret;
}

static int skip(const char *why)
{
	complain("%s", why);
	return SKIP;
}

/* Pages merged by others would be unmerged, with run=2, or be mistaken for ours. */
static int check_host(char *pid, size_t size)
{
	if (access(KSM_DIR "run", F_OK))
		return skip("this kernel has no KSM (" KSM_DIR ")");
	if (access(KSM_DIR "run", W_OK))
		return skip(KSM_DIR " cannot be written: needs root");
	if (sysconf(_SC_PAGESIZE) != PAGE_BYTES)
		return skip("pages are not of 4096 bytes here");
	if (ksm_count("pages_shared") || ksm_count("ksm_zero_pages"))
		return skip("KSM is in use: it has merged pages of others");
	if (find_ksmd(pid, size))
		return skip("cannot see the kernel thread ksmd from here");
	return 0;
}

static void print(const struct result *r, bool json)
{
	printf(json ?
		"{\"guests\": %d, \"pages\": %" PRIu64 ", \"ksmd_cpu_s\": %.6f, "
		"\"ksmd_wall_s\": %.6f, \"scans\": %" PRIu64 ", \"looks_per_page\": %.3f, "
		"\"shared\": %" PRIu64 ", \"sharing\": %" PRIu64 ", \"zero\": %" PRIu64 ", "
		"\"idle_scan_cpu_s\": %.6f}\n" :
		"guests            %12d\npages             %12" PRIu64 "\n"
		"ksmd CPU          %12.6f s\nksmd wall         %12.6f s\n"
		"scans             %12" PRIu64 "\nlooks per page    %12.3f\n"
		"shared            %12" PRIu64 "\nsharing           %12" PRIu64 "\n"
		"zero              %12" PRIu64 "\nidle scan CPU     %12.6f s\n",
	       r->guests, r->pages, r->cpu_s, r->wall_s, r->scans,
	       (double)r->looks / (double)r->pages, r->shared, r->sharing, r->zero, r->idle_cpu_s);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int main(int argc, char **argv)
{
	struct result r = { 0 };
	uint64_t scans = 2;
	bool json = false;
	char pid[24];
	int at = 1, ret;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--json"))
			json = true;
		else if (!strcmp(argv[at], "--scans") && at + 1 < argc)
			scans = strtoull(argv[++at], NULL, 10);
		else
			break;
	}
	if (at == argc || argv[at][0] == '-' || scans < 1 || scans > 1000) {
		fprintf(stderr, "usage: ksmd_images [--json] [--scans N] IMAGE...\n");
		return 2;
	}
	ret = check_host(pid, sizeof(pid));
	if (ret)
		return ret;
	catch_signals();
	for (; !ret && at < argc; at++)
		ret = load(&r, argv[at]);
	if (!ret && !caught_signal) {
		settings_save();
		ret = set_up() || measure_scans(&r, pid, scans) || measure_idle(&r, pid);
		ret |= settings_restore();
	}
	if (caught_signal)
		return 128 + caught_signal;
	if (!ret)
		print(&r, json);
	return ret || fflush(stdout) ? 1 : 0;
}
