/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * measure.h - what every standalone benchmark needs: clocks, medians, options and rows.
 *
 * Both sides of a comparison run in turns, in one process; what is reported is a median over the
 * turns. Ratios are formed within a turn, so that what else the machine does meanwhile slows both
 * sides.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/** CPU time of this thread: what else the machine does counts less. */
double measure_cpu_ns(void);
/** Time that goes by. */
double measure_wall_ns(void);

#define MEASURE_ROUNDS_MAX 99u

/** A figure of each round. Zeroed before use. */
struct samples {
	double values[MEASURE_ROUNDS_MAX];
	unsigned n;
};

void samples_add(struct samples *samples, double value);
/** The middle one, or the mean of the two in the middle; not a number if there is none. */
double samples_median(const struct samples *samples);

/* ---- options ---- */

/** "--name NUMBER", "--name WORD" or "--name". */
struct measure_option {
	const char *name;
	uint64_t *value;          /* in: the default. A number, or the place in `words`, or 1 */
	uint64_t least, most;     /* of a number; both 0: there is none */
	const char *const *words; /* what is allowed, NULL at the end; NULL: no word */
};

/** Read the command line. Ends the program after "--help" (status 0) and a usage error (2). */
void measure_options(int argc, char **argv, const struct measure_option *options,
		     unsigned noptions);

/* ---- rows ---- */

enum measure_type { MEASURE_WORD, MEASURE_COUNT, MEASURE_REAL, MEASURE_BOOL };

struct measure_field {
	const char *name;
	enum measure_type type;
	const char *word;
	uint64_t count; /* or 0 and 1 */
	double real;    /* what is not finite becomes null */
};

#define FIELD_WORD(n, v) { .name = (n), .type = MEASURE_WORD, .word = (v) }
#define FIELD_COUNT(n, v) { .name = (n), .type = MEASURE_COUNT, .count = (v) }
#define FIELD_REAL(n, v) { .name = (n), .type = MEASURE_REAL, .real = (v) }
#define FIELD_BOOL(n, v) { .name = (n), .type = MEASURE_BOOL, .count = (v) }

enum measure_style {
	MEASURE_LIST,  /* a line for each field, for benchmarks of one row */
	MEASURE_HEAD,  /* a line, with the names above it */
	MEASURE_LINE,  /* a line */
	MEASURE_JSON,
};

/** Print a row, and write it out. @return 0 or -1 */
int measure_print(const struct measure_field *fields, unsigned nfields, enum measure_style style);

#define MEASURE_LENGTH(array) ((unsigned)(sizeof(array) / sizeof((array)[0])))

#endif
