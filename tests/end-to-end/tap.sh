#!/usr/bin/env bash
# A node on two TAP devices, as if it were a virtual machine: each is bridged to
# the wire of a host.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
[ -c /dev/net/tun ] || skip_script "there is no /dev/net/tun"
start_namespaces

ports_are_up() {
    equal "ports that are up" 2 "$(of_node '[.ports[] | select(.up)] | length')"
}

echoes() {
    local address
    for address in "$GATEWAY_A4" "$GATEWAY_A6" "$ADDRESS_B4" "$ADDRESS_B6" \
        "$SERVICE_A4" "$SERVICE_A6"; do
        lossless a "$address" || return 1
    done
    lossless b "$ADDRESS_A4" && lossless b "$ADDRESS_A6"
}

one_tap_goes() {
    in_ns n ip link delete tap-core
    wait_until 10 says '"up": false' "$WEFT" show ports --json &&
        lossless a "$GATEWAY_A4" &&
        equal "complaints" 1 "$(troubles | wc -l)"
}

build_hosts
write_node net_tap0,iface=tap-access net_tap1,iface=tap-core
own_macs
if ! start_node "$netns_work/node.yaml"; then
    fail "TAP: node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
pass "TAP: node starts"
check "TAP: bridges" bridge_taps
check "TAP: ports are up" ports_are_up
check "TAP: no echo is lost" echoes
check "TAP: one device goes, the other one works" one_tap_goes
stop_node TERM
check "TAP: node stops" equal "exit code" 0 "$node_status"
close_report
