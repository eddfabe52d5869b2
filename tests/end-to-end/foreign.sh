#!/usr/bin/env bash
# shellcheck disable=SC2016 # programs of jq
# Functions in processes that Weft did not make: dpdk-testpmd as it is, one in Python, and
# one that does all that a node must survive (FAULTS 54).
#
#   foreign.sh                         seeds 1 and 2
#   SEEDS="$(seq 100)" foreign.sh      others
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/isolated_node.sh
. ../lib/isolated_node.sh

SEEDS=${SEEDS:-1 2}
ring=$work/away.sock

handled() {
    of_node '.functions[] | select(.name == "away") | .packets'
}

# handles COUNT: more packets than before, within 60 s.
handles() {
    local first
    first=$(handled)
    for _ in $(seq 1200); do
        [ "$(handled)" -lt $((first + $1)) ] || return 0
        sleep 0.05
    done
    echo "handled $first packets, then $(handled)"
    of_node '.functions[] | select(.name == "away")'
    return 1
}

no_strays() {
    [ "$(of_node '.functions[] | select(.name == "away") | .process.strays')" = 0 ]
}

end_function() {
    kill -TERM "$function" && wait "$function"
    function=
    true
} 2>/dev/null

# --- dpdk-testpmd ----------------------------------------------------------------

# Before it forwards it throws away what lies in its ring: the node gives that up. It ends
# with its input, which has no end.
start_testpmd() {
    mkfifo "$work/endless" && exec {endless}<>"$work/endless"
    dpdk-testpmd --no-huge --no-shconf -m 128 --no-pci --lcores '(0-1)@(0-1)' \
        --vdev "net_virtio_user0,path=$ring,queues=1,queue_size=256" -- \
        --forward-mode=macswap --total-num-mbufs=2048 --no-mlockall \
        <&"$endless" >"$work/testpmd.log" 2>&1 &
    function=$!
}

# --- Python ----------------------------------------------------------------------

start_python() {
    ../../examples/function.py "$ring" --dscp 46 >"$work/function.log" 2>&1 &
    function=$!
}

# marked FILE USER: how many of the user's packets left with DSCP 46 and a sound checksum.
marked() {
    tshark -n -o ip.check_checksum:TRUE -r "$1" \
        -Y "ip.src == 10.0.0.$2 && ip.dsfield.dscp == 46 && ip.checksum.status == 1" 2>/dev/null | wc -l
}

# What waits for the function from the start on is handled as it comes.
bytes_are_changed() {
    write_node "start: elsewhere, socket: $ring, onFailure: hold, hold: 64" pass "net_pcap0,rx_pcap=$work/load.pcap" \
        "net_pcap1,tx_pcap=$work/left.pcap,rx_pcap=$work/nothing.pcap"
    head -c 24 "$work/load.pcap" >"$work/nothing.pcap"
    start_node || return 1
    start_python
    until_is running || { cat "$work/function.log" && return 1; }
    all_left() { [ "$(of_node '[.ports[].tx_packets] | add')" = 32 ]; }
    for _ in $(seq 1200); do
        all_left && break
        sleep 0.05
    done
    stop_node || return 1
    end_function
    echo "of user 1 $(marked "$work/left.pcap" 1) are marked, of user 2 $(marked "$work/left.pcap" 2)"
    [ "$(marked "$work/left.pcap" 1)" = 16 ] && [ "$(marked "$work/left.pcap" 2)" = 0 ]
}

# --- FAULTS 54 -------------------------------------------------------------------

attacks() {
    python3 ../lib/hostile_function.py "$ring" "$1" || { tail -n 5 "$work/node.log" && return 1; }
    kill -0 "$node"
}

start_traffic
# On a machine that is busy frames are late, and strangers once they are given up.
write_node "start: elsewhere, tags: none, socket: $ring, heartbeat: 2000" pass
if try "a node waits for a function that knows only plain frames" start_node; then
    start_testpmd
    try "dpdk-testpmd attaches" until_is running
    try "dpdk-testpmd handles packets" handles 10000
    try "none of them is a stranger's" no_strays
    end_function
    try "the other chain loses nothing" others_lose_nothing
    try "the node stops" stop_node
fi
reap

try "a function in Python changes packets, and only its own" bytes_are_changed
reap

write_node "start: elsewhere, socket: $ring" pass
if try "a node waits for a function in Python" start_node; then
    for seed in $SEEDS; do
        try "fault 54: attacks with seed $seed leave the node at work" attacks "$seed"
    done
    start_python
    try "an honest function follows" until_is running
    try "it handles packets" handles 1000
    end_function
    try "the other chain has lost nothing" others_lose_nothing function_malformed burst_full rule
    try "the node stops as ever" stop_node
fi
reap
close_report
