#!/usr/bin/env bash
# Users behind a translator: what STUN finds it to be, and hundreds of flows through it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500
add_user 2
in_ns b ip address add "$SERVICE_B4/32" dev eth0
# Host b knows no way to the users but through the translator.
in_ns b ip route del default

servers() {
    mkdir -p "$netns_work/b" && head -c 100000 /dev/urandom >"$netns_work/b/file" &&
        start_server b 8080 python3 -m http.server --bind 0.0.0.0 --directory "$netns_work/b" 8080 &&
        start_server b 5201 iperf3 --server &&
        start_in b "$netns_work/stun.log" ../lib/stun.py serve "$ADDRESS_B4" "$SERVICE_B4" &&
        wait_until 10 grep -q serving "$netns_work/stun.log"
}

behaviour() {
    in_ns a ../lib/stun.py ask "$ADDRESS_B4" "$SERVICE_B4" | tee "$netns_work/behaviour" &&
        grep -q '^mapped: 198.51.100.6[4-9]\|^mapped: 198.51.100.7' "$netns_work/behaviour" &&
        grep -qx 'mapping: endpoint-independent' "$netns_work/behaviour" &&
        grep -qx 'filtering: endpoint-independent' "$netns_work/behaviour"
}

# Both users are host a's, and reach each other by way of the translator only.
hairpin() {
    in_ns a timeout 20 python3 - <<'EOF'
import socket, sys
sys.path.insert(0, "../lib")
from stun import PORTS, ask
first, second = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
first.bind(("10.0.0.1", 0))
second.bind(("10.0.0.2", 0))
public = [ask(one, ("198.51.100.1", PORTS[0])) for one in (first, second)]
first.sendto(b"hello", public[1])
second.settimeout(5)
data, sender = second.recvfrom(100)
sys.exit(not (data == b"hello" and sender == public[0] and public[0] != public[1]))
EOF
}

# files NUMBER: as many transfers of a file, fifty at a time.
files() {
    local got
    got=$(in_ns a timeout 60 curl -sS --fail -Z --parallel-max 50 --max-time 50 \
        -w '%{size_download}\n' -o /dev/null "http://$ADDRESS_B4:8080/file?[1-$1]" |
        grep -cx 100000)
    equal "whole files" "$1" "$got"
}

tcp_flows() {
    in_ns a timeout 30 iperf3 --json -c "$ADDRESS_B4" -P 100 -t 2 >"$netns_work/tcp" || return 1
    [ "$(jq '[.end.streams[].receiver.bytes | select(. > 0)] | length' "$netns_work/tcp")" = 100 ]
}

udp_flows() {
    in_ns a timeout 30 iperf3 --json -c "$ADDRESS_B4" -u -b 200K -P 100 -t 2 >"$netns_work/udp" ||
        return 1
    equal "lost" 0 "$(jq .end.sum.lost_packets "$netns_work/udp")"
}

echoes_and_errors() {
    lossless a "$ADDRESS_B4" &&
        # Fragments, which the kernel joins for AF_PACKET, up to its 2 KiB of a frame.
        lossless a -M dont -s 1900 "$ADDRESS_B4" &&
        says 'Connection refused' in_ns a python3 -c '
import socket
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.connect(("198.51.100.1", 9))
one.settimeout(5)
one.send(b"nobody")
one.recv(10)'
}

# All that host b saw of it came from public addresses.
nothing_from_inside() {
    equal "packets from inside" 0 \
        "$(tshark -r "$netns_work/core.pcap" -Y 'ip.src == 10.0.0.0/24' 2>/dev/null | wc -l)" &&
        ../lib/tshark-clean.sh --kernel "$netns_work/core.pcap"
}

blocks_are_logged() {
    wait_until 5 grep -qE '^[0-9.]+ allocated inside=10.0.0.1 outside=198.51.100.64 ports=1024-3071$' \
        "$netns_work/nat.log" || { cat "$netns_work/nat.log" && return 1; }
}

# The kernel in the node's stead, with one public address.
kernel_translator() {
    in_ns n sysctl -qw net.ipv4.ip_forward=1 &&
        in_ns n ip address add "$GATEWAY_A4/24" dev "$PORT_ACCESS" &&
        in_ns n ip address add "$GATEWAY_B4/24" dev "$PORT_CORE" &&
        in_ns n nft "table ip nat {
            chain users {
                type nat hook postrouting priority srcnat
                oifname \"$PORT_CORE\" ip saddr 10.0.0.0/24 masquerade
            }
        }"
}

# What the same client finds: whoever was not sent to may not answer.
kernel_behaviour() {
    in_ns a ../lib/stun.py ask "$ADDRESS_B4" "$SERVICE_B4" | tee "$netns_work/kernel" &&
        grep -q "^mapped: $GATEWAY_B4" "$netns_work/kernel" &&
        grep -qx 'filtering: address and port-dependent' "$netns_work/kernel"
}

sed "s|@LOG@|$netns_work/nat.log|" nat.yaml >"$netns_work/node.yaml"
check "NAT: servers start" servers
if ! start_node "$netns_work/node.yaml"; then
    fail "NAT: node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
record b eth0 "$netns_work/core.pcap"
recording=$started
check "NAT: mapping and filtering are endpoint-independent" behaviour
check "NAT: users reach each other by public addresses" hairpin
check "NAT: echoes, fragments, and errors come back" echoes_and_errors
stop_recording "$recording"
check "NAT: host b sees public addresses and right checksums" nothing_from_inside
check "NAT: 300 files" files 300
check "NAT: 100 flows of TCP" tcp_flows
check "NAT: 100 flows of UDP" udp_flows
check "NAT: blocks are logged" blocks_are_logged
stop_node TERM
check "NAT: node stops" equal "exit code" 0 "$node_status"
if why=$(kernel_translator 2>&1); then
    check "NAT: the kernel's masquerade filters by the other end" kernel_behaviour
    check "NAT: 300 files by the kernel" files 300
else
    skip "NAT: the kernel's masquerade" "$why"
fi
close_report
