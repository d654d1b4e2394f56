/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * batch.c - reading pages, a batch at a time, close to the speed of memory.
 *
 * Pages are collected, checksummed together, and then decided about (decide.c). While one is read
 * the next one is asked for, and so are the roots of the searches that will follow; then the nodes
 * of all these searches, level by level. So nothing is waited for that could have been asked for
 * before.
 *
 * Locking: the scanner's lock is released while pages are read. What has to be known of their items
 * is in the batch (struct pdd_look).
 */
#include "scanner_internal.h"

/* Nodes of a search that are loaded ahead; with one root for each node few trees are deeper. */
#define LEVELS_AHEAD 4u

/* What is loaded of a page ahead, in lines of the cache. */
#define AHEAD_BYTES ((size_t)4096)
#define LINE_BYTES ((size_t)64)

/* The page that is read after this one; behind the last of a batch that is likely to be its
 * neighbour. NULL: it is not to be read. */
static const char *next_content(const struct pdd_scanner *scanner, const struct pdd_look *look,
				const struct pdd_look *end)
{
	if (look + 1 == end)
		return (const char *)look->content + scanner->priv.page_size;
	return look[1].intent == LOOK_CLEAN ? NULL : look[1].content;
}

/* Checksum the pages of the batch, and ask for the roots of the searches that will follow. The
 * number of these searches. Without the scanner's lock: the index is as it was before; once it has
 * grown, a wrong root is asked for now and then. */
static uint32_t read_pages(const struct pdd_scanner *scanner, struct pdd_worker *worker,
			   const struct pdd_index *index)
{
	struct pdd_search_ahead *searches = worker->priv.searches;
	struct pdd_look *look = worker->priv.batch, *end = look + worker->priv.nbatch;
	size_t ahead = scanner->priv.page_size < AHEAD_BYTES ? scanner->priv.page_size : AHEAD_BYTES;
	uint32_t nsearches = 0;

	for (; look < end; look++) {
		const char *next = next_content(scanner, look, end);
		uint64_t recorded = look->checksum.value;

		/* The processor's own prefetcher stops at each page. (In a function of its own this
		 * loop is taken for one without effect, and goes.) */
		/* cppcheck-suppress knownConditionTrueFalse ; takes a minimum by ?: for 0 */
		for (size_t at = 0; next && at < ahead; at += LINE_BYTES)
			PDD_PREFETCH_READ(next + at);
		look->err = look->intent == LOOK_CLEAN
				    ? 0
				    : pddi_checksum_read(scanner, &look->checksum, look->content);
		if (look->intent == LOOK_SEARCH ||
		    (look->intent == LOOK_SECOND && look->checksum.value == recorded))
			searches[nsearches++].checksum = look->checksum.value;
	}
	/* In a loop of its own: each of these needs a walk through the page tables, and among the
	 * hashing, which is long, no two of them would be under way at a time. */
	for (uint32_t i = 0; i < nsearches; i++)
		pdd_index_prefetch(index, searches[i].checksum);
	return nsearches;
}

/* Load what these searches will read. */
static void load_ahead(const struct pdd_scanner *scanner, struct pdd_search_ahead *searches,
		       uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t checksum = searches[i].checksum;
		const struct pdd_index_node *node =
			pdd_index_prefetch_first(&scanner->priv.index, checksum);

		searches[left] = (struct pdd_search_ahead){ checksum, node };
		left += node != NULL;
	}
	for (uint32_t level = 1; left && level < LEVELS_AHEAD; level++) {
		n = left;
		left = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t checksum = searches[i].checksum;
			const struct pdd_index_node *node =
				pdd_index_prefetch_below(searches[i].node, checksum);

			searches[left] = (struct pdd_search_ahead){ checksum, node };
			left += node != NULL;
		}
	}
}

void pddi_batch_flush(struct pdd_scanner *scanner, struct pdd_worker *worker)
{
	struct pdd_index index = scanner->priv.index;
	uint32_t nsearches;

	if (!worker->priv.nbatch)
		return;
	pddi_unlock(scanner);
	nsearches = read_pages(scanner, worker, &index);
	pddi_lock(scanner);
	load_ahead(scanner, worker->priv.searches, nsearches);
	pddi_decide_batch(scanner, worker);
	worker->priv.nbatch = 0;
}
