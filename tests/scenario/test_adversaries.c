/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_adversaries.c - who chooses contents, or knows the checksums of all of them, makes nothing a
 * list: checksums all or half of them equal, ascending or descending in the order of the tree,
 * which is the worst order of insertion for a red-black tree. Whatever they are, each search visits
 * at most 2 log2(n + 1) nodes, n being those of the index, and everything is found.
 *
 * s30: 50,000 pages of different contents, all of one checksum, cost at most 3 times the compares
 * of a tree that is ordered by content: contents and bytes, both counted.
 *
 * Counted is at the seams: this program is linked so that every search in the index, and every
 * compare of contents of either side, comes by here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/content_tree.h"
#include "content.h"
#include "scanner_internal.h"
#include "sim.h"

/* ---- what is counted ---- */

extern uint64_t pddi_visits; /* of nodes, by the core that this is linked with */
uint64_t pddi_visits;

static struct {
	uint64_t searches, most_visits;
	uint64_t compares, bytes; /* of contents, up to the first byte that differs */
	bool on;		  /* whether memcmp() counts */
} counts;

struct pdd_index_node *__real_pdd_index_find_slot(const struct pdd_index *index,
						  struct pdd_index_slot *slot, uint64_t checksum,
						  pdd_index_order_fn order, void *ctx);
struct pdd_index_node *__wrap_pdd_index_find_slot(const struct pdd_index *index,
						  struct pdd_index_slot *slot, uint64_t checksum,
						  pdd_index_order_fn order, void *ctx);
int __real_pddi_content_compare(const void *a, const void *b, size_t size);
int __wrap_pddi_content_compare(const void *a, const void *b, size_t size);
bool __real_pddi_content_equal(const void *a, const void *b, size_t size);
bool __wrap_pddi_content_equal(const void *a, const void *b, size_t size);
int __real_memcmp(const void *a, const void *b, size_t size);
int __wrap_memcmp(const void *a, const void *b, size_t size);

/* Whether visits <= 2 log2(n + 1), exactly; n below 2^31. */
static bool is_within(uint64_t visits, uint64_t n)
{
	return visits < 63 && UINT64_C(1) << visits <= (n + 1) * (n + 1);
}

struct pdd_index_node *__wrap_pdd_index_find_slot(const struct pdd_index *index,
						  struct pdd_index_slot *slot, uint64_t checksum,
						  pdd_index_order_fn order, void *ctx)
{
	uint64_t before = pddi_visits, visits;
	struct pdd_index_node *node = __real_pdd_index_find_slot(index, slot, checksum, order, ctx);

	visits = pddi_visits - before;
	if (!is_within(visits, index->nnodes))
		sim_fail("a search visits %" PRIu64 " of %" PRIu64 " nodes", visits, index->nnodes);
	counts.searches++;
	if (visits > counts.most_visits)
		counts.most_visits = visits;
	return node;
}

static void count(const void *a, const void *b, size_t size)
{
	const unsigned char *x = a, *y = b;
	size_t i = 0;

	while (i < size && x[i] == y[i])
		i++;
	counts.compares++;
	counts.bytes += i < size ? i + 1 : size;
}

int __wrap_pddi_content_compare(const void *a, const void *b, size_t size)
{
	count(a, b, size);
	return __real_pddi_content_compare(a, b, size);
}

bool __wrap_pddi_content_equal(const void *a, const void *b, size_t size)
{
	count(a, b, size);
	return __real_pddi_content_equal(a, b, size);
}

int __wrap_memcmp(const void *a, const void *b, size_t size)
{
	if (counts.on)
		count(a, b, size);
	return __real_memcmp(a, b, size);
}

/* ---- checksums ---- */

static uint64_t ncontents; /* in the world of adversary(), from 1 on */

/* Of a page of 8 bytes. */
static uint64_t number_of(const void *content)
{
	uint64_t word;

	memcpy(&word, content, sizeof(word));
	return word;
}

/* The checksum that stands in the order of the tree where this number stands among numbers. */
static uint64_t in_order(uint64_t number)
{
	uint64_t reversed = 0;

	for (unsigned bit = 0; bit < 64; bit++)
		reversed |= (number >> bit & 1) << (63 - bit);
	return reversed << 32 | reversed >> 32;
}

static int checksum_half(void *ctx, uint64_t *value, const void *content)
{
	uint64_t number = number_of(content);

	*value = number % 2 ? number : 0;
	return 0;
}

static int checksum_ascending(void *ctx, uint64_t *value, const void *content)
{
	*value = in_order(number_of(content));
	return 0;
}

static int checksum_descending(void *ctx, uint64_t *value, const void *content)
{
	*value = in_order(ncontents - number_of(content));
	return 0;
}

/* From both ends to the middle. */
static int checksum_inwards(void *ctx, uint64_t *value, const void *content)
{
	uint64_t number = number_of(content);

	*value = in_order(number % 2 ? number : 2 * ncontents - number);
	return 0;
}

static int checksum_equal(void *ctx, uint64_t *value, const void *content)
{
	*value = 0;
	return 0;
}

typedef int (*checksum_fn)(void *ctx, uint64_t *value, const void *content);

static struct sim *world(checksum_fn checksum, uint32_t page_shift, uint64_t npages,
			 struct sim_region **region)
{
	struct sim *sim = sim_create(&(struct sim_options){
		.page_shift = page_shift,
		.nroots = 1,
		.aging = PDD_AGING_NONE,
		.checksum = SIM_CHECKSUM_ZERO,
	});

