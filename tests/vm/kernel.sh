# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced: which kernel the virtual machine boots and where its files are. A kernel is a tree with
# boot/vmlinuz-VERSION and lib/modules/VERSION: one unpacked by tests/deps.sh, or this system's own.

# Pinned, because soft-RoCE and the NVMe target change between kernels and tests would change along.
kernel_pin=6.1.0-57-amd64
kernel_cache=${NVMFR_VM_KERNELS:-/var/cache/nvmfr-vm}

kernel_root() {
	if [ -e "$kernel_cache/$1/boot/vmlinuz-$1" ]; then
		echo "$kernel_cache/$1"
	fi
}

kernel_image() { echo "$(kernel_root "$1")/boot/vmlinuz-$1"; }
kernel_modules() { echo "$(kernel_root "$1")/lib/modules/$1"; }

# NVMFR_VM_KERNEL if set, else the pinned one, else the newest 6.1 there is.
kernel_pick() {
	local version found
	found=$(ls -d "$kernel_cache"/6.1.*/boot/vmlinuz-* /boot/vmlinuz-6.1.* 2>/dev/null |
		sed 's/.*vmlinuz-//' | sort -V)
	for version in ${NVMFR_VM_KERNEL:-$kernel_pin $(tac <<<"$found")}; do
		if [ -r "$(kernel_image "$version")" ] && [ -r "$(kernel_modules "$version")/modules.dep" ]; then
			echo "$version"
			return
		fi
	done
	return 1
}
