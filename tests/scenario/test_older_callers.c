/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_older_callers.c - s8: structs that lead with their size, of callers who know less or more
 * than this library. What is missing has its default, or is as if it were not there; what is new
 * and not used (zero) is fine; what is new and used is refused where it is an input. Nobody's
 * memory behind his struct is touched. (What pdd_scanner_init() takes: test_bad_input_init.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

#define CANARY 0x5a

static bool is_canary(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != CANARY)
			return false;
	return true;
}

static struct sim *world(struct sim_region **region)
{
	struct sim *sim = sim_create(NULL);

	*region = sim_region_add(sim_space_add(sim, 0), 20);
	for (uint64_t i = 0; i < 20; i++)
		sim_write(*region, i, i / 4);
	sim_passes(sim, 2);
	return sim;
}

/* An engine that knows hooks up to this size only. */
static struct sim *older_engine(size_t size)
{
	static const unsigned char secret[PDD_SECRET_LEN_MIN] = { 1 };
	struct sim *sim = sim_create(NULL);
	struct pdd_ops ops = sim->scanner.priv.ops;
	struct pdd_scanner_options options = {
		.size = offsetof(struct pdd_scanner_options, tunables),
		.page_shift = sim->options.page_shift,
		.roots = sim->roots,
		.nroots = sim->options.nroots,
		.secret = secret,
		.secret_len = sizeof(secret),
	};

	ops.size = size;
	sim->options.no_clones = size <= offsetof(struct pdd_ops, frame_is_mapped);
	assert_int_equal(pdd_scanner_init(&sim->scanner, &ops, sim, &options), 0);
	return sim;
}

static void older_hooks(size_t size)
{
	struct sim *sim = older_engine(size);
	struct sim_region *region = sim_region_add(sim_space_add(sim, 0), 600);
	bool zero = size > offsetof(struct pdd_ops, zero_map);

	for (uint64_t i = 0; i < 600; i++)
		sim_write(region, i, i % 3);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).counts.ksm_merging_pages, zero ? 400 : 600);
	assert_int_equal(sim_stats(sim).counts.ksm_zero_pages, zero ? 200 : 0);
	for (uint64_t i = 0; i < 600; i += 2)
		sim_write(region, i, 100 + i);
	sim_passes(sim, 2);
	sim_prune(sim);
	assert_true(sim_unmerge(region, 0, 300) > 0);
	for (uint64_t i = 300; size <= offsetof(struct pdd_ops, pages_discard) && i < 600; i++)
		sim_discard(region, i);
	assert_int_equal(pdd_region_discard(&region->region, 300, 300), 0);
	sim_passes(sim, 2);
	sim_destroy(sim);
}

/* It works with hooks up to any point: pages merge, are written, unmerged and discarded, and what
 * needs a later hook is left out. */
static void test_hooks(void **unused)
{
	const size_t hook = sizeof(sim_ops.trace);
	size_t size = offsetof(struct pdd_ops, zero_map);

	for (; size <= sizeof(struct pdd_ops); size += hook)
		if (size != offsetof(struct pdd_ops, extent_put) && /* half a pair is refused */
		    size != offsetof(struct pdd_ops, unlock))
			older_hooks(size);
}

