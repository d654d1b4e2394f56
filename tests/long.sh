#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What tests/run.sh --long runs: tests that the normal run has in small, with large numbers. One line
# for each part, with what was counted and how long it took; what a part says is in build/long. It
# fails if the test does, or if it did less than it should.
#
# PDD_PERCENT is how much of all that is done, 100 if it is not set; PDD_SEED the first seed.
#
# The last line is "N passed, N failed, N skipped", of parts. Exits with 0 only if something passed
# and nothing failed.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/packages.sh

percent=${PDD_PERCENT-100} seed=${PDD_SEED-$(date +%s)} jobs=$(nproc)
case $percent in
'' | *[!0-9]* | 0*) echo "tests/long.sh: PDD_PERCENT is a number of at least 1" >&2 && exit 2 ;;
esac
logs=build/long passed=0 failed=0 skipped=0
mkdir -p "$logs"

# line <name> <value>
line() {
	printf '%-30s %-66s %5d s\n' "$1" "$2" $((SECONDS - began))
}

pass() {
	line "$@"
	passed=$((passed + 1))
}

fail() {
	line "$1" "FAILED: $2"
	failed=$((failed + 1))
}

skip() {
	line "$1" "skipped: $2"
	skipped=$((skipped + 1))
}

# of <number>: so much of it as is to be done, at least 1.
of() {
	local n=$(($1 * percent / 100))
	echo $((n ? n : 1))
}

