/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.h - what guest-dedup prints.
 */
#ifndef REPORT_H
#define REPORT_H

#include "guest.h"

struct report {
	const struct guest *guests;
	const struct pdd_counts *counts; /* of each guest */
	uint32_t nguests;
	struct pdd_stats stats;
	struct pdd_linux_usage usage;
	uint64_t passes;
	double cpu_seconds;  /* of the scanning thread, without loading and verifying */
	double wall_seconds; /* likewise */
	uint64_t pss_before_bytes; /* from the kernel, of the whole process */
	uint64_t pss_after_bytes;
	uint64_t differing_pages;
	uint64_t increments;
	uint64_t lost_increments;
	uint64_t written_pages_merged;
};

/* Proportional set size of this process in bytes, as the kernel says; 0 if it does not. */
uint64_t report_pss_bytes(void);

void report_json(const struct report *report);
void report_table(const struct report *report);

/* One line on stderr, written over and over. */
void report_progress(uint64_t pass, const struct pdd_stats *stats, bool terminal);

#endif
