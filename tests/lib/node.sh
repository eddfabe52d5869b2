# shellcheck shell=bash
# shellcheck disable=SC2016,SC2154 # programs of awk and jq; variables of netns.sh
# A node between the hosts of netns.sh. To be sourced behind report.sh and
# netns.sh, from a folder beside this one:
#
#     gain_privileges "$@"
#     start_namespaces
#     build_hosts
#     write_node net_af_packet0,iface=access net_af_packet1,iface=core
#     start_node || exit
#     …
#     stop_node INT
#
# $WEFT is the program, by default that of `cargo build --release`.

WEFT=${WEFT:-$(cd ../.. && pwd)/target/release/weft}
[[ $WEFT == /* ]] || WEFT=$OLDPWD/$WEFT # the script has gone to its own folder
export WEFT
SERVICE_A4=203.0.113.10 SERVICE_A6=2001:db8:5e::10 # what host a calls them
SERVICE_B4=198.51.100.10 SERVICE_B6=2001:db8:ffff::10
POLICED_A4=10.0.0.2 # the user at host a with a rate
export SERVICE_A4 SERVICE_A6 SERVICE_B4 SERVICE_B6 POLICED_A4

node=        # process id
node_status= # exit code of the last one

if ! [ -x "$WEFT" ]; then
    echo "there is no program at $WEFT: build it (cargo build --release) or set WEFT" >&2
    exit 2
fi

# --- what a node needs ----------------------------------------------------------

# build_hosts: the topology with what chain.yaml expects of it.
build_hosts() {
    export WEFT_SOCKET=$netns_work/node.sock
    build_topology 1500
    in_ns n ip link set "$PORT_CORE" mtu 1400
    in_ns b ip link set eth0 mtu 1400
    in_ns a ip address add "$POLICED_A4/32" dev eth0
    in_ns b ip address add "$SERVICE_B4/32" dev eth0
    in_ns b ip address add "$SERVICE_B6/128" dev eth0
}

# write_node ACCESS CORE: node.yaml in $netns_work, on these two devices.
write_node() {
    sed "s/@ACCESS@/$1/; s/@CORE@/$2/" chain.yaml >"$netns_work/node.yaml"
}

# can_use_xdp: whether this machine lets us; prints why not.
can_use_xdp() {
    if [ "$WEFT_PRIVILEGE" = user ]; then
        echo "XDP programs need root, a user namespace does not do"
        return 1
    fi
    python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW)' 2>/dev/null && return
    echo "the kernel has no AF_XDP"
    return 1
}

# need_locked_memory: skips the script where the rings of three AF_PACKET ports, of
# 16 MiB each, cannot be locked. In a user namespace the limit holds for all.
need_locked_memory() {
    local limit
    limit=$(ulimit -l)
    if [ "$WEFT_PRIVILEGE" = user ] && [ "$limit" != unlimited ] && [ "$limit" -lt 49152 ]; then
        skip_script "AF_PACKET needs 48 MiB of locked memory (ulimit -l)"
    fi
}

# start_server SIDE PORT COMMAND...: returns when something listens at the port.
start_server() {
    local side=$1 port=$2
    shift 2
    start_in "$side" "$netns_work/$side-$port.log" "$@"
    wait_until 20 listens "$side" "$port"
}

listens() {
    in_ns "$1" ss -Hltn "sport = :$2" | grep -q .
}

# --- its life -------------------------------------------------------------------

# start_node [FILE]: runs node.yaml, or FILE, in namespace n; sets `node`. Fails
# with the node's words when it does not become ready.
start_node() {
    rm -f "$netns_work/node.log" # of the one before
    start_in n "$netns_work/node.log" "$WEFT" run "${1:-$netns_work/node.yaml}"
    node=$started
    wait_until 30 ready_or_gone
    is_ready && return
    cat "$netns_work/node.log"
    return 1
}

is_ready() {
    grep -qs '^node .* is ready' "$netns_work/node.log"
}

ready_or_gone() {
    is_ready || ! kill -0 "$node"
}

# stop_node [SIGNAL]: ends it and sets `node_status`. One that does not end
# within 20 s is killed.
stop_node() {
    { # without bash telling of it
        kill "-${1:-TERM}" "$node"
        wait_until 20 is_gone "$node" || kill -KILL "$node"
        wait "$node"
    } 2>/dev/null
    # shellcheck disable=SC2034 # for the caller
    node_status=$?
}

is_gone() {
    ! kill -0 "$1"
}

# resident: kilobytes of memory that the node has in use.
resident() {
    awk '$1 == "VmRSS:" { print $2 }' "/proc/$node/status"
}

# troubles: lines of its log that are not mere information.
troubles() {
    grep -E ' (WARN|ERROR) |panicked' "$netns_work/node.log"
}

# --- what is counted ------------------------------------------------------------

# stack SIDE PROTOCOL FIELD: a counter of a host's own stack, as `stack a Udp OutDatagrams`.
stack() {
    in_ns "$1" awk -v protocol="$2:" -v field="$3" '
        $1 != protocol { next }
        !column { for (i = 2; i <= NF; i++) if ($i == field) column = i; next }
        { print $column; exit }' /proc/net/snmp /proc/net/netstat
}

# of_node JQ: something of the node's snapshot.
of_node() {
    "$WEFT" show ports --json | jq -r "$1"
}

# counters: everything that node and hosts count, a name and a number a line:
# `a.tx_packets`, `access.rx_bytes`, `drop.marker_red`, `function.count.packets`.
counters() {
    local side port
    for side in a b; do
        in_ns "$side" grep -H . /sys/class/net/eth0/statistics/{rx,tx}_{packets,bytes} |
            sed "s|.*/|$side.|; s/:/ /"
    done
    for port in "$PORT_ACCESS" "$PORT_CORE"; do
        echo "interface.$port.rx_dropped" \
            "$(in_ns n cat "/sys/class/net/$port/statistics/rx_dropped")"
    done
    of_node '
        (.ports[] | .name as $port | to_entries[] | select(.key | test("^[rt]x_"))
            | "\($port).\(.key) \(.value)"),
        (.functions[] | "function.\(.name).packets \(.packets)"),
        (.drops[] | select(.port == null) | "drop.\(.reason) \(.packets)"),
        "local \(.local)", "originated \(.originated)", "emitted \(.emitted)",
        "fragments \(.fragments)", "buffers \(.buffers.available)"'
}

# settled NAME: writes the counters to $netns_work/NAME as soon as they rest, so
# that what one side has counted the other has too.
settled() {
    local deadline=$((SECONDS + 20)) last
    counters >"$netns_work/$1"
    while [ "$SECONDS" -lt "$deadline" ]; do
        sleep 0.2
        last=$(<"$netns_work/$1")
        counters >"$netns_work/$1"
        [ "$last" != "$(<"$netns_work/$1")" ] || return 0
    done
    echo "the counters do not come to rest"
    return 1
}

# since BEFORE AFTER PATTERN: the change of all counters whose names match.
since() {
    awk -v pattern="^($3)$" '
        $1 !~ pattern { next }
        NR == FNR { sum -= $2; next }
        { sum += $2 }
        END { printf "%.0f\n", sum }' "$netns_work/$1" "$netns_work/$2"
}

# equal WHAT ONE OTHER: two numbers are the same.
equal() {
    [ "$2" -eq "$3" ] && return
    echo "$1: $2 and $3"
    return 1
}

# start_other NAME SIDE: one more node, in that namespace, of $netns_work/NAME.yaml and at the
# socket NAME.sock there; sets `started` to its id. One that is not ready is ended.
start_other() {
    local log=$netns_work/$1.log
    start_in "$2" "$log" \
        env WEFT_SOCKET="$netns_work/$1.sock" "$WEFT" run "$netns_work/$1.yaml"
    wait_until 30 grep -qs '^node .* is ready' "$log" && return
    cat "$log"
    stop "$started" KILL
    return 1
}

# --- what is looked at ----------------------------------------------------------

# says PATTERN COMMAND...: it does, whatever its exit code; shows what it said if not.
says() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1)
    grep -q "$pattern" <<<"$output" || { echo "$output" && return 1; }
}

