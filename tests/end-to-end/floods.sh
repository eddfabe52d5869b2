#!/usr/bin/env bash
# A flood of what a node itself would answer, beside good users: pings, GTP-U Echo Requests,
# questions for MAC addresses, packets on their last hop and ones that are too long.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

PORT=7777 RATE=100    # of the good users, packets a second in each family
FLOOD=${FLOOD:-12000} # frames a second: of each kind more than the node answers
LONG=45               # seconds: a neighbour is given up after 33 without an answer

gain_privileges "$@"
need_locked_memory
start_namespaces
build_hosts
write_node "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"

# good_users NAME COUNT: COUNT datagrams of each family to host b and back; what came back is
# in NAME-4 and NAME-6.
good_users() {
    local four six
    start_in a "$netns_work/$1-4" ../lib/floods.py ask "$ADDRESS_B4" $PORT $RATE "$2"
    four=$started
    start_in a "$netns_work/$1-6" ../lib/floods.py ask "$ADDRESS_B6" $PORT $RATE "$2"
    six=$started
    wait "$four" "$six"
}

# kept FAMILY: with the flood as many came back as without, but for 5 %.
kept() {
    local quiet flooded
    quiet=$(cat "$netns_work/quiet-$1") && flooded=$(cat "$netns_work/flooded-$1") || return 1
    note "IPv$1: $quiet of $((RATE * LONG)) came back without the flood, $flooded with it"
    [ "$quiet" -gt $((RATE * LONG * 8 / 10)) ] && [ $((flooded * 100)) -ge $((quiet * 95)) ]
}

buffers_free() {
    of_node .buffers.available
}

# watch_buffers: writes down how many are free, each second.
watch_buffers() {
    while sleep 1; do buffers_free; done >"$netns_work/free"
}

# Nothing piles up: as many are free all the time, but for what the queues hold just then.
buffers_stay() {
    local least
    least=$(sort -n "$netns_work/free" | head -1)
    echo "$1 free before, at least $least meanwhile"
    [ "$(wc -l <"$netns_work/free")" -ge 10 ] && [ "$least" -ge $(($1 - 512)) ]
}

buffers_return() {
    wait_until 20 has_free "$1" && return
    echo "$1 free before, $(buffers_free) now"
    return 1
}

has_free() {
    [ "$(buffers_free)" -ge "$1" ]
}

dropped_by() {
    of_node "[.drops[] | select(.reason == \"$1\") | .packets] | add // 0"
}

# refused REASON: packets of the flood have been.
refused() {
    [ "$(dropped_by "$1")" -gt 1000 ] || { echo "$1: $(dropped_by "$1")" && return 1; }
}

withheld() {
    local count
    count=$(of_node "[.withheld[] | select(.cause == \"$1\") | .packets] | add // 0")
    [ "$count" -gt 1000 ] || { echo "$1: $count" && return 1; }
}

# All that came, and what the node added, is somewhere by name; nothing waits any more.
accounted_for() {
    wait_until 20 adds_up && return
    of_node '[.ports, .drops, .local, .originated, .fragments]'
    return 1
}

adds_up() {
    [ "$(of_node '([.ports[].rx_packets] | add) + .originated + .emitted + .fragments
        - ([.ports[].tx_packets] | add) - ([.drops[] | select(.port == null) | .packets] | add)
        - .local')" -eq 0 ]
}

if ! start_node; then
    fail "the node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit 1
fi
start_in b "$netns_work/serve-4" ../lib/floods.py serve "$ADDRESS_B4" $PORT
start_in b "$netns_work/serve-6" ../lib/floods.py serve "$ADDRESS_B6" $PORT
check "ways and neighbours are found" lossless a "$ADDRESS_B4"
check "ways and neighbours are found, IPv6" lossless a "$ADDRESS_B6"
good_users quiet $((RATE * LONG))
free=$(buffers_free)

watch_buffers &
watcher=$!
start_in a "$netns_work/flood" ../lib/floods.py flood eth0 "$MAC_ACCESS" "$FLOOD" $((LONG + 600))
flooder=$started
good_users flooded $((RATE * LONG))
check "neighbours are there under the flood" lossless b "$ADDRESS_A4"
check "neighbours are there under the flood, IPv6" lossless b "$ADDRESS_A6"
stop "$flooder"
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null

check "good users keep 95 % of their goodput" kept 4
check "good users keep 95 % of their goodput, IPv6" kept 6
check "buffers stay free" buffers_stay "$free"
for reason in ping_rate echo_request_rate neighbour_request_rate; do
    check "refused by name: $reason" refused $reason
done
check "refused by name: ICMP time exceeded" withheld time_exceeded
check "refused by name: ICMP packet too big" withheld too_big
check "all buffers return" buffers_return "$free"
check "every packet is accounted for" accounted_for
note "dropped: $(of_node '[.drops[] | "\(.reason) \(.packets)"] | join(", ")')"
stop_node TERM
check "stops" equal "exit code" 0 "$node_status"
close_report
