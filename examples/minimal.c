/* SPDX-License-Identifier: BSD-2-Clause */
/* Two buffers with equal content share their memory until one of them is written. */
#define _DEFAULT_SOURCE
#include <pagededup/linux/dedup.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 1 << 20 };

static unsigned char *buffer(void) /* filled with numbers, each of its pages different */
{
	unsigned *words = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < LENGTH / sizeof(*words); i++)
		words[i] = i;
	return (unsigned char *)words;
}

int main(void)
{
	unsigned char *a = buffer(), *b = buffer();
	struct pdd_linux_options options = { .size = sizeof(options),
					     .flags = PDD_LINUX_NO_DEVICE_WRITES };
	struct pdd_stats stats = { .size = sizeof(stats) };
	struct pdd_linux_memory *handle;
	struct pdd_linux *dedup;

	if (pdd_linux_create(&dedup, &options) != 0)
		return 1;
	if (pdd_linux_add(dedup, &handle, 0, a, LENGTH) != 0 ||
	    pdd_linux_add(dedup, &handle, 0, b, LENGTH) != 0)
		return 1;
	for (int passes = 0; passes < 2;) /* one look to see a page, one to merge it */
		passes += pdd_linux_step(dedup, 1024, 0) == PDD_STEP_PASS;
	b[5000] ^= 1; /* an ordinary write: only this page gets memory of its own */
	pdd_linux_stats(dedup, &stats);
	printf("%llu pages share %llu frames; contents are right: %s\n",
	       (unsigned long long)stats.counts.ksm_merging_pages,
	       (unsigned long long)stats.pages_shared,
	       memcmp(a, b, 5000) == 0 && a[5000] != b[5000] ? "yes" : "no");
	pdd_linux_destroy(dedup); /* all pages are private again */
	return 0;
}
