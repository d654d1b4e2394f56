# SPDX-License-Identifier: BSD-2-Clause
#
# Sourced by tests that hold a program's count of pages against the independent one. Sets $dir, a
# folder that goes away with the test, and $failed.
set -eu
export LC_ALL=C

: "${PDD_BUILD_DIR:?is where the programs were built}"
count=$PDD_BUILD_DIR/tests/tools/count_pages
make=$PDD_BUILD_DIR/tests/tools/make_image
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

fail() {
	echo "FAILED: $*"
	failed=1
}

# field NAME JSON: a number of a flat object.
field() {
	printf '%s\n' "$2" | sed -n "s/.*\"$1\": *\(-\{0,1\}[0-9.]*\).*/\1/p"
}

# same_fields WHAT JSON JSON NAME...
same_fields() {
	label=$1 one=$2 two=$3
	shift 3
	for name; do
		a=$(field "$name" "$one") b=$(field "$name" "$two")
		[ -n "$a" ] && [ "$a" = "$b" ] || fail "$label: $name is $a, but $b by the other count"
	done
}

# Images of all kinds: $dir/zero, random, equal, filled, guest-1 to guest-4, pairs, mirror.
make_images() {
	"$make" zero 3000 1 "$dir/zero"
	"$make" random 3000 1 "$dir/random"
	"$make" equal 1000 1 "$dir/equal"
	"$make" filled 700 1 "$dir/filled"
	"$make" pairs 3001 1 "$dir/pairs"
	"$make" mirror 3000 1 "$dir/mirror"
	for i in 1 2 3 4; do
		"$make" guestlike 16384 "$i" "$dir/guest-$i"
	done
}

# for_each_set FUNCTION: calls FUNCTION WHAT LIMIT IMAGE... for sets that differ in kind.
for_each_set() {
	"$1" "four guests" 256 "$dir/guest-1" "$dir/guest-2" "$dir/guest-3" "$dir/guest-4"
	"$1" "one guest" 256 "$dir/guest-1"
	"$1" "two copies of an image" 256 "$dir/guest-2" "$dir/guest-2"
	"$1" "zero pages" 256 "$dir/zero"
	"$1" "random pages" 256 "$dir/random"
	"$1" "1000 equal pages, limit 3" 3 "$dir/equal"
	"$1" "1000 equal pages" 256 "$dir/equal"
	"$1" "same-filled pages, limit 7" 7 "$dir/filled"
	"$1" "pairs and mirror" 2 "$dir/pairs" "$dir/mirror" "$dir/random"
}
