/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_count [--limit L] [--step PAGES] IMAGE...: what the core makes of these images, without any
 * adapter: hooks over plain memory that nobody writes. Prints the fields of count_pages --json that
 * it knows, so that the two can be compared, and verifies all contents and structures.
 *
 * Exit status: 0; 1 if something is wrong; 2 for bad arguments.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagededup/scanner.h>

enum { PAGE = 4096 };

static const unsigned char zero_page[PAGE];

struct frame {
	struct pdd_frame frame;
	unsigned char content[PAGE];
};

/* One image: `shown[i]` is what stands at page i, its own memory to begin with. */
struct guest {
	struct pdd_space space;
	struct pdd_region region;
	const unsigned char *image;
	const unsigned char **shown;
	uint64_t npages;
};

static uint64_t nframes;

static struct guest *guest_of(struct pdd_region *region)
{
	return (struct guest *)(void *)((char *)region - offsetof(struct guest, region));
}

static bool space_trylock(void *ctx, struct pdd_space *space)
{
	return ctx || space;
}

static void space_unlock(void *ctx, struct pdd_space *space)
{
	(void)ctx, (void)space;
}

static int pages_get(void *ctx, struct pdd_region *region, struct pdd_view *views, uint32_t nviews,
		     uint64_t first, uint64_t npages)
{
	const struct guest *guest = guest_of(region);
	uint32_t n = 0;

	(void)ctx;
	for (uint64_t i = first; i < first + npages; i++) {
		const unsigned char *own = guest->image + i * PAGE;
		uint8_t kind = guest->shown[i] == own	      ? PDD_PAGE_PRIVATE
			       : guest->shown[i] == zero_page ? PDD_PAGE_ABSENT
							      : PDD_PAGE_SHARED;

		if (n && views[n - 1].kind == kind) {
			views[n - 1].npages++;
		} else if (n == nviews) {
			break;
		} else {
			views[n++] = (struct pdd_view){ .content = own, .npages = 1, .kind = kind };
		}
	}
	return (int)n;
}

static void pages_put(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	(void)ctx, (void)region, (void)first, (void)npages;
}

static int frames_create(void *ctx, struct pdd_frame **frames, const struct pdd_frame_wish *wishes,
			 uint32_t n, uint32_t domain)
{
	(void)ctx, (void)domain;
	for (uint32_t i = 0; i < n; i++) {
		struct frame *frame = malloc(sizeof(*frame));

		if (!frame)
			return i ? (int)i : -12;
		memcpy(frame->content, wishes[i].content, PAGE);
		frames[i] = &frame->frame;
		nframes++;
	}
	return (int)n;
}

static const void *frame_content(void *ctx, struct pdd_frame *frame)
{
	(void)ctx;
	return ((struct frame *)(void *)frame)->content;
}

static void frame_free(void *ctx, struct pdd_frame *frame)
{
	(void)ctx;
	free(frame);
	nframes--;
}

static int frames_map(void *ctx, struct pdd_region *region, uint64_t first,
		      struct pdd_frame *const *frames, uint64_t npages)
{
	for (uint64_t i = 0; i < npages; i++)
		guest_of(region)->shown[first + i] = frame_content(ctx, frames[i]);
	return (int)npages;
}

static int zero_map(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	(void)ctx;
	for (uint64_t i = 0; i < npages; i++)
		guest_of(region)->shown[first + i] = zero_page;
	return (int)npages;
}

static int frames_unmap(void *ctx, struct pdd_region *region, uint64_t first, uint64_t npages)
{
	struct guest *guest = guest_of(region);

	(void)ctx;
	for (uint64_t i = first; i < first + npages; i++)
		guest->shown[i] = guest->image + i * PAGE;
	return (int)npages;
}

static const struct pdd_ops ops = {
	.size = sizeof(ops),
	.space_trylock = space_trylock,
	.space_unlock = space_unlock,
	.pages_get = pages_get,
	.pages_put = pages_put,
	.hold = pages_get,    /* nobody writes */
	.release = pages_put,
	.frames_create = frames_create,
	.frames_map = frames_map,
	.frames_unmap = frames_unmap,
	.frame_content = frame_content,
	.frame_free = frame_free,
	.zero_map = zero_map,
};

static void *get_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("core_count: memory");
		exit(1);
	}
	return memory;
}

