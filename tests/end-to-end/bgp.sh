#!/usr/bin/env bash
# Networks of users are announced to a router by BGP (RFC 4271): FRR in namespace b, which has no
# other route to them, by IPv4 and by IPv6.
#
#   a (users) - access [n: the node] core - b (router: FRR)
#                              n4 - eth1          BGP: from the kernel of n
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

USER4=10.45.0.9 USER6=2001:db8:45:9::1
NETWORK4=10.45.0.0/16 NETWORK6=2001:db8:45::/48
NODE4=10.9.2.254 NODE6=2001:db8:92::fe # where the node speaks from
ROUTER4=10.9.2.1 ROUTER6=2001:db8:92::1
readonly FRR=/usr/lib/frr

gain_privileges "$@"
need_locked_memory
[ "$WEFT_PRIVILEGE" != user ] || skip_script "FRR has a user of its own, which takes root"
[ -x $FRR/bgpd ] || skip_script "frr is not installed"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500
make_link b eth1 02:00:00:00:06:01 n n4 02:00:00:00:06:02 1500
in_ns n sysctl -qw net.ipv6.conf.n4.disable_ipv6=0
in_ns n ip address add "$NODE4/24" dev n4
in_ns n ip address add "$NODE6/64" dev n4 nodad
in_ns b ip address add "$ROUTER4/24" dev eth1
in_ns b ip address add "$ROUTER6/64" dev eth1 nodad
in_ns b ip address add fe80::1/64 dev eth1 nodad # FRR waits for one
in_ns b ip route del default
in_ns b ip -6 route del default
in_ns a ip address add "$USER4/32" dev eth0
in_ns a ip address add "$USER6/128" dev eth0

# write_node [LINES]: routers and keys of `bgp` beside the usual ones.
write_node() {
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: node}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24, "$GATEWAY_A6/48"]
    gateways: [$ADDRESS_A4, "$ADDRESS_A6"]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24, "$GATEWAY_B6/64"]
    gateways: [$ADDRESS_B4, "$ADDRESS_B6"]
functions:
  forward: {function: forward}
users:
  - {name: ue, match: {ipv4: $USER4, ipv6: "$USER6"}}
rules: |
  from access -> forward
  from core -> forward
  from forward when direction == uplink -> core
  from forward -> access
bgp:
  as: 4200000010
  routerId: 192.0.2.10
  nextHops: [$GATEWAY_B4, "$GATEWAY_B6"]
  networks: [$NETWORK4, "$NETWORK6"]
  peers:
    - {address: $ROUTER4, as: 65000}
    - {address: "$ROUTER6", as: 65000}
${1:-}
YAML
}

# FRR's daemons run as a user of their own.
start_router() {
    frr=$netns_work/frr
    install -d -o frr -g frr "$frr" && chmod 711 "$netns_work" || return
    cat >"$frr/bgpd.conf" <<CONF
router bgp 65000
 bgp router-id 192.0.2.254
 no bgp ebgp-requires-policy
 neighbor $NODE4 remote-as 4200000010
 neighbor $NODE6 remote-as 4200000010
 address-family ipv4 unicast
  neighbor $NODE6 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor $NODE4 activate
  neighbor $NODE6 activate
 exit-address-family
CONF
    touch "$frr/zebra.conf"
    local own=(--vty_socket "$frr" -z "$frr/zserv" -P 0)
    start_in b "$netns_work/zebra.log" $FRR/zebra "${own[@]}" \
        -f "$frr/zebra.conf" -i "$frr/zebra.pid"
    wait_until 20 test -S "$frr/zserv"
    start_in b "$netns_work/bgpd.log" $FRR/bgpd "${own[@]}" \
        -f "$frr/bgpd.conf" -i "$frr/bgpd.pid"
    wait_until 20 router_says "show bgp summary json" . || {
        cat "$netns_work/zebra.log" "$netns_work/bgpd.log"
        return 1
    }
}

# router_says COMMAND FILTER: of vtysh, by jq.
router_says() {
    in_ns b timeout 5 vtysh --vty_socket "$frr" -c "$1" 2>/dev/null | jq -e "$2" >/dev/null
}

