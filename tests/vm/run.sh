#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/vm/run.sh BUILD_DIR [PATTERN]    test against the Linux kernel's own NVMe target
#
# Boots a guest and runs suite.sh in it; PATTERN (an extended regular expression) picks tests by name. Without one
# there are two guests at the same time: in the second one a load goes through what can happen to a wire, which
# is mostly waiting; its lines follow at the end. Exit status 0 all passed, 1 some failed, 77 no virtual
# machine can be had here (with NVMFR_REQUIRE_VM=1 that is a failure too).
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || [ $# = 2 ] || { sed -n '4,9p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 2

for program in examples/{identify,copy,read,nvmfr-perf,zerocopy} tests/vm/vmcheck; do
	[ -x "$build/$program" ] || missing+=" $program"
done
if [ -n "${missing:-}" ] && [ -z "${2:-}" ]; then
	echo "not in $build, so nothing to test:$missing" >&2
	exit 1
fi

lines=
trap 'kill $(jobs -p) 2>/dev/null; rm -f "$lines"' EXIT
trap 'exit 143' INT TERM HUP

# guest PATTERN [EXCEPT]
guest() { exec "$here/vm-run" -t "${NVMFR_VM_SECONDS:-900}" bash "$here/suite.sh" "$build" "$@"; }

two_guests() {
	local wire status=0
	lines=$(mktemp) || exit 1
	guest '^wire|^kernel log' >"$lines" 2>&1 &
	wire=$!
	guest . ^wire &
	wait $! || status=$?
	wait $wire || status=$((status ? status : $?))
	cat "$lines"
	return $status
}

one_guest() {
	guest "$1" &
	wait $!
}

start=$SECONDS
if [ $# = 2 ]; then one_guest "$2"; else two_guests; fi
status=$?
echo "# virtual machine: $((SECONDS - start)) s in all"
if [ $status = 77 ]; then
	[ "${NVMFR_REQUIRE_VM:-0}" = 1 ] || exit 77
	echo "NVMFR_REQUIRE_VM=1 does not allow to skip" >&2
fi
[ $status = 0 ]
