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

# not PROGRAM...: `!` alone does not fail a check.
not() { ! "$@"; }

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

# ---- epoll, identify, discover, probe

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
	json 'd["health"]["temperature_kelvin"] == 313 and d["health"]["spare_percent"] == 100' "$work/json"
}

identify_dump() {
	bounded "$bin/identify" --dump "$ram" >"$work/json"
	json '(d["state"] == "live" and d["target"]["transport"] == "soft" and "reason" not in d
		and d["controller"]["kato_ms"] > 0 and d["limits"]["max_xfer_bytes"] >= 4096 and d["queues"] == []
		and [n["blocks"] * n["block_bytes"] for n in d["namespaces"]] == [8 << 20])' "$work/json"
}

identify_table() {
	says '^subnqn +nqn\.' "$bin/identify" "$ram"
	says '^temperature_kelvin +313' "$bin/identify" "$ram"
	says '^ +1 +16384 +512 ' "$bin/identify" "$ram"
	refuses 'usage' "$bin/identify"
}

discover_json() {
	bounded "$bin/discover" --json "$ram" >"$work/json"
	json '(lambda r: d["generation"] == 1 and d["logs"] == 1 and d["skipped"] == 0 and r["trtype"] == "loop"
		and r["subtype"] == "nvm" and r["subnqn"].startswith("nqn."))(*d["records"])' "$work/json"
}

discover_table() {
	says '^generation 1, 1 records of 1 logs' "$bin/discover" "$ram"
	says '^nvm +loop .* nqn\.' "$bin/discover" --no-referrals "$ram"
	refuses 'usage' "$bin/discover"
	refuses 'no soft target' "$bin/discover" nvmf+soft://nowhere
}

# It goes on after its first list, until it is told to end.
discover_on() {
	local pid status=0
	"$bin/discover" "$1" "$ram" >"$work/watched" 2>&1 &
	pid=$!
	for _ in $(seq 1200); do
		! grep -q "$2" "$work/watched" || break
		sleep 0.1
	done
	grep -q "$2" "$work/watched"
	kill "$pid"
	wait "$pid" || status=$?
	[ $status = 143 ] || { cat "$work/watched"; return 1; }
}

probe_both() {
	bounded "$bin/probe" --json >"$work/json"
	json 'isinstance(d, dict) and d["system"]' "$work/json"
	says 'memlock' "$bin/probe"
	refuses 'usage' "$bin/probe" --nosuch
}

# Reads go on, none fails, and both paths are used again.
failover_reads() {
	says '^[0-9]+ reads, 0 failed, [0-9]+ issued again; path 0 live, [0-9]+, [0-9]+ failed over path 1 live, [0-9]+' \
		"$bin/failover" -t 4
	grep '^{' "$work/said" >"$work/json"
	json '([p["state"] for p in d["paths"]] == ["live"] * 2 and d["threads"] == 1
		and d["paths"][0]["aborted"] == d["paths"][0]["reissued"] > d["paths"][1]["aborted"] == 0
		and all(p["bytes"] == p["ios"] * 512 > 0 for p in d["paths"]))' "$work/json"
	says '; path 0 lost' "$bin/failover" -t 2
	refuses 'usage' "$bin/failover" -t 0
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
	refuses 'pieces' "$bin/nvmfr-perf" -o 4K -p 5 -r "$ram"
	refuses 'none of text csv json' "$bin/nvmfr-perf" --format xml -r "$ram"
	refuses 'beyond' "$bin/nvmfr-perf" --lba 16384 -n 1 -r "$ram"
	refuses 'too long' "$bin/nvmfr-perf" --lba 16383 --length 1K -n 1 -r "$ram"
	refuses 'multiple' "$bin/nvmfr-perf" --length 1000 -n 1 -r "$ram"
	refuses '/no/such/file: No such file' "$bin/nvmfr-perf" -n 1 --save /no/such/file -r "$ram"
	refuses 'threads' "$bin/nvmfr-perf" -c 2000 -r "$ram"
	refuses 'latency' "$bin/nvmfr-perf" -L maybe -r "$ram"
}

perf_part() {
	truncate -s 0 "$work/disk"
	truncate -s 1M "$work/disk"
	bounded "$bin/nvmfr-perf" -w write -n 100 -q 4 -o 1K --lba 8 --length 8K -r "$(soft_file "$work/disk")"
	cmp -n 4096 "$work/disk" /dev/zero
	cmp -i 12288:0 -n $((1024 * 1024 - 12288)) "$work/disk" /dev/zero
	not cmp -s -i 4096:0 -n 8192 "$work/disk" /dev/zero
	not cmp -s -i 11264:0 -n 1024 "$work/disk" /dev/zero
}

