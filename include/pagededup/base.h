/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base.h - what every header of libpagededup shares: version, export mark, forward declarations.
 *
 * Conventions of all headers
 *  - Every structure is embedded in, or handed in by, the embedder's own memory. Public structs
 *    keep their private fields in one member `priv`; the embedder zeroes nothing unless told to.
 *  - A function that can fail returns 0 (or a count) or a negative errno value. Expected outcomes
 *    that are not failures (busy, gone, ...) are enumerators.
 *  - Misuse that no error is documented for (a node linked twice, a number out of its range) is
 *    undefined. A library that was built with PDD_CHECKS=1 or 2 stops at it by a trap instruction,
 *    the debugger's next line; it has no handler, since it has no variables and calls nobody.
 *  - Argument order: object, outputs, in-outs, inputs, flags; a length follows its array.
 *  - Structs that grow start with their own size, so that an older caller keeps working.
 */
#ifndef PAGEDEDUP_BASE_H
#define PAGEDEDUP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PDD_VERSION_MAJOR 0
#define PDD_VERSION_MINOR 1
#define PDD_VERSION_PATCH 0

#if defined(__GNUC__)
#define PDD_API __attribute__((visibility("default")))
#else
#define PDD_API
#endif

/* Pages per extent: the unit of claiming, of holding, of items on demand. */
#define PDD_EXTENT_PAGES 512u

/* A region has at most 2^34 pages: 2^46 bytes of 4 KiB pages. */
#define PDD_REGION_PAGES_MAX (UINT64_C(1) << 34)

/* NUMA nodes that can be kept apart: 0 .. PDD_NODES_MAX - 1. */
#define PDD_NODES_MAX 1024u

struct pdd_scanner;
struct pdd_space;
struct pdd_region;
struct pdd_object;
struct pdd_extent;
struct pdd_item;
struct pdd_frame;
struct pdd_group;
struct pdd_worker;
struct pdd_ops;

#endif