static void load(struct guest *guest, struct pdd_scanner *scanner, const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	void *image;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0 || st.st_size % PAGE != 0) {
		fprintf(stderr, "core_count: %s: not an image\n", path);
		exit(2);
	}
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	close(fd);
	guest->image = image;
	guest->npages = (uint64_t)st.st_size / PAGE;
	guest->shown = get_memory(guest->npages * sizeof(*guest->shown));
	for (uint64_t i = 0; i < guest->npages; i++)
		guest->shown[i] = guest->image + i * PAGE;
	if (pdd_space_add(scanner, &guest->space, 0) != 0 ||
	    pdd_region_add(&guest->space, &guest->region, 0, guest->npages,
			   get_memory(pdd_region_extents(guest->npages) * sizeof(struct pdd_extent)),
			   get_memory(guest->npages * sizeof(struct pdd_item))) != 0) {
		fprintf(stderr, "core_count: %s: cannot be added\n", path);
		exit(1);
	}
}

/* Passes until one merges nothing and nothing is due; what came of it. */
static struct pdd_stats scan(struct pdd_scanner *scanner, uint64_t step)
{
	struct pdd_worker *worker = get_memory(sizeof(*worker));
	struct pdd_stats now = { .size = sizeof(now) }, before;

	do {
		before = now;
		while (pdd_scanner_step(scanner, worker, &(struct pdd_budget){ .pages = step }) ==
		       PDD_STEP_MORE)
			;
		pdd_scanner_stats(scanner, &now);
	} while (now.counts.pages_due || now.counts.merges != before.counts.merges ||
		 now.counts.zero_merges != before.counts.zero_merges);
	return now;
}

static uint64_t differing(const struct guest *guests, int n)
{
	uint64_t differ = 0;

	for (int g = 0; g < n; g++)
		for (uint64_t i = 0; i < guests[g].npages; i++)
			differ += memcmp(guests[g].shown[i], guests[g].image + i * PAGE, PAGE) != 0;
	return differ;
}

/* Everything goes: all pages show their own memory again, and no frame is left. */
static bool tear_down(struct guest *guests, int n)
{
	bool ok = true;

	for (int g = 0; g < n; g++) {
		ok = ok && pdd_region_unmerge(&guests[g].region, 0, guests[g].npages, UINT64_MAX) >= 0;
		for (uint64_t i = 0; ok && i < guests[g].npages; i++)
			ok = guests[g].shown[i] == guests[g].image + i * PAGE ||
			     guests[g].shown[i] == zero_page;
		ok = pdd_region_remove(&guests[g].region) == 0 && ok;
		ok = pdd_space_remove(&guests[g].space) == 0 && ok;
	}
	return ok && nframes == 0;
}

int main(int argc, char **argv)
{
	unsigned char secret[PDD_SECRET_LEN_MIN];
	struct pdd_tunables tunables;
	struct pdd_scanner_options options = {
		.size = sizeof(options), .nroots = 1u << 16, .secret = secret,
		.secret_len = sizeof(secret), .tunables = &tunables,
	};
	struct pdd_scanner *scanner = get_memory(sizeof(*scanner));
	uint64_t step = UINT64_MAX, differ;
	const char *why = "";
	struct guest *guests;
	struct pdd_stats stats;
	int err, n;

	pdd_tunables_init(&tunables);
	while (argc > 2 && argv[1][0] == '-') {
		if (strcmp(argv[1], "--limit") == 0)
			tunables.max_page_sharing = (uint32_t)strtoul(argv[2], NULL, 10);
		else if (strcmp(argv[1], "--step") == 0)
			step = strtoull(argv[2], NULL, 10);
		argv += 2;
		argc -= 2;
	}
	n = argc - 1;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)(i * 37 + 11);
	options.roots = get_memory(options.nroots * sizeof(*options.roots));
	guests = get_memory((size_t)(n + 1) * sizeof(*guests));
	if (n < 1 || pdd_scanner_init(scanner, &ops, NULL, &options) != 0) {
		fprintf(stderr, "usage: core_count [--limit L] [--step PAGES] IMAGE...\n");
		return 2;
	}
	for (int i = 0; i < n; i++)
		load(&guests[i], scanner, argv[1 + i]);
	stats = scan(scanner, step);
	differ = differing(guests, n);
	err = pdd_scanner_check(scanner, &why);
	printf("{\"pages\": %" PRIu64 ", \"zero\": %" PRIu64 ", \"shared\": %" PRIu64
	       ", \"sharing\": %" PRIu64 ", \"unshared\": %" PRIu64 ", \"passes\": %" PRIu64
	       ", \"differing\": %" PRIu64 ", \"frames\": %" PRIu64 ", \"check\": \"%s\"}\n",
	       stats.counts.pages, stats.counts.ksm_zero_pages, stats.pages_shared,
	       stats.pages_sharing, stats.counts.pages_unshared, stats.full_scans, differ, nframes,
	       err ? why : "ok");
	err = err || differ || nframes != stats.pages_shared;
	return err || !tear_down(guests, n);
}
