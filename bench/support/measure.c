/* SPDX-License-Identifier: BSD-2-Clause */
/* measure.c - see measure.h. */
#define _POSIX_C_SOURCE 200809L

#include "measure.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- clocks and medians ---- */

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

double measure_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double measure_wall_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void samples_add(struct samples *samples, double value)
{
	if (samples->n < MEASURE_ROUNDS_MAX)
		samples->values[samples->n++] = value;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double samples_median(const struct samples *samples)
{
	double sorted[MEASURE_ROUNDS_MAX];
	unsigned n = samples->n;

	if (!n)
		return NAN;
	memcpy(sorted, samples->values, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* ---- options ---- */

static bool takes_value(const struct measure_option *option)
{
	return option->words || option->most;
}

static void usage(FILE *out, const char *program, const struct measure_option *options,
		  unsigned noptions)
{
	fprintf(out, "usage: %s", program);
	for (unsigned i = 0; i < noptions; i++) {
		const struct measure_option *o = &options[i];

		fprintf(out, " [--%s", o->name);
		for (unsigned k = 0; o->words && o->words[k]; k++)
			fprintf(out, "%s%s", k ? "|" : " ", o->words[k]);
		if (!o->words && o->most)
			fprintf(out, " %" PRIu64 "..%" PRIu64, o->least, o->most);
		fputs("]", out);
	}
	fputs("\n", out);
}

static bool read_number(const struct measure_option *option, const char *text)
{
	unsigned long long number;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || *end || number < option->least || number > option->most)
		return false;
	*option->value = number;
	return true;
}

static bool read_value(const struct measure_option *option, const char *text)
{
	if (!option->words)
		return read_number(option, text);
	for (unsigned i = 0; option->words[i]; i++) {
		if (!strcmp(option->words[i], text)) {
			*option->value = i;
			return true;
		}
	}
	return false;
}

static const struct measure_option *find(const char *argument,
					 const struct measure_option *options, unsigned noptions)
{
	for (unsigned i = 0; i < noptions; i++)
		if (!strncmp(argument, "--", 2) && !strcmp(argument + 2, options[i].name))
			return &options[i];
	return NULL;
}

void measure_options(int argc, char **argv, const struct measure_option *options,
		     unsigned noptions)
{
	const char *slash = strrchr(argv[0], '/');
	const char *program = slash ? slash + 1 : argv[0];

	for (int i = 1; i < argc; i++) {
		const struct measure_option *option = find(argv[i], options, noptions);

		if (!strcmp(argv[i], "--help")) {
			usage(stdout, program, options, noptions);
			exit(0);
		}
		if (option && !takes_value(option)) {
			*option->value = 1;
			continue;
		}
		if (!option || i + 1 == argc || !read_value(option, argv[i + 1])) {
			fprintf(stderr, "%s: %s?\n", program, argv[i]);
			usage(stderr, program, options, noptions);
			exit(2);
		}
		i++;
	}
}

/* ---- rows ---- */

static void format(char *text, size_t size, const struct measure_field *field, bool json)
{
	if (field->type == MEASURE_WORD)
		snprintf(text, size, json ? "\"%s\"" : "%s", field->word);
	else if (field->type == MEASURE_COUNT)
		snprintf(text, size, "%" PRIu64, field->count);
	else if (field->type == MEASURE_BOOL)
		snprintf(text, size, "%s", field->count ? "true" : "false");
	else if (!isfinite(field->real))
		snprintf(text, size, "%s", json ? "null" : "-");
	else
		snprintf(text, size, "%.3f", field->real);
}

static int width(const struct measure_field *field)
{
	size_t length = strlen(field->name);

	return length < 10 ? 10 : (int)length;
}

int measure_print(const struct measure_field *fields, unsigned nfields, enum measure_style style)
{
	char text[64];

	for (unsigned i = 0; style == MEASURE_HEAD && i < nfields; i++)
		printf("%*s%s", width(&fields[i]), fields[i].name, i + 1 < nfields ? "  " : "\n");
	for (unsigned i = 0; i < nfields; i++) {
		bool last = i + 1 == nfields;

		format(text, sizeof(text), &fields[i], style == MEASURE_JSON);
		if (style == MEASURE_JSON)
			printf("%s\"%s\": %s%s", i ? ", " : "{", fields[i].name, text,
			       last ? "}\n" : "");
		else if (style == MEASURE_LIST)
			printf("%-36s %s\n", fields[i].name, text);
		else
			printf("%*s%s", width(&fields[i]), text, last ? "\n" : "  ");
	}
	return fflush(stdout) ? -1 : 0;
}
