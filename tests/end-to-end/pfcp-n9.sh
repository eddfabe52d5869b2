#!/usr/bin/env bash
# A session over two user planes, driven by PFCP (TS 29.244): an I-UPF with an uplink
# classifier and local breakout (TS 23.501 §5.6.4.2), and behind it, over N9, the anchor.
#
#   a (station) - access [n: I-UPF] core - b (local network)
#                              n9 - n9 [p: anchor] core - d (data network)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pfcp.sh
. ../lib/pfcp.sh

DATA4=192.0.2.1 DATA6=2001:db8:d::1 # the data network
ANCHOR_DATA4=192.0.2.254 ANCHOR_DATA6=2001:db8:d::fe
BRANCH_N9=10.8.0.1 ANCHOR_N9=10.8.0.2 # the two ends of N9
BRANCH_N9_6=2001:db8:8::1 ANCHOR_N9_6=2001:db8:8::2
SMF_ANCHOR=10.9.1.1 UP_ANCHOR=10.9.1.254 # N4 of the anchor
SMF_ANCHOR6=2001:db8:91::1 UP_ANCHOR6=2001:db8:91::fe
UE4=10.45.0.9 UE6=2001:db8:45:9::1
STATION_TEID=0x6000

prepare "$@"
for side in p d; do
    make_namespace "$side"
done
in_ns p sysctl -qw net.ipv6.conf.default.disable_ipv6=1
make_link n n9 02:00:00:00:04:01 p n9 02:00:00:00:04:02 1500
make_link d eth0 02:00:00:00:05:01 p core 02:00:00:00:05:02 1500
make_link c eth1 02:00:00:00:06:01 p n4 02:00:00:00:06:02 1500
in_ns c ip address add "$SMF_ANCHOR/24" dev eth1
in_ns c ip address add "$SMF_ANCHOR6/64" dev eth1 nodad
in_ns p ip address add "$UP_ANCHOR/24" dev n4
in_ns p sysctl -qw net.ipv6.conf.n4.disable_ipv6=0
in_ns p ip address add "$UP_ANCHOR6/64" dev n4 nodad
in_ns d ip address add "$DATA4/24" dev eth0
in_ns d ip address add "$DATA6/64" dev eth0 nodad
in_ns d ip route add default via "$ANCHOR_DATA4"
in_ns d ip -6 route add default via "$ANCHOR_DATA6"

# write_node NAME PFCP4 PFCP6 PEER4 PEER6: what its ports, interfaces and rules are stands on
# standard input, from `ports:` on.
write_node() {
    cat >"$netns_work/$1.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: $1}
limits: {users: 100}
functions:
  detect: {function: session-detection}
  act: {function: session-forwarding}
users:
  - {name: session, count: 0}
$(sed "s|@N4@|listen: [$2, \"$3\"], peers: [$4/32, \"$5/128\"], like: session|")
YAML
}

write_nodes() {
    write_node node "$UP4" "$UP6" "$SMF4" "$SMF6" <<YAML
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]
  n9:
    device: net_af_packet2,iface=n9
    direction: downlink
    network: n9
    addresses: [$BRANCH_N9/24, "$BRANCH_N9_6/64"]
pfcp: {@N4@, interfaces: [
  {interface: access, networkInstance: access, addresses: [$GATEWAY_A4, "$GATEWAY_A6"]},
  {interface: core, networkInstance: local},
  {interface: core, networkInstance: n9, network: n9, addresses: [$BRANCH_N9, "$BRANCH_N9_6"]}]}
rules: |
  from access -> detect
  from core -> detect
  from n9 -> detect
  from detect -> act
  from act when interface == access -> access
  from act when network == n9 -> n9
  from act -> core
YAML
    write_node anchor "$UP_ANCHOR" "$UP_ANCHOR6" "$SMF_ANCHOR" "$SMF_ANCHOR6" <<YAML
ports:
  n9:
    device: net_af_packet0,iface=n9
    direction: uplink
    addresses: [$ANCHOR_N9/24, "$ANCHOR_N9_6/64"]
  core:
    device: net_af_packet1,iface=core
    direction: downlink
    addresses: [$ANCHOR_DATA4/24, "$ANCHOR_DATA6/64"]
pfcp: {@N4@, interfaces: [
  {interface: access, networkInstance: n9, addresses: [$ANCHOR_N9, "$ANCHOR_N9_6"]},
  {interface: core, networkInstance: internet}]}
rules: |
  from n9 -> detect
  from core -> detect
  from detect -> act
  from act when interface == access -> n9
  from act -> core
YAML
}

