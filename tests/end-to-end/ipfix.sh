#!/usr/bin/env bash
# IPFIX: a node with a counter and a translator of addresses between two hosts tells a collector
# of others (nfcapd) what its users have used and which ports they have, by UDP, and tshark reads
# every record by its template. By TCP it finds a collector that comes late, or comes again.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
command -v nfcapd >/dev/null || skip_script "there is no nfcapd (nfdump)"
command -v tshark >/dev/null || skip_script "there is no tshark"
start_namespaces
need_locked_memory
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500
work=$netns_work

# The collector is a host behind an interface of its own: exports do not pass the node's ports.
make_namespace k
make_link n export 02:00:00:00:03:01 k eth0 02:00:00:00:03:02 1500
in_ns n sysctl -qw net.ipv6.conf.export.disable_ipv6=0
in_ns n ip address add 192.0.2.1/24 dev export
in_ns k ip address add 192.0.2.9/24 dev eth0
in_ns n ip address add 2001:db8:9::1/64 dev export
in_ns k ip address add 2001:db8:9::9/64 dev eth0

# write_node COLLECTOR TRANSPORT
write_node() {
    cat >"$work/node.yaml" <<NODE
apiVersion: weft/v1
kind: Node
metadata: {name: exporter}
ports:
  access:
    device: net_af_packet0,iface=access
    direction: uplink
    addresses: [10.0.0.254/24]
  core:
    device: net_af_packet1,iface=core
    direction: downlink
    addresses: [198.51.100.254/24]
    proxy: [198.51.100.64/26]
functions:
  count: {function: counter}
  nat: {function: nat, config: {addresses: [198.51.100.64], blockSize: 64, holdDown: 1, timeouts: {icmp: 2}}}
users:
  - {name: ue, count: 4, match: {ipv4: 10.0.0.1}, chain: inside}
  - {name: internet, match: {port: core}}
rules: |
  chain inside = count -> nat
  from access -> inside
  from inside -> core
  from core -> nat
  from nat -> count
  from count -> access
ipfix:
  collector: "$1"
  transport: $2
  observationDomain: 77
  usage: [count]
  interval: 2
  portBlocks: [nat]
NODE
}

begin_node() {
    start_in n "$work/node.log" "$WEFT" run "$work/node.yaml"
    node=$started
    wait_until 60 grep -q 'is ready' "$work/node.log" || { tail -n 5 "$work/node.log"; return 1; }
}

end_node() {
    stop "$node" INT
}

# begin_collector OPTIONS: nfcapd writes a file when it ends.
begin_collector() {
    rm -rf "$work/flows" && mkdir -p "$work/flows"
    start_in k "$work/nfcapd.log" nfcapd -w "$work/flows" -t 3600 "$@"
    collector=$started
    sleep 1
    kill -0 "$collector"
}

end_collector() {
    stop "$collector" TERM
    cat "$work"/flows/nfcapd.* >/dev/null
}

# flows: what the collector has stored of user 1, packets and octets of each record.
flows() {
    nfdump -q -R "$work/flows" -o 'fmt:%sa %pkt %byt' -N 2>/dev/null | awk '$1 == "10.0.0.1" && $2 > 0 { packets += $2; octets += $3 } END { print packets + 0, octets + 0 }'
}

pings() {
    in_ns a ping -q -c "$1" -i 0.05 -w 60 "$ADDRESS_B4"
}

# Both directions of each ping are counted, with IP headers: 84 octets.
usage_is_whole() {
    local packets octets
    read -r packets octets < <(flows)
    echo "packets $packets octets $octets, wanted $1"
    [ "$packets" = "$1" ] && [ "$octets" = "$(($1 * 84))" ]
}

# fields FILE FILTER FIELD...: of records in a capture, one a line.
fields() {
    local file=$1 filter=$2 options=()
    shift 2
    for field in "$@"; do options+=(-e "$field"); done
    tshark -r "$file" -d udp.port==4739,cflow -Y "$filter" -T fields "${options[@]}" 2>/dev/null
}

