#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# undefined.sh <object>...: the core, linked to one object, needs the four functions that every
# freestanding C compiler may call, and nothing else: xxHash is inlined. What it gives has its own
# prefixes, it has no variables, and not even an instruction that calls the system.
set -euo pipefail

merged=$(mktemp)
trap 'rm -f "$merged"' EXIT
ld -r -o "$merged" "$@"
failed=0

# complain_of <text> <what is wrong, by lines; empty: nothing>
complain_of() {
	[ -n "$2" ] || return 0
	printf '%s\n%s\n' "$2" "the core $1"
	failed=1
}

# The global offset table is made by the linker.
needed=$(nm -u --format=posix "$merged" | awk '$1 != "_GLOBAL_OFFSET_TABLE_" { print $1 }')
complain_of "needs these; allowed are memcmp, memcpy, memmove and memset" \
	"$(grep -vxE 'mem(cmp|cpy|move|set)' <<<"$needed")"
complain_of "has these global symbols; they should be called pdd_* or pddi_*" \
	"$(nm -g --defined-only --format=posix "$merged" | awk '$1 !~ /^pddi?_/ { print $1 }')"
# What the loader makes read-only once it is relocated, as tables of names, is no variable.
complain_of "has variables" \
	"$(objdump --section-headers --wide "$merged" |
		awk '$2 ~ /^\.(t?data|t?bss)(\.|$)/ && $2 !~ /^\.data\.rel\.ro/ && $3 ~ /[1-9a-f]/')"
complain_of "calls the system" \
	"$(objdump --disassemble --no-show-raw-insn "$merged" |
		grep -wE 'syscall|sysenter|int +\$0x80|svc' || true)"
[ "$failed" -eq 0 ] || nm -uA "$@"
echo "needs" $needed
exit "$failed"
