/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_memory.h - the memory that bench_ksm has merged, made afresh for every measurement.
 *
 *	unique  all pages are different
 *	mirror  page i of n equals page n - 1 - i, and no other
 *	guests  images of the memory of guests, one mapping for each
 *
 * It is filled by the program's own writes, as a guest's would be, not by read(2): every page is
 * there, also one of zeros, and where page tables are virtualised the dear first access of a
 * program to a page is over. There are no huge pages in it (MADV_NOHUGEPAGE): the library wants
 * none, so that only ksmd would have to split them.
 */
#ifndef BENCH_KSM_MEMORY_H
#define BENCH_KSM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KSM_PAGE_BYTES 4096u
#define KSM_PARTS_MAX 64u

enum ksm_dataset {
	KSM_UNIQUE = 0,
	KSM_MIRROR = 1,
	KSM_GUESTS = 2,
};

/** What memory is to be filled with. */
struct ksm_source {
	enum ksm_dataset dataset;
	bool random;            /* pages of random words; else a number, then zeros */
	uint64_t npages;        /* in all */
	const char *const *images; /* of guests; then nothing is generated */
	unsigned nimages;
};

struct ksm_part {
	unsigned char *bytes;
	uint64_t npages;
};

struct ksm_memory {
	const struct ksm_source *source;
	struct ksm_part parts[KSM_PARTS_MAX];
	unsigned nparts;
};

/** Look how many pages the images are. 0, or -1 after a complaint. */
int ksm_source_size(struct ksm_source *source);

/** Map and fill. 0, or -1 after a complaint; what is mapped stays so until the process ends. */
int ksm_memory_fill(struct ksm_memory *memory, const struct ksm_source *source);

/** Let ksmd merge it. 0, or -1 after a complaint. */
int ksm_memory_offer(const struct ksm_memory *memory);

/** Pages that do not read as they were filled; -1 after a complaint. */
int64_t ksm_memory_differing(const struct ksm_memory *memory);

#endif
