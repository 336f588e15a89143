# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by suite.sh: one load that is verified all the time (vmcheck endure), and what it goes through, on a wire
# of its own. Two RDMA devices on the two ends of a veth pair: only there do packets leave the
# driver, so that some can be lost.
wire_host=10.8.0.1
wire_target=10.8.0.2
wire_image=/run/wire.img
load_log=$work/load.log
load_orders=$work/load.orders
load_status=$work/load.status
mark=0

# Both ends are in one network namespace, as this driver listens in the first one only. Addresses
# of this machine would be reached without the wire: the local table comes last, and each direction has a table. The
# rules by output device are for rdma_cm, which asks whether a request's way back is the one it came.
wire_up() {
	local end
	modprobe -a veth sch_netem
	ip link add va type veth peer name vb
	for end in va vb; do
		ip link set $end mtu 4200
		sysctl -qw net.ipv4.conf.$end.accept_local=1 net.ipv4.conf.$end.rp_filter=0 net.ipv4.conf.$end.arp_ignore=1
	done
	sysctl -qw net.ipv4.conf.all.rp_filter=0
	ip addr add $wire_host/32 dev va
	ip addr add $wire_target/32 dev vb
	ip rule add pref 10 lookup local
	ip rule del pref 0
	direction va $wire_host $wire_target 100
	direction vb $wire_target $wire_host 101
	wire_plugged host
	wire_plugged target
}

# direction DEVICE FROM TO TABLE
direction() {
	ip rule add pref 1 iif lo to "$3" from "$2" lookup "$4"
	ip rule add pref 2 oif "$1" from "$2" to "$3" lookup "$4"
}

# Everything that an end loses with its netdev and with its RDMA device. The device is the last: addresses become GIDs.
wire_plugged() {
	case $1 in
	host) wire_end va vb $wire_host $wire_target 100 rxa ;;
	target) wire_end vb va $wire_target $wire_host 101 rxb ;;
	esac
}

# wire_end DEVICE OTHER FROM TO TABLE RDMA_DEVICE
wire_end() {
	ip link set "$1" up
	ip route replace "$4" dev "$1" src "$3" table "$5"
	ip neigh replace "$4" dev "$1" lladdr "$(cat "/sys/class/net/$2/address")" nud permanent
	rdma link add "$6" type rxe netdev "$1"
}

# What is sent through a netdev that is down breaks this driver's connections for good: both go, and come back.
wire_unplugged() {
	case $1 in
	host) ip link set va down && rdma link delete rxa ;;
	target) ip link set vb down && rdma link delete rxb ;;
	esac
}

wire_loses() { tc qdisc replace dev va root netem loss "$1" && tc qdisc replace dev vb root netem loss "$1"; }
wire_works() { tc qdisc del dev va root && tc qdisc del dev vb root; }

wire_subsystem() {
	subsystem wire
	namespace wire 1 $wire_image
}

# ---- the load

load() {
	local status=0
	bound=500 bounded "$vmcheck" endure --threads 2 --source $wire_host \
		"nvmf+rdma://$wire_target:4420/$(nqn wire)" <$load_orders >$load_log 2>&1 || status=$?
	echo $status >$load_status
}

load_begins() {
	wire_up
	truncate -s 32M $wire_image
	wire_subsystem
	port 4 ipv4 $wire_target 4420
	export_on 4 wire
	mkfifo $load_orders
	: >$load_log
	load &
	# Held open for as long as the guest runs: an order is not to end the input.
	sleep infinity >$load_orders &
	verified
}

load_ended() { [ -e $load_status ]; }
told() { tail -n "+$((mark + 1))" $load_log | grep -qE "$1"; }
told_or_ended() { told "$1" || load_ended; }

# expect SECONDS WORDS: the load says so, after what it said before the fault.
expect() {
	until_true "$1" told_or_ended "$2" || true
	told "$2" || { echo "the load did not say: $2"; tail -n 20 $load_log; return 1; }
}

order() { echo "$1" >$load_orders; }

verified() {
	order v
	expect 120 '^verified'
}

# faulty SCENARIO: breaks and mends, and looks at the events; then all data is read back.
faulty() {
	mark=$(wc -l <$load_log)
	order f
	expect 10 '^fault'
	"$@"
	verified
	tail -n "+$((mark + 1))" $load_log
	tail -n "+$((mark + 1))" $load_log | sed -nE 's/^(first|never)/figure: \1/p'
}

load_ends() {
	order e
	until_true 60 load_ended
	cat $load_log
	[ "$(cat $load_status)" = 0 ]
}

recovered() {
	expect 30 '^event: recovering'
	expect 90 "^event: live, ${1:-[0-9]*} queues"
}

# never WORDS
never() {
	! told "$1" || { echo "the load should not have said: $1"; tail -n 20 $load_log; return 1; }
}

# ---- what it goes through

# The port's only subsystem: with it nvmet's listener goes.
port_disabled() {
	unexport_on 4 wire
	sleep 1
	export_on 4 wire
	recovered
}

# Another one stays at the port, and what comes back has the same identity.
subsystem_removed() {
	local dir
	dir=$nvmet/subsystems/$(nqn wire)
	export_on 4 ram512
	unexport_on 4 wire
	rmdir "$dir/namespaces/1" "$dir"
	sleep 1
	wire_subsystem
	export_on 4 wire
	recovered
	unexport_on 4 ram512
}

# The load's own is resized.
namespaces_change() {
	local dir
	dir=$nvmet/subsystems/$(nqn wire)/namespaces
	namespace wire 2 /dev/nullb0
	expect 30 '^event: namespace 2 added, .* 131072 blocks'
	truncate -s 48M $wire_image
	echo 1 >"$dir/1/revalidate_size"
	expect 30 '^event: namespace 1 changed, value 1, 12288 blocks'
	rmdir "$dir/2"
	expect 30 '^event: namespace 2 removed'
	truncate -s 32M $wire_image
	echo 1 >"$dir/1/revalidate_size"
	expect 30 '^event: namespace 1 changed, value 1, 8192 blocks'
	never recovering
}

# For the next connect. Two queues are as many as the load has.
queue_count() {
	echo "$1" >"$nvmet/subsystems/$(nqn wire)/attr_qid_max"
	unexport_on 4 wire
	export_on 4 wire
	recovered "$1"
}

silent() {
	wire_loses 100%
	sleep "$1"
	wire_works
}

# Shorter than the keep-alive and the transport's retries: late, and that is all.
silent_briefly() {
	silent 3
	sleep 4
	never '^event'
}

silent_for_long() {
	silent 30
	recovered
}

# unplugged END: its port's listener goes with the target's device, without a word.
unplugged() {
	wire_unplugged "$1"
	sleep 2
	wire_plugged "$1"
	[ "$1" = host ] || { unexport_on 4 wire && export_on 4 wire; }
	recovered
}

lossy() {
	wire_loses 1%
	sleep 8
	wire_works
	never '^event'
}
