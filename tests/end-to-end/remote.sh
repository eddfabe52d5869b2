#!/usr/bin/env bash
# Functions at other nodes: two nodes with a link between them, and Open vSwitch's
# userspace datapath that pushes and pops network service headers against a node.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/open_vswitch.sh
. ../lib/open_vswitch.sh

NEAR=02:00:00:00:09:01 FAR=02:00:00:00:09:02 # the ends of the link between nodes
NEAR4=10.9.0.1 FAR4=10.9.0.2

far='' recordings='' # process ids

gain_privileges "$@"
need_locked_memory
start_namespaces
build_topology 1400
make_link n near "$NEAR" n far "$FAR" 1600

# serve TO [PORT-KEYS]: a node at the far end with a filter for others, which go on to TO.
serve() {
    cat >"$netns_work/far.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: far}
memory: {packets: 8191}
ports:
  fabric: {device: "net_af_packet0,iface=far", direction: uplink, mtu: 1600, ${2:-}}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: "$1"}
  down: {path: 11, index: 255, direction: downlink, port: fabric, to: "$1"}
functions:
  guard:
    function: filter
    config: {rules: [{action: deny, protocol: udp, destinationPorts: 7}], default: allow}
users:
  - {name: ue, match: {ipv4: $ADDRESS_A4}}
rules: |
  from up -> guard
  from down -> guard
  from guard when direction == uplink -> up
  from guard -> down
  from fabric -> drop
YAML
    start_other far n && far=$started
}

# ask TO METADATA [PORT-KEYS]: a node between the hosts whose filter is at the far one.
ask() {
    cat >"$netns_work/near.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: near}
memory: {packets: 8191}
ports:
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, addresses: [$GATEWAY_A4/24]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, addresses: [$GATEWAY_B4/24]}
  fabric: {device: "net_af_packet2,iface=near", direction: uplink, mtu: 1600, ${3:-}}
functions:
  guard:
    function: filter
    composition: remote
    remote: {path: 10, downlinkPath: 11, port: fabric, to: "$1", metadata: $2, timeout: 2000, probe: 1000}
    config: {rules: [{action: deny, protocol: udp, destinationPorts: 7}], default: allow}
users:
  - {name: ue, match: {ipv4: $ADDRESS_A4}}
rules: |
  from access -> guard
  from core -> guard
  from guard when direction == uplink -> core
  from guard -> access
  from fabric -> drop
YAML
    start_node "$netns_work/near.yaml"
}

path_is() {
    [ "$(of_node '.functions[0].process.state')" = "$1" ]
}

# refused COUNT: the far filter's verdicts are counted at the near node.
refused() {
    local count
    for _ in $(seq "$1"); do
        in_ns a bash -c "echo no >/dev/udp/$ADDRESS_B4/7"
    done
    count() { of_node '[.drops[] | select(.function == "guard") | .packets] | add // 0'; }
    all_counted() { [ "$(count)" -eq "$1" ]; }
    wait_until 20 all_counted "$1" || { of_node '.drops'; return 1; }
}

# record_link: at both ends, as what a node sends can be seen at the other only.
record_link() {
    record n near "$netns_work/near.pcap"
    recordings=$started
    record n far "$netns_work/far.pcap"
    recordings="$recordings $started"
}

stop_link() {
    local one
    for one in $recordings; do
        stop_recording "$one"
    done
}

# service_frames FILTER LEAST: so many frames with service headers each way, and none
# malformed.
service_frames() {
    local end frames
    for end in near far; do
        frames=$(tshark -r "$netns_work/$end.pcap" -Y "$1" 2>/dev/null | wc -l)
        note "$1: $frames frames at $end"
        [ "$frames" -ge "$2" ] || return 1
    done
    ../lib/tshark-clean.sh --kernel "$netns_work/near.pcap" "$netns_work/far.pcap"
}

# dies_and_returns NEAR-ADDRESS: the far node.
dies_and_returns() {
    stop "$far" KILL
    check "the path of a node that died is withdrawn" wait_until 30 path_is unreachable
    try "the far node starts again" serve "$1"
    check "the path is there again" wait_until 30 path_is reachable
    check "pings after that" lossless a "$ADDRESS_B4"
}