perf_help() {
	local option
	"$bin/nvmfr-perf" --help >"$work/said"
	for option in uri workload mix io-size pieces depth batch threads time count latency nsid lba length verify \
		seed overwrite json format save plot histogram stats compare help; do
		grep -q -- "--$option" "$work/said" || { echo "nothing of --$option"; return 1; }
	done
}

# The two formats have the same fields, and what cannot differ between two runs is the same.
perf_formats() {
	local uri="$ram&block=4096" options=(-n 2000 -q 8 -c 2 -w rw -M 30 -p 2)
	bounded "$bin/nvmfr-perf" --format csv "${options[@]}" -r "$uri" >"$work/csv"
	bounded "$bin/nvmfr-perf" --format json --histogram "${options[@]}" -r "$uri" >"$work/json"
	bounded "$bin/nvmfr-perf" --save "$work/saved" -L off "${options[@]}" -r "$uri" >/dev/null
	bounded "$bin/nvmfr-perf" --format csv -L off "${options[@]}" -r "$uri" >"$work/csv-off"
	python3 - "$work" "$uri" <<-'END'
		import csv, json, sys
		work, uri = sys.argv[1:]
		def flat(d):
		    return {k if g is None else f"{g}_{k}": v for g, o in [(None, d)] + list(d.items())
		            if isinstance(o, dict) for k, v in o.items() if not isinstance(v, (dict, list))}
		def row(name):
		    rows = list(csv.DictReader(open(f"{work}/{name}", newline="")))
		    assert len(rows) == 1 and None not in rows[0], rows
		    return rows[0]
		c, j, off = row("csv"), json.load(open(f"{work}/json")), row("csv-off")
		saved = json.load(open(f"{work}/saved"))
		assert list(c) == list(flat(j)) == list(off), (c, j)
		measured = ("seconds", "iops", "gib_per_s", "cpu_", "context_", "latency_", "reads", "writes", "thread_numa")
		for name, value in flat(j).items():
		    if name.startswith(measured):
		        float(c[name]) if name != "thread_numa_nodes" else None
		    else:
		        assert c[name] == str(value), name
		assert c["uri"] == uri and c["ios"] == "2000" and c["pieces"] == "2" and c["nvmfr_perf"] == "1"
		assert off["latency_us_p50"] == "" and "latency_us" not in saved and saved["ios"] == 2000
		assert sum(n for low, top, n in j["histogram_ns"]) == 2000
		assert all(low <= top and n > 0 for low, top, n in j["histogram_ns"])
		assert j["histogram_ns"][0][0] <= j["latency_us"]["min"] * 1000 + 1
	END
}

# A URI with a comma and a quotation mark in it is one cell.
perf_csv_quotes() {
	truncate -s 64K "$work/a,b\"c"
	bounded "$bin/nvmfr-perf" --format csv -n 10 -r "$(soft_file "$work/a,b\"c")" >"$work/csv"
	python3 -c 'import csv, sys; r, = csv.DictReader(open(sys.argv[1])); sys.exit(r["uri"] != sys.argv[2])' \
		"$work/csv" "$(soft_file "$work/a,b\"c")"
}

perf_plots() {
	says '^ +99\.9 +[0-9.]+  #+$' "$bin/nvmfr-perf" -n 5000 --plot --histogram -r "$ram"
	grep -qE '^ +min +[0-9.]+  #+$' "$work/said"
	grep -qE '^ +[0-9.]+ +[0-9.]+ +[1-9][0-9]* +[0-9.]+ +100\.000  #+$' "$work/said"
	LC_ALL=C not grep -q '[^ -~]' "$work/said" # a pipe gets nothing but ASCII
}

# The library's word on the same I/Os: as many, none of them sooner. Without the option there is none.
perf_stats() {
	perf_run stats -n 3000 -q 8 -c 2 -w rw -M 30 --stats
	perf_json '(lambda l: l["commands"] == 3000 and l["refused"] == l["aborted"] == l["timed_out"] == 0
		and l["losses"] == l["recoveries"] == 0 and l["admin_commands"] > 5 and "other_latency_us" not in l
		and l["read_latency_us"]["count"] == d["reads"] and l["write_latency_us"]["count"] == d["writes"]
		and all(0 < k["min"] <= k["p50"] <= k["p99"] <= k["p99.99"] <= k["max"] <= d["latency_us"]["max"]
			and k["min"] <= k["mean"] <= k["max"]
			for k in (l["read_latency_us"], l["write_latency_us"])))(d["library"])'
	perf_run split -n 100 -q 4 -o 3M --stats -L off
	perf_json 'd["library"]["commands"] > 100 and "latency_us" not in d'
	perf_run off -n 100
	perf_json '"library" not in d'
	says '^library   commands 1000, refused 0, .*, recoveries 0$' "$bin/nvmfr-perf" -n 1000 --stats -r "$ram"
	grep -qE '^library   1000 reads, min [0-9.]+, mean [0-9.]+, p50 .*, max [0-9.]+ us$' "$work/said"
}

