#!/usr/bin/env bash
# Users move between two base stations behind a gateway with their traffic: four processes
# in network namespaces of their own on veth, a user that reflects each packet to the
# station that it received it from, and a server. Each packet arrives once and in order.
#
#     SECONDS_LONG=300 handover-traffic.sh     moves for so many seconds instead of a few
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh

gain_privileges "$@"
start_namespaces
work=$netns_work
export XDG_RUNTIME_DIR=$work
users=20 rate=400 long=${SECONDS_LONG:-4}
traffic=$(cd ../lib && pwd)/handover_traffic.py

# bridge NAME: a switch in the namespace `net`.
bridge() {
    in_ns net ip link add "$1" type bridge
    in_ns net ip link set "$1" up
}

# attach SIDE DEVICE BRIDGE NUMBER [ADDRESS]: a link to a switch.
attach() {
    make_link "$1" "$2" "02:00:00:00:0$4:01" net "$3-$1" "02:00:00:00:0$4:02" 1600
    in_ns net ip link set "$3-$1" master "$3"
    [ -z "${5:-}" ] || in_ns "$1" ip address add "$5/24" dev "$2"
}

lay_out() {
    local side
    for side in gw sa sb ctl ue srv net; do
        make_namespace "$side"
        in_ns "$side" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    done
    bridge ran
    bridge oam
    attach gw ran ran 1
    attach sa ran ran 2
    attach sb ran ran 3
    attach gw oam oam 4 192.0.2.2
    attach sa oam oam 5 192.0.2.3
    attach sb oam oam 6 192.0.2.4
    attach ctl oam oam 7 192.0.2.1
    make_link sa radio 02:00:00:00:10:01 ue ra 02:00:00:00:10:02 1500
    make_link sb radio 02:00:00:00:11:01 ue rb 02:00:00:00:11:02 1500
    make_link gw core 02:00:00:00:12:01 srv eth0 02:00:00:00:12:02 1500
    in_ns srv ip address add 198.51.100.1/24 dev eth0
    in_ns srv ip route add 10.45.0.0/16 via 198.51.100.254
}

write_files() {
    printf 'nodes-know-this-token' >"$work/node-token"
    printf 'clients-know-this-token' >"$work/api-token"
    sed -e 's/^listen: .*/listen: 192.0.2.1:9471/' -e 's/:9472/:0/' -e "s/count: 10000/count: $users/" \
        -e 's/127.0.0.1:9473/192.0.2.2:9473/' -e 's/127.0.0.1:9474/192.0.2.3:9473/' \
        -e 's/127.0.0.1:9475/192.0.2.4:9473/' ../../examples/controller.yaml >"$work/site.yaml"
    cp ../../examples/handover-anchor.yaml "$work/gateway.yaml"
    sed -e 's/station-2/station-a/' -e 's/^  gates:/  radio: uplink\n  gates:/' \
        ../../examples/handover-station.yaml >"$work/station-a.yaml"
    sed -e 's/station-a/station-b/' -e 's/^  node: 2/  node: 3/' \
        -e 's/{node: 3, address: 10.1.0.2}/{node: 2, address: 10.1.0.1}/' -e 's/10.1.0.1\/24/10.1.0.2\/24/' \
        -e 's/^  address: 10.1.0.1/  address: 10.1.0.2/' "$work/station-a.yaml" >"$work/station-b.yaml"
}

# launch SIDE NAME COMMAND...: starts a process, and waits until it says that it is ready.
launch() {
    local side=$1 name=$2
    shift 2
    ip netns exec "$(ns "$side")" "$@" >"$work/$name.out" 2>"$work/$name.log" &
    wait_until 60 grep -q ' is ready' "$work/$name.out" || { cat "$work/$name.log"; return 1; }
}

# node SIDE NAME ADDRESS
node() {
    launch "$1" "$2" "$WEFT" run "$work/$2.yaml" --polling adaptive --handover-controller 192.0.2.1:9471 \
        --handover-listen "$3:9473" --handover-token-file "$work/node-token"
}

# settled STATION: all users are there, and nobody moves.
settled() {
    curl -sS --max-time 5 --unix-socket "$work/weft/site.controller" http://weft/v1/nodes >"$work/nodes" &&
        grep -q "\"name\":\"$1\"[^}]*\"users\":$users,\"moving\":0" "$work/nodes" &&
        ! grep -q '"moving":[1-9]' "$work/nodes"
}

all_are_there() {
    lay_out && write_files && launch ctl site "$WEFT" control "$work/site.yaml" &&
        node gw gateway 192.0.2.2 && node sa station-a 192.0.2.3 && node sb station-b 192.0.2.4 &&
        wait_until 60 settled station-a
}

# counted NAME: what all nodes have counted of it.
counted() {
    local name sum=0 count
    for name in gateway station-a station-b; do
        count=$(curl -sS --max-time 5 --unix-socket "$work/weft/$name.sock" http://weft/v1/snapshot |
            grep -o "\"$1\":[0-9]*" | head -1 | grep -o '[0-9]*$')
        sum=$((sum + ${count:-0}))
    done
    echo "$sum"
}

# move TO ARGUMENTS...
move() {
    local to=$1
    shift
    "$WEFT" ctl handover "$@" --to "$to" --controller site >>"$work/orders" 2>&1 || { tail -3 "$work/orders"; return 1; }
}

they_move_with_their_traffic() {
    local wrong=0 sender until timeout
    rm -f "$work/stop"
    record gw ran "$work/ran.pcap"
    local recorder=$started
    "$traffic" "$(ns srv)" "$(ns ue)" ra,rb "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep 0.5
    until=$((SECONDS + long))
    while [ "$SECONDS" -lt "$until" ]; do
        move station-b 7 && move station-b --all-from station-a && move station-a 9 &&
            move station-a --all-from station-b || { wrong=1; break; }
    done
    wait_until 30 settled station-a || wrong=1
    touch "$work/stop"
    wait "$sender" || wrong=1
    stop_recording "$recorder"
    cat "$work/traffic"
    echo "$(grep -c 'went from\|is at' "$work/orders") orders"
    for timeout in uplink_gate_timeout downlink_gate_timeout release_timeout; do
        echo "$timeout $(counted "$timeout")"
        [ "$(counted "$timeout")" = 0 ] || wrong=1
    done
    return "$wrong"
}

nothing_is_malformed() {
    local tunnelled
    tunnelled=$(tshark -n -r "$work/ran.pcap" -Y gtp 2>/dev/null | wc -l)
    [ "$tunnelled" -gt 100 ] || { echo "$tunnelled packets in tunnels"; return 1; }
    ../lib/tshark-clean.sh "$work/ran.pcap"
}

check "users get their owners" all_are_there
check "users move to and fro, and each packet arrives once and in order" they_move_with_their_traffic
check "nothing on the link of the tunnels is malformed" nothing_is_malformed
close_report
