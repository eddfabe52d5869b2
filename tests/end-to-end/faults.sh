#!/usr/bin/env bash
# What goes wrong around a node: each time one clear line, and exit code 2 or a
# node that goes on.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

gain_privileges "$@"
need_locked_memory

# --- a node that cannot start -----------------------------------------------------

# refused PATTERN COMMAND...: exit code 2, nothing on standard output, and one line
# on standard error, which matches.
refused() {
    local pattern=$1 status lines
    shift
    timeout 20 "$@" >"$netns_work/out" 2>"$netns_work/err"
    status=$?
    cat "$netns_work/out" "$netns_work/err"
    lines=$(wc -l <"$netns_work/err")
    equal "exit code" 2 "$status" && equal lines 1 "$lines" &&
        grep -q "$pattern" "$netns_work/err" && [ ! -s "$netns_work/out" ]
}

# variant SED: the path of node.yaml, changed.
variant() {
    sed "$1" "$netns_work/node.yaml" >"$netns_work/variant.yaml"
    echo "$netns_work/variant.yaml"
}

# run_refused PATTERN ARGUMENTS-OF-WEFT-RUN...
run_refused() {
    local pattern=$1
    shift
    refused "$pattern" ip netns exec "$(ns n)" "$WEFT" run "$@"
}

# As nobody, who has no capability but may read the program and the file.
without_permission() {
    local place=$netns_work/nobody
    chmod 711 "$netns_work" && mkdir "$place" && cp "$WEFT" "$netns_work/node.yaml" "$place" &&
        chmod -R a+rX "$place" && chmod 777 "$place" || return 1
    refused '^weft: port access: .*no permission' ip netns exec "$(ns n)" \
        setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all \
        "$place/$(basename "$WEFT")" run --socket "$place/node.sock" "$place/node.yaml"
}

cannot_start() {
    check "a device that is missing" \
        run_refused '^weft: port core: .*no network interface nowhere$' "$(variant 's/iface=core/iface=nowhere/')"
    check "a driver that is missing" \
        run_refused '^weft: port core: .*no driver' "$(variant 's/net_af_packet1/net_af_pocket1/')"
    check "a device string that is wrong" \
        run_refused '^weft: port core: .*iface' "$(variant 's/iface=core/interface=core/')"
    check "too little memory" \
        run_refused '^weft: no memory' "$(variant 's/^ports:/memory: {megabytes: 16}\n&/')"
    check "a mistake in the configuration" \
        run_refused "variant.yaml:[0-9]*:5: .*\`adresses\`" "$(variant 's/addresses: .10/adresses: [10/')"
    check "a mistake in the rules" \
        run_refused "variant.yaml:[0-9]*:[0-9]*: .*\`cor\`" "$(variant 's/-> core/-> cor/')"
    check "a configuration that is missing" \
        run_refused "nothing.yaml:1:1: cannot read" "$netns_work/nothing.yaml"
    check "no room for the socket" \
        run_refused '^weft: socket .*No such file' --socket "$netns_work/no/room" "$netns_work/node.yaml"
    check "no such address for metrics" \
        run_refused '^weft: metrics address' --metrics 192.0.2.1:9470 "$netns_work/node.yaml"
    if [ "$WEFT_PRIVILEGE" = user ]; then
        skip "no permission" "there is no other user in a user namespace"
    else
        check "no permission" without_permission
    fi
}

# --- a node that runs ---------------------------------------------------------------

# must_start NAME: starts the node, or reports that it does not.
must_start() {
    start_node "$netns_work/node.yaml" >/dev/null && return
    fail "$1" "$(cat "$netns_work/node.log")"
    return 1
}

another_of_its_name() {
    run_refused '^weft: another node named end-to-end is running' "$netns_work/node.yaml" &&
        lossless a "$SERVICE_A4"
}

