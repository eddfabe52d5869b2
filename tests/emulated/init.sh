#!/bin/busybox sh
# shellcheck shell=dash
# The first program of the emulated machine: makes it fit to live in, does what the host
# has put into the shared folder, and switches it off.
/bin/busybox --install -s /bin
export PATH=/sbin:/bin # iproute2's `ip` is in /sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/hugepages
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mount -t hugetlbfs hugetlbfs /dev/hugepages
while read -r module; do
    insmod "$module" || echo "init: $module cannot be loaded"
done </modules
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none share /share ||
    echo "init: there is no shared folder"
ip link set dev lo up
sh /share/guest.sh
sync
poweroff -f
