// SPDX-License-Identifier: BSD-2-Clause
//
// bench_micro: runs the cases of micro_*.c by Google Benchmark, with all its options:
//
//	--benchmark_list_tests, --benchmark_filter=rbtree/, --benchmark_format=json
//	--benchmark_repetitions=9 --benchmark_enable_random_interleaving=true
//	        contenders alternate within one run; the median is to be compared
//
// Exit status 1 if a case computed something wrong.

#include <benchmark/benchmark.h>

#include <vector>

#include "micro.h"

static std::vector<const micro_case *> &registered()
{
	static std::vector<const micro_case *> cases; // made at the first call, before main()
	return cases;
}

void micro_register(const struct micro_case *cases, size_t ncases)
{
	for (size_t i = 0; i < ncases; i++)
		registered().push_back(&cases[i]);
}

static bool failed;

static void run_case(benchmark::State &state, const micro_case *c)
{
	uint64_t iterations = 0;
	void *own = c->setup(static_cast<uint64_t>(state.range(0)), &iterations);

	if (!own) {
		failed = true;
		state.SkipWithError("no memory");
		return;
	}
	while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(iterations))) {
		state.PauseTiming();
		c->prepare(own);
		state.ResumeTiming();
		uint64_t result = c->run(own, iterations);
		state.PauseTiming();
		bool right = c->is_right(own, result);
		state.ResumeTiming();
		if (!right) {
			failed = true;
			state.SkipWithError("wrong result");
			break;
		}
	}
	c->teardown(own);
}

int main(int argc, char **argv)
{
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 2;
	for (const micro_case *c : registered())
		for (const uint64_t *size = c->sizes; *size; size++)
			benchmark::RegisterBenchmark(c->name, run_case, c)
				->Arg(static_cast<int64_t>(*size));
	if (benchmark::RunSpecifiedBenchmarks() == 0)
		return 2;
	benchmark::Shutdown();
	return failed ? 1 : 0;
}
