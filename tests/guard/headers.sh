#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# headers.sh INCLUDE_DIR    each public header alone, twice over, in C11 and C++17, with gcc and clang
set -u
include=$1
flags=(-Wall -Wextra -Wpedantic -Wconversion -Werror -fsyntax-only "-I$include")
count=0 failed=0

try() {
	count=$((count + 1))
	"$@" - <<<"$program" || { failed=$((failed + 1)); echo "failed: $* with $header"; }
}

for path in "$include"/nvmfr/*.h; do
	header=nvmfr/${path##*/}
	program=$(printf '#include <%s>\n#include <%s>\nint nothing;\n' "$header" "$header")
	try gcc -std=c11 -x c "${flags[@]}"
	try clang -std=c11 -x c "${flags[@]}"
	try g++ -std=c++17 -x c++ "${flags[@]}"
	try clang++ -std=c++17 -x c++ "${flags[@]}"
done
echo "$count combinations, $failed failed"
[ $count != 0 ] && [ $failed = 0 ]
