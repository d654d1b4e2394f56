#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# planted.sh [NUMBER...]: mistakes that were planted by hand, each of which a named test must see.
#
# planted/NN-name.patch is a mistake in lib/ or include/; mostly one that KSM had once (the known
# bugs of tests/scenario/test_known_bugs_registration.c). Its first line says what is broken, and
# ends with "Test: folder/name", the test that fails then.
#
# One scratch tree, build/planted, is built once, without internal checks: what is seen is seen by
# the test. Each patch is applied there, the one test is built and run, and the patch taken back.
# A test that takes two minutes hangs, which is failing. Exits with 1 if a patch does not apply, the
# tree does not build, or the test passes with the mistake or fails without it; with 77 where this
# cannot run. The number of compilations at once is that of CMAKE_BUILD_PARALLEL_LEVEL.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
scratch=$root/build/planted
tree=$scratch/tree
export GIT_CEILING_DIRECTORIES=$scratch # else git would take the tree for a part of this repository
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
bad=0 killed=0

for tool in git cmake ninja pkg-config; do
	if ! command -v "$tool" >/dev/null; then
		echo "planted.sh needs $tool"
		exit 77
	fi
done

# A copy, in which files that are the same stay untouched, so that little is built again.
refresh() {
	local part one other
	mkdir -p "$tree" || return
	for part in bench CHANGELOG.md CMakeLists.txt LICENSE README.md cmake docs include lib \
		pkgconfig tests; do
		[ -e "$tree/$part" ] || cp -r "$root/$part" "$tree/$part" || return
		while read -r one other; do
			case $other in
			"$tree"/*)
				if [ -e "$one" ]; then
					cp -r "$one" "$other" || return
				else
					rm -r "$other" || return
				fi
				;;
			*) return 1 ;;
			esac
		done < <(LC_ALL=C diff -rq "$root/$part" "$tree/$part" | sed -E \
			"s,^Files (.*) and (.*) differ$,\1 \2,
			s,^Only in ($root|$tree)([^:]*): (.*)$,$root\2/\3 $tree\2/\3,")
	done
}

# Whether the sources are those that are to be tested.
is_same() {
	diff -rq "$root/lib" "$tree/lib" >/dev/null && diff -rq "$root/include" "$tree/include" >/dev/null
}

# build <test>
build() {
	ninja -C "$scratch/build" -j "$jobs" "${1/\//_test_}" >"$scratch/log" 2>&1
}

# run <test>: its exit status
run() {
	# In a shell of its own, which is to say nothing if it crashes.
	(timeout 120 "$scratch/build/tests/${1/\//\/test_}" >"$scratch/log" 2>&1 </dev/null) 2>/dev/null
}

# complain <line>
complain() {
	echo "$1"
	bad=$((bad + 1))
}

try() {
	local patch=$1 how='' name test status
	name=$(basename "$patch" .patch)
	test=$(sed -n '1s/.*\. Test: \([a-z]*\/[a-z0-9_]*\)$/\1/p' "$patch")
	if [ -z "$test" ] || [ ! -e "$tree/tests/${test/\//\/test_}.c" ]; then
		complain "${name%%-*} ${name#*-}: its first line names no test"
		return
	fi
	# It must pass without the mistake: once for each test.
	if [ -z "${passes[$test]:-}" ]; then
		if ! build "$test"; then
			cat "$scratch/log"
			complain "${name%%-*} ${name#*-}: $test does not build without the mistake"
			return
		fi
		run "$test"
		status=$?
		if [ $status -ne 0 ]; then
			complain "${name%%-*} ${name#*-}: $test exits with $status without the mistake"
			return
		fi
		passes[$test]=1
	fi
	# git leaves files out, without an error, that it takes for those of another repository.
	if ! (cd "$tree" && git apply "$patch") 2>"$scratch/log" || is_same; then
		cat "$scratch/log"
		complain "${name%%-*} ${name#*-}: the patch does not apply"
		return
	fi
	if build "$test"; then
		run "$test"
		status=$?
		if [ $status -eq 0 ] || [ $status -eq 77 ]; then
			complain "${name%%-*} ${name#*-}: $test: NOT KILLED"
		else
			[ $status -eq 124 ] && how=", it hangs"
			echo "${name%%-*} ${name#*-}: $test: killed$how"
			killed=$((killed + 1))
		fi
	else
		tail -n 20 "$scratch/log"
		complain "${name%%-*} ${name#*-}: the tree does not build with it"
	fi
	if ! (cd "$tree" && git apply --reverse "$patch") || ! is_same; then
		echo "$name cannot be taken back"
		exit 1
	fi
}

declare -A passes
if ! refresh; then
	echo "no scratch copy could be made in $tree"
	exit 1
fi
if ! cmake -S "$tree" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O1 \
	-DPDD_CHECKS=0 -DPDD_BUILD_LINUX=OFF -DPDD_BUILD_EXAMPLES=OFF \
	-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF >"$scratch/log" 2>&1; then
	cat "$scratch/log"
	echo "the scratch tree cannot be configured"
	exit 1
fi
[ $# -gt 0 ] || set -- ''
for number; do
	for patch in "$root/tests/quality/planted/$number"*.patch; do
		if [ -e "$patch" ]; then
			try "$patch"
		else
			complain "there is no patch ${number:-at all}"
		fi
	done
done
echo "$killed planted mistakes were killed, $bad not"
[ "$bad" -eq 0 ] && [ "$killed" -gt 0 ]
