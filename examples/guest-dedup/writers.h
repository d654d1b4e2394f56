/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writers.h - threads that act as vCPUs: they increment counters in pages of all guests.
 */
#ifndef WRITERS_H
#define WRITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "guest.h"

struct writers;

/* Start n threads over the guests' slots. NULL after a complaint. */
struct writers *writers_start(struct guest *guests, uint32_t nguests, uint32_t n);

/* Tell them that the scanner has completed another pass. */
void writers_pass(struct writers *writers);

/* Tell them that the page of a counter was merged. */
void writers_merged(struct writers *writers, const struct guest *guest, uint64_t slot);

/* Stop and join them; the number of increments that they did. Frees. */
uint64_t writers_stop(struct writers *writers);

#endif
