#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/deps.sh GROUP...    install what a fresh Debian 12 lacks
#   quick   compiler, build tool and headers for the library and its examples
#   build   quick, and what the tests, guards and documents need
#   torch   PyTorch for the data loading tests (140 MB), which are skipped without it
#   vm      a small virtual machine: QEMU, a kernel, and the programs run in the guest
#
# Only missing packages are installed. Who is not root gets the command to run instead,
# and a failure if anything is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/vm/kernel.sh"

quick=(gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev libnuma-dev libssl-dev
	libjansson-dev)
build=("${quick[@]}" binutils clang clang-format clang-tidy doxygen g++ libc6-dbg libclang-rt-14-dev
	libcriterion-dev mypy python3 python3-matplotlib python3-numpy python3-pytest python3-venv systemtap-sdt-dev
	universal-ctags valgrind)
torch=(python3-torch)
vm=(qemu-system-x86 busybox-static cpio gzip xz-utils kmod iproute2 nvme-cli ibverbs-providers
	python3)

say() { echo "deps: $*"; }
die() { echo "deps: $*" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 "$@" </dev/null
}

# Package lists are fetched only after something failed without them, and once a run.
lists_fresh=
apt_update() {
	[ -z "$lists_fresh" ] || return 1
	say "fetching the package lists"
	lists_fresh=1
	apt update || { sleep 3; apt update; } || { say "apt-get update failed twice: is there a network?"; return 1; }
}

missing() {
	local have pkg
	have=$(dpkg-query -W -f '${Package}:${db:Status-Status}\n' "$@" 2>/dev/null) || true
	for pkg; do
		grep -qxF "$pkg:installed" <<<"$have" || echo "$pkg"
	done
}

install() {
	local log
	log=$(mktemp)
	say "installing: $*"
	if apt install -y --no-install-recommends "$@" >"$log" 2>&1; then
		rm "$log"
		return
	fi
	apt_update || true
	apt install -y --no-install-recommends "$@" >"$log" 2>&1 ||
		{ tail -n 20 "$log" >&2; die "apt-get could not install the packages; its words are above"; }
	rm "$log"
}

newest_offered() {
	apt-cache pkgnames linux-image-6.1.0- | sed -n 's/^linux-image-\(6\.1\.0-[0-9]*-amd64\)$/\1/p' |
		sort -V | tail -n 1
}

# Unpacked beside the system, not installed: no boot entry, no initramfs hooks, and /boot of this
# machine (which may well be a container) stays as it is.
unpack_kernel() {
	local version=$1 tmp
	mkdir -p "$kernel_cache"
	tmp=$(mktemp -d "$kernel_cache/unpack.XXXXXX")
	chmod 755 "$tmp"
	if ! (cd "$tmp" && apt -o APT::Sandbox::User=root download "linux-image-$version") 2>/dev/null; then
		rm -rf "$tmp"
		return 1
	fi
	mkdir "$tmp/root"
	dpkg --fsys-tarfile "$tmp"/*.deb | tar -x -C "$tmp/root" ./boot ./lib
	depmod -b "$tmp/root" "$version"
	rm -rf "${kernel_cache:?}/$version"
	mv "$tmp/root" "$kernel_cache/$version"
	rm -rf "$tmp"
}

install_kernel() {
	local version
	if [ -e "$(kernel_image "$kernel_pin")" ]; then
		say "kernel for the virtual machine: $kernel_pin"
		return
	fi
	say "unpacking kernel $kernel_pin for the virtual machine"
	if ! unpack_kernel "$kernel_pin" && { ! apt_update || ! unpack_kernel "$kernel_pin"; }; then
		version=$(newest_offered)
		say "kernel $kernel_pin cannot be fetched; falling back to ${version:-an installed one}"
		[ -z "$version" ] || [ -e "$(kernel_image "$version")" ] || unpack_kernel "$version" || true
	fi
	version=$(kernel_pick) || die "no 6.1 kernel: apt offers none and none is installed"
	say "kernel for the virtual machine: $version"
}

check_only() {
	if [ -n "$want_kernel" ] && ! kernel_pick >/dev/null; then
		lacking+=("linux-image-$kernel_pin")
	fi
	[ ${#lacking[@]} != 0 ] || return 0
	echo "deps: missing packages; as root run:" >&2
	echo "  apt-get install -y --no-install-recommends ${lacking[*]}" >&2
	exit 1
}

[ $# -gt 0 ] || { sed -n '4,8p' "$0" >&2; exit 2; }
wanted=() want_kernel=
for group; do
	case $group in
	quick) wanted+=("${quick[@]}") ;;
	build) wanted+=("${build[@]}") ;;
	torch) wanted+=("${torch[@]}") ;;
	vm) wanted+=("${vm[@]}") want_kernel=1 ;;
	*) sed -n '4,8p' "$0" >&2; exit 2 ;;
	esac
done
command -v dpkg-query >/dev/null || die "not a Debian system; install by hand: ${wanted[*]}"
if [ -n "$want_kernel" ] && [ "$(uname -m)" != x86_64 ]; then
	die "the virtual machine runs this machine's own programs and exists for x86_64 only"
fi
mapfile -t lacking < <(missing "${wanted[@]}" | sort -u)

if ! is_root; then
	check_only
else
	[ ${#lacking[@]} = 0 ] || install "${lacking[@]}"
	[ -z "$want_kernel" ] || install_kernel
fi
say "ready: $*"
