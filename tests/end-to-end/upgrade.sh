#!/usr/bin/env bash
# Processes that take a node over from each other (`weft run --take-over`) while datagrams pass
# it in both directions: none is lost, doubled or out of order, the user and its counters go
# along, and so does what the node keeps. Then others that ask for the node and must not get it:
# it goes on as it was.
#
#   UPGRADES=20 RATE=10000 upgrade.sh    that many times, under so many datagrams a second
#   WEFT_OTHER=PROGRAM upgrade.sh        to and fro between two builds
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
RATE=${RATE:-1000}
WEFT_OTHER=${WEFT_OTHER:-$WEFT}

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

# write_node_file STATE: the node, which keeps what commands set or not.
write_node_file() {
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: router}
limits: {bearers: 8}
$1
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24]
functions:
  count: {function: counter}
  police:
    function: marker
    config: {meter: {singleRate: {committedRate: 1 Gbit/s, committedBurst: 1 MiB}}}
users:
  - {name: like-me, match: {ipv4: 10.0.9.9}}
rules: |
  from access -> count
  from core -> count
  from count -> police
  from police when direction == downlink -> access
  from police -> core
YAML
}

# usage: packets of the user that the node has counted, both ways.
usage() {
    curl --no-progress-meter --unix-socket "$WEFT_SOCKET" http://weft/v1/bearers/1 |
        jq '.contexts[] | select(.function == "count") | .values.packets'
}

moves_on() {
    [ "$(usage)" -gt "$1" ]
}

# goes_on: the node's process is the one that it was, and packets pass.
goes_on() {
    is_gone "$node" && { echo "the node has ended" && cat "$netns_work/node.log" && return 1; }
    wait_until 10 moves_on "$(usage)" || { echo "nothing passes" && return 1; }
    says 'changed 1' "$WEFT" ctl bearer change 1 --action forward
}

start_traffic() {
    start_datagrams a "$ADDRESS_A4" b "$ADDRESS_B4"
}

they_take_over() {
    local at programs=("$WEFT_OTHER" "$WEFT")
    : >"$netns_work/waited"
    for at in $(seq "$UPGRADES"); do
        sleep 0.5
        take_over "${programs[$((at % 2 ^ 1))]}" || return 1
    done
    note "packets waited, ms: $(paste -sd' ' "$netns_work/waited")"
}

of_a_newer_release() {
    local status=0
    rm -f "$netns_work"/strange*
    start_in n "$netns_work/strange.log" ../lib/upgrade_stranger.py old "$netns_work/strange.sock" router 99 count
    wait_until 10 test -S "$netns_work/strange.sock.other"
    refused 'function count: contexts of version 99, of a newer release' \
        env WEFT_SOCKET="$netns_work/strange.sock" "$WEFT" run --take-over "$netns_work/node.yaml" || status=1
    return "$status"
}

# starts_slowly: the node's program becomes one that waits for a word first; a command starts it.
starts_slowly() {
    rm -f "$netns_work/go-on"
    cat >"$netns_work/slow" <<SH
#!/bin/sh
echo \$\$ >"$netns_work/slow.pid"
touch "$netns_work/waits"
until [ -e "$netns_work/go-on" ]; do sleep 0.05; done
exec "$WEFT" "\$@"
SH
    rm -f "$netns_work/waits"
    chmod +x "$netns_work/slow" && mv "$netns_work/slow" "$netns_work/program"
    "$WEFT" ctl upgrade >"$netns_work/upgraded.log" 2>&1 &
    commanding=$!
    wait_until 20 test -e "$netns_work/waits"
}

# from_a_copy: the node's process runs a copy of the program.
from_a_copy() {
    cp "$WEFT" "$netns_work/copy" && mv "$netns_work/copy" "$netns_work/program" &&
        take_over "$netns_work/program"
}

is_refused_beside_a_command() {
    local before status=0
    from_a_copy && starts_slowly || return 1
    before=$node
    with_file 's/name: router/name: other/' 'node router.*node other' || status=1
    touch "$netns_work/go-on"
    wait "$commanding" || { cat "$netns_work/upgraded.log" && return 1; }
    node=$(awk '$1 == "process" { print $2 }' "$netns_work/upgraded.log")
    wait_until 20 is_gone "$before" && wait_until 30 usage && return "$status"
}

is_faster_than_a_command() {
    from_a_copy && starts_slowly && take_over "$WEFT" || return 1
    ! wait "$commanding" || return 1
    # Otherwise it would ask the other one for the node, later.
    wait_until 5 is_gone "$(<"$netns_work/slow.pid")" && return
    echo "the process that the command has started waits on"
    return 1
}

# of_process FIELD: what the node says of the process of the function that counts.
of_process() {
    "$WEFT" show runtime --json | jq -r ".functions[] | select(.name == \"count\") | .process.$1"
}

# is_in_its_process PROCESS: the function is in that process, which has not failed.
is_in_its_process() {
    [ "$(of_process process) $(of_process failures)" = "$1 0" ] && return
    "$WEFT" show runtime
    return 1
}

# process_does_not_come PROGRAM PATTERN: a new process is refused whose function runs in PROGRAM.
process_does_not_come() {
    local before status
    before=$(of_process process)
    in_ns n env WEFT_PROGRAM="$1" "$WEFT" run --take-over "$netns_work/node.yaml" >"$netns_work/refused.log" 2>&1
    status=$?
    [ "$status" -eq 2 ] && tail -n 1 "$netns_work/refused.log" | grep -q "$2" && is_in_its_process "$before" && return
    echo "exit code $status" && cat "$netns_work/refused.log"
    return 1
}