# establish_anchor: its downlink packets wait for the I-UPF's end.
establish_anchor() {
    accepted anchor '{"do": "establish", "session": "ue", "rules": {
        "createPdr": [
            {"id": 1, "precedence": 200, "removal": '"$(removal "$anchor_n9")"', "far": 1, "urr": [1], "qer": [1],
             "pdi": {"source": "access", "instance": "n9", "ue4": "'"$UE4"'", "ue6": "'"$UE6"'",
                     "fteid": {"choose": "v'"$version"'"}}},
            {"id": 2, "precedence": 200, "far": 2, "urr": [1], "qer": [1],
             "pdi": {"source": "core", "instance": "internet", "ue4": "'"$UE4"'", "ue6": "'"$UE6"'"}}],
        "createFar": [
            {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "internet"}},
            {"id": 2, "apply": ["DROP"]}],
        "createQer": [{"id": 1, "gate": {"uplink": "open", "downlink": "open"}, "qfi": 9}],
        "createUrr": [{"id": 1, "method": ["VOLUM"], "triggers": ["VOLTH"],
                       "volumeThreshold": {"total": 100000000000}}],
        "pdnType": 3}}' || return 1
    anchor_teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    anchor_address=$(of_answer ".created[] | select(.pdr == 1).ipv$version")
    [ "$anchor_address" = "$anchor_n9" ] || { echo "N9 has the address $anchor_address" && return 1; }
}

# establish_branch: PDRs 1 and 3 share an F-TEID (CHOOSE ID): what the filter of 3 selects leaves
# the user plane here.
establish_branch() {
    accepted branch '{"do": "establish", "session": "ue", "rules": {
        "createPdr": [
            {"id": 1, "precedence": 200, "removal": '"$(removal "$station")"', "far": 1, "urr": [1], "qer": [1],
             "pdi": {"source": "access", "instance": "access",
                     "fteid": {"choose": "v'"$version"'", "chooseId": 1}}},
            {"id": 2, "precedence": 200, "removal": '"$(removal "$branch_n9")"', "far": 2, "urr": [1], "qer": [1],
             "pdi": {"source": "core", "instance": "n9", "fteid": {"choose": "v'"$version"'"}}},
            {"id": 3, "precedence": 100, "removal": '"$(removal "$station")"', "far": 3, "urr": [2], "qer": [1],
             "pdi": {"source": "access", "instance": "access", "ue4": "'"$UE4"'", "ue6": "'"$UE6"'",
                     "fteid": {"choose": "v'"$version"'", "chooseId": 1},
                     "sdf": [{"flow": "permit out ip from '"$ADDRESS_B4"'/24 to assigned"},
                             {"flow": "permit out ip from '"$ADDRESS_B6"'/64 to assigned"}]}},
            {"id": 4, "precedence": 100, "far": 2, "urr": [2], "qer": [1],
             "pdi": {"source": "core", "instance": "local", "ue4": "'"$UE4"'", "ue6": "'"$UE6"'"}}],
        "createFar": [
            {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "n9",
             "header": '"$(header "$anchor_teid" "$anchor_address")"'}},
            {"id": 2, "apply": ["FORW"], "forward": {"destination": "access", "instance": "access",
             "header": '"$(header "$STATION_TEID" "$station")"'}},
            {"id": 3, "apply": ["FORW"], "forward": {"destination": "core", "instance": "local"}}],
        "createQer": [{"id": 1, "gate": {"uplink": "open", "downlink": "open"}, "qfi": 9}],
        "createUrr": [
            {"id": 1, "method": ["VOLUM"], "triggers": ["VOLTH"], "volumeThreshold": {"total": 100000000000}},
            {"id": 2, "method": ["VOLUM"], "triggers": ["VOLTH"], "volumeThreshold": {"total": 100000000000}}],
        "pdnType": 3}}' || return 1
    teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    gateway=$(of_answer ".created[] | select(.pdr == 1).ipv$version")
    branch_teid=$(of_answer '.created[] | select(.pdr == 2).teid')
    branch_address=$(of_answer ".created[] | select(.pdr == 2).ipv$version")
    equal "TEIDs of one CHOOSE ID" "$teid" "$(of_answer '.created[] | select(.pdr == 3).teid')" || return 1
    [ "$branch_address" = "$branch_n9" ] || { echo "N9 has the address $branch_address" && return 1; }
}

# link_anchor: downlink packets go to the I-UPF.
link_anchor() {
    accepted anchor '{"do": "modify", "session": "ue", "rules": {"updateFar": [
        {"id": 2, "apply": ["FORW"], "forward": {"destination": "access", "instance": "n9",
         "header": '"$(header "$branch_teid" "$branch_address")"'}}]}}'
}

# through SIDE ADDRESS4 ADDRESS6: pings between the user and that network, both ways.
through() {
    lossless a -I "$UE4" "$2" && lossless "$1" "$UE4" &&
        lossless a -6 -I "$UE6" "$3" && lossless "$1" -6 "$UE6"
}