/* Settings that an older caller does not know keep their values. */
static void test_tunables_in(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region);
	struct pdd_tunables before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	struct {
		struct pdd_tunables tunables;
		unsigned char newer[12];
	} big = { 0 };
	const size_t least = sizeof(size_t), most = sizeof(struct pdd_tunables);

	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &before), 0);
	for (size_t size = least; size <= most; size += sizeof(uint32_t)) {
		memset(&big, 0xff, sizeof(big)); /* not to be read */
		memcpy(&big.tunables, &before, size);
		big.tunables.size = size;
		if (size > offsetof(struct pdd_tunables, max_page_sharing))
			big.tunables.max_page_sharing = 100 + (uint32_t)size;
		assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &big.tunables), 0);
		if (size > offsetof(struct pdd_tunables, max_page_sharing))
			before.max_page_sharing = 100 + (uint32_t)size;
		assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &after), 0);
		assert_memory_equal(&after, &before, sizeof(after));
	}
	for (size_t size = 0; size < most; size++) {
		big.tunables.size = size;
		if (size < least || (size - least) % sizeof(uint32_t)) /* within a member */
			assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &big.tunables),
					 -EINVAL);
	}
	memset(big.newer, 0, sizeof(big.newer));
	big.tunables = before;
	big.tunables.size = most + sizeof(big.newer);
	assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &big.tunables), 0);
	for (size_t i = 0; i < sizeof(big.newer); i++) {
		big.newer[i] = 1;
		big.tunables.max_page_sharing = 999;
		assert_int_equal(pdd_scanner_set_tunables(&sim->scanner, &big.tunables), -EINVAL);
		big.newer[i] = 0;
	}
	assert_int_equal(pdd_scanner_get_tunables(&sim->scanner, &after), 0);
	assert_memory_equal(&after, &before, sizeof(after)); /* all or none */
	sim_destroy(sim);
}

/* What is read: as far as the caller's struct goes, and zeros where the library has nothing. */
typedef int (*read_fn)(const struct sim_region *region, void *out);

static int read_stats(const struct sim_region *region, void *out)
{
	return pdd_scanner_stats(&region->space->sim->scanner, out);
}

static int read_tunables(const struct sim_region *region, void *out)
{
	return pdd_scanner_get_tunables(&region->space->sim->scanner, out);
}

static int read_explanation(const struct sim_region *region, void *out)
{
	return pdd_region_explain(&region->region, 5, out);
}

static void read_all_sizes(const struct sim_region *region, read_fn read, size_t known)
{
	union {
		size_t size;
		unsigned char bytes[4096];
	} all = { .size = known }, some;

	assert_in_range(known, 1, sizeof(all) - 64);
	assert_int_equal(read(region, &all), 0);
	for (size_t size = sizeof(size_t); size <= known + 64; size++) {
		size_t both = size < known ? size : known;

		memset(&some, CANARY, sizeof(some));
		some.size = size;
		assert_int_equal(read(region, &some), 0);
		assert_int_equal(some.size, size);
		assert_memory_equal(some.bytes + sizeof(size_t), all.bytes + sizeof(size_t),
				    both - sizeof(size_t));
		for (size_t i = known; i < size; i++)
			assert_int_equal(some.bytes[i], 0);
		assert_true(is_canary(some.bytes + size, sizeof(some) - size));
	}
	for (size_t size = 0; size < sizeof(size_t); size++) {
		some.size = size;
		assert_int_equal(read(region, &some), -EINVAL);
	}
}

static void test_read(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region);

	read_all_sizes(region, read_stats, sizeof(struct pdd_stats));
	read_all_sizes(region, read_tunables, sizeof(struct pdd_tunables));
	read_all_sizes(region, read_explanation, sizeof(struct pdd_explanation));
	sim_destroy(sim);
}

/* Each flag bit that is not known is refused, alone and with those that are. */
static void test_flags(void **unused)
{
	struct sim_region *region;
	struct sim *sim = world(&region);
	struct pdd_scanner scanner;
	unsigned char secret[PDD_SECRET_LEN_MIN] = { 1 };
	struct pdd_rbroot root = { 0 };
	struct pdd_scanner_options options = {
		.size = sizeof(options),
		.roots = &root,
		.nroots = 1,
		.secret = secret,
		.secret_len = sizeof(secret),
	};

	for (unsigned bit = 0; bit < 32; bit++) {
		bool is_known = UINT32_C(1) << bit == PDD_SCANNER_UNIFORM_CHECKSUM;

		options.flags = UINT32_C(1) << bit;
		assert_int_equal(pdd_scanner_init(&scanner, &sim_ops, sim, &options),
				 is_known ? 0 : -EINVAL);
		options.flags |= PDD_SCANNER_UNIFORM_CHECKSUM;
		assert_int_equal(pdd_scanner_init(&scanner, &sim_ops, sim, &options),
				 is_known ? 0 : -EINVAL);
	}
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_tunables_in),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_flags),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
