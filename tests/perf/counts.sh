#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The scenarios count exactly what they did when counts.txt was made: looks, hashes, compares,
# visits of nodes, tries of locks, calls of hooks. Any difference fails, also one for the better:
# then the baseline is to be made anew, by update.sh, and the commit says why it changed.
set -uo pipefail

here=${PDD_SOURCE_DIR:?}/tests/perf
new=$(mktemp)
trap 'rm -f "$new"' EXIT

if ! "${PDD_BUILD_DIR:?}/tests/perf/perf_counts" --print >"$new" || [ ! -s "$new" ]; then
	echo "perf_counts failed"
	exit 1
fi
if ! diff --unified=0 --label counts.txt --label "counted now" \
	<(grep -v '^#' "$here/counts.txt") "$new"; then
	echo
	echo "Counts changed: - is what is expected, + what was counted. A count of 0 is left out."
	echo "If that is meant: tests/perf/update.sh, and a word on why in the commit."
	exit 1
fi
echo "$(wc -l <"$new") counts are as they were"
