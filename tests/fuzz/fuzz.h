/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz.h - what the fuzz targets share: the bytes of an input, and the end of a run.
 *
 * A target is one file that defines LLVMFuzzerTestOneInput(). libFuzzer calls it with inputs that
 * it makes up; an ordinary build with those of corpus/<target> (replay.c). It keeps nothing from
 * one input to the next, and does the same for the same input, whatever the compiler: save that the
 * library works on the regions of twins in the order of their addresses, which malloc decides, so
 * that one script in some hundreds calls its hooks in another order in another build.
 */
#ifndef PDD_TEST_FUZZ_H
#define PDD_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest of an input is not looked at. */
#define FUZZ_INPUT_MAX 1024u

/* What must hold, also without assertions. */
#define fuzz_require(condition)                                                                    \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* What is left of an input. */
struct fuzz_bytes {
	const uint8_t *at;
	const uint8_t *end;
};

static inline struct fuzz_bytes fuzz_bytes(const uint8_t *data, size_t size)
{
	return (struct fuzz_bytes){ data, data + (size < FUZZ_INPUT_MAX ? size : FUZZ_INPUT_MAX) };
}

static inline size_t fuzz_left(const struct fuzz_bytes *bytes)
{
	return (size_t)(bytes->end - bytes->at);
}

/* The next one; 0 when there is none. */
static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
	return bytes->at < bytes->end ? *bytes->at++ : 0;
}

#endif
