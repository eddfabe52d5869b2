# shellcheck shell=bash
# Network namespaces for end-to-end tests. To be sourced behind report.sh:
#
#     gain_privileges "$@"     # or skip: see below
#     start_namespaces
#     build_topology 1500
#     in_ns a ping -c 1 "$ADDRESS_B4"
#
# build_topology makes
#
#     namespace a             namespace n             namespace b
#     eth0 ------------------ access   core ------------------ eth0
#     10.0.0.1/24             (the node's ports)       198.51.100.1/24
#     2001:db8:0:1::1/64      no addresses             2001:db8:ffff::1/64
#
# Namespaces are called weft-PID-SIDE. They go when the script exits; what a
# killed run left goes when the next one starts.

PORT_ACCESS=access PORT_CORE=core
MAC_ACCESS=02:00:00:00:00:01 MAC_CORE=02:00:00:00:00:02
MAC_A=02:00:00:00:01:01 MAC_B=02:00:00:00:02:01
ADDRESS_A4=10.0.0.1 GATEWAY_A4=10.0.0.254
ADDRESS_B4=198.51.100.1 GATEWAY_B4=198.51.100.254
ADDRESS_A6=2001:db8:0:1::1 GATEWAY_A6=2001:db8:0:ff::fe
ADDRESS_B6=2001:db8:ffff::1 GATEWAY_B6=2001:db8:ffff::fe
export PORT_ACCESS PORT_CORE MAC_ACCESS MAC_CORE MAC_A MAC_B
export ADDRESS_A4 ADDRESS_A6 ADDRESS_B4 ADDRESS_B6 GATEWAY_A4 GATEWAY_A6 GATEWAY_B4 GATEWAY_B6

netns_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
netns_records=/run/weft-netns # one file per owner: PID, with its start time and directory
netns_work=                   # a directory for logs, removed at exit
started=                      # process id of the latest start_in

# --- privileges ---------------------------------------------------------------

