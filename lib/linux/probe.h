/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe.h - what the running kernel and the process's rights let the adapter do. Private.
 */
#ifndef PDDI_LINUX_PROBE_H
#define PDDI_LINUX_PROBE_H

#include <pagededup/linux/dedup.h>

struct pddi_probe {
	/* Both serve faults of the kernel too; -1 if there is none. A page can be registered with
	 * one of them at a time. */
	int uffd;       /* its write protection makes writers wait */
	int track_uffd; /* its write protection only notes who writes; it moves pages as well */
	int pagemap_fd; /* /proc/self/pagemap; -1 if it cannot be read */
	struct pdd_linux_facilities facilities;
	char missing[768];
};

/* Probe everything once. Never fails: what cannot be had is said in `missing`. */
void pddi_probe_init(struct pddi_probe *probe);
void pddi_probe_fini(struct pddi_probe *probe);

/* Track no writes, or no more: close what is needed for that alone. */
void pddi_probe_untrack(struct pddi_probe *probe);

#endif