perf_verify() {
	local shape
	for shape in '' '-c 3' '-o 512 -q 7 -b 3' '-p 4' '-o 2560 -p 5 -c 2' '-o 3M -q 2' '-o 2M -q 2 -c 2 -p 16' \
		'-w randread' '-w rw -o 16K' '-w write' '-M 90 -o 8K -c 4' '--lba 9 --length 8K -o 1K' '-o 4M -q 64'; do
		# shellcheck disable=SC2086
		perf_run "512 $shape" --verify --overwrite -n 2000 $shape
	done
	perf_json 'd["mismatches"] == 0 and d["verify"] == "run" and d["ios"] == 2000
		and d["checked_reads"] >= d["reads"] + d["range_blocks"] * 512 // d["io_bytes"] - d["threads"]'
	for shape in '' '-c 4 -o 8K' '-o 64K -p 4' '-o 3M -q 3'; do
		# shellcheck disable=SC2086
		bounded "$bin/nvmfr-perf" -j --verify --overwrite -n 2000 $shape -r "$ram&block=4096" \
			>"$work/4096 $shape.perf"
	done
	perf_json 'd["mismatches"] == 0 and d["block_bytes"] == 4096 and d["checked_reads"] > 0'
	says 'verify +run with --seed [0-9]+, LBA 0 to 16383: [0-9]+ reads checked, 0 with wrong data' \
		"$bin/nvmfr-perf" --verify -n 100 --overwrite -r "$ram"
}

# fill_disk BLOCK [OPTION...]: 1 MiB of pattern with seed 7.
fill_disk() {
	local block=$1
	shift
	truncate -s 0 "$work/disk"
	truncate -s 1M "$work/disk"
	bounded "$bin/nvmfr-perf" --verify=fill --overwrite --seed 7 "$@" -r "$(soft_file "$work/disk" "$block")"
}

# wrong WORDS BLOCK [OPTION...]: the check says so.
wrong() {
	local words=$1 block=$2
	shift 2
	refuses "wrong data: $words" "$bin/nvmfr-perf" --verify=check --seed 7 "$@" \
		-r "$(soft_file "$work/disk" "$block")"
	cp "$work/filled" "$work/disk"
}

# move BYTES FROM TO: within what was filled.
move() {
	dd if="$work/filled" of="$work/disk" bs=1 count="$1" skip="$2" seek="$3" conv=notrunc status=none
}

perf_verify_finds() {
	local block=$1
	fill_disk "$block" -o 64K -c 2
	cp "$work/disk" "$work/filled"
	says '0 with wrong data' "$bin/nvmfr-perf" --verify=check --seed 7 -o 12K -c 3 -p 2 \
		-r "$(soft_file "$work/disk" "$block")"
	dd if=/dev/zero of="$work/disk" bs=1 seek=$((block * 100 + 24)) count=100 conv=notrunc status=none
	wrong 'LBA 100, byte 24: expected .*seen 00 00 .*probably zeroes.*; (9[0-9]|100) of this' "$block" -c 4 -o "$block"
	move "$block" $((block * 200)) $((block * 77))
	wrong 'LBA 77, byte 0: .*probably data of LBA 200, generation 1; ' "$block" -o 16K -p 4
	move 64 $((block * 5 + 64)) $((block * 5 + 128))
	wrong 'LBA 5, byte 128: .*probably data of LBA 5, generation 1, from its byte 64 on' "$block"
	printf '\xff\xfe\xfd\xfc' | dd of="$work/disk" bs=1 seek=$((1024 * 1024 - 4)) conv=notrunc status=none
	wrong "LBA $((1024 * 1024 / block - 1)), byte $((block - 4)): .*nothing that was written with this seed" "$block"
	refuses 'wrong data: LBA 0, byte 0: .*nothing that was written' "$bin/nvmfr-perf" --verify=check --seed 8 \
		-r "$(soft_file "$work/disk" "$block")"
}

