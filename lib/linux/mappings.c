/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mappings.c - the process's mappings, from /proc/self.
 *
 * Mappings are what merging costs, and the kernel has a limit on them (65,530 by default), at which
 * mmap, mprotect, pthread_create and even munmap in the middle of a mapping fail: for the whole
 * program, not only for us. So there is a budget that leaves the program some.
 *
 * Invariants
 *  1. Nothing here calls malloc (bitmap.h says why) or stdio.
 *  2. `estimate` never falls below what the mappings were when they were last counted, plus what
 *     was taken since. One mmap over a part of a mapping adds at most two.
 *
 * Counting costs time in proportion to the mappings, and near the limit an estimate that adds two
 * for each remap would meet the limit again at once. So, once refused, it is counted again only
 * after a number of refusals that is a fair part of the limit; and, since the program makes
 * mappings too, after we took a fair part of it. Both are O(1) for each attempt on average.
 *
 * Locking: the caller's.
 */
#define _GNU_SOURCE 1
#include "mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"

/* The lines of a file. Longer ones are cut; what matters stands in front. */
struct lines {
	int fd;
	size_t pos;
	size_t filled;
	char buffer[8192];
	char line[512];
};

static int lines_open(struct lines *lines, const char *path)
{
	lines->fd = open(path, O_RDONLY | O_CLOEXEC);
	lines->pos = lines->filled = 0;
	return lines->fd < 0 ? -errno : 0;
}

/* 1: there is a line; 0: the end; -errno */
static int lines_next(struct lines *lines)
{
	size_t length = 0;

	for (;;) {
		char c;

		if (lines->pos == lines->filled) {
			ssize_t n = read(lines->fd, lines->buffer, sizeof(lines->buffer));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : 0;
			lines->pos = 0;
			lines->filled = (size_t)n;
		}
		c = lines->buffer[lines->pos++];
		if (c == '\n')
			break;
		if (length < sizeof(lines->line) - 1)
			lines->line[length++] = c;
	}
	lines->line[length] = '\0';
	return 1;
}

