#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# suite.sh BUILD_DIR PATTERN [EXCEPT]: runs in the guest (see run.sh) the tests whose name PATTERN matches, and EXCEPT
# does not. One line a test, "ok - NAME" or "not ok - NAME", a failed one followed by its output; the last
# line is "N passed, N failed".
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1 pattern=$2 except=${3:-^$}
. "$here/guest.sh"

identify=$build/examples/identify
copy=$build/examples/copy
read_=$build/examples/read
perf=$build/examples/nvmfr-perf
quickstart=$here/../../examples/quickstart.sh
vmcheck=$build/tests/vm/vmcheck
work=/run/suite
. "$here/wire.sh"
passed=0 failed=0
# Not a multiple of the transfer limit, so the last command of a copy is a shorter one.
file_bytes=$((5 * 1024 * 1024 + 3 * 4096))

elapsed() { printf '%d.%d' $((($2 - $1) / 1000000)) $((($2 - $1) / 100000 % 10)); }
microseconds() { echo "${EPOCHREALTIME/./}"; }

# check NAME FUNCTION [ARGUMENT...]: a test fails with the first command that does. Of one that passes
# the lines that begin with "figure: " are shown.
check() {
	local name=$1 start status
	shift
	[[ $name =~ $pattern && ! $name =~ $except ]] || return 0
	start=$(microseconds)
	(set -e; "$@") >$work/output 2>&1
	status=$?
	if [ $status = 0 ]; then
		passed=$((passed + 1))
		echo "ok - $name ($(elapsed "$start" "$(microseconds)") s)"
		sed -n 's/^figure: /#   /p' $work/output
	else
		failed=$((failed + 1))
		echo "not ok - $name ($(elapsed "$start" "$(microseconds)") s, status $status)"
		tail -n 30 $work/output | sed 's/^/#   /'
	fi
}

# bounded PROGRAM...: a hang becomes a failure that says so.
bounded() {
	local status=0
	timeout -k 5 "${bound:-120}" "$@" || status=$?
	[ $status != 124 ] && [ $status != 137 ] || echo "hung: ended after ${bound:-120} s: $*"
	return $status
}

# refuses WORDS PROGRAM...: fails as a program should, with one sentence that has WORDS (an extended
# regular expression) in it; neither a hang nor a signal counts.
refuses() {
	local words=$1 status=0
	shift
	bounded "$@" >$work/sentence 2>&1 || status=$?
	cat $work/sentence
	[ $status != 0 ] || { echo "succeeded, but should have been refused: $*"; return 1; }
	[ $status -lt 124 ] || { echo "status $status, from: $*"; return 1; }
	grep -qiE "$words" $work/sentence || { echo "nothing there says: $words"; return 1; }
}

sum_of() { sha256sum <"$1" | cut -d' ' -f1; }

same_sum() {
	[ "$(sum_of "$1")" = "$(sum_of "$2")" ] || { echo "$1 and $2 differ"; return 1; }
}

random_file() { head -c "$2" /dev/urandom >"$1"; }

# Direct I/O both ways: the kernel must neither keep what it writes nor remember what it read.
kernel_write() { dd if="$1" of="$2" bs=256k oflag=direct status=none; }
kernel_read() { dd if="$1" of="$2" bs=4k count=$((file_bytes / 4096)) iflag=direct status=none; }

# Leaves with the first command that fails: runs in a shell of its own.
set_up() {
	set -e
	nvmet_up
	null_blk 0 512 64
	null_blk 1 4096 64
	truncate -s 64M /run/target.img
	port 1 ipv4 $addr4 4420
	port 2 ipv6 $addr6 4420
	subsystem all
	local backing nsid=1
	for backing in ram512:/dev/nullb0 ram4096:/dev/nullb1 file:/run/target.img; do
		subsystem "${backing%%:*}"
		namespace "${backing%%:*}" 1 "${backing#*:}"
		export_on 1 "${backing%%:*}"
		# Gaps in the numbers, as a real subsystem has.
		namespace all $nsid "${backing#*:}"
		nsid=$((nsid + 3))
	done
	port 3 ipv6 "$(link_local)%dum0" 4421
	export_on 1 all
	export_on 2 all
	export_on 3 all
	subsystem closed
	namespace closed 1 /dev/nullb0
	only_hosts closed nqn.2024-01.io.nvmfr:friend
	export_on 1 closed
	subsystem paths
	namespace paths 1 /dev/nullb1
	export_on 1 paths
	export_on 2 paths
}

