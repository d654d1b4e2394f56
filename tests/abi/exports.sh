#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exports.sh <shared library> <C compiler> <prefix> <header folder>: the library exports the
# functions of the list beside this file, each with its version, and nothing else; and they are
# those that the folder's headers declare, which have the prefix. update.sh writes the list anew.
set -euo pipefail
shopt -s extglob

library=$1 cc=$2 prefix=$3 folder=$4
here=$(dirname "${BASH_SOURCE[0]}")
name=$(basename "$library")
frozen=$(grep -v '^#' "$here/${name%%.so*}.symbols")

# differ <what the < are> <a list> <what the > are> <a list>
differ() {
	if ! diff <(printf '%s\n' "$2") <(printf '%s\n' "$4"); then
		echo "$name: < $1, > $3"
		failed=1
	fi
}

# The name before the first bracket behind each mark, which is an attribute once expanded.
declared() {
	(cd "$PDD_SOURCE_DIR/include" && printf '#include <%s>\n' "$folder"/*.h) |
		"$cc" -std=c11 -E -P -I"$PDD_SOURCE_DIR/include" - | tr '\n' ' ' | tr ';{}' '\n' |
		grep -oP '__attribute__\(\(visibility\("default"\)\)\)[^(]*?\K\w+(?=\()' |
		grep "^$prefix" | LC_ALL=C sort
}

failed=0
differ frozen "$frozen" exported "$("$here/exported.sh" "$library")"
differ declared "$(declared)" frozen "${frozen//@@*([^$'\n'])/}"
echo "$(wc -l <<<"$frozen") exports"
exit "$failed"
