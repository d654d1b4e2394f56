# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# To be sourced by run.sh: how each benchmark is run, for bench_NAME of each name. They call
#
#	run NAME COMMAND...                    its output becomes rows of NAME
#	run_fitting MIB LEAST NAME COMMAND...  with a size that fits into memory as last argument
#	skip NAME REASON COMMAND...
#
# and find $quick (not empty: small sizes), $bench and $build (folders), $images and $results.

bench_unique() {
	local fill
	for fill in counter random; do
		if [ -n "$quick" ]; then
			run_fitting 64 64 unique "$bench/bench_unique" --json --fill "$fill" --rounds 3 \
				--baseline-rounds 1 --mib
		else
			run_fitting 2048 256 unique "$bench/bench_unique" --json --fill "$fill" --mib
			run_fitting 8192 4096 unique "$bench/bench_unique" --json --fill "$fill" --mib
		fi
	done
}

bench_mirror() {
	if [ -n "$quick" ]; then
		run_fitting 32 32 mirror "$bench/bench_mirror" --json --rounds 3 --baseline-rounds 3 --mib
	else # frames take half as much again
		run_fitting 512 64 mirror "$bench/bench_mirror" --json --mib
	fi
}

bench_scale() {
	if [ -n "$quick" ]; then
		run_fitting 512 256 scale "$bench/bench_scale" --json --rounds 1 --max-entries-mi 1 \
			--max-mib
	else
		run_fitting 8192 512 scale "$bench/bench_scale" --json --max-mib
	fi
}

bench_threads() {
	local n counts=(1)
	for ((n = 2; n < $(nproc); n *= 2)); do counts+=("$n"); done
	[ "$(nproc)" -eq 1 ] || counts+=("$(nproc)")
	for n in "${counts[@]}"; do
		if [ -n "$quick" ]; then
			run_fitting 64 64 threads "$bench/bench_threads" --json --threads "$n" \
				--rounds 3 --mib
		else
			run_fitting 1024 128 threads "$bench/bench_threads" --json --threads "$n" --mib
		fi
	done
}

# It looks for memory and for the kernel's merging itself.
bench_ksm() {
	local dataset
	for dataset in unique mirror; do
		if [ -n "$quick" ]; then
			run ksm "$bench/bench_ksm" --json --dataset "$dataset" --mib 16 --rounds 1 --no-idle
		else
			run ksm "$bench/bench_ksm" --json --dataset "$dataset"
		fi
	done
	set -- --json --dataset guests
	[ -z "$quick" ] || set -- "$@" --rounds 1 --no-idle
	if [ ${#images[@]} -eq 0 ]; then
		skip ksm "$no_images" "$bench/bench_ksm" "$@"
	else
		run ksm "$bench/bench_ksm" "$@" "${images[@]}"
	fi
}

bench_alignment() { run alignment "$bench/bench_alignment" --json; }
bench_rmap() { run rmap "$bench/bench_rmap" --json; }
bench_sparse() { run sparse "$bench/bench_sparse" --json; }
bench_collisions() {
	local fill
	for fill in counter random; do
		if [ -n "$quick" ]; then
			run collisions "$bench/bench_collisions" --json --fill "$fill" --rounds 1 \
				--pages 5000
		else
			run collisions "$bench/bench_collisions" --json --fill "$fill"
		fi
	done
}

bench_contention() { run contention "$bench/bench_contention" --json; }

bench_idle() { # two ranges of this size
	if [ -n "$quick" ]; then
		run_fitting 64 64 idle "$bench/bench_idle" --json --mib
	elif fit 4096 512; then
		run idle "$bench/bench_idle" --json --mib $((mib / 2))
	else
		skip idle "$note" "$bench/bench_idle" --json
	fi
}

# Contenders alternate; of each the median is a row.
bench_micro() {
	local options=(--benchmark_format=json --benchmark_enable_random_interleaving=true)
	if [ -n "$quick" ]; then
		options+=(--benchmark_repetitions=3 --benchmark_min_time=0.001
			'--benchmark_filter=/(64|1024)$')
	else
		options+=(--benchmark_repetitions=5 --benchmark_min_time=0.02)
	fi
	run micro "$bench/bench_micro" "${options[@]}"
	[ -s "$results/micro.jsonl" ] || return 0
	mv "$results/micro.jsonl" "$results/micro.json"
	jq -c -f "$source_dir/bench/micro_rows.jq" "$results/micro.json" >"$results/micro.jsonl" ||
		status=1
}

bench_processes() {
	set --
	[ -z "$quick" ] || set -- --quick
	if [ ${#images[@]} -eq 0 ]; then
		skip processes "$no_images" "$source_dir/bench/processes.sh" "$@"
		return
	fi
	run processes "$source_dir/bench/processes.sh" "$@" "$build" "${images[@]}"
}
