#!/usr/bin/env bash
# The user plane of a core: control planes that Weft did not make, one on go-pfcp and one
# on Scapy, drive a node by PFCP (TS 29.244) through the life of a session, with a base
# station and a data network at its sides.
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

OLD_TEID=0x6000 NEW_TEID=0x7000 # of the two base stations
STATION_A4=10.0.0.2 STATION_A6=2001:db8:0:1::2
TOO_LITTLE=3   # the exit code of a rate that is below the one that is wanted
PORTAL=http://portal.example/
FLOW_PORT=5300 # of the dedicated flow, at the data network

prepare "$@"
in_ns a ip address add "$STATION_A4/24" dev eth0
in_ns a ip address add "$STATION_A6/64" dev eth0 nodad

# --- the parts of a session's life ------------------------------------------------
# Of a session `ue` at control plane $smf: the user is $ue4 and $ue6, its base stations are at
# $old and $new, and the user plane has $version of IP at this side.

# attach: as a core does: downlink packets wait until the base station's end is known.
attach() {
    accepted "$smf" '{"do": "establish", "session": "ue", "rules": {
        "createPdr": [
            {"id": 1, "precedence": 200, "removal": '"$(removal "$old")"', "far": 1, "urr": [1], "qer": [1],
             "pdi": {"source": "access", "instance": "access", "ue4": "'"$ue4"'", "ue6": "'"$ue6"'",
                     "fteid": {"choose": "v'"$version"'"}}},
            {"id": 2, "precedence": 200, "far": 2, "urr": [1], "qer": [1],
             "pdi": {"source": "core", "instance": "internet", "ue4": "'"$ue4"'", "ue6": "'"$ue6"'"}}],
        "createFar": [
            {"id": 1, "apply": ["FORW"], "forward": {"destination": "core", "instance": "internet"}},
            {"id": 2, "apply": ["DROP"]}],
        "createQer": [{"id": 1, "gate": {"uplink": "open", "downlink": "open"}, "qfi": 9}],
        "createUrr": [{"id": 1, "method": ["VOLUM"], "triggers": ["VOLTH"], "information": ["MNOP"],
                       "volumeThreshold": {"total": 100000000000}}],
        "pdnType": 3}}' || return 1
    teid=$(of_answer '.created[] | select(.pdr == 1).teid')
    gateway=$(of_answer ".created[] | select(.pdr == 1).ipv$version")
    [ "$teid" -gt 0 ] && [ -n "$gateway" ] || { echo "no F-TEID: $answer" && return 1; }
    activate "$OLD_TEID" "$old"
}

# activate TEID ADDRESS: downlink packets go to this base station.
activate() {
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {"updateFar": [
        {"id": 2, "apply": ["FORW"],
         "forward": {"destination": "access", "header": '"$(header "$1" "$2")"'}}]}}'
}

pings() {
    lossless a -I "$ue4" "$ADDRESS_B4" && lossless b "$ue4" &&
        lossless a -6 -I "$ue6" "$ADDRESS_B6" && lossless b -6 "$ue6"
}

# tcp: a stream from the user, and one to it.
tcp() {
    local report=$netns_work/tcp bits reverse
    for reverse in '' -R; do
        # shellcheck disable=SC2086 # an option, or none
        in_ns a timeout 40 iperf3 --json --connect-timeout 10000 -c "$ADDRESS_B4" -B "$ue4" -t 2 $reverse \
            >"$report" || { jq -r .detail "$report"; return 1; }
        bits=$(jq '.end.sum_received.bits_per_second | floor' "$report")
        note "$smf: TCP of the user${reverse:+, downlink}: $((bits / 1000)) kbit/s"
        [ "$bits" -gt 0 ] || return 1
    done
}

# usage_is_counted: what was reported of the session so far is what the hosts have counted:
# nftables at the data network what came from the user, the TUN devices what came to it.
# The last segments of a connection may come behind the program that closed it.
usage_is_counted() {
    wait_until 20 hosts_count_no_more || return
    accepted "$smf" '{"do": "modify", "session": "ue", "query": [1]}' && usage_is_reported
}

hosts_count_no_more() {
    local before
    before=$(hosts_count) && sleep 0.5 && [ "$before" = "$(hosts_count)" ]
}

