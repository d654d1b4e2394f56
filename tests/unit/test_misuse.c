/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_misuse.c - a build with internal checks stops at what a caller must not do. Each deed is
 * done in a child of its own: rightly, which comes through, and wrongly, which is a trap.
 *
 * What a header names as an error is returned as one in all builds; that is the test of others
 * (scenario/bad_input_*).
 */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pagededup/aging.h>
#include <pagededup/chain.h>
#include <pagededup/checksum.h>
#include <pagededup/interval.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Deeds do one thing wrong if told so. All memory is static: a child has it all zero. */

/* ---- rbtree.h ---- */

static struct pdd_rbroot tree, other_tree;
static struct pdd_rbnode nodes[3];
static char unaligned[sizeof(struct pdd_rbnode) + 8] __attribute__((aligned(8)));

static void plant(void) /* node 0, and node 1 to its left */
{
	pdd_rb_link(&tree, &nodes[0], NULL, &tree.node, 0);
	pdd_rb_link(&tree, &nodes[1], &nodes[0], &nodes[0].left, 0);
}

static void link_where_a_node_is(bool wrong)
{
	plant();
	pdd_rb_link(&tree, &nodes[2], &nodes[0], wrong ? &nodes[0].left : &nodes[0].right, 0);
}

static void link_at_no_place_of_the_parent(bool wrong)
{
	plant();
	pdd_rb_link(&tree, &nodes[2], wrong ? &nodes[1] : &nodes[0], &nodes[0].right, 0);
}

static void link_nothing(bool wrong)
{
	pdd_rb_link(&tree, wrong ? NULL : &nodes[0], NULL, &tree.node, 0);
}

static void link_to_no_tree(bool wrong)
{
	pdd_rb_link(wrong ? NULL : &tree, &nodes[0], NULL, &tree.node, 0);
}

static void link_an_unaligned_node(bool wrong)
{
	pdd_rb_link(&tree, (struct pdd_rbnode *)(void *)(unaligned + (wrong ? 4 : 0)), NULL,
		    &tree.node, 0);
}

static void link_with_too_high_a_tag(bool wrong)
{
	pdd_rb_link(&tree, &nodes[0], NULL, &tree.node, PDD_RB_TAG_MAX + wrong);
}

static void remove_from_another_tree(bool wrong)
{
	plant();
	pdd_rb_remove(wrong ? &other_tree : &tree, &nodes[0]);
}

static void remove_twice(bool wrong)
{
	plant();
	pdd_rb_remove(&tree, &nodes[1]);
	pdd_rb_remove(&tree, &nodes[!wrong ? 0 : 1]);
}

static void replace_what_is_in_no_tree(bool wrong)
{
	plant();
	pdd_rb_replace(wrong ? &other_tree : &tree, &nodes[0], &nodes[2], 0);
}

static void replace_by_itself(bool wrong)
{
	plant();
	pdd_rb_replace(&tree, &nodes[0], &nodes[wrong ? 0 : 2], 0);
}

static void replace_with_too_high_a_tag(bool wrong)
{
	plant();
	pdd_rb_replace(&tree, &nodes[0], &nodes[2], PDD_RB_TAG_MAX + wrong);
}

static void split_an_empty_tree(bool wrong)
{
	if (!wrong)
		plant();
	pdd_rb_split(&tree, &nodes[0], &nodes[0].right, &other_tree);
}

static void split_where_a_node_is(bool wrong)
{
	plant();
	pdd_rb_split(&tree, &nodes[0], wrong ? &nodes[0].left : &nodes[0].right, &other_tree);
}

static void split_into_a_full_tree(bool wrong)
{
	plant();
	if (wrong)
		pdd_rb_link(&other_tree, &nodes[2], NULL, &other_tree.node, 0);
	pdd_rb_split(&tree, &nodes[0], &nodes[0].right, &other_tree);
}

static void augment(struct pdd_rbnode *node)
{
}

static void link_without_a_callback(bool wrong)
{
	pdd_rb_link_augmented(&tree, &nodes[0], NULL, &tree.node, 0, wrong ? NULL : augment);
}

static void remove_without_a_callback(bool wrong)
{
	plant();
	pdd_rb_remove_augmented(&tree, &nodes[0], wrong ? NULL : augment);
}

