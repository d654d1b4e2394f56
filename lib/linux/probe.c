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
 *  4. Writes are tracked only where pages can be moved by the same userfaultfd (hold.c says why).
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

/* A userfaultfd with all of `features` that the kernel knows; -1 if there is none.
 * @param known  out: all that it knows */
static int open_uffd_api(uint64_t features, uint64_t *known)
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
	*known = api.features;
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

/* What ends a hold: pages go back as copies, or become zero; nobody is left waiting. The page behind
 * this one has a content. */
static bool try_ends(int uffd, unsigned char *page, size_t page_size)
{
	struct uffdio_range range = { .start = (uintptr_t)page, .len = page_size };
	struct uffdio_zeropage zero = { .range = range, .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE };
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page,
		.src = (uintptr_t)page + page_size,
		.len = page_size,
		.mode = UFFDIO_COPY_MODE_DONTWAKE,
	};

	return !madvise(page, page_size, MADV_DONTNEED) && !ioctl(uffd, UFFDIO_COPY, &copy) &&
	       page[0] == 2 && !madvise(page, page_size, MADV_DONTNEED) &&
	       !ioctl(uffd, UFFDIO_ZEROPAGE, &zero) && page[0] == 0 &&
	       !ioctl(uffd, UFFDIO_WAKE, &range) && !ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

/* UFFDIO_MOVE of one page, there and back, as hold.c does it. @param mode  with MISSING */
static bool try_move(int uffd, size_t page_size, uint64_t mode)
{
	unsigned char *pages = pddi_pages_alloc(2 * page_size);
	struct uffdio_move move = { .len = page_size, .mode = UFFDIO_MOVE_MODE_DONTWAKE };
	bool works = false;

	if (!pages)
		return false;
	pages[0] = 1;
	if (do_register(uffd, pages, page_size, UFFDIO_REGISTER_MODE_MISSING | mode) &&
	    do_register(uffd, pages + page_size, page_size, UFFDIO_REGISTER_MODE_WP)) {
		move.src = (uintptr_t)pages;
		move.dst = (uintptr_t)(pages + page_size);
		works = ioctl(uffd, UFFDIO_MOVE, &move) == 0 && pages[page_size] == 1;
		if (works) {
			move.dst = (uintptr_t)pages;
			move.src = (uintptr_t)(pages + page_size);
			works = ioctl(uffd, UFFDIO_MOVE, &move) == 0 && pages[0] == 1;
			pages[page_size] = 2;
			works = works && try_ends(uffd, pages, page_size);
		}
	}
	pddi_pages_free(pages, 2 * page_size);
	return works;
}

