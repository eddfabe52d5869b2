#!/usr/bin/env bash
# Ports of two devices, by the examples: a bonding device with one TAP device active and one in
# reserve, and a failsafe device. LACP, which needs the bonding driver of a kernel at the other end,
# is tried in an emulated machine (../nics/run.py bond).
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
make_namespace n
export WEFT_SOCKET=$netns_work/node.sock

# joined DEVICE DEVICE: both are ports of one bridge, at which the host is 10.8.0.2.
joined() {
    local one
    in_ns n ip link add trunk type bridge || return
    for one in "$1" "$2"; do
        in_ns n ip link set "$one" master trunk && in_ns n ip link set "$one" up || return
    done
    in_ns n ip link set trunk address 02:00:00:00:08:02
    in_ns n ip address add 10.8.0.2/24 dev trunk && in_ns n ip link set trunk up
}

reached() {
    in_ns n ping -qc 1 -W 1 10.8.0.1 >/dev/null
}

echoes() {
    wait_until 20 reached || { in_ns n ip neigh && return 1; }
    in_ns n ping -qc 20 -i 0.05 -W 2 10.8.0.1 | tee "$netns_work/ping" | grep -q ' 0% packet loss' ||
        { cat "$netns_work/ping" && return 1; }
}

# left_by DEVICE: packets that the node has sent by it.
left_by() {
    in_ns n cat "/sys/class/net/$1/statistics/rx_packets"
}

# goes_by DEVICE: echo replies leave by it.
goes_by() {
    local before
    before=$(left_by "$1")
    echoes || return
    [ $(($(left_by "$1") - before)) -ge 20 ] || { echo "$(($(left_by "$1") - before)) left by $1" && return 1; }
}

sed 's/mode=4/mode=1/' ../../examples/bonding.yaml >"$netns_work/node.yaml"
if try "a node on a bonding device starts" start_node; then
    check "its members are the ports of a bridge" joined bond-a bond-b
    check "packets leave by the active member" goes_by bond-a
    stop_node INT
    in_ns n ip link del trunk
fi

cp ../../examples/failsafe.yaml "$netns_work/node.yaml"
if try "a node on a failsafe device starts" start_node; then
    check "its devices are the ports of a bridge" joined first second
    check "packets leave by the first" goes_by first
    stop_node INT
fi

without() {
    sed 's/,dev(.*)"/"/' ../../examples/bonding.yaml >"$netns_work/node.yaml"
    says 'a bonding device has members' in_ns n "$WEFT" run "$netns_work/node.yaml"
}

unknown() {
    sed 's/dev(net_tap0,iface=bond-a)/dev(net_tap0,ifce=bond-a)/' ../../examples/bonding.yaml >"$netns_work/node.yaml"
    says 'net_tap has no argument ifce' in_ns n "$WEFT" run "$netns_work/node.yaml"
}

check "a bonding device without members is refused" without
check "a member that is wrong is told as such" unknown
close_report
