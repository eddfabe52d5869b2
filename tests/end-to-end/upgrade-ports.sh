#!/usr/bin/env bash
# Processes that take a node over from each other (`weft run --take-over`) whose ports are no AF_PACKET
# sockets, while datagrams pass it in both directions. TAP devices are both processes': no datagram is
# lost, doubled or out of order. Those of AF_XDP are closed by one and opened by the other: some are lost
# then, and none before that or where a process is refused.
#
#   UPGRADES=20 RATE=5000 upgrade-ports.sh    that many times, under so many datagrams a second
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/upgrade.sh
. ../lib/upgrade.sh

UPGRADES=${UPGRADES:-4}
RATE=${RATE:-2000}

gain_privileges "$@"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

# write_node_file ACCESS CORE [QUEUES]: the node on these two devices, with so many workers and queues.
write_node_file() {
    local queues=${3:-1}
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: router}
memory: {packets: 32767}
limits: {bearers: 8}
workers: {count: $queues}
ports:
  access: {device: "$1", direction: uplink, queues: $queues, addresses: [$GATEWAY_A4/24]}
  core: {device: "$2", direction: downlink, queues: $queues, addresses: [$GATEWAY_B4/24]}
functions:
  count: {function: counter, process: {onFailure: drop}}
users:
  - {name: like-me, match: {ipv4: 10.0.9.9}}
rules: |
  from access -> count
  from core -> count
  from count when direction == downlink -> access
  from count -> core
YAML
}

# with_own_macs: ports have MAC addresses of their own. A bridge keeps what is addressed to the
# kernel's side of a TAP device.
with_own_macs() {
    sed -i "s/queues: [12]/&, mac: '02:00:00:00:00:11'/; /core:/ s/:11'/:12'/" "$netns_work/node.yaml"
}

cat >"$netns_work/bearers.yaml" <<YAML
- {id: 1, like: like-me, match: {ipv4: $ADDRESS_A4}}
YAML

# usage: packets of the user that the node has counted, both ways.
usage() {
    curl --no-progress-meter --unix-socket "$WEFT_SOCKET" http://weft/v1/bearers/1 |
        jq '.contexts[] | select(.function == "count") | .values.packets'
}

starts() {
    start_node && says 'added 1' "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
}

they_take_over() {
    local at
    : >"$netns_work/waited"
    for at in $(seq "$UPGRADES"); do
        sleep 0.3
        take_over "$WEFT" || { echo "upgrade $at" && return 1; }
    done
    note "packets waited, ms: $(paste -sd' ' "$netns_work/waited")"
}

start_traffic() {
    start_datagrams a "$ADDRESS_A4" b "$ADDRESS_B4"
}

end_traffic() {
    sleep 1.2
    end_datagrams
}

# all_come [QUEUES]: each datagram came once, and in order where there is one queue. A TAP device moves a
# flow to another queue as it learns who sends it. Otherwise shows what the node has dropped.
all_come() {
    if [ "${1:-1}" -eq 1 ]; then
        nothing_is_lost a b && return
    else
        note "sent $(all_of sent), came $(all_of came), twice $(all_of twice)"
        [ "$(all_of sent) 0" = "$(all_of came) $(all_of twice)" ] && return
    fi
    "$WEFT" show drops
    return 1
}

# other_devices: hosts forget the addresses of the node before.
other_devices() {
    in_ns a ip neigh flush all
    in_ns b ip neigh flush all
}

# --- TAP -----------------------------------------------------------------------------

bridge() {
    in_ns n ip link add "br-$1" type bridge forward_delay 0 &&
        in_ns n ip link set "$1" master "br-$1" &&
        in_ns n ip link set "$2" master "br-$1" &&
        in_ns n ip link set "br-$1" up
}

bridges() {
    bridge "$PORT_ACCESS" tap-access && bridge "$PORT_CORE" tap-core
}

# has_queues COUNT: so many processes have each of the TAP devices.
has_queues() {
    local device
    for device in tap-access tap-core; do
        [ "$(in_ns n sh -c "echo /sys/class/net/$device/queues/tx-*" | wc -w)" -eq "$1" ] || return 1
    done
}

# of_process FIELD: what the node says of the process of its function.
of_process() {
    "$WEFT" show runtime --json | jq -r ".functions[] | select(.name == \"count\") | .process.$1"
}

# keeps_nothing_of_the_node: the process of the function has no descriptor of a device.
keeps_nothing_of_the_node() {
    local process
    [ "$(of_process state)" = running ] || return 1
    process=$(of_process process)
    ! find "/proc/$process/fd" -lname '/dev/net/tun' | grep . 
}

# has_a_queue: another program has a queue of a device.
has_a_queue() {
    start_in n "$netns_work/queue.log" python3 -c '
import fcntl, os, signal, struct
queue = os.open("/dev/net/tun", os.O_RDWR)
TUNSETIFF, IFF_TAP, IFF_MULTI_QUEUE = 0x400454CA, 2, 0x100
fcntl.ioctl(queue, TUNSETIFF, struct.pack("16sH22x", b"tap-access", IFF_TAP | IFF_MULTI_QUEUE))
signal.pause()'
    wait_until 20 sh -c "ip netns exec $(ns n) sh -c 'echo /sys/class/net/tap-access/queues/tx-*' | grep -q tx-1"
}

