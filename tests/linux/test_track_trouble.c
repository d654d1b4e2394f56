/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_track_trouble.c - tracking where registrations are lost, belong to somebody else or cannot
 * be had (facts 10 and 22 of the adapter): nothing is passed over in silence, and it recovers.
 */
#define _GNU_SOURCE 1
#include "tracked.h"

#include "linux/uapi.h"
#include "linux/uffd.h"

/* What the contract forbids: somebody else's mapping. It is not passed over in silence. */
static void test_foreign_mapping(void **state)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)] = { 0 }, page;

	init(PDD_LINUX_NO_DEVICE_WRITES);
	at(100)[0] = 2; /* before the place, in the same extent: may be protected and not told of */
	assert_ptr_equal(mmap(at(300), PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at(300));
	at(300)[0] = 2;
	assert_int_equal(pddi_track_written(&rig.track, &rig.memory, bits, 0, NPAGES), -EPERM);
	/* The next answer works, and tells of everything that might have been passed over. */
	rig_written(&rig, bits, 0, NPAGES);
	for (page = 0; page < 600; page++)
		assert_true(pddi_bit_test(bits, page));
	assert_int_equal(told(), 0);
	fini();
}

/* Memory that the owner registered itself, against the contract: unknown, until it is ours. */
static void test_foreign_userfaultfd(void **state)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)] = { 0 };

	rig_init(&rig, NPAGES, PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, NPAGES * PAGE);
	assert_int_equal(pddi_uffd_register(rig.probe.uffd, at(1100), 10, 12,
					    UFFDIO_REGISTER_MODE_WP),
			 0);
	/* Asked for the whole it fails; the parts that are ours can be asked for. */
	assert_int_equal(pddi_track_written(&rig.track, &rig.memory, bits, 0, NPAGES), -EBUSY);
	assert_int_equal(rig_count_written(&rig, 0, 1024), 1024);
	memset(bits, 0, sizeof(bits));
	assert_int_equal(pddi_track_written(&rig.track, &rig.memory, bits, 0, NPAGES), 1024);
	assert_int_equal(pddi_bits_count(bits, 0, NPAGES), 0);
	assert_int_equal(pddi_uffd_unregister(rig.probe.uffd, at(1100), 10, 12), 0);
	assert_int_equal(rig_count_written(&rig, 0, NPAGES), 1024);
	fini();
}

/* At the kernel's limit of mappings nothing is known, later everything is. */
static void test_limit_of_mappings(void **state)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)] = { 0 };
	struct maps_limit limit;

	if (!maps_can_reach_limit())
		skip();
	rig_init(&rig, NPAGES, PDD_LINUX_NO_DEVICE_WRITES);
	memset(at(0), 1, NPAGES * PAGE);
	maps_limit_init(&limit);
	maps_limit_reach(&limit);
	assert_int_equal(pddi_track_written(&rig.track, &rig.memory, bits, 512, 512), -ENOMEM);
	maps_limit_leave(&limit);
	assert_int_equal(told(), NPAGES);
	fini();
}

/* Holds at the limit fail, and nothing is left of them; tracking is not given up. */
static void test_hold_at_the_limit(void **state)
{
	static const uint32_t all[] = { 0, PDD_LINUX_NO_DEVICE_WRITES | PDD_LINUX_NO_MOVE };
	struct maps_limit limit;
	size_t i;

	if (!maps_can_reach_limit())
		skip();
	for (i = 0; i < 2; i++) {
		struct pdd_view views[4];

		init(all[i]);
		maps_limit_init(&limit);
		maps_limit_reach(&limit);
		assert_int_equal(rig_hold(&rig, views, 4, 100, 50), -ENOMEM);
		assert_null(rig.hold.memory);
		at(110)[0] = 2;
		maps_limit_leave(&limit);
		assert_true(rig.probe.facilities.track_writes);
		touch_holes(120, 10);
		assert_true(told() >= 11);
		assert_tracked(100, 50);
		at(111)[0] = 2;
		assert_int_equal(told(), 1);
		release_run(100, 50);
		fini();
	}
}

/* Tracking is given up: pages are moved by the other userfaultfd, nothing is known of writes. */
static void test_given_up(void **state)
{
	uint64_t bits[PDDI_BITMAP_WORDS(NPAGES)] = { 0 };
	struct pdd_frame *frames[40];
	struct pdd_view views[4];

	init(PDD_LINUX_NO_DEVICE_WRITES);
	assert_true(rig.probe.facilities.track_writes);
	pddi_probe_untrack(&rig.probe);
	assert_false(rig.probe.facilities.track_writes);
	assert_false(maps_is_registered(at(0)));
	assert_int_equal(pddi_track_written(&rig.track, &rig.memory, bits, 0, NPAGES), -ENOSYS);
	at(0)[0] = 7;
	rig_merge(&rig, frames, 0, 40);
	assert_int_equal(rig_hold(&rig, views, 4, 40, 40), 1);
	assert_true(pddi_hold_is_staged(&rig.hold, 40));
	pddi_hold_release(&rig.hold, 40, 40);
	touch_holes(40, 40);
	assert_false(maps_is_registered(at(50)));
	fini();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign_mapping),
		cmocka_unit_test(test_foreign_userfaultfd),
		cmocka_unit_test(test_limit_of_mappings),
		cmocka_unit_test(test_hold_at_the_limit),
		cmocka_unit_test(test_given_up),
	};

	return can_track() ? cmocka_run_group_tests(tests, NULL, NULL) : SKIPPED;
}
