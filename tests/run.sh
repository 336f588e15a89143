#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/run.sh [--quick] [--no-vm] [--jobs N]    installs what is missing, builds, runs every test
#   --quick    one compiler; no sanitizers, no documents, no virtual machine
#   --no-vm    everything but the virtual machine
#   --jobs N   so many at once; default: the processors of this machine
#
# Works in build/, one folder a stage, logs in build/logs/. Exit status 0: nothing failed. With
# NVMFR_REQUIRE_VM=1 a virtual machine that cannot be had is a failure, else it is skipped.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=build/logs
jobs=$(nproc)
quick='' want_vm=1

usage() { sed -n '4,7p' tests/run.sh >&2; exit 2; }
while [ $# != 0 ]; do
	case $1 in
	--quick) quick=1 want_vm='' ;;
	--no-vm) want_vm='' ;;
	--jobs) [ $# -ge 2 ] || usage; jobs=$2; shift ;;
	*) usage ;;
	esac
	shift
done

summary=() passed=0 failed=0 skipped=0
say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

# record STAGE SECONDS PASSED FAILED SKIPPED [REMARK]
record() {
	passed=$((passed + $3)) failed=$((failed + $4)) skipped=$((skipped + $5))
	summary+=("$(printf '%-22s %6d %6d %7d %5d s  %s' "$1" "$3" "$4" "$5" "$2" "${6:-}")")
	say "$1: $3 passed, $4 failed, $5 skipped ${6:+($6)}"
}

# A stage that is one check: step STAGE COMMAND...
step() {
	local stage=$1 start=$SECONDS log=$logs/${1// /-}.log
	shift
	say "$stage ..."
	if "$@" >"$log" 2>&1 </dev/null; then
		record "$stage" $((SECONDS - start)) 1 0 0
		return 0
	fi
	# What was configured without trouble is not shown again.
	sed '1,/^ninja: Entering/d' "$log" | grep . >/dev/null || cat "$log" | tail -n 60
	sed '1,/^ninja: Entering/d' "$log" | grep -vE '^\[[0-9]+/[0-9]+\]' | tail -n 60
	record "$stage" $((SECONDS - start)) 0 1 0 "see $log"
	return 1
}

# A stage of many tests, which meson counts: suites STAGE BUILD_DIR COMMAND...
suites() {
	local stage=$1 dir=$2 start=$SECONDS log=$logs/${1// /-}.log status counts
	shift 2
	say "$stage ..."
	rm -f "$dir/meson-logs/testlog.junit.xml"
	"$@" >"$log" 2>&1 </dev/null
	status=$?
	counts=$(tests/count.py "$dir" 2>>"$log") || counts="0 0 0"
	# shellcheck disable=SC2086
	set -- $counts
	# A program that dies between its tests, a sanitizer report, no test at all: failed, whatever was counted.
	if [ "$2" = 0 ] && { [ $status != 0 ] || [ "$1" = 0 ]; }; then
		set -- "$1" 1 "$3"
	fi
	[ "$2" = 0 ] || { grep -vE '^ *[0-9]+/[0-9]+ .* (OK|SKIP) ' "$log" | tail -n 100; }
	record "$stage" $((SECONDS - start)) "$1" "$2" "$3" "$([ "$2" = 0 ] || echo "see $log")"
}

# configure DIR CC OPTION...
configure() {
	local dir=$1 cc=$2 again=()
	shift 2
	[ ! -e "$dir/build.ninja" ] || again=(--reconfigure)
	CC=$cc meson setup "${again[@]}" "$dir" --werror -Dtests=enabled -Dexamples=enabled -Djson=enabled "$@" ||
		{ rm -rf "$dir"; CC=$cc meson setup "$dir" --werror -Dtests=enabled -Dexamples=enabled -Djson=enabled "$@"; }
}

build() {
	configure "$@" && ninja -C "$1" -j "$jobs"
}

# meson_test DIR SUITE...    -SUITE: not those
meson_test() {
	local dir=$1 suite args=()
	shift
	for suite; do
		case $suite in
		-*) args+=(--no-suite "${suite#-}") ;;
		*) args+=(--suite "$suite") ;;
		esac
	done
	meson test -C "$dir" --no-rebuild --num-processes "$jobs" --print-errorlogs "${args[@]}"
}

