/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_options.h - the command line of bench_ksm. */
#ifndef BENCH_KSM_OPTIONS_H
#define BENCH_KSM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "ksm_memory.h"

#define KSM_ROUNDS_MAX 99u

struct ksm_options {
	struct ksm_source source; /* without npages if of guests */
	uint64_t mib;
	unsigned rounds;
	bool has_dataset, no_idle, json;
};

extern const char *const ksm_dataset_names[3];

/** -1: go on; else the exit status, after a complaint or the help. */
int ksm_options_read(struct ksm_options *options, int argc, char **argv);

#endif
