#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Every file that is or might get tracked names its licence near its top, unless its format has no
# comments.
set -euo pipefail

cd "$PDD_SOURCE_DIR"
if [ ! -e .git ] || ! command -v git >/dev/null; then
	echo "the list of files comes from git: this needs git and a clone"
	exit 77
fi

# What was deleted, is empty or is binary has no comments either.
mapfile -t files < <(git -c safe.directory='*' ls-files --cached --others --exclude-standard |
	grep -vE '^(LICENSE|.*\.(json|csv|tsv|abi|png|svg)|tests/fuzz/corpus/.*)$' |
	xargs -d '\n' grep -lsI .)
[ ${#files[@]} -gt 0 ]
awk 'FNR == 1 { if (file && !named) bad[file]; file = FILENAME; named = 0 }
	FNR <= 5 && /SPDX-License-Identifier: BSD-2-Clause/ { named = 1 }
	END { if (!named) bad[file]
		for (file in bad) {
			print file ": no line with SPDX-License-Identifier: BSD-2-Clause at its top"
			failed = 1
		}
		exit failed }' "${files[@]}"
echo "${#files[@]} files"
