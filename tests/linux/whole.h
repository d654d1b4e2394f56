/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * whole.h - the whole adapter with its engine, for tests that use linux/dedup.h as programs do.
 */
#ifndef TESTS_LINUX_WHOLE_H
#define TESTS_LINUX_WHOLE_H

#include "rig.h"

#include <sys/mman.h>

static inline unsigned char *map_pages(size_t npages)
{
	void *start = mmap(NULL, npages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(start, MAP_FAILED);
	return start;
}

/* Page i of a memory gets the content number `content`, which is 0 for a page of zeros. */
static inline void fill_page(unsigned char *memory, size_t i, uint64_t content)
{
	uint64_t *words = (uint64_t *)(void *)(memory + i * PAGE);
	uint64_t state = content;
	size_t k;

	for (k = 0; k < PAGE / sizeof(*words); k++)
		words[k] = content ? next_random(&state) : 0;
}

static inline bool has_content(const unsigned char *memory, size_t i, uint64_t content)
{
	const uint64_t *words = (const uint64_t *)(const void *)(memory + i * PAGE);
	uint64_t state = content;
	size_t k;

	for (k = 0; k < PAGE / sizeof(*words); k++)
		if (words[k] != (content ? next_random(&state) : 0))
			return false;
	return true;
}

/* Every pass looks at every page, so that tests need few of them. */
static inline struct pdd_linux *create(uint32_t flags)
{
	struct pdd_tunables tunables;
	struct pdd_linux_options options = { .size = sizeof(options),
					     .flags = flags,
					     .tunables = &tunables,
					     .expected_pages = 4096 };
	struct pdd_linux *dedup;

	pdd_tunables_init(&tunables);
	tunables.aging = PDD_AGING_NONE;
	assert_int_equal(pdd_linux_create(&dedup, &options), 0);
	return dedup;
}

static inline void run_passes(struct pdd_linux *dedup, int passes)
{
	const char *why = "";

	while (passes) {
		int step = pdd_linux_step(dedup, 1000, 0);

		assert_true(step >= 0 && step != PDD_STEP_IDLE);
		passes -= step == PDD_STEP_PASS;
	}
	if (pdd_linux_check(dedup, &why))
		fail_msg("%s", why);
}

static inline struct pdd_stats stats_of(struct pdd_linux *dedup)
{
	struct pdd_stats stats = { .size = sizeof(stats) };

	assert_int_equal(pdd_linux_stats(dedup, &stats), 0);
	return stats;
}

static inline struct pdd_linux_usage usage_of(struct pdd_linux *dedup)
{
	struct pdd_linux_usage usage;

	assert_int_equal(pdd_linux_usage(dedup, &usage), 0);
	return usage;
}

/* Whether pages can be held in both ways here; says so if not. */
static inline bool can_hold(void)
{
	struct pddi_probe probe;
	bool able;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pddi_probe_init(&probe);
	able = probe.facilities.move && probe.facilities.write_protect && probe.pagemap_fd >= 0;
	pddi_probe_fini(&probe);
	if (!able)
		printf("skipped: pages cannot be held in both ways here\n");
	return able;
}

#endif