# hosts_count: octets from the user, and to it.
hosts_count() {
    echo "$(uplink_bytes b "$ue4") $(($(device_bytes a "$smf-old" rx) + $(device_bytes a "$smf-new" rx)))"
}

usage_is_reported() {
    local up down
    read -r up down <<<"$(hosts_count)"
    note "$smf: $up bytes from the user, $down to it"
    equal "uplink bytes" "$(counted "$smf" ue 1 uplink)" "$up" &&
        equal "downlink bytes" "$(counted "$smf" ue 1 downlink)" "$down" &&
        equal "all bytes" "$(counted "$smf" ue 1 total)" $((up + down))
}

# idle_and_paged: packets of an idle user wait, the control plane is told, and they arrive in
# order once it is active again.
idle_and_paged() {
    local ping sent=10
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {"updateFar": [
        {"id": 2, "apply": ["BUFF", "NOCP"]}]}}' || return 1
    in_ns b ping -c "$sent" -i 0.1 -W 20 "$ue4" >"$netns_work/ping" &
    ping=$!
    reported "$smf" '.event == "report" and .session == "ue"
        and (.types | index("DLDR")) and .downlink[0].pdr == 2' || return 1
    sleep 1
    activate "$OLD_TEID" "$old" || return 1
    wait "$ping" || { cat "$netns_work/ping" && return 1; }
    replies "$netns_work/ping" | in_order "$sent"
}

# rates: what the user sends and gets at three times its rates is held to them. Where a busy
# machine stalls the sender, less than the rate comes: then it sends again, eight times in all.
# More than the rate is a fault at once.
rates() {
    local time status
    for time in {1..8}; do
        rates_once && return
        status=$?
        [ "$status" -eq "$TOO_LITTLE" ] || return "$status"
        note "$smf: less than the rate came, time $time"
    done
    return 1
}

rates_once() {
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
        "updateQer": [{"id": 1, "mbr": {"uplink": 1000, "downlink": 3000}}]}}' || return 1
    local capture=$netns_work/rate.pcap
    record a eth0 "$capture.a"
    local recording_a=$started
    record b eth0 "$capture.b"
    local recording_b=$started
    blast b "$ue4" 9 9000000 8 >/dev/null &
    blast a "$ADDRESS_B4" 9 3000000 8 >/dev/null
    wait $!
    stop_recording "$recording_a"
    stop_recording "$recording_b"
    held downlink 3000000 "$capture.a" "gtp.teid == $OLD_TEID && udp.dstport == 9" &&
        held uplink 1000000 "$capture.b" "ip.src == $ue4 && udp.dstport == 9" || return
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
        "updateQer": [{"id": 1, "mbr": {"uplink": 10000000, "downlink": 10000000}}]}}'
}

# held DIRECTION RATE FILE FILTER: what passed, from a second after the first packet on, by the
# time stamps of the capture; each IP packet of the user has 1028 bytes.
held() {
    local rate
    rate=$(in_capture "$3" "$4" frame.time_epoch | awk '
        NR == 1 { from = $1 + 1 }
        $1 >= from { if (!first) first = $1; else many++; last = $1 }
        END { if (last - first < 2) exit 1; printf "%.0f", 8 * 1028 * many / (last - first) }') ||
        { echo "$1: hardly anything came"; return "$TOO_LITTLE"; }
    note "$smf: $1 was held to $((rate / 1000)) kbit/s of $(($2 / 1000))"
    [ "$rate" -lt $(($2 * 105 / 100)) ] || return 1
    [ "$rate" -gt $(($2 * 95 / 100)) ] || return "$TOO_LITTLE"
}

# gates: a closed gate lets nothing pass in its direction.
gates() {
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
        "updateQer": [{"id": 1, "gate": {"uplink": "open", "downlink": "closed"}}]}}' &&
        says ' 100% packet loss' in_ns b ping -q -c 3 -i 0.1 -W 1 "$ue4" &&
        accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
            "updateQer": [{"id": 1, "gate": {"uplink": "open", "downlink": "open"}}]}}' &&
        lossless b "$ue4"
}

