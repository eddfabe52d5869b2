#!/usr/bin/env bash
# A gateway under good traffic, with functions in processes and one at another node, while a
# program floods, forges, kills and truncates at random. Every ten seconds good users have
# their share, packets are accounted for, and memory is flat.
#
#   SECONDS_LONG=300 chaos.sh    that long (600)
#   SEED=7 chaos.sh              the same choices again; it is printed
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

NEAR=02:00:00:00:09:01 FAR=02:00:00:00:09:02 # the ends of the link between nodes
PORT=7777 RATE=100                           # of the good users, packets a second in each family
WINDOW=10                                    # seconds between two looks
LONG=${SECONDS_LONG:-600}
SEED=${SEED:-$RANDOM}
RANDOM=$SEED

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1400
make_link n near "$NEAR" n far "$FAR" 1700

# The good user's packets visit a process and another node. A stranger's function process
# attaches to a function that only another user's packets visit.
cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: chaos}
memory: {packets: 16383}
ports:
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/56"]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]}
  fabric: {device: "net_af_packet2,iface=near", direction: uplink, mtu: 1700}
functions:
  count: {function: counter}
  apart:
    function: counter
    composition: process
    process: {onFailure: bypass}
  guard:
    function: filter
    composition: remote
    remote: {path: 10, downlinkPath: 11, port: fabric, to: "$FAR", onFailure: bypass, probe: 50, timeout: 1000}
    config: {rules: [{action: deny, protocol: udp, destinationPorts: 7}], default: allow}
  hostile:
    function: pass
    composition: process
    process: {start: elsewhere, socket: $netns_work/ring, onFailure: drop}
users:
  - {name: good, match: {ipv4: $ADDRESS_A4, ipv6: "2001:db8:0:1::/64"}, chain: good}
  - {name: other, match: {ipv4: 10.0.0.2}, chain: other}
rules: |
  chain good = count -> apart -> guard
  chain other = hostile
  from access when chain == good -> good
  from core when chain == good -> good
  from access when chain == other -> other
  from core when chain == other -> other
  from fabric -> drop
  from good when direction == uplink -> core
  from good -> access
  from other when direction == uplink -> core
  from other -> access
YAML
cat >"$netns_work/far.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: far}
memory: {packets: 8191}
ports:
  fabric: {device: "net_af_packet0,iface=far", direction: uplink, mtu: 1700}
paths:
  up: {path: 10, index: 255, direction: uplink, port: fabric, to: "$NEAR"}
  down: {path: 11, index: 255, direction: downlink, port: fabric, to: "$NEAR"}
functions:
  guard:
    function: filter
    config: {rules: [{action: deny, protocol: udp, destinationPorts: 7}], default: allow}
users:
  - {name: good, match: {ipv4: $ADDRESS_A4, ipv6: "2001:db8:0:1::/64"}}
rules: |
  from up -> guard
  from down -> guard
  from guard when direction == uplink -> up
  from guard -> down
  from fabric -> drop
YAML

# --- what goes wrong -------------------------------------------------------------

pid_of_function() {
    of_node '.functions[] | select(.name == "apart") | .process.process // empty'
}

far_may_die=0 # seconds

# one_event: something at random; says what.
one_event() {
    local seconds=$((RANDOM % 3 + 1)) victim signal
    case $((RANDOM % 7)) in
    0)
        echo "flood for $seconds s"
        in_ns a timeout 30 ../lib/floods.py flood eth0 "$MAC_ACCESS" $((RANDOM % 4000 + 1000)) "$seconds"
        ;;
    1 | 2)
        echo "forged and cut frames from users for $seconds s"
        in_ns a timeout 30 ../lib/strangers.py eth0 "$MAC_ACCESS" $RANDOM $((RANDOM % 1500 + 500)) "$seconds"
        ;;
    3)
        echo "forged and cut frames between nodes for $seconds s"
        in_ns n timeout 30 ../lib/strangers.py far "$NEAR" $RANDOM $((RANDOM % 1500 + 500)) "$seconds"
        ;;
    4)
        victim=$(pid_of_function)
        signal=KILL
        [ $((RANDOM % 2)) = 0 ] || signal=STOP
        echo "SIG$signal to the function's process ${victim:-(none)}"
        [ -z "$victim" ] || kill "-$signal" "$victim" 2>/dev/null
        ;;
    5)
        # What is under way to it is lost until three probes have not come back: once in a
        # window is within the share of good users, twice is not.
        [ "$SECONDS" -ge "$far_may_die" ] || return
        far_may_die=$((SECONDS + 2 * WINDOW))
        echo "the far node dies and comes back"
        stop "$far" KILL
        sleep "0.$((RANDOM % 9 + 1))"
        start_other far n >/dev/null && far=$started
        ;;
    6)
        echo "a hostile function process, its memory truncated"
        timeout 20 python3 ../lib/hostile_function.py "$netns_work/ring" $RANDOM >/dev/null 2>&1
        ;;
    esac
    sleep "0.$((RANDOM % 9))"
}

