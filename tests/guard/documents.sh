#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# documents.sh ROOT LIBDIR    the C programs in README and doc/ (marked <!-- example: NAME.c -->) compile and run
set -eu
root=$1 libdir=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

extract() {
	awk -v dir="$tmp" '
		/^<!-- example: [a-z]+\.c -->$/ { file = dir "/" $3; next }
		/^```c$/ && file { inside = 1; next }
		/^```$/ { inside = 0; file = ""; next }
		inside { print > file }' "$@"
}

extract "$root"/README.md "$root"/doc/*.md
count=0
for program in "$tmp"/*.c; do
	"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$root/include" "$program" \
		-o "${program%.c}" -L"$libdir" -lnvmfr
	LD_LIBRARY_PATH=$libdir timeout 60 "${program%.c}"
	count=$((count + 1))
done
echo "$count programs"
[ $count -ge 2 ]
