/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start.c - what atomics.h needs of a program. PDD_ALL_RELAXED=1 has Helgrind not know of any order
 * of atomic operations, so that it has to report races. That shows that it looks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/helgrind.h>

int helgrind_all_relaxed;
unsigned long helgrind_orders;

__attribute__((constructor)) static void start(void)
{
	VALGRIND_HG_DISABLE_CHECKING(&helgrind_orders, sizeof(helgrind_orders)); /* about so many */
	helgrind_all_relaxed = getenv("PDD_ALL_RELAXED") != NULL;
}

__attribute__((destructor)) static void end(void)
{
	printf("Helgrind was told of %lu orders\n", helgrind_orders);
}
