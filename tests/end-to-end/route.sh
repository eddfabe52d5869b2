#!/usr/bin/env bash
# Next hops beside the kernel's: 500,000 routes of IPv4 and 20,000 of IPv6 as `ip
# route` prints them, and where packets to 110,000 addresses leave.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
start_namespaces
build_topology 1500

table_of_the_kernel() {
    local size
    ../lib/route_table.py make "$netns_work" &&
        in_ns n sysctl -qw net.ipv6.conf.core.disable_ipv6=0 &&
        in_ns n ip address add 10.255.0.254/24 dev core &&
        in_ns n ip address add fd00::fe/64 dev core nodad &&
        in_ns n ip -batch "$netns_work/add4" &&
        in_ns n ip -6 -batch "$netns_work/add6" &&
        in_ns n ip route show >"$netns_work/routes" &&
        in_ns n ip -6 route show | grep -v fe80 >>"$netns_work/routes" &&
        size=$(wc -l <"$netns_work/routes") &&
        note "$size routes" &&
        [ "$size" -ge 520000 ]
}

# What has no route is an error, and the rest goes on.
kernel_answers() {
    in_ns n ip -force -o -batch "$netns_work/get4" >"$netns_work/got4" 2>/dev/null
    in_ns n ip -6 -force -o -batch "$netns_work/get6" >"$netns_work/got6" 2>/dev/null
    [ -s "$netns_work/got4" ] && [ -s "$netns_work/got6" ]
}

router_of_the_same_routes() {
    local hop
    {
        printf 'apiVersion: weft/v1\nkind: Node\nmetadata: {name: router}\nports:\n'
        printf '  in: {device: ring:in, direction: uplink}\n'
        for hop in {1..8}; do
            printf '  hop%d: {device: ring:hop%d, direction: downlink}\n' "$hop" "$hop"
        done
        printf 'functions:\n  route:\n    function: route\n    config:\n'
        printf '      file: %s\n      nextHops:\n' "$netns_work/routes"
        for hop in {1..8}; do
            printf '        - {name: v4-%d, via: 10.255.0.%d}\n' "$hop" "$hop"
        done
        for hop in {1..8}; do
            printf '        - {name: v6-%d, via: "fd00::%d"}\n' "$hop" "$hop"
        done
        # The subnets of the next hops themselves.
        printf '        - {name: link, device: core}\n        - {name: access, device: access}\n'
        printf 'users:\n  - {name: all, match: {port: in}}\nrules: |\n  from in -> route\n'
        for hop in {1..8}; do
            printf '  from route when next-hop in {%d, %d} -> hop%d\n' "$hop" $((hop + 8)) "$hop"
        done
    } >"$netns_work/router.yaml"
    "$WEFT" check "$netns_work/router.yaml" >/dev/null
}

packets_go_their_ways() {
    local hop out=()
    for hop in {1..8}; do
        out+=(--out "hop$hop=$netns_work/hop$hop.pcap")
    done
    "$WEFT" replay "$netns_work/router.yaml" --in "in=$netns_work/in.pcap" "${out[@]}" \
        >/dev/null 2>"$netns_work/replay.log" || { cat "$netns_work/replay.log" && return 1; }
}

same_next_hops() {
    local said status
    said=$(../lib/route_table.py compare "$netns_work")
    status=$?
    note "$(head -n 1 <<<"$said")"
    [ "$status" -eq 0 ] || printf '%s\n' "$said"
    return "$status"
}

check "route: the kernel takes the routes" table_of_the_kernel
check "route: the kernel answers" kernel_answers
check "route: a router reads what the kernel prints" router_of_the_same_routes
check "route: packets go their ways" packets_go_their_ways
check "route: all next hops are the kernel's" same_next_hops
close_report
