/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_probe.c - what is reported works, what is missing has a text, and nothing is left behind.
 */
#define _GNU_SOURCE 1
#include "rig.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void test_leaves_nothing(void **state)
{
	struct pddi_probe probe;
	uint64_t before, after;
	int files = open_files();

	pddi_probe_init(&probe); /* once, so that what libc maps is there */
	pddi_probe_fini(&probe);
	assert_int_equal(pddi_mappings_count(&before), 0);
	pddi_probe_init(&probe);
	pddi_probe_fini(&probe);
	assert_int_equal(pddi_mappings_count(&after), 0);
	assert_int_equal(before, after);
	assert_int_equal(open_files(), files);
}

static void test_text_matches(void **state)
{
	struct pddi_probe probe;
	const struct pdd_linux_facilities *have = &probe.facilities;

	pddi_probe_init(&probe);
	printf("userfaultfd %d, move %d, write protection %d, PAGEMAP_SCAN %d, tracking %d\n%s",
	       have->userfaultfd, have->move, have->write_protect, have->pagemap_scan,
	       have->track_writes, have->missing);
	assert_ptr_equal(have->missing, probe.missing);
	if (have->userfaultfd && have->move && have->write_protect && have->pagemap_scan &&
	    have->track_writes)
		assert_string_equal(have->missing, "");
	else
		assert_string_not_equal(have->missing, "");
	assert_int_equal(have->userfaultfd, probe.uffd >= 0);
	assert_int_equal(have->track_writes, probe.track_uffd >= 0);
	assert_int_equal(have->track_writes, !strstr(have->missing, "not tracked"));
	pddi_probe_fini(&probe);
}

/* A process that may open no file has no facility, and says so; it can still be described. */
static void test_nothing_at_all(void **state)
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct rlimit none = { 0, 0 };
		struct pddi_probe probe;
		struct pddi_hold hold;
		struct pddi_pagemap map = { .fd = -1, .vector = 1, .page_shift = 12 };
		struct pdd_linux_memory memory;
		struct pdd_view view;

		setrlimit(RLIMIT_NOFILE, &none);
		pddi_probe_init(&probe);
		if (probe.facilities.userfaultfd || probe.facilities.pagemap_scan)
			_exit(1);
		if (!strstr(probe.missing, "nothing is merged"))
			_exit(2);
		if (pddi_hold_init(&hold, &probe, &map, 12, 0))
			_exit(3);
		memset(&memory, 0, sizeof(memory));
		if (pddi_hold_get(&hold, &memory, &view, 1, 0, 9) != 1 || view.npages != 9 ||
		    view.kind != PDD_PAGE_REFUSED || view.reason != PDD_REASON_NO_HOLD)
			_exit(4);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves_nothing),
		cmocka_unit_test(test_text_matches),
		cmocka_unit_test(test_nothing_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
