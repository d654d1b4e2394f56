/* SPDX-License-Identifier: BSD-2-Clause */
/* huge_memory.c - see huge_memory.h. */
#define _GNU_SOURCE

#include "huge_memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE ((size_t)2 << 20)
#define SMALL 4096u

static size_t rounded(size_t nbytes)
{
	return (nbytes + HUGE - 1) / HUGE * HUGE;
}

void *huge_alloc(size_t nbytes)
{
	size_t size = rounded(nbytes), before;
	unsigned char *memory = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		fprintf(stderr, "no memory for %zu MiB\n", size >> 20);
		exit(1);
	}
	before = (HUGE - (uintptr_t)memory % HUGE) % HUGE;
	if (before)
		munmap(memory, before);
	munmap(memory + before + size, HUGE - before);
	memory += before;
	(void)madvise(memory, size, MADV_HUGEPAGE); /* else they are small ones for everybody */
	for (size_t i = 0; i < size; i += SMALL)
		((volatile unsigned char *)memory)[i] = 0;
	return memory;
}

void huge_free(void *memory, size_t nbytes)
{
	if (memory)
		munmap(memory, rounded(nbytes));
}
