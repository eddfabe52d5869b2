#!/usr/bin/env bash
# A user plane that other processes take over (`weft run --take-over`) under the traffic of a
# session, while its control plane goes on asking: no datagram is lost, doubled or out of order,
# each octet is in the usage reports once, their numbers go on, every request is answered, and
# the Recovery Time Stamp is the old one (TS 23.527 §4.3). With and without `state`. A new
# process that cannot have the sessions is refused, and the node goes on.
#
#   UPGRADES=20 RATE=300 pfcp-upgrade.sh    that many times, under so many datagrams a second
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
# shellcheck source-path=SCRIPTDIR source=../lib/upgrade.sh
. ../lib/upgrade.sh

UE4=10.45.0.1 UE6=2001:db8:45:1::1 TEID=0x6000
UPGRADES=${UPGRADES:-2}
RATE=${RATE:-100}

prepare "$@"

# count_at_b: the host counts the user's IP packets, both ways.
count_at_b() {
    in_ns b nft -f - <<NFT
add table ip of_user
add chain ip of_user in { type filter hook prerouting priority -300; }
add chain ip of_user out { type filter hook postrouting priority 300; }
add rule ip of_user in ip saddr $UE4 counter
add rule ip of_user out ip daddr $UE4 counter
NFT
}

passed() {
    in_ns b nft -j list table ip of_user | jq '[.nftables[].rule?.expr[]?.counter?.bytes // 0] | add'
}

numbers_go_on() {
    numbers | sort -n | awk '$1 != NR - 1 { print "number " $1 " in place of " NR - 1; bad = 1 } END { exit bad || NR < 3 }'
}

# they_take_over: and each time the control plane asks, and is answered.
they_take_over() {
    local before asked=0 recovery
    recovery=$(of_recovery)
    : >"$netns_work/waited"
    for _ in $(seq "$UPGRADES"); do
        before=$node
        begin_take_over "$WEFT"
        while ! has_taken_over "$before"; do
            accepted smf '{"do": "modify", "session": "ue", "query": [1]}' || return 1
            asked=$((asked + 1))
        done
        end_take_over "$before" || return 1
        equal "Recovery Time Stamp" "$recovery" "$(of_recovery)" || return 1
    done
    note "$asked requests answered; packets waited, ms: $(paste -sd' ' "$netns_work/waited")"
}

usage_is_exact() {
    accepted smf '{"do": "modify", "session": "ue", "query": [1]}' || return 1
    note "$(passed) octets in $(numbers | wc -l) reports"
    equal "octets" "$(passed)" "$(counted smf ue 1 total)"
}

goes_over() {
    start_datagrams a "$UE4" b "$ADDRESS_B4"
    they_take_over || return 1
    sleep 0.5
    end_datagrams a b
}

# changes: sessions change and come in the process that has the node now; tunnels are of one.
changes() {
    local before
    before=$(passed)
    accepted smf '{"do": "modify", "session": "ue", "rules": {"updateFar": [{"id": 2, "apply": ["DROP"]}]}}' &&
        says ' 100% packet loss' in_ns b ping -q -c 2 -i 0.1 -W 1 "$UE4" || return 1
    dropped=$(($(passed) - before)) # and not measured
    accepted smf '{"do": "modify", "session": "ue", "rules": {"updateFar": [{"id": 2, "apply": ["FORW"],
            "forward": {"destination": "access", "header": '"$(header "$TEID" "$ADDRESS_A4")"'}}]}}' &&
        accepted smf "$(establish two 10.45.0.2)" || return 1
    [ "$(of_answer '.created[] | select(.pdr == 1).teid')" != "$teid" ] &&
        accepted smf '{"do": "delete", "session": "two"}'
}

# repeated: a request that the process before has answered is answered as it was.
repeated() {
    local first before
    accepted smf "$(establish twice 10.45.0.3)" || return 1
    first=$(of_answer '[.seid, .created[0].teid]|tostring')
    before=$node
    begin_take_over "$WEFT"
    wait_until 60 has_taken_over "$before"
    end_take_over "$before" || return 1
    say smf '{"do": "repeat"}'
    reported smf '.event == "unasked" and .type == 51' || return 1
    equal_text "$first" "$(events smf '.event == "unasked"' | jq -r '[.seid, .created[0].teid]|tostring')" &&
        accepted smf '{"do": "delete", "session": "twice"}'
}

equal_text() {
    [ "$1" = "$2" ] || { echo "$1, and then $2" && return 1; }
}

