#!/usr/bin/env bash
# shellcheck disable=SC2016 # programs of jq
# A function behind software VF: a switch in a process of its own stands in for that of a
# NIC. Its packets go there and back, others lose nothing when the switch dies, and nothing
# is left behind.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/isolated_node.sh
. ../lib/isolated_node.sh

# write_software [START]: the function `away` of write_node, behind a switch.
write_software() {
    write_node ''
    python3 - "$work" "${1:-node}" <<'PY'
import sys
work, start = sys.argv[1:]
path = f"{work}/node.yaml"
text = open(path).read()
text = text.replace("ports:\n", f"""nics:
  soft:
    software: {{sockets: {work}/soft, polling: adaptive, start: {start}}}
    virtualFunctions:
      fabric: {{mac: 02:00:00:00:01:00, rate: 10000}}
      away: {{mac: 02:00:00:00:01:01, rate: 2000}}
ports:
  fabric: {{device: "vf:fabric", direction: uplink, mtu: 1700}}
""", 1)
text = text.replace("composition: process, process: {}",
    "composition: vf, vf: {port: fabric, device: 'vf:away'}, process: {heartbeat: 2000}")
text += "  from fabric -> drop\n"
open(path, "w").write(text)
PY
}

switch() {
    pgrep -f "vf switch $work/node.yaml"
}

# The function handles packets, and no more of them than its share and its burst allow.
handles_its_share() {
    local begun before after milliseconds
    begun=$(date +%s%3N)
    before=$(of_node '.functions[] | select(.name == "away") | .packets')
    sleep 1
    after=$(of_node '.functions[] | select(.name == "away") | .packets')
    milliseconds=$(($(date +%s%3N) - begun))
    note "$((after - before)) packets in $milliseconds ms, of 2000 a second"
    [ "$after" -gt "$before" ] && [ "$((after - before))" -le "$((22 * milliseconds / 10 + 1000))" ]
}

starts() {
    write_software && start_node && until_is running
}

# Its process tells what its own device has counted.
counts_its_own() {
    local device='.functions[] | select(.name == "away") | .process.port'
    for _ in $(seq 600); do
        [ "$(of_node "$device | .rxPackets // 0")" -gt 0 ] && break
        sleep 0.1
    done
    of_node "$device"
    [ "$(of_node "$device | .rxPackets")" -gt 0 ] && [ "$(of_node "$device | .txPackets")" -gt 0 ]
}

says_what_it_is() {
    "$WEFT" vf show "$work/node.yaml" >"$work/shown" && cat "$work/shown"
    grep -qE '^soft +away +software VF +02:00:00:00:01:01 +attached +2000 ' "$work/shown" &&
        "$WEFT" vf plan "$work/node.yaml" | grep -qx '# soft: software VF, which the node starts'
}

dies() {
    local process
    process=$(switch)
    kill -KILL "$process"
    for _ in $(seq 1200); do
        grep -q 'software VF soft ended' "$work/node.log" && break
        sleep 0.05
    done
    grep 'software VF soft ended' "$work/node.log" && sleep 1 && others_lose_nothing port_full
}

nothing_is_left() {
    stop_node || { tail -n 3 "$work/node.log" && return 1; }
    ! switch || return 1
    # A switch that was killed leaves its sockets, which the next one removes.
    rm -rf "$work/soft"
}

one_of_its_own() {
    write_software elsewhere
    # Without it the node says what is missing.
    if start_node; then return 1; fi
    "$WEFT" vf switch "$work/node.yaml" >"$work/switch.out" 2>&1 &
    function=$!
    for _ in $(seq 600); do
        grep -q 'software VF soft is ready' "$work/switch.out" && break
        sleep 0.1
    done
    start_node && until_is running && handles_its_share && stop_node || return 1
    # The next node has the same switch.
    start_node && until_is running && handles_its_share && stop_node || return 1
    kill -TERM "$function" && wait "$function" && function=
    [ -z "$(ls -A "$work/soft")" ]
}

start_traffic
if try "a node starts the switch that it needs" starts; then
    try "packets go there and back, within the share" handles_its_share
    try "others lose nothing meanwhile" others_lose_nothing
    try "what its own device counts is shown" counts_its_own
    try "it is shown for what it is" says_what_it_is
    try "others lose nothing when the switch dies" dies
    try "nothing is left of it" nothing_is_left
fi
reap
try "a switch that somebody else starts serves one node after the other" one_of_its_own
reap
close_report