# part <name> <regular expression> <least> <what> <command>... runs the command, and adds up what
# the expression's first group matches in what it says: numbers, of which at least so many there
# must be.
part() {
	local name=$1 expression=$2 least=$3 what=$4 log=$logs/${1//[^a-z0-9_]/-}.log status sum
	shift 4
	began=$SECONDS
	"$@" </dev/null >"$log" 2>&1
	status=$?
	sum=$(sum "$expression" "$log")
	if [ "$status" -ne 0 ]; then
		fail "$name" "exit status $status, see $log"
	elif [ "$sum" -lt "$least" ]; then
		fail "$name" "$sum $what, at least $least are meant"
	else
		pass "$name" "$sum $what"
	fi
}

sum() {
	sed -nE "s/$1/\\1/p" "$2" | awk '{ n += $1 } END { printf "%d\n", n }'
}

# side_by_side <rounds> <program>: the rounds are shared out among as many processes as there are
# processors, each with seeds of its own.
side_by_side() {
	local each=$((($1 + jobs - 1) / jobs)) pids=() status=0 i
	for ((i = 0; i < jobs; i++)); do
		PDD_SEED=$((seed + i * each)) PDD_ROUNDS=$each PDD_SCRIPTS=$logs "$2" \
			>"$logs/process-$i" 2>&1 &
		pids+=($!)
	done
	for ((i = 0; i < jobs; i++)); do
		wait "${pids[i]}" || status=1
	done
	for ((i = 0; i < jobs; i++)); do
		cat "$logs/process-$i"
	done
	return "$status"
}

# repeat <times> <program>: with a seed for each time.
repeat() {
	local i
	for ((i = 0; i < $1; i++)); do
		PDD_SEED=$((seed + i)) "${launch[@]}" "$2" || return
	done
}

# build <preset> [<option>...]
build() {
	local preset=$1
	shift
	cmake --preset "$preset" "$@" && cmake --build --preset "$preset" -- --quiet
}

# ---- parts ----

# 10 million operations, half of them while 1 % of all calls of hooks fail, half while 20 % do; the
# rest, every ninth seed, without failures. A seed is 400 operations.
model() {
	local rounds log=$logs/model.log half
	rounds=$(of 28800)
	half=$(of 5000000)
	part model '^ *[0-9]+ %: ([0-9]+) operations, .*' $((half * 2)) operations \
		side_by_side "$rounds" "$release/model/test_model"
	for chance in 1 20; do
		began=$SECONDS
		part "model, $chance % failures" "^ *$chance %: ([0-9]+) operations, .*" "$half" \
			"operations, $(sum "^ *$chance %: .*, ([0-9]+) seeds.*" "$log") seeds" cat "$log"
	done
}

torture() {
	local tests=$1 name=$2
	part "$name: threads" '.* threads: ([0-9]+) steps, .*' "$(of 200000)" steps \
		env PDD_SEED="$seed" PDD_SECONDS="$(of 500 | awk '{ print $1 / 100 }')" \
		"${launch[@]}" "$tests/torture/test_threads"
	part "$name: quiet threads" '.* threads: +([0-9]+) \+ .* passes.*' "$(of 800)" passes \
		repeat "$(of 10)" "$tests/torture/test_threads_quiet"
	part "$name: quiesce" '^([0-9]+) times quiet.*' "$(of 100000)" "times quiet" \
		env PDD_SEED="$seed" PDD_ROUNDS="$(of 100000)" "${launch[@]}" \
		"$tests/torture/test_quiesce"
}

# Nothing of it is scaled: in less time a world of threads cannot begin there.
helgrind() {
	part "helgrind: $1" '^no report; ([0-9]+) .*' "$2" "orders of atomic operations" \
		env PDD_SEED="$seed" PDD_SECONDS=2 PDD_STEPPERS= PDD_ROUNDS=3000 \
		bash tests/helgrind/run.sh "$release/helgrind/$1"
}

# All that there is, so the numbers are known.
exhaustive() {
	part "exhaustive: $1" '^depth 1: ([0-9]+) cases$' "$2" cases \
		env PDD_DEPTH=1 "$release/exhaustive/test_$1"
}

fuzz() {
	local seconds target
	seconds=$(of 120)
	if ! pdd_install_packages clang:clang libclang-rt-14-dev >"$logs/packages.log" 2>&1; then
		began=$SECONDS
		skip fuzz "there is no clang, see $logs/packages.log"
		return
	fi
	for target in script index image mappings; do
		part "fuzz: $target" "^$target: ([0-9]+) executions, .*" $((seconds * 20)) executions \
			tests/fuzz/run.sh "$seconds" "$target"
	done
}

echo "PDD_SEED=$seed, $percent %"
launch=() release=build/release/tests
began=$SECONDS
if ! build release -DPDD_MEMCHECK=ON >"$logs/build.log" 2>&1; then
	fail build "see $logs/build.log"
else
	model
	part property '^([0-9]+) operations, .*' "$(of 2000000)" "operations of both tests" \
		side_by_side "$(of 4000)" "$release/model/test_property"
	part million_operations '^([0-9]+) operations$' "$(of 20000000)" operations \
		env PDD_OPERATIONS="$(of 20000000)" PDD_SEED="$seed" \
		"$release/scenario/test_million_operations"
	torture "$release" release
	exhaustive rbtree_shapes 26344343
	exhaustive augment_shapes 5843
	exhaustive interval_shapes 544275
	exhaustive chains 188806
	exhaustive worlds 2009467
	helgrind threads 300000
	helgrind quiesce 20000
fi

# As in run.sh: this sanitizer cannot start where addresses are too random.
began=$SECONDS
if ! build tsan >"$logs/build-tsan.log" 2>&1; then
	fail "build of tsan" "see $logs/build-tsan.log"
else
	if setarch --addr-no-randomize true 2>/dev/null; then
		launch=(setarch --addr-no-randomize)
	fi
	torture build/tsan/tests tsan
fi
fuzz
if [ -f tests/quality.sh ]; then # it has bounds of its own for what it measures
	began=$SECONDS
	if bash tests/quality.sh </dev/null >"$logs/quality.log" 2>&1; then
		pass quality "$(tail -n 1 "$logs/quality.log" | cut -c 1-66)"
	else
		fail quality "see $logs/quality.log"
	fi
fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