static void replace_without_a_callback(bool wrong)
{
	plant();
	pdd_rb_replace_augmented(&tree, &nodes[0], &nodes[2], 0, wrong ? NULL : augment);
}

static void first_of_no_tree(bool wrong)
{
	pdd_rb_first(wrong ? NULL : &tree);
}

static void last_of_no_tree(bool wrong)
{
	pdd_rb_last(wrong ? NULL : &tree);
}

static void next_of_nothing(bool wrong)
{
	plant();
	pdd_rb_next(wrong ? NULL : &nodes[0]);
}

static void prev_of_nothing(bool wrong)
{
	plant();
	pdd_rb_prev(wrong ? NULL : &nodes[0]);
}

static void check_no_tree(bool wrong)
{
	pdd_rb_check(wrong ? NULL : &tree, NULL);
}

/* ---- interval.h ---- */

static struct pdd_interval_tree intervals;
static struct pdd_interval interval;

static void insert_no_interval(bool wrong)
{
	pdd_interval_insert(&intervals, wrong ? NULL : &interval, 1, 2);
}

static void remove_no_interval(bool wrong)
{
	pdd_interval_insert(&intervals, &interval, 1, 2);
	pdd_interval_remove(&intervals, wrong ? NULL : &interval);
}

static void find_in_no_tree(bool wrong)
{
	pdd_interval_find_first(wrong ? NULL : &intervals, 1, 2);
}

static void find_behind_nothing(bool wrong)
{
	pdd_interval_insert(&intervals, &interval, 1, 2);
	pdd_interval_find_next(wrong ? NULL : &interval, 1, 2);
}

static void check_no_intervals(bool wrong)
{
	pdd_interval_tree_check(wrong ? NULL : &intervals, NULL);
}

/* ---- index.h ---- */

static struct pdd_index forest;
static struct pdd_rbroot roots[2];
static struct pdd_index_node entries[3];

/* The last node belongs to the second root, which comes into use by the second link. */
static void link_at_a_stale_slot(bool wrong)
{
	const uint64_t checksum = UINT64_C(1) << 32;
	struct pdd_index_slot slot;

	pdd_index_init(&forest, roots, 2, 1);
	for (unsigned i = 0; i < 3; i++)
		entries[i].checksum = i < 2 ? 0 : checksum;
	pdd_index_find_slot(&forest, &slot, 0, NULL, NULL);
	pdd_index_link(&forest, &slot, &entries[0], PDD_KIND_ITEM);
	pdd_index_find_slot(&forest, &slot, checksum, NULL, NULL);
	if (wrong) { /* the slot is of the root that there was before this link */
		struct pdd_index_slot between;

		pdd_index_find_slot(&forest, &between, 0, NULL, NULL);
		between.slot = &entries[0].u.rb.left;
		between.parent = &entries[0].u.rb;
		pdd_index_link(&forest, &between, &entries[1], PDD_KIND_ITEM);
	}
	pdd_index_link(&forest, &slot, &entries[2], PDD_KIND_ITEM);
}

static void replace_by_another_checksum(bool wrong)
{
	struct pdd_index_slot slot;

	pdd_index_init(&forest, roots, 2, 2);
	pdd_index_find_slot(&forest, &slot, 0, NULL, NULL);
	pdd_index_link(&forest, &slot, &entries[0], PDD_KIND_ITEM);
	entries[1].checksum = wrong;
	pdd_index_replace(&forest, &entries[0], &entries[1], PDD_KIND_ITEM);
}

/* ---- chain.h ---- */

static struct pdd_frame leader, second, third;
static struct pdd_item item;

static void chain_two(void)
{
	pdd_frame_init(&leader, 1, 0, 0);
	pdd_frame_init(&second, 1, 0, 0);
	pdd_frame_init(&third, 1, 0, 0);
	pdd_chain_insert(&leader, &second, 2);
}

static void unreserve_nothing(bool wrong)
{
	chain_two();
	if (!wrong)
		pdd_frame_reserve(&leader);
	pdd_frame_unreserve(&leader);
}

static void remove_another_frames_sharer(bool wrong)
{
	chain_two();
	pdd_frame_insert_sharer(&leader, &item);
	pdd_frame_remove_sharer(wrong ? &second : &leader, &item);
}