# gain_privileges ARGUMENTS-OF-THE-SCRIPT...: returns when this process may make
# namespaces. Else runs the script again by sudo or in a user namespace, or
# reports it as skipped. WEFT_PRIVILEGE is then root, sudo or user; in a user
# namespace AF_XDP programs cannot be loaded.
gain_privileges() {
    local script=$0
    [ -e "$script" ] || script=./${0##*/} # the script has gone to its own folder
    if can_make_namespaces; then
        export WEFT_PRIVILEGE=${WEFT_PRIVILEGE:-root}
    elif [ -n "${WEFT_PRIVILEGE:-}" ]; then
        skip_script "cannot make network namespaces, even by way of $WEFT_PRIVILEGE"
    elif sudo -n true 2>/dev/null; then
        exec sudo -n env "PATH=$PATH" "WEFT=${WEFT:-}" \
            "KILLS=${KILLS:-}" "ROUNDS=${ROUNDS:-}" "SECONDS_LONG=${SECONDS_LONG:-}" \
            "UPGRADES=${UPGRADES:-}" "RATE=${RATE:-}" "WEFT_OTHER=${WEFT_OTHER:-}" \
            "ARTEFACTS=${ARTEFACTS:-}" \
            WEFT_PRIVILEGE=sudo bash "$script" "$@"
    elif unshare -Urnm true 2>/dev/null; then
        # shellcheck disable=SC2016 # expanded by the inner shell
        exec env WEFT_PRIVILEGE=user unshare -Urnm \
            bash -c 'mount -t tmpfs weft /run && exec bash "$@"' bash "$script" "$@"
    else
        skip_script "needs root, sudo without a password, or user namespaces"
    fi
}

can_make_namespaces() {
    [ "$(id -u)" = 0 ] && ip netns add "weft-$$-probe" 2>/dev/null && ip netns del "weft-$$-probe"
}

# own_network ARGUMENTS-OF-THE-SCRIPT...: gains privileges, and runs the script again in a network
# of its own, whose devices have no addresses but those that it gives them.
own_network() {
    gain_privileges "$@"
    [ -z "${OWN_NETWORK:-}" ] || return 0
    # shellcheck disable=SC2016 # expanded by the inner shell
    OWN_NETWORK=yes exec unshare --net bash -c '
        ip link set lo up && sysctl -qw net.ipv6.conf.default.disable_ipv6=1 && exec bash "$@"
    ' bash "./${0##*/}" "$@"
}

# replay CAPTURE DEVICE RATE: makes the device, to which the packets of a capture come again and
# again, so many a second; sets `replaying` to the id of what sends them.
replay() {
    ip link add "$2" type veth peer name "$2-peer" && ip link set "$2" up && ip link set "$2-peer" up || return 1
    python3 "$netns_lib/replay.py" "$1" "$2-peer" "$3" &
    # shellcheck disable=SC2034 # for the caller
    replaying=$!
}

# skip_script WHY
skip_script() {
    skip "$(basename "$0")" "$1"
    close_report
    exit 0
}

# --- life and death -----------------------------------------------------------

# Removes leftovers, says whose the namespaces to come are, and cleans up at exit.
start_namespaces() {
    mkdir -p "$netns_records"
    remove_leftovers
    netns_work=$(mktemp -d -t "weft-$$-XXXXXX")
    printf '%s\n' "$(start_time $$)" "$netns_work" >"$netns_records/$$"
    trap remove_own EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# start_time PID: when it started, in clock ticks since boot; nothing if it is gone.
start_time() {
    local stat fields
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    read -ra fields <<<"${stat##*) }" # the name before may hold blanks
    echo "${fields[19]}"
}

# owner_lives PID: a process of that id that began when the record says.
owner_lives() {
    local now recorded
    now=$(start_time "$1")
    recorded=$(sed -n 1p "$netns_records/$1" 2>/dev/null) || recorded=$now
    [ -n "$now" ] && [ "$now" = "$recorded" ]
}

# list_namespaces: without what `ip` says of those that another test is removing.
list_namespaces() {
    ip netns list 2>/dev/null
}

# Namespaces of ours whose owner is dead, with what still runs in them.
remove_leftovers() {
    local name record
    exec {netns_lock}>"$netns_records/lock"
    flock "$netns_lock"
    while read -r name _; do
        [[ $name =~ ^weft-([0-9]+)-[a-z]+$ ]] || continue
        owner_lives "${BASH_REMATCH[1]}" || remove_namespace "$name"
    done < <(list_namespaces)
    for record in "$netns_records"/[0-9]*; do
        if [ -e "$record" ] && ! owner_lives "${record##*/}"; then
            rm -rf "$(sed -n 2p "$record")" "$record"
        fi
    done
    exec {netns_lock}>&-
}

# remove_namespace NAME: ends what runs in it, then removes it.
remove_namespace() {
    local pids
    pids=$(ip netns pids "$1" 2>/dev/null) || pids=
    # shellcheck disable=SC2086 # one word per process
    if [ -n "$pids" ]; then
        kill -KILL $pids 2>/dev/null || true
        wait $pids 2>/dev/null || true # those of our own: without bash telling of it
    fi
    ip netns del "$1" 2>/dev/null || true
}

remove_own() {
    local name
    while read -r name _; do
        [[ $name == weft-$$-* ]] && remove_namespace "$name"
    done < <(list_namespaces)
    rm -f "$netns_records/$$"
    rm -rf "$netns_work"
}

# --- building -----------------------------------------------------------------

# ns SIDE: its full name.
ns() {
    echo "weft-$$-$1"
}

# in_ns SIDE COMMAND...
in_ns() {
    local side=$1
    shift
    ip netns exec "weft-$$-$side" "$@"
}

# start_in SIDE LOG COMMAND...: in the background; sets `started` to its id. The log is empty
# from the start: what an earlier command has said in it is not taken for its own.
start_in() {
    local side=$1 log=$2
    shift 2
    : >"$log"
    ip netns exec "weft-$$-$side" "$@" >"$log" 2>&1 &
    # shellcheck disable=SC2034 # for the caller
    started=$!
}

# stop PID [SIGNAL]: ends what start_in started, and waits for it. A job in the
# background of a script ignores SIGINT, so it is SIGTERM unless said otherwise.
stop() {
    kill "-${2:-TERM}" "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# record SIDE DEVICE FILE: captures into FILE (pcap) from now on, until
# stop_recording "$started". By dumpcap, since tcpdump insists on changing its
# user, which a user namespace does not allow.
record() {
    start_in "$1" "$3.log" dumpcap -q -P -i "$2" -w "$3"
    wait_until 10 grep -q '^File:' "$3.log"
}

# stop_recording PID: what was captured last reaches the file within its timeout.
stop_recording() {
    sleep 0.5
    stop "$1"
}

# wait_until SECONDS COMMAND...: tries until it succeeds; fails after six times as long. SECONDS is
# ample for an idle machine, and others have its cores, too. It tries often at first, and seldom
# later: a look takes a program, or several.
wait_until() {
    local deadline=$((SECONDS + 6 * $1)) tries=0
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        tries=$((tries + 1))
        if [ "$tries" -le 10 ]; then sleep 0.05; else sleep 0.2; fi
    done
}

# make_namespace SIDE: silent until told otherwise: no link-local addresses, no
# duplicate address detection, no router solicitations, no reverse path filter.
make_namespace() {
    ip netns add "$(ns "$1")"
    in_ns "$1" sysctl -qw \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
        net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
        net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.dad_transmits=0 \
        net.ipv6.conf.default.addr_gen_mode=1 net.ipv6.conf.default.accept_ra=0 \
        net.ipv6.conf.default.router_solicitations=0 \
        net.ipv6.conf.default.mldv2_unsolicited_report_interval=1
    in_ns "$1" ip link set lo up
}

# make_link SIDE1 DEVICE1 MAC1 SIDE2 DEVICE2 MAC2 MTU: a veth pair, offloads off, up. The
# kernel tells a moment later that the link is there.
make_link() {
    ip link add "$2" netns "$(ns "$1")" address "$3" mtu "$7" type veth \
        peer name "$5" netns "$(ns "$4")" address "$6" mtu "$7"
    offloads_off "$1" "$2"
    offloads_off "$4" "$5"
    in_ns "$1" ip link set "$2" up
    in_ns "$4" ip link set "$5" up
    wait_until 10 is_running "$1" "$2" && wait_until 10 is_running "$4" "$5"
}

# is_running SIDE DEVICE: the link is there.
is_running() {
    in_ns "$1" grep -qx up "/sys/class/net/$2/operstate"
}

# offloads_off SIDE DEVICE: frames on the wire are as a wire would carry them.
offloads_off() {
    in_ns "$1" ethtool -K "$2" tx off rx off tso off gso off gro off \
        txvlan off rxvlan off tx-vlan-stag-hw-insert off rx-vlan-stag-hw-parse off >/dev/null
}

# set_mtu MTU: of both links of the topology.
set_mtu() {
    in_ns a ip link set eth0 mtu "$1"
    in_ns n ip link set "$PORT_ACCESS" mtu "$1"
    in_ns n ip link set "$PORT_CORE" mtu "$1"
    in_ns b ip link set eth0 mtu "$1"
}

# build_topology [MTU]
build_topology() {
    local mtu=${1:-1500} side
    for side in a n b; do
        make_namespace "$side"
    done
    in_ns n sysctl -qw net.ipv6.conf.default.disable_ipv6=1
    make_link a eth0 "$MAC_A" n "$PORT_ACCESS" "$MAC_ACCESS" "$mtu"
    make_link b eth0 "$MAC_B" n "$PORT_CORE" "$MAC_CORE" "$mtu"
    in_ns a ip address add "$ADDRESS_A4/24" dev eth0
    in_ns a ip address add "$ADDRESS_A6/64" dev eth0
    in_ns a ip -6 route add "$GATEWAY_A6" dev eth0
    in_ns b ip address add "$ADDRESS_B4/24" dev eth0
    in_ns b ip address add "$ADDRESS_B6/64" dev eth0
    in_ns a ip route add default via "$GATEWAY_A4"
    in_ns a ip -6 route add default via "$GATEWAY_A6"
    in_ns b ip route add default via "$GATEWAY_B4"
    in_ns b ip -6 route add default via "$GATEWAY_B6"
}

# add_user N: host a speaks for user N (2-20) as well.
add_user() {
    in_ns a ip address add "10.0.0.$1/32" dev eth0
    in_ns a ip address add "$(printf '2001:db8:0:%x::1/128' "$1")" dev eth0
}

# add_vlan SIDE DEVICE VLAN: a subinterface DEVICE.VLAN, without addresses, up.
add_vlan() {
    local name=$2.$3
    if ! in_ns "$1" ip link add link "$2" name "$name" type vlan id "$3" 2>/dev/null; then
        start_in "$1" "$netns_work/vlan-$1-$3.log" "$netns_lib/vlan_trunk.py" "$2" "$3"
        wait_until 5 in_ns "$1" ip link show "$name"
        in_ns "$1" ip link set "$name" address "$(in_ns "$1" cat "/sys/class/net/$2/address")"
    fi
    in_ns "$1" ip link set "$name" up
}

# kernel_router: the kernel of namespace n forwards in the node's stead. This is
# how the topology is tested without a node, and what a node is compared with.
kernel_router() {
    in_ns n sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=0 \
        "net.ipv6.conf.$PORT_ACCESS.disable_ipv6=0" "net.ipv6.conf.$PORT_CORE.disable_ipv6=0" \
        net.ipv6.conf.all.forwarding=1
    in_ns n ip address add "$GATEWAY_A4/24" dev "$PORT_ACCESS"
    in_ns n ip address add "$GATEWAY_B4/24" dev "$PORT_CORE"
    in_ns n ip address add "$GATEWAY_A6/128" dev "$PORT_ACCESS"
    in_ns n ip address add "$GATEWAY_B6/64" dev "$PORT_CORE"
    in_ns n ip -6 route add 2001:db8::/59 dev "$PORT_ACCESS"
    # A kernel that forwards solicits neighbours from a link-local address only.
    in_ns n ip address add fe80::1/64 dev "$PORT_ACCESS"
    in_ns n ip address add fe80::2/64 dev "$PORT_CORE"
}
