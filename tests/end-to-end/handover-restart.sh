#!/usr/bin/env bash
# Stations that keep their state are killed (SIGKILL) and start again: users that the controller
# gives back go on with the counters of their last checkpoint, no packet comes or is counted twice,
# and the counters go along when users move. A store from before users have moved is not gone on with.
# A gateway that is killed goes on by the ways that it has kept while its controller says nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/handover_site.sh
. ../lib/handover_site.sh

begin_site "$@"
users=5 rate=300
traffic=$(cd ../lib && pwd)/handover_traffic.py

all_are_there() {
    lay_out && write_files 200 2000 && write_commands &&
        in_ns srv ip neighbour replace 198.51.100.254 dev eth0 lladdr 02:00:00:00:12:01 nud permanent &&
        start_keeping site && start_keeping gateway && start_keeping station-a && start_keeping station-b &&
        wait_until 60 settled station-a
}

# start_keeping NAME: starts a process that is to be killed later on.
start_keeping() {
    : >"$work/$1.out"
    sh "$work/$1.start" >"$work/$1.out" 2>>"$work/$1.log" &
    echo "$!" >"$work/$1.pid"
    wait_until 60 grep -q ' is ready' "$work/$1.out" || { tail -5 "$work/$1.log"; return 1; }
}

# killed NAME
killed() {
    local pid
    pid=$(cat "$work/$1.pid")
    kill -KILL "$pid"
    # One that another shell has started is waited for until it is gone.
    wait "$pid" 2>/dev/null
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
}

# packets STATION: what its functions have counted of all users, both ways.
packets() {
    local user sum=0 count
    for user in $(seq 0 $((users - 1))); do
        count=$(WEFT_SOCKET=$work/weft/$1.sock "$WEFT" show users "ue-$user" |
            awk '$1 == "count" && $2 == "packets" { print $3 }')
        sum=$((sum + ${count:-0}))
    done
    echo "$sum"
}

# of STATION NAME: what the station has counted under this name.
of() {
    curl -sS --max-time 5 --unix-socket "$work/weft/$1.sock" http://weft/v1/snapshot |
        grep -o "\"$2\":[0-9]*" | head -1 | grep -o '[0-9]*$'
}

# all_go_on STATION: with contexts of the last life, as the station says.
all_go_on() {
    [ "$(of "$1" context_kept)" -eq "$users" ]
}

