/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe.c - find out once what the kernel can do, by doing it on scratch pages.
 *
 * Invariants
 *  1. A facility is reported if and only if the very call was tried in this process and worked: a
 *     version or a feature bit may lie (seccomp, backports, configurations).
 *  2. The userfaultfd serves accesses by the kernel. One that does not (UFFD_USER_MODE_ONLY, all
 *     that unprivileged processes get by the system call) would turn a read(2) into a held page
 *     into EFAULT, which is an error that the program never had; so it is not used at all.
 *  3. Nothing of the scratch pages stays registered or mapped.
 *
 * Hard case: UFFDIO_API can be called only once on a descriptor and refuses unknown features, and
 * only a successful call tells which are known. So one descriptor is opened to ask and another to
 * be used.
 *
 * Locking: none; called before the deduplicator is known to anybody.
 */
#define _GNU_SOURCE 1
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bitmap.h"
#include "fd.h"
#include "uapi.h"

static int open_uffd(void)
{
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int device;

	if (uffd >= 0)
		return uffd;
	device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return -1;
	uffd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	close(device);
	return uffd;
}

/* A userfaultfd with all of `features` that the kernel knows; -1 if there is none. */
static int open_uffd_api(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API };
	int uffd = open_uffd();

	if (uffd < 0)
		return -1;
	if (ioctl(uffd, UFFDIO_API, &api)) {
		close(uffd);
		return -1;
	}
	close(uffd);
	features &= api.features;
	uffd = open_uffd();
	if (uffd < 0)
		return -1;
	memset(&api, 0, sizeof(api));
	api.api = UFFD_API;
	api.features = features;
	if (ioctl(uffd, UFFDIO_API, &api)) {
		close(uffd);
		return -1;
	}
	return uffd;
}

static bool do_register(int uffd, void *start, size_t length, uint64_t mode)
{
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)start, .len = length },
		.mode = mode,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) == 0;
}

/* UFFDIO_MOVE of one page, there and back, as hold.c does it. */
static bool try_move(int uffd, size_t page_size)
{
	unsigned char *pages = pddi_pages_alloc(2 * page_size);
	struct uffdio_move move = { .len = page_size, .mode = UFFDIO_MOVE_MODE_DONTWAKE };
	bool works = false;

	if (!pages)
		return false;
	pages[0] = 1;
	if (do_register(uffd, pages, page_size, UFFDIO_REGISTER_MODE_MISSING) &&
	    do_register(uffd, pages + page_size, page_size, UFFDIO_REGISTER_MODE_WP)) {
		move.src = (uintptr_t)pages;
		move.dst = (uintptr_t)(pages + page_size);
		works = ioctl(uffd, UFFDIO_MOVE, &move) == 0 && pages[page_size] == 1;
		if (works) {
			move.dst = (uintptr_t)pages;
			move.src = (uintptr_t)(pages + page_size);
			works = ioctl(uffd, UFFDIO_MOVE, &move) == 0 && pages[0] == 1;
		}
	}
	pddi_pages_free(pages, 2 * page_size);
	return works;
}

