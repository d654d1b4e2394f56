/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uffd.h - the calls on a userfaultfd that holding needs, with what may be repeated repeated.
 * Private.
 *
 * Ranges are whole pages; `page` is log2 of the page size. Locking: none; all of them may be called
 * by several threads.
 */
#ifndef PDDI_LINUX_UFFD_H
#define PDDI_LINUX_UFFD_H

#include <stdbool.h>
#include <stdint.h>

/* How often a call is repeated that the kernel was too busy for. */
#define PDDI_BUSY_TRIES 64

/* @param mode  UFFDIO_REGISTER_MODE_*. @return 0 or -errno (EBUSY: somebody else's already) */
int pddi_uffd_register(int uffd, void *start, uint64_t npages, uint32_t page, uint64_t mode);
/* Wakes nobody for sure. @return 0 or -errno */
int pddi_uffd_unregister(int uffd, void *start, uint64_t npages, uint32_t page);
/* Let everybody who waits for a page of the range look again. 0 or -errno. */
int pddi_uffd_wake(int uffd, void *start, uint64_t npages, uint32_t page);

/* Protect pages that are there against writing, or end that, waking nobody. 0 or -errno; ending it
 * fails only where nothing is mapped. */
int pddi_uffd_protect(int uffd, void *start, uint64_t npages, uint32_t page, bool on);

/* Move pages away from `from`, waking nobody. @return the number of pages moved, a prefix; or
 * -errno if none: EBUSY pinned or shared with a child, ENOENT nothing there, EAGAIN busy, EEXIST
 * something at `to` */
int pddi_uffd_move(int uffd, void *to, void *from, uint64_t npages, uint32_t page);

/* Put the zero page to places where nothing is, waking nobody. Some may stay empty. */
void pddi_uffd_zero(int uffd, void *start, uint64_t npages, uint32_t page);

/* Copy pages to places where nothing is, waking nobody. @return the number of pages copied, a
 * prefix; or -errno if none: EEXIST something there, ENOENT no such mapping, EAGAIN busy, ENOMEM */
int pddi_uffd_copy(int uffd, void *to, const void *from, uint64_t npages, uint32_t page);

#endif