static void insert_a_dup_twice(bool wrong)
{
	chain_two();
	pdd_chain_insert(&leader, wrong ? &second : &third, 2);
}

static void insert_below_a_dup(bool wrong)
{
	chain_two();
	pdd_chain_insert(wrong ? &second : &leader, &third, 2);
}

static void insert_a_leader(bool wrong)
{
	chain_two();
	if (wrong)
		pdd_chain_insert(&third, &leader, 2);
}

static void insert_other_content(bool wrong)
{
	chain_two();
	pdd_frame_init(&third, 1 + wrong, 0, 0);
	pdd_chain_insert(&leader, &third, 2);
}

static void insert_another_domain(bool wrong)
{
	chain_two();
	pdd_frame_init(&third, 1, wrong, 0);
	pdd_chain_insert(&leader, &third, 2);
}

static void insert_another_node(bool wrong)
{
	chain_two();
	pdd_frame_init(&third, 1, 0, wrong);
	pdd_chain_insert(&leader, &third, 2);
}

static void remove_what_is_no_dup(bool wrong)
{
	chain_two();
	pdd_chain_remove(&leader, wrong ? &third : &second);
}

static void update_what_is_no_dup(bool wrong)
{
	chain_two();
	pdd_chain_update(&leader, wrong ? &third : &second, 2);
}

static void pick_by_a_dup(bool wrong)
{
	chain_two();
	pdd_chain_pick(wrong ? &second : &leader, 2);
}

static void sort_by_a_dup(bool wrong)
{
	chain_two();
	pdd_chain_sort(wrong ? &second : &leader, 2);
}

static void plan_by_a_dup(bool wrong)
{
	struct pdd_frame *source, *target;

	chain_two();
	pdd_chain_plan_refile(wrong ? &second : &leader, &source, &target, 2);
}

static void hand_over_a_dup(bool wrong)
{
	chain_two();
	pdd_chain_handover(wrong ? &second : &leader);
}

static void insert_with_a_limit_of_one(bool wrong)
{
	chain_two();
	pdd_chain_insert(&leader, &third, 2 - wrong);
}

static void pick_with_a_limit_of_one(bool wrong)
{
	chain_two();
	pdd_chain_pick(&leader, 2 - wrong);
}

static void update_with_a_limit_of_one(bool wrong)
{
	chain_two();
	pdd_chain_update(&leader, &second, 2 - wrong);
}

static void sort_with_a_limit_of_one(bool wrong)
{
	chain_two();
	pdd_chain_sort(&leader, 2 - wrong);
}

static void plan_with_a_limit_of_one(bool wrong)
{
	struct pdd_frame *source, *target;

	chain_two();
	pdd_chain_plan_refile(&leader, &source, &target, 2 - wrong);
}

/* ---- aging.h and checksum.h ---- */

static void look_at_too_old_a_page(bool wrong)
{
	pdd_aging_look(PDD_AGING_PHASE, PDD_AGE_MAX + wrong, 0, 0, 64);
}

static void age_too_old_a_page(bool wrong)
{
	pdd_aging_next(PDD_AGING_PHASE, PDD_AGE_MAX + wrong, 64);
}

static void period_of_no_passes(bool wrong)
{
	pdd_aging_period(0, !wrong);
}

static void period_of_three_passes(bool wrong)
{
	pdd_aging_period(0, 2 + wrong);
}

static void period_of_too_many_passes(bool wrong)
{
	pdd_aging_period(0, PDD_AGING_PERIOD_MAX << wrong);
}

static uint64_t page[8], secret[PDD_SECRET_LEN_MAX / 8 + 1];

static void checksum_of_nothing(bool wrong)
{
	pdd_checksum_page(wrong ? NULL : page, sizeof(page), secret, PDD_SECRET_LEN_MAX);
}

static void checksum_without_a_secret(bool wrong)
{
	pdd_checksum_page(page, sizeof(page), wrong ? NULL : secret, PDD_SECRET_LEN_MAX);
}

static void checksum_by_too_short_a_secret(bool wrong)
{
	pdd_checksum_page(page, sizeof(page), secret, PDD_SECRET_LEN_MIN - wrong);
}

static void checksum_by_too_long_a_secret(bool wrong)
{
	pdd_checksum_page(page, sizeof(page), secret, PDD_SECRET_LEN_MAX + wrong);
}

