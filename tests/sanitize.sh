#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# sanitize.sh BUILD_DIR COMMAND...     runs COMMAND; fails if it fails, or if any process under it wrote
#                                      a sanitizer report, whatever became of that process's status
# sanitize.sh --selftest ASAN_BUILD_DIR TSAN_BUILD_DIR
#                                      a planted leak, overflow and race must each make the above fail
set -u

usage() { sed -n '4,8p' "$0" >&2; exit 2; }

# Reports go to files: a test may run its case in a child and lose what it says.
checked() {
	local logs common status report
	# Absolute: tests run in folders of their own, and a report that cannot be written is lost.
	logs=$(cd "$1" && pwd)/sanitizer-reports || return 1
	shift
	rm -rf "$logs"
	mkdir -p "$logs" || return 1
	common=log_path=$logs/report:log_exe_name=1
	env ASAN_OPTIONS="$common:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1" \
		UBSAN_OPTIONS="$common:print_stacktrace=1" \
		TSAN_OPTIONS="$common:second_deadlock_stack=1:halt_on_error=0" "$@"
	status=$?
	for report in "$logs"/*; do
		[ -e "$report" ] || continue
		status=1
		echo "sanitizer report ${report##*/}:"
		head -n 60 "$report"
	done
	return $status
}

# must_catch BUILD_DIR DEFECT WORDS
must_catch() {
	local said
	if said=$(checked "$1" "$1/tests/guard/planted" "$2" 2>&1); then
		echo "not ok - planted $2 is not caught"
	elif ! grep -q "$3" <<<"$said"; then
		echo "not ok - planted $2 fails, but not as a $3:"
		echo "$said"
	else
		echo "ok - planted $2 is caught"
		return 0
	fi
	return 1
}

selftest() {
	local asan=$1 tsan=$2 status=0
	must_catch "$asan" leak "detected memory leaks" || status=1
	must_catch "$asan" overflow "heap-buffer-overflow" || status=1
	must_catch "$tsan" race "data race" || status=1
	return $status
}

[ $# -ge 2 ] || usage
if [ "$1" = --selftest ]; then
	[ $# = 3 ] || usage
	selftest "$2" "$3"
else
	checked "$@"
fi
