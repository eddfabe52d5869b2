#!/usr/bin/env bash
# Mixed traffic, faults of senders and an operator at work: a node's memory stays
# as it is, and every packet buffer comes back.
#
#   memory.sh                    20 s of it, and up to 30 s more if a peak is late
#   SECONDS_LONG=600 memory.sh   that long instead
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

# One heap for all threads. With one for each, the C library keeps what a thread
# has freed for that thread, and the growth would be its own.
export MALLOC_ARENA_MAX=1

LENGTH=${1:-${SECONDS_LONG:-20}}
GROWTH=2048 # kilobytes that a stretch may add to the most before it
STRETCHES=4 # in which a leak shows each time, and a peak that was late to come once
STRANGER=10.0.0.77 NOBODY=198.51.100.99

gain_privileges "$LENGTH" # the environment may not come along
need_locked_memory

# --- the mix: each part goes on until the file is gone ---------------------------

mixing() {
    [ -e "$netns_work/mixing" ]
}

datagrams() {
    while mixing; do
        in_ns a timeout 20 iperf3 -c "$SERVICE_A4" -p 5201 -u -b 20M -l 900 -t 2 &
        in_ns a timeout 20 iperf3 -c "$SERVICE_A4" -p 5202 -u -b 30M -l 1300 -t 2 -B "$POLICED_A4"
        wait $!
    done
}

files() {
    while mixing; do
        in_ns a curl -s --max-time 10 -o /dev/null "http://$SERVICE_A4:8080/file"
        in_ns a curl -s --max-time 10 -o /dev/null "http://[$SERVICE_A6]:8080/file"
        sleep 0.2
    done
}

echoes() {
    while mixing; do
        in_ns a ping -q -c 100 -i 0.005 -W 1 -s 1300 "$SERVICE_A6"
        in_ns b ping -q -c 100 -i 0.005 -W 1 "$ADDRESS_A4"
        in_ns a ping -q -c 20 -i 0.01 -W 1 -M dont -s 1472 "$SERVICE_A4" # fragments
        in_ns a ping -q -c 20 -i 0.01 -W 1 "$GATEWAY_A6"
    done
}

# What has to be answered, dropped or asked for.
mishaps() {
    while mixing; do
        in_ns a ping -q -c 20 -i 0.01 -W 1 -t 1 "$ADDRESS_B4"
        in_ns a ping -q -c 20 -i 0.01 -W 1 -t 1 "$ADDRESS_B6"
        in_ns a ping -q -c 20 -i 0.01 -W 1 -M probe -s 1472 "$ADDRESS_B4" # too big
        in_ns a ping -q -c 20 -i 0.01 -W 1 -I "$STRANGER" "$ADDRESS_B4"
        in_ns a ping -q -c 5 -i 0.2 -W 1 "$NOBODY" # no neighbour
        in_ns b ip neigh flush dev eth0
    done
}

# Somebody looks, and changes rates, functions and users.
operator() {
    while mixing; do
        for what in runtime users paths drops ports; do
            "$WEFT" show "$what"
        done
        "$WEFT" show users free
        "$WEFT" ctl apply "$netns_work/other.yaml"
        sleep 0.5
        "$WEFT" ctl apply "$netns_work/node.yaml"
        timeout 5 "$WEFT" trace --count 20
        timeout 5 "$WEFT" capture --count 1000 --write "$netns_work/capture.pcapng"
        sleep 0.5
    done
}

# mix SECONDS: all of it for that long, then rest.
mix() {
    local part parts=()
    touch "$netns_work/mixing"
    for part in datagrams files echoes mishaps operator; do
        $part &>"$netns_work/$part.log" &
        parts+=($!)
    done
    observe "$1"
    rm "$netns_work/mixing"
    wait "${parts[@]}"
    settled rest
}

# observe SECONDS: watches the memory meanwhile.
observe() {
    local end=$((SECONDS + $1))
    while [ "$SECONDS" -lt "$end" ]; do
        sleep 1
        resident >>"$netns_work/resident"
    done
}

# --- what it comes to -------------------------------------------------------------

# Everything that was meant to happen did.
mixed() {
    local what
    for what in drop.{marker_red,ttl_exceeded,unknown_user,neighbour_unreachable} \
        fragments function.service.packets originated; do
        [ "$(since start rest "$what")" -gt 0 ] || { echo "no $what"; return 1; }
    done
    grep -q '^applied' "$netns_work/operator.log" && grep -q '^packet 20 ' "$netns_work/operator.log" &&
        [ -s "$netns_work/capture.pcapng" ] && return
    cat "$netns_work/operator.log"
    return 1
}

most_resident() {
    sort -n "$netns_work/resident" | tail -n 1
}

# How high the heap reaches follows from how much happens at one time: what was the most
# so far is what the next stretch must keep to.
flat() {
    local before most stretch
    most=$(most_resident)
    for stretch in $(seq "$STRETCHES"); do
        before=$most
        mix $((LENGTH - LENGTH / 2))
        most=$(most_resident)
        note "resident: $before kB at most before stretch $stretch, $most kB in it, $(resident) kB at its end"
        [ $((most - before)) -ge "$GROWTH" ] || return 0
    done
    return 1
}

# Some wait with their packets for a neighbour that does not answer, for a while.
every_buffer() {
    wait_until 20 buffers_are_free || buffers_are_free
}

buffers_are_free() {
    equal "free buffers" "$buffers" "$(of_node .buffers.available)"
}

start_namespaces
build_hosts
in_ns a ip address add "$STRANGER/32" dev eth0
head -c 500000 /dev/urandom >"$netns_work/file"
start_server b 8080 python3 -m http.server --bind :: --directory "$netns_work" 8080
start_server b 5201 iperf3 --server --bind "$SERVICE_B4"
start_server b 5202 iperf3 --server --port 5202 --bind "$SERVICE_B4"
write_node "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
sed 's/20 Mbit/10 Mbit/; s/chain full = count -> police/chain full = police/;
    s/^users:/&\n  - {name: more, count: 200, match: {ipv4: 10.7.0.1}, chain: full}/' \
    "$netns_work/node.yaml" >"$netns_work/other.yaml"
if ! start_node "$netns_work/node.yaml"; then
    fail "node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
buffers=$(of_node .buffers.available)
settled start
mix $((LENGTH / 2))
check "memory stays as it is" flat
check "everything was in the mix" mixed
check "every buffer comes back" every_buffer
stop_node TERM
check "node stops" equal "exit code" 0 "$node_status"
close_report
