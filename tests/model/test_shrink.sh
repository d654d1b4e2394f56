#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What becomes of a round of the model that fails: faults are planted (planted.h), each of which
# takes some operations to come about. The round must become a script of few operations, said in
# words and kept in a file; replayed as it is said there, it must fail the same way, and not without
# the fault.
set -euo pipefail

model=$PDD_BUILD_DIR/tests/model/test_model
most=12 # operations
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
	echo "$plant: $*"
	cat "$folder/said" "$folder/again" 2>/dev/null
	exit 1
}

# Of a failure, what it was: no numbers, those of regions and pages change.
way() {
	grep '^simulation' "$1" | head -n 1 | sed 's/[0-9][0-9]*/#/g'
}

for plant in belief spoil end; do
	rm -f "$folder"/*
	if PDD_PLANT=$plant PDD_SCRIPTS=$folder PDD_SEED=1000 PDD_ROUNDS=300 "$model" \
		>"$folder/said" 2>&1; then
		fail "no round failed"
	fi
	read -r from to < <(sed -nE 's/^shrunk from ([0-9]+) to ([0-9]+) operations.*/\1 \2/p' \
		"$folder/said") || fail "nothing was shrunk"
	if [ "$from" -lt 300 ] || [ "$to" -lt 2 ] || [ "$to" -gt "$most" ]; then
		fail "$from operations became $to"
	fi
	replay=$(sed -n 's/^replay: //p' "$folder/said")
	script=$(ls "$folder"/model-*.script)
	[ "$replay" = "PDD_SCRIPT=$script $model" ] || fail "how to replay it: $replay"
	[ "$(stat -c %s "$script")" -eq $((24 + to * 16)) ] || fail "the script is of another size"
	words=$(grep -cE '^ +[0-9]+: [a-z]' "$folder/said") || true
	[ "$words" -eq "$to" ] || fail "$words operations are said in words"

	status=0
	PDD_PLANT=$plant bash -c "$replay" >"$folder/again" 2>&1 || status=$?
	[ "$status" -ne 0 ] || fail "the script does not fail"
	if [ "$plant" = end ]; then # CMocka's handler tells of the signal
		grep -q "Illegal instruction" "$folder/again" || fail "it fails in another way"
		grep -q "status 0x4" "$folder/said" || fail "the round failed in another way"
	else
		[ -n "$(way "$folder/said")" ] || fail "how it failed is not said"
		[ "$(way "$folder/said")" = "$(way "$folder/again")" ] ||
			fail "it fails in another way"
	fi
	bash -c "$replay" >"$folder/again" 2>&1 || fail "it fails without the fault"
	echo "$plant: $from operations became $to"
done