# ---- the kernel's initiator, which shows that the guest itself works

kernel_round_trip() {
	local disk
	disk=$(kernel_disk "$1" 1)
	random_file $work/written $file_bytes
	kernel_write $work/written "$disk"
	kernel_read "$disk" $work/read
	same_sum $work/written $work/read
}

# ---- what identify says

no_rdma_device() { refuses 'RDMA device' "$identify" "$(uri all)"; }

identity() {
	local nsid files=()
	nvme id-ctrl /dev/"$all_ctrl" -o json >$work/id-ctrl
	for nsid in 1 4 7; do
		nvme id-ns /dev/"$all_ctrl" -n $nsid -o json >$work/id-ns$nsid
		nvme ns-descs /dev/"$all_ctrl" -n $nsid -o json >$work/ns-descs$nsid
		files+=($nsid $work/id-ns$nsid $work/ns-descs$nsid)
	done
	bounded "$identify" --json "$1" >$work/identify
	python3 "$here/same-identity.py" $work/identify $work/id-ctrl "${files[@]}"
	bounded "$identify" "$1"
}

scoped_address() { bounded "$identify" "nvmf+rdma://[$(link_local)%dum0]:4421/$(nqn all)"; }

# ---- data

kernel_to_ours() {
	random_file $work/written $file_bytes
	kernel_write $work/written "$(kernel_disk "$1" 1)"
	bounded "$copy" --length $file_bytes "$(uri "$1")" $work/read | tee $work/copy
	same_sum $work/written $work/read
	grep -q "$(sum_of $work/written)" $work/copy
}

ours_to_kernel() {
	random_file $work/written $file_bytes
	bounded "$copy" $work/written "$(uri "$1")" | tee $work/copy
	grep -q "$(sum_of $work/written)" $work/copy
	kernel_read "$(kernel_disk "$1" 1)" $work/read
	same_sum $work/written $work/read
}

read_example() { bounded "$read_" "$(uri "$1")"; }

# vmcheck asks for an ack timeout of 17 s: what is retried then was lost, not late on a busy machine.
# The first line of output keeps this from passing on a kernel that calls its counters otherwise.
random_verify() {
	local name=$1 before after
	shift
	rdma statistic show link rxe0/1 | grep -E 'duplicate_request .* rcvd_rnr_err .* completer_retry_err '
	before=$(rxe_trouble)
	bounded "$vmcheck" verify --threads 4 --ios 150 --seed "$RANDOM" "$@" "$(uri "$name")"
	after=$(rxe_trouble)
	[ "$before" = "$after" ] || { echo "retries or RNR: before '$before', after '$after'"; return 1; }
}

# What the kernel wrote is found, and its sum is the file's. System calls are counted, and told: this
# driver enters the kernel at each post.
quick_start() {
	random_file $work/written 4194304
	kernel_write $work/written "$(kernel_disk "$1" 1)"
	PREBUILT=$build bounded "$quickstart" "$(uri "$1")" $work/written | tee $work/quickstart
	grep -q "SHA-256 *$(sum_of $work/written)" $work/quickstart
	grep -q "equal to the file's own, twice" $work/quickstart
	grep -q 'enters the kernel at each post' $work/quickstart
}

further_commands() {
	local name=$1
	shift
	bounded "$vmcheck" commands "$@" "$(uri "$name")"
}

# The system's own Python, which has numpy where it is installed: an import takes long in emulation.
python() {
	bound=240 PYTHONPATH=$here/../../bindings/python NVMFR_LIBRARY=$build/lib/libnvmfr.so bounded /usr/bin/python3 -B "$@"
}

