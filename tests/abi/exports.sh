#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exports.sh <prefix> <shared library>: it exports something, and nothing without the prefix.
set -euo pipefail

prefix=$1 library=$2
# The version node is listed too, as an absolute symbol (A).
exports=$(nm -D --defined-only --format=posix "$library" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }')
if [ -z "$exports" ]; then
	echo "$library exports nothing"
	exit 1
fi
if grep -v "^$prefix" <<<"$exports"; then
	echo "$library: the exports above do not start with $prefix"
	exit 1
fi
echo "$(wc -l <<<"$exports") exports"
