#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# analyse.sh [clang-tidy | cppcheck] [<folder>...]: static analysis by both or one of them, of the
# given folders or of all that is compiled; of their headers as well. Prints every report and their
# number, and exits with 1 if there is any. Uses build/analyse of this tree.
#
# Checks are chosen in .clang-tidy and tests/cppcheck.supp, each that is off with its reason. A
# single report that is wrong is silenced where it stands, by NOLINT or cppcheck-suppress, with a
# reason.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/packages.sh

build=build/analyse
case ${1-} in
clang-tidy | cppcheck)
	tools=$1
	shift
	;;
-*)
	echo "usage: $0 [clang-tidy | cppcheck] [<folder>...]" >&2
	exit 2
	;;
*) tools="clang-tidy cppcheck" ;;
esac
folders=("$@")
[ ${#folders[@]} -gt 0 ] || folders=(lib examples bench tests)
for folder in "${folders[@]}"; do
	if [ ! -d "$folder" ]; then
		echo "no such folder: $folder" >&2
		exit 2
	fi
done

packages=(cmake:cmake ninja-build:ninja clang:clang jq:jq libxxhash-dev libcmocka-dev
	pkg-config:pkg-config)
for tool in $tools; do
	packages+=("$tool:$tool")
done
pdd_install_packages "${packages[@]}" || exit 2

# Nothing is built: it is asked how each file would be compiled, with assertions, which tell the
# analysers what callers must keep.
mkdir -p "$build"
if ! cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
	-DPDD_CHECKS=1 >"$build/cmake.log" 2>&1; then
	cat "$build/cmake.log"
	exit 2
fi
# Each file once, however often it is compiled.
mapfile -t files < <(jq -r '.[].file' "$build/compile_commands.json" | sort -u |
	grep -E "^$PWD/($(IFS='|'; echo "${folders[*]%/}"))/.*\.c\$")
if [ ${#files[@]} -eq 0 ]; then
	echo "nothing is compiled in ${folders[*]}" >&2
	exit 2
fi

# A file that cannot be compiled is an error, and counts as a report.
run_clang_tidy() {
	printf '%s\0' "${files[@]}" |
		xargs -0 -n 4 -P "${PDD_JOBS:-$(nproc)}" clang-tidy -p "$build" --quiet 2>/dev/null
}

# cppcheck_files <what is enabled> <file>...
cppcheck_files() {
	[ $# -gt 1 ] || return 0
	cppcheck --std=c11 --enable="$1" --inline-suppr --quiet -j "${PDD_JOBS:-$(nproc)}" \
		--suppressions-list=tests/cppcheck.supp \
		--template='{file}:{line}:{column}: {severity}: {message} [{id}]' \
		-Iinclude -Ilib -Itests/support -Ibench -DPDD_CHECKS=1 -D__linux__ -D__x86_64__ \
		"${@:2}" 2>&1
}

# Style is for what is shipped and shown. In tests and benchmarks it takes what others, or the
# hooks, change meanwhile for constant.
run_cppcheck() {
	local file shown=() others=()

	for file in "${files[@]}"; do
		case $file in
		"$PWD"/tests/* | "$PWD"/bench/*) others+=("$file") ;;
		*) shown+=("$file") ;;
		esac
	done
	cppcheck_files warning,performance,portability,style "${shown[@]}"
	cppcheck_files warning,performance,portability "${others[@]}"
}

reports=0
for tool in $tools; do
	start=$SECONDS
	output=$("run_${tool//-/_}")
	status=$?
	# Headers are reported with each file that includes them.
	n=$(grep -E '^[^ ]+:[0-9]+:[0-9]+: [a-z]+: .*\[[^ ]+\]$' <<<"$output" |
		grep -v ': note: ' | sort -u | tee /dev/stderr | wc -l)
	if [ "$status" -ne 0 ] && [ "$n" -eq 0 ]; then
		echo "$tool failed"
		n=1
	fi
	reports=$((reports + n))
	echo "$tool: $n reports on ${#files[@]} files, $((SECONDS - start)) s"
done
[ "$reports" -eq 0 ]