two_nodes() {
    must_start "two nodes with one socket" || return
    check "two nodes with one socket" another_of_its_name
    stop_node TERM
}

# A port goes while packets leave there; the others do not notice.
port_goes() {
    local name="$1: a port that disappears"
    three_ports "$1"
    must_start "$name" || return
    start_in a /dev/null ping -q -i 0.01 192.0.2.1
    check "$name" goes
    stop "$started"
    stop_node TERM
    check "$name, and the node stops" equal "exit code" 0 "$node_status"
}

# A third port, on the way to a subnet at host b.
three_ports() {
    make_link b eth1 02:00:00:00:03:01 n spare 02:00:00:00:03:02 1500
    in_ns b ip address add 192.0.2.1/24 dev eth1
    write_node "${1}0,iface=$PORT_ACCESS" "${1}1,iface=$PORT_CORE"
    sed -i -f - "$netns_work/node.yaml" <<END
/^ports:/a\\
  spare: {device: "${1}2,iface=spare", direction: downlink, addresses: [192.0.2.254/24]}
/from full when direction/i\\
  from full when destination in 192.0.2.0/24 -> spare
END
}

goes() {
    wait_until 10 spare_is true && lossless a 192.0.2.1 || return 1
    in_ns b ip link delete eth1
    wait_until 10 spare_is false
    spare_is false && lossless a "$SERVICE_A4" && lossless b "$ADDRESS_A6" &&
        equal lines 1 "$(troubles | wc -l)" && says 'link is down port="spare"' troubles
}

spare_is() {
    equal "ports called spare that are so" 1 \
        "$(of_node "[.ports[] | select(.name == \"spare\" and .up == $1)] | length")"
}

# stopped_by SIGNAL: while traffic runs.
stopped_by() {
    local before senders=() name="SIG$1 while traffic runs"
    before=$(delivered)
    must_start "$name" || return
    start_in a /dev/null iperf3 -u -c "$SERVICE_A4" -b 50M -l 1300 -t 60
    senders+=("$started")
    start_in b /dev/null ping -q -f "$ADDRESS_A4"
    senders+=("$started")
    wait_until 20 carries 3000
    stop_node "$1"
    stop "${senders[0]}"
    stop "${senders[1]}"
    check "$name: the node stops" equal "exit code" 0 "$node_status"
    check "$name: what it took has left" all_left "$before"
    check "$name: nothing to complain of" equal lines 0 "$(troubles | wc -l)"
}

# delivered: IPv4 packets that reached the hosts, all of them by way of the chain.
delivered() {
    echo $(($(stack a Ip InReceives) + $(stack b Ip InReceives)))
}

carries() {
    [ "$(of_node '.functions[0].packets')" -ge "$1" ]
}

# all_left BEFORE: by the statistics that the node has printed, without what it
# dropped before any function.
all_left() {
    local taken dropped
    taken=$(awk '$2 == "counter" { print $3 }' "$netns_work/node.log")
    dropped=$(awk '/^(node|function) .* [0-9]+$/ && !/not_for_us/ { sum += $NF }
        END { print sum + 0 }' "$netns_work/node.log")
    equal "taken, delivered or dropped" "${taken:-0}" $(($(delivered) - $1 + dropped)) &&
        [ "${taken:-0}" -ge 3000 ]
}

# What a killed node leaves behind is no hindrance.
killed() {
    must_start "a start after a kill" || return
    stop_node KILL
    must_start "a start after a kill" || return
    check "a start after a kill" lossless a "$SERVICE_A4"
    stop_node TERM
}

start_namespaces
build_hosts
start_server b 5201 iperf3 --server --bind "$SERVICE_B4"
write_node "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
cannot_start
two_nodes
stopped_by INT
stopped_by TERM
killed
port_goes net_af_packet
if reason=$(can_use_xdp); then
    port_goes net_af_xdp
else
    skip "net_af_xdp: a port that disappears" "$reason"
fi
close_report