/* Write protection of a page that is there: on, off. */
static bool try_protect(const struct pddi_probe *probe, unsigned char *page, size_t page_size)
{
	int uffd = probe->uffd;
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

/* A private page of a memfd; NULL if there is none. */
static unsigned char *map_memfd_page(size_t page_size)
{
	void *map = MAP_FAILED;
	int fd = memfd_create("pagededup-probe", MFD_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, (off_t)page_size))
		map = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/* Whether something works on an anonymous page and on a private one of a memfd. */
static bool try_both(bool (*try)(const struct pddi_probe *, unsigned char *, size_t),
		     const struct pddi_probe *probe, size_t page_size)
{
	unsigned char *page = pddi_pages_alloc(page_size);
	bool works = page && try(probe, page, page_size);

	pddi_pages_free(page, page_size);
	page = works ? map_memfd_page(page_size) : NULL;
	works = page && try(probe, page, page_size);
	pddi_pages_free(page, page_size);
	return works;
}

/* Whether a page counts as written: 1, 0, or -1 if that cannot be asked. It is protected then. */
static int ask_written(int pagemap_fd, unsigned char *page, size_t page_size)
{
	struct page_region region;
	struct pm_scan_arg scan = {
		.size = sizeof(scan),
		.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
		.start = (uintptr_t)page,
		.end = (uintptr_t)page + page_size,
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.category_mask = PAGE_IS_WRITTEN,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.return_mask = PAGE_IS_WRITTEN,
	};

	return (int)ioctl(pagemap_fd, PAGEMAP_SCAN, &scan);
}

/* Writes are told, once each, and do not wait. */
static bool try_track(const struct pddi_probe *probe, unsigned char *page, size_t page_size)
{
	int fd = probe->pagemap_fd;
	bool works;

	page[0] = 1;
	works = do_register(probe->track_uffd, page, page_size, UFFDIO_REGISTER_MODE_WP) &&
		ask_written(fd, page, page_size) == 1 && ask_written(fd, page, page_size) == 0;
	if (works)
		page[0] = 2; /* does not wait, or the scan would have refused */
	return works && ask_written(fd, page, page_size) == 1;
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
			     /* safe with threads in glibc (2.32) and musl */
			     strerror(uffd_errno)); /* NOLINT(concurrency-mt-unsafe) */
	else if (!have->move && !have->write_protect)
		n = snprintf(text, room, "UFFDIO_MOVE and write protection: nothing can be held, "
					 "so nothing is merged\n");
	else if (!have->move)
		n = snprintf(text, room, "UFFDIO_MOVE: pins are not seen, so nothing is merged "
					 "without PDD_LINUX_NO_DEVICE_WRITES\n");
	else if (!have->write_protect)
		n = snprintf(text, room, "write protection of memfd pages: a page that was shared "
					 "and then written is not merged again\n");
	if (have->userfaultfd && probe->pagemap_fd >= 0 && !have->track_writes)
		n += snprintf(text + n, room - (size_t)n,
			      "asynchronous write protection: writes are not tracked, so every "
			      "page is read again at its age\n");
	if (probe->pagemap_fd < 0)
		snprintf(text + n, room - (size_t)n, "/proc/self/pagemap: what stands at a page is "
						     "unknown, so nothing is merged\n");
	else if (!have->pagemap_scan)
		snprintf(text + n, room - (size_t)n, "PAGEMAP_SCAN: /proc/self/pagemap is read; "
						     "the zero page looks like any other\n");
	probe->facilities.missing = text;
}

/* After all the rest. Pages are moved by what tracks, so it has to do both (6.8). */
static void probe_tracking(struct pddi_probe *probe, size_t page_size, uint64_t known)
{
	struct pdd_linux_facilities *have = &probe->facilities;
	const uint64_t features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
				  UFFD_FEATURE_MOVE;

	if (!have->pagemap_scan || !have->move || !(known & UFFD_FEATURE_WP_ASYNC))
		return;
	probe->track_uffd = pddi_fd_above_stdio(open_uffd_api(features, &known));
	have->track_writes = probe->track_uffd >= 0 && try_both(try_track, probe, page_size) &&
			     try_move(probe->track_uffd, page_size, UFFDIO_REGISTER_MODE_WP);
	if (!have->track_writes)
		pddi_probe_untrack(probe);
}

void pddi_probe_untrack(struct pddi_probe *probe)
{
	if (probe->track_uffd >= 0)
		close(probe->track_uffd);
	probe->track_uffd = -1;
	probe->facilities.track_writes = false;
}

void pddi_probe_init(struct pddi_probe *probe)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t known = 0;
	int uffd_errno = 0;

	memset(probe, 0, sizeof(*probe));
	probe->track_uffd = -1;
	errno = 0;
	probe->uffd = open_uffd_api(UFFD_FEATURE_PAGEFAULT_FLAG_WP |
				    UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_MOVE,
				    &known);
	uffd_errno = errno;
	probe->uffd = pddi_fd_above_stdio(probe->uffd);
	probe->pagemap_fd = pddi_fd_above_stdio(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
	if (probe->uffd >= 0) {
		probe->facilities.userfaultfd = true;
		probe->facilities.move = try_move(probe->uffd, page_size, 0);
		probe->facilities.write_protect = try_both(try_protect, probe, page_size);
	}
	if (probe->pagemap_fd >= 0)
		probe->facilities.pagemap_scan = try_pagemap_scan(probe->pagemap_fd, page_size);
	probe_tracking(probe, page_size, known);
	describe(probe, uffd_errno);
}

void pddi_probe_fini(struct pddi_probe *probe)
{
	pddi_probe_untrack(probe);
	if (probe->uffd >= 0)
		close(probe->uffd);
	if (probe->pagemap_fd >= 0)
		close(probe->pagemap_fd);
	probe->uffd = probe->pagemap_fd = -1;
}