static void checksum_of_half_a_word(bool wrong)
{
	pdd_checksum_page(page, sizeof(page) - (wrong ? 4 : 0), secret, PDD_SECRET_LEN_MAX);
}

static void fastest_checksum_by_too_short_a_secret(bool wrong)
{
	pdd_checksum_fastest()(page, sizeof(page), secret, PDD_SECRET_LEN_MIN - wrong);
}

/* ---- all of them ---- */

#define DEED(name) { #name, name }

static const struct deed {
	const char *name;
	void (*function)(bool wrong);
} deeds[] = {
	DEED(link_where_a_node_is),
	DEED(link_at_no_place_of_the_parent),
	DEED(link_nothing),
	DEED(link_to_no_tree),
	DEED(link_an_unaligned_node),
	DEED(link_with_too_high_a_tag),
	DEED(remove_from_another_tree),
	DEED(remove_twice),
	DEED(replace_what_is_in_no_tree),
	DEED(replace_by_itself),
	DEED(replace_with_too_high_a_tag),
	DEED(split_an_empty_tree),
	DEED(split_where_a_node_is),
	DEED(split_into_a_full_tree),
	DEED(link_without_a_callback),
	DEED(remove_without_a_callback),
	DEED(replace_without_a_callback),
	DEED(first_of_no_tree),
	DEED(last_of_no_tree),
	DEED(next_of_nothing),
	DEED(prev_of_nothing),
	DEED(check_no_tree),
	DEED(insert_no_interval),
	DEED(remove_no_interval),
	DEED(find_in_no_tree),
	DEED(find_behind_nothing),
	DEED(check_no_intervals),
	DEED(link_at_a_stale_slot),
	DEED(replace_by_another_checksum),
	DEED(unreserve_nothing),
	DEED(remove_another_frames_sharer),
	DEED(insert_a_dup_twice),
	DEED(insert_below_a_dup),
	DEED(insert_a_leader),
	DEED(insert_other_content),
	DEED(insert_another_domain),
	DEED(insert_another_node),
	DEED(remove_what_is_no_dup),
	DEED(update_what_is_no_dup),
	DEED(pick_by_a_dup),
	DEED(sort_by_a_dup),
	DEED(plan_by_a_dup),
	DEED(hand_over_a_dup),
	DEED(insert_with_a_limit_of_one),
	DEED(pick_with_a_limit_of_one),
	DEED(update_with_a_limit_of_one),
	DEED(sort_with_a_limit_of_one),
	DEED(plan_with_a_limit_of_one),
	DEED(look_at_too_old_a_page),
	DEED(age_too_old_a_page),
	DEED(period_of_no_passes),
	DEED(period_of_three_passes),
	DEED(period_of_too_many_passes),
	DEED(checksum_of_nothing),
	DEED(checksum_without_a_secret),
	DEED(checksum_by_too_short_a_secret),
	DEED(checksum_by_too_long_a_secret),
	DEED(checksum_of_half_a_word),
	DEED(fastest_checksum_by_too_short_a_secret),
};

/* What becomes of a child that does this, as of waitpid(). */
static int in_a_child(const struct deed *deed, bool wrong)
{
	static const int traps[] = { SIGILL, SIGTRAP };
	const struct rlimit no_core = { 0, 0 };
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		for (unsigned i = 0; i < 2; i++) /* sanitizers catch them */
			signal(traps[i], SIG_DFL);
		deed->function(wrong);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void test_deeds(void **unused)
{
	unsigned failed = 0;

	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		int rightly = in_a_child(&deeds[i], false), wrongly = in_a_child(&deeds[i], true);

		if (rightly != 0) {
			print_error("%s: status %#x where it is done rightly\n", deeds[i].name,
				    (unsigned)rightly);
			failed++;
		}
		if (!WIFSIGNALED(wrongly) ||
		    (WTERMSIG(wrongly) != SIGILL && WTERMSIG(wrongly) != SIGTRAP)) {
			print_error("%s: status %#x, and no trap\n", deeds[i].name,
				    (unsigned)wrongly);
			failed++;
		}
	}
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deeds),
	};

	if (PDD_CHECKS < 1) {
		fprintf(stderr, "built without internal checks\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