# two_nodes NAME NEAR-ADDRESS FAR-ADDRESS METADATA NEAR-KEYS FAR-KEYS FILTER
two_nodes() {
    local name=$1
    export WEFT_SOCKET=$netns_work/node.sock
    record_link
    try "$name: the far node starts" serve "$2" "$6"
    try "$name: the near node starts" ask "$3" "$4" "$5"
    check "$name: the path is there" wait_until 30 path_is reachable
    check "$name: pings from the user" lossless a "$ADDRESS_B4"
    check "$name: pings to the user" lossless b "$ADDRESS_A4"
    check "$name: the far function's verdicts" refused 5
    [ "$name" != ethernet ] || dies_and_returns "$2"
    stop_link
    check "$name: tshark finds nothing malformed" service_frames "$7" 80
    stop_node TERM
    check "$name: the near node stops" equal "exit code" 0 "$node_status"
    stop "$far"
}

# --- Open vSwitch ------------------------------------------------------------------

# start_switch: between the hosts and the near end of the link.
start_switch() {
    start_open_vswitch n && of_switch add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
        protocols=OpenFlow13,OpenFlow15 \
        -- add-port br0 "$PORT_ACCESS" -- set interface "$PORT_ACCESS" ofport_request=1 \
        -- add-port br0 "$PORT_CORE" -- set interface "$PORT_CORE" ofport_request=2 \
        -- add-port br0 near -- set interface near ofport_request=3
}

flow() {
    in_ns n ovs-ofctl --timeout=20 -O OpenFlow13 add-flow "$netns_work/br0.mgmt" "$1"
}

# flows: what comes from a host goes onto the path, what has passed the node leaves it.
flows() {
    local onto
    # The two hosts answer each other's ARP as neighbours of one link.
    flow "priority=20,arp,in_port=1,actions=output:2" || return 1
    flow "priority=20,arp,in_port=2,actions=output:1" || return 1
    onto="set_field:255->nsh_si,set_field:63->nsh_ttl,encap(ethernet)"
    onto=$onto,"set_field:$FAR->dl_dst,set_field:$NEAR->dl_src,output:3"
    flow "in_port=1,ip,actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:10->nsh_spi,$onto" &&
        flow "in_port=2,ip,actions=encap(nsh(md_type=1)),set_field:0x11223344->nsh_c1,set_field:11->nsh_spi,$onto" &&
        flow "in_port=3,dl_type=0x894f,nsh_spi=10,nsh_si=254,nsh_ttl=62,nsh_mdtype=2,actions=decap(),decap(),output:2" &&
        flow "in_port=3,dl_type=0x894f,nsh_spi=11,nsh_si=254,nsh_ttl=62,nsh_c1=0x11223344,actions=decap(),decap(),output:1"
}

# metadata_kept: as the switch wrote them, the context headers leave the node.
metadata_kept() {
    local kept="nsh.si == 254 && frame contains 10:00:0a:04:12:34:56:78" frames
    frames=$(tshark -r "$netns_work/near.pcap" -Y "$kept" 2>/dev/null | wc -l)
    [ "$frames" -ge 1 ]
}

open_vswitch() {
    in_ns b ip address add 10.0.0.2/24 dev eth0
    record_link
    try "Open vSwitch: starts" start_switch
    check "Open vSwitch: takes the flows" flows
    try "Open vSwitch: the node starts" serve "$NEAR"
    # A switch that shares cores may lose packets of its own.
    check "Open vSwitch: pings over pushed and popped headers" wait_until 60 lossless a 10.0.0.2
    stop_link
    check "Open vSwitch: the node keeps its metadata" metadata_kept
    check "Open vSwitch: tshark finds nothing malformed" service_frames nsh 2
    stop "$far"
    stop_open_vswitch
}

two_nodes ethernet "$NEAR" "$FAR" 2 "" "" nsh
two_nodes vxlan-gpe "$NEAR4" "$FAR4" 2 "addresses: [$NEAR4/24]" "addresses: [$FAR4/24]" 'vxlan && nsh'
two_nodes metadata-1 "$NEAR" "$FAR" 1 "" "" 'nsh.mdtype == 1'
if have_open_vswitch; then
    open_vswitch
else
    skip "Open vSwitch" "openvswitch-switch is not installed"
fi
close_report
