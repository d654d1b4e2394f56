# SPDX-License-Identifier: BSD-2-Clause
#
# Rows, objects of plain values, as CSV. The columns are the names in the order in which they first
# come; a value that a row lacks is empty.
def columns: reduce (.[] | keys_unsorted[]) as $name ([];
	if index([$name]) then . else . + [$name] end);

columns as $columns
| ($columns | @csv), (.[] | [.[$columns[]]] | @csv)
