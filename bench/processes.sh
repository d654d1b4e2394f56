#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# processes.sh [--quick] BUILD_DIR IMAGE...: whole processes, from start to end.
#
# What a clock in the program cannot see belongs to what a user waits for: starting, and the kernel
# tearing down thousands of mappings at exit. So hyperfine measures from outside.
#
#	minimal           examples/minimal.c: what it costs to start, share 1 MiB and leave
#	until done        guest-dedup: loads, scans until a pass merges nothing, verifies
#	one look          guest-dedup --passes 1: merges nothing yet, so this is what it takes anyway
#	two looks         guest-dedup --passes 2: the second look merges
#	domain per guest  the same, but nothing is shared between guests
#	sorted            tests/tools/count_pages: counts equal pages of the images by sorting their
#	                  contents; uses nothing of the library, and shares nothing
#
# hyperfine runs its commands one after the other, each as often as it is told. It is told once, and
# called several times, so that they take turns; times of all calls are put together. "saved_bytes"
# is what guest-dedup says in a run of its own before, which warms up, too. --quick leaves out all but the first two cases.
#
# One row of JSON for each. Exit status 77 if hyperfine is missing or nothing can be shared here.
set -euo pipefail
export LC_ALL=C

skip() { echo "processes.sh: $*" >&2; exit 77; }

series=7 quick=''
if [ "$1" = --quick ]; then
	quick=yes series=2
	shift
fi
build=$1
shift
dedup=$build/examples/guest-dedup
for program in "$dedup" "$build/examples/minimal" "$build/tests/tools/count_pages"; do
	[ -x "$program" ] || skip "${program##*/} was not built"
done
command -v hyperfine >/dev/null || skip "hyperfine is not installed"

# Reports of guest-dedup, as {"until done": {...}}. Without a userfaultfd it shares nothing, and its
# times would be those of something else.
reports='{}'
report() { # NAME OPTION...
	local name=$1
	shift
	reports=$(jq -c --arg name "$name" --argjson report "$("$dedup" --json "$@")" \
		'. + {($name): $report}' <<<"$reports")
}
commands=() # for hyperfine
case_is() { # NAME COMMAND...
	commands+=(--command-name "$1" "$(printf '%q ' "${@:2}")")
}
dedup_case() { # NAME OPTION...
	case_is "$1" "$dedup" "${@:2}"
	reports=$(jq -c --arg name "$1" --argjson report "$("$dedup" --json "${@:2}")" \
		'. + {($name): $report}' <<<"$reports")
}
case_is minimal "$build/examples/minimal"
dedup_case "until done" "$@"
jq -e '."until done".saved_bytes > 0' <<<"$reports" >/dev/null ||
	skip "guest-dedup shares nothing here (no userfaultfd?)"
if [ -z "$quick" ]; then
	dedup_case "one look" --passes 1 "$@"
	dedup_case "two looks" --passes 2 "$@"
	dedup_case "domain per guest" --domain-per-guest "$@"
	case_is sorted "$build/tests/tools/count_pages" "$@"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for ((i = 1; i <= series; i++)); do
	hyperfine --shell none --style basic --runs 1 --export-json "$work/$i.json" \
		"${commands[@]}" >&2
done
jq -cs --argjson reports "$reports" '
	def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
	def mean: add / length;
	[.[].results] as $series | $series[0][].command as $command
	| [$series[][] | select(.command == $command)]
	| (map(.times) | add) as $times
	| {bench: "processes", case: $command, runs: ($times | length),
	   wall_s: ($times | median), wall_s_min: ($times | min), wall_s_max: ($times | max),
	   user_s: (map(.user) | mean), system_s: (map(.system) | mean),
	   passes: $reports[$command].passes, saved_bytes: $reports[$command].saved_bytes}' \
	"$work"/*.json
