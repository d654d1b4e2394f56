/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_bad_input_init.c - what pdd_scanner_init() refuses, and what it takes: each hook missing,
 * each option at and beyond its range, structs of older and of newer callers (s8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sim.h"

static unsigned char secret[PDD_SECRET_LEN_MAX + 1];
static struct pdd_rbroot roots[4];
static struct pdd_scanner scanner;

static const struct pdd_scanner_options good = {
	.size = sizeof(good),
	.page_shift = 6,
	.roots = roots,
	.nroots = 4,
	.secret = secret,
	.secret_len = PDD_SECRET_LEN_MAX,
};

static int init_ops(const struct pdd_ops *ops)
{
	return pdd_scanner_init(&scanner, ops, NULL, &good);
}

static int init(const struct pdd_scanner_options *options)
{
	return pdd_scanner_init(&scanner, &sim_ops, NULL, options);
}

static void test_null(void **unused)
{
	assert_int_equal(pdd_scanner_init(NULL, &sim_ops, NULL, &good), -EINVAL);
	assert_int_equal(pdd_scanner_init(&scanner, NULL, NULL, &good), -EINVAL);
	assert_int_equal(pdd_scanner_init(&scanner, &sim_ops, NULL, NULL), -EINVAL);
	assert_int_equal(init(&good), 0);
}

/* Each hook is NULL in turn: those that are not marked optional are required. */
static void test_hooks(void **unused)
{
	static const size_t required[] = {
		offsetof(struct pdd_ops, space_trylock), offsetof(struct pdd_ops, space_unlock),
		offsetof(struct pdd_ops, pages_get),	 offsetof(struct pdd_ops, pages_put),
		offsetof(struct pdd_ops, hold),		 offsetof(struct pdd_ops, release),
		offsetof(struct pdd_ops, frames_create), offsetof(struct pdd_ops, frames_map),
		offsetof(struct pdd_ops, frames_unmap),
		offsetof(struct pdd_ops, frame_content), offsetof(struct pdd_ops, frame_free),
		/* both or none */
		offsetof(struct pdd_ops, extent_get),	 offsetof(struct pdd_ops, extent_put),
		offsetof(struct pdd_ops, lock),		 offsetof(struct pdd_ops, unlock),
	};
	static const size_t optional[] = {
		offsetof(struct pdd_ops, zero_map),	   offsetof(struct pdd_ops, checksum),
		offsetof(struct pdd_ops, now_ns),	   offsetof(struct pdd_ops, trace),
		offsetof(struct pdd_ops, frame_is_mapped), offsetof(struct pdd_ops, frames_remap),
		offsetof(struct pdd_ops, pages_discard), offsetof(struct pdd_ops, pages_written),
	};
	const size_t hook = sizeof(sim_ops.trace);
	struct pdd_ops ops;

	assert_int_equal(sizeof(required) + sizeof(optional),
			 sizeof(struct pdd_ops) - offsetof(struct pdd_ops, space_trylock));
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
		ops = sim_ops;
		memset((char *)&ops + required[i], 0, hook);
		assert_int_equal(init_ops(&ops), -EINVAL);
	}
	for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
		ops = sim_ops;
		memset((char *)&ops + optional[i], 0, hook);
		assert_int_equal(init_ops(&ops), 0);
	}
	ops = sim_ops;
	ops.extent_get = NULL;
	ops.extent_put = NULL;
	ops.lock = NULL;
	ops.unlock = NULL;
	assert_int_equal(init_ops(&ops), 0);
}

/* s8: an older caller knows the required hooks only, a newer one more of them. */
static void test_ops_sizes(void **unused)
{
	struct {
		struct pdd_ops ops;
		void *newer[3];
	} big = { .ops = sim_ops };
	const size_t least = offsetof(struct pdd_ops, zero_map);
	struct pdd_ops ops = sim_ops;

	for (size_t size = 0; size < least; size++) {
		ops.size = size;
		assert_int_equal(init_ops(&ops), -EINVAL);
	}
	ops.size = least;
	assert_int_equal(init_ops(&ops), 0);
	assert_null(scanner.priv.ops.zero_map);
	assert_null(scanner.priv.ops.now_ns);
	assert_null(scanner.priv.ops.extent_get);
	/* extent_get is in its struct, extent_put is behind its end */
	ops.size = offsetof(struct pdd_ops, extent_put);
	assert_int_equal(init_ops(&ops), -EINVAL);

	memset(big.newer, 0x5a, sizeof(big.newer));
	big.ops.size = sizeof(big);
	assert_int_equal(init_ops(&big.ops), 0);
	assert_memory_equal(&scanner.priv.ops.space_trylock, &sim_ops.space_trylock,
			    sizeof(sim_ops) - offsetof(struct pdd_ops, space_trylock));
}

/* An engine with the oldest struct of hooks merges. */
static void test_oldest_ops_work(void **unused)
{
	struct sim *sim = sim_create(NULL);
	struct pdd_ops ops = sim_ops;
	struct sim_region *region;

	ops.size = offsetof(struct pdd_ops, zero_map);
	sim->options.no_clones = true;
	assert_int_equal(pdd_scanner_init(&sim->scanner, &ops, sim,
					  &(struct pdd_scanner_options){
						  .size = sizeof(struct pdd_scanner_options),
						  .page_shift = 6,
						  .roots = sim->roots,
						  .nroots = sim->options.nroots,
						  .secret = secret,
						  .secret_len = PDD_SECRET_LEN_MIN,
					  }),
			 0);
	region = sim_region_add(sim_space_add(sim, 0), 600);
	for (uint64_t i = 0; i < 600; i++)
		sim_write(region, i, i % 2);
	sim_passes(sim, 3);
	assert_int_equal(sim_stats(sim).pages_shared, 4);
	assert_int_equal(sim_stats(sim).pages_sharing, 596);
	assert_int_equal(pdd_region_discard(&region->region, 0, 0), 0);
	sim_destroy(sim);
}

