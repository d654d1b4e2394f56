/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check_internal.h - the ladder of internal checks, and small helpers of all files. Private.
 *
 * PDD_CHECKS chooses the level at build time (CMake sets it; undefined means 0):
 *
 *	0  none: conditions are compiled, so that they do not rot, but never evaluated
 *	1  PDD_ASSERT: preconditions of a call, O(1); what a caller can get wrong
 *	2  also PDD_INVARIANT, O(1): what this library must get right, beside the line that relies
 *	   on it; and PDD_CHECK, which may walk a whole structure
 *
 * A condition must have no side effect. Failing traps: no message, no handler, no dependency. Data
 * and hooks must never be able to make one of these fail.
 */
#ifndef PDD_CHECK_INTERNAL_H
#define PDD_CHECK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#ifndef PDD_CHECKS
#define PDD_CHECKS 0
#endif

#define PDDI_TRAP_UNLESS(condition) ((condition) ? (void)0 : __builtin_trap())
#define PDDI_NOT_EVALUATED(condition) ((void)sizeof((condition) ? 1 : 0))

#if PDD_CHECKS >= 1
#define PDD_ASSERT(condition) PDDI_TRAP_UNLESS(condition)
#else
#define PDD_ASSERT(condition) PDDI_NOT_EVALUATED(condition)
#endif

#if PDD_CHECKS >= 2
#define PDD_INVARIANT(condition) PDDI_TRAP_UNLESS(condition)
#define PDD_CHECK(condition) PDDI_TRAP_UNLESS(condition)
#else
#define PDD_INVARIANT(condition) PDDI_NOT_EVALUATED(condition)
#define PDD_CHECK(condition) PDDI_NOT_EVALUATED(condition)
#endif

/* Tests that count how many nodes searches visit compile the library once more, with this on. */
#if defined(PDD_COUNT_VISITS)
extern uint64_t pddi_visits;
#define PDD_COUNT_VISIT() ((void)++pddi_visits)
#else
#define PDD_COUNT_VISIT() ((void)0)
#endif

/*
 * The struct of the type `type` whose member `member` `ptr` points to. A pointer to another type
 * than the member's does not compile; the operand that proves it is never evaluated. `type` may be
 * const-qualified, and should be if the member is.
 */
#define pddi_container_of(ptr, type, member)                                 \
	((type *)(void *)((uintptr_t)(1 ? (ptr) : &((type *)NULL)->member) - \
			  offsetof(type, member)))

#endif
