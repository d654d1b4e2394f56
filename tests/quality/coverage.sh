#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# coverage.sh: which lines and branches of lib/ the tests run, in a build without internal checks
# and without optimization. Prints a table by file; build/coverage/uncovered.txt lists what is not
# run, build/coverage/html/ shows it. Exits with 1 below 95 % of the lines or 90 % of the branches,
# or if a test fails.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/packages.sh
pdd_install_packages cmake:cmake ninja-build:ninja gcc:cc g++:c++ libc6-dev pkg-config:pkg-config \
	libxxhash-dev libcmocka-dev gcovr:gcovr jq:jq

build=build/coverage
cmake --preset coverage >/dev/null
cmake --build --preset coverage -- --quiet
find "$build" -name '*.gcda' -delete
ctest --preset coverage -j "$(nproc)" >"$build/ctest.log" || {
	tail -n 30 "$build/ctest.log"
	exit 1
}

rm -rf "$build/html"
mkdir "$build/html"
status=0
gcovr --root . --filter lib/ --object-directory "$build" --exclude-unreachable-branches \
	--print-summary --sort-percentage --json "$build/coverage.json" \
	--html-details "$build/html/index.html" --txt "$build/lines.txt" \
	--fail-under-line 95 --fail-under-branch 90 \
	"$build"/CMakeFiles/pagededup{,_linux}_objects.dir >"$build/summary.txt" || status=$?
gcovr --root . --add-tracefile "$build/coverage.json" --branches --txt "$build/branches.txt"
sed -n '/^File/,$p' "$build/lines.txt" | cut -c1-70
sed -n '/^File/,$p' "$build/branches.txt" | cut -c1-70
cat "$build/summary.txt"

# file:line, "line" or "branch n of m not taken", the text
jq -r '.files[] | .file as $file | .lines[] | select(."gcovr/noncode" | not) |
	if .count == 0 then "\($file):\(.line_number): line"
	elif any(.branches[]?; .count == 0)
	then "\($file):\(.line_number): \([.branches[] | select(.count == 0)] | length) of \(.branches | length) branches"
	else empty end' "$build/coverage.json" |
	while IFS=: read -r file line what; do
		printf '%s:%s:%s: %s\n' "$file" "$line" "$what" "$(sed -n "${line}p" "$file" | tr -s '\t ' ' ')"
	done >"$build/uncovered.txt"
echo "$(wc -l <"$build/uncovered.txt") lines with something that is not run: $build/uncovered.txt"
exit "$status"
