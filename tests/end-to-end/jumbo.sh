#!/usr/bin/env bash
# Jumbo frames: IP packets of 9,000 octets pass a node, in and out of GTP-U tunnels over both IP
# versions, are cut into fragments for a link of 1,500, and are captured whole.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

readonly UE=10.45.0.1 UE6=2001:db8:45::1

gain_privileges "$@"
need_locked_memory
/usr/bin/python3 -c 'import scapy.contrib.gtp' 2>/dev/null || skip_script "python3-scapy is not installed"
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 9000

# echo_of SIDE BYTES ARGUMENTS...: a ping with so many bytes of IP, which may not be cut.
echo_of() {
    local side=$1 bytes=$2 header=28
    shift 2
    [[ $* != *:* ]] || header=48
    in_ns "$side" ping -q -M do -c 5 -i 0.1 -W 5 -s $((bytes - header)) "$@" |
        tee "$netns_work/ping" | grep -q ' 0% packet loss' || {
        cat "$netns_work/ping"
        return 1
    }
}

# plain ACCESS CORE CORE-MTU: a router between the hosts.
plain() {
    cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: jumbo}
memory: {packets: 8191}
ports:
  access: {device: "$1", direction: uplink, mtu: 9000,
           addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]}
  core: {device: "$2", direction: downlink, mtu: $3,
         addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]}
users:
  - {name: ue, match: {ipv4: $ADDRESS_A4, ipv6: "2001:db8:0:1::/64"}}
rules: |
  from access -> core
  from core -> access
END
    start_node
}

captured_whole() {
    start_in n "$netns_work/capture.log" "$WEFT" capture --at port core tx --count 5 \
        -w "$netns_work/jumbo.pcapng"
    local capturing=$started
    wait_until 20 grep -q . "$netns_work/capture.log"
    echo_of a 9000 "$ADDRESS_B4" || return
    wait_until 20 is_gone "$capturing"
    equal "captured frames of 9,014 bytes" 5 "$(tshark -r "$netns_work/jumbo.pcapng" \
        -Y 'frame.len == 9014 && frame.cap_len == 9014' 2>/dev/null | wc -l)"
}

# unanswered ADDRESS BYTES: what a sender hears whose packet may not be cut.
unanswered() {
    in_ns a ping -M do -c 1 -W 5 -s "$2" "$1" 2>&1
}

# What is too long for a link of 1,500 is cut, and its sender told where it may not be.
cut() {
    local before
    before=$(of_node .fragments)
    in_ns a ping -q -M dont -c 3 -i 0.1 -W 5 -s 8972 "$ADDRESS_B4" | grep ' 0% packet loss' || return
    local after
    after=$(of_node .fragments)
    echo "fragments: $((after - before))"
    [ $((after - before)) -ge 15 ] || return
    says 'mtu = 1500\|too long' unanswered "$ADDRESS_B4" 8972 &&
        says 'mtu *= *1500\|too long' unanswered "$ADDRESS_B6" 8952
}

# routes DEVICES ACCESS CORE
routes() {
    try "$1: node starts" plain "$2" "$3" 9000 || return
    for bytes in 2026 2027 4096 9000; do
        check "$1: packets of $bytes octets pass, IPv4" echo_of a "$bytes" "$ADDRESS_B4"
        check "$1: packets of $bytes octets pass, IPv6" echo_of a "$bytes" "$ADDRESS_B6"
    done
    check "$1: one of 9,000 is captured whole" captured_whole
    check "$1: no packet came in several buffers" equal "errors" 0 \
        "$(of_node '[.ports[].rx_errors] | add')"
    stop_node TERM
}

# gateway WHAT PEER LOCAL: a user's packets of 8,900 octets in a tunnel between these.
gateway() {
    cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
memory: {packets: 8191}
ports:
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, mtu: 9000,
           addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, mtu: 9000,
         addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]}
functions:
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: $UE, ipv6: "$UE6/128", teid: 0x1000}
    functions:
      from-radio: {peer: "$2", ipv4: $UE, ipv6: "$UE6/128"}
      to-radio: {tunnel: {teid: 0x6000, peer: "$2", local: "$3"}, qfi: 9}
rules: |
  from access -> from-radio
  from from-radio -> core
  from core -> to-radio
  from to-radio -> access
END
    try "$1: node starts" start_node || return
    start_in a "$netns_work/peer-a.log" ../lib/gtpu_peer.py gtp0 "$2" "$3" 0x1000 0x6000
    local station=$started
    wait_until 20 in_ns a ip link show gtp0
    in_ns a ip address add "$UE/32" dev gtp0
    in_ns a ip link set gtp0 mtu 8900 up
    in_ns a ip route replace "$ADDRESS_B4" dev gtp0 src "$UE"
    in_ns a ip address add "$UE6/128" dev gtp0 nodad
    in_ns a ip -6 route replace "$ADDRESS_B6" dev gtp0 src "$UE6"
    for bytes in 2000 8900; do
        check "$1: $bytes octets from a user's IPv4" echo_of a "$bytes" -I "$UE" "$ADDRESS_B4"
        check "$1: $bytes octets to a user's IPv4" echo_of b "$bytes" "$UE"
        check "$1: $bytes octets from a user's IPv6" echo_of a "$bytes" -I "$UE6" "$ADDRESS_B6"
    done
    stop "$station"
    stop_node TERM
}

set_mtu 9000
routes AF_PACKET "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
in_ns b ip link set eth0 mtu 1500
in_ns n ip link set "$PORT_CORE" mtu 1500
if try "from 9,000 to 1,500: node starts" \
    plain "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 1500; then
    check "from 9,000 to 1,500: fragments, and answers" cut
    stop_node TERM
fi
set_mtu 9000
in_ns a ip route flush cache
in_ns a ip -6 route flush cache 2>/dev/null
gateway "GTP-U over IPv4" "$ADDRESS_A4" "$GATEWAY_A4"
gateway "GTP-U over IPv6" "$ADDRESS_A6" "$GATEWAY_A6"
tap_refused() {
    plain net_tap0,iface=tap-access net_tap1,iface=tap-core 9000
    says 'refused an MTU this large' cat "$netns_work/node.log"
}
check "TAP, whose driver has no jumbo frames, says so" tap_refused
if can_use_xdp >/dev/null; then
    refused() {
        plain "net_af_xdp0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 9000
        says 'AF_XDP takes buffers of one page' cat "$netns_work/node.log"
    }
    check "AF_XDP says that it takes none" refused
fi
close_report
