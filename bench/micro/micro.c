/* SPDX-License-Identifier: BSD-2-Clause */
/* micro.c - what the cases share. */
#include "micro.h"

#include <stdlib.h>

uint32_t *micro_shuffled(uint64_t n)
{
	uint32_t *order = malloc(n * sizeof(*order));

	if (!order)
		return NULL;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t j = micro_key(~i) % (i + 1);

		order[i] = order[j];
		order[j] = (uint32_t)i;
	}
	return order;
}
