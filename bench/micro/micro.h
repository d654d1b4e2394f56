/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * micro.h - benchmarks of single structures: cases in C, run by Google Benchmark (harness.cc).
 *
 * A case does the operations of one *run* again and again: `prepare` brings its state to where the
 * run begins, and `is_right` looks at what the run computed and at what it left behind; neither is
 * timed. A time is that of one operation. A wrong result fails the whole program, so no case can be
 * fast by doing nothing.
 *
 * A case is called structure/operation/contender. Contenders of one operation do the same work on
 * the same keys in the same order. A file makes its cases known by MICRO_CASES(table).
 */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct micro_case {
	const char *name;
	const uint64_t *sizes; /* with which it is run; 0 behind the last */
	/* Make the state for a size; tell how many operations a run has. NULL: no memory. */
	void *(*setup)(uint64_t size, uint64_t *iterations);
	void (*prepare)(void *state);
	uint64_t (*run)(void *state, uint64_t iterations); /* a sum or count of what was found */
	bool (*is_right)(void *state, uint64_t result);
	void (*teardown)(void *state);
};

/* Called before main(). The table stays. */
void micro_register(const struct micro_case *cases, size_t ncases);

#define MICRO_CASES(table)                                                       \
	__attribute__((constructor)) static void micro_register_##table(void)    \
	{                                                                        \
		micro_register((table), sizeof(table) / sizeof((table)[0]));     \
	}

/* Different numbers have different keys, spread evenly. */
static inline uint64_t micro_key(uint64_t i)
{
	uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 .. n - 1 in an order that is the same every time. To be freed; NULL: no memory. */
uint32_t *micro_shuffled(uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
