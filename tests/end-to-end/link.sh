#!/usr/bin/env bash
# Links that go down and come back, and interfaces that vanish and are made anew, under traffic:
# the node goes on, says so, counts what it could not send, and carries packets again.
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
build_hosts

# state_of PORT: `up`, `down` or `gone`.
state_of() {
    of_node ".ports[] | select(.name == \"$1\") | .state"
}

is() {
    [ "$(state_of "$1")" = "$2" ]
}

dropped() {
    of_node "[.drops[] | select(.reason == \"$1\") | .packets] | add // 0"
}

# Traffic from host a to host b all the while.
start_traffic() {
    start_in a "$netns_work/traffic.log" python3 -c '
import socket, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        one.sendto(b"x" * 100, ("'"$ADDRESS_B4"'", 9))
    except OSError:
        pass
    time.sleep(0.001)'
    traffic=$started
}

goes_down_and_up() {
    local before
    before=$(of_node '.ports[1].link_changes')
    in_ns b ip link set eth0 down
    wait_until 10 is "$PORT_CORE" down || return
    in_ns b ip link set eth0 up
    in_ns b ip route replace default via "$GATEWAY_B4"
    wait_until 10 is "$PORT_CORE" up || return
    equal_or_more "changes of the link" "$((before + 2))" "$(of_node '.ports[1].link_changes')"
}

# equal_or_more WHAT LEAST NUMBER
equal_or_more() {
    echo "$1: $3, at least $2"
    [ "$3" -ge "$2" ]
}

passes() {
    wait_until 20 in_ns a ping -q -c 1 -W 1 "$ADDRESS_B4" && lossless a "$ADDRESS_B4"
}

vanishes() {
    in_ns n ip link delete "$PORT_CORE"
    wait_until 10 is "$PORT_CORE" gone && says "^$PORT_CORE  *gone" "$WEFT" show ports
}

drops_have_a_name() {
    wait_until 10 some_dropped
}

some_dropped() {
    [ "$(dropped port_gone)" -gt 10 ]
}

other_port_works() {
    lossless a "$GATEWAY_A4"
}

is_made_anew() {
    make_link b eth0 "$MAC_B" n "$PORT_CORE" "$MAC_CORE" 1400
    in_ns b ip address add "$ADDRESS_B4/24" dev eth0
    in_ns b ip route add default via "$GATEWAY_B4"
    wait_until 20 is "$PORT_CORE" up
}

is_told() {
    grep -q "the device is gone" "$netns_work/node.log" &&
        grep -q "the link is up" "$netns_work/node.log" &&
        says 'weft_port_link_changes_total{.*port="core"} [3-9]' \
            in_ns n curl -sS --unix-socket "$WEFT_SOCKET" http://node/metrics &&
        in_ns n curl -sS --unix-socket "$WEFT_SOCKET" http://node/v1/events |
        jq -e '[.[].portChanged | select(.port == "core") | .state] | index("gone") and index("up")'
}

# All that came in has left, or has a reason.
adds_up() {
    stop "$traffic"
    settled rest || return
    of_node '[.ports[].rx_packets, .originated, .emitted, .fragments] | add' >"$netns_work/came"
    of_node '([.ports[].tx_packets] | add) + ([.drops[] | select(.port == null) | .packets] | add)
        + .local' >"$netns_work/went"
    equal "came in, and left or dropped" "$(<"$netns_work/came")" "$(<"$netns_work/went")"
}

# life DEVICE: of a node whose core port is on such a device.
life() {
    write_node "net_af_packet0,iface=$PORT_ACCESS" "$1"
    try "$1: node starts" start_node || return
    in_ns n curl -sS --unix-socket "$WEFT_SOCKET" http://node/v1/events >/dev/null
    start_traffic
    check "$1: packets pass" passes
    check "$1: the link goes down and comes back" goes_down_and_up
    check "$1: packets pass again" passes
    check "$1: the interface vanishes" vanishes
    check "$1: what cannot be sent has a reason of its own" drops_have_a_name
    check "$1: the other port goes on" other_port_works
    check "$1: the interface is made anew" is_made_anew
    check "$1: packets pass through the new one" passes
    check "$1: log, metrics and events tell of it" is_told
    check "$1: counters add up" adds_up
    stop_node TERM
    check "$1: node stops" equal "exit code" 0 "$node_status"
}

life "net_af_packet1,iface=$PORT_CORE"
if reason=$(can_use_xdp); then
    life "net_af_xdp1,iface=$PORT_CORE"
else
    skip "AF_XDP" "$reason"
fi
close_report