# dedicated_flow: packets that a filter selects have a QoS flow and a usage rule of their own.
dedicated_flow() {
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
        "createPdr": [
            {"id": 3, "precedence": 100, "far": 2, "urr": [1, 2], "qer": [2],
             "pdi": {"source": "core", "instance": "internet", "ue4": "'"$ue4"'",
                     "sdf": [{"flow": "permit out 17 from '"$ADDRESS_B4 $FLOW_PORT"' to assigned"}]}},
            {"id": 4, "precedence": 100, "removal": '"$(removal "$old")"', "far": 1, "urr": [1, 2], "qer": [2],
             "pdi": {"source": "access", "instance": "access", "ue4": "'"$ue4"'",
                     "fteid": '"$(header "$teid" "$gateway")"',
                     "sdf": [{"flow": "permit out 17 from '"$ADDRESS_B4 $FLOW_PORT"' to assigned"}]}}],
        "createQer": [{"id": 2, "gate": {"uplink": "open", "downlink": "open"}, "qfi": 5}],
        "createUrr": [{"id": 2, "method": ["VOLUM"], "triggers": ["VOLTH"],
                       "volumeThreshold": {"downlink": 20000}}]}}' || return 1
    record a eth0 "$netns_work/flow.pcap"
    local recording=$started sent
    sent=$(blast b "$ue4" 9 1000000 1 "$FLOW_PORT")
    blast b "$ue4" 9 1000000 1 >/dev/null
    blast a "$ADDRESS_B4" "$FLOW_PORT" 500000 1 >"$netns_work/up"
    stop_recording "$recording"
    reported "$smf" '.event == "report" and (.types | index("USAR"))
        and any(.usage[]; .urr == 2 and (.triggers | index("VOLTH")) and .downlink >= 20000)' || return 1
    accepted "$smf" '{"do": "modify", "session": "ue", "query": [2]}' || return 1
    equal "downlink bytes of the flow" "$(counted "$smf" ue 2 downlink)" $((sent * 1028)) &&
        equal "uplink bytes of the flow" "$(counted "$smf" ue 2 uplink)" $(($(<"$netns_work/up") * 1028)) &&
        equal "packets of the flow's QoS flow" "$sent" "$(in_capture "$netns_work/flow.pcap" \
            "gtp.ext_hdr.pdu_ses_con.qos_flow_id == 5 && udp.srcport == $FLOW_PORT" frame.number | wc -l)" &&
        equal "other packets in it" 0 "$(in_capture "$netns_work/flow.pcap" \
            "gtp.ext_hdr.pdu_ses_con.qos_flow_id == 5 && udp.srcport != $FLOW_PORT" frame.number | wc -l)" &&
        accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
            "removePdr": [3, 4], "removeQer": [2], "removeUrr": [2]}}'
}

# redirect: HTTP of the user is answered with a URL, over both versions, until the rule goes; other
# packets go on.
redirect() {
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
        "createPdr": [{"id": 5, "precedence": 90, "removal": '"$(removal "$old")"', "far": 5,
            "pdi": {"source": "access", "instance": "access", "ue4": "'"$ue4"'", "ue6": "'"$ue6"'",
                    "fteid": '"$(header "$teid" "$gateway")"',
                    "sdf": [{"flow": "permit out 6 from any 80 to assigned"}]}}],
        "createFar": [{"id": 5, "apply": ["FORW"],
            "forward": {"destination": "core", "instance": "internet", "redirect": "'"$PORTAL"'"}}]}}' || return 1
    same "the answer over IPv4" "302 $PORTAL" "$(fetched "$ue4" "http://$ADDRESS_B4/news")" &&
        same "the answer over IPv6" "302 $PORTAL" "$(fetched "$ue6" "http://[$ADDRESS_B6]/news")" &&
        pings && accepted "$smf" '{"do": "modify", "session": "ue", "rules": {
            "removePdr": [5], "removeFar": [5]}}'
}

# same WHAT ONE OTHER: two texts are the same.
same() {
    [ "$2" = "$3" ] && return
    echo "$1: $2 and $3"
    return 1
}

# fetched ADDRESS URL: the status of the answer, and where it leads.
fetched() {
    in_ns a curl -sg -m 20 --interface "$1" -o "$netns_work/body" -w '%{http_code} %{redirect_url}' "$2"
}

