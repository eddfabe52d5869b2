#!/usr/bin/env bash
# Idle workers sleep until devices, other workers or the agent wake them: on AF_PACKET, AF_XDP and
# TAP. Packets that come one by one find each worker asleep, at its own queue and behind a ring; so
# do commands. None is lost.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

# Threads wake up ten times a second for themselves. Those that sleep by time do it up to 10,000 times.
readonly MOST_WAKES=100 LOOKED_AT=2

gain_privileges "$@"
need_locked_memory
start_namespaces
build_hosts
for user in 3 4; do
    add_user "$user"
done

# write_idle ACCESS CORE QUEUES [KEYS OF WORKERS]
write_idle() {
    cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: idle}
workers: {count: 2${4:-}}
ports:
  access: {device: "$1", direction: uplink, queues: $3, addresses: [$GATEWAY_A4/24]}
  core: {device: "$2", direction: downlink, queues: $3, mtu: 1400, addresses: [$GATEWAY_B4/24]}
users:
  - {name: ue, count: 2, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> core
  from core -> access
END
}

# wakes: how often the threads of workers have gone to sleep so far.
wakes() {
    local task
    for task in "/proc/$node/task"/*; do
        grep -q '^worker-' "$task/comm" && awk '/^voluntary_ctxt/ { print $2 }' "$task/status"
    done | paste -sd+ | bc
}

# ticks: processor time of the threads of workers, in ticks.
ticks() {
    local task
    for task in "/proc/$node/task"/*; do
        grep -q '^worker-' "$task/comm" && sed 's/.*) //' "$task/stat" | awk '{ print $12 + $13 }'
    done | paste -sd+ | bc
}

# idle: what threads have done while nothing came; sets `wakes` and `ticks`.
idle() {
    sleep 0.5
    wakes=$(wakes) ticks=$(ticks)
    sleep $LOOKED_AT
    wakes=$(($(wakes) - wakes)) ticks=$(($(ticks) - ticks))
    note "idle workers in $LOOKED_AT s: $wakes sleeps, $ticks ticks"
}

they_sleep() {
    idle && [ "$wakes" -le "$MOST_WAKES" ]
}

says_so() {
    "$WEFT" show ports -v | grep 'receive interrupts'
}

# Each packet comes when all sleep.
packets_wake() {
    local user
    for user in "$ADDRESS_A4" 10.0.0.2; do
        in_ns a ping -c 20 -i 0.05 -W 2 -I "$user" "$ADDRESS_B4" >"$netns_work/ping" ||
            { cat "$netns_work/ping" && return 1; }
        note "$(tail -n 1 "$netns_work/ping")"
        grep -q ' 0% packet loss' "$netns_work/ping" || return
    done
}

commands_wake() {
    local user
    for user in 3 4; do
        "$WEFT" ctl bearer add "$user" --like ue --ipv4 "10.0.0.$user" || return
        lossless a -I "10.0.0.$user" "$ADDRESS_B4" || return
    done
    "$WEFT" ctl workers 1 && lossless a -I 10.0.0.2 "$ADDRESS_B4" &&
        "$WEFT" ctl workers 2 && lossless a -I 10.0.0.2 "$ADDRESS_B4"
}

# forget_neighbours: ports have other addresses than those of the node before.
forget_neighbours() {
    in_ns a ip neighbour flush dev eth0
    in_ns b ip neighbour flush dev eth0
}

# with NAME: all of it on the devices of node.yaml.
with() {
    try "a node on $1 starts" start_node || return
    check "$1: the port says that it has interrupts" says_so
    check "$1: idle workers sleep" they_sleep
    check "$1: packets wake workers" packets_wake
    check "$1: commands wake workers" commands_wake
    stop_node INT
}

write_idle "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 2
with "AF_PACKET with a queue for each worker"
write_idle "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 1
with "AF_PACKET with one queue, and a worker behind a ring"

if reason=$(can_use_xdp); then
    write_idle "net_af_xdp0,iface=$PORT_ACCESS" "net_af_xdp1,iface=$PORT_CORE" 1
    with "AF_XDP"
else
    skip "AF_XDP" "$reason"
fi

if [ -c /dev/net/tun ]; then
    # With several transmit queues the driver needs a qdisc (multiq) that not every kernel has.
    write_idle "net_tap0,iface=tap-access" "net_tap1,iface=tap-core" 1
    sed -i 's/count: 2}$/count: 1}/' "$netns_work/node.yaml"
    own_macs
    if try "a node on TAP starts" start_node; then
        check "TAP: bridges" bridge_taps
        forget_neighbours
        check "TAP: the port says that it has interrupts" says_so
        check "TAP: an idle worker sleeps" they_sleep
        check "TAP: packets wake it" packets_wake
        stop_node INT
        unbridge_taps
        forget_neighbours
    fi
else
    skip "TAP" "there is no /dev/net/tun"
fi

polled() {
    packets_wake && idle && ! says_so
}

write_idle "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE" 2 ", interrupts: false"
if try "a node that is to poll starts" start_node; then
    check "without interrupts workers poll as before" polled
    stop_node INT
fi
close_report
