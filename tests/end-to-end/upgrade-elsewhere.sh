#!/usr/bin/env bash
# shellcheck disable=SC2016 # programs of jq
# Processes that take a node over from each other whose functions are elsewhere: at another node,
# in a process that another program starts, and behind software VF. Under datagrams in both
# directions each is handled once, also where a process is refused; where ports close first, contexts
# go along all the same.
#
#   UPGRADES=20 RATE=1000 upgrade-elsewhere.sh    that many times, under so many datagrams a second
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

NEAR=02:00:00:00:09:01 FAR=02:00:00:00:09:02 # the ends of the link between nodes
UPGRADES=${UPGRADES:-2}
RATE=${RATE:-500}

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1400
make_link n near "$NEAR" n far "$FAR" 1600

# write_near_node FABRIC FUNCTIONS: a router that takes packets through `seen` and `count`.
write_near_node() {
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: router}
memory: {packets: 8191}
limits: {bearers: 8}
$1
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, addresses: [$GATEWAY_A4/24]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, addresses: [$GATEWAY_B4/24]}
functions:
$2
users:
  - {name: ue, match: {ipv4: $ADDRESS_A4}}
rules: |
  from access -> seen
  from core -> seen
  from seen -> count
  from count when direction == downlink -> access
  from count -> core
  from fabric -> drop
YAML
}

write_far_node() {
    cat >"$netns_work/far.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: far}
memory: {packets: 8191}
ports:
  fabric: {device: "net_af_packet0,iface=far", direction: uplink, mtu: 1600, addresses: [10.9.0.2/24]}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: 10.9.0.1}
  down: {path: 11, index: 255, direction: downlink, port: fabric, to: 10.9.0.1}
functions:
  seen: {function: counter}
users:
  - {name: ue, match: {ipv4: $ADDRESS_A4}}
rules: |
  from up -> seen
  from down -> seen
  from seen when direction == uplink -> up
  from seen -> down
  from fabric -> drop
YAML
}

# handled SOCKET FUNCTION: packets that a function of the node there has handled.
handled() {
    WEFT_SOCKET=$1 "$WEFT" show runtime --json | jq ".functions[] | select(.name == \"$2\") | .packets"
}

# is FUNCTION STATE: the process of a function, or the path to it.
is() {
    [ "$("$WEFT" show runtime --json | jq -r ".functions[] | select(.name == \"$1\") | .process.state")" = "$2" ]
}

they_take_over() {
    local at
    : >"$netns_work/waited"
    for at in $(seq "$UPGRADES"); do
        sleep 0.3
        take_over "$WEFT" || return 1
        wait_until 30 is count running || { echo "upgrade $at: the function does not come" && return 1; }
    done
    note "packets waited, ms: $(paste -sd' ' "$netns_work/waited")"
}

# passes COUNT: so many more packets come back from both functions.
passes() {
    local before
    before=$(handled "$WEFT_SOCKET" count)
    has_more() { [ "$(handled "$WEFT_SOCKET" count)" -ge "$((before + $1))" ]; }
    wait_until 30 has_more "$1" && is seen reachable && is count running
}

# counted: packets of the user, as `count` has them while it is called.
counted() {
    curl --no-progress-meter --unix-socket "$WEFT_SOCKET" http://weft/v1/users/ue |
        jq '.contexts[] | select(.function == "count") | .values.packets'
}

# --- at another node, and in a process that another program starts -----------------

write_far_node
write_near_node 'ports:
  fabric: {device: "net_af_packet2,iface=near", direction: uplink, mtu: 1600, addresses: [10.9.0.1/24]}' "\
  seen:
    function: counter
    composition: remote
    remote: {path: 10, downlinkPath: 11, port: fabric, to: 10.9.0.2, timeout: 20000, probe: 5000}
  count:
    function: counter
    composition: process
    process: {start: elsewhere, socket: $netns_work/count.sock, onFailure: hold, hold: 2048}"
try "a node that serves starts" start_other far n || { close_report; exit 1; }
far=$started
try "and the one that asks it" start_node || { close_report; exit 1; }
start_in n "$netns_work/count.log" "$WEFT" function counter --attach "$netns_work/count.sock"
function=$started
check "the path is there" wait_until 30 is seen reachable
check "and so is the function" wait_until 30 is count running
check "host a reaches host b" lossless a "$ADDRESS_B4"

# So few that all find room at the function until it answers again, and the path counts as there.
rate=$RATE RATE=20
start_datagrams a "$ADDRESS_A4" b "$ADDRESS_B4"
check "packets go to both functions" passes 20
kill -STOP "$far"
check "while the other node gives no packets back a process is refused" \
    refused 'functions at other nodes do not give packets back' \
    timeout 20 "$WEFT" run --take-over "$netns_work/node.yaml"
kill -CONT "$far"
check "and packets go to both functions as before" passes 20
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
RATE=$rate

begun=$(handled "$netns_work/far.sock" seen)
start_datagrams a "$ADDRESS_A4" b "$ADDRESS_B4"
check "a configuration that calls the function at the other node is refused" \
    with_file '/^  seen:/,/remote:/ { s/composition: remote/composition: call/ }' 'function seen: its contexts are at another node'
check "a configuration of another node is refused" with_file 's/name: router/name: other/' 'node router.*node other'
check "and packets go to both functions as before" passes 100
try "the node goes from process to process" they_take_over
check "and packets go to both functions" passes 100
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
check "the other node has handled each once" \
    equal "packets" "$(handled "$netns_work/far.sock" seen)" "$((begun + $(all_of came)))"
stop_node TERM
check "nothing is left of the sockets" test -z "$(find "$netns_work" -name 'count.sock*')"
stop "$function"

# --- behind software VF, where ports close first -----------------------------------

write_near_node "nics:
  soft:
    software: {sockets: $netns_work/soft, polling: adaptive}
    virtualFunctions:
      fabric: {mac: 02:00:00:00:01:00, rate: 100000}
      count: {mac: 02:00:00:00:01:01, rate: 50000}
ports:
  fabric: {device: 'vf:fabric', direction: uplink, mtu: 1700}" "\
  seen: {function: counter}
  count:
    function: counter
    composition: vf
    vf: {port: fabric, device: 'vf:count'}
    process: {heartbeat: 2000}"
try "a node with a function behind a switch starts" start_node || { close_report; exit 1; }
check "the function is there" wait_until 30 is count running
check "host a reaches host b" lossless a "$ADDRESS_B4"
check "a configuration of another node is refused" with_file 's/name: router/name: other/' 'node router.*node other'
check "and the function stays" is count running
try "another process takes the node over, with its switch" take_over "$WEFT"
check "the function is there" wait_until 30 is count running
check "host a reaches host b" lossless a "$ADDRESS_B4"
sed -i '/composition: vf/,/process:/d' "$netns_work/node.yaml"
try "one takes it over that calls the function" take_over "$WEFT"
check "host a reaches host b" lossless a "$ADDRESS_B4"
check "its context has gone along" equal "packets" "$(counted)" 120
stop_node TERM
close_report
