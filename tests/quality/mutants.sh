#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# mutants.sh [COUNT [SEED]]: whether tests notice when a line of the core is wrong; see mutants.py.
# Exits with 1 if they notice fewer than 85 of 100 random changes, and with 77 where it cannot run.
set -uo pipefail

for tool in python3 ninja pkg-config "${CC:-gcc}"; do
	if ! command -v "$tool" >/dev/null; then
		echo "mutants.sh needs $tool"
		exit 77
	fi
done
exec python3 "$(dirname "${BASH_SOURCE[0]}")/mutants.py" "$@"
