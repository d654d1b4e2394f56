/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.c - the command line of guest-dedup.
 */
#define _GNU_SOURCE

#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
	"usage: guest-dedup [OPTION]... IMAGE...\n"
	"Load raw RAM images of guests, share their equal pages, verify every byte, say what it saved.\n"
	"\n"
	"  --writers N            N threads increment counters in pages of all guests meanwhile\n"
	"  --seconds S            stop scanning after S seconds (with writers 10 by default)\n"
	"  --passes P             stop scanning after P passes\n"
	"  --domain-per-guest     each guest is a trust domain of its own: nothing is shared between\n"
	"                         guests\n"
	"  --max-page-sharing L   at most L pages share a frame (2 or more, default 256)\n"
	"  --json                 print one JSON object instead of a table\n"
	"  --progress             show progress on stderr even if it is no terminal\n"
	"\n"
	"Scanning ends by itself when a pass merged nothing and nothing is due. ^C ends it too: the\n"
	"guests are then verified, and what came of it is printed.\n"
	"Exit status: 0 if no page differs from its image and no increment was lost, 1 if one does,\n"
	"2 if an option or an image is bad.\n";

/* A decimal number in [min, max]; false after a message. */
static bool number(uint64_t *value, const char *name, const char *text, uint64_t min, uint64_t max)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *value >= min &&
	    *value <= max)
		return true;
	fprintf(stderr, "guest-dedup: --%s: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n",
		name, text, min, max);
	return false;
}

int options_read(struct options *options, int argc, char **argv)
{
	enum { WRITERS = 1, SECONDS, PASSES, DOMAIN, LIMIT, JSON, PROGRESS, HELP };
	static const struct option names[] = {
		{ "writers", required_argument, NULL, WRITERS },
		{ "seconds", required_argument, NULL, SECONDS },
		{ "passes", required_argument, NULL, PASSES },
		{ "domain-per-guest", no_argument, NULL, DOMAIN },
		{ "max-page-sharing", required_argument, NULL, LIMIT },
		{ "json", no_argument, NULL, JSON },
		{ "progress", no_argument, NULL, PROGRESS },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	uint64_t value = 0;
	bool ok = true;
	int option, index = 0;

	*options = (struct options){ 0 };
	while (ok && (option = getopt_long(argc, argv, "", names, &index)) != -1) {
		const char *name = names[index].name;

		switch (option) {
		case WRITERS:
			ok = number(&value, name, optarg, 0, 1024);
			options->writers = (uint32_t)value;
			break;
		case SECONDS: ok = number(&options->seconds, name, optarg, 1, 1000000); break;
		case PASSES: ok = number(&options->passes, name, optarg, 1, UINT64_MAX); break;
		case DOMAIN: options->domain_per_guest = true; break;
		case LIMIT:
			ok = number(&value, name, optarg, 2, UINT32_MAX);
			options->max_page_sharing = (uint32_t)value;
			break;
		case JSON: options->json = true; break;
		case PROGRESS: options->progress = true; break;
		case HELP: fputs(usage, stdout); return 0;
		default: return 2; /* getopt has said why */
		}
	}
	if (!ok)
		return 2;
	options->images = argv + optind;
	options->nimages = (uint32_t)(argc - optind);
	if (options->nimages == 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (options->writers && !options->seconds && !options->passes)
		options->seconds = 10;
	return -1;
}
