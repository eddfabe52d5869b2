# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of netns.sh and node.sh
# Two gateways for one set of users, with a controller. To be sourced behind report.sh, netns.sh
# and node.sh:
#
#     a (base stations) --+                  +-- b (data network)
#                         |  [gateway-a] na  |
#                     acc +------------------+ dn
#                         |  [gateway-b] nb  |
#                         +------------------+
#     ctl [site] -------- oam: na, nb
#
# The script writes $work/gateway-a.yaml and $work/gateway-b.yaml.

declare -A running # processes, by their names
work=              # a directory for files and logs, removed at exit

begin_pair() {
    work=$netns_work
    export XDG_RUNTIME_DIR=$work
}

# link_to SIDE DEVICE BRIDGE NUMBER: a link to a switch.
link_to() {
    make_link "$1" "$2" "02:00:00:00:0$4:01" net "$3-$1" "02:00:00:00:0$4:02" 1600
    in_ns net ip link set "$3-$1" master "$3"
}

# lay_out_pair: hosts a and b, the gateways, a controller, and the switches between them.
lay_out_pair() {
    local side bridge
    for side in a b na nb ctl net; do
        make_namespace "$side"
    done
    for side in na nb; do
        in_ns "$side" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
    done
    for bridge in acc dn oam; do
        in_ns net ip link add "$bridge" type bridge mcast_snooping 0
        in_ns net ip link set "$bridge" up
    done
    link_to a eth0 acc 1 && link_to b eth0 dn 2 && link_to ctl oam oam 3
    link_to na access acc 4 && link_to na core dn 5 && link_to na oam oam 6
    link_to nb access acc 7 && link_to nb core dn 8 && link_to nb oam oam 9
    in_ns ctl ip address add 192.0.2.1/24 dev oam
    in_ns na ip address add 192.0.2.2/24 dev oam
    in_ns nb ip address add 192.0.2.3/24 dev oam
}

# write_site NAME...: the controller's file, and certificates for it, the gateways, and these.
write_site() {
    printf 'nodes-know-this-token' >"$work/node-token"
    "$WEFT" ctl certificates init --folder "$work/certificates" >/dev/null &&
        "$WEFT" ctl certificates issue --folder "$work/certificates" site gateway-a gateway-b "$@" >/dev/null ||
        return 1
    cat >"$work/site.yaml" <<YAML
apiVersion: weft/v1
kind: Controller
metadata: {name: site}
listen: 192.0.2.1:9471
tokenFile: node-token
tls: {certificate: certificates/site.pem, key: certificates/site-key.pem, authority: certificates/authority.pem}
records: records
nodes:
  gateway-a: {number: 1, address: 192.0.2.2:9473}
  gateway-b: {number: 2, address: 192.0.2.3:9473, standbyFor: gateway-a}
YAML
}

# launch NAME SIDE ADDRESS: a gateway.
launch() {
    rm -f "$work/$1.log"
    start_in "$2" "$work/$1.log" env WEFT_SOCKET="$work/$1.sock" "$WEFT" run "$work/$1.yaml" \
        --handover-controller 192.0.2.1:9471 --handover-listen "$3:9473" --handover-token-file "$work/node-token"
    running[$1]=$started
    wait_until 30 grep -q 'waits for its controller' "$work/$1.log" || { cat "$work/$1.log" && return 1; }
}

launch_a() { launch gateway-a na 192.0.2.2; }
launch_b() { launch gateway-b nb 192.0.2.3; }

launch_site() {
    start_in ctl "$work/site.log" "$WEFT" control "$work/site.yaml"
    running[site]=$started
    wait_until 30 test -S "$work/weft/site.controller"
}

# pairs: JSON of what the controller knows of the pair.
pairs() { "$WEFT" ctl pairs --controller site --json; }

# owns NAME: the controller says so, and the node is ready.
owns() {
    pairs | jq -e ".[0].owner == \"$1\"" && grep -q "^node $1 is ready" "$work/$1.log"
}

# may_take_over NAME: it stands by and has all.
may_take_over() {
    pairs | jq -e ".[0].standby == \"$1\" and .[0].whole and .[0].standbyHeard"
}

# is_built NAME: it has all users as a node that carries packets has them.
is_built() { pairs | jq -e ".[0].standby == \"$1\" and .[0].built"; }

stands_by() {
    wait_until 30 may_take_over "$1" && wait_until 60 is_built "$1" && return
    cat "$work/$1.log"
    pairs
    return 1
}

ends_by_itself() {
    wait_until 30 is_gone "${running[$1]}" || { tail -n 5 "$work/$1.log" && return 1; }
    wait "${running[$1]}" 2>/dev/null
    grep -E 'owns the users, in epoch [0-9]+; the node ends' "$work/$1.log" || { cat "$work/$1.log" && return 1; }
}
