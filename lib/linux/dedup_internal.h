/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dedup_internal.h - the deduplicator: one scanner, and what its hooks work with. Private.
 *
 * Locking: `lock` is held by whoever is in a public call, and so keeps all of it. Under it the
 * `layout` of each memory, as ops.h wants it: shared by the scanner, exclusive for changes.
 */
#ifndef PDDI_LINUX_DEDUP_INTERNAL_H
#define PDDI_LINUX_DEDUP_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include <pagededup/linux/dedup.h>

#include "hold.h"
#include "mappings.h"
#include "memory.h"
#include "probe.h"
#include "store.h"
#include "track.h"
#include "view.h"

struct pdd_linux {
	pthread_mutex_t lock;
	pid_t owner; /* the userfaultfd and the page map are this process's */
	struct pddi_probe probe;
	struct pddi_pagemap map;
	struct pddi_track track;
	struct pddi_hold hold;
	struct pddi_store store;
	struct pddi_budget budget;
	struct pdd_linux_memory *memories;
	struct pdd_rbroot *roots;
	uint64_t nroots;
	uint32_t page_shift;
	void (*trace)(void *ctx, enum pdd_event event, void *start, uint64_t npages);
	void *trace_ctx;
	struct pdd_scanner scanner;
	struct pdd_worker worker;
};

/* Add a range that overlaps with no other. 0 or -errno as pdd_linux_add(). */
int pddi_added_make(struct pdd_linux *dedup, struct pdd_linux_memory **out, uint32_t domain,
		    void *start, size_t length);
/* Whether added memory lies in [start, end). */
bool pddi_added_overlaps(const struct pdd_linux *dedup, uintptr_t start, uintptr_t end);
/* Give all pages of a memory their own copy, in anonymous memory where it can be had. 0 or -ENOMEM.
 *  */
int pddi_added_unmerge(struct pdd_linux *dedup, struct pdd_linux_memory *memory);
/* Forget a memory, whatever its pages show. */
void pddi_added_forget(struct pdd_linux *dedup, struct pdd_linux_memory *memory);
/* Bytes of metadata that were touched. */
uint64_t pddi_added_resident(const struct pdd_linux_memory *memory,
			     const struct pddi_pagemap *map);

/* The hooks; their context is the deduplicator. Left out is what is not wanted or cannot be. */
void pddi_hooks_get(struct pdd_ops *ops, const struct pdd_linux *dedup);

/* Begin a call: take the lock. 0, or -ECHILD in a child of fork. */
int pddi_enter(struct pdd_linux *dedup);
/* End it: give back what it left to be given back. */
void pddi_leave(struct pdd_linux *dedup);

/* Block all signals while pages may be held; see the top of dedup.c. @param before  out: to be set
 * again afterwards */
void pddi_block_signals(sigset_t *before);

/* Whether the memory, which may be any pointer, is one of this deduplicator. */
bool pddi_is_added(const struct pdd_linux *dedup, const struct pdd_linux_memory *memory);

/* CLOCK_MONOTONIC. */
uint64_t pddi_now_ns(void);

#endif
