/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recent.h - copies of frames that were made or read a short time ago. Private; the argument is on
 * top of recent.c.
 *
 * Locking: the caller keeps it to itself.
 */
#ifndef PDDI_LINUX_RECENT_H
#define PDDI_LINUX_RECENT_H

#include <stdbool.h>
#include <stdint.h>

/* Pages that are kept. A power of two, not less than are made by one call. */
#define PDDI_RECENT_PAGES 512u

struct iovec;

struct pddi_recent {
	unsigned char *content; /* a slot for each page; NULL: nothing is ever kept */
	uint32_t page_shift;
	uint32_t era;                       /* counts on from 1 */
	uint32_t told[PDDI_RECENT_PAGES];   /* the era in which a slot was told of last */
	uint64_t places[PDDI_RECENT_PAGES]; /* what is kept in a slot: place + 1, or 0 */
};

/* 0 or -ENOMEM. */
int pddi_recent_init(struct pddi_recent *recent, uint32_t page_shift);
void pddi_recent_fini(struct pddi_recent *recent);

/* Nobody uses what was told before any more. */
void pddi_recent_renew(struct pddi_recent *recent);

/* The content of the frame at a place, if it is kept; it stays there until the era ends. */
const void *pddi_recent_find(struct pddi_recent *recent, uint64_t place);

/*
 * Read frames at neighbouring places of a file, those whose slots are free to be used.
 * @return the content of the first, as pddi_recent_find(), or NULL
 */
const void *pddi_recent_read(struct pddi_recent *recent, int fd, uint64_t place, uint64_t npages);

/* Whether some memory is a part of the slots. */
bool pddi_recent_has(const struct pddi_recent *recent, const void *content);

/* Keep nothing of these places any more, at most PDDI_RECENT_PAGES. */
void pddi_recent_forget(struct pddi_recent *recent, uint64_t place, uint64_t npages);

/*
 * The slots of neighbouring places, at most PDDI_RECENT_PAGES, to be filled by the caller; what is
 * kept there is forgotten.
 * @return the number of pieces of memory, 1 or 2
 */
int pddi_recent_slots(struct pddi_recent *recent, struct iovec *pieces, uint64_t place,
		      uint64_t npages);
/* They were filled with what the frames at these places contain. */
void pddi_recent_keep(struct pddi_recent *recent, uint64_t place, uint64_t npages);

#endif
