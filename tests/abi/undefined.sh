#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# undefined.sh <object>...: the core, linked to one object, needs the four functions that every
# freestanding C compiler may call, and nothing else.
set -euo pipefail

merged=$(mktemp)
trap 'rm -f "$merged"' EXIT
ld -r -o "$merged" "$@"
# The global offset table is made by the linker.
if nm -u --format=posix "$merged" | awk '{ print $1 }' |
	grep -vxE 'mem(cmp|cpy|move|set)|_GLOBAL_OFFSET_TABLE_'; then
	echo "the core needs the symbols above; allowed are memcmp, memcpy, memmove and memset"
	nm -uA "$@"
	exit 1
fi