# handover: to the other base station under traffic: no packet is lost, none overtakes, and the
# old tunnel ends with an End Marker.
handover() {
    local ping judged=100
    in_ns b ping -c $((judged + 20)) -i 0.02 -W 10 "$ue4" >"$netns_work/ping" &
    ping=$!
    sleep 0.7
    accepted "$smf" '{"do": "modify", "session": "ue", "rules": {"updateFar": [
        {"id": 2, "forward": {"endMarker": true, "header": '"$(header "$NEW_TEID" "$new")"'}}]}}' || return 1
    wait "$ping" || { cat "$netns_work/ping" && return 1; }
    replies "$netns_work/ping" | in_order "$judged" || return 1
    wait_until 10 grep -qx "end marker $OLD_TEID" "$netns_work/$smf-old.log" ||
        { cat "$netns_work/$smf-old.log" && return 1; }
    user_at a "$smf-new" "$ue4" "$ue6"
    pings
}

# marker_is_last: the last message in the old tunnel is its End Marker, and the only one.
marker_is_last() {
    local messages
    messages=$(in_capture "$netns_work/a-$smf.pcap" "gtp.teid == $OLD_TEID && $ip.dst == $old" gtp.message)
    [ "$(tail -n 1 <<<"$messages")" = 0xfe ] && equal "End Markers" 1 "$(grep -c 0xfe <<<"$messages")"
}

# is_a_user: the session is listed with a name, and shown, traced and captured under it.
is_a_user() {
    local name json=$netns_work/user.json pinging
    name=$("$WEFT" show sessions --json | jq -r ".[] | select(.ueAddresses | index(\"$ue4\")).name")
    [[ $name =~ ^session-[0-9a-f]{16}$ ]] || { echo "the name is '$name'"; return 1; }
    "$WEFT" show sessions | grep -q "^$name " && "$WEFT" show users | grep -q "^$name " || return 1
    "$WEFT" show users "$name" --json >"$json" &&
        jq -e '.keys | index("'"$ue4"'%default")' "$json" >/dev/null &&
        jq -e '.contexts | length > 0' "$json" >/dev/null || { cat "$json"; return 1; }
    in_ns b ping -q -i 0.1 -c 200 "$ue4" >"$netns_work/ping" &
    pinging=$!
    timeout 60 "$WEFT" trace --user "$name" --count 2 >"$netns_work/trace" &&
        timeout 60 "$WEFT" trace --user "$ue4" --count 2 >>"$netns_work/trace" &&
        timeout 60 "$WEFT" capture --user "$name" --at 'port access tx' --count 2 -w "$netns_work/user.pcapng"
    local status=$?
    kill "$pinging"
    wait "$pinging"
    [ "$status" -eq 0 ] || return 1
    equal "packets of the trace" 4 "$(grep -c "^packet [0-9]* of $name " "$netns_work/trace")" &&
        equal "packets of the capture" 2 \
            "$(in_capture "$netns_work/user.pcapng" "gtp.teid == $OLD_TEID" frame.number | wc -l)"
}

# released: the last report is in the answer, and nothing is left.
released() {
    pings && sleep 0.5 && accepted "$smf" '{"do": "delete", "session": "ue"}' && usage_is_reported &&
        refused_with 65 "$smf" '{"do": "delete", "session": "ue"}' &&
        says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$ue4" &&
        accepted "$smf" '{"do": "release"}' &&
        refused_with 72 "$smf" '{"do": "establish", "session": "late", "rules": {}}'
}

