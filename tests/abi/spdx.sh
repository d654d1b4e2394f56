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

files=$(git -c safe.directory='*' ls-files --cached --others --exclude-standard)
failed=0 count=0
while read -r file; do
	case $file in
	LICENSE | *.json | *.csv | *.tsv | *.abi | *.png | *.svg | tests/fuzz/corpus/*) continue ;;
	esac
	# What was deleted, is empty or is binary has no comments either.
	if [ ! -f "$file" ] || ! grep -qI . "$file"; then
		continue
	fi
	count=$((count + 1))
	if ! head -n 5 "$file" | grep -qF 'SPDX-License-Identifier: BSD-2-Clause'; then
		echo "$file: no line with SPDX-License-Identifier: BSD-2-Clause at its top"
		failed=1
	fi
done <<<"$files"
echo "$count files"
[ "$failed" -eq 0 ] && [ "$count" -gt 0 ]
