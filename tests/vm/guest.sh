# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced in the guest: an RDMA device made of software, and the kernel's NVMe target behind it.
nvmet=/sys/kernel/config/nvmet
nqn_prefix=nqn.2024-01.io.nvmfr
addr4=10.9.0.1
addr6=fd09::1
host_nqn=nqn.2014-08.org.nvmexpress:uuid:0a0b0c0d-1111-4222-8333-444455556666
host_id=0a0b0c0d-1111-4222-8333-444455556666

nqn() { echo "$nqn_prefix:$1"; }
uri() { echo "nvmf+rdma://$addr4:4420/$(nqn "$1")"; }

# The identity that both initiators take, whatever this machine's own is.
host_identity() {
	mkdir -p /etc/nvme
	echo $host_nqn >/etc/nvme/hostnqn
	echo $host_id >/etc/nvme/hostid
}

# An MTU of 4200 gives a path MTU of 4096. The first addresses on a device become its GIDs.
rxe_up() {
	modprobe -a dummy rdma_rxe rdma_ucm ib_uverbs
	ip link add dum0 type dummy
	ip link set dum0 mtu 4200 up
	ip addr add $addr4/24 dev dum0
	ip addr add $addr6/64 dev dum0 nodad
	rdma link add rxe0 type rxe netdev dum0
}

link_local() { ip -6 -o addr show dev dum0 scope link | sed 's/.*inet6 \([^/]*\).*/\1/'; }

nvmet_up() {
	modprobe -a nvmet nvmet-rdma nvme-rdma
	modprobe null_blk nr_devices=0
	mount -t configfs none /sys/kernel/config
}

# null_blk INDEX BLOCK_BYTES MIB: a disk in memory, /dev/nullbINDEX
null_blk() {
	local dir=/sys/kernel/config/nullb/nullb$1
	mkdir "$dir"
	echo "$2" >"$dir/blocksize"
	echo "$3" >"$dir/size"
	echo 1 >"$dir/memory_backed"
	echo 0 >"$dir/irqmode"
	echo 2 >"$dir/queue_mode"
	echo 1 >"$dir/power"
}

subsystem() {
	mkdir "$nvmet/subsystems/$(nqn "$1")"
	echo 1 >"$nvmet/subsystems/$(nqn "$1")/attr_allow_any_host"
}

# namespace SUBSYSTEM NSID PATH: PATH is a disk or a file. Identifiers follow from all three: the
# kernel's initiator refuses a second namespace with the same ones, though the backing be the same.
namespace() {
	local dir digest nguid
	dir=$nvmet/subsystems/$(nqn "$1")/namespaces/$2
	digest=$(md5sum <<<"$*")
	mkdir "$dir"
	echo "$3" >"$dir/device_path"
	sed -E 's/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/\1-\2-\3-\4-\5/' <<<"$digest" >"$dir/device_uuid"
	nguid=$(rev <<<"${digest:0:32}")
	echo "$nguid" >"$dir/device_nguid"
	# A file on tmpfs knows no direct I/O, and nvmet then answers EINVAL to every command.
	[ -b "$3" ] || echo 1 >"$dir/buffered_io"
	echo 1 >"$dir/enable"
}

# port ID FAMILY ADDRESS SERVICE: 16 KiB of in-capsule data, as much as nvmet offers.
port() {
	local dir=$nvmet/ports/$1
	mkdir "$dir"
	echo "$2" >"$dir/addr_adrfam"
	echo rdma >"$dir/addr_trtype"
	echo "$3" >"$dir/addr_traddr"
	echo "$4" >"$dir/addr_trsvcid"
	echo 16384 >"$dir/param_inline_data_size"
}

# export_on PORT SUBSYSTEM, and its opposite, which disconnects every host of the subsystem there.
export_on() { ln -s "$nvmet/subsystems/$(nqn "$2")" "$nvmet/ports/$1/subsystems/$(nqn "$2")"; }
unexport_on() { rm "$nvmet/ports/$1/subsystems/$(nqn "$2")"; }

only_hosts() {
	local subsystem=$1 host
	shift
	echo 0 >"$nvmet/subsystems/$(nqn "$subsystem")/attr_allow_any_host"
	for host; do allow_host "$subsystem" "$host"; done
}

allow_host() {
	mkdir -p "$nvmet/hosts/$2"
	ln -s "$nvmet/hosts/$2" "$nvmet/subsystems/$(nqn "$1")/allowed_hosts/$2"
}

# until_true SECONDS COMMAND...: the bound is for a broken guest; nothing waits for it to pass.
until_true() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@"; do
		[ $SECONDS -lt $end ] || { echo "still not true: $*"; return 1; }
		sleep 0.1
	done
}

# kernel_connect SUBSYSTEM: the kernel's own initiator; prints the controller's name, nvmeN.
kernel_connect() {
	nvme connect -t rdma -a $addr4 -s 4420 -n "$(nqn "$1")" -i 2 -o json |
		sed -n 's/.*"device" *: *"\([^"]*\)".*/\1/p'
}

kernel_disconnect() { nvme disconnect -n "$(nqn "$1")" >/dev/null; }

# kernel_disk SUBSYSTEM NSID: the block device. Its number need not be the NSID, and the devices
# with a "c" in their name are single paths, without a node in /dev.
kernel_disk() {
	local block
	for block in /sys/block/nvme*n*; do
		case ${block##*/} in *c*n*) continue ;; esac
		[ "$(cat "$block/device/subsysnqn")" = "$(nqn "$1")" ] || continue
		[ "$(cat "$block/nsid")" = "$2" ] || continue
		[ ! -b "/dev/${block##*/}" ] || { echo "/dev/${block##*/}"; return; }
	done
	return 1
}

# The counters of the RDMA device that only grow when a packet was lost, late or unwelcome.
rxe_trouble() {
	rdma statistic show link rxe0/1 | grep -oE \
		'(duplicate_request|out_of_seq_request|[a-z_]*rnr[a-z_]*|[a-z_]*retry[a-z_]*|rcvd_seq_err|send_err) [0-9]+' |
		grep -v ' 0$' || true
}
