#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The program in README.md is examples/minimal.c, word for word.
set -euo pipefail

cd "${PDD_SOURCE_DIR:?}"
diff <(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d') <(sed 1d examples/minimal.c)