python_smoke() {
	random_file $work/written $file_bytes
	kernel_write $work/written "$(kernel_disk "$1" 1)"
	python "$here/python_smoke.py" "$(uri "$1")" $work/written
	python -m nvmfr.info "$(uri "$1")" | tee $work/info
	grep "subsystem *$(nqn "$1")" $work/info
	python -m nvmfr.info "nvmf+rdma://$addr4" | tee $work/info
	grep "$(uri "$1")" $work/info
}

error_cases() { bounded "$vmcheck" errors "$(uri "$1")"; }

perf_run() {
	bounded "$perf" "$@" | tee $work/perf
	grep -qi 'iops' $work/perf
}

# ---- what is refused

wrong_port() { refuses "4499" "$identify" "nvmf+rdma://$addr4:4499/$(nqn all)"; }
wrong_nqn() { refuses "$(nqn nobody)" "$identify" "$(uri nobody)"; }
no_route() { refuses '192\.0\.2\.1' "$identify" "nvmf+rdma://192.0.2.1:4420/$(nqn all)"; }
silent_address() { refuses '10\.9\.0\.77' "$identify" "nvmf+rdma://10.9.0.77:4420/$(nqn all)"; }

# The sentence must name the host: that is what an administrator has to add.
refused_host() {
	refuses "$host_nqn" "$identify" "$(uri closed)"
	allow_host closed $host_nqn
	bounded "$identify" "$(uri closed)"
}

# ---- the target goes away

sectors_read() { awk '{ print $3 }' /sys/block/nullb1/stat; }
io_runs_or_ended() { [ "$(sectors_read)" -gt "$1" ] || ! kill -0 "$2" 2>/dev/null; }

# during_io PROGRAM...: takes the target away once PROGRAM reads from it; PROGRAM's status.
during_io() {
	local status=0 before job
	before=$(sectors_read)
	bounded "$@" &
	job=$!
	until_true 60 io_runs_or_ended "$before" $job
	unexport_on 1 ram4096
	wait $job || status=$?
	export_on 1 ram4096
	return $status
}

# perf has to end, by itself, with an error.
removed_under_perf() {
	local status=0
	during_io "$perf" -q 8 -o 4096 -w randread -t 50 -c 2 -r "$(uri ram4096)" || status=$?
	[ $status != 0 ] || { echo "no error, though the target went away"; return 1; }
	[ $status -lt 124 ] || { echo "status $status"; return 1; }
	bounded "$identify" "$(uri ram4096)"
}

# vmcheck counts: each command that was accepted must have ended, once.
removed_under_vmcheck() { during_io "$vmcheck" until-lost --threads 4 "$(uri ram4096)"; }

# The same handles read on when the target is there again.
outlived() {
	local status=0 before job
	before=$(sectors_read)
	bounded "$vmcheck" outlive --threads 4 --ios 100 "$(uri ram4096)" &
	job=$!
	until_true 60 io_runs_or_ended "$before" $job
	unexport_on 1 ram4096
	sleep 3
	export_on 1 ram4096
	wait $job || status=$?
	return $status
}

# What is verified goes by two ports of one subsystem; meanwhile COMMAND... switches, three times, at the target.
over_paths() {
	local status=0 before job
	before=$(sectors_read)
	bounded "$vmcheck" verify --threads 4 --ios 3000 --path "nvmf+rdma://[$addr6]:4420/$(nqn paths)" "$(uri paths)" &
	job=$!
	until_true 60 io_runs_or_ended "$before" $job
	for _ in 1 2 3; do
		! kill -0 $job 2>/dev/null || "$@"
	done
	kill -0 $job 2>/dev/null && echo "it ran on"
	wait $job || status=$?
	return $status
}

ana_state() { echo "$2" >"$nvmet/ports/$1/ana_groups/1/ana_state"; }

switch_group() {
	local on
	for on in 2 1; do
		ana_state $on optimized
		ana_state $((3 - on)) inaccessible
		sleep 0.5
	done
	ana_state 2 optimized
}

shut_port() {
	local start
	start=$(microseconds)
	unexport_on 2 paths
	sleep 1
	export_on 2 paths
	echo "port shut and open after $(elapsed "$start" "$(microseconds)") s"
	sleep 1
}

