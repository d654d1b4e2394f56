/*
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * make_image KIND PAGES SEED OUT: writes a memory image of known content.
 *
 * Pages are 4096 bytes. Everything follows from KIND, PAGES and SEED alone, byte for byte, on
 * every machine: page contents are counters run through a 64-bit mixer and stored in
 * little-endian order.
 *
 *   zero       zeros
 *   filled     every byte 0xff
 *   equal      one content on all pages, neither zero nor the same byte everywhere
 *   random     every page different, from each other and from those of any other seed
 *   pairs      the second half repeats the first (an odd last page has no twin)
 *   mirror     the second half repeats the first in reverse order
 *   guestlike  like the memory of a small guest, see below
 *
 * A guestlike image is a list of extents: zero pages (60 %), common pages (24 %), pages of this
 * seed only (13 %) and same-filled pages (3 %). The list is the same for every seed, only its
 * order depends on the seed. So the images of two seeds share all their common pages, in runs
 * and at different places, as guests of one operating system do. Every fourth common extent
 * repeats an earlier one, so that an image has duplicates within itself as well.
 *
 * Zero pages are left as holes in the file. After an error OUT is removed.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define PAGES_MAX (UINT64_C(1) << 32)

enum content {
	CONTENT_ZERO,
	CONTENT_COMMON,
	CONTENT_OWN,
	CONTENT_FILLED,
	CONTENT_KINDS,
};

struct extent {
	enum content content;
	uint64_t first;		/* number of its first page among those of its content */
	uint64_t pages;
};

struct image {
	uint64_t pages;
	uint64_t seed;
	struct extent *extents;	/* guestlike only: in the order of the image */
	uint64_t extent;	/* the one that holds the next page, */
	uint64_t extent_page;	/* and that page's place in it */
};

/* Fills `page`, now zeros, with page `i`. Called for each page once, in ascending order. */
typedef void (*page_fn)(uint8_t *page, struct image *image, uint64_t i);

struct kind {
	const char *name;
	page_fn fill;
};

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Content number `i` of family `seed`: 512 words that no other content has. */
static void fill_content(uint8_t *page, uint64_t seed, uint64_t i)
{
	uint64_t state = mix(mix(seed) ^ i);

	for (unsigned int at = 0; at < PAGE_BYTES; at += 8) {
		uint64_t word = mix(state += UINT64_C(0x9e3779b97f4a7c15));

		for (unsigned int b = 0; b < 8; b++)
			page[at + b] = (uint8_t)(word >> (8 * b));
	}
}

static void fill_zero(uint8_t *page, struct image *image, uint64_t i)
{
	(void)page, (void)image, (void)i;
}

static void fill_filled(uint8_t *page, struct image *image, uint64_t i)
{
	(void)image, (void)i;
	memset(page, 0xff, PAGE_BYTES);
}

static void fill_equal(uint8_t *page, struct image *image, uint64_t i)
{
	(void)i;
	fill_content(page, image->seed, 0);
}

static void fill_random(uint8_t *page, struct image *image, uint64_t i)
{
	fill_content(page, image->seed, i);
}

static void fill_pairs(uint8_t *page, struct image *image, uint64_t i)
{
	uint64_t half = image->pages / 2;

	fill_content(page, image->seed, i >= half && i < 2 * half ? i - half : i);
}

static void fill_mirror(uint8_t *page, struct image *image, uint64_t i)
{
	uint64_t opposite = image->pages - 1 - i;

	fill_content(page, image->seed, i < opposite ? i : opposite);
}

/* The seed of what all guests have in common; mix() keeps it apart from the small numbers. */
#define SEED_COMMON UINT64_C(0x636f6d6d6f6e2121)

static void fill_guestlike(uint8_t *page, struct image *image, uint64_t i)
{
	const struct extent *e = &image->extents[image->extent];
	uint64_t number = e->first + image->extent_page;

	(void)i;
	if (e->content == CONTENT_COMMON)
		fill_content(page, SEED_COMMON, number);
	else if (e->content == CONTENT_OWN)
		fill_content(page, ~image->seed, number);
	else if (e->content == CONTENT_FILLED)
		memset(page, (int)(1 + e->first % 255), PAGE_BYTES);
	if (++image->extent_page == e->pages) {
		image->extent++;
		image->extent_page = 0;
	}
}

