#!/usr/bin/env bash
# Header compression over a link: a host, a node that compresses, a link, a node
# that rebuilds, a host. Both directions; what the kernel sends comes through, and
# what goes over the link is what Wireshark says it is.
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

LEFT4=10.9.0.1 RIGHT4=10.9.0.2 LEFT6=2001:db8:9::1 RIGHT6=2001:db8:9::2
nodes=()

# build: two hosts on one subnet, with two transparent nodes in between.
build() {
    local side
    for side in a n m b; do make_namespace "$side"; done
    make_link a eth0 02:00:00:00:09:01 n inside 02:00:00:00:09:11 1500 || return 1
    make_link n wire 02:00:00:00:09:12 m wire 02:00:00:00:09:21 1500 || return 1
    make_link m inside 02:00:00:00:09:22 b eth0 02:00:00:00:09:02 1500 || return 1
    in_ns a ip address add $LEFT4/24 dev eth0
    in_ns a ip address add $LEFT6/64 dev eth0
    in_ns b ip address add $RIGHT4/24 dev eth0
    in_ns b ip address add $RIGHT6/64 dev eth0
}

# start_end SIDE HOST4 HOST6: a node at one end of the link.
start_end() {
    local log=$netns_work/$1.log file=$netns_work/$1.yaml
    sed "s/@HOST4@/$2/; s/@HOST6@/$3/" iphc.yaml >"$file"
    start_in "$1" "$log" env WEFT_SOCKET="$netns_work/$1.sock" "$WEFT" run "$file"
    nodes+=("$started")
    wait_until 30 grep -qs '^node .* is ready' "$log" || {
        cat "$log"
        return 1
    }
}

echoes() {
    in_ns a ping -q -c 20 -i 0.02 -W 2 $RIGHT4 | grep -q ' 0% packet loss' &&
        in_ns a ping -q -c 20 -i 0.02 -W 2 $RIGHT6 | grep -q ' 0% packet loss'
}

tcp_transfers() {
    start_server b 5201 iperf3 -s
    in_ns a iperf3 -c $RIGHT4 -n 2M -l 1K -M 1200 >"$netns_work/tcp4" &&
        in_ns a iperf3 -6 -c $RIGHT6 -n 2M -l 1K -M 1200 >"$netns_work/tcp6" &&
        in_ns a iperf3 -c $RIGHT4 -R -n 1M -M 1200 >"$netns_work/tcp4r"
}

# udp_flow LENGTH RATE: a second of such datagrams, of which none is lost.
udp_flow() {
    in_ns a iperf3 -c $RIGHT4 -u -l "$1" -b "$2" -t 1 --json |
        jq -e '.end.sum.lost_packets == 0 and .end.sum.packets > 40' >/dev/null
}

wire() {
    tshark -n -r "$netns_work/link.pcap" -Y "$1" 2>/dev/null | wc -l
}

wireshark_reads_the_link() {
    local full compressed tcp
    full=$(wire 'ppp.protocol == 0x0061')
    compressed=$(wire 'ppp.protocol == 0x0065')
    tcp=$(wire 'ppp.protocol == 0x0063')
    note "on the link: $full full headers, $compressed compressed other than TCP, $tcp compressed TCP"
    [ "$full" -gt 5 ] && [ "$compressed" -gt 300 ] && [ "$tcp" -gt 500 ] &&
        equal "frames that Wireshark calls malformed" 0 "$(wire _ws.malformed)"
}

check "two nodes and a link" build
check "one end starts" start_end n $LEFT4 $LEFT6
check "the other end starts" start_end m $RIGHT4 $RIGHT6
# A port sends past what records on its own device: the other end shows what came.
record m wire "$netns_work/link.pcap"
recorder=$started
check "no echo is lost" echoes
check "TCP gets through, both ways" tcp_transfers
check "datagrams like those of voice (RTP)" udp_flow 160 64K
check "datagrams like those of QUIC" udp_flow 1200 4M
stop_recording "$recorder"
check "Wireshark reads the link" wireshark_reads_the_link
for node in "${nodes[@]}"; do stop "$node"; done
close_report
