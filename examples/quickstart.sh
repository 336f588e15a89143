#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# examples/quickstart.sh [URI [FILE]]
#
# From a fresh clone to data read with zero copies: installs what is missing, builds, and reads. Without
# URI a big file of this machine, through the embedded target; with one, that target (nvmf+rdma://...),
# and FILE, when given, is what its first namespace should hold from its first block on.
# BUILD=DIR builds elsewhere than in ./build. PREBUILT=DIR installs and builds nothing and runs what that
# build folder has: for a machine without a compiler that sees the tree of one that has.
set -eu
usage() { sed -n '4,10s/^# \?//p' "$0"; }
case ${1:-} in -h | --help) usage; exit ;; esac
[ $# -le 2 ] || { usage >&2; exit 2; }
uri=${1:-} file=${2:-}
[ -z "$file" ] || file=$(realpath -- "$file")
build=${BUILD:-build}
[ -z "${PREBUILT:-}" ] || build=$(realpath -- "$PREBUILT")
cd "$(dirname "$0")/.."
examples=(zerocopy read copy epoll identify discover failover probe nvmfr-perf)
min_bytes=$((32 * 1024 * 1024))
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

step() { echo; echo "== $1"; }
die() { echo "quickstart: $*" >&2; exit 1; }
size_of() { stat -L -c %s "$1"; }

# quietly COMMAND...: its output is shown only if it fails.
quietly() {
	"$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; die "this failed: $*"; }
}

build() {
	echo "about a minute when it is the first time"
	if [ -f "$build/build.ninja" ]; then
		echo "configured already"
	else
		quietly meson setup --buildtype=release "$build"
	fi
	quietly ninja -C "$build" "${examples[@]/#/examples/}"
	echo "built the library and ${examples[*]}"
}

compiler_parts() {
	local name path
	for name in cc1plus lto1 cc1 collect2; do
		path=$(cc -print-prog-name=$name 2>/dev/null) || continue
		[ ! -f "$path" ] || echo "$path"
	done
}

# The compiler itself is the biggest file that every machine has by now.
choose_file() {
	local path parts
	mapfile -t parts < <(compiler_parts)
	for path in "${parts[@]}"; do
		if [ "$(size_of "$path")" -ge $min_bytes ]; then
			echo "$path"
			return
		fi
	done
	while [ ! -e "$scratch/file" ] || [ "$(size_of "$scratch/file")" -lt $min_bytes ]; do
		cat "${parts[@]:-/bin/bash}" /bin/bash >>"$scratch/file"
	done
	echo "$scratch/file"
}

case $uri in '' | nvmf+*) ;; *) die "'$uri' is no URI: nvmf+rdma://ADDRESS/SUBNQN" ;; esac

if [ -n "${PREBUILT:-}" ]; then
	step "1/4 and 2/4  left out: PREBUILT=$PREBUILT"
	[ -x "$build/examples/zerocopy" ] || die "no examples/zerocopy in $build: build it there, or unset PREBUILT"
else
	step "1/4  packages"
	tests/deps.sh quick
	step "2/4  build in $build"
	build
fi

step "3/4  what to read"
ulimit -l unlimited 2>/dev/null || ulimit -l "$(ulimit -H -l)"
options=()
if [ -z "$uri" ]; then
	file=$(choose_file)
	what=$file
	echo "$file, $(($(size_of "$file") / 1024 / 1024)) MiB, through the embedded target"
	[ "$file" != "$scratch/file" ] || echo "(programs of this machine, one behind the other)"
else
	what=$uri
	echo "$uri"
fi
if [ -n "$file" ]; then
	sum=$(sha256sum <"$file" | cut -d' ' -f1)
	options=(--sha256 "$sum" --bytes "$(size_of "$file")")
	echo "SHA-256 as sha256sum says: $sum"
fi

step "4/4  two threads read it, with a queue pair each"
status=0
"$build/examples/zerocopy" "${options[@]}" "$what" || status=$?

step "summary"
[ $status = 0 ] || die "it did not hold; the lines above say what (exit status $status)"
echo "Read straight into the application's registered buffer, checked, and counted: see the lines above."
echo "Next: $build/examples/probe says what this machine has; read, copy, epoll, identify and nvmfr-perf"
echo "beside it take a URI, as nvmf+soft:?size=64M or nvmf+rdma://ADDRESS/SUBNQN."
