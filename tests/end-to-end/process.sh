#!/usr/bin/env bash
# shellcheck disable=SC2016 # programs of jq
# Functions in processes of their own: the same captures give the same bytes and
# counters as when they are called, and a function that dies or stands still under
# load takes nobody else with it.
#
#   process.sh             a few kills
#   KILLS=1000 process.sh  that many
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh

WEFT=${WEFT:-$(cd ../.. && pwd)/target/release/weft}
WEFT=$(realpath -m -- "$WEFT")
export WEFT
KILLS=${KILLS:-10}
CASES="ipv4-mix ipv6-mix downlink-mix lookup workers filter counter-payload forward-swap
       bursts-single-rate bursts-two-rate fragments gtpu gtpu-relay nat route lwaftr esp"
if ! [ -x "$WEFT" ]; then
    echo "there is no program at $WEFT: build it (cargo build --release) or set WEFT" >&2
    exit 2
fi

work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work # so that leftovers of the node can be seen
export WEFT_SOCKET=$work/node.sock
node=
finish() {
    reap
    rm -rf "$work"
}
trap finish EXIT

# try NAME COMMAND...: as `check`, in this shell: nodes and functions that the
# command starts are to be known here.
try() {
    local name=$1
    shift
    if "$@" >"$work/why" 2>&1; then
        pass "$name"
    else
        fail "$name" "$(tail -n 20 "$work/why")"
        return 1
    fi
}

# Ends what a check that failed has left.
reap() {
    local one
    for one in $node ${function:-}; do
        kill -KILL "$one" && wait "$one"
    done 2>/dev/null
    node='' function=''
}

# --- the same bytes -------------------------------------------------------------

# shellcheck disable=SC2086 # a list of words
same_bytes() {
    ../golden/run.py --composition process $CASES
}

# --- a node under load -----------------------------------------------------------

# Two packets, of the users 10.0.0.1 and 10.0.0.2, over and over.
write_capture() {
    python3 - "$work/load.pcap" <<'PYTHON'
import struct, sys

def packet(user):
    udp = struct.pack(">HHHH", 1000, 2000, 26, 0) + bytes(18)
    addresses = bytes([10, 0, 0, user, 198, 51, 100, 1])
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head = head[:10] + struct.pack(">H", total) + head[12:]
    return bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + head + udp

with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for user in [1, 2] * 16:
        frame = packet(user)
        file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
PYTHON
}

# write_node PROCESS: user 1 visits a function in a process, user 2 one that is called.
write_node() {
    cat >"$work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: isolated}
memory: {hugePages: false}
ports:
  access: {device: "net_pcap0,rx_pcap=$work/load.pcap,infinite_rx=1", direction: uplink}
  core: {device: "net_null0,no-rx=1", direction: downlink}
functions:
  away: {function: counter, composition: process, process: {$1}}
  here: {function: counter}
users:
  - {name: one, match: {ipv4: 10.0.0.1}, chain: isolated}
  - {name: two, match: {ipv4: 10.0.0.2}, chain: called}
rules: |
  chain isolated = away
  chain called = here
  from access when chain == isolated -> isolated
  from access when chain == called -> called
  from isolated -> core
  from called -> core
  from core -> drop
YAML
}

start_node() {
    "$WEFT" run "$work/node.yaml" >"$work/node.out" 2>"$work/node.log" &
    node=$!
    for _ in $(seq 300); do
        grep -qs 'is ready' "$work/node.out" && return
        kill -0 "$node" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/node.log"
    return 1
}

stop_node() {
    local status
    kill -TERM "$node"
    wait "$node"
    status=$?
    node=
    return "$status"
}

of_node() {
    "$WEFT" show runtime --json | jq -r "$1"
}

state() {
    of_node '.functions[] | select(.name == "away") | .process.state'
}

pid_of_function() {
    of_node '.functions[] | select(.name == "away") | .process.process'
}

# until_is STATE: within 20 s.
until_is() {
    for _ in $(seq 400); do
        [ "$(state)" != "$1" ] || return 0
        sleep 0.05
    done
    echo "the function is not $1 but $(state)"
    tail -n 5 "$work/node.log"
    return 1
}