# sanitized DIR OPTION...
sanitized() {
	local dir=$1
	shift
	tests/sanitize.sh "$dir" meson test -C "$dir" --no-rebuild --num-processes "$jobs" \
		--timeout-multiplier 5 --print-errorlogs --suite unit --suite flow --suite plain --suite standin "$@"
}

static_probes() {
	configure build/usdt gcc -Dusdt=enabled && ninja -C build/usdt -j "$jobs" lib/libnvmfr.so.0.1.0 tests/plain_stats &&
		meson test -C build/usdt --no-rebuild --print-errorlogs probes plain-stats
}

compilers() {
	step "build gcc" build build/gcc gcc -Dvm=true &&
		suites "tests gcc" build/gcc meson_test build/gcc unit flow standin guard python
	[ -z "$quick" ] || return 0
	step "static probes" static_probes
	step "build clang" build build/clang clang || return
	step clang-tidy tests/tidy.sh build/clang
	# Not what says the same of any compiler's code, and takes long.
	suites "tests clang" build/clang meson_test build/clang unit flow standin -once
}

sanitizers() {
	local common=(-Db_lundef=false -Dc_args=-fno-sanitize-recover=all)
	step "build asan+ubsan" build build/asan clang -Db_sanitize=address,undefined "${common[@]}" &&
		suites "tests asan+ubsan" build/asan sanitized build/asan
	step "build tsan" build build/tsan clang -Db_sanitize=thread "${common[@]}" &&
		suites "tests tsan" build/tsan sanitized build/tsan --no-suite alike
	step "planted defects" tests/sanitize.sh --selftest build/asan build/tsan
}

# Doxygen's word on every undocumented or misspelt thing is a failure.
documents() {
	local warnings
	mkdir -p build/doc
	warnings=$({ cat doc/Doxyfile; printf '%s\n' OUTPUT_DIRECTORY=build/doc QUIET=YES WARNINGS=YES \
		WARN_AS_ERROR=NO WARN_LOGFILE=; } | doxygen - 2>&1 >/dev/null) || { echo "$warnings"; return 1; }
	echo "$warnings"
	[ -z "$warnings" ]
}

# Its lines are shown as they come: this is the longest stage.
virtual_machine() {
	local start=$SECONDS log=$logs/vm.log status counts line
	say "vm ..."
	tests/deps.sh vm >"$logs/deps-vm.log" 2>&1 </dev/null || tail -n 5 "$logs/deps-vm.log"
	tests/vm/run.sh build/gcc 2>&1 </dev/null | tee "$log" | while IFS= read -r line; do say "vm: $line"; done
	status=${PIPESTATUS[0]}
	# One line a guest.
	counts=$(awk '/^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3 } END { print passed + 0, failed + 0 }' "$log")
	# shellcheck disable=SC2086
	set -- $counts
	if [ "$status" = 77 ]; then
		record vm $((SECONDS - start)) 0 0 1 "no virtual machine can be had here"
		return
	fi
	[ "$status" = 0 ] && [ "$1" != 0 ] || [ "$2" != 0 ] || set -- "$1" 1
	record vm $((SECONDS - start)) "$1" "$2" 0 "$([ "$2" = 0 ] || echo "see $log")"
}

mkdir -p "$logs" || exit 2
say "installing what is missing"
tests/deps.sh build </dev/null || exit 1
# Large, and what needs it is skipped with a remark where it cannot be had.
[ -n "$quick" ] || tests/deps.sh torch </dev/null || true
compilers
if [ -z "$quick" ]; then
	sanitizers
	[ ! -e doc/Doxyfile ] || step documents documents
fi
[ -z "$want_vm" ] || virtual_machine

printf '\n%-22s %6s %6s %7s %7s\n' stage passed failed skipped time
printf '%s\n' "${summary[@]}"
printf '\nIn all %d s; logs in %s\n' "$SECONDS" "$PWD/$logs"
if [ $skipped = 0 ]; then
	echo "$passed passed, $failed failed"
else
	echo "$passed passed, $failed failed, $skipped skipped"
fi
[ $failed = 0 ]
