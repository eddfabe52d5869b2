#!/usr/bin/env bash
# GTP-U with peers that Weft did not make: Scapy speaks for a base station and for a
# PDN gateway, and the hosts' own stacks for what is in the tunnels.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

UE=10.45.0.1 BEHIND=10.46.0.1 # what the two ends of a tunnel call themselves
UE6=2001:db8:45::1

gain_privileges "$@"
need_locked_memory
/usr/bin/python3 -c 'import scapy.contrib.gtp' 2>/dev/null || skip_script "python3-scapy is not installed"
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

# write_gateway FILE: a node between the hosts, with what stands on standard input.
write_gateway() {
    cat - >"$1" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24]
YAML
    cat >>"$1"
}

# peer SIDE LOCAL NODE ADDRESS OTHER TEIDS...: a GTP-U peer with a TUN device of
# that address, behind which is the other one.
peer() {
    local side=$1 local=$2 gateway=$3 address=$4 other=$5
    shift 5
    start_in "$side" "$netns_work/peer-$side.log" \
        ../lib/gtpu_peer.py gtp0 "$local" "$gateway" "$@"
    wait_until 20 in_ns "$side" ip link show gtp0 || return 1
    in_ns "$side" ip address add "$address/32" dev gtp0
    in_ns "$side" ip link set gtp0 mtu 1400 up
    in_ns "$side" ip route add "$other" dev gtp0 src "$address"
}

# told SIDE LINE: what its peer told of in time.
told() {
    wait_until 10 grep -qx "$2" "$netns_work/peer-$1.log" || {
        cat "$netns_work/peer-$1.log"
        return 1
    }
}

nothing_unexpected() {
    ! grep -h unexpected "$netns_work"/peer-*.log && ! grep -h Traceback "$netns_work"/peer-*.log
}

# tcp ADDRESS: a stream from the user to there, and one back.
tcp() {
    local report=$netns_work/tcp bits reverse
    for reverse in '' -R; do
        # shellcheck disable=SC2086 # an option, or none
        in_ns a timeout 40 iperf3 --json --connect-timeout 10000 -c "$1" -B "$UE" -t 2 $reverse \
            >"$report" || { jq -r .detail "$report"; return 1; }
        bits=$(jq '.end.sum_received.bits_per_second | floor' "$report")
        note "TCP in the tunnel${reverse:+, downlink}: $((bits / 1000)) kbit/s"
        [ "$bits" -gt 0 ] || return 1
    done
}

stop_recordings() {
    stop_recording "$recording_a"
    stop_recording "$recording_b"
}

error_indicated() {
    tshark -r "$netns_work/a.pcap" -Y 'gtp.message == 26 && gtp.teid_data == 0xbad' 2>/dev/null |
        grep -q .
}

clean() {
    [ "$(tshark -r "$netns_work/a.pcap" -Y gtp 2>/dev/null | wc -l)" -gt 100 ] &&
        ../lib/tshark-clean.sh --kernel "$netns_work/a.pcap" "$netns_work/b.pcap"
}

dropped() {
    of_node '[.drops[] | "\(.reason) \(.packets)"] | join(", ")'
}

# start_gateway WHAT FILE: with captures at both hosts.
start_gateway() {
    if ! start_node "$2"; then
        fail "$1: starts" "$(cat "$netns_work/node.log")"
        return 1
    fi
    pass "$1: starts"
    record a eth0 "$netns_work/a.pcap"
    recording_a=$started
    record b eth0 "$netns_work/b.pcap"
    recording_b=$started
}

serving_gateway() {
    write_gateway "$netns_work/sgw.yaml" <<YAML
functions:
  relay: {function: gtpu-relay}
users:
  - name: ue
    match: {teid: 0x1000}
    functions:
      relay:
        uplink: {teid: 0x5000, peer: $ADDRESS_B4, local: $GATEWAY_B4}
        downlink: {teid: 0x6000, peer: $ADDRESS_A4, local: $GATEWAY_A4}
rules: |
  from access -> relay
  from core -> relay
  from relay when direction == uplink -> core
  from relay when direction == downlink -> access
YAML
    start_gateway "serving gateway" "$netns_work/sgw.yaml" || return
    peer a "$ADDRESS_A4" "$GATEWAY_A4" "$UE" "$BEHIND" 0x1000 0x6000 0xbad
    local station=$started
    peer b "$ADDRESS_B4" "$GATEWAY_B4" "$BEHIND" "$UE" 0x1000 0x5000
    local far=$started
    check "serving gateway: Echo at the base station" told a 'echo response 7'
    check "serving gateway: Echo at the PDN gateway" told b 'echo response 7'
    check "serving gateway: Error Indication of an unknown TEID" told a 'error indication'
    check "serving gateway: pings from the user" lossless a -I "$UE" "$BEHIND"
    check "serving gateway: pings to the user" lossless b -I "$BEHIND" "$UE"
    check "serving gateway: iperf3 TCP" tcp "$BEHIND"
    note "serving gateway, dropped: $(dropped)"
    check "serving gateway: peers understand all" nothing_unexpected
    stop_recordings
    check "serving gateway: tshark reads the TEID in the Error Indication" error_indicated
    check "serving gateway: tshark finds nothing malformed" clean
    stop "$station"
    stop "$far"
    stop_node TERM
    check "serving gateway: stops" equal "exit code" 0 "$node_status"
}

