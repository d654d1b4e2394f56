/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_advisor.c - the mended modes against a simulated scanner, whose passes take what memory,
 * cost per page and pace make of the answer.
 */
#include "advisor_pass.h"

#include "sim.h"

#define ROUNDS 2000
#define NS_PER_MS UINT64_C(1000000)

static uint64_t state;

static uint64_t between(uint64_t low, uint64_t high)
{
	return low + sim_random_of(&state) % (high - low + 1);
}

/* A scanner that does what the advisor says. */
struct load {
	uint64_t npages;
	uint64_t ns_per_page;
	uint64_t pace_ms;
	enum pdd_advisor_pace pace;
	uint64_t ns, cpu_ns, steps; /* of the last pass */
	uint64_t steps_before;	    /* of the one before */
};

static void run(struct load *load, struct pdd_advisor *advisor)
{
	uint64_t pages = pdd_advisor_pages(advisor);
	uint64_t pace_ns = load->pace_ms * NS_PER_MS, step_ns = pages * load->ns_per_page;

	load->steps_before = load->steps;
	load->steps = (load->npages + pages - 1) / pages;
	load->cpu_ns = load->npages * load->ns_per_page;
	if (load->pace == PDD_ADVISOR_PAUSE)
		load->ns = load->steps * pace_ns + load->cpu_ns;
	else
		load->ns = step_ns > pace_ns ? load->cpu_ns : load->steps * pace_ns;
	pass(advisor, load->ns / NS_PER_MS, (load->cpu_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void assert_near(uint64_t value, uint64_t wanted, uint64_t per_mille)
{
	assert_in_range(value, wanted - wanted / 1000 * per_mille,
			wanted + wanted / 1000 * per_mille);
}

static uint64_t seconds(const struct load *load)
{
	return load->ns / (1000 * NS_PER_MS);
}

/* Of a core. The answer comes from a pass whose last step may have found nearly nothing to do. */
static void assert_share_at_most(const struct load *load, uint64_t percent)
{
	uint64_t most_ns = load->ns / 100 * percent;

	assert_true(load->cpu_ns <= most_ns + most_ns / load->steps_before);
}

/* A load that a pass of `target` seconds can serve, at up to 60 % of a core. */
static struct load random_load(uint64_t target, enum pdd_advisor_pace pace)
{
	struct load load = {.pace = pace, .pace_ms = between(5, 100)};
	uint64_t steps = target * 1000 / load.pace_ms; /* at most: some time is busy */

	load.npages = steps * between(1000, 20000) / 4;
	load.ns_per_page = between(1, target * 1000 * NS_PER_MS * 60 / 100 / load.npages);
	return load;
}

/* Mended mode, constant load: from the second pass on the target is met, within rounding. */
static void test_constant_load(void **unused)
{
	state = sim_seed();
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t target = (uint32_t)between(20, 400);
		struct load load =
			random_load(target, i % 2 ? PDD_ADVISOR_PAUSE : PDD_ADVISOR_PERIOD);
		struct pdd_advisor advisor = start((struct pdd_advisor_options){
			.pace = load.pace,
			.target_scan_time_s = target,
			.min_pages = between(200, 249),
		});

		run(&load, &advisor);
		for (int passes = 0; passes < 5; passes++) {
			run(&load, &advisor);
			assert_near(load.ns / NS_PER_MS, target * UINT64_C(1000), 10);
			assert_share_at_most(&load, 70);
		}
	}
}

/* Mended mode: the first pass of the first vector is not damped, nor cut to whole seconds. */
static void test_first_pass(void **unused)
{
	struct pdd_advisor advisor = start((struct pdd_advisor_options){0});

	assert_int_equal(pass(&advisor, 800000, 24000), 2204); /* 500 * 776 / (200 - 24) */
	advisor = start((struct pdd_advisor_options){.pace = PDD_ADVISOR_PERIOD});
	assert_int_equal(pass(&advisor, 800000, 24000), 2000);
	advisor = start((struct pdd_advisor_options){.target_scan_time_s = 1, .min_pages = 100});
	assert_int_equal(pass(&advisor, 1900, 100), 200);
	/* no limit to the first leap */
	advisor = start((struct pdd_advisor_options){.target_scan_time_s = 1, .min_pages = 100});
	assert_int_equal(pass(&advisor, 200100, 1), 20029);
}

/* Mended mode: memory grows by a tenth in each pass. The time is a tenth too long, no more. */
static void test_growing_load(void **unused)
{
	struct load load = {.npages = 10000000, .ns_per_page = 500, .pace_ms = 20};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){.max_pages = 1000000});

	run(&load, &advisor);
	for (int i = 0; i < 25; i++) {
		load.npages += load.npages / 10;
		run(&load, &advisor);
		assert_near(load.ns / NS_PER_MS, 220000, 5);
	}
	assert_true(load.npages > 100000000);
}

