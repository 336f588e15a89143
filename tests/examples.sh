#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/examples.sh BUILD_DIR: runs every example against the embedded target and looks at what it
# says. One line a check; exit status 0: all held.
set -u
[ $# = 1 ] || { sed -n '4,5p' "$0" >&2; exit 2; }
bin=$(cd "$1" && pwd)/examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
ram='nvmf+soft:?size=8M'

# check NAME FUNCTION [ARGUMENT...]: fails with the first command of the function that does.
check() {
	local name=$1 status
	shift
	(set -e; "$@") >"$work/output" 2>&1
	status=$?
	if [ $status = 0 ]; then
		passed=$((passed + 1))
		echo "ok - $name"
	else
		failed=$((failed + 1))
		echo "not ok - $name (status $status)"
		tail -n 30 "$work/output" | sed 's/^/#   /'
	fi
}

# bounded PROGRAM...: a hang becomes a failure that says so.
bounded() {
	local status=0
	timeout -k 5 120 "$@" || status=$?
	[ $status != 124 ] && [ $status != 137 ] || echo "hung: ended after 120 s: $*"
	return $status
}

# says WORDS PROGRAM...: succeeds, and its output has WORDS (an extended regular expression).
says() {
	local words=$1
	shift
	bounded "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
	cat "$work/said"
	grep -qE -- "$words" "$work/said" || { echo "nothing there says: $words"; return 1; }
}

# refuses WORDS PROGRAM...: fails as a program should, in one line that has WORDS in it.
refuses() {
	local words=$1 status=0
	shift
	bounded "$@" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ $status != 0 ] || { echo "succeeded, but should have been refused: $*"; return 1; }
	[ $status -lt 124 ] || { echo "status $status, from: $*"; return 1; }
	grep -qiE -- "$words" "$work/said" || { echo "nothing there says: $words"; return 1; }
}

# json EXPRESSION FILE...: EXPRESSION, in Python, of each document d holds. One Python for all of them.
json() {
	python3 -c 'import json, sys, uuid
for name in sys.argv[2:]:
    d = json.load(open(name))
    if not eval("(" + sys.argv[1] + ")"):
        sys.exit(f"{name}: not so: {sys.argv[1]}: {d}")' "$@"
}

sum_of() { sha256sum <"$1" | cut -d' ' -f1; }
random_file() { head -c "$2" /dev/urandom >"$1"; }
soft_file() { echo "nvmf+soft://$1?block=${2:-512}"; }

# ---- read

read_block() {
	printf 'Zero copies, please.' >"$work/text"
	truncate -s 64K "$work/text"
	says '^5a 65 72 6f 20 63 6f 70 69 65 73' "$bin/read" "$(soft_file "$work/text")"
	says '1 blocks of 512 bytes from LBA 0 in [0-9.]+ us' "$bin/read" "$(soft_file "$work/text")"
	says '4 blocks of 4096 bytes from LBA 2 ' "$bin/read" "$(soft_file "$work/text" 4096)" 2 4
	says '^00 00 00' "$bin/read" "$ram" 16 1
}

read_mistakes() {
	refuses '.' "$bin/read" "$ram" 99999999
	refuses 'nosuch' "$bin/read" nvmf+soft://nosuch
	refuses '/no/such/file' "$bin/read" nvmf+soft:///no/such/file
	refuses '.' "$bin/read" http://example.org/
	refuses 'usage' "$bin/read"
}

# ---- copy

# round_trip BYTES BLOCK [OPTION...]: out and back is the same, and the sum is that of the file.
round_trip() {
	local bytes=$1 block=$2
	shift 2
	random_file "$work/out" "$bytes"
	truncate -s 0 "$work/disk"
	truncate -s 4M "$work/disk"
	says "$(sum_of "$work/out")" "$bin/copy" -v "$@" "$work/out" "$(soft_file "$work/disk" "$block")"
	rm -f "$work/back"
	says "$(sum_of "$work/out")" "$bin/copy" -v "$@" --length "$bytes" \
		"$(soft_file "$work/disk" "$block")" "$work/back"
	cmp "$work/out" "$work/back"
}

copy_pads() {
	yes | head -c 4M >"$work/disk"
	random_file "$work/out" 1000
	says 'wrote 1000 bytes' "$bin/copy" "$work/out" "$(soft_file "$work/disk")"
	cmp -n 1000 "$work/out" "$work/disk"
	cmp -n 24 -i 1000:0 "$work/disk" /dev/zero
	cmp -i 1024 "$work/disk" <(yes | head -c 4M)
}

