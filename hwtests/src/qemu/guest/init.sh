#!/bin/sh
# Process 1 of the machine: sets it up, runs /job/run, hands over what that reported, switches off.
# A report is `@ NAME BYTES`, a line feed, and that many bytes, on the second serial port.
export PATH=/usr/bin HOME=/root TMPDIR=/tmp LC_ALL=C

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /run/dpdk
mount -t devpts devpts /dev/pts
ln -s /proc/self/fd /dev/fd
stty -F /dev/ttyS1 raw -echo
while read -r module; do
    insmod "$module" || echo "init: cannot load $module"
done </modules/order
ip link set lo up

report() { { printf '@ %s %s\n' "$1" "$(stat -c %s "$2")"; cat "$2"; } >/dev/ttyS1; }
mkdir /tmp/report
cd /job
# Its own session: a signal to the job's group shall not reach process 1.
setsid --wait sh ./run
echo $? >/tmp/status
for file in /tmp/report/*; do
    [ ! -e "$file" ] || report "${file##*/}" "$file"
done
report status /tmp/status
# Both ends of QEMU's power: with -no-reboot a reset ends it too.
echo o >/proc/sysrq-trigger
sleep 5
echo b >/proc/sysrq-trigger
