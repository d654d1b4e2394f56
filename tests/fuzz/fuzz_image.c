/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_image.c - what guest-dedup does with a file that it is given: guest_load(), pages with
 * counters, guest_verify(). Images are raw memory without any metadata, so what can be wrong is the
 * file itself: its kind, its size, reads that come short, are interrupted or fail, a file that gets
 * shorter or is changed meanwhile, and want of memory.
 *
 * guest.c is compiled into this file, with system calls that answer as the input says. Memory that
 * it maps ends where an array does, so that a sanitizer sees what reaches beyond it.
 *
 * Input: see read_scene(); then the bytes of which pages are made, one for each page; then what
 * each read answers.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define PAGES_MAX 5u
#define CHUNK_PAGES 2 /* that guest.c reads at once */
#define PAGE_BYTES 4096u
#define DESCRIPTOR 1000

struct scene {
	uint8_t pages[PAGES_MAX]; /* what they are made of, see fill_page() */
	unsigned npages;
	uint64_t size;            /* that fstat says */
	uint64_t kib_available;   /* that /proc/meminfo says */
	bool no_meminfo;
	mode_t mode;
	bool is_open;
	bool trouble;             /* something failed, so that guest-dedup has to complain */
	unsigned complaints;
	unsigned allocations;     /* that are not freed yet */
	unsigned fail_allocation; /* the n-th from now, 0: none */
	struct fuzz_bytes reads;
};

static struct scene scene;

/* ---- the system ---- */

/* Fail for good. */
static int trouble(int error)
{
	errno = error;
	scene.trouble = true;
	return -1;
}

static int fake_open(const char *path, int flags)
{
	fuzz_require(strcmp(path, "image") == 0 && !scene.is_open && (flags & O_CLOEXEC));
	if (scene.mode == 0)
		return trouble(ENOENT);
	scene.is_open = true;
	return DESCRIPTOR;
}

static int fake_close(int fd)
{
	fuzz_require(fd == DESCRIPTOR && scene.is_open);
	scene.is_open = false;
	return 0;
}

static int fake_fstat(int fd, struct stat *st)
{
	fuzz_require(fd == DESCRIPTOR && scene.is_open);
	*st = (struct stat){ .st_mode = scene.mode, .st_size = (off_t)scene.size };
	return 0;
}

static uint8_t page_byte(uint64_t number)
{
	return scene.pages[number % PAGES_MAX];
}

/* One byte throughout; if that is 1, zeros and a last byte. */
static void fill_page(unsigned char *page, uint64_t number)
{
	uint8_t byte = page_byte(number);

	memset(page, byte == 1 ? 0 : byte, PAGE_BYTES);
	page[PAGE_BYTES - 1] = byte;
}

static void read_bytes(unsigned char *to, size_t n, uint64_t offset)
{
	unsigned char page[PAGE_BYTES];

	while (n > 0) {
		size_t in_page = offset % PAGE_BYTES, part = PAGE_BYTES - in_page;

		part = part < n ? part : n;
		fill_page(page, offset / PAGE_BYTES);
		memcpy(to, page + in_page, part);
		to += part;
		n -= part;
		offset += part;
	}
}

static ssize_t fake_pread(int fd, void *to, size_t n, off_t at)
{
	uint64_t offset = (uint64_t)at, end = (uint64_t)scene.npages * PAGE_BYTES;
	uint8_t answer = fuzz_byte(&scene.reads);

	fuzz_require(fd == DESCRIPTOR && scene.is_open && n > 0);
	fuzz_require(offset < scene.size && n <= scene.size - offset);
	if (answer == 255)
		return trouble(EIO);
	if (answer == 254)
		return errno = EINTR, -1;
	if (offset >= end || answer == 253)
		return trouble(0) + 1; /* the end */
	n = n < end - offset ? n : end - offset;
	if (answer)
		n = n < answer * 67u ? n : answer * 67u;
	read_bytes(to, n, offset);
	return (ssize_t)n;
}

static FILE *fake_fopen(const char *path, const char *mode)
{
	fuzz_require(strcmp(path, "/proc/meminfo") == 0 && *mode == 'r');
	return scene.no_meminfo ? NULL : stdin;
}

static char *fake_fgets(char *line, int size, FILE *file)
{
	fuzz_require(file == stdin && size > 64);
	snprintf(line, (size_t)size, "MemAvailable: %" PRIu64 " kB\n", scene.kib_available);
	return line;
}

static int fake_fclose(FILE *file)
{
	return file == stdin ? 0 : -1;
}

static bool allocation_fails(void)
{
	if (scene.fail_allocation && --scene.fail_allocation == 0)
		return trouble(ENOMEM) != 0;
	scene.allocations++;
	return false;
}

static void *fake_malloc(size_t n)
{
	static unsigned char chunk[CHUNK_PAGES * PAGE_BYTES];

	fuzz_require(n == sizeof(chunk));
	return allocation_fails() ? NULL : chunk;
}

static void *fake_calloc(size_t n, size_t size)
{
	return allocation_fails() ? NULL : calloc(n ? n : 1, size);
}

static void fake_free(void *memory)
{
	scene.allocations -= memory != NULL;
}

static void fake_free_calloc(void *memory)
{
	fake_free(memory);
	free(memory);
}

static void *fake_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	static unsigned char arena[4 * PAGES_MAX * PAGE_BYTES];
	unsigned char *memory;

	fuzz_require(!at && n && fd == -1 && !offset && (flags & MAP_ANONYMOUS));
	fuzz_require(prot == (PROT_READ | PROT_WRITE));
	if (n > sizeof(arena))
		return trouble(ENOMEM), MAP_FAILED;
	if (allocation_fails())
		return MAP_FAILED;
	memory = arena + sizeof(arena) - n; /* at the end, so that a sanitizer sees what reaches
					       beyond */
	memset(memory, 0, n);
	return memory;
}

