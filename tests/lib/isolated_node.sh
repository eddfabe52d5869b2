# shellcheck shell=bash
# shellcheck disable=SC2016 # programs of jq
# A node under load with a function in a process of its own, in a network of its own. To be
# sourced, behind report.sh and netns.sh. Sets WEFT, WEFT_SOCKET and work, a folder that goes with
# the test. RATE is how many packets a second come to the node.

WEFT=${WEFT:-$(cd ../.. && pwd)/target/release/weft}
WEFT=$(realpath -m -- "$WEFT")
export WEFT
if ! [ -x "$WEFT" ]; then
    echo "there is no program at $WEFT: build it (cargo build --release) or set WEFT" >&2
    exit 2
fi

own_network "$@"
RATE=${RATE:-10000}
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work # so that leftovers of the node can be seen
export WEFT_SOCKET=$work/node.sock
node= replaying=
finish() {
    reap
    [ -z "$replaying" ] || kill "$replaying"
    rm -rf "$work"
}
trap finish EXIT

# Ends what a check that failed has left.
reap() {
    local one
    for one in $node ${function:-}; do
        kill -KILL "$one" && wait "$one"
    done 2>/dev/null
    node='' function=''
}

# start_traffic: to the device `access`, from the users 10.0.0.1 and 10.0.0.2 in turn.
start_traffic() {
    write_capture
    replay "$work/load.pcap" access "$RATE"
}

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

# write_node PROCESS [FUNCTION [ACCESS CORE]]: user 1 visits a function in a process, user 2 one
# that is called. ACCESS and CORE are the devices of the ports.
write_node() {
    cat >"$work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: isolated}
memory: {hugePages: false}
ports:
  access: {device: "${3:-net_af_packet0,iface=access}", direction: uplink}
  core: {device: "${4:-net_null0,no-rx=1}", direction: downlink}
functions:
  away: {function: ${2:-counter}, composition: process, process: {$1}}
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
    rm -f "$work/node.out" # of the one before
    "$WEFT" run "$work/node.yaml" >"$work/node.out" 2>"$work/node.log" &
    node=$!
    for _ in $(seq 600); do
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

# pid_and_state: both at one moment.
pid_and_state() {
    of_node '.functions[] | select(.name == "away") | .process | "\(.process) \(.state)"'
}

# until_is STATE: within a minute.
until_is() {
    for _ in $(seq 1200); do
        [ "$(state)" != "$1" ] || return 0
        sleep 0.05
    done
    echo "the function is not $1 but $(state)"
    tail -n 5 "$work/node.log"
    return 1
}

# others_lose_nothing [REASON]...: every packet of the chain that is called was handled and
# sent; no drop has a reason that is not the other chain's, these beside those of every
# process; all packets add up. Counters are read one after another: where the reader had to wait
# between two, it reads again. What is lost stays lost.
others_lose_nothing() {
    local more _
    more=$(jq -cn '$ARGS.positional' --args "$@")
    for _ in $(seq 20); do
        judge_counters "$more" >"$work/verdict"
        grep -qx good "$work/verdict" && return
        sleep 0.2
    done
    cat "$work/verdict"
    return 1
}

# judge_counters REASONS
judge_counters() {
    of_node "$1"' as $more
        | (.ports[] | select(.name == "access") | .rx_packets) as $received
        | ([.drops[] | select(.port == null) | .packets] | add // 0) as $dropped
        | ([.ports[].tx_packets] | add) as $sent
        | ([.functions[].process.away // 0] | add) as $away
        | (.functions[] | select(.name == "here") | .packets) as $here
        | ([.drops[] | select(.port == null and .function != "away") | .reason]
            - ["backpressure", "function_lost", "function_full", "function_down", "hold_full"] - $more) as $strange
        | if ($strange | length) > 0 then "dropped as \($strange)"
          elif ($here * 2 - $received) | fabs > 1000 then "\($here) of \($received)"
          else "good" end'
}
