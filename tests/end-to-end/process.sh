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
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/isolated_node.sh
. ../lib/isolated_node.sh

KILLS=${KILLS:-10}
CASES="ipv4-mix ipv6-mix downlink-mix lookup workers filter counter-payload forward-swap
       bursts-single-rate bursts-two-rate fragments gtpu gtpu-relay nat route lwaftr esp"

# --- the same bytes -------------------------------------------------------------

# shellcheck disable=SC2086 # a list of words
same_bytes() {
    ../golden/run.py --composition process $CASES
}

# --- a node under load -----------------------------------------------------------

# resident: kilobytes of memory that the node has.
resident() {
    awk '/^VmRSS/ {print $2}' "/proc/$node/status"
}

# Milliseconds from a kill until the node has said that packets are under the function's
# policy, or that it has failed: the median and the worst, by the times of both.
until_policy() {
    python3 - "$work/kills" "$work/node.log" <<'PYTHON'
import datetime, statistics, sys

kills = [int(line) / 1e9 for line in open(sys.argv[1])]
words = "packets are under its policy", "the function has failed"
log = [line for line in open(sys.argv[2]) if any(said in line for said in words)]
said = [line.split()[0] for line in log]
failed = [datetime.datetime.fromisoformat(text).timestamp() for text in said]
delays = []
for kill in kills:
    later = [at for at in failed if at >= kill - 1e-4]
    if later:
        delays.append(max(0, later[0] - kill) * 1000)
print(f"{statistics.median(delays):.2f} {max(delays):.2f}")
PYTHON
}

kill_often() {
    local before after victim memory median worst
    until_is running || return 1
    before=$(ls "/proc/$node/fd" | wc -l)
    memory=$(resident)
    : >"$work/kills"
    for _ in $(seq "$KILLS"); do
        victim=$(pid_of_function)
        sleep "0.0$((RANDOM % 90 + 10))"
        date +%s%N >>"$work/kills"
        # On a busy machine it may have been taken for dead already: that is a failure, too.
        kill "-$1" "$victim" || echo "$victim had gone before"
        for _ in $(seq 1200); do
            [[ $(pid_and_state) =~ ^([0-9]+)\ running$ ]] && [ "${BASH_REMATCH[1]}" != "$victim" ] && break
            sleep 0.05
        done
    done
    until_is running || return 1
    after=$(ls "/proc/$node/fd" | wc -l)
    read -r median worst < <(until_policy)
    note "$KILLS times by $1: under its policy after $median ms (median), $worst ms (worst); memory $memory then $(resident) kB"
    [ "$(resident)" -le $((memory + 4096)) ] || return 1
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
    write_node "$policy, restart: {first: 1, longest: 10}"
    if try "a node with {$policy} starts" start_node; then
        try "FAULTS 53: functions are killed by $signal under load and come back ($policy)" \
            kill_often "$signal"
        try "the other chain loses nothing ($policy)" others_lose_nothing
        try "nothing is left behind ($policy)" adds_up
    fi
    reap
}

# --- moves ------------------------------------------------------------------------

# The process is the node's, and is there only while the function is.
moves_under_load() {
    write_node ""
    sed -i 's/composition: process, //' "$work/node.yaml"
    start_node || return 1
    for _ in $(seq 5); do
        for how in process fused process "thread --stage beside" process call; do
            # shellcheck disable=SC2086 # two words
            "$WEFT" ctl function away --composition $how || return 1
            sleep 0.05
            [ "$how" = process ] && { until_is running || return 1; }
        done
        until_is resting || return 1
    done
    others_lose_nothing || return 1
    [ "$(of_node '[.drops[].reason] - ["backpressure"] | length')" = 0 ] || { of_node .drops && return 1; }
    stop_node
}

refuses_to_move() {
    local said
    write_node ""
    start_node || return 1
    said=$("$WEFT" ctl function here --composition process 2>&1) && return 1
    grep -q 'write `process: {}` beside its `composition`' <<<"$said" || { echo "$said" && return 1; }
    stop_node
}

# --- a function that somebody else starts -----------------------------------------

# comes_to_it COUNT: more packets than these have come to the function, in a while.
comes_to_it() {
    local _
    for _ in $(seq 1200); do
        [ "$(of_node '.functions[0].packets')" -gt "$1" ] && return
        sleep 0.05
    done
    return 1
}

attached_elsewhere() {
    local first
    write_node "start: elsewhere, socket: $work/away.sock"
    start_node || return 1
    [ "$(state)" = absent ] || return 1
    "$WEFT" function counter --attach "$work/away.sock" 2>"$work/function.log" &
    function=$!
    until_is running || { cat "$work/function.log" && return 1; }
    first=$(of_node '.functions[0].packets')
    comes_to_it "$first" || return 1
    kill -KILL "$node"
    wait "$node" 2>/dev/null
    start_node || return 1
    until_is running || { cat "$work/function.log" && return 1; }
    first=$(of_node '.functions[0].packets')
    comes_to_it "$first" || return 1
    stop_node
    kill -TERM "$function"
    wait "$function"
    function=
}

# --- limits -----------------------------------------------------------------------

# Where cgroups v2 are, if they have controllers.
groups=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)

stands() {
    [ "$(cat "$groups$1/$2")" = "$3" ] || { echo "$2: $(cat "$groups$1/$2")" && return 1; }
}

is_limited() {
    local group
    write_node "limits: {megabytes: 512, cpu: 50, tasks: 32}"
    start_node && until_is running || return 1
    group=$(sed -n 's/^0:://p' "/proc/$(pid_of_function)/cgroup")
    [[ $group == */weft-$node-away ]] || { echo "it is in $group: $(cat "$work/node.log")" && return 1; }
    stands "$group" memory.max 536870912 && stands "$group" cpu.max "5000 10000" &&
        stands "$group" pids.max 32 || return 1
    stop_node || return 1
    [ ! -e "$groups$group" ] || { echo "left: $groups$group" && return 1; }
}

takes_too_much() {
    write_node "limits: {megabytes: 16}"
    start_node || return 1
    for _ in $(seq 1200); do
        grep -q 'more memory than `limits` allow' "$work/node.log" && break
        sleep 0.05
    done
    stop_node
    grep -q 'more memory than `limits` allow' "$work/node.log" || { cat "$work/node.log" && return 1; }
}

refuses() {
    local said
    said=$("$WEFT" function nothing --attach "$work/away.sock" 2>&1)
    [ $? -eq 2 ] && grep -q 'no function nothing' <<<"$said"
}

check "the same bytes and counters as when functions are called" same_bytes
start_traffic
# Fault 53: its function dies or hangs at random instants, under load.
under_failure KILL "onFailure: drop"
under_failure STOP "onFailure: bypass"
under_failure KILL "onFailure: hold, hold: 64"
try "a function goes into a process and comes back under load" moves_under_load
reap
try "a function without a process is not moved there, and it is said why" refuses_to_move
reap
try "a node that starts again finds its function again" attached_elsewhere
reap
if grep -qs 'cpu.*memory.*pids' "$groups/cgroup.controllers"; then
    try "a process is kept to its limits" is_limited
    reap
    try "a process that takes too much memory is ended, and it is said why" takes_too_much
    reap
else
    skip "a process is kept to its limits" "cgroups v2 have no controllers here"
fi
check "a function that there is none of" refuses
close_report