	sim->scanner.priv.ops.checksum = checksum;
	sim->scanner.priv.flags |= PDD_SCANNER_UNIFORM_CHECKSUM; /* as it is, not mixed */
	*region = sim_region_add(sim_space_add(sim, 0), npages);
	memset(&counts, 0, sizeof(counts));
	return sim;
}

/* Pages of n contents in ascending order, then every fourth content again; all find each other. */
static void adversary(checksum_fn checksum, uint64_t n, uint64_t least_visits)
{
	struct sim_region *region;
	struct sim *sim = world(checksum, 3, n + n / 4, &region);

	ncontents = n;
	for (uint64_t i = 0; i < n; i++)
		sim_write(region, i, 1 + i);
	for (uint64_t i = 0; i < n / 4; i++)
		sim_write(region, n + i, 4 * (i + 1));
	sim_passes(sim, 3);
	sim_settle(sim, 20);
	sim_prune(sim);
	sim_settle(sim, 20);
	sim_assert_settled(sim);
	print_message("%" PRIu64 " searches, at most %" PRIu64 " nodes\n", counts.searches,
		      counts.most_visits);
	assert_in_range(counts.searches, n + n / 4, 1000 * n);
	assert_in_range(counts.most_visits, least_visits, 64);
	sim_destroy(sim);
}

/* With 1,000 nodes in the worst order some path is longer than in a tree that is balanced: 10. */
static void test_orders(void **unused)
{
	adversary(checksum_ascending, 1000, 11);
	adversary(checksum_descending, 1000, 11);
	adversary(checksum_inwards, 1000, 11);
}

static void test_equal(void **unused)
{
	adversary(checksum_equal, 1000, 10);
	adversary(checksum_half, 1000, 10);
}

/* ---- s30 ---- */

#define S30_PAGES 50000u
#define S30_PASSES 4u
#define OTHERS 1000u /* in another space, each content twice, with checksums of their own */

/* Pages that begin with zeros are the adversary's. */
static int checksum_of_begin(void *ctx, uint64_t *value, const void *content)
{
	*value = number_of(content);
	return 0;
}

static uint64_t no_checksum(const void *content)
{
	return 0;
}

struct cost {
	uint64_t compares, bytes;
};

static void begin_to_count(void)
{
	memset(&counts, 0, sizeof(counts));
}

static struct cost cost(void)
{
	return (struct cost){counts.compares, counts.bytes};
}

/* A scan of the tree ordered by content. */
static struct cost cost_of_tree(const struct sim_region *region)
{
	struct content_item *items = calloc(region->npages, sizeof(*items));
	uint64_t inserted;

	begin_to_count();
	counts.on = true;
	inserted = content_tree_scan(items, region->memory, region->space->sim->page_size,
				     region->npages, no_checksum);
	counts.on = false;
	free(items);
	assert_int_equal(inserted, region->npages);
	return cost();
}

/* Each pass against a scan: the one that inserts all pages, and those that look at them again. */
static void compare_costs(struct sim *sim, const struct sim_region *region)
{
	struct cost theirs = cost_of_tree(region);

	print_message("ordered by content: %" PRIu64 " compares, %" PRIu64 " bytes\n",
		      theirs.compares, theirs.bytes);
	for (unsigned pass = 1; pass <= S30_PASSES; pass++) {
		struct cost ours;

		begin_to_count();
		sim_pass(sim, UINT64_MAX);
		ours = cost();
		print_message("pass %u: %.2f of the compares, %.2f of the bytes\n", pass,
			      (double)ours.compares / (double)theirs.compares,
			      (double)ours.bytes / (double)theirs.bytes);
		assert_in_range(ours.compares, 0, 3 * theirs.compares);
		assert_in_range(ours.bytes, 0, 3 * theirs.bytes);
		if (pass > 1) /* it is no list that is cheap because nobody looks at it */
			assert_true(ours.compares > theirs.compares / 2);
	}
	assert_int_equal(sim_stats(sim).pages_sharing, 0);
	assert_int_equal(sim_stats(sim).counts.pages_due, 0);
}

/* Contents that differ early, or in the last word only. */
static void test_s30(void **unused)
{
	for (unsigned late = 0; late < 2; late++) {
		struct sim_region *region;
		struct sim *sim = world(checksum_equal, 6, S30_PAGES, &region);

		for (uint64_t i = 0; i < S30_PAGES; i++)
			sim_write(region, i, (1 + i) | (late ? SIM_TAIL : 0));
		compare_costs(sim, region);
		sim_destroy(sim);
	}
}

/* Other pages merge at their second look, as if the adversary's were not there. */
static void test_s30_others(void **unused)
{
	struct sim_region *region, *other;
	struct sim *sim = world(checksum_of_begin, 6, S30_PAGES, &region);

	other = sim_region_add(sim_space_add(sim, 0), 2 * OTHERS);
	for (uint64_t i = 0; i < S30_PAGES; i++)
		sim_write(region, i, (1 + i) | SIM_TAIL);
	for (uint64_t i = 0; i < 2 * OTHERS; i++)
		sim_write(other, i, 1 + i % OTHERS);
	sim_passes(sim, 2);
	assert_int_equal(sim_counts(other->space).ksm_merging_pages, 2 * OTHERS);
	assert_true(sim_counts(region->space).pages_unshared > S30_PAGES / 2);
	sim_destroy(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_s30),
		cmocka_unit_test(test_s30_others),
	};

	sim_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
