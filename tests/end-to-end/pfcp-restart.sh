#!/usr/bin/env bash
# A user plane that is killed (SIGKILL) under the traffic of a session, and starts again. With
# `state` the session carries at once, without a word of its control plane: the Recovery Time
# Stamp is the old one (TS 23.527 §4.3), the peers see no Error Indication, usage is counted
# once, and the numbers of usage reports go on. Without `state` the time stamp is a new one.
#
#   KILLS=100 pfcp-restart.sh    that many times
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
# shellcheck source-path=SCRIPTDIR source=../lib/metered_session.sh
. ../lib/metered_session.sh

UE4=10.45.0.1 UE6=2001:db8:45:1::1 TEID=0x6000
KILLS=${KILLS:-3}
MISSING=5 # seconds of usage that may be missing after each kill, on a machine with much to do

prepare "$@"

carries() {
    lossless a -I "$UE4" "$ADDRESS_B4" && lossless b "$UE4"
}

# passed: octets of the user's IP packets that its own host has sent and received.
passed() {
    echo $(($(device_bytes a station rx) + $(device_bytes a station tx)))
}

# they_are_killed: with each life the session carries without a word of the control plane.
they_are_killed() {
    local recovery ping
    recovery=$(of_recovery)
    for _ in $(seq "$KILLS"); do
        in_ns b ping -q -c 100 -i 0.02 -W 1 -s 400 "$UE4" >"$netns_work/ping" &
        ping=$!
        sleep 1.5
        stop_node KILL
        start_node || return 1
        carries || return 1
        # The log says how much usage may be missing.
        says 'usage of its last .* s may be missing.*sessions=1' cat "$netns_work/node.log" || return 1
        equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" || return 1
        wait "$ping"
    done
    note "$KILLS times; time stamp $recovery"
    return 0
}

# usage_is_counted_once: no more is reported than the host has seen, and not much less.
usage_is_counted_once() {
    local reported host
    accepted smf '{"do": "modify", "session": "ue", "query": [1]}' || return 1
    reported=$(counted smf ue 1 total)
    host=$(passed)
    note "reported $reported octets of $host in $(numbers | wc -l) reports"
    # A ping of 428 octets each 20 ms, both ways.
    [ "$reported" -le "$host" ] && [ "$((host - reported))" -le $((KILLS * MISSING * 100 * 428)) ] ||
        { echo "reported $reported, passed $host" && return 1; }
}

# numbers_go_on: each number once, one after the other.
numbers_go_on() {
    numbers | awk '$1 != NR - 1 { print "number " $1 " in place of " NR - 1; bad = 1 } END { exit bad || NR < 3 }'
}

changes_after() {
    accepted smf '{"do": "modify", "session": "ue", "rules": {"updateFar": [{"id": 2, "apply": ["DROP"]}]}}' &&
        says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$UE4" || return 1
    stop_node KILL
    start_node && says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$UE4" &&
        accepted smf '{"do": "modify", "session": "ue", "rules": {"updateFar": [{"id": 2, "apply": ["FORW"],
            "forward": {"destination": "access", "header": '"$(header "$TEID" "$ADDRESS_A4")"'}}]}}' && carries
}

# another: a session that comes in this life has keys of its own.
another() {
    accepted smf "$(establish two 10.45.0.2)" || return 1
    [ "$(of_answer '.created[] | select(.pdr == 1).teid')" != "$teid" ] &&
        ! accepted smf "$(establish thief "$UE4")" >/dev/null && accepted smf '{"do": "delete", "session": "two"}'
}

# repeated: a request of the life before is answered as it was, and does nothing again.
repeated() {
    local first
    accepted smf "$(establish twice 10.45.0.3)" || return 1
    first=$(of_answer '[.seid, .created[0].teid]|tostring')
    stop_node KILL
    start_node || return 1
    say smf '{"do": "repeat"}'
    reported smf '.event == "unasked" and .type == 51' || return 1
    equal_text "$first" "$(events smf '.event == "unasked"' | jq -r '[.seid, .created[0].teid]|tostring')" &&
        accepted smf '{"do": "delete", "session": "twice"}'
}

