#!/usr/bin/env bash
# A function goes to another node and comes back, ten times while a thousand packets a
# second pass in each direction, by `weft ctl function … --peer`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

NEAR=02:00:00:00:09:01 FAR=02:00:00:00:09:02 # the ends of the link between nodes
USERS=200

far='' # process id

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
far_socket=$netns_work/far.sock
build_topology 1400
make_link n near "$NEAR" n far "$FAR" 1600

# serve USERS: the node that has the function for the other one.
serve() {
    cat >"$netns_work/far.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: far}
memory: {packets: 8191}
ports:
  fabric: {device: "net_af_packet0,iface=far", direction: uplink, mtu: 1600}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: "$NEAR"}
  down: {path: 11, index: 255, direction: downlink, port: fabric, to: "$NEAR"}
functions:
  count: {function: counter}
users:
  - {name: ue, count: $1, match: {ipv4: $ADDRESS_A4}}
rules: |
  from up -> count
  from down -> count
  from count when direction == uplink -> up
  from count -> down
  from fabric -> drop
YAML
    start_other far n && far=$started
}

near() {
    cat >"$netns_work/near.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: near}
memory: {packets: 16383}
ports:
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, addresses: [$GATEWAY_A4/24]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, addresses: [$GATEWAY_B4/24]}
  fabric: {device: "net_af_packet2,iface=near", direction: uplink, mtu: 1600}
functions:
  count:
    function: counter
    remote: {path: 10, downlinkPath: 11, port: fabric, to: "$FAR", timeout: 2000, probe: 1000}
users:
  - {name: ue, count: $USERS, match: {ipv4: $ADDRESS_A4}}
rules: |
  from access -> count
  from core -> count
  from count when direction == uplink -> core
  from count -> access
  from fabric -> drop
YAML
    start_node "$netns_work/near.yaml"
}

to_and_fro() {
    "$WEFT" ctl function count --composition "$1" --peer-socket "$far_socket"
}

composed() {
    [ "$(of_node '.functions[0].composition')" = "$1" ]
}

# counted SOCKET: packets of the user in the context of that node's function.
counted() {
    WEFT_SOCKET=$1 "$WEFT" show users ue-0 --json |
        jq '.contexts[] | select(.function == "count") | .values.packets'
}

echoes() {
    in_ns b ss -Hlun "sport = :4000" | grep -q .
}

# under_load: datagrams with numbers, each echoed, while the function goes there and back.
under_load() {
    start_in b "$netns_work/echo.log" ../lib/udp_echo.py serve "$ADDRESS_B4" 4000
    wait_until 10 echoes
    start_in a "$netns_work/numbers" ../lib/udp_echo.py ask "$ADDRESS_B4" 4000 1000 10
    local asks=$started round
    for round in $(seq 10); do
        to_and_fro remote >>"$netns_work/moves" && composed remote || return 1
        sleep 0.3
        to_and_fro call >>"$netns_work/moves" && composed call || return 1
        sleep 0.2
    done
    wait "$asks" || { cat "$netns_work/numbers" && return 1; }
    note "$(cat "$netns_work/numbers")"
    note "packets waited, in ms: $(sed 's/.*waited //; s/ ms//' "$netns_work/moves" |
        sort -n | awk '{ all[NR] = $1 } END { print "median " all[int((NR + 1) / 2)] ", worst " all[NR] }')"
}

# The context has been at both nodes in turn and has counted each packet once.
counts_all() {
    equal "packets of the context" "$(of_node '.functions[0].packets')" "$(counted "$WEFT_SOCKET")"
}

nothing_dropped() {
    local drops
    drops=$(of_node '.drops[] | "\(.reason) \(.packets)"')
    [ -z "$drops" ] || { echo "$drops" && return 1; }
}

reachable() {
    [ "$(of_node '.functions[0].process.state')" = reachable ]
}

# refuses COMPOSITION WORDS ARGUMENTS...: in one line; that is how the function is run then.
refuses() {
    local said composition=$1 words=$2
    shift 2
    said=$("$WEFT" ctl function count "$@" 2>&1) && { echo "granted: $said" && return 1; }
    [[ $said == *"$words"* && $said != *$'\n'* ]] || { echo "$said" && return 1; }
    composed "$composition"
}

# gives_up: a carrier that closes the gate and is not heard of again.
gives_up() {
    curl --no-progress-meter --fail-with-body --unix-socket "$WEFT_SOCKET" --json '{"goes": true}' \
        http://weft/v1/functions/count/gate && composed remote || return 1
    wait_until 10 composed call && lossless a "$ADDRESS_B4"
}

try "carried: the far node starts" serve "$USERS"
if ! near; then
    fail "carried: the near node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
check "carried: to another node and back under load" under_load
check "carried: the contexts have counted all" counts_all
check "carried: nothing was dropped" nothing_dropped
check "carried: a carrier that dies leaves the function where it was" gives_up
check "carried: without a node it stays" refuses call "which node is it?" --composition remote
check "carried: nobody takes it past the carrier" refuses call "is at this node" --composition call --anew
to_and_fro remote >/dev/null
check "carried: it does not come back by itself" refuses remote "--peer NODE" --composition call
stop "$far" KILL
check "carried: the node that has it is gone" refuses remote "far.sock" \
    --composition call --peer-socket "$far_socket"
check "carried: it comes back anew" "$WEFT" ctl function count --composition fused --anew
check "carried: pings after that" lossless a "$ADDRESS_B4"
try "carried: a node that lacks users starts" serve 1
check "carried: the path to it is there" wait_until 10 reachable
check "carried: that node refuses contexts of others" \
    refuses call "there is no user \`ue-0\` here" --composition remote --peer-socket "$far_socket"
check "carried: pings after that as well" lossless a "$ADDRESS_B4"
stop_node TERM
check "carried: the near node stops" equal "exit code" 0 "$node_status"
stop "$far"
close_report