# What a run leaves is of later generations than what --verify=fill writes.
perf_verify_finds_newer() {
	fill_disk 512
	cp "$work/disk" "$work/filled"
	bounded "$bin/nvmfr-perf" --verify --overwrite --seed 7 -w randwrite -n 2000 -r "$(soft_file "$work/disk")"
	wrong 'LBA [0-9]+, byte 0: .*probably generation [0-9]+ of this LBA' 512
}

# during_verify WORDS FUNCTION: runs that function over and over while a disk of 256 KiB is verified.
# The threads must end by themselves, long before the time is over, with those words.
during_verify() {
	local words=$1 change=$2 job status=0
	fill_disk 512
	cp "$work/disk" "$work/filled"
	bounded "$bin/nvmfr-perf" --verify --overwrite --seed 7 -t 100 -c 2 -o 8K -q 4 -M 60 -j --length 256K \
		-r "$(soft_file "$work/disk")" >"$work/json" 2>"$work/said" &
	job=$!
	while kill -0 $job 2>/dev/null; do
		"$change" $((RANDOM % 512))
	done
	wait $job || status=$?
	cat "$work/said"
	[ $status = 1 ]
	grep -qE "wrong data: $words" "$work/said"
	json 'd["mismatches"] >= 1 and d["seconds"] < 100' "$work/json"
}

scribble() { printf 'wrong   ' | dd of="$work/disk" bs=8 seek=$(($1 * 64)) conv=notrunc status=none; }
bring_back() {
	dd if="$work/filled" of="$work/disk" bs=512 count=1 skip="$1" seek="$1" conv=notrunc status=none
}

# A read in the midst of such a change sees anything: then once more.
perf_verify_finds_lost_write() {
	local try
	for try in 1 2 3 4 5; do
		during_verify 'LBA [0-9]+, byte [0-9]+: ' bring_back
		! grep -q 'probably an older write to this LBA, generation 1: a later' "$work/said" || return 0
	done
	echo "not in $try tries"
	return 1
}

# A target that cannot be written is an error, not a mismatch.
perf_verify_mistakes() {
	local disk
	disk=$(soft_file "$work/disk")
	random_file "$work/disk" 64K
	cp "$work/disk" "$work/filled"
	refuses 'add --overwrite' "$bin/nvmfr-perf" --verify -r "$disk"
	refuses 'add --overwrite' "$bin/nvmfr-perf" --verify=fill -r "$disk"
	refuses 'needs the --seed' "$bin/nvmfr-perf" --verify=check -r "$disk"
	refuses 'none of run fill check' "$bin/nvmfr-perf" --verify=maybe -r "$disk"
	refuses 'go over all of it once' "$bin/nvmfr-perf" --verify=fill --overwrite -n 5 -r "$disk"
	refuses "is --verify's" "$bin/nvmfr-perf" --seed 5 -r "$disk"
	refuses 'write protected' "$bin/nvmfr-perf" --verify --overwrite -r "$disk&ro=1"
	refuses "thread's share" "$bin/nvmfr-perf" --verify --overwrite -c 3 -o 32K -r "$disk"
	cmp "$work/disk" "$work/filled"
}

perf_verify_interrupted() {
	local job status=0
	"$bin/nvmfr-perf" --verify --overwrite -t 100 -r "$ram" >"$work/json" 2>"$work/said" &
	job=$!
	until catches_int $job nvmfr-perf; do
		kill -0 $job
	done
	kill -INT $job
	wait $job || status=$?
	cat "$work/said"
	[ $status = 1 ]
	grep -q 'not everything was looked at' "$work/said"
}

# change FILE EXPRESSION: a.json, changed in Python, as FILE.
change() {
	python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
exec(sys.argv[3])
json.dump(d, open(sys.argv[2], "w"))' "$work/a.json" "$work/$1" "$2"
}

