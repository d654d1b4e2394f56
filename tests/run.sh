#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs what is missing, builds every preset and runs all tests: the release build with its unit
# and scenario tests under Valgrind once more, the build with internal checks, and the sanitizers.
# Needs no terminal and no particular current directory; uses build/ of this tree.
#
# --long: instead, what is there in small is done with large numbers, which takes about an hour
# (long.sh).
#
# The last line is "N passed, N failed, N skipped", summed over all runs. Exits with 0 only if
# something passed and nothing failed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/packages.sh

long=
case $#:${1-} in
0:) ;;
1:--long) long=1 ;;
*) echo "usage: tests/run.sh [--long]" >&2 && exit 2 ;;
esac

passed=0 failed=0 skipped=0 complaints=()
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}

complain() {
	complaints+=("$1")
	failed=$((failed + 1))
}

finish() {
	echo
	[ ${#complaints[@]} -eq 0 ] || printf 'FAILED: %s\n' "${complaints[@]}"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
}

# count <report> <attribute>: a number of the report's first element, which covers the whole run.
count() {
	grep -m 1 -oP "\b$2=\"\K[0-9]+" "$1"
}

# run_preset <preset> [<option of cmake>...]
run_preset() {
	local preset=$1 report=build/$1/report.xml status bad absent
	shift
	echo
	echo "=== $preset ==="
	rm -f "$report"
	if ! cmake --preset "$preset" "$@"; then
		complain "$preset: configuring"
		return
	fi
	if ! cmake --build --preset "$preset" -- --quiet; then
		complain "$preset: building"
		return
	fi
	"${launch[@]}" ctest --preset "$preset" --output-junit "$PWD/$report" </dev/null
	status=$?
	if [ ! -s "$report" ]; then
		complain "$preset: ctest ran no tests"
		return
	fi
	bad=$(count "$report" failures)
	absent=$(($(count "$report" skipped) + $(count "$report" disabled)))
	passed=$((passed + $(count "$report" tests) - bad - absent))
	skipped=$((skipped + absent))
	failed=$((failed + bad))
	if [ "$bad" -gt 0 ]; then
		complaints+=("$preset: $bad tests, see above")
	elif [ "$status" -ne 0 ]; then
		complain "$preset: ctest exited with $status" # such as a test without its program
	fi
}

if ! pdd_install_packages git cmake:cmake ninja-build:ninja gcc:cc g++:c++ libc6-dev \
	pkg-config:pkg-config libxxhash-dev libcmocka-dev libbenchmark-dev libbsd-dev jq:jq gnuplot-nox:gnuplot hyperfine:hyperfine \
	valgrind:valgrind libc6-dbg abigail-tools:abidiff; then
	complain "installing packages"
	finish
fi

[ -z "$long" ] || exec bash tests/long.sh

launch=()
run_preset release -DPDD_MEMCHECK=ON
run_preset dev
run_preset asan
# The ThreadSanitizer of gcc 12 cannot start where the kernel randomizes addresses by more than 28
# bits, so it does not get random ones, where that may be turned off.
if setarch --addr-no-randomize true 2>/dev/null; then
	launch=(setarch --addr-no-randomize)
fi
run_preset tsan
finish
