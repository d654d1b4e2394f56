#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The program in README.md is examples/minimal.c, word for word; its two commands can be executed;
# nothing was left to be filled in.
set -euo pipefail

cd "${PDD_SOURCE_DIR:?}"
if grep -nE '@[A-Z]+@' README.md; then
	echo "README.md: something was to be filled in"
	exit 1
fi
for command in examples/demo.sh tests/run.sh; do
	[ -x "$command" ] || { echo "$command is not executable" && exit 1; }
done
diff <(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d') <(sed 1d examples/minimal.c)
