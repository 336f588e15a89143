# SPDX-License-Identifier: BSD-3-Clause
#
# Process 1 of the guest once its root is the host's: guest-boot.sh JOB. Runs JOB/command with its
# output on the port "console", writes its exit status to the port "status" and powers off.
job=$1
. "$job/settings"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb

mkdir -p /dev/pts /dev/shm /run /lib/modules
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
mount -t debugfs none /sys/kernel/debug 2>/dev/null
ln -sfn /proc/self/fd /dev/fd
[ -e "/lib/modules/$kernel" ] || ln -s "$modules" "/lib/modules/$kernel"
hostname vmguest
ip link set lo up
ulimit -l unlimited

for port in /sys/class/virtio-ports/*; do
	read -r name <"$port/name"
	eval "$name=/dev/${port##*/}"
done
setsid bash "$job/command" </dev/null >"$console" 2>&1
echo $? >"$status"
echo 1 >/proc/sys/kernel/sysrq
echo o >/proc/sysrq-trigger
sleep 60