# cannot_have SED PATTERN: a process with a configuration that was changed so is refused, and the
# session carries and changes.
cannot_have() {
    sed "$1" "$netns_work/node.yaml" >"$netns_work/changed.yaml"
    refused "$2" "$WEFT" run --take-over "$netns_work/changed.yaml" || return 1
    is_gone "$node" && echo "the node has ended" && return 1
    accepted smf '{"do": "modify", "session": "ue", "query": [1]}' && lossless b "$UE4"
}

# with_state LINE: a node with that, from its start to its end.
with_state() {
    write_upf "$netns_work/node.yaml" access internet
    sed -i "s|^metadata:.*|&\n$1|" "$netns_work/node.yaml"
    try "the node starts ($2)" start_node || return 1
    try "a control plane starts" start_control_plane smf "$kind" c "$SMF4" "$UP4"
    try "a session" attach || return 1
    try "a base station" station station a "$ADDRESS_A4" "$gateway" "$teid" "$TEID"
    peer=$started
    user_at a station "$UE4" "$UE6"
    count_at_b
    try "the node goes from process to process under traffic" goes_over
    check "no datagram is lost, doubled or out of order" nothing_is_lost a b
    check "each octet is reported once" usage_is_exact
    check "the numbers of usage reports go on" numbers_go_on
    try "sessions change" changes
    try "a request of before that comes again" repeated
    check "a configuration without PFCP is refused" cannot_have '/^pfcp:/,/^rules:/{/^rules:/!d}' '1 PFCP session'
    check "a configuration without the base station's address is refused" \
        cannot_have "s|addresses: \[$GATEWAY_A4/24, |addresses: [|; s|addresses: \[$GATEWAY_A4, |addresses: [|" \
        'session .*; the node goes on in the other process'
    check "a deletion with its last report" deleted
    check "each octet has been reported once" equal "octets" "$(($(passed) - dropped))" "$(counted smf ue 1 total)"
}

deleted() {
    accepted smf '{"do": "delete", "session": "ue"}' && [ "$(of_answer '.usage | length')" -ge 1 ]
}

end() {
    stop "$peer"
    stop_control_plane smf
    in_ns b nft delete table ip of_user
    stop_node TERM
    check "the node stops" equal "exit code" 0 "$node_status"
}

# under_load: `weft smf` has a thousand sessions, which come, go and move while the node goes
# from process to process: it finds no request lost or refused, and no answer wrong.
under_load() {
    local smf
    : >"$netns_work/waited"
    sed -e "s/^local:.*/local: $SMF4/; s/^userPlane:.*/userPlane: $UP4/; s/n1: 3/n1: 6/" \
        -e 's/  rate: 2000  .*establishments.*/  rate: 500/' ../../examples/smf.yaml >"$netns_work/smf.yaml"
    start_in c "$netns_work/smf.log" "$WEFT" smf "$netns_work/smf.yaml" --duration "$((4 + 4 * UPGRADES))" \
        --rate 300 --json "$netns_work/smf.json" --tunnels "$netns_work/tunnels"
    smf=$started
    wait_until 60 test -s "$netns_work/tunnels" || { cat "$netns_work/smf.log" && return 1; }
    for _ in $(seq "$UPGRADES"); do
        sleep 1
        take_over "$WEFT" || return 1
    done
    wait_until 120 is_gone "$smf"
    note "packets waited, ms: $(paste -sd' ' "$netns_work/waited")"
    note "$(jq -c '[.requests[].answered] | {answered: add}' "$netns_work/smf.json")" \
        "repeated $(jq '[.requests[].repeated] | add' "$netns_work/smf.json")"
    jq -e '([.requests[].lost] | add) == 0 and ([.requests[].refused[]?] | add // 0) == 0
        and ([.wrong[]] | add // 0) == 0 and ([.requests[].answered] | add) > 2000' "$netns_work/smf.json" >/dev/null ||
        { cat "$netns_work/smf.json" "$netns_work/smf.log" && return 1; }
}

kind=go
[ -n "$go_control_plane" ] || {
    skip "a control plane on go-pfcp" "$why_no_go"
    kind=scapy
}
with_state "state: {directory: state}" "with state" || { close_report; exit 1; }
end
with_state "" "without state" && end
SESSIONS_AT_MOST=3000
write_upf "$netns_work/node.yaml" access internet
sed -i 's|^metadata:.*|&\nstate: {directory: loaded}|' "$netns_work/node.yaml"
try "the node starts" start_node
try "no request is lost or refused while a thousand sessions come and go" under_load
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
