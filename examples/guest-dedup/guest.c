/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.c - guests: memory that was loaded from a raw RAM image, and is held against it at the end.
 */
#define _GNU_SOURCE

#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CHUNK_PAGES
#define CHUNK_PAGES 256 /* read at once */
#endif

enum {
	PAGE = 4096,
	CHUNK = CHUNK_PAGES * PAGE,
};

static bool complain(const char *image, const char *what)
{
	fprintf(stderr, "guest-dedup: %s: %s\n", image, what);
	return false;
}

/* Memory that the system can give, in bytes; UINT64_MAX if it does not say. */
static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib = 0;
	bool found = false;

	if (!file)
		return UINT64_MAX;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1;
	fclose(file);
	return found ? kib * 1024 : UINT64_MAX;
}

/* The size of an image, 0 after a complaint. */
static uint64_t image_size(const char *image, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return complain(image, strerror(errno)), 0;
	if (!S_ISREG(st.st_mode))
		return complain(image, "not a regular file"), 0;
	if (st.st_size == 0)
		return complain(image, "empty"), 0;
	if (st.st_size % PAGE != 0)
		return complain(image, "size is not a multiple of the page size (4096)"), 0;
	if ((uint64_t)st.st_size > available_bytes())
		return complain(image, "larger than the memory that is available"), 0;
	return (uint64_t)st.st_size;
}

/* Read exactly n bytes at an offset. */
static bool read_all(const char *image, int fd, unsigned char *to, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t got = pread(fd, to, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return complain(image, strerror(errno));
		if (got == 0)
			return complain(image, "became shorter while it was read");
		to += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

/* Fill the memory by this program's own writes, as a guest's would be, not by the kernel's: where
 * page tables are virtualised, the first access of a program to a page is dear. */
static bool fill(struct guest *guest, int fd)
{
	uint64_t size = guest->npages * PAGE;
	unsigned char *chunk = malloc(CHUNK);
	bool ok = chunk || complain(guest->image, strerror(ENOMEM));

	for (uint64_t at = 0; ok && at < size; at += CHUNK) {
		size_t n = size - at < CHUNK ? size - at : CHUNK;

		ok = read_all(guest->image, fd, chunk, n, at);
		if (ok)
			memcpy(guest->memory + at, chunk, n);
	}
	free(chunk);
	return ok;
}

bool guest_load(struct guest *guest, const char *image)
{
	int fd = open(image, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t size;
	void *memory;
	bool ok;

	*guest = (struct guest){ .image = image };
	if (fd < 0)
		return complain(image, strerror(errno));
	size = image_size(image, fd);
	if (size == 0) {
		close(fd);
		return false;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		complain(image, strerror(errno));
		close(fd);
		return false;
	}
	/* The library shares pages of 4 KiB: huge ones would have to be broken first. */
	madvise(memory, size, MADV_NOHUGEPAGE);
	guest->memory = memory;
	guest->npages = size / PAGE;
	ok = fill(guest, fd);
	close(fd);
	if (!ok)
		guest_free(guest);
	return ok;
}

static bool is_zero(const unsigned char *page)
{
	static const unsigned char zero[PAGE];

	return memcmp(page, zero, PAGE) == 0;
}

bool guest_choose_slots(struct guest *guest, uint64_t n)
{
	guest->slots = calloc(n, sizeof(*guest->slots));
	guest->increments = calloc(n, sizeof(*guest->increments));
	guest->slot_of = calloc(guest->npages, sizeof(*guest->slot_of));
	if (!guest->slots || !guest->increments || !guest->slot_of)
		return complain(guest->image, "no memory for counters");
	for (uint64_t page = 0; page < guest->npages && guest->nslots < n; page++) {
		if (!is_zero(guest->memory + page * PAGE))
			continue;
		guest->slots[guest->nslots] = (uint32_t)page;
		guest->slot_of[page] = (uint32_t)++guest->nslots;
	}
	return true;
}

static size_t counter_offset(uint64_t slot)
{
	return slot * sizeof(uint64_t) % PAGE;
}

volatile uint64_t *guest_counter(const struct guest *guest, uint64_t slot)
{
	return (volatile uint64_t *)(void *)(guest->memory + (uint64_t)guest->slots[slot] * PAGE +
					     counter_offset(slot));
}

/* What a page must be: `expected` holds the image's page, to which its counter is added. */
static bool page_differs(const struct guest *guest, uint64_t page, unsigned char *expected)
{
	uint32_t slot = guest->slot_of ? guest->slot_of[page] : 0;

	if (slot) {
		uint64_t increments = guest->increments[slot - 1];

		memcpy(expected + counter_offset(slot - 1), &increments, sizeof(increments));
	}
	return memcmp(guest->memory + page * PAGE, expected, PAGE) != 0;
}

bool guest_verify(struct guest *guest)
{
	int fd = open(guest->image, O_RDONLY | O_CLOEXEC);
	unsigned char *chunk = malloc(CHUNK);
	bool ok = fd >= 0 && chunk;

	if (!ok)
		complain(guest->image, strerror(errno));
	guest->differing = 0;
	for (uint64_t page = 0; ok && page < guest->npages; page += CHUNK / PAGE) {
		uint64_t n = guest->npages - page;

		if (n > CHUNK / PAGE)
			n = CHUNK / PAGE;
		ok = read_all(guest->image, fd, chunk, n * PAGE, page * PAGE);
		for (uint64_t i = 0; ok && i < n; i++)
			guest->differing += page_differs(guest, page + i, chunk + i * PAGE);
	}
	free(chunk);
	if (fd >= 0)
		close(fd);
	return ok;
}

uint64_t guest_lost_increments(const struct guest *guest)
{
	uint64_t lost = 0;

	for (uint64_t slot = 0; slot < guest->nslots; slot++) {
		uint64_t have = *guest_counter(guest, slot), want = guest->increments[slot];

		lost += want > have ? want - have : have - want;
	}
	return lost;
}

void guest_free(struct guest *guest)
{
	if (guest->memory)
		munmap(guest->memory, guest->npages * PAGE);
	free(guest->slots);
	free(guest->slot_of);
	free(guest->increments);
	*guest = (struct guest){ 0 };
}