# goes_over_in_a_process: the new process of the node has the function in a new one of its own,
# and nothing is left of the old one.
goes_over_in_a_process() {
    local before folder=/run/weft-router-$node
    before=$(of_process process)
    [ -d "$folder" ] || { echo "$folder is not there" && return 1; }
    take_over "$WEFT" || return 1
    is_gone "$before" || { echo "process $before of the function is still there" && return 1; }
    [ ! -e "$folder" ] || { ls "$folder" && return 1; }
    [ "$(of_process process)" != "$before" ] && is_in_its_process "$(of_process process)"
}

# moves NAME COMPOSITION: a function, while packets pass.
moves() {
    "$WEFT" ctl function "$1" --composition "$2" >"$netns_work/moved" 2>&1 || { cat "$netns_work/moved" && return 1; }
}

start_it() {
    stop_node TERM 2>/dev/null
    start_node || return 1
    says 'added 1' "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
}

cat >"$netns_work/bearers.yaml" <<YAML
- {id: 1, like: like-me, match: {ipv4: $ADDRESS_A4}}
YAML

write_node_file "state: {directory: state}"
try "the node starts" start_node || { close_report; exit 1; }
check "a bearer is added" says 'added 1' "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
check "host a reaches host b" lossless a "$ADDRESS_B4"
begun=$(usage)
start_traffic
try "the node goes from process to process, with what it keeps" they_take_over
sleep 0.5
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
check "each is counted once" equal "packets" "$(usage)" "$((begun + $(all_of came)))"
check "changes are durable in the last one" says 'changed 1' "$WEFT" ctl bearer change 1 --action notify
stop_node KILL
try "which is killed, and starts again" start_node
check "as it was" says '^1  .*notify' "$WEFT" ctl bearer show
check "and is changed again" says 'changed 1' "$WEFT" ctl bearer change 1 --action forward

RATE=200
start_traffic
check "a node of another name is refused" with_file 's/name: router/name: other/' 'node router.*node other'
check "a configuration without the user's kind is refused" with_file 's/name: like-me/name: like-you/' 'bearer 1: .*like-me'
check "a configuration with a mistake is refused" with_file 's/function: marker/function: maker/' 'maker'
check "a socket without a node is refused" refused 'no node is running' \
    env WEFT_SOCKET="$netns_work/nowhere.sock" "$WEFT" run --take-over "$netns_work/node.yaml"
check "contexts of a newer release are refused" of_a_newer_release
check "the node goes on" goes_on
check "and its interfaces take in what is for other addresses" says PROMISC in_ns n ip link show "$PORT_ACCESS"
for how in garbage long accept refuse open way closed opened silent; do
    check "a stranger ($how) gets an answer" ../lib/upgrade_stranger.py new "$WEFT_SOCKET" "$how"
    check "and the node goes on" goes_on
done
try "a new process is killed midway" killed_behind 0.02 0.1 0.2
check "and the node goes on" goes_on
try "a command starts a process, and one of another name is refused meanwhile" is_refused_beside_a_command
check "the command has its own answer" says '^process .* has the node; packets waited' cat "$netns_work/upgraded.log"
try "a command starts a process, and another one is faster" is_faster_than_a_command
check "the command is told so" says "process $node has taken the node over meanwhile" cat "$netns_work/upgraded.log"
check "and the node goes on" goes_on
end_datagrams
before=$(usage)
start_traffic
sleep 1.2
"$WEFT" ctl upgrade >"$netns_work/upgraded.log" 2>&1
check "a command takes the node over" says '^process .* has the node; packets waited' cat "$netns_work/upgraded.log"
wait_until 20 is_gone "$node"
node=$(awk '$1 == "process" { print $2 }' "$netns_work/upgraded.log")
wait_until 30 usage
sleep 0.3
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
check "with its usage" equal "usage" "$((before + $(all_of came)))" "$(usage)"
check "and packets pass" lossless a "$ADDRESS_B4"
stop_node TERM

write_node_file ""
try "a node that keeps nothing starts" start_it
begun=$(usage)
UPGRADES=2
start_traffic
try "and goes from process to process" they_take_over
sleep 0.5
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
check "each is counted once" equal "packets" "$(usage)" "$((begun + $(all_of came)))"
stop_node TERM

write_node_file ""
sed -i 's/{function: counter}/{function: counter, process: {onFailure: drop}}/' "$netns_work/node.yaml"
try "a node with a function that may be in a process starts" start_it
begun=$(usage)
start_traffic
try "the function goes into its process" moves count process
check "a new process whose function does not start is refused, the function stays" \
    process_does_not_come /bin/false 'function count: its process does not come: its process ended'
try "the node goes over, with the function in its process" goes_over_in_a_process
try "and again" goes_over_in_a_process
try "the function comes back" moves count call
try "and the node goes over" take_over "$WEFT"
sleep 0.5
end_datagrams
check "no datagram is lost, doubled or out of order" nothing_is_lost a b
check "each is counted once" equal "packets" "$(usage)" "$((begun + $(all_of came)))"
stop_node TERM
close_report