# counted_at NAME URR SIDE: that rule's reports are what the network there got from the user, and
# pings have as many bytes in both directions.
counted_at() {
    accepted "$1" '{"do": "modify", "session": "ue", "query": ['"$2"']}' || return 1
    equal "uplink bytes" "$(counted "$1" ue "$2" uplink)" "$(uplink_bytes "$3" "$UE4")" &&
        equal "downlink bytes" "$(counted "$1" ue "$2" downlink)" "$(uplink_bytes "$3" "$UE4")"
}

# local_stays_local: nothing of the local network passes N9, and the rest does in its QoS flow.
local_stays_local() {
    equal "packets of the local network on N9" 0 "$(in_capture "$netns_work/n9-$version.pcap" \
        "ip.addr == $ADDRESS_B4 || ipv6.addr == $ADDRESS_B6" frame.number | wc -l)" &&
        [ "$(in_capture "$netns_work/n9-$version.pcap" \
            "gtp.ext_hdr.pdu_ses_con.qos_flow_id == 9 && (icmp || icmpv6)" frame.number | wc -l)" -ge 80 ]
}

released() {
    accepted branch '{"do": "delete", "session": "ue"}' &&
        accepted anchor '{"do": "delete", "session": "ue"}' &&
        says ' 100% packet loss' in_ns d ping -q -c 2 -i 0.1 -W 1 "$UE4" &&
        accepted branch '{"do": "release"}' && accepted anchor '{"do": "release"}'
}

# both BRANCH-KIND ANCHOR-KIND VERSION: all of it, with IP of that version outside.
both() {
    local version=$3 station branch_n9 anchor_n9 smf_branch up_branch smf_anchor up_anchor
    local teid gateway branch_teid branch_address anchor_teid anchor_address answer
    case $version in
        4)
            station=$ADDRESS_A4 branch_n9=$BRANCH_N9 anchor_n9=$ANCHOR_N9
            smf_branch=$SMF4 up_branch=$UP4 smf_anchor=$SMF_ANCHOR up_anchor=$UP_ANCHOR
            ;;
        6)
            station=$ADDRESS_A6 branch_n9=$BRANCH_N9_6 anchor_n9=$ANCHOR_N9_6
            smf_branch=$SMF6 up_branch=$UP6 smf_anchor=$SMF_ANCHOR6 up_anchor=$UP_ANCHOR6
            ;;
    esac
    record n n9 "$netns_work/n9-$version.pcap"
    local recording=$started
    try "IPv$version: control planes start" starts "$1" "$smf_branch" "$up_branch" \
        "$2" "$smf_anchor" "$up_anchor" || return
    check "IPv$version: the I-UPF is associated" accepted branch '{"do": "associate"}'
    check "IPv$version: the anchor is associated" accepted anchor '{"do": "associate"}'
    try "IPv$version: a session at the anchor" establish_anchor || return
    try "IPv$version: its part at the I-UPF" establish_branch || return
    check "IPv$version: the anchor's downlink leads to the I-UPF" link_anchor
    try "IPv$version: a base station" \
        station "station$version" a "$station" "$gateway" "$teid" "$STATION_TEID" || return
    local peer=$started
    user_at a "station$version" "$UE4" "$UE6"
    in_ns a ip route replace "$DATA4" dev "station$version" src "$UE4"
    in_ns a ip -6 route replace "$DATA6" dev "station$version" src "$UE6"
    count_uplink b "$UE4" "$UE6"
    count_uplink d "$UE4" "$UE6"
    check "IPv$version: pings through both, over N9" through d "$DATA4" "$DATA6"
    check "IPv$version: pings to the local network" through b "$ADDRESS_B4" "$ADDRESS_B6"
    check "IPv$version: the anchor's usage is what the data network got" counted_at anchor 1 d
    check "IPv$version: so is that of the I-UPF towards N9" counted_at branch 1 d
    check "IPv$version: its usage of the breakout is what the local network got" counted_at branch 2 b
    check "IPv$version: release" released
    check "IPv$version: the control planes understand all" both_understood
    stop "$peer"
    stop_control_plane branch
    stop_control_plane anchor
    stop_recording "$recording"
    check "IPv$version: what is local stays local" local_stays_local
}

starts() {
    start_control_plane branch "$1" c "$2" "$3" && start_control_plane anchor "$4" c "$5" "$6"
}

both_understood() {
    understood branch && understood anchor
}

write_nodes
try "the I-UPF starts" start_node || { close_report; exit 1; }
try "the anchor starts" start_other anchor p || { close_report; exit 1; }
anchor=$started
record c eth0 "$netns_work/c.pcap"
recording_c=$started
other=go
[ -n "$go_control_plane" ] || {
    skip "one of the control planes on go-pfcp" "$why_no_go"
    other=scapy
}
both "$other" scapy 4
both scapy "$other" 6
stop_recording "$recording_c"
check "tshark finds nothing malformed" ../lib/tshark-clean.sh --kernel "$netns_work"/{c,n9-4,n9-6}.pcap
stop "$anchor"
stop_node TERM
check "the I-UPF stops" equal "exit code" 0 "$node_status"
close_report
