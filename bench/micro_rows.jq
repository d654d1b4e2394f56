# SPDX-License-Identifier: BSD-2-Clause
#
# What bench_micro --benchmark_format=json prints, with repetitions, as a row for each case: the
# median of the repetitions, and their coefficient of variation.
def aggregate($name): map(select(.aggregate_name == $name))[0].cpu_time;

[.benchmarks | group_by(.run_name)[]
	| (.[0].run_name | split("/")) as [$structure, $operation, $contender, $size]
	| {bench: "micro", $structure, $operation, $contender, size: ($size | tonumber),
	   ns: aggregate("median"), cv: aggregate("cv"), repetitions: .[0].repetitions}]
| sort_by([.structure, .operation, .contender, .size])[]
