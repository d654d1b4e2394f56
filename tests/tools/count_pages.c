/*
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * count_pages [--limit L] [--json] IMAGE...: what merging these memory images must come to.
 *
 * This is the independent count that the library's results are checked against. It shares no
 * code with the library and no method: no hashing and no tree. Page pointers are sorted by
 * content, equal pages lie next to each other, and everything is counted from there.
 *
 * Each image is one guest: one range of pages of 4096 bytes. With limit L a nonzero content that
 * has N copies, q = N / L and r = N % L, gives
 *
 *   shared    q + (r >= 2)              frames
 *   sharing   N - (r == 1) - shared     pages saved
 *   unshared  (r == 1)                  no partner, or left over above the limit
 *
 * Mappings: the copies are taken in the order of the images, copy k goes to frame k / L of its
 * content, and a left over last copy stays where it is. Frames are numbered by the first
 * appearance of one of their pages. A mapping is a longest run within one guest of either
 * anonymous pages (zero pages and unshared ones) or shared pages whose frames follow each other.
 * `runs` counts only the latter kind.
 *
 * Cost: n log n comparisons of a word, of pages only where the first words are equal.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define NO_FRAME UINT64_MAX

struct guest {
	const unsigned char *memory;
	uint64_t first;		/* number of its first page over all images */
	uint64_t pages;
};

/* A nonzero page; `word` is its beginning, in the order of memcmp. */
struct page {
	uint64_t word;
	const unsigned char *memory;
	uint64_t number;
};

struct counts {
	uint64_t pages;
	uint64_t zero;
	uint64_t contents;
	uint64_t shared;
	uint64_t sharing;
	uint64_t unshared;
	uint64_t runs;
	uint64_t mappings;
};

static int guest_open(struct guest *g, const char *path)
{
	struct stat st;
	void *memory;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "count_pages: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (st.st_size == 0 || st.st_size % PAGE_BYTES) {
		fprintf(stderr, "count_pages: %s: not a whole number of pages\n", path);
		return -1;
	}
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "count_pages: %s: %s\n", path, strerror(errno));
		return -1;
	}
	g->memory = memory;
	g->pages = (uint64_t)st.st_size / PAGE_BYTES;
	return 0;
}

static bool is_zero(const unsigned char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

static uint64_t first_word(const unsigned char *page)
{
	uint64_t word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | page[i];
	return word;
}

static uint64_t collect(struct page *pages, const struct guest *guests, int n_guests)
{
	uint64_t n = 0;

	for (int g = 0; g < n_guests; g++) {
		for (uint64_t i = 0; i < guests[g].pages; i++) {
			const unsigned char *memory = guests[g].memory + i * PAGE_BYTES;

			if (is_zero(memory))
				continue;
			pages[n].word = first_word(memory);
			pages[n].memory = memory;
			pages[n++].number = guests[g].first + i;
		}
	}
	return n;
}

static int compare_content(const struct page *a, const struct page *b)
{
	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return memcmp(a->memory, b->memory, PAGE_BYTES);
}

/* By content, and equal pages in the order of the images. */
static int compare_pages(const void *left, const void *right)
{
	const struct page *a = left, *b = right;
	int order = compare_content(a, b);

	return order ? order : (a->number > b->number) - (a->number < b->number);
}

/*
 * One content with its `n` copies: counts it, and notes for every page that gets a frame the
 * number of the first page on that frame. All other pages keep NO_FRAME.
 */
static void count_content(struct counts *c, uint64_t *leader, const struct page *copies, uint64_t n,
			  uint64_t limit)
{
	uint64_t left_over = n % limit == 1;
	uint64_t shared = n / limit + (n % limit >= 2);

	c->contents++;
	c->shared += shared;
	c->sharing += n - left_over - shared;
	c->unshared += left_over;
	for (uint64_t k = 0; k < n - left_over; k++)
		leader[copies[k].number] = copies[k - k % limit].number;
}

static void count_contents(struct counts *c, uint64_t *leader, const struct page *sorted,
			   uint64_t n, uint64_t limit)
{
	uint64_t end;

	for (uint64_t start = 0; start < n; start = end) {
		for (end = start + 1; end < n; end++) {
			if (compare_content(&sorted[start], &sorted[end]))
				break;
		}
		count_content(c, leader, &sorted[start], end - start, limit);
	}
}

/* Turns leaders into frame numbers, in place: a leader comes before all others on its frame. */
static void number_frames(uint64_t *leader, uint64_t pages)
{
	uint64_t next = 0;

	for (uint64_t i = 0; i < pages; i++) {
		if (leader[i] == i)
			leader[i] = next++;
		else if (leader[i] != NO_FRAME)
			leader[i] = leader[leader[i]];
	}
}

static void count_mappings(struct counts *c, const uint64_t *frame, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++) {
		bool anonymous = frame[i] == NO_FRAME;

		if (i > 0 && (anonymous ? frame[i - 1] == NO_FRAME :
					  frame[i - 1] != NO_FRAME && frame[i - 1] + 1 == frame[i]))
			continue;
		c->mappings++;
		c->runs += !anonymous;
	}
}

