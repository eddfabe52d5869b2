#!/usr/bin/env bash
# Checksums that a device computes are those that the node computes: the same packets come to
# the far end, whether a port leaves them to its device or not, and captures show them whole.
# The devices are TAP devices, which any machine has; their driver sums in software.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

readonly UE=10.45.0.1 PACKETS=100

gain_privileges "$@"
need_locked_memory
[ -c /dev/net/tun ] || skip_script "there is no /dev/net/tun"
start_namespaces
build_hosts

# A bridge is to carry what is wrong, too: the kernel would look at IP headers for its firewall, and
# drop the packet whose checksum the node is to find wrong.
quiet_bridges() {
    [ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] ||
        in_ns n sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0
}

# bridge WIRE TAP: the two become one link.
bridge() {
    in_ns n ip link add "br-$1" type bridge forward_delay 0 &&
        in_ns n ip link set "$1" master "br-$1" &&
        in_ns n ip link set "$2" master "br-$1" &&
        in_ns n ip link set "br-$1" up
}

# write_gateway ACCESS CHECKSUMS: puts packets for a user into a tunnel over IPv6.
write_gateway() {
    cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
ports:
  access:
    device: "$1"
    direction: uplink
    mac: "02:00:00:00:00:11"
    checksums: $2
    addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]
    neighbours: {"$ADDRESS_A6": "$MAC_A"}
  core:
    device: net_tap1,iface=tap-core
    direction: downlink
    mac: "02:00:00:00:00:12"
    mtu: 1400
    checksums: $2
    addresses: [$GATEWAY_B4/24]
functions:
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: $UE}
    functions:
      to-radio: {tunnel: {teid: 0x6000, peer: "$ADDRESS_A6", local: "$GATEWAY_A6"}, qfi: 9}
rules: |
  from core -> to-radio
  from to-radio -> access
  from access -> core
END
}

# feed: packets for the user of all lengths, the last one with a wrong header checksum.
feed() {
    in_ns b python3 - "$PACKETS" <<'END'
import socket, struct, sys

def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF

wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
link = bytes.fromhex("020000000012" "020000000201" "0800")
for number in range(int(sys.argv[1]) + 1):
    payload = bytes((number * 7 + at) & 0xFF for at in range(number * 13))
    datagram = struct.pack(">HHHH", 4000, 4000, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), number, 0, 64, 17, 0,
                     socket.inet_aton("198.51.100.1"), socket.inet_aton("10.45.0.1"))
    wrong = 1 if number == int(sys.argv[1]) else 0
    ip = ip[:10] + struct.pack(">H", checksum(ip) ^ wrong) + ip[12:]
    wire.send(link + ip + datagram)
END
}

# g_pdus PCAP: user packets in it that are in tunnels over IPv6, as hexadecimal words.
g_pdus() {
    python3 - "$1" <<'END'
import struct, sys
octets = open(sys.argv[1], "rb").read()
at = 24
while at + 16 <= len(octets):
    length = struct.unpack_from("<I", octets, at + 8)[0]
    frame = octets[at + 16:at + 16 + length]
    at += 16 + length
    if frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x08\x68" \
            and frame[63] == 255:
        print(frame.hex())
END
}

# carries NAME: what comes to host a of what is fed, in $netns_work/NAME; and what the node
# itself says that it has sent, in NAME.said.
carries() {
    record a eth0 "$netns_work/$1.pcap"
    local recording=$started
    start_in n "$netns_work/$1.log" "$WEFT" capture --at port access tx --count "$PACKETS" \
        -w "$netns_work/$1.said.pcapng"
    local capturing=$started
    local status=0
    wait_until 10 capture_begins "$1" || { status=1 && echo "the capture does not begin"; }
    feed
    wait_until 10 all_sent || { status=1 && saw; }
    wait_until 5 is_gone "$capturing" || { status=1 && echo "the capture goes on"; }
    stop "$capturing"
    stop_recording "$recording"
    [ "$status" = 0 ] || { cat "$netns_work/$1.log" && return 1; }
    g_pdus "$netns_work/$1.pcap" >"$netns_work/$1"
    tshark -F pcap -r "$netns_work/$1.said.pcapng" -w "$netns_work/$1.said.pcap" 2>/dev/null
    g_pdus "$netns_work/$1.said.pcap" >"$netns_work/$1.said"
    equal "packets at the far end" "$PACKETS" "$(wc -l <"$netns_work/$1")"
}

# It says that no packet has passed, or has written one.
capture_begins() {
    [ -s "$netns_work/$1.said.pcapng" ] || [ -s "$netns_work/$1.log" ]
}

# What there is to see where packets do not come: what the node has counted, and the kernel.
saw() {
    of_node '"ports \([.ports[] | {name, up, rx_packets, rx_missed, rx_errors, tx_packets}])",
        "drops \([.drops[] | select(.packets > 0) | {reason, packets}])"'
    in_ns n ip -s link show
}

all_sent() {
    [ "$(of_node '[.drops[] | select(.reason == "ipv4_checksum") | .packets] | add')" = 1 ] &&
        [ "$(of_node '.ports[0].tx_packets')" -ge "$PACKETS" ]
}

# The checksums are right, and there is none of 0. Host a answers with ICMP errors, in which datagrams
# are cut.
sound() {
    local wrong
    wrong=$(tshark -r "$netns_work/$1.pcap" -o udp.check_checksum:TRUE -Y \
        'ipv6 && !icmpv6 && udp.dstport == 2152 && udp.checksum.status != 1' 2>/dev/null | wc -l)
    equal "datagrams with a wrong checksum" 0 "$wrong"
}

# does OFFLOADS: what the device of the access port does in the place of the processor. Interrupts are
# no such thing.
does() {
    local said
    said=$(of_node '.ports[0].offloads - ["receive interrupts"] | join(", ")')
    echo "$said"
    [ "$said" = "$1" ]
}

# run NAME ACCESS CHECKSUMS OFFLOADS
run() {
    write_gateway "$2" "$3"
    try "$1: node starts" start_node || return
    bridge "$PORT_CORE" tap-core
    [[ $2 != net_tap* ]] || bridge "$PORT_ACCESS" tap-access
    check "$1: the port leaves to its device what it should" does "$4"
    check "$1: all packets pass, but for one with a wrong header checksum" carries "$1"
    check "$1: checksums are right" sound "$1"
    check "$1: a capture shows packets as they leave" cmp "$netns_work/$1" "$netns_work/$1.said"
    stop_node TERM
    in_ns n ip link delete "br-$PORT_CORE"
    [[ $2 != net_tap* ]] || in_ns n ip link delete "br-$PORT_ACCESS"
}

same() {
    cmp "$netns_work/software" "$netns_work/$1"
}

quiet_bridges
run software net_tap0,iface=tap-access software ""
run device net_tap0,iface=tap-access device "sums UDP"
check "devices and the node compute the same" same device
# One port's device sums, and the packets leave at one whose device does not.
run mixed "net_af_packet0,iface=$PORT_ACCESS" device ""
check "what a device cannot do, the node does" same mixed
close_report
