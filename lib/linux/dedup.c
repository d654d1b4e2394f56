/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dedup.c - linux/dedup.h: a scanner bound to the adapter's hooks, and the memory added to it.
 *
 * Invariants
 *  1. Every public call that changes or reads the scanner holds `lock`; nothing is held (hold.c)
 *     and nothing is left to be punched when it is released. Calls on ranges of pages and settings
 *     are in controls.c.
 *  2. Memory that is not in `memories` shows no frame of a living store, except after a destroy
 *     that could not copy everything: the store then keeps the blocks of all frames that are left,
 *     and the kernel frees them with their last mapping.
 *  3. Everything the deduplicator is made of lies in mappings of its own, never on the heap.
 *
 * Hard case: fork. A child inherits the descriptors, but they still mean its parent: a step in the
 * child would move the parent's pages. So all calls but destroy are refused there, and destroy only
 * closes them.
 *
 * Hard case: signals. A handler that runs on the stepping thread and touches a held page would wait
 * for the step that it interrupted; so steps block signals, and so does giving back memory that is
 * removed. They are delivered afterwards.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "dedup_internal.h"

/* A page of memory full. */
#define LEAST_ROOTS UINT64_C(512)
#define MAX_ROOTS (UINT64_C(1) << 40)
/* What the kernel keeps for one mapping (measured on Linux 6.18). */
#define MAPPING_BYTES 192u

/* --- creation --- */