# life KIND VERSION: all of it, with IP of that version between control plane, base station and
# user plane.
life() {
    local kind=$1 version=$2 answer teid gateway smf=$1 ue4 ue6 old new ip local_address remote
    record a eth0 "$netns_work/a-$smf.pcap"
    local recording=$started
    case $version in
        4) local_address=$SMF4 remote=$UP4 old=$ADDRESS_A4 new=$STATION_A4 ip=ip ;;
        6) local_address=$SMF6 remote=$UP6 old=$ADDRESS_A6 new=$STATION_A6 ip=ipv6 ;;
    esac
    ue4=10.45.0.$version ue6=2001:db8:45:$version::1
    try "$smf: the control plane starts" \
        start_control_plane "$smf" "$kind" c "$local_address" "$remote" || return
    check "$smf: an association" accepted "$smf" '{"do": "associate"}'
    check "$smf: a heartbeat" answered "$smf" '{"do": "heartbeat"}' '.recovery > 1000000000'
    try "$smf: attach" attach || return
    try "$smf: a base station" station "$smf-old" a "$old" "$gateway" "$teid" "$OLD_TEID" || return
    local station_old=$started
    try "$smf: another base station" station "$smf-new" a "$new" "$gateway" "$teid" "$NEW_TEID"
    local station_new=$started
    user_at a "$smf-old" "$ue4" "$ue6"
    count_uplink b "$ue4" "$ue6"
    check "$smf: pings in both directions, IPv4 and IPv6" pings
    check "$smf: iperf3 TCP" tcp
    check "$smf: usage is what the hosts count" usage_is_counted
    check "$smf: the session is a user: shown, traced, captured" is_a_user
    check "$smf: idle, a Downlink Data Report, service request" idle_and_paged
    check "$smf: and once more" idle_and_paged
    check "$smf: a QER holds its rates" rates
    check "$smf: a QER's gate closes and opens" gates
    check "$smf: a dedicated flow by SDF filter" dedicated_flow
    if command -v curl >/dev/null; then
        check "$smf: HTTP is redirected" redirect
    else
        skip "$smf: HTTP is redirected" "curl is not installed"
    fi
    check "$smf: handover with an End Marker" handover
    check "$smf: usage is what the hosts count, over all changes" usage_is_counted
    check "$smf: release" released
    check "$smf: the base stations understand all" \
        says '^0$' grep -ch 'unexpected\|Traceback' "$netns_work/$smf-old.log"
    check "$smf: the control plane understands all" understood "$smf"
    stop "$station_old"
    stop "$station_new"
    stop_control_plane "$smf"
    stop_recording "$recording"
    check "$smf: the End Marker is the last packet of the old tunnel" marker_is_last
}

# leave KIND NAME LOCAL REMOTE: a control plane that is associated as the node stops.
leave() {
    start_control_plane "$2" "$1" c "$3" "$4" && accepted "$2" '{"do": "associate"}' && mark "$2"
}

# release_is_wanted: a node that stops and keeps no state asks for the release of its
# associations (§6.2.8.2), once of each control plane; tshark reads a period, too.
release_is_wanted() {
    local name wanted
    for name in "${leaving[@]}"; do
        event "$name" '.event == "update"' || return 1
    done
    wanted=$(tshark -r "$netns_work/leave.pcap" -Y 'pfcp.msg_type == 7 && pfcp.assoc_rel_req.sarr == 1
        && pfcp.timer_value > 0' -T fields -e pfcp.seqno 2>/dev/null | sort -u | wc -l)
    equal "Association Update Requests" "${#leaving[@]}" "$wanted" &&
        equal "answers" "${#leaving[@]}" "$(tshark -r "$netns_work/leave.pcap" \
            -Y 'pfcp.msg_type == 8 && pfcp.cause == 1' -T fields -e pfcp.seqno 2>/dev/null | sort -u | wc -l)"
}

clean() {
    [ "$(tshark -r "$netns_work/c.pcap" -Y pfcp 2>/dev/null | wc -l)" -gt 30 ] &&
        ../lib/tshark-clean.sh --kernel "$netns_work"/{b,c,a-*}.pcap
}

write_upf "$netns_work/node.yaml"
try "the node starts" start_node || { close_report; exit 1; }
record b eth0 "$netns_work/b.pcap"
recording_b=$started
record c eth0 "$netns_work/c.pcap"
recording_c=$started
start_server b 5201 iperf3 --server
if [ -n "$go_control_plane" ]; then
    life go 4
else
    skip "go: the life of a session" "$why_no_go"
fi
life scapy 6
stop_recording "$recording_b"
stop_recording "$recording_c"
check "tshark finds nothing malformed" clean
leaving=(scapy-leaving)
record c eth0 "$netns_work/leave.pcap"
recording_c=$started
try "a control plane is associated as the node stops" leave scapy scapy-leaving "$SMF6" "$UP6"
if [ -n "$go_control_plane" ]; then
    leaving+=(go-leaving)
    try "another one is" leave go go-leaving "$SMF4" "$UP4"
fi
stop_node TERM
stop_recording "$recording_c"
check "they are asked to release their associations" release_is_wanted
check "tshark finds nothing malformed in that" ../lib/tshark-clean.sh "$netns_work/leave.pcap"
check "the node stops" equal "exit code" 0 "$node_status"
check "nothing to complain of" eval '! troubles'
close_report