over_tap() {
    write_node_file net_tap0,iface=tap-access net_tap1,iface=tap-core
    with_own_macs
    try "TAP: the node starts" starts || return
    check "TAP: bridges" bridges
    check "TAP: host a reaches host b" lossless a "$ADDRESS_B4"
    begun=$(usage)
    start_traffic
    try "TAP: the node goes from process to process" they_take_over
    check "TAP: one process has the devices" wait_until 10 has_queues 1
    check "TAP: a configuration without the user's kind is refused" \
        with_file 's/name: like-me/name: like-you/' 'bearer 1: .*like-me'
    check "TAP: a configuration of another node is refused" \
        with_file 's/name: router/name: other/' 'node router.*node other'
    check "TAP: one process has the devices" wait_until 10 has_queues 1
    try "TAP: a new process is killed midway" killed_behind 0.05 0.1 0.2
    end_traffic
    check "TAP: no datagram is lost, doubled or out of order" all_come
    check "TAP: each is counted once" equal "packets" "$(usage)" "$((begun + $(all_of came)))"
    # As many as a function in a process has room for, however long they had to wait.
    local rate=$RATE
    RATE=$((RATE / 5))
    begun=$(usage)
    start_traffic
    try "TAP: the function goes into a process" says . "$WEFT" ctl function count --composition process
    check "TAP: which keeps nothing of the node's" wait_until 20 keeps_nothing_of_the_node
    try "TAP: the node goes from process to process with it" they_take_over
    check "TAP: one process has the devices" wait_until 10 has_queues 1
    try "TAP: the function comes back" says . "$WEFT" ctl function count --composition call
    end_traffic
    check "TAP: no datagram is lost, doubled or out of order" all_come
    check "TAP: each is counted once" equal "packets" "$(usage)" "$((begun + $(all_of came)))"
    RATE=$rate
    try "TAP: another program has a queue of a device" has_a_queue
    check "TAP: a process is refused then" \
        refused 'port access: a third process has the TAP device tap-access open; the node goes on' "$WEFT" run --take-over "$netns_work/node.yaml"
    stop "$started" KILL
    check "TAP: host a reaches host b" lossless a "$ADDRESS_B4"
    stop_node TERM
    in_ns n ip link delete "br-$PORT_ACCESS"
    in_ns n ip link delete "br-$PORT_CORE"
}

if ! [ -c /dev/net/tun ]; then
    skip "TAP" "there is no /dev/net/tun"
elif [ "$WEFT_PRIVILEGE" = user ]; then
    skip "TAP" "programs that choose a queue need root, a user namespace does not do"
else
    over_tap
fi
# --- AF_XDP --------------------------------------------------------------------------

# goes_on: the node's process is the one that it was, and packets pass.
goes_on() {
    local before
    is_gone "$node" && { echo "the node has ended" && cat "$netns_work/node.log" && return 1; }
    before=$(usage)
    moves_on() { [ "$(usage)" -gt "$before" ]; }
    wait_until 20 moves_on || { echo "nothing passes" && cat "$netns_work/node.log" && return 1; }
    says 'changed 1' "$WEFT" ctl bearer change 1 --action forward
}

# most_come QUEUES: some datagrams are lost, and none comes twice, or out of order where there is one
# queue.
most_come() {
    local side text
    for side in a b; do
        text=$(tail -n 1 "$netns_work/$side.log")
        note "at $side: $text"
        jq -e --argjson queues "$1" '.twice == 0 and (.behind == 0 or $queues > 1) and .came > .sent / 2' \
            <<<"$text" >/dev/null || return 1
    done
}

# in_turn NAME QUEUES SED: one process closes the ports, the other one opens them. The file is written.
in_turn() {
    local of="$1, queues: $2" broken=$3
    other_devices
    try "$of: the node starts" starts || return
    [ "$1" != TAP ] || check "$of: bridges" bridges
    check "$of: host a reaches host b" lossless a "$ADDRESS_B4"
    start_traffic
    check "$of: a configuration without the user's kind is refused" \
        with_file 's/name: like-me/name: like-you/' 'bearer 1: .*like-me'
    check "$of: and the node goes on" goes_on
    end_traffic
    check "$of: no datagram is lost or doubled, or out of order in one queue" all_come "$2"
    start_traffic
    [ -z "$broken" ] || check "$of: a configuration whose ports do not open is refused" \
        with_file "$broken" 'port access: .*; the node goes on in the other process'
    check "$of: and the node goes on" goes_on
    try "$of: the node goes from process to process" they_take_over
    "$WEFT" ctl upgrade >"$netns_work/upgraded.log" 2>&1
    check "$of: a command says for how long ports were closed" \
        says '^process .* has the node; packets waited .*; ports were closed for .* ms' cat "$netns_work/upgraded.log"
    note "$(cat "$netns_work/upgraded.log")"
    wait_until 20 is_gone "$node"
    node=$(awk '$1 == "process" { print $2 }' "$netns_work/upgraded.log")
    wait_until 30 usage
    end_traffic
    check "$of: most come, and none is doubled or out of order" most_come "$2"
    check "$of: host a reaches host b" lossless a "$ADDRESS_B4"
    stop_node TERM
}

if [ -c /dev/net/tun ]; then
    # They outlive a process, and so do the bridges.
    write_node_file net_tap0,iface=tap-access,persist net_tap1,iface=tap-core,persist 2
    with_own_macs
    in_turn TAP 2 ''
    in_ns n ip link delete tap-access
    in_ns n ip link delete tap-core
    in_ns n ip link delete "br-$PORT_ACCESS"
    in_ns n ip link delete "br-$PORT_CORE"
fi
if reason=$(can_use_xdp); then
    write_node_file "net_af_xdp0,iface=$PORT_ACCESS" "net_af_xdp1,iface=$PORT_CORE"
    # Frames that are longer than a page of its memory.
    in_turn AF_XDP 1 's/queues: /mtu: 4000, &/'
else
    skip "AF_XDP" "$reason"
fi
close_report