/* A copy of the options, whatever version of them the caller knows. 0 or -EINVAL. */
static int copy_options(struct pdd_linux_options *copy, const struct pdd_linux_options *options)
{
	const uint32_t known = PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE |
			       PDD_LINUX_NO_TRACKING;
	const unsigned char *bytes = (const unsigned char *)options;
	size_t i;

	memset(copy, 0, sizeof(*copy));
	if (!options)
		return 0;
	/* A size never ends within a member. */
	if (options->size < sizeof(options->size) || options->size % sizeof(void *))
		return -EINVAL;
	for (i = sizeof(*copy); i < options->size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(copy, options, options->size < sizeof(*copy) ? options->size : sizeof(*copy));
	return copy->flags & ~known ? -EINVAL : 0;
}

/* Whether three times as many addresses are left to the program, which may be limited in them. */
static bool leaves_addresses(size_t length)
{
	void *all = mmap(NULL, 4 * length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			 0);

	if (all == MAP_FAILED)
		return false;
	munmap(all, 4 * length);
	return true;
}

static int init_roots(struct pdd_linux *dedup, uint64_t expected)
{
	long ram = sysconf(_SC_PHYS_PAGES);
	uint64_t least = expected < LEAST_ROOTS ? LEAST_ROOTS : expected;
	uint64_t n = ram > 0 ? 2 * (uint64_t)ram : LEAST_ROOTS;

	least = least < MAX_ROOTS ? least : MAX_ROOTS;
	n = n < least ? least : n;
	/* What will never be used is room that is never touched. */
	while (n > least && !leaves_addresses(n * sizeof(struct pdd_rbroot)))
		n /= 2;
	do {
		n = n < least ? least : n;
		dedup->roots = pddi_pages_alloc(n * sizeof(struct pdd_rbroot));
		dedup->nroots = n;
		n /= 2;
	} while (!dedup->roots && n >= least);
	return dedup->roots ? 0 : -ENOMEM;
}

static int init_scanner(struct pdd_linux *dedup, const struct pdd_linux_options *options)
{
	unsigned char secret[PDD_SECRET_LEN_MAX];
	uint64_t first = options->expected_pages ? options->expected_pages : LEAST_ROOTS;
	struct pdd_scanner_options scanner = {
		.size = sizeof(scanner),
		.page_shift = dedup->page_shift,
		.roots = dedup->roots,
		.nroots = dedup->nroots,
		.first_nroots = first < dedup->nroots ? first : dedup->nroots,
		.secret = secret,
		.secret_len = sizeof(secret),
		.tunables = options->tunables,
	};
	struct pdd_ops ops;
	size_t filled = 0;
	int error;

	while (filled < sizeof(secret)) {
		ssize_t n = getrandom(secret + filled, sizeof(secret) - filled, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		filled += n > 0 ? (size_t)n : 0;
	}
	pddi_hooks_get(&ops, dedup);
	error = pdd_scanner_init(&dedup->scanner, &ops, dedup, &scanner);
	explicit_bzero(secret, sizeof(secret));
	return error;
}

static void free_parts(struct pdd_linux *dedup)
{
	pddi_store_fini(&dedup->store);
	pddi_hold_fini(&dedup->hold);
	pddi_track_fini(&dedup->track);
	pddi_probe_fini(&dedup->probe);
	pddi_pages_free(dedup->roots, dedup->nroots * sizeof(struct pdd_rbroot));
	pthread_mutex_destroy(&dedup->lock);
	pddi_pages_free(dedup, sizeof(*dedup));
}

static int init_parts(struct pdd_linux *dedup, const struct pdd_linux_options *options)
{
	int error;

	dedup->page_shift = (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
	dedup->owner = getpid();
	dedup->trace = options->trace;
	dedup->trace_ctx = options->trace_ctx;
	dedup->store.fd = -1;
	pddi_probe_init(&dedup->probe);
	dedup->map = (struct pddi_pagemap){
		.fd = dedup->probe.pagemap_fd,
		.scan = dedup->probe.facilities.pagemap_scan,
		.vector = PDDI_PAGEMAP_VECTOR,
		.page_shift = dedup->page_shift,
	};
	error = pddi_track_init(&dedup->track, &dedup->probe, dedup->page_shift, options->flags);
	if (!error)
		error = pddi_hold_init(&dedup->hold, &dedup->probe, &dedup->map, dedup->page_shift,
				       options->flags);
	if (!error)
		error = pddi_store_init(&dedup->store, dedup->page_shift);
	if (!error)
		error = pddi_budget_init(&dedup->budget, options->max_mappings);
	if (!error)
		error = init_roots(dedup, options->expected_pages);
	if (!error)
		error = init_scanner(dedup, options);
	return error;
}

int pdd_linux_create(struct pdd_linux **out, const struct pdd_linux_options *options)
{
	struct pdd_linux_options copy;
	struct pdd_linux *dedup;
	int error = copy_options(&copy, options);

	if (error)
		return error;
	dedup = pddi_pages_alloc(sizeof(*dedup));
	if (!dedup)
		return -ENOMEM;
	pthread_mutex_init(&dedup->lock, NULL);
	error = init_parts(dedup, &copy);
	if (error) {
		free_parts(dedup);
		return error;
	}
	*out = dedup;
	return 0;
}

int pddi_enter(struct pdd_linux *dedup)
{
	if (dedup->owner != getpid())
		return -ECHILD;
	pthread_mutex_lock(&dedup->lock);
	return 0;
}

void pddi_leave(struct pdd_linux *dedup)
{
	pddi_hold_flush(&dedup->hold);
	pddi_store_flush(&dedup->store);
	pthread_mutex_unlock(&dedup->lock);
}

void pddi_block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

/* --- memory --- */

int pdd_linux_add(struct pdd_linux *dedup, struct pdd_linux_memory **memory, uint32_t domain,
		  void *start, size_t length)
{
	uintptr_t from = (uintptr_t)start;
	uintptr_t mask = ((uintptr_t)1 << dedup->page_shift) - 1;
	int error;

	if (!length || (from | length) & mask || from + length < from ||
	    length >> dedup->page_shift > PDD_REGION_PAGES_MAX)
		return -EINVAL;
	error = pddi_enter(dedup);
	if (error)
		return error;
	error = pddi_added_overlaps(dedup, from, from + length)
			? -EINVAL
			: pddi_added_make(dedup, memory, domain, start, length);
	pddi_leave(dedup);
	return error;
}

bool pddi_is_added(const struct pdd_linux *dedup, const struct pdd_linux_memory *memory)
{
	const struct pdd_linux_memory *other = dedup->memories;

	while (other && other != memory)
		other = other->next;
	return other;
}

int pdd_linux_remove(struct pdd_linux *dedup, struct pdd_linux_memory *memory)
{
	int error = pddi_enter(dedup);

	if (error)
		return error;
	error = pddi_is_added(dedup, memory) ? pddi_added_unmerge(dedup, memory) : -EINVAL;
	if (!error)
		pddi_added_forget(dedup, memory);
	pddi_leave(dedup);
	return error;
}

/* In a child of fork: the parent may have been in a step, so only the descriptors are sound. */
static void close_descriptors(struct pdd_linux *dedup)
{
	pddi_probe_fini(&dedup->probe);
	close(dedup->store.fd);
	dedup->store.fd = -1;
}

void pdd_linux_destroy(struct pdd_linux *dedup)
{
	if (!dedup)
		return;
	if (dedup->owner != getpid()) {
		close_descriptors(dedup);
		return;
	}
	while (dedup->memories) {
		/* What cannot be copied keeps its frames. */
		if (pddi_added_unmerge(dedup, dedup->memories))
			dedup->store.keep_blocks = true;
		pddi_added_forget(dedup, dedup->memories);
	}
	free_parts(dedup);
}

/* --- work --- */

int pdd_linux_step(struct pdd_linux *dedup, uint64_t pages, uint64_t nanoseconds)
{
	struct pdd_budget budget = { .pages = pages };
	sigset_t before;
	int result = pddi_enter(dedup);

	if (result)
		return result;
	if (nanoseconds) {
		uint64_t now = pddi_now_ns();

		budget.deadline_ns = now + nanoseconds < now ? UINT64_MAX : now + nanoseconds;
	}
	pddi_block_signals(&before);
	result = pdd_scanner_step(&dedup->scanner, &dedup->worker, &budget);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_quiesce(struct pdd_linux *dedup)
{
	int result;

	if (dedup->owner != getpid())
		return -ECHILD;
	/* Before the lock, which the step under way has. */
	(void)pdd_scanner_quiesce(&dedup->scanner);
	result = pddi_enter(dedup);
	if (!result)
		pddi_leave(dedup);
	return result;
}

int pdd_linux_resume(struct pdd_linux *dedup)
{
	if (dedup->owner != getpid())
		return -ECHILD;
	pdd_scanner_resume(&dedup->scanner);
	return 0;
}

/* --- what it tells --- */

int pdd_linux_stats(struct pdd_linux *dedup, struct pdd_stats *stats)
{
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pdd_scanner_stats(&dedup->scanner, stats);
	pddi_leave(dedup);
	return result;
}

int pdd_linux_memory_counts(struct pdd_linux *dedup, const struct pdd_linux_memory *memory,
			    struct pdd_counts *counts)
{
	int result = pddi_enter(dedup);

	if (result)
		return result;
	result = pddi_is_added(dedup, memory) ? pdd_space_counts(&memory->space, counts) : -EINVAL;
	pddi_leave(dedup);
	return result;
}

const struct pdd_linux_facilities *pdd_linux_facilities(const struct pdd_linux *dedup)
{
	return &dedup->probe.facilities;
}

struct mapping_count {
	const struct pdd_linux *dedup;
	struct pdd_linux_usage *usage;
};

static void count_mapping(void *ctx, uintptr_t start, uintptr_t end)
{
	struct mapping_count *count = ctx;

	count->usage->mappings++;
	if (pddi_added_overlaps(count->dedup, start, end))
		count->usage->memory_mappings++;
}

/* What the items and roots take that were touched, the kernel's records of mappings, the rest. */
static uint64_t metadata_bytes(const struct pdd_linux *dedup, uint64_t mappings)
{
	const struct pddi_pagemap *map = &dedup->map;
	const struct pdd_linux_memory *memory;
	uint64_t bytes = sizeof(*dedup) + dedup->store.metadata_bytes + mappings * MAPPING_BYTES;

	if (dedup->hold.copy)
		bytes += pddi_pagemap_resident(map, dedup->hold.copy,
					       (uint64_t)PDD_EXTENT_PAGES << dedup->page_shift);
	bytes += pddi_pagemap_resident(map, dedup->store.recent.content,
				       (uint64_t)PDDI_RECENT_PAGES << dedup->page_shift);
	if (dedup->track.runs)
		bytes += pddi_pagemap_resident(map, dedup->track.runs, PDDI_TRACK_BYTES);
	bytes += pddi_pagemap_resident(map, dedup->roots,
				       dedup->nroots * sizeof(struct pdd_rbroot));
	for (memory = dedup->memories; memory; memory = memory->next)
		bytes += pddi_added_resident(memory, map);
	return bytes;
}

int pdd_linux_usage(struct pdd_linux *dedup, struct pdd_linux_usage *usage)
{
	struct mapping_count count = { .dedup = dedup, .usage = usage };
	int64_t bytes;
	int error = pddi_enter(dedup);

	if (error)
		return error;
	memset(usage, 0, sizeof(*usage));
	pddi_store_flush(&dedup->store);
	bytes = pddi_store_bytes(&dedup->store);
	usage->frames = dedup->store.nframes;
	usage->store_bytes = bytes > 0 ? (uint64_t)bytes : 0;
	error = pddi_mappings_walk(count_mapping, &count);
	usage->metadata_bytes = metadata_bytes(dedup, usage->memory_mappings);
	pddi_leave(dedup);
	return error;
}

static int broken(const char **why, const char *text)
{
	if (why)
		*why = text;
	return -EUCLEAN;
}

int pdd_linux_check(struct pdd_linux *dedup, const char **why)
{
	const struct pdd_linux_memory *memory;
	int error = pddi_enter(dedup);

	if (error)
		return error;
	error = pdd_scanner_check(&dedup->scanner, why);
	if (!error)
		error = pddi_store_check(&dedup->store, why);
	if (!error && dedup->hold.memory)
		error = broken(why, "pages are held between two calls");
	for (memory = dedup->memories; !error && memory; memory = memory->next) {
		uint64_t framed = pddi_memory_next_framed(memory, 0, memory->npages);

		if (framed != pddi_bits_next(memory->framed, 0, memory->npages, true))
			error = broken(why, "the hints of a memory lie");
	}
	pddi_leave(dedup);
	return error;
}
