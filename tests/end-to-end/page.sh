#!/usr/bin/env bash
# The live page of a node in Chromium without a screen, and `weft top` in tmux: figures are
# those of `weft show`, a user is found, traced and captured, a function moves, the node goes
# and comes back. No request leaves the machine.
#
#   ARTEFACTS=DIR page.sh    keeps screenshots there
#
# axe-core comes from the npm registry, once, into target/tools.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh # own_network, replay, wait_until, skip_script

AXE=4.14.1
root=$(cd ../.. && pwd)
WEFT=${WEFT:-$root/target/release/weft}
tools=${CARGO_TARGET_DIR:-$root/target}/tools
artefacts=${ARTEFACTS:-$root/target/page}
mkdir -p "$artefacts" "$tools"

for program in chromedriver chromium tmux jq ab; do
    command -v "$program" >/dev/null || skip_script "$program is not installed"
done

# axe: the file of axe-core, which comes once.
axe() {
    local folder=$tools/axe-core-$AXE
    [ -s "$folder/axe.min.js" ] || {
        mkdir -p "$folder"
        (cd "$folder" && npm pack --silent "axe-core@$AXE" >/dev/null && tar xzf "axe-core-$AXE.tgz" --strip-components=1) || return 1
    }
    printf '%s' "$folder/axe.min.js"
}

# In a network of its own: where links of other tests come and go, Chromium fails requests that are
# under way (ERR_NETWORK_CHANGED), and where a device gets an address.
axe=$(axe) || axe=
own_network "$@"

work=$(mktemp -d)
export WEFT WEFT_SOCKET=$work/node.sock WEFT_LOG=warn
node= controller= replaying=

# shellcheck disable=SC2329 # called by the trap
clean_up() {
    [ -z "$node" ] || kill "$node" 2>/dev/null
    [ -z "$node" ] || wait "$node" 2>/dev/null
    [ -z "$controller" ] || kill "$controller" 2>/dev/null
    [ -z "$replaying" ] || kill "$replaying" 2>/dev/null
    tmux -L "weft-$$" kill-server 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

# start_node PORT ARGUMENT...: at that port of the page, or one that the system chooses.
start_node() {
    rm -f "$work/node.out" # of the one before, whose words are not this one's
    "$WEFT" run page.yaml --http "127.0.0.1:$1" "${@:2}" --http-token-file "$work/token" \
        >"$work/node.out" 2>"$work/node.log" &
    node=$!
    wait_until 60 grep -qs 'is ready' "$work/node.out"
    url=$(sed -n 's/.*, page \(http[^ ]*\)$/\1/p' "$work/node.out")
    [ -n "$url" ] && return
    cat "$work/node.log"
    return 1
}

stop_node() {
    { kill "$node" && wait "$node"; } 2>/dev/null
    node=
}

# The port of the node's page.
port() {
    local port=${url##*:}
    printf '%s' "${port%/}"
}

printf '0123456789abcdef%s\n' "$RANDOM" >"$work/token"
replay ../golden/captures/ipv4-mix.pcap access 2000
if ! start_node 0; then
    fail "node starts" "$(cat "$work/node.log")"
    close_report
    exit
fi

# --- who may do what --------------------------------------------------------------

# status EXPECTED CURL-ARGUMENT...: what the page's server answers.
status() {
    local expected=$1 got
    shift
    got=$(curl -s -o "$work/answer" -w '%{http_code}' --max-time 20 "$@")
    [ "$got" = "$expected" ] && return
    echo "$got instead of $expected: $(head -c 300 "$work/answer")"
    return 1
}

move=(-H "Content-Type: application/json" -d '{"composition": "call"}' "${url}v1/functions/police")
check "reads need no token" status 200 "${url}v1/snapshot"
check "writes need the token" status 401 "${move[@]}"
check "the token is compared" status 401 -H "Authorization: Bearer wrong-wrong-wrong" "${move[@]}"
check "the token lets write" status 200 -H "Authorization: Bearer $(cat "$work/token")" "${move[@]}"
check "another page may not write" status 403 -H "Authorization: Bearer $(cat "$work/token")" \
    -H "Origin: http://evil.example" "${move[@]}"
check "a name that leads here is refused" status 421 -H "Host: evil.example" "${url}v1/snapshot"
check "packets need the token" status 401 -X POST -H "Content-Type: application/json" -d '{}' "${url}v1/trace"

only_this_server() {
    curl -s -D - -o /dev/null "$url" | grep -i '^content-security-policy:' | grep -q "default-src 'none'"
}
check "only files of this server are loaded" only_this_server

# --- the page ----------------------------------------------------------------------

# browse MODE ARGUMENT...: the checks of ../lib/page.py, as checks of this script.
browse() {
    local word rest
    while read -r word rest; do
        case $word in
            pass) pass "$rest" ;;
            fail) fail "${rest%%: *}" "${rest#*: }" ;;
            skip) skip "${rest%%: *}" "${rest#*: }" ;;
            stop) stop_node; touch "$work/stopped" ;;
            start) start_node "$(port)" >&2; touch "$work/started" ;;
            *) note "$word $rest" ;;
        esac
    done < <(python3 ../lib/page.py "$@" --work "$work" --artefacts "$artefacts" 2>"$work/page.err" || {
        printf 'fail the browser ends well: %s\n' "$(tail -n 3 "$work/page.err" | tr '\n' ' ')"
    })
}

