#!/usr/bin/env bash
# Records kernel.pcap: traffic that the kernel's own stack makes between users
# and the outside, over one veth pair without offloads. kernel-uplink.pcap and
# kernel-downlink.pcap are its two directions, for the two ports of a node.
#
# Each end bears the MAC address of the node's port that would face the other
# end, so every frame is addressed as if the node stood between them.
#
# What is recorded differs in time stamps and identifiers each time; it is
# committed, and made anew only to change what it holds.
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source-path=SCRIPTDIR source=../../lib/report.sh
. ../../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../../lib/netns.sh
. ../../lib/netns.sh

OUTSIDE4=$ADDRESS_B4 OUTSIDE6=$ADDRESS_B6
VLAN=100
# What hosts say without being asked: multicast listener reports and, should a
# system service see the devices, DHCP, mDNS and router discovery.
NOISE='ipv6.nxt == 0 || dhcp || dhcpv6 || mdns || icmpv6.type in {133, 134}'

# Users 1-4 on one side, the outside on the other, with and without a VLAN tag.
build_wire() {
    local n
    make_namespace users
    make_namespace outside
    make_link users eth0 "$MAC_CORE" outside eth0 "$MAC_ACCESS" 1500
    add_vlan users eth0 "$VLAN"
    add_vlan outside eth0 "$VLAN"
    for n in 1 2 3 4; do
        in_ns users ip address add "10.0.0.$n/32" dev eth0
        in_ns users ip address add "2001:db8:0:$n::1/128" dev eth0
    done
    in_ns users ip route add 198.51.100.0/24 dev eth0 src 10.0.0.1
    in_ns users ip -6 route add 2001:db8:ffff::/64 dev eth0 src 2001:db8:0:1::1
    in_ns outside ip address add "$OUTSIDE4/32" dev eth0
    in_ns outside ip address add "$OUTSIDE6/128" dev eth0
    in_ns outside ip route add 10.0.0.0/24 dev eth0 src "$OUTSIDE4"
    in_ns outside ip -6 route add 2001:db8::/59 dev eth0 src "$OUTSIDE6"
    # In the VLAN: other users of the same plan, to another outside address.
    in_ns users ip address add 10.0.0.9/32 dev "eth0.$VLAN"
    in_ns users ip route add 198.51.100.9/32 dev "eth0.$VLAN" src 10.0.0.9
    in_ns outside ip address add 198.51.100.9/32 dev "eth0.$VLAN"
    in_ns outside ip route add 10.0.0.9/32 dev "eth0.$VLAN" src 198.51.100.9
}

start_servers() {
    head -c 20000 /dev/zero | tr '\0' 'w' >"$netns_work/page"
    start_in outside "$netns_work/http.log" python3 -m http.server --bind :: \
        --directory "$netns_work" 8080
    start_in outside "$netns_work/iperf3.log" iperf3 --server
    wait_until 10 in_ns outside bash -c '</dev/tcp/127.0.0.1/8080'
    wait_until 10 in_ns outside bash -c '</dev/tcp/127.0.0.1/5201'
}

echoes() {
    local options=(-q -c 2 -i 0.05 -W 2)
    in_ns users ping "${options[@]}" "$OUTSIDE4"
    in_ns users ping "${options[@]}" -I 10.0.0.2 -Q 0xb8 "$OUTSIDE4"
    in_ns users ping "${options[@]}" -I 10.0.0.3 -s 1472 -M "do" "$OUTSIDE4"
    in_ns users ping "${options[@]}" -I 10.0.0.4 -s 3000 "$OUTSIDE4" # fragments
    in_ns users ping "${options[@]}" -R "$OUTSIDE4"                  # record route
    in_ns users ping "${options[@]}" "$OUTSIDE6"
    in_ns users ping "${options[@]}" -I 2001:db8:0:2::1 -Q 0xb8 "$OUTSIDE6"
    in_ns users ping "${options[@]}" -I 2001:db8:0:3::1 -s 3000 "$OUTSIDE6"
    in_ns outside ping "${options[@]}" 10.0.0.2
    in_ns outside ping "${options[@]}" 2001:db8:0:2::1
}

# As traceroute probes: TTL 1 to 3, to a port where nobody listens.
low_ttl() {
    local ttl
    for ttl in 1 2 3; do
        in_ns users ping -q -c 1 -W 2 -t "$ttl" "$OUTSIDE4"
        in_ns users ping -q -c 1 -W 2 -t "$ttl" "$OUTSIDE6"
    done
    in_ns users python3 - "$OUTSIDE4" "$OUTSIDE6" <<'PROBES'
import socket
import sys

families = ((socket.AF_INET, socket.IPPROTO_IP, socket.IP_TTL),
            (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS))
for host, (family, level, option) in zip(sys.argv[1:], families):
    for ttl in (1, 2, 3):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(level, option, ttl)
            probe.sendto(b"probe" * 6, (host, 33433 + ttl))
PROBES
}

transfers() {
    in_ns users curl -sSf -o /dev/null "http://$OUTSIDE4:8080/page"
    in_ns users curl -sSf -o /dev/null --interface 10.0.0.2 "http://$OUTSIDE4:8080/none" || true
    in_ns users curl -sSf -o /dev/null "http://[$OUTSIDE6]:8080/page"
    in_ns users curl -sS --max-time 2 "http://$OUTSIDE4:81/" || true # refused
    in_ns users iperf3 -c "$OUTSIDE4" -B 10.0.0.3 -l 2K -n 20K
    in_ns users iperf3 -c "$OUTSIDE4" -B 10.0.0.4 -u -b 2M -l 1000 -n 10K
    in_ns users iperf3 -c "$OUTSIDE6" -B 2001:db8:0:4::1 -u -b 2M -l 1000 -n 10K
}

tagged() {
    in_ns users ping -q -c 2 -i 0.05 -W 2 198.51.100.9
    in_ns users ping -q -c 1 -W 2 -s 2000 198.51.100.9
    in_ns users curl -sSf -o /dev/null http://198.51.100.9:8080/page
}

# split RAW: takes out the noise, and writes the three files.
split() {
    tshark -n -r "$1" -F pcap -w kernel.pcap -Y "!($NOISE)"
    tshark -n -r kernel.pcap -F pcap -w kernel-uplink.pcap -Y "eth.src == $MAC_CORE"
    tshark -n -r kernel.pcap -F pcap -w kernel-downlink.pcap -Y "eth.src == $MAC_ACCESS"
    chmod 644 kernel*.pcap
}

gain_privileges "$@"
start_namespaces
exec 3>&2 # where to complain while a part writes to its log
trap 'echo "kernel.sh: line $LINENO failed" >&3; tail -n 5 "$netns_work"/*.log >&3' ERR
build_wire
start_servers
record users eth0 "$netns_work/raw.pcap"
recorder=$started
for part in echoes low_ttl transfers tagged; do
    $part >"$netns_work/$part.log" 2>&1
done
stop_recording "$recorder"
split "$netns_work/raw.pcap" 2>"$netns_work/split.log"
ls -l kernel*.pcap
