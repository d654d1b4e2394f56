#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# instructions.sh [--print]: the scenarios take as many instructions as when instructions.txt was
# made, or at most TOLERANCE percent more; fewer by more than that are reported, so that the
# baseline can follow. Counted by callgrind, in perf_measured() and all that it calls, hooks
# included; two runs of one build differ by nothing or next to it.
#
# The numbers are those of one compiler, its options, and C library on one kind of processor (whose
# vector unit picks the memcpy). Where these differ from what the file names, there is nothing to
# compare with: skipped. --print prints a new file.
set -uo pipefail
export LC_ALL=C

TOLERANCE=3 # percent
here=${PDD_SOURCE_DIR:?}/tests/perf
program=${PDD_BUILD_DIR:?}/tests/perf/perf_instructions

# Valgrind shows programs no vectors beyond AVX2, so wider ones make no difference.
describe() {
	local avx2=
	grep -qw avx2 /proc/cpuinfo && avx2=" AVX2"
	echo "$(<"$PDD_BUILD_DIR/tests/perf/compiled"), $(getconf GNU_LIBC_VERSION)," \
		"$(valgrind --version)$avx2"
}

# One run for all: each call of perf_measured() leaves a file of its own, out.1 and so on.
count_all() {
	valgrind --tool=callgrind --callgrind-out-file="$scratch/out" \
		--toggle-collect=perf_measured --dump-after=perf_measured \
		"$program" --run >"$scratch/log" 2>&1 && return
	cat "$scratch/log" >&2
	return 1
}

# instructions_of <n>: of the n-th scenario
instructions_of() {
	awk '$1 == "totals:" && $2 > 0 { print $2; found = 1 } END { exit !found }' \
		"$scratch/out.$1"
}

# judge <scenario> <pages> <instructions> <of the baseline>
judge() {
	awk -v name="$1" -v pages="$2" -v now="$3" -v was="$4" -v tolerance="$TOLERANCE" 'BEGIN {
		change = 100 * (now - was) / was
		printf "%-20s %10.1f per page, was %10.1f: %+.2f %%\n", name, now / pages,
			was / pages, change
		if (change < -tolerance)
			printf "%s: better than the baseline: tests/perf/update.sh\n", name
		if (change > tolerance)
			printf "%s: FAILED: more than %s %% above the baseline\n", name, tolerance
		exit change > tolerance
	}'
}

if ! command -v valgrind >/dev/null; then
	echo "there is no valgrind here"
	exit 77
fi
host=$(describe)
if [ "${1-}" != --print ]; then
	made_on=$(sed -n 's/^# made on: //p' "$here/instructions.txt")
	if [ "$host" != "$made_on" ]; then
		echo "the baseline was made on: $made_on"
		echo "            and this is: $host"
		exit 77
	fi
else
	echo "# made on: $host"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
count_all || exit 1
failed=0 n=0
while read -r scenario pages; do
	n=$((n + 1))
	if ! instructions=$(instructions_of "$n"); then
		echo "$scenario: nothing was counted" >&2
		exit 1
	fi
	if [ "${1-}" = --print ]; then
		echo "$scenario $instructions"
		continue
	fi
	was=$(awk -v name="$scenario" '$1 == name { print $2 }' "$here/instructions.txt")
	if [ -z "$was" ]; then
		echo "$scenario: FAILED: not in instructions.txt"
		failed=1
	else
		judge "$scenario" "$pages" "$instructions" "$was" || failed=1
	fi
done < <("$program" --list)

if [ "$n" -eq 0 ]; then
	echo "there are no scenarios" >&2
	exit 1
fi
if [ "$failed" -ne 0 ]; then
	echo "If that is meant: tests/perf/update.sh, and a word on why in the commit."
fi
exit "$failed"