copy_at_lba() {
	random_file "$work/disk" 4M
	says 'read 1536 bytes' "$bin/copy" --lba 100 --length 1536 "$(soft_file "$work/disk")" "$work/back"
	cmp -i 51200:0 -n 1536 "$work/disk" "$work/back"
	[ "$(stat -c %s "$work/back")" = 1536 ]
	says 'read 4194304 bytes' "$bin/copy" "$(soft_file "$work/disk")" "$work/back"
	cmp "$work/disk" "$work/back"
}

copy_mistakes() {
	random_file "$work/out" 9M
	refuses 'do not fit' "$bin/copy" "$work/out" "$ram"
	refuses 'multiple' "$bin/copy" --block-size 1000 "$work/out" "$ram"
	refuses 'nosuchfile' "$bin/copy" "$work/nosuchfile" "$ram"
	refuses 'depth' "$bin/copy" --depth 0 "$work/out" "$ram"
	refuses 'usage' "$bin/copy" "$work/out" "$work/back"
	refuses '.' "$bin/copy" --nsid 7 "$ram" "$work/back"
	refuses 'beyond' "$bin/copy" --lba 16384 "$ram" "$work/back"
	cmp "$work/disk" "$work/back" # a mistake does not truncate the file
}

# ---- epoll, identify, probe

epoll_reads() {
	says '^5000 reads of 4096 bytes, up to 16 at a time' "$bin/epoll" "$ram" 5000 16
	says 'wall time [0-9.]+ ms, processor time [0-9.]+ ms' "$bin/epoll" "$ram" 1 1
	refuses 'COUNT' "$bin/epoll" "$ram" 0
}

identify_json() {
	bounded "$bin/identify" --json "$ram" >"$work/json"
	json '(lambda c, n: c["device"] == "soft" and c["ns_count"] == 1 and n["nsid"] == 1
		and n["capacity_blocks"] * n["block_bytes"] == 8 << 20
		and str(uuid.UUID(n["uuid"])) == n["uuid"]
		and len(n["nguid"]) in (0, 32) and len(n["eui64"]) in (0, 16))(d["controller"], *d["namespaces"])' \
		"$work/json"
}

identify_table() {
	says '^subnqn +nqn\.' "$bin/identify" "$ram"
	says '^ +1 +16384 +512 ' "$bin/identify" "$ram"
	refuses 'usage' "$bin/identify"
}

probe_both() {
	bounded "$bin/probe" --json >"$work/json"
	json 'isinstance(d, dict) and d["system"]' "$work/json"
	says 'memlock' "$bin/probe"
	refuses 'usage' "$bin/probe" --nosuch
}

# ---- nvmfr-perf

# perf_run NAME OPTION...: leaves what it says in NAME.perf.
perf_run() {
	local name=$1
	shift
	bounded "$bin/nvmfr-perf" -j "$@" -r "$ram" >"$work/$name.perf"
}

