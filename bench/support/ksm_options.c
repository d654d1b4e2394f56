/* SPDX-License-Identifier: BSD-2-Clause */
/* ksm_options.c - see ksm_options.h. */
#include "ksm_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ksm_settings.h"

#define MIB_MAX (UINT64_C(1) << 20)
#define MIB_PAGES 256u
#define USAGE 2

static const char usage_text[] =
	"usage: bench_ksm --dataset unique|mirror|guests [--mib M] [--fill counter|random]\n"
	"                 [--rounds N] [--no-idle] [--json] [IMAGE...]\n"
	"\n"
	"Measures the kernel's ksmd and this library on the same memory, by turns.\n"
	"  --dataset D  unique: all pages differ; mirror: the second half mirrors the first;\n"
	"               guests: images of memory, build/guests/guest-{1..4}.ram by default\n"
	"  --mib M      of unique (1024) and mirror (256)\n"
	"  --fill F     their pages: a number and zeros (counter, the default), or random words\n"
	"  --rounds N   1 to 99 (5); medians are reported\n"
	"  --no-idle    do not measure passes over memory at rest\n"
	"  --json       one line of JSON\n"
	"Needs root; changes /sys/kernel/mm/ksm and vm.max_map_count, and restores them.\n";

const char *const ksm_dataset_names[3] = { "unique", "mirror", "guests" };

static int usage(const char *why)
{
	ksm_complain("%s", why);
	fputs(usage_text, stderr);
	return USAGE;
}

/* A whole number from 1 to max; 0 if it is not one. */
static uint64_t number(const char *text, uint64_t max)
{
	char *end;
	unsigned long long value;

	if (text[0] < '0' || text[0] > '9')
		return 0;
	value = strtoull(text, &end, 10);
	return *end || value > max ? 0 : value;
}

static int dataset_read(struct ksm_options *o, const char *name)
{
	for (unsigned i = 0; i < 3; i++) {
		if (strcmp(name, ksm_dataset_names[i]))
			continue;
		o->source.dataset = (enum ksm_dataset)i;
		o->has_dataset = true;
		return 0;
	}
	return usage("--dataset is unique, mirror or guests");
}

/* An option that takes a value. 0 or USAGE. */
static int option_read(struct ksm_options *o, const char *name, const char *value)
{
	if (!strcmp(name, "--dataset"))
		return dataset_read(o, value);
	if (!strcmp(name, "--mib")) {
		o->mib = number(value, MIB_MAX);
		return o->mib ? 0 : usage("--mib is 1 to 1048576");
	}
	if (!strcmp(name, "--rounds")) {
		o->rounds = (unsigned)number(value, KSM_ROUNDS_MAX);
		return o->rounds ? 0 : usage("--rounds is 1 to 99");
	}
	if (strcmp(name, "--fill"))
		return usage("no such option");
	o->source.random = !strcmp(value, "random");
	return o->source.random || !strcmp(value, "counter")
		? 0 : usage("--fill is counter or random");
}

static int options_check(struct ksm_options *o)
{
	bool guests = o->source.dataset == KSM_GUESTS;

	if (!o->has_dataset)
		return usage("--dataset is missing");
	if (guests && (o->mib || o->source.random))
		return usage("--mib and --fill are not of guests");
	if (!guests && o->source.nimages)
		return usage("images are of guests only");
	if (o->source.nimages > KSM_PARTS_MAX)
		return usage("too many images");
	if (!o->mib)
		o->mib = o->source.dataset == KSM_UNIQUE ? 1024 : 256;
	if (!guests)
		o->source.npages = o->mib * MIB_PAGES;
	return 0;
}

int ksm_options_read(struct ksm_options *o, int argc, char **argv)
{
	int at = 1, ret;

	o->rounds = 5;
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--help"))
			return fputs(usage_text, stdout) < 0;
		if (!strcmp(argv[at], "--json")) {
			o->json = true;
		} else if (!strcmp(argv[at], "--no-idle")) {
			o->no_idle = true;
		} else if (at + 1 == argc) {
			return usage("no such option, or its value is missing");
		} else {
			ret = option_read(o, argv[at], argv[at + 1]);
			if (ret)
				return ret;
			at++;
		}
	}
	o->source.images = (const char *const *)&argv[at];
	o->source.nimages = (unsigned)(argc - at);
	ret = options_check(o);
	return ret ? ret : -1;
}