kernel_log_clean() { ! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|mr->lkey not free'; }

# ----

mkdir -p $work
host_identity
echo "# kernel $(uname -r), guest up after $(cut -d' ' -f1 /proc/uptime) s"
check 'no RDMA device gets its sentence' no_rdma_device
rxe_up
(set_up)
[ $? = 0 ] || { echo "the target could not be set up"; echo "0 passed, 1 failed"; exit 1; }
all_ctrl=$(kernel_connect all)
for name in ram512 ram4096 file; do
	kernel_connect $name >/dev/null
	until_true 30 kernel_disk $name 1 >/dev/null || { echo "the kernel's initiator found no disk"; exit 1; }
done
echo "# target up after $(cut -d' ' -f1 /proc/uptime) s"

for name in ram512 ram4096 file; do
	check "kernel initiator alone, $name" kernel_round_trip $name
done
check 'identify equals nvme-cli, IPv4' identity "$(uri all)"
check 'identify equals nvme-cli, IPv6' identity "nvmf+rdma://[$addr6]:4420/$(nqn all)"
check 'identify at an IPv6 address with a scope' scoped_address
for name in ram512 ram4096 file; do
	check "kernel writes, ours reads, $name" kernel_to_ours $name
	check "ours writes, kernel reads, $name" ours_to_kernel $name
done
check 'random write, read, verify with 4 threads, no retry, ram512' random_verify ram512 --zeroes
check 'random write, read, verify with 4 threads, no retry, ram4096' random_verify ram4096 --zeroes
# Without Write Zeroes: tmpfs cannot zero a range, and nvmet passes that on.
check 'random write, read, verify with 4 threads, no retry, file' random_verify file
check 'several queues from one source address' random_verify ram512 --source $addr4
check 'the read example' read_example ram4096
check 'the quick start, which counts what soft-RoCE costs' quick_start ram4096
check 'the Python package, ram512' python_smoke ram512
check 'the Python package, ram4096' python_smoke ram4096
check 'mistakes get errors, ram512' error_cases ram512
check 'admin commands, deallocate, and what the target has not, ram512' further_commands ram512
check 'admin commands, deallocate, and what the target has not, file' further_commands file --zeroes
check 'perf, random reads' perf_run -q 8 -o 4096 -w randread -t 2 -c 2 -r "$(uri ram512)"
check 'perf, random writes' perf_run -q 8 -o 16384 -w randwrite -t 2 -c 2 -r "$(uri ram4096)"
check 'perf, verified data' perf_run --verify --overwrite --length 12M -q 16 -o 12K -p 3 -n 2000 -c 2 -r "$(uri ram4096)"
check 'perf, verified data, more than a command carries' \
	perf_run --verify --overwrite -q 4 -o 3M -n 40 -r "$(uri ram512)"

check 'wrong port' wrong_port
check 'wrong NQN' wrong_nqn
check 'address without a route' no_route
check 'address that does not answer' silent_address
check 'refused host, then allowed' refused_host
kernel_disconnect ram4096
check 'target removed under nvmfr-perf' removed_under_perf
check 'target removed under vmcheck' removed_under_vmcheck
check 'target removed and back: recovery' outlived
check 'two paths, ANA group switched under verified load' over_paths switch_group
check 'two paths, port removed and back under verified load' over_paths shut_port
check 'wire: the load begins' load_begins
check 'wire: port disabled and enabled under verified load' faulty port_disabled
check 'wire: subsystem removed and added back under verified load' faulty subsystem_removed
check 'wire: namespace added, resized and removed under verified load' faulty namespaces_change
check 'wire: two queues are left, under verified load' faulty queue_count 2
check 'wire: more queues again, under verified load' faulty queue_count 16
check 'wire: silent for 3 s under verified load' faulty silent_briefly
check 'wire: silent for 30 s under verified load' faulty silent_for_long
check 'wire: 1 % loss under verified load' faulty lossy
check "wire: the target's device and netdev gone and back, under verified load" faulty unplugged target
check "wire: the host's device and netdev gone and back, under verified load" faulty unplugged host
check 'wire: the load ends' load_ends
check 'kernel log has no warning' kernel_log_clean

echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