/* Quirk d mended: half a second after passes of 200 s, and 10 hours (the machine slept). */
static void test_odd_pass(void **unused)
{
	struct load load = {.npages = 30000000, .ns_per_page = 2000, .pace_ms = 20};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){0});
	uint64_t pages;

	for (int i = 0; i < 3; i++)
		run(&load, &advisor);
	assert_int_equal(seconds(&load), 200);
	pages = pdd_advisor_pages(&advisor);
	assert_int_equal(pass(&advisor, 500, 100), pages / 2);
	run(&load, &advisor);
	assert_in_range(pdd_advisor_pages(&advisor), pages - 1, pages + 1);

	/* a long one: the next passes are shorter, by 4 at most, and the third is right */
	pages = pdd_advisor_pages(&advisor);
	assert_int_equal(pass(&advisor, 36000000, 60000), pages * 4);
	run(&load, &advisor);
	assert_int_equal(pdd_advisor_pages(&advisor), pages * 2);
	run(&load, &advisor);
	assert_in_range(pdd_advisor_pages(&advisor), pages - 1, pages + 1);
	run(&load, &advisor);
	assert_int_equal(seconds(&load), 200);
}

/* A leap that two passes ask for is made; a third one needs two again, and so does the way back. */
static void test_confirmed_leap(void **unused)
{
	static const uint64_t rows[][2] = {
		{200000000, 1000}, /* the first: at once */
		{2000000, 4000},   /* 10000 is wanted */
		{1000000, 20000},  /* 20000: again more than four times */
		{1000000, 80000},  /* 100000 */
		{20000, 40000},	   /* 8000: the other direction */
		{20000, 4000},	   /* 4000, again */
		{20000, 2000},	   /* 400 */
		{200000, 2000},	   /* as it is */
		{20000, 1000},	   /* 200: that was long ago */
		{200000, 1000},	   /* as it is */
		{100000, 500},	   /* half is no leap, ... */
		{20000, 250},	   /* ... so this is the first one: 50 */
		{800000, 1000},	   /* four times is none, either */
		{1000000, 4000},   /* 5000 */
	};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){
		.pace = PDD_ADVISOR_PERIOD, .min_pages = 1, .max_pages = 1000000});

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(pass(&advisor, rows[i][0], 1), rows[i][1]);
}

/* The CPU share: more memory than a pass of that time can serve. Met exactly, never exceeded, by
 * the second pass; then the cost rises by four fifths, and one pass exceeds it. */
static void check_share(enum pdd_advisor_mode mode, enum pdd_advisor_pace pace, uint32_t percent)
{
	struct load load = {
		.npages = UINT64_C(100000000000),
		.ns_per_page = between(500, 5000),
		.pace_ms = between(20, 1000),
		.pace = pace,
	};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){
		.mode = mode,
		.pace = pace,
		.max_cpu_percent = percent,
		.min_pages = 100,
		.max_pages = 100000000,
	});

	run(&load, &advisor); /* at most 100 pages of 5 us in 20 ms: below 5 % */
	for (int passes = 0; passes < 10; passes++) {
		if (passes == 4) {
			load.ns_per_page = load.ns_per_page * 9 / 5;
			run(&load, &advisor);
		}
		run(&load, &advisor);
		assert_share_at_most(&load, percent);
		assert_near(load.cpu_ns, load.ns / 100 * percent, 10);
	}
}

