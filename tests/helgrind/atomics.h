/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * atomics.h - tells Helgrind what atomic operations do, which it does not see by itself. Included by
 * the compiler before anything else (-include) into all that the programs here are made of, so that
 * neither the library nor a test has to know of it.
 *
 *  - Memory that was once used by an atomic operation is not checked from then on: whoever reads
 *    it otherwise, as content.c and checksum.c do with live pages, means to. Memory that was freed
 *    and comes back from malloc() is checked again.
 *  - What has the order release happens before what has the order acquire, on the same address, if
 *    that came later. Relaxed operations order nothing, nor does anything for which that was
 *    turned off (start.c).
 *
 * That is all: what else two threads share must be ordered by that, or by a lock, or is reported.
 * Helgrind lets an acquiring load see all that was released before it, even if it got an older
 * value: that can hide a race, but never makes one up.
 *
 * gcc's <stdatomic.h> is made of these builtins. A macro does not expand within itself.
 */
#ifndef PDD_TEST_HELGRIND_ATOMICS_H
#define PDD_TEST_HELGRIND_ATOMICS_H

#include <valgrind/helgrind.h>

extern int helgrind_all_relaxed;
extern unsigned long helgrind_orders; /* that Helgrind was told of */

static inline void helgrind_before(const volatile void *at, unsigned long size, int order)
{
	VALGRIND_HG_DISABLE_CHECKING((void *)(unsigned long)at, size);
	if (order < __ATOMIC_RELEASE || helgrind_all_relaxed)
		return;
	helgrind_orders++;
	ANNOTATE_HAPPENS_BEFORE(at);
}

static inline void helgrind_after(const volatile void *at, int order)
{
	if (order == __ATOMIC_RELAXED || order == __ATOMIC_RELEASE || helgrind_all_relaxed)
		return;
	ANNOTATE_HAPPENS_AFTER(at);
}

_Static_assert(__ATOMIC_RELAXED < __ATOMIC_CONSUME && __ATOMIC_CONSUME < __ATOMIC_ACQUIRE &&
		       __ATOMIC_ACQUIRE < __ATOMIC_RELEASE && __ATOMIC_RELEASE < __ATOMIC_ACQ_REL &&
		       __ATOMIC_ACQ_REL < __ATOMIC_SEQ_CST,
	       "which orders release is known by their numbers");

/* An operation that has no value, and one that has. */
#define HELGRIND_DO(at, order, operation)                                                  \
	__extension__({                                                                    \
		__auto_type helgrind_at = (at);                                            \
		helgrind_before(helgrind_at, sizeof(*helgrind_at), order);                 \
		operation;                                                                 \
		helgrind_after(helgrind_at, order);                                        \
	})
#define HELGRIND_GET(at, order, operation)                                                 \
	__extension__({                                                                    \
		__auto_type helgrind_at = (at);                                            \
		helgrind_before(helgrind_at, sizeof(*helgrind_at), order);                 \
		__auto_type helgrind_got = operation;                                      \
		helgrind_after(helgrind_at, order);                                        \
		helgrind_got;                                                              \
	})

/* A load with the order seq_cst releases nothing, nor does a store with it acquire. */
#define HELGRIND_LOADS(order) ((order) == __ATOMIC_SEQ_CST ? __ATOMIC_ACQUIRE : (order))
#define HELGRIND_STORES(order) ((order) == __ATOMIC_SEQ_CST ? __ATOMIC_RELEASE : (order))

#define __atomic_load(at, to, order) \
	HELGRIND_DO(at, HELGRIND_LOADS(order), __atomic_load(helgrind_at, to, order))
#define __atomic_load_n(at, order) \
	HELGRIND_GET(at, HELGRIND_LOADS(order), __atomic_load_n(helgrind_at, order))
#define __atomic_store(at, from, order) \
	HELGRIND_DO(at, HELGRIND_STORES(order), __atomic_store(helgrind_at, from, order))
#define __atomic_store_n(at, value, order) \
	HELGRIND_DO(at, HELGRIND_STORES(order), __atomic_store_n(helgrind_at, value, order))
#define __atomic_exchange(at, from, to, order) \
	HELGRIND_DO(at, order, __atomic_exchange(helgrind_at, from, to, order))
#define __atomic_compare_exchange(at, old, from, weak, order, failing) \
	HELGRIND_GET(at, order, __atomic_compare_exchange(helgrind_at, old, from, weak, order, failing))
#define __atomic_fetch_add(at, value, order) \
	HELGRIND_GET(at, order, __atomic_fetch_add(helgrind_at, value, order))
#define __atomic_fetch_sub(at, value, order) \
	HELGRIND_GET(at, order, __atomic_fetch_sub(helgrind_at, value, order))
#define __atomic_fetch_or(at, value, order) \
	HELGRIND_GET(at, order, __atomic_fetch_or(helgrind_at, value, order))
#define __atomic_fetch_and(at, value, order) \
	HELGRIND_GET(at, order, __atomic_fetch_and(helgrind_at, value, order))
#define __atomic_add_fetch(at, value, order) \
	HELGRIND_GET(at, order, __atomic_add_fetch(helgrind_at, value, order))
#define __atomic_sub_fetch(at, value, order) \
	HELGRIND_GET(at, order, __atomic_sub_fetch(helgrind_at, value, order))

/* Whoever comes to use another one has to say here what it does. */
#define __atomic_exchange_n(...) helgrind_is_not_told_of_this
#define __atomic_compare_exchange_n(...) helgrind_is_not_told_of_this
#define __atomic_fetch_xor(...) helgrind_is_not_told_of_this
#define __atomic_thread_fence(...) helgrind_is_not_told_of_this
#define __atomic_test_and_set(...) helgrind_is_not_told_of_this
#define __atomic_clear(...) helgrind_is_not_told_of_this

#endif
