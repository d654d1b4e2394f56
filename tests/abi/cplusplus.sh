#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# cplusplus.sh <library>...: a program in C++17 compiles without a warning, links with each of the
# libraries, and works, by any compiler there is.
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/compilers.sh"

mapfile -t cxxs < <(compilers "${CXX:-c++}" g++ clang++)
if [ ${#cxxs[@]} -eq 0 ]; then
	echo "no C++ compiler: install g++ or set CXX"
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

failed=0
for cxx in "${cxxs[@]}"; do
	for library in "$@"; do
		echo "$cxx with $(basename "$library"):"
		if ! "$cxx" -std=c++17 -g -Wall -Wextra -Wpedantic -Werror \
			-I"$PDD_SOURCE_DIR/include" -o "$scratch/scan" "$here/scan.cc" "$library" \
			-Wl,-rpath,"$(dirname "$library")" || ! "$scratch/scan"; then
			failed=1
		fi
	done
done
exit "$failed"