/* Write protection of a page that is there: on, off. */
static bool try_protect(int uffd, unsigned char *page, size_t page_size)
{
	struct uffdio_writeprotect protect = {
		.range = { .start = (uintptr_t)page, .len = page_size },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	page[0] = 1;
	if (!do_register(uffd, page, page_size, UFFDIO_REGISTER_MODE_WP) ||
	    ioctl(uffd, UFFDIO_WRITEPROTECT, &protect))
		return false;
	protect.mode = 0;
	return ioctl(uffd, UFFDIO_WRITEPROTECT, &protect) == 0;
}

static bool try_write_protect(int uffd, size_t page_size)
{
	unsigned char *page = pddi_pages_alloc(page_size);
	bool works;
	int fd;

	if (!page)
		return false;
	works = try_protect(uffd, page, page_size);
	pddi_pages_free(page, page_size);
	if (!works)
		return false;

	fd = memfd_create("pagededup-probe", MFD_CLOEXEC);
	if (fd < 0)
		return false;
	works = false;
	if (!ftruncate(fd, (off_t)page_size)) {
		void *map = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (map != MAP_FAILED) {
			works = try_protect(uffd, map, page_size);
			munmap(map, page_size);
		}
	}
	close(fd);
	return works;
}

static bool try_pagemap_scan(int fd, size_t page_size)
{
	unsigned char *page = pddi_pages_alloc(page_size);
	struct page_region region;
	struct pm_scan_arg scan = {
		.size = sizeof(scan),
		.start = (uintptr_t)page,
		.end = (uintptr_t)page + page_size,
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.return_mask = PAGE_IS_PRESENT | PAGE_IS_FILE | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO |
			       PAGE_IS_WRITTEN,
	};
	bool works;

	if (!page)
		return false;
	memset(&region, 0, sizeof(region));
	page[0] = 1;
	works = ioctl(fd, PAGEMAP_SCAN, &scan) == 1 && region.start == (uintptr_t)page &&
		region.categories & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED);
	pddi_pages_free(page, page_size);
	return works;
}

/* What is missing, and what follows from it, one line each. */
static void describe(struct pddi_probe *probe, int uffd_errno)
{
	const struct pdd_linux_facilities *have = &probe->facilities;
	char *text = probe->missing;
	size_t room = sizeof(probe->missing);
	int n = 0;

	if (!have->userfaultfd)
		n = snprintf(text, room,
			     "userfaultfd for accesses by the kernel: %s (a privilege, "
			     "vm.unprivileged_userfaultfd=1 or access to /dev/userfaultfd is "
			     "needed): nothing can be held, so nothing is merged\n",
			     strerror(uffd_errno));
	else if (!have->move && !have->write_protect)
		n = snprintf(text, room, "UFFDIO_MOVE and write protection: nothing can be held, "
					 "so nothing is merged\n");
	else if (!have->move)
		n = snprintf(text, room, "UFFDIO_MOVE: pins are not seen, so nothing is merged "
					 "without PDD_LINUX_NO_DEVICE_WRITES\n");
	else if (!have->write_protect)
		n = snprintf(text, room, "write protection of memfd pages: a page that was shared "
					 "and then written is not merged again\n");
	if (probe->pagemap_fd < 0)
		snprintf(text + n, room - (size_t)n, "/proc/self/pagemap: what stands at a page is "
						     "unknown, so nothing is merged\n");
	else if (!have->pagemap_scan)
		snprintf(text + n, room - (size_t)n, "PAGEMAP_SCAN: /proc/self/pagemap is read; "
						     "the zero page looks like any other\n");
	probe->facilities.missing = text;
}

void pddi_probe_init(struct pddi_probe *probe)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	int uffd_errno = 0;

	memset(probe, 0, sizeof(*probe));
	errno = 0;
	probe->uffd = open_uffd_api(UFFD_FEATURE_PAGEFAULT_FLAG_WP |
				    UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_MOVE);
	uffd_errno = errno;
	probe->uffd = pddi_fd_above_stdio(probe->uffd);
	probe->pagemap_fd = pddi_fd_above_stdio(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
	if (probe->uffd >= 0) {
		probe->facilities.userfaultfd = true;
		probe->facilities.move = try_move(probe->uffd, page_size);
		probe->facilities.write_protect = try_write_protect(probe->uffd, page_size);
	}
	if (probe->pagemap_fd >= 0)
		probe->facilities.pagemap_scan = try_pagemap_scan(probe->pagemap_fd, page_size);
	describe(probe, uffd_errno);
}

void pddi_probe_fini(struct pddi_probe *probe)
{
	if (probe->uffd >= 0)
		close(probe->uffd);
	if (probe->pagemap_fd >= 0)
		close(probe->pagemap_fd);
	probe->uffd = probe->pagemap_fd = -1;
}
