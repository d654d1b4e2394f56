#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# update.sh: write what is frozen of the ABI anew, from a build with fixed options: the lists of
# exports, the dumps of types, and the numbers of layout.def. Say why in the commit, and in
# CHANGELOG.md what happens to the ABI.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/packages.sh
if [ "$(uname -m)" != x86_64 ]; then
	echo "the dumps are of x86-64, and this is $(uname -m)" >&2
	exit 1
fi
pdd_install_packages cmake:cmake ninja-build:ninja gcc:gcc abigail-tools:abidw libxxhash-dev

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	-DCMAKE_C_FLAGS_RELWITHDEBINFO="-O2 -g" -DPDD_CHECKS=0 -DPDD_BUILD_TESTS=OFF \
	-DPDD_BUILD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --target pagededup pagededup_linux -- --quiet

for name in libpagededup libpagededup-linux; do
	{
		echo "# SPDX-License-Identifier: BSD-2-Clause"
		tests/abi/exported.sh "$build/$name.so"
	} >"tests/abi/$name.symbols"
	# Paths are those of sources in this tree, wherever that is.
	abidw --headers-dir include --drop-private-types --exported-interfaces-only \
		--no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
		--type-id-style hash "$build/$name.so" |
		sed "s|path='$PWD/|path='|" >"tests/abi/$name.abi"
done

gcc -std=c11 -Iinclude -o "$build/layout" -DPDD_PRINT tests/abi/layout.c
"$build/layout" >"$build/layout.def"
cp "$build/layout.def" tests/abi/layout.def
git --no-pager diff --stat -- tests/abi