equal_text() {
    [ "$1" = "$2" ] || { echo "$1, and then $2" && return 1; }
}

# times_go_on: a period ends, and a user is inactive, when that would have been if the node had not
# been away for eight seconds: after 15 and 20 s.
times_go_on() {
    local began after
    accepted smf "$(establish timed 10.45.0.4 |
        sed 's|"method".*}],|"method": ["VOLUM"], "triggers": ["PERIO"], "period": 15}], "inactivity": 20,|')" || return 1
    began=$(date +%s%3N)
    sleep 3
    stop_node KILL
    sleep 8
    mark smf
    start_node || return 1
    for wanted in '(.types | index("USAR")):15' '(.types | index("UPIR")):20'; do
        reported smf ".event == \"report\" and .session == \"timed\" and ${wanted%:*}" 20 || return 1
        after=$(($(date +%s%3N) - began))
        note "$wanted s: after $after ms"
        [ "$after" -ge $((${wanted##*:} * 1000 - 1500)) ] && [ "$after" -le $((${wanted##*:} * 1000 + 6000)) ] ||
            { echo "after $after ms: $wanted s" && return 1; }
    done
    accepted smf '{"do": "delete", "session": "timed"}'
}

deleted() {
    accepted smf '{"do": "delete", "session": "ue"}' && [ "$(of_answer '.usage | length')" -ge 1 ] || return 1
    stop_node KILL
    start_node || return 1
    refused_with 65 smf '{"do": "delete", "session": "ue"}' &&
        says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$UE4"
}

# no_error_indication: base stations have not been told that a tunnel is gone.
no_error_indication() {
    equal "Error Indications" 0 "$(in_capture "$netns_work/a.pcap" 'gtp.message == 0x1a' frame.number | wc -l)"
}

keeps_nothing() {
    local before now
    before=$(of_recovery)
    sed -i '/^state:/d' "$netns_work/node.yaml"
    stop_node KILL
    sleep 1
    start_node || return 1
    now=$(of_recovery)
    note "without state: time stamp $before, then $now"
    [ "$now" -gt "$before" ]
}

write_upf "$netns_work/node.yaml" access internet
sed -i 's|^metadata:.*|&\nstate: {directory: state}|' "$netns_work/node.yaml"
try "the node starts" start_node || { close_report; exit 1; }
kind=go
[ -n "$go_control_plane" ] || {
    skip "a control plane on go-pfcp" "$why_no_go"
    kind=scapy
}
record a eth0 "$netns_work/a.pcap"
recording_a=$started
record c eth0 "$netns_work/c.pcap"
recording_c=$started
try "a control plane starts" start_control_plane smf "$kind" c "$SMF4" "$UP4"
try "a session" attach || { close_report; exit 1; }
try "a base station" station station a "$ADDRESS_A4" "$gateway" "$teid" "$TEID"
peer=$started
user_at a station "$UE4" "$UE6"
check "it carries" carries
try "the node is killed under traffic, and carries" they_are_killed || true
check "usage is counted once" usage_is_counted_once
check "the numbers of usage reports go on" numbers_go_on
try "a change of before holds, and sessions change" changes_after || true
check "a session that comes afterwards" another
try "a request of the life before that comes again" repeated || true
try "periods and inactivity end on time" times_go_on || true
try "a deletion with its last report" deleted || true
check "no Error Indication" no_error_indication
try "without state the time stamp is a new one" keeps_nothing || true
stop_recording "$recording_a"
stop_recording "$recording_c"
check "tshark finds nothing malformed" ../lib/tshark-clean.sh "$netns_work/c.pcap"
check "nothing to complain of" eval '! troubles'
stop "$peer"
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