/* The content that lags behind its share of the image most. */
static enum content next_content(const uint64_t *used)
{
	static const unsigned int percent[CONTENT_KINDS] = { 60, 24, 13, 3 };
	enum content best = CONTENT_ZERO;

	for (enum content c = CONTENT_COMMON; c < CONTENT_KINDS; c++) {
		if (used[c] * percent[best] < used[best] * percent[c])
			best = c;
	}
	return best;
}

/* The list of extents, which depends on the number of pages only. Returns its length. */
static uint64_t plan_extents(struct extent *extents, uint64_t pages)
{
	static const unsigned int longest[CONTENT_KINDS] = { 380, 48, 48, 8 };
	uint64_t used[CONTENT_KINDS] = { 0 };
	uint64_t common = 0, count = 0;
	const struct extent *earlier = NULL;

	for (uint64_t left = pages; left > 0; left -= extents[count++].pages) {
		struct extent *e = &extents[count];

		e->content = next_content(used);
		e->first = used[e->content];
		e->pages = 1 + mix(count) % longest[e->content];
		if (e->content == CONTENT_COMMON && common++ % 4 == 3)
			*e = *earlier;
		if (e->pages > left)
			e->pages = left;
		if (e->content == CONTENT_COMMON)
			earlier = e;
		used[e->content] += e->pages;
	}
	return count;
}

static int lay_out(struct image *image)
{
	struct extent *extents = calloc(image->pages, sizeof(*extents));

	if (!extents)
		return -1;
	for (uint64_t left = plan_extents(extents, image->pages); left > 1; left--) {
		uint64_t pick = mix(mix(image->seed) ^ left) % left;
		struct extent swap = extents[pick];

		extents[pick] = extents[left - 1];
		extents[left - 1] = swap;
	}
	image->extents = extents;
	return 0;
}

static bool is_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

/* A hole at the end needs ftruncate: seeking alone does not lengthen a file. */
static int write_pages(FILE *out, struct image *image, page_fn fill)
{
	static uint8_t page[PAGE_BYTES];

	if (ftruncate(fileno(out), (off_t)(image->pages * PAGE_BYTES)))
		return -1;
	for (uint64_t i = 0; i < image->pages; i++) {
		memset(page, 0, sizeof(page));
		fill(page, image, i);
		if (is_zero(page) ? fseeko(out, PAGE_BYTES, SEEK_CUR) :
				    fwrite(page, sizeof(page), 1, out) != 1)
			return -1;
	}
	return 0;
}

static int write_image(const char *path, struct image *image, page_fn fill)
{
	FILE *out = fopen(path, "wb");
	int ret;

	if (!out)
		return -1;
	ret = write_pages(out, image, fill);
	if (fclose(out))
		ret = -1;
	if (ret) {
		int err = errno;

		unlink(path);
		errno = err;
	}
	return ret;
}

static const struct kind kinds[] = {
	{ "zero", fill_zero },		{ "filled", fill_filled },	{ "equal", fill_equal },
	{ "random", fill_random },	{ "pairs", fill_pairs },	{ "mirror", fill_mirror },
	{ "guestlike", fill_guestlike },
};

static const struct kind *kind_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(name, kinds[i].name))
			return &kinds[i];
	}
	return NULL;
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && end != text && !*end && !strchr(text, '-');
}

int main(int argc, char **argv)
{
	struct image image = { 0 };
	const struct kind *kind = argc == 5 ? kind_find(argv[1]) : NULL;
	int ret;

	if (!kind || !parse_number(argv[2], &image.pages) || !parse_number(argv[3], &image.seed) ||
	    image.pages == 0 || image.pages > PAGES_MAX) {
		fprintf(stderr, "usage: make_image KIND PAGES SEED OUT\nKIND:");
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			fprintf(stderr, " %s", kinds[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	ret = kind->fill == fill_guestlike ? lay_out(&image) : 0;
	if (!ret)
		ret = write_image(argv[4], &image, kind->fill);
	if (ret)
		fprintf(stderr, "make_image: %s: %s\n", argv[4], strerror(errno));
	free(image.extents);
	return ret ? 1 : 0;
}
