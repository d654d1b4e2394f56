#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# s31: counters in pages that are merged all the time come out exact; and they do not if pages are
# not held, which shows that the run would notice.
. "${PDD_SOURCE_DIR:?}/tests/support/images.sh"

# run PROGRAM SECONDS: its JSON in $got, its exit status in $status
run() {
	status=0
	got=$("$PDD_BUILD_DIR/examples/$1" --json --writers 2 --seconds "$2" \
		"$dir/1" "$dir/2" "$dir/3" "$dir/4") || status=$?
	echo "$1: exit $status: $got"
}

for i in 1 2 3 4; do
	"$make" guestlike 8192 "$i" "$dir/$i"
done

run guest-dedup 8
[ "$status" = 0 ] || fail "exit $status"
[ "$(field lost_increments "$got")" = 0 ] || fail "increments were lost"
[ "$(field increments "$got")" -gt 10000 ] || fail "hardly any increments"
[ "$(field written_pages_merged "$got")" -gt 1000 ] || fail "hardly any merges of written pages"

# Without holding. Several tries, since it is a matter of chance when writes are lost.
tries=0 lost=0
while [ "$lost" -eq 0 ] && [ "$tries" -lt 15 ]; do
	run guest-dedup-nohold 5
	lost=$(field lost_increments "$got")
	tries=$((tries + 1))
done
[ "$lost" -gt 0 ] || fail "no increment was lost though pages were not held"
[ "$status" = 1 ] || fail "exit $status though increments were lost"
exit "$failed"
