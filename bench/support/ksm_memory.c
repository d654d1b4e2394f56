/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_memory.c - see ksm_memory.h. */
#define _DEFAULT_SOURCE

#include "ksm_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ksm_settings.h"

#define CHUNK_PAGES 256u
#define PAGE_WORDS (KSM_PAGE_BYTES / 8)

/* Where the bytes of a part come from. */
struct content {
	const struct ksm_source *source;
	int fd; /* of the image, or -1: they are generated */
};

int ksm_source_size(struct ksm_source *source)
{
	if (source->dataset != KSM_GUESTS)
		return 0;
	source->npages = 0;
	for (unsigned i = 0; i < source->nimages; i++) {
		const char *image = source->images[i];
		struct stat st;

		if (stat(image, &st))
			return ksm_complain("%s: %s", image, strerror(errno));
		if (!S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size % KSM_PAGE_BYTES)
			return ksm_complain("%s: not a file of whole pages", image);
		source->npages += (uint64_t)st.st_size / KSM_PAGE_BYTES;
	}
	return 0;
}

/* Different for each word of each number; never 0, as the whole mapping is a bijection. */
static uint64_t random_word(uint64_t number, unsigned word)
{
	uint64_t z = (number * PAGE_WORDS + word + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void page_generate(uint64_t *words, const struct ksm_source *source, uint64_t page)
{
	uint64_t number = page;

	if (source->dataset == KSM_MIRROR && page >= source->npages / 2)
		number = source->npages - 1 - page;
	if (!source->random) {
		memset(words, 0, KSM_PAGE_BYTES);
		words[0] = number + 1;
		return;
	}
	for (unsigned i = 0; i < PAGE_WORDS; i++)
		words[i] = random_word(number, i);
}

/* n pages from the given one on, of what is generated or of an image. 0 or -1. */
static int content_get(void *to, const struct content *content, uint64_t first, uint64_t n)
{
	unsigned char *bytes = to;
	size_t size = n * KSM_PAGE_BYTES;
	off_t offset = (off_t)(first * KSM_PAGE_BYTES);

	for (uint64_t i = 0; content->fd < 0 && i < n; i++)
		page_generate((uint64_t *)to + i * PAGE_WORDS, content->source, first + i);
	while (content->fd >= 0 && size > 0) {
		ssize_t got = pread(content->fd, bytes, size, offset);

		if (got <= 0)
			return -1;
		bytes += got;
		size -= (size_t)got;
		offset += got;
	}
	return 0;
}

static int content_open(struct content *content, const struct ksm_source *source, unsigned part)
{
	*content = (struct content){ .source = source, .fd = -1 };
	if (source->dataset != KSM_GUESTS)
		return 0;
	content->fd = open(source->images[part], O_RDONLY | O_CLOEXEC);
	return content->fd < 0 ? -1 : 0;
}

static void content_close(const struct content *content)
{
	if (content->fd >= 0)
		close(content->fd);
}

/* Go through a part in chunks: fill it, or count the pages that differ from what they should be.
 * 0 or -1. */
static int part_walk(const struct ksm_part *part, const struct content *content, bool fill,
		     int64_t *differing)
{
	static uint64_t chunk[CHUNK_PAGES * PAGE_WORDS];

	for (uint64_t at = 0; at < part->npages; at += CHUNK_PAGES) {
		unsigned char *bytes = part->bytes + at * KSM_PAGE_BYTES;
		uint64_t n = part->npages - at;

		if (n > CHUNK_PAGES)
			n = CHUNK_PAGES;
		if (content_get(chunk, content, at, n))
			return -1;
		if (fill)
			memcpy(bytes, chunk, n * KSM_PAGE_BYTES);
		for (uint64_t i = 0; !fill && i < n; i++)
			*differing += !!memcmp(bytes + i * KSM_PAGE_BYTES, chunk + i * PAGE_WORDS,
					       KSM_PAGE_BYTES);
	}
	return 0;
}

static int part_map(struct ksm_part *part, uint64_t npages)
{
	size_t size = npages * KSM_PAGE_BYTES;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -1;
	(void)madvise(memory, size, MADV_NOHUGEPAGE); /* fails where there are none at all */
	*part = (struct ksm_part){ .bytes = memory, .npages = npages };
	return 0;
}

/* How large a part is to be; 0 if that cannot be told. */
static uint64_t part_pages(const struct ksm_source *source, const struct content *content)
{
	struct stat st;

	if (content->fd < 0)
		return source->npages;
	return fstat(content->fd, &st) ? 0 : (uint64_t)st.st_size / KSM_PAGE_BYTES;
}

int ksm_memory_fill(struct ksm_memory *memory, const struct ksm_source *source)
{
	unsigned nparts = source->dataset == KSM_GUESTS ? source->nimages : 1;
	struct content content;

	*memory = (struct ksm_memory){ .source = source };
	for (; memory->nparts < nparts; memory->nparts++) {
		struct ksm_part *part = &memory->parts[memory->nparts];
		int ret = content_open(&content, source, memory->nparts);

		if (!ret)
			ret = part_map(part, part_pages(source, &content));
		if (!ret)
			ret = part_walk(part, &content, true, NULL);
		content_close(&content);
		if (ret)
			return ksm_complain("the memory cannot be filled");
	}
	return 0;
}

int ksm_memory_offer(const struct ksm_memory *memory)
{
	for (unsigned i = 0; i < memory->nparts; i++) {
		const struct ksm_part *part = &memory->parts[i];

		if (madvise(part->bytes, part->npages * KSM_PAGE_BYTES, MADV_MERGEABLE))
			return ksm_complain("MADV_MERGEABLE: %s", strerror(errno));
	}
	return 0;
}

int64_t ksm_memory_differing(const struct ksm_memory *memory)
{
	struct content content;
	int64_t differing = 0;

	for (unsigned i = 0; i < memory->nparts; i++) {
		int ret = content_open(&content, memory->source, i);

		if (!ret)
			ret = part_walk(&memory->parts[i], &content, false, &differing);
		content_close(&content);
		if (ret)
			return ksm_complain("the contents cannot be compared");
	}
	return differing;
}