# chaos: events until it is told to stop. What it starts ends with it.
chaos() {
    until [ -e "$netns_work/stop" ]; do one_event; done >>"$netns_work/events" 2>&1
    stop "$far"
}

# --- what must hold --------------------------------------------------------------

# good_users NAME: as many datagrams of each family as fit into a window; what came back is
# in NAME-4 and NAME-6.
good_users() {
    local four six
    start_in a "$netns_work/$1-4" ../lib/floods.py ask "$ADDRESS_B4" $PORT $RATE $((RATE * WINDOW))
    four=$started
    start_in a "$netns_work/$1-6" ../lib/floods.py ask "$ADDRESS_B6" $PORT $RATE $((RATE * WINDOW))
    six=$started
    wait "$four" "$six"
}

# have_share WINDOW: at least 95 % came back.
have_share() {
    local four six least=$((RATE * WINDOW * 95 / 100))
    four=$(cat "$netns_work/$1-4") && six=$(cat "$netns_work/$1-6") || return 1
    echo "$four and $six of $((RATE * WINDOW)) came back"
    [ "$four" -ge "$least" ] && [ "$six" -ge "$least" ]
}

# unaccounted: packets that came or were made, less those that left or are counted by name. One
# that is lost on its way to the far node and back has left there; what comes back unasked
# (strays) came from there.
unaccounted() {
    of_node '([.ports[].rx_packets] | add) + .originated + .emitted + .fragments
        - ([.ports[].tx_packets] | add) - ([.drops[] | select(.port == null) | .packets] | add // 0)
        - .local + (.functions[] | select(.name == "guard") | .process.lost - .process.strays)'
}

# few_under_way: what is not accounted for is in flight or waits: the devices' counters and
# the workers' are read one after the other.
few_under_way() {
    local count
    count=$(unaccounted)
    echo "$count packets are not accounted for"
    [ "${count#-}" -le 1024 ]
}

all_accounted_for() {
    wait_until 20 adds_up && return
    echo "$(unaccounted) packets are not: $(of_node '[.functions[] | {name, process}]' | tr -d ' \n')"
    return 1
}

adds_up() {
    [ "$(unaccounted)" -eq 0 ]
}

# memory_is_flat KILOBYTES BUFFERS: as at the start, but for what caches and rings hold.
memory_is_flat() {
    local now free
    now=$(resident) free=$(of_node .buffers.available)
    echo "$now kB, $free buffers are free; at the start $1 kB, $2"
    [ "$now" -le $(($1 + 16384)) ] && [ "$free" -ge $(($2 - 2048)) ]
}

path_is() {
    [ "$(of_node '.functions[] | select(.name == "guard") | .process.state')" = "$1" ]
}

note "seed $SEED, $LONG s"
try "the far node starts" start_other far n
far=$started
if ! start_node "$netns_work/node.yaml"; then
    fail "the node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit 1
fi
start_in b "$netns_work/serve-4" ../lib/floods.py serve "$ADDRESS_B4" $PORT
start_in b "$netns_work/serve-6" ../lib/floods.py serve "$ADDRESS_B6" $PORT
check "the path is there" wait_until 30 path_is reachable
check "ways and neighbours are found" lossless a "$ADDRESS_B4"
check "ways and neighbours are found, IPv6" lossless a "$ADDRESS_B6"
good_users quiet
check "good users have all before it begins" have_share quiet
memory=$(resident) free=$(of_node .buffers.available)

: >"$netns_work/events"
chaos &
chaos=$!
windows=0 bad=0
until [ "$SECONDS" -ge "$LONG" ]; do
    windows=$((windows + 1))
    good_users "window-$windows"
    for look in "have_share window-$windows" few_under_way "memory_is_flat $memory $free"; do
        # shellcheck disable=SC2086 # words of a command
        if ! said=$($look 2>&1); then
            bad=$((bad + 1))
            fail "window $windows: ${look%% *}" "$said; then: $(tail -n 6 "$netns_work/events" | tr '\n' ';')"
        fi
    done
    if ! kill -0 "$node" 2>/dev/null; then
        fail "the node lives" "$(tail -n 5 "$netns_work/node.log")"
        break
    fi
done
touch "$netns_work/stop"
wait "$chaos"
note "$windows windows, $(wc -l <"$netns_work/events") lines of events: $(grep -oE '^(flood|forged and cut frames from users|forged and cut frames between nodes|SIG[A-Z]+|the far node|a hostile)' "$netns_work/events" | sort | uniq -c | tr -s ' ' | tr '\n' ';')"
check "in each window good users had 95 %, packets were accounted for, memory was flat" [ "$bad" -eq 0 ]
check "in the end every packet is accounted for" all_accounted_for
note "dropped: $(of_node '[.drops[] | "\(.reason) \(.packets)"] | join(", ")')"
note "ignored: $(of_node '[.ignored[]? | "\(.cause) \(.packets)"] | join(", ")')"
note "resident $memory kB at the start, $(resident) kB at the end; buffers $free, $(of_node .buffers.available)"
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
