/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.h - the command line of guest-dedup.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	uint32_t writers;
	uint64_t seconds; /* 0: no limit */
	uint64_t passes;  /* 0: no limit */
	uint32_t max_page_sharing; /* 0: default */
	bool domain_per_guest;
	bool json;
	bool progress;
	char **images;
	uint32_t nimages;
};

/* Read the command line. -1 to go on, else the exit status after a message. */
int options_read(struct options *options, int argc, char **argv);

#endif
