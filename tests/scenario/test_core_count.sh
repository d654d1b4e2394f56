#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The core over plain memory finds exactly what the independent count finds, in all kinds of images
# and however the passes are cut into steps.
. "${PDD_SOURCE_DIR:?}/tests/support/images.sh"
core=$PDD_BUILD_DIR/tests/tools/core_count

compare() {
	what=$1 limit=$2
	shift 2
	expected=$("$count" --json --limit "$limit" "$@")
	for step in 1000000 777; do
		got=$("$core" --limit "$limit" --step "$step" "$@") || fail "$what: exit $?: $got"
		same_fields "$what, steps of $step" "$got" "$expected" pages zero shared sharing unshared
	done
}

make_images
for_each_set compare
exit "$failed"