browse node --url "$url" --token "$(cat "$work/token")" --axe "$axe"

# --- the model ---------------------------------------------------------------------

model() {
    curl -s "${url}v1/model" | tee "$work/model"
}

# What the model says is what a hand computes from its steps: capacity by cycles.
model_adds_up() {
    model | jq -e --argjson hz "$("$WEFT" show runtime --json | jq .tsc_hz)" '
        ([.steps[] | select(.core == "the worker'"'"'s core") | .cycles] | add) as $cycles
        | .carries > 0 and .seconds >= 1 and .size > 60 and (.changes | length) > 0
        and all(.changes[]; .couldCarry > 0)
        and (if .limit == "the worker'"'"'s core" then (.couldCarry * $cycles / $hz - 1 | fabs) < 0.001 else .couldCarry > 0 end)' >/dev/null && return
    cat "$work/model"
    return 1
}
predicts() { model | jq -e '.couldCarry != null'; }
try "the model has packets to predict from" wait_until 30 predicts
check "the model's limit is what its steps add up to" model_adds_up
"$WEFT" top --once >"$work/top" 2>&1
check "top says what the model says" grep -q '^model, by counted cycles: .* limit ' "$work/top"

# A calibration whose figures are chosen: the prediction is computed from them.
write_calibration() {
    cat >"$work/calibration.yaml" <<CALIBRATION
apiVersion: weft/v1
kind: Calibration
metadata: {name: chosen, machine: "a machine of a test", measured: "2026-01-01"}
frequency: $1
cpu: {receive: 20, node: 50, chain: 5, hop: 3, transmit: 25, thread: 30, machineCode: 4}
functions: {counter: 10, marker: 40}
fused: {counter: 5, marker: 20}
CALIBRATION
}
calibrated() {
    model | jq -e '.calibration.machine == "a machine of a test" and .calibration.otherMachine == '"$1"'
        and ([.steps[] | select(.what == "receive")][0] | .cycles == 20 and .calibrated)' >/dev/null && return
    cat "$work/model"
    return 1
}
frequency=$("$WEFT" show runtime --json | jq .tsc_hz)
stop_node
write_calibration "$frequency"
try "a node starts with a calibration" start_node 0 --calibration "$work/calibration.yaml"
check "costs of a calibration come first" wait_until 30 calibrated false
browse calibrated --url "$url" --axe "$axe"
stop_node
write_calibration $((frequency * 2))
try "a node starts with a calibration of another machine" start_node 0 --calibration "$work/calibration.yaml"
check "it is said to be of another machine" wait_until 30 calibrated true
stop_node
wrong_calibration() {
    local said
    sed -i 's/receive: 20/receive: -20/' "$work/calibration.yaml"
    said=$("$WEFT" run page.yaml --calibration "$work/calibration.yaml" 2>&1)
    [ $? -eq 2 ] && grep -q 'calibration.yaml:5:' <<<"$said" && return
    echo "$said"
    return 1
}
check "a calibration that is wrong is told with its place" wrong_calibration
try "a node starts again" start_node 0

# --- weft top ------------------------------------------------------------------------

session=(tmux -L "weft-$$" -f /dev/null)

screen() {
    "${session[@]}" capture-pane -p -t top
}

# shows TEXT: on the screen of weft top.
shows() {
    screen | grep -qF -- "$1"
}

# top_shows KEY TEXT...: after a key was pressed, all of them.
top_shows() {
    "${session[@]}" send-keys -t top "$1"
    shift
    local text
    for text in "$@"; do
        wait_until 20 shows "$text" || { echo "no '$text' in:"; screen; return 1; }
    done
}

"${session[@]}" new-session -d -s top -x 150 -y 45 "$WEFT top; sleep 60"
check "top shows the node" top_shows '' 'node page: up' 'cycles/packet: receive' '1 functions' 'police'
check "top shows users by rate" top_shows 2 'ue-' 'of sample'
check "top shows drops" top_shows 3 'marker_red' 'function police'
check "top explains its keys" top_shows '?' 'sort it by the next figure'
"${session[@]}" send-keys -t top '?'

gone_and_back() {
    local at
    at=$(port)
    stop_node
    wait_until 20 shows 'GONE' || { screen; return 1; }
    start_node "$at" || return 1
    wait_until 20 eval '! shows GONE' && wait_until 20 shows 'police'
}
try "top says that the node is gone, and goes on" gone_and_back
top_ends() {
    "${session[@]}" send-keys -t top q
    wait_until 10 eval '! shows "q end"'
}
check "top ends" top_ends

once() {
    local text
    text=$("$WEFT" top --once) || return 1
    grep -q '^node page: up' <<<"$text" && grep -q '^police ' <<<"$text" && return
    echo "$text"
    return 1
}
check "top --once prints for scripts" once

needs_a_terminal() {
    local said
    said=$("$WEFT" top 2>&1 >/dev/null)
    [ $? -eq 2 ] && grep -q 'needs a terminal' <<<"$said"
}
check "top without a terminal says what to do" needs_a_terminal

# --- the cost --------------------------------------------------------------------------

received() {
    "$WEFT" show ports --json | jq '[.ports[].rx_packets] | add'
}

# Packets that the node receives in two seconds.
received_in_two_seconds() {
    local before
    before=$(received)
    sleep 2
    echo $(($(received) - before))
}

# Requests as fast as sixteen clients ask: all are answered, and from one look a second. What
# the worker carries meanwhile is noted and not judged: others have its core, too.
flood() {
    local before during begin looks
    before=$(received_in_two_seconds)
    begin=$SECONDS
    ab -k -q -l -t 5 -n 10000000 -c 16 "${url}v1/snapshot" >"$work/ab" 2>&1 &
    during=$(received_in_two_seconds)
    looks=$(for _ in $(seq 40); do curl -s "${url}v1/snapshot" | jq .uptime; done | sort -u | wc -l)
    wait $!
    note "$(awk '/^Requests per second/ {print int($4)}' "$work/ab") requests a second; packets in 2 s: $before without, $during with them"
    if ! grep -q '^Failed requests: *0$' "$work/ab"; then
        cat "$work/ab"
        return 1
    fi
    [ "$looks" -le $((SECONDS - begin + 2)) ] && return
    echo "the agent was asked $looks times in $((SECONDS - begin)) s"
    return 1
}
check "a flood of requests asks the agent once a second" flood

stop_node

# --- the controller ----------------------------------------------------------------------

listen=127.0.0.1:$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed "s|@WORK@|$work|; s|@LISTEN@|$listen|" site.yaml >"$work/site.yaml"
"$WEFT" control "$work/site.yaml" --socket "$work/site.controller" --http 127.0.0.1:0 \
    --http-token-file "$work/token" >"$work/site.out" 2>"$work/site.log" &
controller=$!
wait_until 30 grep -qs 'is ready' "$work/site.out"
site=$(sed -n 's/.*, page \(http[^ ]*\)$/\1/p' "$work/site.out")
cat >"$work/station.yaml" <<NODE
apiVersion: weft/v1
kind: Node
metadata: {name: station-b}
ports:
  radio:
    device: net_af_packet1,iface=access
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    nextHopMac: 02:00:00:00:01:01
  core:
    device: "net_null1,no-rx=1"
    direction: downlink
    mac: 02:00:00:00:00:06
    addresses: [10.1.0.1/24]
    nextHopMac: 02:00:00:00:02:06
functions: {from-anchor: {function: gtpu-decapsulate}, to-anchor: {function: gtpu-encapsulate}}
users: [{name: ue, count: 20, match: {ipv4: 10.0.0.1}}]
handover: {node: 3, role: station, address: 10.1.0.1, tunnel: to-anchor, users: [{name: ue, first: 1}], peers: [{node: 1, address: 10.1.0.254}]}
rules: |
  from radio -> to-anchor
  from to-anchor -> core
  from core -> from-anchor
  from from-anchor -> radio
NODE
"$WEFT" run "$work/station.yaml" --handover-controller "$listen" --handover-listen 127.0.0.1:0 \
    --handover-token-file "$work/token" --handover-advertise 127.0.0.1:9475 --handover-capacity 2000000000 \
    >"$work/node.out" 2>"$work/node.log" &
node=$!
station_tells() {
    curl -s "${site}v1/nodes" | jq -e '.[] | select(.name == "station-b") | .capacity == 2000000000
        and .load.receivedPerSecond > 0 and .load.received >= .load.dropped and .load.busy >= 0 and .load.busy <= 1'
}
try "a node tells its controller what it carries" wait_until 60 station_tells
nodes_are_told() {
    "$WEFT" get nodes --controller "$work/site.controller" >"$work/nodes" || return 1
    cat "$work/nodes"
    grep -Eq '^station-b +connected .* 2000000000 +0 +[0-9,]+ +[0-9.]+ % +[0-9,]+ +[0-9.]+ %$' "$work/nodes" &&
        grep -Eq '^gateway +not connected .* - +0 +- +- +- +-$' "$work/nodes"
}
check "get nodes says what the page says" nodes_are_told
browse site --url "$site" --token "$(cat "$work/token")" --axe "$axe"
stop_node
close_report