# has_routes: both networks, by the node's ports.
has_routes() {
    in_ns b ip route show "$NETWORK4" | grep -q "via $GATEWAY_B4 dev eth0" &&
        in_ns b ip -6 route show "$NETWORK6" | grep -q "via $GATEWAY_B6 dev eth0"
}

has_no_routes() {
    [ -z "$(in_ns b ip route show "$NETWORK4")" ] && [ -z "$(in_ns b ip -6 route show "$NETWORK6")" ]
}

# is_established COUNT: of the sessions that the node shows.
is_established() {
    [ "$(in_ns n "$WEFT" show bgp --json | jq '[.peers[] | select(.state == "established")] | length')" = "$1" ]
}

users_are_reached() {
    wait_until 30 has_routes || return
    wait_until 20 in_ns b ping -q -c 1 -W 1 "$USER4"
    wait_until 20 in_ns b ping -q -c 1 -W 1 "$USER6"
    lossless b "$USER4" && lossless b "$USER6"
}

# A third router says what is no BGP, as fast as it is asked: the others are told all the same.
start_stranger() {
    start_in b "$netns_work/stranger.log" python3 -c '
import os, socket
listener = socket.create_server(("'"$ROUTER4"'", 1179))
nth = 0
while True:
    stream, _ = listener.accept()
    nth += 1
    try:
        stream.sendall([b"\xff" * 16 + b"\xff\xff\x01", os.urandom(8192), b"\xff" * 16 + b"\0\x1d\x01\x04" + os.urandom(9) + b"\0"][nth % 3])
        stream.recv(4096)
    except OSError:
        pass
    stream.close()'
}

strangers_are_told_of() {
    write_node "    - {address: $ROUTER4, as: 65001, port: 1179}"
    start_node || return
    wait_until 30 says "$ROUTER4  *65001  *connect .*\(session is ended\|of AS\)" "$WEFT" show bgp
    wait_until 30 is_established 2
}

metrics_say_so() {
    local sent
    wait_until 30 is_established 2 || return
    sent=$(curl -s --unix-socket "$WEFT_SOCKET" http://weft/metrics)
    grep -q "^weft_bgp_peer_up{node=\"node\",peer=\"$ROUTER6\"} 1" <<<"$sent" || { echo "$sent" | grep bgp; return 1; }
}

# The kernel of b tells each change of its routes.
watch_routes() {
    start_in b "$netns_work/routes" ip -4 -6 monitor route
    monitor=$started
    wait_until 10 test -e "$netns_work/routes"
}

# routes_stayed: none of the two networks was forgotten since.
routes_stayed() {
    kill "$monitor"
    has_routes || return 1
    ! grep "Deleted.*\(${NETWORK4%/*}\|${NETWORK6%/*}\)" "$netns_work/routes"
}

an_upgrade_keeps_them() {
    watch_routes
    take_over "$WEFT" || return
    wait_until 60 is_established 2
    lossless b "$USER4" && routes_stayed
}

a_death_keeps_them() {
    watch_routes
    stop_node KILL
    start_node || return
    wait_until 60 is_established 2
    wait_until 20 in_ns b ping -q -c 1 -W 1 "$USER4"
    routes_stayed
}

an_end_withdraws_them() {
    stop_node
    wait_until 10 has_no_routes
}

# With `restartTime: 0` nothing is kept.
a_death_withdraws_them() {
    write_node "  restartTime: 0"
    start_node && wait_until 30 has_routes || return
    stop_node KILL
    wait_until 30 has_no_routes
}

write_node
check "the configuration is checked" "$WEFT" check "$netns_work/node.yaml"
try "a router starts" start_router
try "the node starts" start_node
try "users of both IP versions are reached by the routes" users_are_reached
try "metrics say so" metrics_say_so
try "routes stay when another process takes the node over" an_upgrade_keeps_them
try "routes stay when the node dies and starts again" a_death_keeps_them
try "routes go when the node ends" an_end_withdraws_them
start_stranger
try "a router that is none is told of, and others are told all the same" strangers_are_told_of
stop_node
try "routes go when the node dies, where nothing is to be kept" a_death_withdraws_them
[ "$failed" -eq 0 ] || { in_ns n "$WEFT" show bgp 2>/dev/null; tail -20 "$netns_work"/*.log; in_ns b ip route; in_ns b ip -6 route; }
close_report
