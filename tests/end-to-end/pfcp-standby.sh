#!/usr/bin/env bash
# PFCP over a takeover: two user planes for one set of sessions. The active one is killed under
# traffic, and later gives its sessions away (`weft ctl drain`). Its control planes see the
# Recovery Time Stamp that they know (TS 23.527 §4.3), the sessions carry without a word of them,
# usage is counted once, numbers of usage reports go on, and a control plane under load (`weft
# smf`) loses no request. The address that user planes listen at moves by a route.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pair.sh
. ../lib/pair.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pfcp.sh
. ../lib/pfcp.sh
# shellcheck source-path=SCRIPTDIR source=../lib/metered_session.sh
. ../lib/metered_session.sh

UE4=10.45.0.1 UE6=2001:db8:45:1::1 TEID=0x6000
LOADED=200  # sessions of the control plane under load
MISSING=5   # seconds of usage that may be missing, on a machine with much to do

gain_privileges "$@"
need_locked_memory
need_scapy
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
begin_pair

lay_out() {
    local side
    lay_out_pair
    in_ns a ip address add "$ADDRESS_A4/24" dev eth0
    in_ns b ip address add "$ADDRESS_B4/24" dev eth0
    in_ns b ip route add 10.45.0.0/16 via "$GATEWAY_B4"
    # Control planes speak from the controller's host; both gateways have the address that they
    # speak to.
    for side in na nb; do
        in_ns "$side" ip link set lo up
        in_ns "$side" ip address add "$UP4/32" dev lo
        in_ns "$side" ip route add "$SMF4/32" via 192.0.2.1
        in_ns "$side" ip route add "$OTHER4/32" via 192.0.2.1
    done
    in_ns ctl ip link set lo up
    in_ns ctl ip address add "$SMF4/32" dev lo
    in_ns ctl ip address add "$OTHER4/32" dev lo
    speak_to 192.0.2.2
}

# speak_to ADDRESS: the user plane is at that gateway, for control planes.
speak_to() {
    in_ns ctl ip route replace "$UP4/32" via "$1"
}

write_files() {
    local name number=0
    write_site || return 1
    for name in gateway-a gateway-b; do
        number=$((number + 1))
        SESSIONS_AT_MOST=2000 write_upf "$work/$name.yaml" access internet
        sed -i "s|^metadata:.*|metadata: {name: $name}\nstate: {directory: state-$name}\nstandby: {node: $number, tls: {certificate: certificates/$name.pem, key: certificates/$name-key.pem, authority: certificates/authority.pem, controller: site}}|" "$work/$name.yaml"
        # One IP version is enough here.
        sed -i -E 's/, "2001:[^"]*"//g' "$work/$name.yaml"
    done
    cat >"$work/smf.yaml" <<YAML
apiVersion: weft/v1
kind: ControlPlane
metadata: {name: load}
local: $OTHER4
userPlane: $UP4
retransmission: {t1: 1, n1: 20}
heartbeat: 1
sessions:
  count: $LOADED
  ipv4: 10.45.8.1
  tunnels: {choose: ipv4}
  stations: [$ADDRESS_A4]
  stationTeid: 0x10000
rules:
  pdrs:
    - {id: 1, source: access, instance: access, tunnel: true, far: 1, urrs: [1]}
    - {id: 2, source: core, instance: internet, far: 2, urrs: [1]}
  fars:
    - {id: 1, destination: core, instance: internet}
    - {id: 2, destination: access, instance: access, tunnel: true}
  urrs:
    - {id: 1, volumeThreshold: 1 GB}
load:
  duration: 25
  rate: 50
  mix: {establish: 1, delete: 1, idle: 1, serviceRequest: 1, query: 1}
YAML
}

carries() {
    wait_until 30 in_ns a ping -q -c 1 -W 1 -I "$UE4" "$ADDRESS_B4" && lossless a -I "$UE4" "$ADDRESS_B4"
}

# passed: octets of the user's IP packets that its own host has sent and received.
passed() {
    echo $(($(device_bytes a station rx) + $(device_bytes a station tx)))
}

# reported: octets that usage reports have told of, with one that is asked for now.
told() {
    accepted smf '{"do": "modify", "session": "ue", "query": [1]}' >/dev/null && counted smf ue 1 total
}

start_load() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    start_in ctl "$work/load.log" bash -c '"$@"; echo "exit code $?"' load "$WEFT" smf "$work/smf.yaml" --json "$work/load.json"
    running[load]=$started
    sleep 3
}

