#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# update.sh [<build folder>]: makes counts.txt and instructions.txt anew from the release preset's
# build (or another one that is configured already). What changed is to be read before it is
# committed: git diff tests/perf.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1-build/release}
if [ $# -eq 0 ]; then
	cmake --preset release >/dev/null
fi
cmake --build "$build" --target perf_counts perf_instructions
PDD_SOURCE_DIR=$PWD
PDD_BUILD_DIR=$(cd "$build" && pwd)
export PDD_SOURCE_DIR PDD_BUILD_DIR

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
{
	echo "# SPDX-License-Identifier: BSD-2-Clause"
	echo "# Made by update.sh: what each scenario counts; what is 0 is left out."
	"$PDD_BUILD_DIR/tests/perf/perf_counts" --print
} >"$scratch/counts.txt"
{
	echo "# SPDX-License-Identifier: BSD-2-Clause"
	echo "# Made by update.sh: instructions of each scenario."
	bash tests/perf/instructions.sh --print
} >"$scratch/instructions.txt"
cat "$scratch/counts.txt" >tests/perf/counts.txt
cat "$scratch/instructions.txt" >tests/perf/instructions.txt
