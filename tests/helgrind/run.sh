#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run.sh PROGRAM: runs it under Helgrind, which must not report anything; and once more without
# knowledge of atomic operations (start.c), when it must. PDD_ROUNDS, PDD_SECONDS and PDD_STEPPERS are
# the program's (small ones if they are not set).
set -uo pipefail

program=$1
export PDD_ROUNDS=${PDD_ROUNDS-300} PDD_SECONDS=${PDD_SECONDS-0.5}
export PDD_STEPPERS=${PDD_STEPPERS-2}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Spaces are tried while the scanner's lock is held, which their owners take in the reverse order.
# A try waits for nobody, but Helgrind counts it as waiting: so it is not asked for the order of
# locks. The hooks themselves check it at each call (live_contract.c, live_spaces.c).
helgrind() {
	valgrind --tool=helgrind --quiet --error-exitcode=99 --fair-sched=yes \
		--track-lockorders=no "$@" "$program" >"$log" 2>&1
}

helgrind --history-level=approx
status=$?
if [ "$status" -ne 0 ]; then
	cat "$log"
	echo "exit status $status"
	exit 1
fi
grep -hE '^(PDD_SEED|[0-9]+ threads)' "$log"
orders=$(sed -n 's/^Helgrind was told of \([0-9]*\) orders$/\1/p' "$log")
if [ "${orders:-0}" -lt 1000 ]; then
	echo "Helgrind was told of ${orders:-no} orders only"
	exit 1
fi
echo "no report; $orders atomic operations order something"

PDD_ALL_RELAXED=1 helgrind --history-level=none --exit-on-first-error=yes
status=$?
if [ "$status" -eq 0 ] || ! grep -q "Possible data race" "$log"; then
	cat "$log"
	echo "exit status $status without the orders of atomic operations, and no race is reported"
	exit 1
fi
echo "without their order there is a race"
