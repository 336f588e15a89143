#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/vm/loader.sh BUILD_DIR [OPTION...]    measures the data loader next to the kernel's initiator
#
# In a guest, from the kernel's target over soft-RoCE, both on the same namespace in memory. OPTIONs are
# loader.py's: --rounds, --records, --bytes, --json. Needs PyTorch for /usr/bin/python3 (python3-torch).
# Takes some ten minutes: in emulation each import of torch is a minute. Exit status 77: no virtual machine.
set -u
here=$(cd "$(dirname "$0")" && pwd)

if [ "${1:-}" != --guest ]; then
	[ $# -ge 1 ] || { sed -n '4,8p' "$0" >&2; exit 2; }
	build=$(cd "$1" && pwd) || exit 2
	shift
	exec "$here/vm-run" -t "${NVMFR_VM_SECONDS:-1800}" bash "$here/loader.sh" --guest "$build" "$@"
fi

set -e
build=$2
shift 2
. "$here/guest.sh"
host_identity
rxe_up
nvmet_up
null_blk 0 4096 256
port 1 ipv4 $addr4 4420
subsystem records
namespace records 1 /dev/nullb0
export_on 1 records
kernel_connect records >/dev/null
until_true 60 kernel_disk records 1 >/dev/null
echo "# target up after $(cut -d' ' -f1 /proc/uptime) s"
PYTHONPATH=$here/../../bindings/python NVMFR_LIBRARY=$build/lib/libnvmfr.so \
	/usr/bin/python3 -B "$here/loader.py" "$(uri records)" "$(kernel_disk records 1)" "$@"
