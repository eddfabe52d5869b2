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

# bridge WIRE TAP: the two become one link.
bridge() {
    in_ns n ip link add "br-$1" type bridge forward_delay 0 &&
        in_ns n ip link set "$1" master "br-$1" &&
        in_ns n ip link set "$2" master "br-$1" &&
        in_ns n ip link set "br-$1" up
}

bridges() {
    bridge "$PORT_ACCESS" tap-access && bridge "$PORT_CORE" tap-core
}

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
# A bridge keeps what is addressed to the kernel's side of a TAP device.
sed -i 's/direction: uplink/&\n    mac: 02:00:00:00:00:11/
    s/direction: downlink/&\n    mac: 02:00:00:00:00:12/' "$netns_work/node.yaml"
if ! start_node "$netns_work/node.yaml"; then
    fail "TAP: node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
pass "TAP: node starts"
check "TAP: bridges" bridges
check "TAP: ports are up" ports_are_up
check "TAP: no echo is lost" echoes
check "TAP: one device goes, the other one works" one_tap_goes
stop_node TERM
check "TAP: node stops" equal "exit code" 0 "$node_status"
close_report
