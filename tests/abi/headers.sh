#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# headers.sh <C compiler>: each public header compiles alone, and twice in a row, as strict C11 and
# as C++17, with no warning of any compiler there is.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/compilers.sh"

cc=$1 cxx=${CXX:-c++}
if ! command -v "$cxx" >/dev/null; then
	echo "no C++ compiler ($cxx): install g++ or set CXX"
	exit 77
fi
cd "$PDD_SOURCE_DIR/include" || exit 1

# compile <compiler> <language> <standard> <header>
compile() {
	if ! printf '#include <%s>\n#include <%s>\n' "$4" "$4" | "$1" -x "$2" "-std=$3" -Wpedantic \
		-Wall -Wextra -Wundef -Werror -I. -fsyntax-only -; then
		echo "$4 is not clean as $3 ($1)"
		failed=1
	fi
}

mapfile -t ccs < <(compilers "$cc" gcc clang)
mapfile -t cxxs < <(compilers "$cxx" g++ clang++)
failed=0 count=0
while read -r header; do
	for compiler in "${ccs[@]}"; do
		compile "$compiler" c c11 "$header"
	done
	for compiler in "${cxxs[@]}"; do
		compile "$compiler" c++ c++17 "$header"
	done
	count=$((count + 1))
done < <(find . -name '*.h' -printf '%P\n' | sort)
echo "$count headers by ${ccs[*]} ${cxxs[*]}"
[ "$failed" -eq 0 ] && [ "$count" -gt 0 ]