perf_compare() {
	local perf=$bin/nvmfr-perf
	bounded "$perf" -n 5000 -q 16 --save "$work/a.json" -r "$ram"
	if grep -q jansson <(ldd "$perf"); then
		:
	else
		refuses 'built without Jansson' "$perf" --compare "$work/a.json" "$work/a.json"
		return
	fi
	change b.json 'd["iops"] *= 2; d["latency_us"]["p50"] *= 0.5; d["cpu_us_per_io"] = 0; d["errors"] = 3'
	says '^IOPS +[0-9]+ +[0-9]+ +2\.000$' "$perf" --compare "$work/a.json" "$work/b.json"
	grep -qE '^latency p50, us +[0-9.]+ +[0-9.]+ +0\.500$' "$work/said"
	grep -qE '^CPU, us per I/O +[0-9.]+ +0\.000 +0\.000$' "$work/said"
	grep -qE '^errors +0 +3 +-$' "$work/said"
	not grep -qE 'NOT COMPARABLE|differs' "$work/said"
	change c.json 'd["io_bytes"] = 8192; d["uri"] = "nvmf+soft:?size=9M"; del d["latency_us"]'
	says '^NOT COMPARABLE: io_bytes is 4096 in A and 8192 in B$' "$perf" --compare "$work/a.json" "$work/c.json"
	grep -qxF "differs: uri is $ram in A and nvmf+soft:?size=9M in B" "$work/said"
	grep -qE '^latency p99, us +[0-9.]+ +- +-$' "$work/said"
	says '^latency p99, us +- +[0-9.]+ +-$' "$perf" --compare "$work/c.json" "$work/a.json"
}

perf_compare_mistakes() {
	local perf=$bin/nvmfr-perf bad
	grep -q jansson <(ldd "$perf") || return 0
	refuses 'two files' "$perf" --compare "$work/a.json"
	refuses 'two files' "$perf" --compare "$work/a.json" "$work/a.json" -r "$ram"
	refuses 'nosuchfile' "$perf" --compare "$work/a.json" "$work/nosuchfile"
	head -c 300 "$work/a.json" >"$work/bad"
	refuses 'bad:[0-9]+:[0-9]+: no JSON: .*' "$perf" --compare "$work/a.json" "$work/bad"
	for bad in '' '{' '[1, 2]' '5' 'null' '{}' '"\ud800"' '{"nvmfr_perf": "1"}' '{"nvmfr_perf": 2}' \
		'{"nvmfr_perf": 1}' '{"a": 1, "a": 2}' "$(printf '[%.0s' {1..5000})"; do
		printf '%s' "$bad" >"$work/bad"
		refuses "$work/bad" "$perf" --compare "$work/bad" "$work/a.json"
	done
	head -c 100K /dev/urandom >"$work/bad"
	refuses "$work/bad" "$perf" --compare "$work/a.json" "$work/bad"
	change bad 'd["iops"] = "fast"'
	refuses 'bad: has no number.* iops' "$perf" --compare "$work/a.json" "$work/bad"
	change bad 'd["iops"] = -1'
	refuses 'bad: has no number.* iops' "$perf" --compare "$work/a.json" "$work/bad"
	change bad 'd["latency_us"] = 3'
	refuses 'bad: has no number.* min' "$perf" --compare "$work/a.json" "$work/bad"
	change bad 'd["depth"] = None'
	refuses 'bad: has no string or whole number called depth' "$perf" --compare "$work/a.json" "$work/bad"
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
check 'identify, dump' identify_dump
check 'identify, table' identify_table
check 'discover, JSON' discover_json
check 'discover, table' discover_table
check 'discover, watching' discover_on --watch '^nvm '
check 'discover, connecting' discover_on --connect '^following '
check 'failover' failover_reads
check 'probe' probe_both
check 'perf, workloads' perf_workloads
check 'perf, latency' perf_latency
check 'perf, shapes' perf_shapes
check 'perf, by time' perf_time
check 'perf, interrupted' perf_interrupted
check 'perf, mistakes' perf_mistakes
check 'perf, a part of the namespace' perf_part
check 'perf, help' perf_help
check 'perf, CSV and JSON' perf_formats
check 'perf, CSV, odd URI' perf_csv_quotes
check 'perf, plots' perf_plots
check 'perf, stats' perf_stats
check 'perf, verify' perf_verify
check 'perf, verify finds wrong data, 512' perf_verify_finds 512
check 'perf, verify finds wrong data, 4096' perf_verify_finds 4096
check 'perf, verify finds a newer generation' perf_verify_finds_newer
check 'perf, verify finds wrong data as it runs' during_verify 'LBA [0-9]+, byte [0-9]+: ' scribble
check 'perf, verify finds a lost write' perf_verify_finds_lost_write
check 'perf, verify, mistakes' perf_verify_mistakes
check 'perf, verify, interrupted' perf_verify_interrupted
check 'perf, compare' perf_compare
check 'perf, compare, mistakes' perf_compare_mistakes
check 'zerocopy, a file' zerocopy_file
check 'zerocopy, a URI' zerocopy_uri
check 'zerocopy, wrong data is found' zerocopy_finds_wrong_data

echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
