#!/usr/bin/env bash
# PFCP peers that err, attack or die, while a session of another has traffic: strangers, peers
# that do not own a session, garbage, truncated, repeated and reordered messages, sessions
# without end, restarts. Numbers are those of the faults that Weft's tests name.
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

UE4=10.45.0.1 TEID=0x6000
SESSIONS_AT_MOST=64

prepare "$@"

# establish NAME SESSION UE4 FTEID [INSTANCE]: a session that forwards in both directions.
establish() {
    cat <<JSON
{"do": "establish", "session": "$2", "rules": {
    "createPdr": [
        {"id": 1, "precedence": 200, "removal": 0, "far": 1,
         "pdi": {"source": "access", "instance": "${5:-access}", "ue4": "$3", "fteid": $4}},
        {"id": 2, "precedence": 200, "far": 2,
         "pdi": {"source": "core", "instance": "internet", "ue4": "$3"}}],
    "createFar": [
        {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "internet"}},
        {"id": 2, "apply": ["FORW"],
         "forward": {"destination": "access", "instance": "access", "header": $(header "$TEID" "$ADDRESS_A4")}}],
    "pdnType": 1}}
JSON
}

attach() {
    accepted smf '{"do": "associate"}' &&
        accepted smf "$(establish smf ue "$UE4" '{"choose": "v4"}')" || return 1
    teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    gateway=$(of_answer '.created[] | select(.pdr == 1).ipv4')
    seid=$(of_answer .seid)
    first_recovery=$(of_recovery)
}

# of_recovery: the user plane's Recovery Time Stamp.
carries() {
    lossless a -I "$UE4" "$ADDRESS_B4" && lossless b "$UE4"
}

# turned_away NAME JSON: not accepted, by whatever cause or by silence.
turned_away() {
    ask "$1" "$2"
    [ "$(of_answer '.cause == 1')" = false ] && return
    echo "accepted: $answer"
    return 1
}

# 43: what is not on the list of peers gets no association and no session.
stranger() {
    turned_away stranger '{"do": "associate"}' &&
        turned_away stranger "$(establish stranger mine 10.45.0.66 '{"choose": "v4"}')" &&
        turned_away stranger '{"do": "delete", "session": "x", "seid": '"$seid"'}'
}

# 44: a peer that calls itself by another's Node ID takes nothing over from it.
hijack() {
    turned_away other '{"do": "associate", "node": "'"$SMF4"'"}'
    carries && accepted smf '{"do": "modify", "session": "ue", "rules": {}}'
}

# 45, 50: a SEID is no key: it is its owner's.
not_its_own() {
    local seid_of
    accepted other '{"do": "associate"}' || return 1
    for seid_of in "$seid" 0 1 18446744073709551615; do
        refused_with 65 other '{"do": "delete", "session": "x", "seid": '"$seid_of"'}' || return 1
        refused_with 65 other '{"do": "modify", "session": "x", "seid": '"$seid_of"',
            "rules": {"updateFar": [{"id": 2, "apply": ["DROP"]}]}}' || return 1
    done
    carries
}

# 46: an address or a TEID that another session has.
taken() {
    turned_away other "$(establish other thief "$UE4" '{"choose": "v4"}')" &&
        turned_away other "$(establish other thief 10.45.0.66 '{"teid": '"$teid"', "ipv4": "'"$gateway"'"}')" &&
        carries
}

# 40, 41: an F-TEID that cannot be.
impossible_tunnels() {
    turned_away other "$(establish other odd 10.45.0.67 '{"teid": 0, "ipv4": "'"$gateway"'"}')" &&
        turned_away other "$(establish other odd 10.45.0.67 '{"teid": 4097, "ipv4": "203.0.113.7"}')" &&
        turned_away other "$(establish other odd 10.45.0.67 '{"choose": "v4"}' nowhere)"
}

# 38, 42: what is refused changes nothing, however often it is asked for.
by_halves() {
    local time
    for time in 1 2 3; do
        turned_away smf '{"do": "modify", "session": "ue", "rules": {
            "updateFar": [{"id": 2, "apply": ["DROP"]}, {"id": 77, "apply": ["DROP"]}]}}' &&
            turned_away smf '{"do": "modify", "session": "ue", "rules": {
                "updateFar": [{"id": 1, "apply": ["DROP"]}], "removePdr": [99]}}' || return 1
    done
    carries
}

# 27-30: bytes that are no message, and messages cut at each of their bytes, from a stranger and
# from a peer, while the user has traffic.
garbage() {
    local ping status=0
    in_ns b ping -c 220 -i 0.02 -W 5 "$UE4" >"$netns_work/ping" &
    ping=$!
    in_ns c /usr/bin/python3 ../lib/pfcp_garbage.py "$STRANGER4" "$UP4" 2000 || status=1
    in_ns c /usr/bin/python3 ../lib/pfcp_garbage.py "$OTHER4" "$UP4" 2000 || status=1
    wait "$ping"
    replies "$netns_work/ping" | in_order 200 && [ "$status" -eq 0 ] &&
        answered smf '{"do": "heartbeat"}' '.attempts == 1'
}

