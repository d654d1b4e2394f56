/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * checksum.h - the checksum of a page's content: 64 bits of XXH3 under a secret.
 *
 * All functions read memory that other threads may be writing. They never fault on mapped memory
 * and always return; what they return for changing content is any value. Nothing is decided on
 * it before the content was compared while it could not change.
 *
 * Every value is an ordinary checksum, 0 included.
 */
#ifndef PAGEDEDUP_CHECKSUM_H
#define PAGEDEDUP_CHECKSUM_H

#include <pagededup/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of secret that XXH3 needs; 192 are advised. */
#define PDD_SECRET_LEN_MIN 136u
#define PDD_SECRET_LEN_MAX 192u

/** What kind of content a page has. */
enum pdd_class {
	PDD_CLASS_OTHER = 0,
	PDD_CLASS_FILLED = 1, /* all 64-bit words are equal, and not 0 */
	PDD_CLASS_ZERO = 2,
};

/** A page's checksum and class. */
struct pdd_checksum {
	uint64_t value;
	enum pdd_class class_;
};

/**
 * Checksum one page. Same-filled pages are recognised by their words (a page that is not filled
 * is told apart after its first words in almost all cases) and their checksum is a keyed mix of
 * the word; all others are hashed by XXH3.
 *
 * @param content     page_size bytes, 8-byte aligned
 * @param page_size   a multiple of 64 bytes, at least 64 (smaller multiples of 8 are hashed too)
 * @param secret      random bytes that whoever writes the pages does not know
 * @param secret_len  PDD_SECRET_LEN_MIN .. PDD_SECRET_LEN_MAX bytes
 * Complexity: O(page_size), each byte read once. Since: 0.1
 */
PDD_API struct pdd_checksum pdd_checksum_page(const void *content, size_t page_size,
					      const void *secret, size_t secret_len);

/** A version of pdd_checksum_page(). */
typedef struct pdd_checksum (*pdd_checksum_fn)(const void *content, size_t page_size,
					       const void *secret, size_t secret_len);

/**
 * The version that is the fastest on this processor. All give the same results. The scanner uses
 * it. Asks the processor each time, some microseconds on a virtual machine: keep the answer.
 * @return pdd_checksum_page() or a version with wider vectors. Complexity: O(1). Since: 0.1
 */
PDD_API pdd_checksum_fn pdd_checksum_fastest(void);

/**
 * Spread a checksum whose bits are not evenly distributed: an invertible mix of 64 bits, so that
 * different values stay different.
 * Complexity: O(1). Since: 0.1
 */
PDD_API uint64_t pdd_checksum_mix(uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
