/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.c - public structs on x86-64, and enumerators and constants, are what programs that were
 * compiled before think they are. Statements only, for layout.sh; there is nothing to run.
 *
 * Whoever changes a layout runs update.sh, and says what happens to the ABI in CHANGELOG.md. What
 * is new is added to layout.def by hand, with any number: the rest prints itself, with PDD_PRINT.
 */
#include <stddef.h>

#include <pagededup/advisor.h>
#include <pagededup/linux/dedup.h>
#include <pagededup/scanner.h>

#ifdef PDD_PRINT

#include <stdio.h>

#define S(type, bytes) printf("\nS(%s, %zu)\n", #type, sizeof(struct type));
#define M(type, member, at) \
	printf("M(%s, %s, %zu)\n", #type, #member, offsetof(struct type, member));
#define N(name, value) printf("N(%s, %llu)\n", #name, (unsigned long long)(name));

int main(void)
{
	printf("/* SPDX-License-Identifier: BSD-2-Clause */\n"
	       "/* layout.def - S: the size of a struct; M: where a member lies;\n"
	       " * N: a number by its name. See layout.c. */\n");
#include "layout.def"
	return 0;
}

#else

#ifdef __cplusplus
#define PDD_HOLDS static_assert
#else
#define PDD_HOLDS _Static_assert
#endif
#define S(type, bytes) \
	PDD_HOLDS(sizeof(struct type) == (bytes), "the size of " #type " is no more " #bytes);
#define M(type, member, at)                              \
	PDD_HOLDS(offsetof(struct type, member) == (at), \
		  #type "." #member " is no more at " #at);
#define N(name, value) PDD_HOLDS((name) == (value), #name " is no more " #value);

#include "layout.def"

#endif