nothing_malformed() {
    local wrong
    wrong=$(fields "$1" '_ws.malformed || cflow.len_bytes == 0' frame.number)
    [ -z "$wrong" ] || { echo "malformed: $wrong"; return 1; }
    # Every data set has its template.
    wrong=$(tshark -r "$1" -d udp.port==4739,cflow -V 2>/dev/null | grep -c 'Data.*no template found')
    [ "$wrong" = 0 ] || { echo "$wrong sets without template"; return 1; }
}

templates_come_first() {
    fields "$1" cflow cflow.template_id cflow.od_id | head -n 1 | tee /dev/stderr | grep -q '256.*257.*258.*259.*260.*261.*77$'
}

# natEvent 16: a block is given; 17: it came back (RFC 8158).
block_told() {
    fields "$1" 'cflow.nat_event == '"$2" cflow.srcaddr cflow.post_natsource_ipv4_address |
        tee /dev/stderr | grep -q '10.0.0.1.*198.51.100.64'
}

users_are_named() {
    strings -n 4 "$1" | grep -q 'ue-0'
}

by_udp() {
    write_node 192.0.2.9:4739 udp
    begin_collector -p 4739 -b 192.0.2.9 || return 1
    record n export "$work/udp.pcap" && recorder=$started
    begin_node && pings 20 || return 1
    # The block comes back when the mapping of the ping has ended.
    sleep 6
    pings 5 || return 1
    end_node
    sleep 1
    stop_recording "$recorder"
    end_collector
}

by_udp6() {
    write_node "[2001:db8:9::9]:4739" udp
    begin_collector -p 4739 -b 2001:db8:9::9 || return 1
    begin_node && pings 5 || return 1
    end_node
    sleep 1
    end_collector
}

# The collector is not there, comes, goes and comes again; the node says so once each.
by_tcp() {
    write_node 192.0.2.9:4739 tcp
    begin_node && pings 3 || return 1
    sleep 3
    start_in k "$work/tcp1" timeout 60 python3 "$netns_lib/ipfix_tcp.py" 192.0.2.9 4739 "$work/tcp1.bin" 3
    wait "$started" || { cat "$work/tcp1"; return 1; }
    in_ns a ping -q -i 0.2 -w 60 "$ADDRESS_B4" >/dev/null &
    start_in k "$work/tcp2" timeout 60 python3 "$netns_lib/ipfix_tcp.py" 192.0.2.9 4739 "$work/tcp2.bin" 3
    wait "$started" || { cat "$work/tcp2"; return 1; }
    end_node
    grep -c 'IPFIX' "$work/node.log"
}

one_warning() {
    [ "$(grep -c 'WARN.*IPFIX' "$work/node.log")" -le 3 ] && grep -q 'the collector is there again' "$work/node.log"
}

# A counter of a node that carries on has lost nothing by a collector that answers nothing.
unreachable_costs_nothing() {
    write_node 192.0.2.200:4739 tcp
    begin_node && pings 20 | grep ' 0% packet loss' || return 1
    end_node
}

if try "usage and blocks are told by UDP" by_udp; then
    # 25 pings, there and back.
    check "nfcapd has every packet and octet of the user" usage_is_whole 50
    check "tshark reads all messages by their templates" nothing_malformed "$work/udp.pcap"
    check "templates come before records" templates_come_first "$work/udp.pcap"
    check "users are named" users_are_named "$work/udp.pcap"
    check "a block of ports is told as it is given" block_told "$work/udp.pcap" 16
    check "a block of ports is told as it comes back" block_told "$work/udp.pcap" 17
fi
try "a collector at an IPv6 address is told" by_udp6 && check "nfcapd has it by IPv6" usage_is_whole 10
try "by TCP a collector may come late, and again" by_tcp && check "the log says so once" one_warning
try "a collector that is not there costs no packet" unreachable_costs_nothing
close_report