static void test_options(void **unused)
{
	struct pdd_scanner_options o = good;

	for (uint32_t shift = 0; shift < 40; shift++) {
		o.page_shift = shift;
		assert_int_equal(init(&o), shift == 0 || (shift >= 3 && shift <= 30) ? 0 : -EINVAL);
		if (init(&o) == 0)
			assert_int_equal(scanner.priv.page_size,
					 UINT64_C(1) << (shift ? shift : 12));
	}
	o.page_shift = UINT32_MAX;
	assert_int_equal(init(&o), -EINVAL);
	o = good;
	o.flags = PDD_SCANNER_UNIFORM_CHECKSUM;
	assert_int_equal(init(&o), 0);
	for (uint32_t bit = 1; bit < 32; bit++) {
		o.flags = UINT32_C(1) << bit;
		assert_int_equal(init(&o), -EINVAL);
	}
	o = good;
	o.roots = NULL;
	assert_int_equal(init(&o), -EINVAL);
	o = good;
	for (uint64_t n = 0; n <= 4; n++) {
		o.nroots = n;
		assert_int_equal(init(&o), n ? 0 : -EINVAL);
	}
	o.nroots = UINT64_MAX;
	assert_int_equal(init(&o), -EINVAL);
	o.nroots = 3;
	for (uint64_t n = 0; n <= 4; n++) {
		o.first_nroots = n;
		assert_int_equal(init(&o), n <= 3 ? 0 : -EINVAL);
	}
}

static void test_secret(void **unused)
{
	struct pdd_scanner_options o = good;
	struct pdd_ops ops = sim_ops;

	for (size_t len = 0; len <= PDD_SECRET_LEN_MAX + 1; len++) {
		o.secret_len = len;
		assert_int_equal(init(&o), len >= PDD_SECRET_LEN_MIN && len <= PDD_SECRET_LEN_MAX
						   ? 0
						   : -EINVAL);
	}
	o.secret_len = SIZE_MAX;
	assert_int_equal(init(&o), -EINVAL);
	o.secret = NULL;
	assert_int_equal(pdd_scanner_init(&scanner, &ops, NULL, &o), 0);
	ops.checksum = NULL;
	assert_int_equal(pdd_scanner_init(&scanner, &ops, NULL, &o), -EINVAL);
	o.secret_len = PDD_SECRET_LEN_MAX;
	assert_int_equal(pdd_scanner_init(&scanner, &ops, NULL, &o), -EINVAL);
}

/* s8: options of an older caller end before the tunables, those of a newer one are longer. */
static void test_option_sizes(void **unused)
{
	struct {
		struct pdd_scanner_options options;
		unsigned char newer[24];
	} big = { .options = good };
	struct pdd_tunables bad = { .size = sizeof(bad) };
	struct pdd_scanner_options o = good;

	o.tunables = &bad; /* all 0: out of range */
	assert_int_equal(init(&o), -EINVAL);
	o.size = offsetof(struct pdd_scanner_options, tunables);
	assert_int_equal(init(&o), 0);
	for (o.size = 0; o.size < offsetof(struct pdd_scanner_options, tunables); o.size++)
		assert_int_equal(init(&o), -EINVAL);

	big.options.size = sizeof(big);
	assert_int_equal(init(&big.options), 0);
	for (size_t i = 0; i < sizeof(big.newer); i++) {
		big.newer[i] = 1;
		assert_int_equal(init(&big.options), -EINVAL);
		big.options.size = sizeof(big.options) + i; /* not his any more */
		assert_int_equal(init(&big.options), 0);
		big.options.size = sizeof(big);
		big.newer[i] = 0;
	}
}

/* No version had a size that ends within a member; half a pointer would be taken with it. */
static void test_sizes_within_a_member(void **unused)
{
	struct pdd_tunables t;
	struct pdd_scanner_options o = good;
	struct pdd_ops ops = sim_ops;

	for (ops.size = offsetof(struct pdd_ops, zero_map) + 1; ops.size < sizeof(ops); ops.size++)
		if (ops.size % sizeof(void *))
			assert_int_equal(init_ops(&ops), -EINVAL);
	pdd_tunables_init(&t);
	o.tunables = &t;
	o.size = offsetof(struct pdd_scanner_options, tunables);
	while (++o.size < sizeof(o))
		assert_int_equal(init(&o), -EINVAL);
}

static void test_tunables(void **unused)
{
	struct pdd_scanner_options o = good;
	struct pdd_tunables t, read = { .size = sizeof(read) };

	pdd_tunables_init(&t);
	o.tunables = &t;
	t.max_page_sharing = 1;
	assert_int_equal(init(&o), -EINVAL);
	t.max_page_sharing = 2;
	t.merge_across_nodes = 0;
	assert_int_equal(init(&o), 0);
	t.max_page_sharing = 77; /* they were copied */
	assert_int_equal(pdd_scanner_get_tunables(&scanner, &read), 0);
	assert_int_equal(read.max_page_sharing, 2);
	assert_int_equal(read.merge_across_nodes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_null),	      cmocka_unit_test(test_hooks),
		cmocka_unit_test(test_ops_sizes),     cmocka_unit_test(test_oldest_ops_work),
		cmocka_unit_test(test_options),	      cmocka_unit_test(test_secret),
		cmocka_unit_test(test_option_sizes),  cmocka_unit_test(test_tunables),
		cmocka_unit_test(test_sizes_within_a_member),
	};

	sim_seed();
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)(i * 37 + 11);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