# lossless SIDE ARGUMENTS-OF-PING...; otherwise it shows what nodes and devices have dropped. All
# echo requests leave at once, since ping waits for the last reply no longer than for an interval,
# or for twice the longest round trip.
lossless() {
    local side=$1 socket
    shift
    says ' 0% packet loss' in_ns "$side" ping -c 20 -l 20 -W 5 "$@" && return
    for socket in "$netns_work"/*.sock; do
        echo "$(basename "$socket"):" && WEFT_SOCKET=$socket "$WEFT" show drops
    done
    in_ns "$side" grep -HEv '^0$' /sys/class/net/{eth0,station}/statistics/{rx,tx}_{dropped,errors} 2>/dev/null
    return 1
}

# own_macs: ports on TAP devices have addresses of their own, as a bridge keeps what is addressed to
# the kernel's side of them.
own_macs() {
    local port
    for port in uplink/11 downlink/12; do
        sed -i "s/direction: ${port%/*}\$/&\n    mac: 02:00:00:00:00:${port#*/}/
            s/direction: ${port%/*},/& mac: '02:00:00:00:00:${port#*/}',/" "$netns_work/node.yaml"
    done
}

# bridge_taps: the node's TAP devices tap-access and tap-core become one link each with the wires of
# the hosts.
bridge_taps() {
    bridge_tap "$PORT_ACCESS" tap-access && bridge_tap "$PORT_CORE" tap-core
}

# bridge_tap WIRE TAP
bridge_tap() {
    in_ns n ip link add "br-$1" type bridge forward_delay 0 &&
        in_ns n ip link set "$1" master "br-$1" &&
        in_ns n ip link set "$2" master "br-$1" &&
        in_ns n ip link set "br-$1" up
}

# unbridge_taps: the wires are free again.
unbridge_taps() {
    in_ns n ip link delete "br-$PORT_ACCESS"
    in_ns n ip link delete "br-$PORT_CORE"
}
