#!/usr/bin/env bash
# A function goes to another node and comes back, ten times while a thousand packets a
# second pass in each direction, by `weft ctl function … --peer`; and twenty times more while
# each command is killed in the middle.
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

# milliseconds COMPOSITION: how long a move takes that nothing kills.
milliseconds() {
    local begun=${EPOCHREALTIME/./}
    to_and_fro "$1" >/dev/null || return 1
    echo $(((${EPOCHREALTIME/./} - begun) / 1000))
}

# killed_at PAUSE COMPOSITION: a command that asks for a move and is killed after so many seconds.
killed_at() {
    local command
    start_in n "$netns_work/killed.log" "$WEFT" ctl function count --composition "$2" \
        --peer-socket "$far_socket"
    command=$started
    sleep "$1"
    { # without bash telling of it
        kill -KILL "$command"
        wait "$command"
    } 2>/dev/null
    true
}

# outcome: what the node says of the last move, once it is over.
outcome() {
    curl --no-progress-meter --unix-socket "$WEFT_SOCKET" http://weft/v1/functions/count/move
}

# without_commands: each of twenty commands is killed, after shares of the time that a move takes
# here. The move ends by itself, or has not begun; the same command again has it done, or says
# what has come of it.
without_commands() {
    echoes || start_in b "$netns_work/echo.log" ../lib/udp_echo.py serve "$ADDRESS_B4" 4000
    wait_until 10 echoes
    start_in a "$netns_work/numbers" ../lib/udp_echo.py ask "$ADDRESS_B4" 4000 1000 15
    local asks=$started round to said begun=0 whole back
    whole=$(milliseconds remote) && back=$(milliseconds call) || return 1
    note "a move takes $whole and $back ms"
    for round in $(seq 20); do
        to=$([ $((round % 2)) -eq 1 ] && echo remote || echo call)
        killed_at "$(awk -v all="$whole" -v round="$round" 'BEGIN {print all * round / 20000}')" "$to"
        outcome >"$netns_work/outcome" || return 1
        composed "$to" && begun=$((begun + 1))
        said=$(to_and_fro "$to") || { echo "round $round: $said" && return 1; }
        [[ $said == *"$USERS contexts carried"* ]] || { echo "round $round: $said" && return 1; }
        composed "$to" || { echo "round $round: it is not $to" && return 1; }
    done
    wait "$asks" || { cat "$netns_work/numbers" && return 1; }
    note "$(cat "$netns_work/numbers"); $begun of 20 moves came about without it"
    [ "$begun" -gt 0 ]
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
check "carried: moves end though their commands are killed" without_commands
check "carried: the contexts have counted all of that as well" counts_all
check "carried: nothing was dropped then" nothing_dropped
check "carried: without a node it stays" refuses call "which node is it?" --composition remote
check "carried: what is here does not come back" refuses call "is at this node" --composition call --anew
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
