#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exported.sh <shared library>: what it exports, <name>@@<version> a line, sorted; what is no
# function is marked with its letter of nm.
set -euo pipefail
export LC_ALL=C

# The version node is listed too, as an absolute symbol (A).
nm -D --defined-only --format=posix "$1" |
	awk '$2 == "A" && $1 !~ /@/ { next } { print $1 ($2 == "T" ? "" : " " $2) }' | sort
