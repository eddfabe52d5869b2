#!/usr/bin/env bash
# Checks netns.sh with the kernel's own router in the node's place.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=report.sh
. ./report.sh
# shellcheck source-path=SCRIPTDIR source=netns.sh
. ./netns.sh

# Another run of its own: builds the topology, says so, and stays until it is killed.
if [ "${1:-}" = --stay ]; then
    start_namespaces
    build_topology 1500
    start_in a /dev/null sleep 60
    echo "$started" >"$2"
    wait "$started"
    exit
fi

gain_privileges "$@"

fails() {
    ! "$@" 2>/dev/null
}

silent_before_the_router() {
    fails in_ns a ping -q -c 1 -W 1 "$GATEWAY_A4"
}

pings_in_both_families() {
    in_ns a ping -q -c 2 -i 0.1 -W 2 "$ADDRESS_B4" && in_ns a ping -q -c 2 -i 0.1 -W 2 "$ADDRESS_B6" &&
        in_ns b ping -q -c 1 -W 2 "$ADDRESS_A4" && in_ns b ping -q -c 1 -W 2 "$ADDRESS_A6"
}

second_user_speaks() {
    add_user 17
    in_ns a ping -q -c 1 -W 2 -I 10.0.0.17 "$ADDRESS_B4" &&
        in_ns a ping -q -c 1 -W 2 -I 2001:db8:0:11::1 "$ADDRESS_B6"
}

mtu_holds() {
    set_mtu 1400
    in_ns a ping -q -c 1 -W 2 -M "do" -s 1372 "$ADDRESS_B4" &&
        fails in_ns a ping -q -c 1 -W 1 -M "do" -s 1373 "$ADDRESS_B4"
}

no_offloads() {
    local state
    for state in tx-checksumming rx-checksumming generic-segmentation-offload \
        generic-receive-offload tx-vlan-offload rx-vlan-offload; do
        in_ns n ethtool -k "$PORT_ACCESS" | grep -q "^$state: off" || return 1
    done
}

fixed_mac_addresses() {
    [ "$(in_ns n cat "/sys/class/net/$PORT_ACCESS/address")" = "$MAC_ACCESS" ] &&
        [ "$(in_ns n cat "/sys/class/net/$PORT_CORE/address")" = "$MAC_CORE" ]
}

vlan_carries() {
    add_vlan a eth0 100 && add_vlan n "$PORT_ACCESS" 100
    in_ns a ip address add 192.0.2.1/24 dev eth0.100
    in_ns n ip address add 192.0.2.2/24 dev "$PORT_ACCESS.100"
    in_ns a ping -q -c 2 -i 0.1 -W 2 192.0.2.2
}

vlan_is_tagged_on_the_wire() {
    local file=$netns_work/vlan.pcap
    record n "$PORT_ACCESS" "$file"
    in_ns a ping -q -c 1 -W 2 192.0.2.2
    stop_recording "$started"
    [ "$(tshark -n -r "$file" -Y 'vlan.id == 100 && icmp' 2>/dev/null | wc -l)" = 2 ]
}

# stay: starts that other run; sets `other` to its id and `sleeper` to its child's.
stay() {
    local file=$netns_work/sleeper
    rm -f "$file"
    ./netns_test.sh --stay "$file" 2>/dev/null &
    other=$!
    wait_until 10 test -s "$file"
    sleeper=$(cat "$file")
}

other_is_there() {
    ip netns list | grep -q "^weft-$other-"
}

living_run_is_left_alone() {
    stay
    remove_leftovers
    other_is_there && kill -0 "$sleeper"
}

ended_run_cleans_up() {
    stop "$other" TERM
    fails other_is_there && fails kill -0 "$sleeper"
}

killed_run_is_cleared_away() {
    stay
    stop "$other" KILL
    other_is_there || return 1
    remove_leftovers
    fails other_is_there && wait_until 5 fails kill -0 "$sleeper" && [ ! -e "$netns_records/$other" ]
}

start_namespaces
build_topology 1500
check "netns: node's namespace is silent" silent_before_the_router
kernel_router
check "netns: hosts reach each other" pings_in_both_families
check "netns: a second user" second_user_speaks
check "netns: MAC addresses" fixed_mac_addresses
check "netns: offloads are off" no_offloads
check "netns: MTU" mtu_holds
check "netns: VLAN" vlan_carries
check "netns: VLAN tag on the wire" vlan_is_tagged_on_the_wire
# Not by `check`: these set variables that the next ones read.
for name in living_run_is_left_alone ended_run_cleans_up killed_run_is_cleared_away; do
    if $name; then pass "netns: ${name//_/ }"; else fail "netns: ${name//_/ }" "see $name"; fi
done
close_report
