/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksmd.h - the kernel's own page merging, driven scan by scan: its kernel thread, whose CPU time
 * and counts are read while it sleeps.
 */
#ifndef BENCH_KSMD_H
#define BENCH_KSMD_H

#include <signal.h>
#include <stdbool.h>

#include "ksm_passes.h"

/** Number of the signal that wants an end, or 0: scans then end early. */
extern volatile sig_atomic_t ksm_signal;
/** From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT do nothing but to set ksm_signal. */
void ksm_catch_signals(void);

/** Whether ksmd can be driven and seen from here, and nobody else uses it: see
 * ksm_settings_unusable(). NULL, or why not. */
const char *ksmd_unusable(void);

/** Unmerge everything, forget all pages, and get ready: the next scan is the first. Needs saved
 * settings. 0, or -1 after a complaint. */
int ksmd_reset(bool smart_scan);
/** No more scans. 0, or -1 after a complaint. */
int ksmd_stop(void);

/** One scan, from the beginning to the end; a ksm_passer's pass. */
int ksmd_scan(void *unused, struct ksm_pass *pass);

#endif