# killed: under traffic, and another address of the route is all that anything is told.
killed() {
    local ping
    recovery=$(of_recovery)
    in_ns b ping -q -c 200 -i 0.02 -W 1 -s 400 "$UE4" >"$work/ping" &
    ping=$!
    sleep 2
    kill -9 "${running[gateway-a]}"
    wait_until 30 owns gateway-b || { tail -n 5 "$work/gateway-b.log" && return 1; }
    speak_to 192.0.2.3
    carries || return 1
    wait "$ping"
    equal "Recovery Time Stamp" "$recovery" "$(of_recovery)"
}

usage_is_counted_once() {
    local reported host
    reported=$(told) && host=$(passed) || return 1
    note "reported $reported octets of $host in $(numbers | wc -l) reports"
    [ "$reported" -le "$host" ] && [ "$((host - reported))" -le $((MISSING * 100 * 428)) ] ||
        { echo "reported $reported, passed $host" && return 1; }
}

numbers_go_on() {
    numbers | awk '$1 != NR - 1 { print "number " $1 " in place of " NR - 1; bad = 1 } END { exit bad || NR < 3 }'
}

# switched_over: with all contexts, so nothing is missing; the node that has left stands by again.
switched_over() {
    local before host
    before=$(told) && host=$(passed) || return 1
    lossless a -I "$UE4" "$ADDRESS_B4" || return 1
    "$WEFT" ctl drain gateway-b --controller site >"$work/switched" || { cat "$work/switched" && return 1; }
    note "$(cat "$work/switched")"
    wait_until 30 owns gateway-a && speak_to 192.0.2.2 && carries || return 1
    equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" &&
        equal "octets behind the switch" "$(($(passed) - host))" "$(($(told) - before))" || return 1
    wait_until 30 is_gone "${running[gateway-b]}" || return 1
    grep -q 'the users go to the other node by the word of the controller; the node ends' "$work/gateway-b.log"
}

refusals() {
    says 'gateway-b: the node does not own the users of its pair' eval '"$WEFT" ctl switch-over gateway-b --controller site 2>&1; true' &&
        says 'no node `elsewhere`' eval '"$WEFT" ctl switch-over elsewhere --controller site 2>&1; true' &&
        says 'its standby is not heard' eval '"$WEFT" ctl switch-over gateway-a --controller site 2>&1; true' &&
        owns gateway-a >/dev/null
}

# load_is_whole: no request was lost or wrong, and no restart was seen.
load_is_whole() {
    wait_until 60 grep -q '^exit code' "$work/load.log"
    tail -n 14 "$work/load.log"
    note "$(jq -c '{sent: [.requests[].sent] | add, answered: [.requests[].answered] | add, lost: [.requests[].lost] | add}' "$work/load.json")"
    grep -qx 'exit code 0' "$work/load.log" &&
        equal lost 0 "$(jq '[.requests[].lost] | add' "$work/load.json")" &&
        equal refused 0 "$(jq '[.requests[].refused[]?] | add // 0' "$work/load.json")" &&
        equal wrong 0 "$(jq '[.wrong[]] | add' "$work/load.json")"
}

launch_a() { launch gateway-a na 192.0.2.2; }
launch_b() { launch gateway-b nb 192.0.2.3; }

lay_out && write_files || { fail "the site is laid out" "" && close_report && exit 1; }
check "configurations are right" in_ns na "$WEFT" check "$work/gateway-a.yaml"
try "the controller starts" launch_site || { close_report; exit 1; }
try "the first gateway starts" launch_a && try "and owns the users" wait_until 30 owns gateway-a ||
    { close_report; exit 1; }
try "the second one starts" launch_b
try "and has all records" stands_by gateway-b
try "a control plane starts" start_control_plane smf scapy ctl "$SMF4" "$UP4"
try "a session" attach || { close_report; exit 1; }
try "a base station" station station a "$ADDRESS_A4" "$gateway" "$teid" "$TEID"
user_at a station "$UE4" "$UE6"
check "it carries" carries
try "a control plane with load" start_load
try "the gateway is killed under traffic: the other one carries, with the time stamp of before" killed
check "usage is counted once" usage_is_counted_once
check "the numbers of usage reports go on" numbers_go_on
try "the first gateway stands by" launch_a
try "and has all records then" stands_by gateway-a
try "a switch on purpose loses no usage" switched_over
check "what cannot be switched is refused in one line" refusals
check "numbers of usage reports go on behind it" numbers_go_on
check "the control plane under load saw no restart, and lost nothing" load_is_whole
close_report
