#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# quality.sh [coverage|planted|mutants]...: measures how good the tests are; all three by default.
#
#	coverage  lines and branches of lib/ that they run
#	planted   mistakes planted by hand, each found by the test that is named with it
#	mutants   the share of random mistakes that they find
#
# Exits with 1 if one of them is not good enough. CONTRIBUTING.md says more.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/quality" || exit 1
[ $# -gt 0 ] || set -- coverage planted mutants
for measure in "$@"; do
	[ -f "$measure.sh" ] || { sed -n 's/^# \(quality.sh .*\): .*/usage: tests\/\1/p' ../quality.sh >&2 && exit 2; }
done
status=0
for measure in "$@"; do
	printf '=== %s ===\n' "$measure"
	bash "$measure.sh" || status=1
done
exit "$status"
