#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/bench/run.sh [--standin DIR] [--quick] [--json FILE] [--only ROW]... [--cpu N]
#   --standin DIR  a built stand-in (libibverbs.so.1, librdmacm.so.1, rawloop); default: built from tests/standin
#   --quick        fewer and shorter runs: to see that it works, not to compare
#   --json FILE    writes all figures there, too
#   --only ROW     that row and what it refers to; may be given again
#   --cpu N        the processor for what has one thread; default: the last one allowed
#
# Every target of the hot path: figure, what it is held against in the same run, verdict. Builds and
# installs the library as a distribution does (-O2), in a folder of its own. Exit status 0: all met.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/bench

usage() { sed -n '4,9p' "$0" >&2; exit 2; }
standin='' args=()
while [ $# != 0 ]; do
	case $1 in
	--standin) [ $# -ge 2 ] || usage; standin=$(cd "$2" && pwd); shift ;;
	--quick) args+=("$1") ;;
	--json | --only | --cpu) [ $# -ge 2 ] || usage; args+=("$1" "$2"); shift ;;
	*) usage ;;
	esac
	shift
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CC=${CC:-gcc}
prefix=$tmp/prefix

quietly() {
	"$@" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
}

build_library() {
	local tests=auto targets=(tests/standin/libibverbs.so.1 tests/standin/librdmacm.so.1 tests/standin/rawloop)
	[ -z "$standin" ] || { tests=disabled; targets=(); }
	quietly meson setup "$tmp/build" "$root" --prefix "$prefix" --libdir lib --buildtype plain \
		-Dc_args='-O2 -g' -Dtests=$tests -Dexamples=disabled -Ddocs=disabled
	quietly meson compile -C "$tmp/build" nvmfr:shared_library
	[ ${#targets[@]} = 0 ] || quietly ninja -C "$tmp/build" "${targets[@]}"
	quietly meson install -C "$tmp/build" --no-rebuild
	[ -n "$standin" ] || standin=$tmp/build/tests/standin
}

# compile PROGRAM SOURCE FLAG...
compile() {
	local program=$1 source=$2 flags
	shift 2
	flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs nvmfr)
	# shellcheck disable=SC2086
	$CC -std=c11 -D_GNU_SOURCE -O2 -g "$@" "$here/$source" -o "$tmp/$program" $flags -Wl,-rpath,"$prefix/lib" -pthread
}

build_library
compile lean lean.c
compile lean-group lean.c -DLEAN_GROUP
compile memcpy-ratio memcpy-ratio.c
compile idle idle.c
compile again again.c
compile footprint footprint.c -fno-builtin -rdynamic
"$here/measure.py" --programs "$tmp" --standin "$standin" "${args[@]}"