user_plane_function() {
    write_gateway "$netns_work/upf.yaml" <<YAML
functions:
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: $UE, teid: 0x1000}
    functions:
      from-radio: {peer: $ADDRESS_A4, ipv4: $UE}
      to-radio: {tunnel: {teid: 0x6000, peer: $ADDRESS_A4, local: $GATEWAY_A4}, qfi: 9}
rules: |
  from access -> from-radio
  from from-radio -> core
  from core -> to-radio
  from to-radio -> access
YAML
    start_gateway "UPF" "$netns_work/upf.yaml" || return
    peer a "$ADDRESS_A4" "$GATEWAY_A4" "$UE" "$ADDRESS_B4" 0x1000 0x6000
    local station=$started
    check "UPF: Echo at the base station" told a 'echo response 7'
    check "UPF: pings from the user" lossless a -I "$UE" "$ADDRESS_B4"
    check "UPF: pings to the user" lossless b "$UE"
    check "UPF: iperf3 TCP" tcp "$ADDRESS_B4"
    note "UPF, dropped: $(dropped)"
    check "UPF: the base station understands all" nothing_unexpected
    stop_recordings
    check "UPF: tshark finds nothing malformed" clean
    stop "$station"
    stop_node TERM
    check "UPF: stops" equal "exit code" 0 "$node_status"
}

# A base station over IPv6, where the UDP checksum covers what is inside: its kernel drops
# what does not add up.
over_ipv6() {
    write_gateway "$netns_work/upf6.yaml" <<YAML
functions:
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: $UE, ipv6: "$UE6/128", teid: 0x1000}
    functions:
      from-radio: {peer: "$ADDRESS_A6", ipv4: $UE, ipv6: "$UE6/128"}
      to-radio: {tunnel: {teid: 0x6000, peer: "$ADDRESS_A6", local: "$GATEWAY_A6"}, qfi: 9}
rules: |
  from access -> from-radio
  from from-radio -> core
  from core -> to-radio
  from to-radio -> access
YAML
    sed -i "s|addresses: \[$GATEWAY_A4/24\]|addresses: [$GATEWAY_A4/24, \"$GATEWAY_A6/48\"]|
        s|addresses: \[$GATEWAY_B4/24\]|addresses: [$GATEWAY_B4/24, \"$GATEWAY_B6/64\"]|" \
        "$netns_work/upf6.yaml"
    start_gateway "UPF over IPv6" "$netns_work/upf6.yaml" || return
    local before
    before=$(checksum_errors)
    peer a "$ADDRESS_A6" "$GATEWAY_A6" "$UE" "$ADDRESS_B4" 0x1000 0x6000
    local station=$started
    in_ns a ip address add "$UE6/128" dev gtp0 nodad
    in_ns a ip -6 route add "$ADDRESS_B6" dev gtp0 src "$UE6"
    check "UPF over IPv6: Echo at the base station" told a 'echo response 7'
    check "UPF over IPv6: pings to the user's IPv4" lossless b "$UE"
    check "UPF over IPv6: pings to the user's IPv6" lossless b -6 "$UE6"
    check "UPF over IPv6: pings from the user's IPv6" lossless a -6 -I "$UE6" "$ADDRESS_B6"
    check "UPF over IPv6: no wrong checksum at the base station's kernel" \
        equal "checksum errors" "$before" "$(checksum_errors)"
    check "UPF over IPv6: the base station understands all" nothing_unexpected
    stop_recordings
    check "UPF over IPv6: tshark finds nothing malformed" clean
    stop "$station"
    stop_node TERM
    check "UPF over IPv6: stops" equal "exit code" 0 "$node_status"
}

# checksum_errors: datagrams over IPv6 that the base station's kernel has dropped.
checksum_errors() {
    in_ns a awk '$1 == "Udp6InCsumErrors" { print $2 }' /proc/net/snmp6
}

start_server b 5201 iperf3 --server
serving_gateway
user_plane_function
over_ipv6
close_report