static void test_cpu_share(void **unused)
{
	state = sim_seed();
	for (int i = 0; i < ROUNDS; i++) {
		enum pdd_advisor_mode mode = i % 2 ? PDD_ADVISOR_CPU : PDD_ADVISOR_SCAN_TIME;

		/* four fifths more than 55 % fit into the period */
		check_share(mode, PDD_ADVISOR_PAUSE, (uint32_t)between(5, 99));
		check_share(mode, PDD_ADVISOR_PERIOD, (uint32_t)between(5, 55));
	}
}

/* The CPU mode does not look at the time, the mended mode takes the lower of both numbers. */
static void test_cpu_or_time(void **unused)
{
	struct load load = {.npages = 100000000, .ns_per_page = 1000, .pace_ms = 20};
	struct pdd_advisor by_time = start((struct pdd_advisor_options){.min_pages = 1});
	struct pdd_advisor by_cpu = start((struct pdd_advisor_options){
		.mode = PDD_ADVISOR_CPU, .min_pages = 1, .max_pages = 100000});
	struct load other = load;

	for (int i = 0; i < 3; i++) {
		run(&load, &by_time);
		run(&other, &by_cpu);
	}
	assert_near(load.ns / NS_PER_MS, 200000, 1);
	assert_near(pdd_advisor_pages(&by_cpu), 46666, 1); /* 46.7 ms, 20 ms of pause */
	assert_near(other.ns / NS_PER_MS, 142857, 1);
}

/* Steps that take longer than their period: they become smaller until the share is met again. */
static void test_overrun(void **unused)
{
	struct load load = {.npages = 100000000,
			    .ns_per_page = 1000,
			    .pace_ms = 20,
			    .pace = PDD_ADVISOR_PERIOD};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){
		.mode = PDD_ADVISOR_CPU, .pace = PDD_ADVISOR_PERIOD, .max_pages = 1000000});

	for (int i = 0; i < 3; i++)
		run(&load, &advisor);
	assert_near(pdd_advisor_pages(&advisor), 14000, 1);
	load.ns_per_page = 3000;
	run(&load, &advisor); /* 42 ms in 20: 70 % of 14000, and so on */
	assert_near(pdd_advisor_pages(&advisor), 9800, 1);
	for (int i = 0; i < 4; i++)
		run(&load, &advisor);
	assert_near(pdd_advisor_pages(&advisor), 4666, 1);
}

/* All of a core: with pauses that is no limit, by the clock it is where steps fill their period. */
static void test_whole_core(void **unused)
{
	struct pdd_advisor_options options = {.mode = PDD_ADVISOR_CPU, .max_cpu_percent = 100};
	struct pdd_advisor advisor = start(options);

	assert_int_equal(pass(&advisor, 100, 99), 30000);
	options.pace = PDD_ADVISOR_PERIOD;
	advisor = start(options);
	assert_int_equal(pass(&advisor, 100, 50), 1000);
}

/* Rule 1: min_pages bounds from below, max_pages from above, also the CPU share. */
static void test_bounds(void **unused)
{
	struct load load = {.npages = 1000, .ns_per_page = 100, .pace_ms = 20};
	struct pdd_advisor advisor = start((struct pdd_advisor_options){0});

	for (int i = 0; i < 4; i++) {
		run(&load, &advisor);
		assert_int_equal(pdd_advisor_pages(&advisor), 500);
	}
	load.npages = 1000000000;
	for (int i = 0; i < 4; i++)
		run(&load, &advisor);
	assert_int_equal(pdd_advisor_pages(&advisor), 30000);
	load.ns_per_page = 1000000; /* 500 pages take half a second: 96 % of a core */
	for (int i = 0; i < 4; i++)
		run(&load, &advisor);
	assert_int_equal(pdd_advisor_pages(&advisor), 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_constant_load),  cmocka_unit_test(test_first_pass),
		cmocka_unit_test(test_growing_load),   cmocka_unit_test(test_odd_pass),
		cmocka_unit_test(test_confirmed_leap), cmocka_unit_test(test_cpu_share),
		cmocka_unit_test(test_cpu_or_time),    cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_whole_core),     cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