# is_kept STATION TIME: all contexts of that time and before are on the disk.
is_kept() {
    local state
    state=$(curl -sS --max-time 5 --unix-socket "$work/weft/$1.sock" http://weft/v1/state) || return 1
    jq -e --argjson since "$2" --argjson now "$EPOCHREALTIME" \
        '.behind == 0 and ($now - .checkpointAge / 1e9) > $since' <<<"$state" >/dev/null
}

kept() {
    wait_until 60 is_kept "$1" "$EPOCHREALTIME" || { echo "$1 keeps nothing"; return 1; }
}

# flows [SECONDS]: traffic of all users for so long; each packet comes once and in order.
flows() {
    local sender
    rm -f "$work/stop"
    "$traffic" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep "${1:-1}"
    touch "$work/stop"
    wait "$sender" || { cat "$work/traffic"; return 1; }
    sent=$((sent + $(jq .sent "$work/traffic")))
}

# counts STATION PACKETS
counts() {
    local count
    count=$(packets "$1")
    [ "$count" -eq "$2" ] || { echo "$1 has counted $count packets of $2"; return 1; }
}

# comes_back STATION: with exactly what it had kept.
comes_back() {
    local before
    before=$(packets "$1")
    kept "$1" && killed "$1" && start_keeping "$1" || return 1
    wait_until 60 all_go_on "$1" || { echo "$(of "$1" context_kept) users go on"; return 1; }
    wait_until 60 settled "$1" && counts "$1" "$before"
}

a_killed_station_goes_on() {
    sent=0
    flows && counts station-a $((2 * sent)) && comes_back station-a &&
        flows && counts station-a $((2 * sent)) && comes_back station-a
}

# The last life had them from a source, the next from a life before.
counters_go_along() {
    sent=$(($(packets station-a) / 2))
    move station-b --all-from station-a && wait_until 60 settled station-b &&
        counts station-b $((2 * sent)) && flows && counts station-b $((2 * sent)) &&
        comes_back station-b && flows && counts station-b $((2 * sent)) &&
        move station-a --all-from station-b && wait_until 60 settled station-a &&
        counts station-a $((2 * sent))
}

# Usage since the checkpoint is missing, and none is counted twice.
under_traffic() {
    local sender before after
    rm -f "$work/stop"
    before=$(packets station-a)
    "$traffic" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep 1
    killed station-a
    start_keeping station-a && wait_until 60 all_go_on station-a && wait_until 60 settled station-a || return 1
    sleep 1
    touch "$work/stop"
    # Packets are lost while the station is dead.
    wait "$sender"
    cat "$work/traffic"
    jq -e '.ue.doubled == 0 and .server.doubled == 0' "$work/traffic" >/dev/null || return 1
    after=$(packets station-a)
    sent=$(jq .sent "$work/traffic")
    echo "$before packets, then $after, and $sent were sent meanwhile"
    [ "$after" -gt "$before" ] && [ "$after" -le $((before + 2 * sent)) ]
}

# gateway_is_back: with its ways, whatever the controller does.
gateway_is_back() {
    kept gateway && killed gateway && start_keeping gateway
}

# The controller stands still meanwhile: what the gateway knows, its last life has kept.
a_killed_gateway_goes_on() {
    local site status
    site=$(cat "$work/site.pid")
    kill -STOP "$site"
    gateway_is_back && flows
    status=$?
    kill -CONT "$site"
    [ "$status" -eq 0 ] || return 1
    # By ways that users have gone since, too.
    move station-b --all-from station-a && wait_until 60 settled station-b && flows || return 1
    kill -STOP "$site"
    gateway_is_back && flows
    status=$?
    kill -CONT "$site"
    [ "$status" -eq 0 ] && wait_until 60 settled station-b &&
        move station-a --all-from station-b && wait_until 60 settled station-a && flows
}

# gone NAME SUCCESSOR
gone() {
    "$WEFT" ctl gone "$1" --successor "$2" --controller site >>"$work/orders" 2>&1 || { tail -1 "$work/orders"; return 1; }
}

# The users go to a successor, and come back by its end to a station that has records of them from
# before.
old_records_are_not_gone_on_with() {
    kept station-a && killed station-a && gone station-a station-b && wait_until 60 settled station-b || return 1
    counts station-b 0 || return 1
    start_keeping station-a && killed station-b && gone station-b station-a && wait_until 60 settled station-a || return 1
    counts station-a 0 || return 1
    [ "$(of station-a context_kept)" -eq 0 ] || { echo "$(of station-a context_kept) users are kept"; return 1; }
    [ "$(of station-a context_lost)" -eq "$users" ] || { echo "$(of station-a context_lost) users were lost"; return 1; }
    sent=0
    flows && counts station-a $((2 * sent))
}

# refuses PATTERN: station-b does not start, in one line that says why.
refuses() {
    local output status
    output=$(timeout 60 sh "$work/station-b.start" 2>&1)
    status=$?
    [ "$status" -eq 2 ] && [ "$(wc -l <<<"$output")" -eq 1 ] && grep -q "$1" <<<"$output" && return
    echo "exit code $status: $output"
    return 1
}

a_store_of_another_station_is_refused() {
    rm -rf "$work/state-station-b"
    cp -r "$work/state-station-a" "$work/state-station-b"
    refuses 'it is that of node station-a, not of node station-b'
}

try 'a gateway, two stations that keep their state, and a controller' all_are_there &&
    try 'a station that is killed goes on with the counters of its users' a_killed_station_goes_on &&
    try 'they go along to another station, which is killed' counters_go_along &&
    try 'under traffic no packet comes twice or is counted twice' under_traffic &&
    try 'a gateway that is killed goes on before its controller is heard' a_killed_gateway_goes_on &&
    try 'records of users that have been elsewhere since are not gone on with' old_records_are_not_gone_on_with &&
    try 'a store of another station is refused' a_store_of_another_station_is_refused
close_report
