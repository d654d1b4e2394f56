/* SPDX-License-Identifier: BSD-2-Clause */
/* Two buffers with equal content share their memory until one of them is written. */
#define _DEFAULT_SOURCE
#include <pagededup/linux/dedup.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 1 << 20 };

static unsigned char *buffer(void) /* of numbers: each of its pages is different */
{
	unsigned *words = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

	for (unsigned i = 0; i < LENGTH / sizeof(*words); i++)
		words[i] = i;
	return (unsigned char *)words;
}

int main(void)
{
	struct pdd_linux_options options = { .size = sizeof(options),
					     .flags = PDD_LINUX_NO_DEVICE_WRITES };
	struct pdd_stats stats = { .size = sizeof(stats) };
	unsigned char *a = buffer(), *b = buffer();
	struct pdd_linux_memory *memory;
	struct pdd_linux *dedup;

	if (pdd_linux_create(&dedup, &options) || pdd_linux_add(dedup, &memory, 0, a, LENGTH) ||
	    pdd_linux_add(dedup, &memory, 0, b, LENGTH))
		return 1;
	for (int passes = 0; passes < 2;) /* one look to see a page, one to merge it */
		passes += pdd_linux_step(dedup, 1024, 0) == PDD_STEP_PASS;
	pdd_linux_stats(dedup, &stats);
	printf("%" PRIu64 " pages share %" PRIu64 " frames\n", stats.counts.ksm_merging_pages,
	       stats.pages_shared);
	b[5000] ^= 1; /* an ordinary write: only this page gets memory of its own again */
	pdd_linux_destroy(dedup); /* all pages are private again */
	return stats.pages_shared && memcmp(a, b, 5000) == 0 && a[5000] != b[5000] ? 0 : 1;
}
