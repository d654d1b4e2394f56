/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raw_hash.h - hashing pages and nothing else, in address order: what a pass is held against.
 *
 * Both loops ask for the next page before they hash one: the processor's own prefetching ends with
 * each page, and they are up to a fifth faster for it.
 */
#ifndef BENCH_RAW_HASH_H
#define BENCH_RAW_HASH_H

#include <stdint.h>

#include <pagededup/checksum.h>

#define RAW_PAGE_BYTES 4096u

/* The secret of all sides. */
extern const unsigned char raw_secret[PDD_SECRET_LEN_MAX];

/** The library's checksum of a page, as the scanner has it: pdd_checksum_fastest(). */
uint64_t raw_checksum(const void *page);
/** The same of many. @return a mix of all checksums, so that none is left out */
uint64_t raw_hash_pages(const void *bytes, uint64_t npages);
/** By XXH3 alone, inlined into a tight loop. */
uint64_t raw_xxh3_pages(const void *bytes, uint64_t npages);

#endif
