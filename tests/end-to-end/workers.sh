#!/usr/bin/env bash
# Workers are parked at threads of others, and have their own again, while datagrams of 24 users
# pass in both directions: none is lost, doubled or out of order, packets come to the workers of
# their users as before, and threads without workers use no processor.
#
#   CHANGES=200 RATE=10000 workers.sh    that many times, under so many datagrams a second
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

CHANGES=${CHANGES:-20}
RATE=${RATE:-1500}
readonly USERS=24 WORKERS=4

gain_privileges "$@"
need_locked_memory
start_namespaces
build_hosts
users=()
for user in $(seq 1 $USERS); do
    [ "$user" -le 2 ] || add_user "$user"
    users+=("10.0.0.$user")
done

cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: router}
workers: {count: $WORKERS}
ports:
  access: {device: "net_af_packet0,iface=$PORT_ACCESS", direction: uplink, queues: $WORKERS, addresses: [$GATEWAY_A4/24]}
  core: {device: "net_af_packet1,iface=$PORT_CORE", direction: downlink, queues: $WORKERS, addresses: [$GATEWAY_B4/24]}
functions:
  count: {function: counter}
users:
  - {name: ue, count: $USERS, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> count
  from core -> count
  from count when direction == downlink -> access
  from count -> core
END

start_flows() {
    rm -f "$netns_work/go"
    start_in b "$netns_work/b.log" ../lib/flow_traffic.py \
        "$ADDRESS_B4" 7000 "${users[@]}" 7000 "$RATE" "$netns_work/go"
    # For `end_datagrams`.
    datagrams=("$started")
    start_in a "$netns_work/a.log" ../lib/flow_traffic.py \
        "${users[@]}" 7000 "$ADDRESS_B4" 7000 "$RATE" "$netns_work/go"
    datagrams+=("$started")
    wait_until 20 is_bound a
    wait_until 20 is_bound b
    touch "$netns_work/go"
}

# by_worker: packets that each worker has received from both ports.
by_worker() {
    of_node '[.workers[].packets] | @tsv'
}

# All workers receive, each from its own queues, whatever thread runs it.
all_receive() {
    local before after
    before=$(by_worker)
    sleep 0.5
    after=$(by_worker)
    note "by worker, in half a second: $(paste <(tr '\t' '\n' <<<"$before") <(tr '\t' '\n' <<<"$after") |
        awk '{ print $2 - $1 }' | paste -sd' ')"
    paste <(tr '\t' '\n' <<<"$before") <(tr '\t' '\n' <<<"$after") |
        awk '$2 <= $1 { idle = 1 } END { exit idle || NR != '$WORKERS' }'
}

# workers NUMBER: so many have threads of their own.
workers() {
    local said
    said=$("$WEFT" ctl workers "$1") || return
    grep -q "^$1 of $WORKERS workers have threads of their own" <<<"$said" &&
        ! grep -q 'on their way' <<<"$said" && return
    echo "$said"
    return 1
}

they_are_parked() {
    local number
    # Each number behind each other one.
    for number in $(seq "$CHANGES"); do
        workers $(((number * 3 + number / 4) % WORKERS + 1)) || return
    done
    workers 1 && all_receive || return
    [ "$(of_node '[.workers[].thread] | unique | @csv')" = 0 ] || return
    says '^1, parked at 0 ' "$WEFT" show runtime
}

# ticks THREAD: processor time that the thread of that number has used, in ticks.
ticks() {
    local task
    for task in "/proc/$node/task"/*; do
        [ "$(cat "$task/comm")" = "worker-$1" ] && sed 's/.*) //' "$task/stat" | awk '{ print $12 + $13 }' && return
    done
}

# Of what thread 0 uses, the others use less than a twentieth.
others_are_idle() {
    local thread before=() used=()
    for thread in 0 1 2 3; do before+=("$(ticks $thread)"); done
    sleep 2
    for thread in 0 1 2 3; do used+=($(($(ticks $thread) - before[thread]))); done
    note "ticks of the threads in two seconds: ${used[*]}"
    [ "${used[0]}" -gt 0 ] && [ $(((used[1] + used[2] + used[3]) * 20)) -lt "${used[0]}" ]
}

wrong_numbers() {
    says 'from 1 to 4 can have threads, not 5' "$WEFT" ctl workers 5 || return
    says 'from 1 to 4 can have threads, not 0' "$WEFT" ctl workers 0
}

# Another process has the node while workers are parked.
taken_over_parked() {
    : >"$netns_work/waited"
    workers 2 && take_over "$WEFT" && all_receive && workers 3 && workers 4
}

no_loss() {
    end_datagrams
    nothing_is_lost a b || return
    local side
    for side in a b; do
        jq -e '.idle == 0' <(tail -n 1 "$netns_work/$side.log") >/dev/null || return
    done
    of_node '.ports[] | "\(.name) \(.misdirected) of \(.rx_packets)"' |
        awk '{ print } $2 * 100 >= $4 { wrong = 1 } END { exit wrong || NR != 2 }'
}

if try "a node with four workers starts" start_node; then
    in_ns a ping -qc1 -W2 "$ADDRESS_B4" >/dev/null
    start_flows
    check "workers are parked and go on, $CHANGES times" they_are_parked
    check "threads without workers use no processor" others_are_idle
    check "a number that cannot be is refused" wrong_numbers
    check "a process takes over a node whose workers are parked" taken_over_parked
    check "no datagram is lost, doubled or out of order" no_loss
    stop_node INT
fi
close_report
