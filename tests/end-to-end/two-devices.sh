#!/usr/bin/env bash
# Ports of two devices, by the examples: a bonding device with one TAP device active and one in
# reserve, a failsafe device, and a bonding device that Open vSwitch speaks LACP with.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/open_vswitch.sh
. ../lib/open_vswitch.sh

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

# --- LACP -----------------------------------------------------------------------

HOSTS=(2 3 4 5 6 7 8 9) # last numbers of the addresses at the switch

# lay_trunk: two links between the node and the switch.
lay_trunk() {
    local one
    make_namespace s
    for one in a b; do
        make_link n "bond-$one" "02:00:00:00:08:1$one" s "far-$one" "02:00:00:00:08:2$one" 1500 || return 1
    done
    start_open_vswitch s &&
        of_switch add-br br0 -- set bridge br0 datapath_type=netdev \
            -- add-bond br0 trunk far-a far-b lacp=active bond_mode=balance-tcp other_config:lacp-time=fast || return 1
    for one in "${HOSTS[@]}"; do in_ns s ip address add "10.8.0.$one/24" dev br0 || return 1; done
    in_ns s ip link set br0 up
}

# distribute MANY: so many members of the node collect and distribute.
distribute() {
    told_by_switch lacp/show trunk >"$netns_work/lacp"
    grep -q 'status: active negotiated' "$netns_work/lacp" &&
        [ "$(grep -c 'partner state:.*synchronized collecting distributing' "$netns_work/lacp")" = "$1" ]
}

negotiated() { wait_until 30 distribute "$1" || { cat "$netns_work/lacp" "$netns_work/switch.log" && return 1; }; }

# answers: all hosts are answered.
answers() {
    local one
    for one in "${HOSTS[@]}"; do
        in_ns s ping -qc 1 -W 1 -I "10.8.0.$one" 10.8.0.1 >/dev/null || return 1
    done
}

# sent_by DEVICE: packets that the node has sent by it.
sent_by() { in_ns n cat "/sys/class/net/$1/statistics/tx_packets"; }

# spreads: answers to different hosts leave by both, and none is lost.
spreads() {
    local before_a before_b one pings=()
    wait_until 20 answers || return 1
    before_a=$(sent_by bond-a) before_b=$(sent_by bond-b)
    for one in "${HOSTS[@]}"; do
        in_ns s ping -qc 20 -i 0.05 -W 2 -I "10.8.0.$one" 10.8.0.1 >"$netns_work/ping.$one" &
        pings+=("$!")
    done
    wait "${pings[@]}"
    grep -L ' 0% packet loss' "$netns_work"/ping.* | grep . && return 1
    note "$(($(sent_by bond-a) - before_a)) packets left by one, $(($(sent_by bond-b) - before_b)) by the other"
    [ $(($(sent_by bond-a) - before_a)) -ge 20 ] && [ $(($(sent_by bond-b) - before_b)) -ge 20 ]
}

# takes_over: AF_PACKET does not say that a link is gone. LACP finds it within 90 s (IEEE 802.1AX,
# Long_Timeout_Time), and all leaves by the other.
takes_over() {
    local begun=$SECONDS
    in_ns s ip link set far-a down
    wait_until 150 answers || return 1
    note "$((SECONDS - begun)) s behind the cut all were answered"
    answers && in_ns s ip link set far-a up && negotiated 2
}

lacp() {
    sed 's/net_tap0,iface=bond-a/net_af_packet0,iface=bond-a/; s/net_tap1,iface=bond-b/net_af_packet1,iface=bond-b/' \
        ../../examples/bonding.yaml >"$netns_work/node.yaml"
    try "LACP: Open vSwitch at the other end" lay_trunk || return
    try "a node on a bonding device starts" start_node || return
    check "both members collect and distribute" negotiated 2
    check "packets leave by both, and none is lost" spreads
    check "the other one carries all when one is cut" takes_over
    check "and both do again" spreads
    stop_node INT
    stop_open_vswitch
}

if have_open_vswitch; then
    lacp
else
    skip "LACP with a switch" "Open vSwitch is not installed"
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
