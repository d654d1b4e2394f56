#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run.sh [--quick] [--as-is] [--only NAME]... [--except NAME]... [BUILD_DIR]
#
# Runs all benchmarks, one after the other, so that none disturbs another. docs/benchmarks.md says
# what they measure.
#
#	--quick        small sizes and few rounds, below two minutes: shows that all of it works. The
#	               figures mean little, and go to BUILD_DIR/bench-results-quick
#	--as-is        installs and builds nothing; what is missing is skipped
#	--only NAME    this one, and others given so: unique mirror scale threads ksm alignment
#	               contention idle rmap sparse collisions micro processes
#	--except NAME  not this one. "--except ksm" changes no setting of the system
#	BUILD_DIR      a configured one; build/release by default, which is configured and built
#
# BUILD_DIR/bench-results/ is made anew, and what was there stays as bench-results.before/:
#
#	NAME.jsonl NAME.csv  rows of a benchmark: as it printed them, and as a table
#	NAME.log             its words
#	runs.jsonl runs.csv  each program that was started: its arguments, how it ended, seconds
#	machine.jsonl        what it ran on
#	*.svg                plots
#	summary.md           the section "A run" of docs/benchmarks.md
#
# A benchmark that cannot run here exits with 77 and is recorded as skipped, with its reason. Sizes
# that do not fit into the available memory are cut down, which is recorded too. One that fails is
# recorded, its rows are put aside (NAME.failed), the others still run, and run.sh exits with 1.
#
# SIGINT, SIGTERM and SIGHUP are passed on to the program that runs, which restores what it changed
# (only bench_ksm changes settings); run.sh waits for it, and exits with 128 + the signal's number.
set -uo pipefail
export LC_ALL=C

all=(unique mirror scale threads ksm alignment contention idle rmap sparse collisions micro
	processes)
only=() except=() quick='' as_is='' build='' child='' status=0
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
. "$source_dir/tests/packages.sh"
. "$source_dir/bench/cases.sh"

say() { printf '\n== %s\n' "$*"; }
die() { echo "bench/run.sh: $*" >&2; exit 1; }

usage() {
	sed -n 's/^# \(run.sh \[.*\)/usage: bench\/\1/p' "${BASH_SOURCE[0]}" >&2
	echo "names: ${all[*]}" >&2
	exit 2
}

is_in() { # WORD WORD...
	local word=$1
	shift
	case " $* " in *" $word "*) ;; *) return 1 ;; esac
}

parse_arguments() {
	while [ $# -gt 0 ]; do
		case $1 in
		--quick) quick=yes ;;
		--as-is) as_is=yes ;;
		--only | --except)
			{ [ $# -ge 2 ] && is_in "$2" "${all[@]}"; } || usage
			if [ "$1" = --only ]; then only+=("$2"); else except+=("$2"); fi
			shift
			;;
		-*) usage ;;
		*)
			[ -z "$build" ] || usage
			build=$1
			;;
		esac
		shift
	done
}

