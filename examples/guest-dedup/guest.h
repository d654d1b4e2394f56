/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest.h - guests: memory that was loaded from a raw RAM image, and is held against it at the end.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagededup/linux/dedup.h>

struct guest {
	const char *image;
	unsigned char *memory;
	uint64_t npages;
	struct pdd_linux_memory *handle;
	uint64_t differing; /* pages, found by guest_verify() */

	/* Pages with counters: `slots[i]` is the page of the i-th one, `slot_of` its inverse + 1. */
	uint32_t *slots;
	uint32_t *slot_of;
	uint64_t nslots;
	_Atomic uint64_t *increments; /* of each counter, by its writer */
};

/* Load an image. On failure says why on stderr, naming the file, and leaves nothing behind. */
bool guest_load(struct guest *guest, const char *image);

/* Choose up to n zero pages for counters. False if there is no memory for it. */
bool guest_choose_slots(struct guest *guest, uint64_t n);

/* The counter of a slot: one 64-bit word, at a place in its page that depends on the slot. */
volatile uint64_t *guest_counter(const struct guest *guest, uint64_t slot);

/* Compare every page with the image, reading each once; counters must be their increments. */
bool guest_verify(struct guest *guest);

/* Increments that the memory does not show. */
uint64_t guest_lost_increments(const struct guest *guest);

void guest_free(struct guest *guest);

#endif
