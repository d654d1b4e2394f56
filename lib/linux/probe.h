/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe.h - what the running kernel and the process's rights let the adapter do. Private.
 */
#ifndef PDDI_LINUX_PROBE_H
#define PDDI_LINUX_PROBE_H

#include <pagededup/linux/dedup.h>

struct pddi_probe {
	int uffd;       /* serves faults of the kernel too; -1 if there is none */
	int pagemap_fd; /* /proc/self/pagemap; -1 if it cannot be read */
	struct pdd_linux_facilities facilities;
	char missing[640];
};

/* Probe everything once. Never fails: what cannot be had is said in `missing`. */
void pddi_probe_init(struct pddi_probe *probe);
void pddi_probe_fini(struct pddi_probe *probe);

#endif
