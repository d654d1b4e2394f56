#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# abidiff.sh <shared library>: functions, and the public types that they lead to, are those of the
# dump beside this file, to the last member. Whatever it reports is a change of the ABI. If that is
# meant, update.sh writes the dump anew, and CHANGELOG.md says what happens.
set -euo pipefail

library=$1
name=$(basename "$library")
dump=$(dirname "${BASH_SOURCE[0]}")/${name%%.so*}.abi

skip() {
	echo "$1"
	exit 77
}

[ "$(uname -m)" = x86_64 ] || skip "the dump is of x86-64, and this is $(uname -m)"
command -v abidiff >/dev/null || skip "there is no abidiff: apt-get install abigail-tools"
readelf --section-headers --wide "$library" | grep -q '\.debug_info' ||
	skip "$library has no debug information: build with -g"

# Without --headers-dir2: what is private is out of the dump, and with it abidiff takes the dump's
# types, which come from nowhere, for private ones.
abidiff --leaf-changes-only --exported-interfaces-only --no-show-locs --fail-no-debug-info \
	"$dump" "$library"
echo "as in $(basename "$dump")"
