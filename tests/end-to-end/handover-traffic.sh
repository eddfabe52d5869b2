#!/usr/bin/env bash
# Users move between two base stations behind a gateway with their traffic: four processes
# in network namespaces of their own on veth, a user that reflects each packet to the
# station that it received it from, and a server. Each packet arrives once and in order.
#
#     SECONDS_LONG=300 handover-traffic.sh     moves for so many seconds instead of a few
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/handover_site.sh
. ../lib/handover_site.sh

begin_site "$@"
users=20 rate=400 long=${SECONDS_LONG:-4}
traffic=$(cd ../lib && pwd)/handover_traffic.py

all_are_there() {
    lay_out && write_files && write_commands &&
        start site && start gateway && start station-a && start station-b &&
        wait_until 60 settled station-a
}

they_move_with_their_traffic() {
    local wrong=0 sender until timeout
    rm -f "$work/stop"
    record gw ran "$work/ran.pcap"
    local recorder=$started
    "$traffic" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep 0.5
    until=$((SECONDS + long))
    while [ "$SECONDS" -lt "$until" ]; do
        move station-b 7 && move station-b --all-from station-a && move station-a 9 &&
            move station-a --all-from station-b || { wrong=1; break; }
    done
    wait_until 120 settled station-a || wrong=1
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

# upgraded NAME: another process has the node, while nothing moves.
upgraded() {
    WEFT_SOCKET=$work/weft/$1.sock "$WEFT" ctl upgrade >>"$work/upgrades" 2>&1 || { tail -1 "$work/upgrades"; return 1; }
}

# is_upgraded_while_users_move: one that is asked for while users move comes to nothing, or waits
# for them; no user is lost either way.
is_upgraded_while_users_move() {
    local mover status=0
    move station-b --all-from station-a &
    mover=$!
    WEFT_SOCKET=$work/weft/station-a.sock "$WEFT" ctl upgrade >"$work/upgrade" 2>&1 ||
        grep -q 'try again' "$work/upgrade" || { cat "$work/upgrade" && status=1; }
    wait "$mover" || status=1
    wait_until 60 settled station-b || status=1
    cat "$work/upgrade"
    return "$status"
}

# they_go_over_with_their_traffic: each node goes to another process, and users move before, while
# and behind that.
they_go_over_with_their_traffic() {
    local wrong=0 sender timeout
    rm -f "$work/stop"
    "$traffic" "$(ns srv)" "$(ns ue)" "$users" "$rate" "$work/stop" >"$work/traffic" &
    sender=$!
    sleep 0.5
    upgraded station-a && upgraded gateway && upgraded station-b && is_upgraded_while_users_move &&
        upgraded station-b && upgraded gateway && move station-a --all-from station-b &&
        wait_until 60 settled station-a || wrong=1
    touch "$work/stop"
    wait "$sender" || wrong=1
    cat "$work/traffic" "$work/upgrades"
    for timeout in uplink_gate_timeout downlink_gate_timeout release_timeout context_lost; do
        echo "$timeout $(counted "$timeout")"
        [ "$(counted "$timeout")" = 0 ] || wrong=1
    done
    return "$wrong"
}

nothing_is_malformed() {
    local tunnelled
    tunnelled=$(tshark -n -r "$work/ran.pcap" -Y gtp 2>/dev/null | wc -l)
    [ "$tunnelled" -gt 100 ] || { echo "$tunnelled packets in tunnels"; return 1; }
    ../lib/tshark-clean.sh --kernel "$work/ran.pcap"
}

# Everyone gets a new certificate, connections begin anew, and users go on moving.
new_certificates_are_used() {
    local recorder name wrong=0
    record sa oam "$work/oam.pcap"
    recorder=$started
    new_certificates || wrong=1
    for name in site gateway station-a station-b; do
        wait_until 60 grep -q 'certificates were read again' "$work/$name.log" ||
            { echo "$name: $(tail -3 "$work/$name.log")" && wrong=1; }
    done
    they_move_with_their_traffic || wrong=1
    stop_recording "$recorder"
    return "$wrong"
}

no_message_can_be_read() {
    local enciphered
    enciphered=$(tshark -n -r "$work/oam.pcap" -d tcp.port==9471,tls -d tcp.port==9473,tls \
        -Y 'tls.app_data' 2>/dev/null | wc -l)
    [ "$enciphered" -gt 10 ] || { echo "$enciphered records of TLS"; return 1; }
    ! grep -qaE 'WEFT|nodes-know-this-token' "$work/oam.pcap"
}

check "users get their owners" all_are_there
check "users move to and fro, and each packet arrives once and in order" they_move_with_their_traffic
check "nodes go to other processes with their users, and each packet arrives once and in order" \
    they_go_over_with_their_traffic
check "nothing on the link of the tunnels is malformed" nothing_is_malformed
check "new certificates are used while users move" new_certificates_are_used
check "no message between nodes can be read" no_message_can_be_read
close_report