static const char *parse_hex(const char *text, uint64_t *value)
{
	uint64_t v = 0;

	for (;; text++) {
		if (*text >= '0' && *text <= '9')
			v = v << 4 | (uint64_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			v = v << 4 | (uint64_t)(*text - 'a' + 10);
		else
			break;
	}
	*value = v;
	return text;
}

/* Whether a line begins a mapping ("start-end perms ..."); what follows its range is `rest`. If it
 * does not, nothing is changed. */
static bool parse_range(const char *line, uint64_t *start, uint64_t *end, const char **rest)
{
	uint64_t first, behind;
	const char *text = parse_hex(line, &first), *after;

	if (text == line || *text != '-')
		return false;
	after = parse_hex(text + 1, &behind);
	if (*after != ' ')
		return false;
	*start = first;
	*end = behind;
	*rest = after;
	return true;
}

int pddi_mappings_walk(pddi_mapping_fn fn, void *ctx)
{
	struct lines lines;
	int result = lines_open(&lines, "/proc/self/maps");

	if (result)
		return result;
	while ((result = lines_next(&lines)) > 0) {
		uint64_t start, end;
		const char *rest;

		if (parse_range(lines.line, &start, &end, &rest))
			fn(ctx, (uintptr_t)start, (uintptr_t)end);
	}
	close(lines.fd);
	return result;
}

static void count_one(void *ctx, uintptr_t start, uintptr_t end)
{
	(void)start;
	(void)end;
	++*(uint64_t *)ctx;
}

int pddi_mappings_count(uint64_t *count)
{
	*count = 0;
	return pddi_mappings_walk(count_one, count);
}

/* --- the budget --- */

uint64_t pddi_mappings_max(void)
{
	struct lines lines;
	uint64_t max = 0;
	const char *c;

	if (!lines_open(&lines, "/proc/sys/vm/max_map_count")) {
		if (lines_next(&lines) > 0)
			for (c = lines.line; *c >= '0' && *c <= '9'; c++)
				max = max * 10 + (uint64_t)(*c - '0');
		close(lines.fd);
	}
	return max ? max : 65530;
}

int pddi_budget_init(struct pddi_budget *budget, uint64_t limit)
{
	uint64_t max = pddi_mappings_max();

	budget->limit = limit ? limit : max - max / 16;
	budget->patience = budget->uncounted = 0;
	return pddi_mappings_count(&budget->estimate);
}

static void recount(struct pddi_budget *budget)
{
	uint64_t count;

	if (!pddi_mappings_count(&count))
		budget->estimate = count;
	budget->uncounted = 0;
}

bool pddi_budget_take(struct pddi_budget *budget, uint64_t n)
{
	if (budget->estimate + n > budget->limit) {
		if (budget->patience) {
			budget->patience--;
			return false;
		}
		budget->patience = budget->limit / 16;
		recount(budget);
		if (budget->estimate + n > budget->limit)
			return false;
	} else if (budget->uncounted > budget->limit / 8) {
		recount(budget);
		return pddi_budget_take(budget, n);
	}
	budget->estimate += n;
	budget->uncounted += n;
	return true;
}

void pddi_budget_overdraw(struct pddi_budget *budget, uint64_t n)
{
	budget->estimate += n;
	budget->uncounted += n;
}

void pddi_budget_give(struct pddi_budget *budget, uint64_t n)
{
	budget->estimate -= n;
	budget->uncounted -= n;
}

/* --- what memory consists of --- */

/*
 * Flags of a mapping that neither forbid merging nor have to be renewed. Those that have to be are
 * in the table below. All others (locked, shadow stack, write-sealed, tagged, a userfaultfd of
 * somebody else, ones that we do not know) forbid it: a mapping that takes the place of some of the
 * memory would not have them.
 */
static const char harmless[] = " rd wr mr mw me ac sd hg nh mg ";

static const struct {
	char name[3];
	uint32_t flag;
} renewed[] = {
	{ "dc", PDDI_MEMORY_DONTFORK },
	{ "dd", PDDI_MEMORY_DONTDUMP },
	{ "nr", PDDI_MEMORY_NORESERVE },
};

/* Whether all flags of a line "VmFlags: rd wr ..." are known; those to be renewed. */
static bool parse_vm_flags(const char *text, uint32_t *flags)
{
	*flags = 0;
	for (;;) {
		char name[5] = " xx ";
		bool found = false;
		size_t i;

		while (*text == ' ')
			text++;
		if (!text[0] || !text[1])
			return true;
		memcpy(name + 1, text, 2);
		for (i = 0; i < sizeof(renewed) / sizeof(renewed[0]); i++) {
			if (!memcmp(renewed[i].name, text, 2)) {
				*flags |= renewed[i].flag;
				found = true;
			}
		}
		if (!found && !strstr(harmless, name))
			return false;
		text += 2;
	}
}

/* Whether "perms offset dev inode path" is that of private anonymous memory. */
static bool is_anonymous(const char *rest)
{
	int field;

	if (strncmp(rest, " rw-p ", 6) != 0)
		return false;
	rest += 6;
	for (field = 0; field < 2; field++) {
		rest = strchr(rest, ' ');
		if (!rest)
			return false;
		rest++;
	}
	return rest[0] == '0' && (rest[1] == ' ' || rest[1] == '\0');
}

int pddi_mappings_inspect(uint32_t *flags, uintptr_t start, uintptr_t end)
{
	static const char vm_flags[] = "VmFlags:";
	uint64_t from = 0, to = 0;
	uint64_t at = start; /* what lies before it was found good */
	struct lines lines;
	int result = lines_open(&lines, "/proc/self/smaps");

	if (result)
		return result;
	while (at < end && (result = lines_next(&lines)) > 0) {
		const char *rest;
		uint32_t own;

		if (parse_range(lines.line, &from, &to, &rest)) {
			if (to > at && from > at)
				break; /* a gap */
			if (to > at && !is_anonymous(rest)) {
				result = -EACCES;
				break;
			}
		} else if (to > at && !strncmp(lines.line, vm_flags, sizeof(vm_flags) - 1)) {
			if (!parse_vm_flags(lines.line + sizeof(vm_flags) - 1, &own) ||
			    (at != start && own != *flags)) {
				result = -EACCES;
				break;
			}
			*flags = own;
			at = to;
		}
	}
	close(lines.fd);
	if (at >= end)
		return 0;
	return result < 0 ? result : -ENOMEM;
}
