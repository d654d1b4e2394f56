/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_mappings.c - the adapter's parser of /proc/self/maps, smaps and max_map_count, whose lines
 * hold names that programs choose. Any text is parsed without harm; what comes of it does not
 * depend on how it is cut into reads; and memory is found good only if lines cover all of it.
 *
 * mappings.c is compiled into this file, with system calls that answer as the input says.
 *
 * Input: two bytes for a range of pages, one for what the reads do, then the text.
 */
#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#define DESCRIPTOR 1000
#define PAGE_SHIFT 12
#define RANGES_MAX (FUZZ_INPUT_MAX / 4) /* "1-2 " */

static struct {
	struct fuzz_bytes text;
	size_t piece;      /* that one read gives at most */
	unsigned nreads;   /* so far */
	unsigned fail_at;  /* the read that fails, 0: none */
	bool interrupted;  /* it fails with EINTR */
	bool is_open;
} file;

static int fake_open(const char *path, int flags)
{
	fuzz_require(strncmp(path, "/proc/", 6) == 0 && !file.is_open && (flags & O_CLOEXEC));
	file.is_open = true;
	return DESCRIPTOR;
}

static int fake_close(int fd)
{
	fuzz_require(fd == DESCRIPTOR && file.is_open);
	file.is_open = false;
	return 0;
}

static ssize_t fake_read(int fd, void *to, size_t n)
{
	size_t left = fuzz_left(&file.text);

	fuzz_require(fd == DESCRIPTOR && file.is_open);
	if (++file.nreads == file.fail_at)
		return errno = file.interrupted ? EINTR : ENOMEM, -1;
	n = n < left ? n : left;
	n = n < file.piece ? n : file.piece;
	memcpy(to, file.text.at, n);
	file.text.at += n;
	return (ssize_t)n;
}

#define open(...) fake_open(__VA_ARGS__)
#define close fake_close
#define read fake_read

#include "linux/mappings.c"

/* ---- what is done ---- */

struct ranges {
	size_t n;
	struct {
		uintptr_t start, end;
	} of[RANGES_MAX];
};

/* All that comes of a text. */
struct outcome {
	struct ranges ranges;
	int walked, inspected;
	uint32_t flags;
	uint64_t max;
};

static void note(void *ctx, uintptr_t start, uintptr_t end)
{
	struct ranges *ranges = ctx;

	fuzz_require(ranges->n < RANGES_MAX);
	ranges->of[ranges->n].start = start;
	ranges->of[ranges->n++].end = end;
}

static void begin(const struct fuzz_bytes *text, size_t piece)
{
	file.text = *text;
	file.piece = piece;
	file.nreads = 0;
	fuzz_require(!file.is_open);
}

static void parse(struct outcome *out, const struct fuzz_bytes *text, size_t piece,
		  uintptr_t start, uintptr_t end)
{
	uint64_t count;

	out->ranges.n = 0;
	out->flags = 0;
	begin(text, piece);
	out->walked = pddi_mappings_walk(note, &out->ranges);
	begin(text, piece);
	fuzz_require(pddi_mappings_count(&count) == out->walked && count == out->ranges.n);
	begin(text, piece);
	out->inspected = pddi_mappings_inspect(&out->flags, start, end);
	begin(text, piece);
	out->max = pddi_mappings_max();
	begin(text, piece);
}

static bool is_covered(const struct ranges *ranges, uintptr_t start, uintptr_t end)
{
	for (bool found = true; found && start < end;) {
		found = false;
		for (size_t i = 0; i < ranges->n; i++) {
			if (ranges->of[i].start <= start && ranges->of[i].end > start) {
				start = ranges->of[i].end;
				found = true;
			}
		}
	}
	return start >= end;
}

static void check(const struct outcome *out, uintptr_t start, uintptr_t end)
{
	fuzz_require(out->walked == 0 || out->walked == -ENOMEM);
	fuzz_require(out->inspected == 0 || out->inspected == -EACCES || out->inspected == -ENOMEM);
	fuzz_require(out->max);
	if (out->inspected)
		return;
	fuzz_require(!(out->flags & ~(uint32_t)(PDDI_MEMORY_DONTFORK | PDDI_MEMORY_DONTDUMP |
						PDDI_MEMORY_NORESERVE)));
	if (!out->walked)
		fuzz_require(is_covered(&out->ranges, start, end));
}

static void require_same(const struct outcome *a, const struct outcome *b)
{
	fuzz_require(a->walked == b->walked && a->inspected == b->inspected && a->max == b->max);
	fuzz_require(a->inspected || a->flags == b->flags);
	fuzz_require(a->ranges.n == b->ranges.n);
	fuzz_require(memcmp(a->ranges.of, b->ranges.of, a->ranges.n * sizeof(a->ranges.of[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct outcome whole, pieces;
	struct fuzz_bytes bytes = fuzz_bytes(data, size);
	uintptr_t start = (uintptr_t)fuzz_byte(&bytes) << PAGE_SHIFT;
	uintptr_t end = start + (((uintptr_t)1 + fuzz_byte(&bytes)) << PAGE_SHIFT);
	uint8_t reads = fuzz_byte(&bytes);

	file.fail_at = 0;
	parse(&whole, &bytes, SIZE_MAX, start, end);
	check(&whole, start, end);
	file.fail_at = reads / 16;
	file.interrupted = reads & 1;
	parse(&pieces, &bytes, 1u + reads / 2 % 8 * 5, start, end);
	check(&pieces, start, end);
	if (!file.fail_at || file.interrupted)
		require_same(&whole, &pieces);
	return 0;
}
