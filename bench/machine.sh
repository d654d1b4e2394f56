#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# machine.sh BUILD_DIR DATE LOAD QUICK: what a run of benchmarks ran on, as one line of JSON. DATE
# and LOAD (of 1, 5 and 15 minutes) are those at its begin; QUICK is yes or no.
set -uo pipefail
export LC_ALL=C

build=$1
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1

cpu() { # what lscpu calls $1
	lscpu | sed -n "s/^ *$1: *//p" | sed -n 1p
}

# As this kernel sees it; behind a hypervisor the last one may be shared with others.
cache() {
	local bytes
	bytes=$(getconf "LEVEL$1_CACHE_SIZE" 2>/dev/null)
	echo "L$1 $((${bytes:-0} / 1024)) KiB"
}

# A kernel may run under a hypervisor that lscpu does not know by name.
virtualised() {
	local vendor
	vendor=$(cpu 'Hypervisor vendor')
	if [ -n "$vendor" ] || grep -qw hypervisor /proc/cpuinfo; then
		echo "yes${vendor:+ ($vendor)}"
	else
		echo "not that the processor says so"
	fi
}

memory_mib() { # a line of /proc/meminfo
	awk -v name="$1:" '$1 == name { print int($2 / 1024) }' /proc/meminfo
}

cached() { # an entry of the build folder
	sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"
}

chosen() { # of a file like "always [madvise] never"
	sed -n 's/.*\[\(.*\)\].*/\1/p' "$1" 2>/dev/null
}

commit() {
	local git=(git -c safe.directory='*' -C "$source_dir") id
	id=$("${git[@]}" rev-parse --short=12 HEAD 2>/dev/null) || { echo "unknown" && return; }
	"${git[@]}" diff-index --quiet HEAD -- 2>/dev/null || id="$id, and changes"
	echo "$id"
}

compiler() {
	local type flags
	type=$(cached CMAKE_BUILD_TYPE)
	flags=$(cached "CMAKE_C_FLAGS_${type^^}")
	echo "$("$(cached CMAKE_C_COMPILER)" --version | sed -n 1p), $type ($flags)," \
		"internal checks $(cached PDD_CHECKS)"
}

governor() {
	cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null || echo "not shown"
}

thp=/sys/kernel/mm/transparent_hugepage
jq -cn --arg date "$2" --arg commit "$(commit)" --arg cpu "$(cpu 'Model name')" \
	--argjson cores "$(nproc)" \
	--arg caches "$(cache 2), $(cache 3)" \
	--arg virtualised "$(virtualised)" \
	--argjson memory_mib "$(memory_mib MemTotal)" \
	--argjson available_mib "$(memory_mib MemAvailable)" \
	--argjson swap_mib "$(memory_mib SwapTotal)" \
	--arg kernel "$(uname -sr)" \
	--arg huge_pages "$(chosen $thp/enabled), defrag $(chosen $thp/defrag)" \
	--arg governor "$(governor)" \
	--arg compiler "$(compiler)" \
	--arg load_at_begin "$3" --arg load_at_end "$(cut -d ' ' -f 1-3 /proc/loadavg)" \
	--argjson quick "$([ "$4" = no ] && echo false || echo true)" \
	'$ARGS.named'
