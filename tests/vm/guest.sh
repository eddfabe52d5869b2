#!/bin/sh
# The kernel of a virtual machine as a user plane function: packets get a DSCP as they come in
# and go back out. All is ready before the device takes its first packet.
/sbin/tc qdisc add dev eth0 clsact
/sbin/tc filter add dev eth0 ingress protocol ip matchall \
    action pedit ex munge ip dsfield set 0xb8 retain 0xfc pipe \
    action csum ip4h pipe \
    action mirred egress redirect dev eth0
/sbin/ip link set dev eth0 up
# Until the host says that the machine is to start again, which it does like one whose power
# is switched off and on.
until [ -e /share/reboot ]; do
    sleep 0.2
done
rm /share/reboot
reboot -f
sleep 60
