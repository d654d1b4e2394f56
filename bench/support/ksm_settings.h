/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ksm_settings.h - the settings of the host that bench_ksm and ksmd_images change: those in
 * /sys/kernel/mm/ksm, and how many mappings a process may have. One table, since there is one host:
 * save all, set some, restore all.
 *
 * All are written back and read again at the end. Nothing but SIGKILL prevents that, if the program
 * lets signals lead to ksm_settings_restore().
 */
#ifndef BENCH_KSM_SETTINGS_H
#define BENCH_KSM_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KSM_MAX_MAP_COUNT "/proc/sys/vm/max_map_count"

/** To the standard error, with the program's name. Always -1. */
__attribute__((format(printf, 1, 2))) int ksm_complain(const char *format, ...);

/** Read a small file, without its newline. 0 or -1. */
int ksm_read_text(char *text, size_t size, const char *path);
/** A number of /sys/kernel/mm/ksm; 0 if this kernel does not have it. */
uint64_t ksm_count(const char *name);

/** Whether KSM is here, may be set by this program, and nobody else uses it. NULL if so, or why it
 * is not; then no setting may be changed. If another process measures with these functions, it is
 * waited for; and others wait for this one, until it ends. */
const char *ksm_settings_unusable(void);

/** Read all settings; once, before the first is set. */
void ksm_settings_save(void);
/** Whether this kernel has a setting. Names as in /sys/kernel/mm/ksm, or a whole path. */
bool ksm_settings_has(const char *name);
/** The value that was saved, as a number. */
uint64_t ksm_settings_saved(const char *name);
/** Set what this kernel has; what it does not have cannot be on. 0, or -1 after a complaint. */
int ksm_settings_set(const char *name, const char *value);
/** Whether all settings are what was set last. 0, or -1 after a complaint: somebody else sets
 * them. */
int ksm_settings_check(void);
/** Unmerge everything and write all settings back. 0, or -1 after a complaint. */
int ksm_settings_restore(void);

#endif
