#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# count_pages on images so small that the numbers follow by hand, and make_image's promises.
#
# Images are spelled: a word is one guest, each of its letters one page, z a page of zeros.
# What is expected is spelled in the order of count_pages:
#
#   pages zero contents shared sharing unshared runs mappings
. "${PDD_SOURCE_DIR:?}/tests/support/images.sh"

# page LETTER: A and B differ from the first byte on, the small letters in the last one only.
page() {
	case $1 in
	z) head -c 4096 /dev/zero ;;
	A | B) yes "$1" | head -c 4096 ;;
	*) yes "first words" | head -c 4095 && printf %s "$1" ;;
	esac
}

# spell WORD FILE
spell() {
	rest=$1
	: >"$2"
	while [ -n "$rest" ]; do
		letter=${rest%"${rest#?}"}
		[ -f "$dir/page-$letter" ] || page "$letter" >"$dir/page-$letter"
		cat "$dir/page-$letter" >>"$2"
		rest=${rest#?}
	done
}

# check WHAT EXPECTED ARGUMENT...: the table, and the same as JSON.
check() {
	what=$1
	expected=$2
	shift 2
	got=$("$count" "$@" | awk '{ printf "%s%s", sep, $2; sep = " " }')
	json=$("$count" --json "$@" | tr -cd '0-9,' | tr ',' ' ')
	if [ "$got" != "$expected" ] || [ "$json" != "$expected" ]; then
		echo "FAILED: $what: expected $expected, table $got, JSON $json"
		failed=1
	fi
}

# check_words LIMIT WORDS EXPECTED
check_words() {
	limit=$1 words=$2 expected=$3
	set --
	for word in $words; do
		spell "$word" "$dir/guest-$#"
		set -- "$@" "$dir/guest-$#"
	done
	check "$words, limit $limit" "$expected" --limit "$limit" "$@"
}

# One page, zero or not; no partner at all.
check_words 256 z "1 1 0 0 0 0 0 1"
check_words 256 A "1 0 1 0 0 1 0 1"
check_words 256 zAzB "4 2 2 0 0 2 0 1"
# Two copies in one guest: frames 0 0, so two mappings.
check_words 256 AA "2 0 1 1 1 0 2 2"
# Frames 0 1 2 in both guests: one mapping each.
check_words 256 "ABc ABc" "6 0 3 3 3 0 2 2"
# Numbered by first appearance: 0 1 2, then 2 1 0.
check_words 256 "ABc cBA" "6 0 3 3 3 0 4 4"
# Zero and lonely pages make gaps, which join each other: 0 1 | z d | 2, and 0 1 | e f | 2.
check_words 256 "ABzdc ABefc" "10 1 6 3 3 3 4 6"
# A run does not continue across a gap, nor across guests: 0 | z | 1, and 0 1.
check_words 256 "AzB AB" "5 1 2 2 2 0 3 4"
check_words 256 "A BA B" "4 0 2 2 2 0 4 4"
# Limit 2, seven copies: frames 0 0 1 1 2 2, the last one is left over.
check_words 2 ccccccc "7 0 1 3 3 1 4 5"
# Limit 3, four copies: one left over; five: two frames.
check_words 3 cccc "4 0 1 1 2 1 3 4"
check_words 3 ccccc "5 0 1 2 3 0 4 4"
# The second frame of c gets its number when it appears: 0 | 0 1 2, and 2 | 1.
check_words 2 "ccAc cA" "6 0 2 3 3 0 4 4"
# Contents that differ in the last byte only.
check_words 256 "cdcd efef" "8 0 4 4 4 0 4 4"

# The table of shared and sharing over N and L, on N equal pages.
while read -r n limit shared sharing unshared; do
	"$make" equal "$n" 1 "$dir/equal"
	frames=$((n - unshared))
	# Every copy begins a run, but for the first ones of all frames after the first: 0 0|0 1|1.
	runs=$((frames - shared + 1))
	check "$n equal pages, limit $limit" \
		"$n 0 1 $shared $sharing $unshared $runs $((runs + unshared))" \
		--limit "$limit" "$dir/equal"
done <<END
2 256 1 1 0
10 256 1 9 0
257 256 1 255 1
258 256 2 256 0
513 256 2 510 1
514 256 3 511 0
11 10 1 9 1
12 10 2 10 0
100 10 10 90 0
7 2 3 3 1
1000 3 333 666 1
END

# The kinds of make_image.
for kind in zero filled random pairs mirror guestlike; do
	"$make" $kind 1001 5 "$dir/$kind"
done
check zero "1001 1001 0 0 0 0 0 1" "$dir/zero"
check filled "1001 0 1 4 997 0 998 998" "$dir/filled"
check random "1001 0 1001 0 0 1001 0 1" "$dir/random"
check pairs "1001 0 501 500 500 1 2 3" "$dir/pairs"
check mirror "1001 0 501 500 500 1 501 502" "$dir/mirror"
"$make" random 1001 6 "$dir/other"
check "random, another seed" "2002 0 2002 0 0 2002 0 2" "$dir/random" "$dir/other"
"$make" guestlike 1001 5 "$dir/again"
cmp "$dir/guestlike" "$dir/again" || failed=1
"$make" guestlike 1001 6 "$dir/again"
if cmp -s "$dir/guestlike" "$dir/again"; then
	echo "FAILED: guestlike does not depend on the seed"
	failed=1
fi
# Both have the same zero and common pages; only their own pages differ.
field() { "$count" "$@" | awk -v name="$field" '$1 == name { print $2 }'; }
field=zero
[ "$(field "$dir/again")" -eq "$(field "$dir/guestlike")" ] || failed=1
field=sharing
[ "$(field "$dir/again" "$dir/guestlike")" -gt $((2 * $(field "$dir/again"))) ] || failed=1

# Errors: a torn image, an empty one, none, a limit that is none.
head -c 5000 "$dir/random" >"$dir/torn"
: >"$dir/empty"
for arguments in "$dir/torn" "$dir/empty" "$dir/absent" "" "--limit 1 $dir/zero" "--limit"; do
	# shellcheck disable=SC2086 # words
	if "$count" $arguments >/dev/null 2>&1; then
		echo "FAILED: count_pages $arguments succeeded"
		failed=1
	fi
done
[ $failed -eq 0 ] && echo "all counts as expected"
exit $failed
