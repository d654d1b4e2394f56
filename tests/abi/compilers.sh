# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# To be sourced.

# compilers <name>...: those that are there, each once, whatever names it goes by.
compilers() {
	local name path real
	declare -A seen=()
	for name in "$@"; do
		path=$(command -v "$name") || continue
		real=$(readlink -f "$path")
		[ -z "${seen[$real]:-}" ] || continue
		seen[$real]=1
		echo "$path"
	done
}
