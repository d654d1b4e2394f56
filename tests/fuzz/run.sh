#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# tests/fuzz/run.sh [--renew] [SECONDS [TARGET...]]: builds the fuzz targets and runs each for so
# many seconds (60), from the inputs in corpus/ and those found before, which build/fuzz keeps.
# Prints executions of each target; fails if one finds something, and says which input shows it.
#
# --renew replaces what is in corpus/ by few inputs that together reach all code that any does, save
# those that have a name: they are there for what they showed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/packages.sh

renew=
[ "${1-}" != --renew ] || { renew=1 && shift; }
seconds=60
[ $# -eq 0 ] || { seconds=$1 && shift; }
case $seconds in
*[!0-9]* | 0) echo "usage: tests/fuzz/run.sh [--renew] [SECONDS [TARGET...]]" >&2 && exit 2 ;;
esac
[ $# -gt 0 ] || set -- script index image mappings

pdd_install_packages cmake:cmake ninja-build:ninja gcc:cc libc6-dev pkg-config:pkg-config \
	libxxhash-dev libcmocka-dev clang:clang libclang-rt-14-dev
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- --quiet

# A small quarantine keeps the memory that is used in the caches.
export ASAN_OPTIONS=quarantine_size_mb=4${ASAN_OPTIONS:+:$ASAN_OPTIONS}
tree=tests/fuzz/corpus build=build/fuzz/tests/fuzz

# options_of <target>: inputs that are longer take more time than they are worth.
options_of() {
	case $1 in
	script) echo -max_len=112 -entropic=0 ;;
	index) echo -max_len=96 ;;
	image) echo -max_len=64 ;;
	mappings) echo -max_len=1024 -dict=tests/fuzz/mappings.dict ;;
	esac
}

status=0
for target in "$@"; do
	found=$build/corpus/$target log=$build/$target.log
	mkdir -p "$found" "$tree/$target"
	# shellcheck disable=SC2046
	if ! "$build/fuzz_$target" $(options_of "$target") -max_total_time="$seconds" \
		-print_final_stats=1 -artifact_prefix="$build/$target-" \
		"$found" "$tree/$target" 2>"$log"; then
		echo "$target: FAILED, see $log"
		grep -oP 'Test unit written to \K.*' "$log" || tail -n 5 "$log"
		status=1
		continue
	fi
	echo "$target: $(grep -oP '^Done \K[0-9]+(?= runs)' "$log") executions," \
		"$(grep -oP 'average_exec_per_sec: *\K[0-9]+' "$log") per second"
	[ -n "$renew" ] || continue
	# In large code reached is reached, however often: else there would be hundreds.
	counters=1
	case $target in script | mappings) counters=0 ;; esac
	rm -rf "$build/few"
	mkdir "$build/few"
	"$build/fuzz_$target" -set_cover_merge=1 -use_counters=$counters "$build/few" "$found" \
		"$tree/$target" 2>>"$log"
	find "$tree/$target" -type f -regextype egrep -regex '.*/[0-9a-f]{40}' -delete
	mv "$build/few"/* "$tree/$target"
	echo "$target: $(find "$tree/$target" -type f | wc -l) inputs in $tree/$target"
done
exit "$status"
