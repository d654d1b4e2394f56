#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# layout.sh <C compiler>: the sizes, offsets and numbers of layout.def are those of C11, and of
# C++17, by any compiler there is; and nothing is missing there.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
. "$here/compilers.sh"
if [ "$(uname -m)" != x86_64 ]; then
	echo "the numbers are of x86-64, and this is $(uname -m)"
	exit 77
fi

# holds <compiler> <language> <standard>
holds() {
	if ! "$1" -x "$2" "-std=$3" -I"$PDD_SOURCE_DIR/include" -fsyntax-only "$here/layout.c"; then
		echo "layouts changed ($1, $3): if that is meant, see layout.c"
		failed=1
	fi
}

mapfile -t ccs < <(compilers "$1" gcc clang)
mapfile -t cxxs < <(compilers "${CXX:-c++}" g++ clang++)
failed=0
for compiler in "${ccs[@]}"; do
	holds "$compiler" c c11
done
for compiler in "${cxxs[@]}"; do
	holds "$compiler" c++ c++17
done
# What is new in the headers is not forgotten.
if ! diff <(cd "$PDD_SOURCE_DIR/include" &&
	grep -rhoP '^struct \Kpdd_\w+(?= \{)|^\tPDD_\w+(?= = )|^#define \KPDD_\w+(?= +[U(0-9])' . |
	tr -d '\t' | grep -v '^PDD_VERSION_' | sort) \
	<(grep -oP '^[SN]\(\K\w+' "$here/layout.def" | sort); then
	echo "names: < in the headers, > in layout.def"
	failed=1
fi
echo "$(grep -c '^[SMN]' "$here/layout.def") numbers by ${ccs[*]} ${cxxs[*]}"
exit "$failed"