static int count(struct counts *c, struct guest *guests, int n_guests, uint64_t limit)
{
	struct page *sorted;
	uint64_t *frame;
	uint64_t n;

	for (int g = 0; g < n_guests; g++) {
		guests[g].first = c->pages;
		c->pages += guests[g].pages;
	}
	sorted = calloc(c->pages, sizeof(*sorted));
	frame = malloc(c->pages * sizeof(*frame));
	if (sorted && frame) {
		memset(frame, 0xff, c->pages * sizeof(*frame));
		n = collect(sorted, guests, n_guests);
		c->zero = c->pages - n;
		qsort(sorted, n, sizeof(*sorted), compare_pages);
		count_contents(c, frame, sorted, n, limit);
		number_frames(frame, c->pages);
		for (int g = 0; g < n_guests; g++)
			count_mappings(c, frame + guests[g].first, guests[g].pages);
	}
	n = sorted && frame;
	free(sorted);
	free(frame);
	return n ? 0 : -1;
}

static void print(const struct counts *c, bool json)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "pages", c->pages },
		{ "zero", c->zero },
		{ "contents", c->contents },
		{ "shared", c->shared },
		{ "sharing", c->sharing },
		{ "unshared", c->unshared },
		{ "runs", c->runs },
		{ "mappings", c->mappings },
	};
	const size_t n = sizeof(rows) / sizeof(rows[0]);

	for (size_t i = 0; i < n; i++) {
		if (json)
			printf("%s\"%s\": %" PRIu64 "%s", i ? ", " : "{", rows[i].name,
			       rows[i].value, i + 1 < n ? "" : "}\n");
		else
			printf("%-10s %12" PRIu64 "\n", rows[i].name, rows[i].value);
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: count_pages [--limit L] [--json] IMAGE...   (L: at least 2)\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct counts c = { 0 };
	struct guest *guests;
	uint64_t limit = 256;
	bool json = false;
	char *end;
	int at = 1, ret = 0;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--json")) {
			json = true;
		} else if (!strcmp(argv[at], "--limit") && at + 1 < argc) {
			limit = strtoull(argv[++at], &end, 10);
			if (*end || limit < 2 || argv[at][0] == '-')
				return usage();
		} else {
			return usage();
		}
	}
	if (at == argc)
		return usage();
	guests = calloc((size_t)(argc - at), sizeof(*guests));
	for (int g = 0; guests && !ret && g < argc - at; g++)
		ret = guest_open(&guests[g], argv[at + g]);
	if (!ret && (!guests || count(&c, guests, argc - at, limit))) {
		fprintf(stderr, "count_pages: out of memory\n");
		ret = -1;
	}
	if (!ret)
		print(&c, json);
	free(guests);
	return ret || fflush(stdout) ? 1 : 0;
}