# perf_json EXPRESSION: of all runs of this test, which then are forgotten.
perf_json() {
	json "d['errors'] == 0 and d['ios'] == d['reads'] + d['writes'] and d['bounced_bytes'] == 0
		and abs(d['iops'] * d['seconds'] - d['ios']) <= d['ios'] * 1e-2 and ($1)" "$work"/*.perf
	rm "$work"/*.perf
}

perf_workloads() {
	local workload
	for workload in read write randread randwrite rw randrw; do
		perf_run $workload -w $workload -n 5000 -q 32 -c 2
	done
	perf_json 'd["ios"] == 5000 and d["threads"] == 2 and d["depth"] == 32 and
		{ "read": d["writes"] == 0, "randread": d["writes"] == 0, "write": d["reads"] == 0,
		  "randwrite": d["reads"] == 0 }.get(d["workload"], 0 < d["reads"] < 5000)'
	perf_run rw -w rw -M 0 -n 1000
	perf_run randrw -w randrw -M 100 -n 1000
	perf_json 'd["reads"] == (1000 if d["workload"] == "randrw" else 0) and d["ios"] == 1000'
}

perf_latency() {
	perf_run on -n 3000 -q 1
	perf_json '(lambda l: 0 < l["min"] <= l["p50"] <= l["p90"] <= l["p99"] <= l["p99.9"]
		<= l["p99.99"] <= l["max"] and l["min"] <= l["mean"] <= l["max"])(d["latency_us"])'
	perf_run off -n 3000 -L off
	perf_json '"latency_us" not in d'
}

perf_shapes() {
	local shape
	for shape in '-q 1 -b 1' '-q 3 -b 7' '-q 200 -b 200' '-o 512' '-o 1M -q 4' '-q 64 -b 1' '-c 0x7'; do
		# shellcheck disable=SC2086
		perf_run "$shape" -n 999 $shape
	done
	perf_json 'd["ios"] == 999'
}

perf_time() {
	perf_run time -t 0.2
	perf_json 'd["seconds"] > 0.1 and d["ios"] > 0'
	says '[0-9]+ IOPS, [0-9.]+ GiB/s' "$bin/nvmfr-perf" -t 0.1 -r "$ram"
	says 'us per I/O' "$bin/nvmfr-perf" --runtime 0.1 --iodepth 4 --bs 8K --rw read --numjobs 2 --uri "$ram"
}

# catches_int PID NAME: that process is NAME by now, and has its handler for SIGINT in place.
catches_int() {
	[ "$(cat "/proc/$1/comm")" = "$2" ] &&
		(( 0x$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status") & 2 ))
}

perf_interrupted() {
	local job status=0
	"$bin/nvmfr-perf" -t 100 -j -r "$ram" >"$work/json" 2>"$work/said" &
	job=$!
	until catches_int $job nvmfr-perf; do
		kill -0 $job
	done
	kill -INT $job
	wait $job || status=$?
	cat "$work/said"
	[ $status = 0 ]
	grep -q interrupted "$work/said"
	json 'd["seconds"] < 100' "$work/json"
}

perf_mistakes() {
	refuses 'depth' "$bin/nvmfr-perf" -q 0 -r "$ram"
	refuses 'multiple' "$bin/nvmfr-perf" -o 1000 -n 1 -r "$ram"
	refuses 'share' "$bin/nvmfr-perf" -o 16M -n 1 -r "$ram"
	refuses 'workload' "$bin/nvmfr-perf" -w nosuch -r "$ram"
	refuses 'usage' "$bin/nvmfr-perf"
	refuses 'threads' "$bin/nvmfr-perf" -c 2000 -r "$ram"
	refuses 'latency' "$bin/nvmfr-perf" -L maybe -r "$ram"
}

# ---- zerocopy, which is what quickstart.sh runs

zerocopy_file() {
	random_file "$work/big" $((5 * 1024 * 1024 + 4321))
	bounded "$bin/zerocopy" --sha256 "$(sum_of "$work/big")" "$work/big" >"$work/zerocopy"
	cat "$work/zerocopy"
	grep -qE 'system calls +0 between submit and completion .*was found' "$work/zerocopy"
	grep -qE 'host copies +0 bytes' "$work/zerocopy"
	grep -qE ' [1-9][0-9]* after an unaligned read' "$work/zerocopy"
	grep -qE "target's copy +[1-9][0-9]* bytes" "$work/zerocopy"
}

zerocopy_uri() { says 'host copies +0 bytes' "$bin/zerocopy" --threads 3 "$ram"; }

zerocopy_finds_wrong_data() {
	refuses 'not the SHA-256 of the file' "$bin/zerocopy" --sha256 "$(echo | sha256sum | cut -d' ' -f1)" \
		"$work/big"
	refuses 'too few' "$bin/zerocopy" --threads 64 "$work/big"
}

check 'read' read_block
check 'read, mistakes' read_mistakes
check 'copy, empty file' round_trip 0 512
check 'copy, one byte' round_trip 1 512
check 'copy, whole chunks' round_trip $((1024 * 1024)) 4096
check 'copy, odd size' round_trip 3141593 512 --depth 5
check 'copy, deeper than there are chunks' round_trip 300000 4096 --depth 1000 --block-size 4096
check 'copy, chunks larger than a command' round_trip 4000001 512 --depth 2 --block-size 2M
check 'copy, last block is padded' copy_pads
check 'copy, from an LBA' copy_at_lba
check 'copy, mistakes' copy_mistakes
check 'epoll' epoll_reads
check 'identify, JSON' identify_json
check 'identify, table' identify_table
check 'probe' probe_both
check 'perf, workloads' perf_workloads
check 'perf, latency' perf_latency
check 'perf, shapes' perf_shapes
check 'perf, by time' perf_time
check 'perf, interrupted' perf_interrupted
check 'perf, mistakes' perf_mistakes
check 'zerocopy, a file' zerocopy_file
check 'zerocopy, a URI' zerocopy_uri
check 'zerocopy, wrong data is found' zerocopy_finds_wrong_data

echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
