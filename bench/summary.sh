#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# summary.sh [--into FILE] RESULTS: what run.sh wrote into the folder RESULTS, as Markdown tables.
#
# With --into they go into FILE (docs/benchmarks.md), in place of what is between its lines
# "<!-- a run: begin -->" and "<!-- a run: end -->".
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
into=
if [ "${1:-}" = --into ]; then
	into=${2:?}
	shift 2
fi
results=${1:?which folder?}

rows=()
for file in "$results"/*.jsonl; do
	case ${file##*/} in machine.jsonl | runs.jsonl) ;; *) rows+=("$file") ;; esac
done
tables=$(jq -rs --slurpfile machine "$results/machine.jsonl" \
	--slurpfile runs "$results/runs.jsonl" -f "$source_dir/bench/summary.jq" "${rows[@]:-/dev/null}")
if [ -z "$into" ]; then
	printf '%s\n' "$tables"
	exit
fi
for mark in begin end; do
	grep -qx "<!-- a run: $mark -->" "$into" || { echo "$into: no mark '$mark'" >&2 && exit 1; }
done
filled=$(tables=$tables awk '
	/^<!-- a run: end -->$/ { inside = 0 }
	!inside { print }
	/^<!-- a run: begin -->$/ { inside = 1; print "\n" ENVIRON["tables"] "\n" }' "$into")
printf '%s\n' "$filled" >"$into"
