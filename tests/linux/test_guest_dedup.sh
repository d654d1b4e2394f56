#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# guest-dedup on images whose pages are known: counts, what the kernel says of the memory, domains,
# mappings, and bad input.
. "${PDD_SOURCE_DIR:?}/tests/support/images.sh"
program=$PDD_BUILD_DIR/examples/guest-dedup

# at_least WHAT A B FACTOR: A >= B * FACTOR
at_least() {
	awk -v a="$2" -v b="$3" -v f="$4" 'BEGIN { exit !(a >= b * f) }' ||
		fail "$1: $2 is less than $4 x $3"
}

compare() {
	what=$1 limit=$2
	shift 2
	expected=$("$count" --json --limit "$limit" "$@")
	got=$("$program" --json --max-page-sharing "$limit" "$@") || fail "$what: exit $?: $got"
	same_fields "$what" "$got" "$expected" pages zero shared sharing unshared
	[ "$(field differing_pages "$got")" = 0 ] || fail "$what: pages differ"
	[ "$(field verified_pages "$got")" = "$(field pages "$got")" ] || fail "$what: not verified"
	at_least "$what: frames against blocks" "$(field shared "$got")" \
		"$(field store_bytes "$got")" 0.000241727 # 1 / (4096 * 1.01)
}

# The kernel must see the saving, and the mappings be those that the pages need.
measure() {
	what="four guests"
	expected=$("$count" --json "$@")
	got=$("$program" --json "$@")
	before=$(field pss_before_bytes "$got") after=$(field pss_after_bytes "$got")
	# The shadow memory of a sanitizer grows with what the program touches.
	[ -n "${PDD_SANITIZE:-}" ] || at_least "$what: Pss" $((before - after)) "$(field saved_bytes "$got")" 0.95
	at_least "$what: mappings" "$(field mappings "$expected")" "$(field mappings "$got")" 0.952381
}

domains() {
	expected=$("$count" --json "$dir/guest-1")
	got=$("$program" --json --domain-per-guest "$dir/guest-1" "$dir/guest-1" "$dir/guest-1")
	for name in pages zero shared sharing; do
		[ "$(field $name "$got")" = $((3 * $(field $name "$expected"))) ] ||
			fail "domains: $name is $(field $name "$got"), not 3 x $(field $name "$expected")"
	done
}

# refuses FILE TEXT: exit 2, and an error that names the file and says TEXT.
refuses() {
	status=0
	out=$("$program" --json "$dir/zero" "$1" 2>&1) || status=$?
	[ "$status" = 2 ] || fail "$1: exit $status instead of 2"
	case $out in
	*"$1"*"$2"*) ;;
	*) fail "$1: message is '$out'" ;;
	esac
}

bad_input() {
	: >"$dir/empty"
	head -c 5000 /dev/zero >"$dir/odd"
	truncate -s 4T "$dir/huge"
	mkfifo "$dir/fifo"
	refuses "$dir/missing" "No such file"
	refuses "$dir/empty" "empty"
	refuses "$dir/odd" "multiple of the page size"
	refuses "$dir/huge" "larger than the memory"
	refuses "$dir/fifo" "not a regular file"
	refuses "$dir" "not a regular file"
	for arguments in "--passes 0" "--seconds x" "--max-page-sharing 1" "--writers -1" "--no-such" ""; do
		status=0
		# shellcheck disable=SC2086 # words
		"$program" $arguments 2>"$dir/message" || status=$?
		[ "$status" = 2 ] || fail "'$arguments': exit $status instead of 2"
		[ -s "$dir/message" ] || fail "'$arguments': no message"
	done
}

interrupted() {
	# It would go on for a day: the limit is there to notice that, not to measure. It passes INT on.
	timeout --signal=KILL 200 "$program" --json --writers 1 --seconds 100000 "$dir/guest-1" \
		>"$dir/out" &
	sleep 1
	kill -INT $!
	status=0
	wait $! || status=$?
	[ "$status" = 0 ] || fail "interrupted: exit $status"
	[ "$(field differing_pages "$(cat "$dir/out")")" = 0 ] || fail "interrupted: nothing printed"
}

make_images
for_each_set compare
measure "$dir/guest-1" "$dir/guest-2" "$dir/guest-3" "$dir/guest-4"
domains
bad_input
no_output() {
	status=0
	"$program" "$dir/zero" >/dev/full 2>"$dir/message" || status=$?
	[ "$status" = 1 ] || fail "nowhere to print: exit $status"
}

# Messages of a program that was started with its standard streams closed must not land in frames.
closed_streams() {
	status=0
	"$program" --progress "$dir/guest-1" "$dir/guest-1" <&- >&- 2>&- || status=$?
	[ "$status" = 1 ] || fail "streams closed: exit $status, not 1 for the report that went nowhere"
	"$program" --json "$dir/guest-1" "$dir/guest-1" <&- 2>&- >"$dir/out" || fail "streams closed: exit $?"
	[ "$(field differing_pages "$(cat "$dir/out")")" = 0 ] || fail "streams closed: pages differ"
}

interrupted
no_output
closed_streams
exit "$failed"
