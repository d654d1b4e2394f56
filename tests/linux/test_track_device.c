/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track_device.c - what write tracking cannot see, and that it costs savings only: writes
 * through a pin that is older than the scan. The device here is io_uring with a registered buffer,
 * into which the kernel reads a file by its own address of the page (race 8).
 */
#define _GNU_SOURCE 1
#include "whole.h"

#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define N 64u

/* One ring with one registered buffer. */
struct ring {
	int fd;
	struct io_uring_params params;
	unsigned char *sq;
	struct io_uring_sqe *sqes;
};

static bool ring_init(struct ring *ring, void *buffer, size_t length)
{
	struct iovec iovec = { .iov_base = buffer, .iov_len = length };

	memset(ring, 0, sizeof(*ring));
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->params);
	if (ring->fd < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP))
		return false;
	ring->sq = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, 4 * sizeof(*ring->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
			  ring->fd, IORING_OFF_SQES);
	if (ring->sq == MAP_FAILED)
		ring->sq = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
				IORING_OFF_SQ_RING);
	return ring->sq != MAP_FAILED && (void *)ring->sqes != MAP_FAILED &&
	       !syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &iovec, 1);
}

/* Read from a file into the registered buffer, and wait for it. */
static void ring_read(struct ring *ring, int file, void *to, uint32_t length)
{
	_Atomic uint32_t *tail =
		(_Atomic uint32_t *)(void *)(ring->sq + ring->params.sq_off.tail);
	_Atomic uint32_t *head =
		(_Atomic uint32_t *)(void *)(ring->sq + ring->params.cq_off.head);
	uint32_t *array = (uint32_t *)(void *)(ring->sq + ring->params.sq_off.array);
	uint32_t at = atomic_load(tail), seen = atomic_load(head);
	const struct io_uring_cqe *cqes =
		(const struct io_uring_cqe *)(void *)(ring->sq + ring->params.cq_off.cqes);

	ring->sqes[0] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ_FIXED,
		.fd = file,
		.addr = (uintptr_t)to,
		.len = length,
	};
	array[at % ring->params.sq_entries] = 0;
	atomic_store(tail, at + 1);
	assert_int_equal(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL,
				 0),
			 1);
	assert_int_equal(cqes[seen % ring->params.cq_entries].res, length);
	atomic_store(head, seen + 1);
}

static void ring_fini(struct ring *ring)
{
	assert_int_equal(syscall(SYS_io_uring_register, ring->fd, IORING_UNREGISTER_BUFFERS, NULL,
				 0),
			 0);
	close(ring->fd); /* what was mapped of it goes with the process */
}

/* A file whose first page has a content. */
static int file_with(uint64_t content)
{
	static unsigned char page[PAGE] __attribute__((aligned(8)));
	int fd = memfd_create("source", MFD_CLOEXEC);

	fill_page(page, 0, content);
	assert_int_equal(write(fd, page, PAGE), PAGE);
	return fd;
}

/* Until the buffer's turn comes, or somebody writes to it, it is known by what it was. */
static void test_registered_buffer(void **state)
{
	struct pdd_linux *dedup;
	struct pdd_linux_memory *memory;
	unsigned char *m = map_pages(N);
	int file = file_with(77);
	uint64_t sharing = 0, looks;
	struct ring ring;
	size_t i;
	int passes;

	for (i = 0; i < N; i++)
		fill_page(m, i, i + 1);
	fill_page(m, 20, 77);
	if (!ring_init(&ring, m + 10 * PAGE, PAGE)) {
		printf("not run: there is no io_uring here\n");
		skip();
	}
	dedup = create(0);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	run_passes(dedup, 5);
	looks = stats_of(dedup).counts.pages_scanned;
	ring_read(&ring, file, m + 10 * PAGE, PAGE);
	assert_true(has_content(m, 10, 77));
	run_passes(dedup, 3);
	/* The kernel's part of the contract, and why the manual says what it says. */
	assert_int_equal(stats_of(dedup).counts.pages_scanned, looks);
	assert_int_equal(stats_of(dedup).pages_sharing, 0);
	/* Another page of its old content: not a byte of that is shared with it. */
	fill_page(m, 30, 11);
	run_passes(dedup, 4);
	assert_int_equal(stats_of(dedup).pages_sharing, 0);
	assert_true(has_content(m, 10, 77));
	assert_true(has_content(m, 30, 11));
	/* While the buffer is registered its page is not replaced, whatever is known of it. */
	for (passes = 0; passes < 300; passes++)
		run_passes(dedup, 1);
	assert_int_equal(stats_of(dedup).pages_sharing, 0);
	ring_read(&ring, file, m + 10 * PAGE, PAGE);
	assert_true(has_content(m, 10, 77));
	ring_fini(&ring);
	for (passes = 0; passes < 300 && !sharing; passes++) {
		run_passes(dedup, 1);
		sharing = stats_of(dedup).pages_sharing;
	}
	printf("shared after %d passes\n", passes);
	assert_int_equal(sharing, 1);
	assert_true(has_content(m, 10, 77));
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
	close(file);
}

/* Under the promise there are no turns: unpinning is what tells that the page may have changed. */
static void test_pinned_buffer(void **state)
{
	struct pdd_linux *dedup = create(PDD_LINUX_NO_DEVICE_WRITES);
	struct pdd_linux_memory *memory;
	unsigned char *m = map_pages(N);
	int file = file_with(77);
	struct ring ring;
	size_t i;

	for (i = 0; i < N; i++)
		fill_page(m, i, i + 1);
	fill_page(m, 20, 77);
	assert_int_equal(pdd_linux_add(dedup, &memory, 0, m, N * PAGE), 0);
	run_passes(dedup, 5);
	assert_int_equal(pdd_linux_pin(dedup, memory, m + 10 * PAGE, PAGE), 0);
	if (!ring_init(&ring, m + 10 * PAGE, PAGE)) {
		printf("not run: there is no io_uring here\n");
		skip();
	}
	run_passes(dedup, 5);
	ring_read(&ring, file, m + 10 * PAGE, PAGE);
	run_passes(dedup, 5);
	assert_int_equal(stats_of(dedup).pages_sharing, 0);
	ring_fini(&ring);
	assert_int_equal(pdd_linux_unpin(dedup, memory, m + 10 * PAGE, PAGE), 0);
	run_passes(dedup, 5);
	assert_int_equal(stats_of(dedup).pages_sharing, 1);
	assert_true(has_content(m, 10, 77));
	pdd_linux_destroy(dedup);
	munmap(m, N * PAGE);
	close(file);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registered_buffer),
		cmocka_unit_test(test_pinned_buffer),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
