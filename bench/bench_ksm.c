/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_ksm --dataset unique|mirror|guests [--mib M] [--fill counter|random] [--rounds N]
 *           [--no-idle] [--json] [IMAGE...]
 *
 * The kernel's page merging (ksmd) and this library on the same memory, by turns, each time in a
 * process of its own; medians of N rounds (5).
 *
 *	unique  M MiB (1024) of pages that are all different. CPU and wall time are those of one
 *	        pass, the mean of the second to the fourth
 *	mirror  M MiB (256), the second half of which mirrors the first. Time until all is merged.
 *	        The library needs a mapping for each page then: vm.max_map_count is raised for that
 *	guests  the IMAGEs of guests' memory; if none is given build/guests/guest-{1..4}.ram of the
 *	        current folder or one above it. Time until all is merged
 *
 * Every pass looks at every page (smart_scan 0; no aging, no write tracking), both sides merge a
 * page at the second look at the earliest, use the zero page, and let 256 pages share a frame. When
 * all is merged is told by the counters, by the same code for both: ksm_passes.h. Saved pages are
 * pages_sharing + ksm_zero_pages. CPU of ksmd is that of its kernel thread; CPU of the library that
 * of the whole process, setting up and system time included. cpu_ratio is ksmd_cpu_s / ours_cpu_s;
 * its least and greatest value in a round tell how noisy that is.
 *
 * Idle, with what both have by default (smart_scan 1; aging and tracking): CPU time per page and
 * pass, nothing being written, in the 18 scans after 24 by ksmd, whose age lets each page be looked
 * at in one scan of 9, and in the 256 passes after 80 by the library. --no-idle leaves it out.
 *
 * At the end of each measurement all pages must read as they were filled.
 *
 * Needs root, and a kernel whose KSM nobody else uses. All settings are restored at the end, after
 * an error and after SIGINT, SIGTERM, SIGHUP or SIGQUIT. SIGKILL cannot be caught: after it they
 * stay as they were set (/sys/kernel/mm/ksm/, vm.max_map_count).
 *
 * Exit status: 0; 1 after an error, or if contents differ; 2 usage; 77 if it cannot be measured
 * here; 128 + the signal's number.
 */
#define _DEFAULT_SOURCE

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/ksm_options.h"
#include "support/ksm_report.h"
#include "support/ksm_settings.h"
#include "support/ksmd.h"

#define SKIP 77

static struct ksm_series of_side[2];

static int skip(const char *why)
{
	ksm_complain("%s", why);
	return SKIP;
}

/* --- the host --- */

/* The images that examples/demo.sh makes, of the current folder or one above it. */
static int find_images(struct ksm_source *source)
{
	static char paths[4][128];
	static const char *images[4];
	char up[64] = "";

	for (unsigned level = 0; level < 8; level++) {
		unsigned n = 0;

		for (unsigned i = 0; i < 4; i++) {
			snprintf(paths[i], sizeof(paths[i]), "%sbuild/guests/guest-%u.ram", up,
				 i + 1);
			images[i] = paths[i];
			n += !access(paths[i], R_OK);
		}
		if (n == 4) {
			source->images = images;
			source->nimages = 4;
			return 0;
		}
		strcat(up, "../");
	}
	return skip("no images build/guests/guest-{1..4}.ram: examples/make-guests.sh -n 4 -m 256 "
		    "build/guests (or examples/demo.sh) makes them");
}

static uint64_t available_bytes(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib = UINT64_MAX / 1024;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

/* 0, or the exit status. Changes nothing. */
static int check_host(struct ksm_source *source)
{
	const char *why;

	if (source->dataset == KSM_GUESTS && !source->nimages && find_images(source))
		return SKIP;
	if (ksm_source_size(source))
		return 1;
	/* And an eighth for what is known of the pages. */
	if (source->npages > available_bytes() / KSM_PAGE_BYTES / 9 * 8)
		return skip("not enough memory is available");
	why = ksmd_unusable();
	return why ? skip(why) : 0;
}

/* The library takes up to 15/16 of the limit, so it gets twice what it needs. 0, or the exit
 * status. */
static int raise_mappings(const struct ksm_source *source)
{
	uint64_t want = 2 * (source->npages + 4096);
	char value[32];

	if (source->dataset != KSM_MIRROR || ksm_settings_saved(KSM_MAX_MAP_COUNT) >= want)
		return 0;
	snprintf(value, sizeof(value), "%" PRIu64, want);
	if (!ksm_settings_has(KSM_MAX_MAP_COUNT) || ksm_settings_set(KSM_MAX_MAP_COUNT, value))
		return skip("vm.max_map_count cannot be raised, and mirrored pages need a mapping "
			    "each");
	return 0;
}

/* --- measuring --- */

static int measure(struct ksm_figures *figures, double *mappings, const struct ksm_options *o,
		   enum ksm_side side, enum ksm_task task)
{
	struct ksm_result result;

	if (ksm_side_measure(&result, side, task, &o->source))
		return -1;
	if (result.differing)
		return ksm_complain("%" PRIu64 " pages do not read as they were filled, after %s",
				    result.differing,
				    side == KSM_SIDE_KSMD ? "ksmd" : "the library");
	*figures = result.figures;
	*mappings = (double)result.mappings;
	return 0;
}

static int measure_side(const struct ksm_options *o, enum ksm_side side, unsigned round)
{
	struct ksm_series *s = &of_side[side];
	enum ksm_task task = o->source.dataset == KSM_UNIQUE ? KSM_TASK_PER_PASS
							      : KSM_TASK_UNTIL_MERGED;
	struct ksm_figures f;

	if (measure(&f, &s->mappings[round], o, side, task))
		return -1;
	s->cpu_s[round] = f.cpu_s;
	s->wall_s[round] = f.wall_s;
	s->saved[round] = (double)(f.sharing + f.zero);
	s->shared[round] = (double)f.shared;
	s->zero[round] = (double)f.zero;
	s->passes[round] = (double)f.passes;
	s->looks[round] = f.looks_per_page;
	return 0;
}

static int measure_idle(const struct ksm_options *o, enum ksm_side side, unsigned round)
{
	struct ksm_series *s = &of_side[side];
	double mappings;
	struct ksm_figures f;

	if (measure(&f, &mappings, o, side, KSM_TASK_IDLE))
		return -1;
	s->idle_ns[round] = f.cpu_s * 1e9 / (double)o->source.npages;
	s->idle_looks[round] = f.looks_per_page;
	return 0;
}

static int measure_rounds(const struct ksm_options *o)
{
	for (unsigned round = 0; round < o->rounds; round++) {
		if (measure_side(o, KSM_SIDE_KSMD, round) || measure_side(o, KSM_SIDE_OURS, round))
			return -1;
		if (!o->no_idle && (measure_idle(o, KSM_SIDE_KSMD, round) ||
				    measure_idle(o, KSM_SIDE_OURS, round)))
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct ksm_options options;
	int ret = ksm_options_read(&options, argc, argv), restored;

	if (ret >= 0)
		return ret;
	ret = check_host(&options.source);
	if (ret)
		return ret;
	ksm_catch_signals();
	ksm_settings_save();
	ret = raise_mappings(&options.source);
	if (!ret && measure_rounds(&options))
		ret = 1;
	restored = ksm_settings_restore();
	if (ksm_signal)
		return restored ? 1 : 128 + ksm_signal;
	if (!ret && !restored)
		ksm_report(&options, of_side);
	return ret ? ret : restored || fflush(stdout) ? 1 : 0;
}