# 49: a request that comes again is answered as it was, and does nothing again.
repeated() {
    accepted smf "$(establish smf twice 10.45.0.68 '{"choose": "v4"}')" || return 1
    local first
    first=$(of_answer '[.seid, .created[0].teid]|tostring')
    say smf '{"do": "repeat"}'
    reported smf '.event == "unasked" and .type == 51' || return 1
    equal_text "$first" "$(events smf '.event == "unasked"' | jq -r '[.seid, .created[0].teid]|tostring')" &&
        accepted smf '{"do": "delete", "session": "twice"}' &&
        refused_with 65 smf '{"do": "delete", "session": "twice"}'
}

equal_text() {
    [ "$1" = "$2" ] || { echo "$1, and then $2" && return 1; }
}

# 47: sessions have a bound, and behind it all are as they were.
without_end() {
    local count=0
    while accepted smf "$(establish smf "s$count" "10.45.1.$count" '{"choose": "v4"}')" >/dev/null; do
        count=$((count + 1))
        [ "$count" -le "$SESSIONS_AT_MOST" ] || { echo "$count sessions" && return 1; }
    done
    note "$count sessions beside one, then cause $(of_answer .cause)"
    [ "$(of_answer .cause)" = 75 ] && [ "$count" -gt 8 ] && carries || return 1
    while [ "$count" -gt 0 ]; do
        count=$((count - 1))
        accepted smf '{"do": "delete", "session": "s'"$count"'"}' || return 1
    done
    accepted smf "$(establish smf again 10.45.1.0 '{"choose": "v4"}')" &&
        accepted smf '{"do": "delete", "session": "again"}'
}

# A report that is not answered comes again; a control plane that answers late gets one report.
report_comes_again() {
    accepted smf '{"do": "modify", "session": "ue", "rules": {
        "updateFar": [{"id": 2, "apply": ["BUFF", "NOCP"]}]}}' || return 1
    say smf '{"do": "deaf", "on": true}'
    in_ns b ping -q -c 1 -W 30 "$UE4" >"$netns_work/ping" &
    local ping=$!
    sleep 2
    say smf '{"do": "deaf", "on": false}'
    reported smf '.event == "report" and (.types | index("DLDR"))' 20 || return 1
    accepted smf '{"do": "modify", "session": "ue", "rules": {
        "updateFar": [{"id": 2, "apply": ["FORW"],
                       "forward": {"destination": "access", "header": '"$(header "$TEID" "$ADDRESS_A4")"'}}]}}'
    wait "$ping"
}

# said_well: the peers of this test send what is malformed, the node does not.
said_well() {
    tshark -r "$netns_work/c.pcap" -Y "ip.src == $UP4" -w "$netns_work/said.pcap" 2>/dev/null &&
        ../lib/tshark-clean.sh --kernel "$netns_work/said.pcap"
}

# A control plane that comes back with a new Recovery Time Stamp has lost its sessions (§6.2.6,
# TS 23.527 §4.2).
control_plane_restarts() {
    accepted smf '{"do": "associate", "recovery": '"$(($(date +%s) + 5))"'}' &&
        refused_with 65 smf '{"do": "modify", "session": "ue", "rules": {}}' &&
        says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$UE4"
}

# A user plane that was killed says so by a new Recovery Time Stamp, or has its sessions still.
user_plane_restarts() {
    stop_node KILL
    sleep 1
    start_node || return 1
    local now
    now=$(of_recovery)
    if [ "$now" = "$first_recovery" ]; then
        carries
    else
        note "Recovery Time Stamp $first_recovery, then $now"
        [ "$now" -gt "$first_recovery" ] && accepted smf '{"do": "associate"}' &&
            accepted smf "$(establish smf ue "$UE4" '{"choose": "v4"}')"
    fi
}

write_upf "$netns_work/node.yaml" access internet
try "the node starts" start_node || { close_report; exit 1; }
kind=go
[ -n "$go_control_plane" ] || {
    skip "a control plane on go-pfcp" "$why_no_go"
    kind=scapy
}
record c eth0 "$netns_work/c.pcap"
recording_c=$started
try "control planes start" eval "start_control_plane smf $kind c $SMF4 $UP4 &&
    start_control_plane other scapy c $OTHER4 $UP4 && start_control_plane stranger scapy c $STRANGER4 $UP4"
try "a session" attach || { close_report; exit 1; }
try "a base station" station station a "$ADDRESS_A4" "$gateway" "$teid" "$TEID"
peer=$started
in_ns a ip address add "$UE4/32" dev station
in_ns a ip route replace "$ADDRESS_B4" dev station src "$UE4"
check "it carries" carries
check "fault 43: a stranger is turned away" stranger
check "fault 44: a Node ID is its owner's" hijack
check "faults 45, 50: a peer that does not own the session" not_its_own
check "fault 46: an address and a TEID that are taken" taken
check "faults 40, 41: tunnels that cannot be" impossible_tunnels
check "faults 38, 42: what is refused changes nothing" by_halves
check "faults 27-30: garbage during traffic" garbage
check "fault 49: a request that comes again" repeated
check "fault 47: sessions without end" without_end
check "a report without an answer comes again" report_comes_again
check "the session still carries" carries
stop_recording "$recording_c"
check "tshark finds nothing malformed in what the node says" said_well
check "nothing to complain of" eval '! troubles'
try "a user plane that was killed" user_plane_restarts || true
check "a control plane that restarts" control_plane_restarts
stop "$peer"
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
