# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of netns.sh and node.sh
# Processes that take the node of node.sh over from each other, and datagrams under which they
# do. To be sourced behind report.sh, netns.sh and node.sh.

upgrade=0

# begin_take_over PROGRAM: another process asks for the node; `started` is its id.
begin_take_over() {
    taking_log=$netns_work/node-$((++upgrade)).log
    start_in n "$taking_log" "$1" run --take-over "$netns_work/node.yaml"
    taking=$started
}

# has_taken_over BEFORE: it has the node, and the process before has ended; or it has ended itself.
has_taken_over() {
    is_gone "$taking" && return
    grep -qs '^node .* is ready' "$taking_log" && is_gone "$1"
}

# end_take_over BEFORE: `node` is the new process, which has nothing to complain of.
end_take_over() {
    if is_gone "$taking"; then
        cat "$taking_log" "$netns_work/node.log"
        return 1
    fi
    node=$taking
    cp "$taking_log" "$netns_work/node.log"
    grep -o 'milliseconds=[0-9.]*' "$taking_log" | cut -d= -f2 >>"$netns_work/waited"
    troubles && return 1
    return 0
}

# take_over PROGRAM: another process has the node, and the one before has ended.
take_over() {
    local before=$node
    begin_take_over "$1"
    wait_until 60 has_taken_over "$before"
    end_take_over "$before" && is_gone "$before" && return
    echo "the process before is still there"
    return 1
}

# start_datagrams SIDE ADDRESS SIDE ADDRESS: RATE datagrams a second each way, until they end.
start_datagrams() {
    rm -f "$netns_work/go"
    start_in "$3" "$netns_work/$3.log" ../lib/upgrade_traffic.py \
        "$4" 7000 "$2" 7000 "$RATE" "$netns_work/go"
    datagrams=("$started")
    start_in "$1" "$netns_work/$1.log" ../lib/upgrade_traffic.py \
        "$2" 7000 "$4" 7000 "$RATE" "$netns_work/go"
    datagrams+=("$started")
    wait_until 20 is_bound "$1"
    wait_until 20 is_bound "$3"
    touch "$netns_work/go"
}

is_bound() {
    in_ns "$1" ss -Hlun 'sport = :7000' | grep -q .
}

# end_datagrams: their last lines are in SIDE.log.
end_datagrams() {
    local one
    kill "${datagrams[@]}"
    for one in "${datagrams[@]}"; do
        wait_until 60 is_gone "$one"
    done
}

# nothing_is_lost SIDE SIDE: every datagram came once, and in order.
nothing_is_lost() {
    local side text
    for side in "$1" "$2"; do
        text=$(tail -n 1 "$netns_work/$side.log")
        note "at $side: $text"
        jq -e --argjson rate "$RATE" '.twice == 0 and .behind == 0 and .came > $rate' <<<"$text" >/dev/null ||
            return 1
    done
    [ "$(all_of sent)" -eq "$(all_of came)" ] || { echo "sent $(all_of sent), came $(all_of came)" && return 1; }
}

# all_of FIELD: of both hosts.
all_of() {
    tail -qn 1 "$netns_work/a.log" "$netns_work/b.log" | jq ".$1" | paste -sd+ | bc
}

# refused PATTERN COMMAND...: exit code 2 and one line that says so.
refused() {
    local pattern=$1 output status
    shift
    output=$(in_ns n "$@" 2>&1)
    status=$?
    [ "$status" -eq 2 ] && [ "$(wc -l <<<"$output")" -eq 1 ] && grep -q "$pattern" <<<"$output" && return
    echo "exit code $status: $output"
    return 1
}

# with_file SED PATTERN: a process with a configuration that was changed so is refused.
with_file() {
    sed "$1" "$netns_work/node.yaml" >"$netns_work/changed.yaml"
    refused "$2" "$WEFT" run --take-over "$netns_work/changed.yaml"
}

# killed_behind SECONDS...: a process that takes the node over is killed so long behind its start, and
# the node goes on in the one before.
killed_behind() {
    local delay
    for delay in "$@"; do
        start_in n "$netns_work/killed.log" "$WEFT" run --take-over "$netns_work/node.yaml"
        sleep "$delay"
        # Past this line it has the node.
        grep -qs 'was taken over' "$netns_work/killed.log" && { node=$started && return; }
        stop "$started" KILL
        is_gone "$node" && { echo "killed after $delay s, and the node with it" && return 1; }
    done
    return 0
}
