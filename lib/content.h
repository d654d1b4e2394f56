/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * content.h - reading pages that others may be writing: compare and classify. Private.
 *
 * With checksum.c the only code of the core that reads live pages; both are built without
 * ThreadSanitizer's instrumentation and use loops of their own, since a call of memcmp would be
 * intercepted. Everything else is instrumented.
 */
#ifndef PDD_CONTENT_H
#define PDD_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagededup/checksum.h>

/* Byte order of two contents: <0, 0, >0 as memcmp. size: bytes, a multiple of 8. O(size). */
int pddi_content_compare(const void *a, const void *b, size_t size);

/* Whether two contents are equal; faster than the order. size: bytes, a multiple of 8. O(size). */
bool pddi_content_equal(const void *a, const void *b, size_t size);

/*
 * Whether all 64-bit words of a content are equal. Reads on only while they are.
 * filling: out: its first word, also if it is not filled. size: bytes, a multiple of 8, not 0.
 */
bool pddi_content_is_filled(const void *content, uint64_t *filling, size_t size);

/* The class of a content. Reads on only while all words are equal. size: as above. */
enum pdd_class pddi_content_class(const void *content, size_t size);

#endif