is_wanted() {
	{ [ ${#only[@]} -eq 0 ] || is_in "$1" "${only[@]}"; } && ! is_in "$1" "${except[@]:-}"
}

# ---- what is needed ----

install_packages() {
	if [ -z "$as_is" ]; then
		pdd_install_packages cmake:cmake ninja-build:ninja gcc:cc g++:c++ libc6-dev \
			pkg-config:pkg-config libxxhash-dev libcmocka-dev libbenchmark-dev libbsd-dev \
			jq:jq gnuplot-nox:gnuplot hyperfine:hyperfine || exit 1
	elif ! command -v jq >/dev/null; then
		echo "jq is missing, which makes the tables"
		exit 77
	fi
}

build_programs() {
	local log=$results/build.log
	[ -z "$as_is" ] || return 0
	say "building"
	if [ "$build" = "$source_dir/build/release" ]; then
		(cd "$source_dir" && cmake --preset release) >"$log" 2>&1 || { tail "$log"; die "configuring"; }
	fi
	cmake --build "$build" >>"$log" 2>&1 || { tail -n 30 "$log"; die "building"; }
}

# The images of guests that examples/demo.sh makes, too. --quick takes two of them as they are.
images=() no_images="no images: examples/make-guests.sh -n 4 -m 256 build/guests makes them"
find_images() {
	local guests=$source_dir/build/guests
	{ is_wanted ksm || is_wanted processes; } || return 0
	if [ ! -f "$guests/guest-4.ram" ] && [ -z "$quick$as_is" ]; then
		say "four guests of 256 MiB"
		pdd_install_packages qemu-system-x86:qemu-system-x86_64 busybox-static:busybox \
			cpio:cpio && bash "$source_dir/examples/make-guests.sh" -n 4 -m 256 "$guests"
	fi
	[ ! -f "$guests/guest-4.ram" ] || images=("$guests"/guest-{1..4}.ram)
	[ -z "$quick" ] || images=("${images[@]:0:2}")
}

# ---- running ----

# Its own process group gets the signal: a program may have children. They are all ended, and what
# was changed is restored, before this script ends.
interrupted() {
	trap '' HUP INT TERM
	if [ -n "$child" ]; then
		kill -TERM -- "-$child" 2>/dev/null
		wait "$child"
	fi
	echo "bench/run.sh: interrupted; what was measured so far is in $results" >&2
	exit $((128 + $1))
}

# Sets arguments: those of a command, as they are shown.
shown() {
	arguments=${*:2}
	arguments=${arguments//$build/BUILD_DIR}
	arguments=${arguments//$source_dir\//}
}

# record NAME STATUS EXIT SECONDS REASON COMMAND...
record() {
	local arguments
	shown "${@:6}"
	jq -cn --arg bench "$1" --arg status "$2" --argjson exit "$3" --argjson seconds "$4" \
		--arg reason "$5" --arg program "${6##*/}" \
		--arg arguments "$arguments" \
		'{$bench, $program, $arguments, $status, $exit, $seconds, $reason}' >>"$results/runs.jsonl"
	echo "   $2, $4 s${5:+: $5}"
	[ "$2" != failed ] || status=1
}

# skip NAME REASON COMMAND...
skip() { record "$1" skipped null 0 "${@:2}"; }

# run NAME COMMAND...: its output becomes rows of NAME, if it ends well. $note is kept with it.
note=''
run() {
	local name=$1 out=$results/$1.part log=$results/$1.log begin=${EPOCHREALTIME/./} ret how=ok
	local why=$note seconds arguments
	shift
	note=
	shown "$@"
	say "${1##*/} $arguments"
	if [ ! -x "$1" ] && ! command -v "$1" >/dev/null; then
		skip "$name" "it was not built, or is not installed" "$@"
		return
	fi
	set -m # a process group of its own; and SIGINT is not ignored in it
	"$@" </dev/null >"$out" 2>"$results/errors" &
	child=$!
	set +m
	wait "$child"
	ret=$?
	child=
	cat "$results/errors" >>"$log"
	seconds=$(awk -v us=$((${EPOCHREALTIME/./} - begin)) 'BEGIN { printf "%.1f", us / 1e6 }')
	case $ret in
	0)
		cat "$out" >>"$results/$name.jsonl"
		[ -s "$out" ] || how=failed why="it printed no row"
		;;
	77) how=skipped why=$(tail -n 1 "$results/errors" | sed "s/^[a-z_]*: //") ;;
	*)
		how=failed why="exit status $ret. $(tail -n 1 "$results/errors")"
		cat "$out" >>"$results/$name.failed"
		;;
	esac
	rm -f "$out" "$results/errors"
	record "$name" "$how" "$ret" "$seconds" "$why" "$@"
}

# fit MIB LEAST: sets mib to what of MIB, halved as often as need be, fits into the memory that is
# available, with a quarter more for records of pages; false if not even LEAST does.
fit() {
	local available
	available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
	mib=$1 note=
	while [ "$((mib / 2))" -ge "$2" ] && [ $((mib * 5 / 4)) -gt "$available" ]; do
		mib=$((mib / 2))
	done
	if [ $((mib * 5 / 4)) -gt "$available" ]; then
		note="does not fit: $available MiB are available"
		return 1
	fi
	[ "$mib" -eq "$1" ] || note="cut down from $1 to $mib MiB: $available are available"
}

# run_fitting MIB LEAST NAME COMMAND...: the size that fits becomes the last argument.
run_fitting() {
	local name=$3
	if fit "$1" "$2"; then
		run "$name" "${@:4}" "$mib"
	else
		skip "$name" "$note" "${@:4}" "$1"
		note=
	fi
}

# ---- the whole ----

make_plots() {
	local script name
	if ! command -v gnuplot >/dev/null; then
		echo "no plots: gnuplot is missing"
		return
	fi
	for script in "$source_dir"/bench/plots/*.gp; do
		name=$(basename "$script" .gp)
		[ -s "$results/$name.csv" ] || continue
		if ! (cd "$results" && gnuplot "$script" && [ -s "$name.svg" ]); then
			echo "bench/run.sh: no plot $name.svg" >&2
			status=1
		fi
	done
}

make_tables() {
	local rows
	for rows in "$results"/*.jsonl; do
		jq -rs -f "$source_dir/bench/to_csv.jq" "$rows" >"${rows%.jsonl}.csv" || status=1
	done
}

parse_arguments "$@"
build=$(cd "$source_dir" && realpath -m "${build:-build/release}")
bench=$build/bench
results=$build/bench-results${quick:+-quick}
install_packages
[ -f "$build/CMakeCache.txt" ] || [ "$build" = "$source_dir/build/release" ] ||
	die "$build is not configured"
mkdir -p "$build"
if [ -d "$results" ]; then
	rm -rf "$results.before"
	mv "$results" "$results.before"
fi
mkdir "$results" || exit 1
trap 'interrupted 1' HUP
trap 'interrupted 2' INT
trap 'interrupted 15' TERM
build_programs
find_images
load_at_begin=$(cut -d ' ' -f 1-3 /proc/loadavg)
date_at_begin=$(date --utc +'%Y-%m-%d %H:%M UTC')
for name in "${all[@]}"; do
	! is_wanted "$name" || "bench_$name"
done
bash "$source_dir/bench/machine.sh" "$build" "$date_at_begin" "$load_at_begin" \
	"${quick:-no}" >"$results/machine.jsonl" || status=1
make_tables
make_plots
bash "$source_dir/bench/summary.sh" "$results" >"$results/summary.md" || status=1
say "results"
jq -r '"\(.status)\t\(.seconds) s\t\(.program) \(.arguments)\t\(.reason)"' \
	"$results/runs.jsonl"
echo "$results"
exit $status