# Every packet of the chain that is called was handled and sent; no drop has a reason
# that is not the other chain's; all packets add up.
others_lose_nothing() {
    of_node '
        (.ports[] | select(.name == "access") | .rx_packets) as $received
        | ([.drops[] | select(.port == null) | .packets] | add // 0) as $dropped
        | ([.ports[].tx_packets] | add) as $sent
        | ([.functions[].process.away // 0] | add) as $away
        | (.functions[] | select(.name == "here") | .packets) as $here
        | ([.drops[] | select(.port == null) | .reason]
            - ["backpressure", "function_lost", "function_full", "function_down", "hold_full"]) as $strange
        | if ($strange | length) > 0 then "dropped as \($strange)"
          elif ($here * 2 - $received) | fabs > 20000 then "\($here) of \($received)"
          else "good" end' >"$work/verdict"
    cat "$work/verdict"
    grep -qx good "$work/verdict"
}

kill_often() {
    local before after victim
    until_is running || return 1
    before=$(ls "/proc/$node/fd" | wc -l)
    for _ in $(seq "$KILLS"); do
        victim=$(pid_of_function)
        sleep "0.0$((RANDOM % 90 + 10))"
        # On a busy machine it may have been taken for dead already: that is a failure, too.
        kill "-$1" "$victim" || echo "$victim had gone before"
        for _ in $(seq 400); do
            [ "$(pid_of_function)" != "$victim" ] && [ "$(state)" = running ] && break
            sleep 0.05
        done
    done
    until_is running || return 1
    after=$(ls "/proc/$node/fd" | wc -l)
    note "$KILLS times: failures $(of_node '.functions[0].process.failures'), lost $(of_node '.functions[0].process.lost'), descriptors $before then $after"
    [ "$after" -le $((before + 2)) ] || { ls -l "/proc/$node/fd" && return 1; }
    [ "$(of_node '.functions[] | select(.name == "away") | .process.failures')" -ge "$KILLS" ]
}

# Once it has stopped, every packet is accounted for.
adds_up() {
    stop_node || { tail -n 3 "$work/node.log" && return 1; }
    local leftovers
    leftovers=$(find "$work" -name 'away.sock*')
    [ -z "$leftovers" ] || { echo "left: $leftovers" && return 1; }
    pgrep -f "$work/weft-isolated" && return 1
    return 0
}

under_failure() {
    local signal=$1 policy=$2
    write_node "$policy"
    if try "a node with {$policy} starts" start_node; then
        try "functions are killed by $signal under load and come back ($policy)" \
            kill_often "$signal"
        try "the other chain loses nothing ($policy)" others_lose_nothing
        try "nothing is left behind ($policy)" adds_up
    fi
    reap
}

# --- a function that somebody else starts -----------------------------------------

attached_elsewhere() {
    local first
    write_node "start: elsewhere, socket: $work/away.sock"
    start_node || return 1
    [ "$(state)" = absent ] || return 1
    "$WEFT" function counter --attach "$work/away.sock" 2>"$work/function.log" &
    function=$!
    until_is running || { cat "$work/function.log" && return 1; }
    first=$(of_node '.functions[0].packets')
    sleep 0.2
    [ "$(of_node '.functions[0].packets')" -gt "$first" ] || return 1
    kill -KILL "$node"
    wait "$node" 2>/dev/null
    start_node || return 1
    until_is running || { cat "$work/function.log" && return 1; }
    first=$(of_node '.functions[0].packets')
    sleep 0.2
    [ "$(of_node '.functions[0].packets')" -gt "$first" ] || return 1
    stop_node
    kill -TERM "$function"
    wait "$function"
    function=
}

refuses() {
    local said
    said=$("$WEFT" function nothing --attach "$work/away.sock" 2>&1)
    [ $? -eq 2 ] && grep -q 'no function nothing' <<<"$said"
}

check "the same bytes and counters as when functions are called" same_bytes
write_capture
under_failure KILL "onFailure: drop"
under_failure STOP "onFailure: bypass"
under_failure KILL "onFailure: hold, hold: 64"
try "a node that starts again finds its function again" attached_elsewhere
reap
check "a function that there is none of" refuses
close_report
