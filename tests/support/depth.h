/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * depth.h - how far the exhaustive tests go. PDD_DEPTH=1 makes everything that they try one larger,
 * which takes about ten times as long or more; that is for tests/run.sh --long.
 */
#ifndef PDD_TEST_DEPTH_H
#define PDD_TEST_DEPTH_H

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 1u

/* 0 or 1; anything else ends the program. */
static inline unsigned depth(void)
{
	const char *given = getenv("PDD_DEPTH");

	if (!given || strcmp(given, "0") == 0)
		return 0;
	if (strcmp(given, "1") != 0)
		abort();
	return DEPTH_MAX;
}

#endif