static int fake_munmap(void *memory, size_t n)
{
	fuzz_require(memory && n == scene.size);
	fake_free(memory);
	return 0;
}

static int fake_complain(void)
{
	scene.complaints++;
	return 0;
}

#define open(...) fake_open(__VA_ARGS__)
#define close fake_close
#define fstat fake_fstat
#define pread fake_pread
#define fopen fake_fopen
#define fgets fake_fgets
#define fclose fake_fclose
#define malloc fake_malloc
#define calloc fake_calloc
#define free(memory)                                                                               \
	_Generic((memory), unsigned char *: fake_free, default: fake_free_calloc)(memory)
#define mmap fake_mmap
#define munmap fake_munmap
#define madvise(...) ((void)0)
#define fprintf(...) fake_complain()

#include "guest.c"

#undef fprintf

/* ---- what is done ---- */

static void read_scene(struct fuzz_bytes *bytes)
{
	uint8_t kind = fuzz_byte(bytes), odd = fuzz_byte(bytes), available = fuzz_byte(bytes);

	scene = (struct scene){ .mode = kind & 7 ? S_IFREG : kind & 8 ? S_IFDIR : 0 };
	scene.no_meminfo = available == 255;
	scene.kib_available = available < 64 ? available : UINT64_MAX >> (10 + available % 32);
	scene.fail_allocation = kind / 16 % 8;
	scene.npages = fuzz_byte(bytes) % (PAGES_MAX + 1);
	for (unsigned i = 0; i < scene.npages; i++)
		scene.pages[i] = fuzz_byte(bytes);
	scene.size = (uint64_t)scene.npages * PAGE_BYTES;
	if (odd >= 250)
		scene.size = (uint64_t)INT64_MAX - (odd - 250u) * (PAGE_BYTES - 1u);
	else if (odd >= 240)
		scene.size += (odd - 240u) * PAGE_BYTES; /* reads will end too soon */
	else if (odd >= 200)
		scene.size += odd - 199u;
	scene.reads = *bytes;
}

/* What is known before any of it is read. */
static bool is_fine(void)
{
	return scene.mode == S_IFREG && scene.size && scene.size % PAGE == 0 &&
	       (scene.no_meminfo || scene.size <= scene.kib_available * 1024);
}

/* Pages that differ from the image, and from the counters in them. */
static uint64_t count_differing(const struct guest *guest)
{
	unsigned char page[PAGE_BYTES];
	uint64_t n = 0;

	for (uint64_t i = 0; i < guest->npages; i++) {
		read_bytes(page, PAGE_BYTES, i * PAGE_BYTES);
		for (uint64_t slot = 0; slot < guest->nslots; slot++)
			if (guest->slots[slot] == i) {
				uint64_t count = guest->increments[slot];

				memcpy(page + slot * 8 % PAGE_BYTES, &count, sizeof(count));
			}
		n += memcmp(page, guest->memory + i * PAGE_BYTES, PAGE_BYTES) != 0;
	}
	return n;
}

/* Counters stand in the first zero pages, and nowhere else. */
static void check_slots(const struct guest *guest, uint64_t wanted)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < guest->npages; i++) {
		if (page_byte(i) || n == wanted) {
			fuzz_require(guest->slot_of[i] == 0);
			continue;
		}
		fuzz_require(guest->slots[n] == i && guest->slot_of[i] == n + 1);
		n++;
	}
	fuzz_require(n == guest->nslots);
}

/* Writers count; some increments are lost, then a byte changes, nobody knows why. */
static void use(struct guest *guest, struct fuzz_bytes *bytes)
{
	uint64_t lost = 0;

	for (uint64_t slot = 0; slot < guest->nslots; slot++) {
		uint8_t byte = fuzz_byte(bytes);

		guest->increments[slot] = byte;
		*guest_counter(guest, slot) = byte & 1 ? byte / 2 : byte;
		lost += byte & 1 ? byte - byte / 2 : 0;
	}
	fuzz_require(guest_lost_increments(guest) == lost);
	if (fuzz_byte(bytes) & 1) {
		uint32_t at = fuzz_byte(bytes) * 256u;

		at += fuzz_byte(bytes);
		guest->memory[at % scene.size] ^= fuzz_byte(bytes);
	}
}

static void verify(struct guest *guest)
{
	uint64_t expected = count_differing(guest);
	unsigned complaints = scene.complaints;
	bool ok = guest_verify(guest);

	fuzz_require(ok == !scene.trouble && ok == (scene.complaints == complaints));
	fuzz_require(ok ? guest->differing == expected : guest->differing <= expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = fuzz_bytes(data, size);
	struct guest guest;
	uint64_t wanted;
	bool loaded;

	read_scene(&bytes);
	loaded = guest_load(&guest, "image");
	fuzz_require(loaded == !scene.complaints && !scene.is_open);
	fuzz_require(loaded == (is_fine() && !scene.trouble));
	fuzz_require(!loaded || guest.npages * PAGE == scene.size);
	if (loaded) {
		fuzz_require(count_differing(&guest) == 0);
		wanted = fuzz_byte(&scene.reads) % (PAGES_MAX + 2);
		if (!guest_choose_slots(&guest, wanted)) {
			fuzz_require(scene.trouble);
		} else {
			check_slots(&guest, wanted);
			use(&guest, &scene.reads);
			verify(&guest);
		}
	}
	guest_free(&guest);
	fuzz_require(scene.allocations == 0 && !scene.is_open);
	return 0;
}
