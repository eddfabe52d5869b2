#!/usr/bin/env bash
# What is lost in front of a node is counted, so that everything adds up; packets are spread
# over the queues of two workers; what devices can do is told.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

readonly BURST=6000

gain_privileges "$@"
need_locked_memory
start_namespaces
build_hosts
for user in $(seq 3 20); do
    add_user "$user"
done
in_ns a ip neigh replace "$GATEWAY_A4" lladdr "$MAC_ACCESS" dev eth0 nud permanent

# datagrams COUNT: from each user in turn to host b.
datagrams() {
    in_ns a python3 - "$1" "$ADDRESS_B4" <<'END'
import socket, sys
users = []
for number in range(1, 21):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((f"10.0.0.{number}", 4000 + number))
    users.append(one)
for number in range(int(sys.argv[1])):
    users[number % 20].sendto(number.to_bytes(4, "big"), (sys.argv[2], 9))
END
}

# --- drops in front of the node ---------------------------------------------------

# A node that stands still while more comes than its rings hold: what host a has sent is what
# the node has received and what it says was lost in front of it.
overflow() {
    settled before || return
    kill -STOP "$node"
    datagrams "$BURST"
    kill -CONT "$node"
    settled after || return
    local sent received missed
    sent=$(since before after 'a\.tx_packets')
    received=$(since before after "$PORT_ACCESS\\.rx_packets")
    missed=$(since before after "$PORT_ACCESS\\.rx_(missed|errors)")
    note "$1: $sent sent, $received received, $missed lost in front of the node"
    [ "$missed" -gt 0 ] || { echo "the ring did not overflow" && return 1; }
    equal "sent, and received or lost" "$sent" $((received + missed))
}

drops_are_named() {
    says 'rx_missed.*receive queue full' "$WEFT" show drops
}

drivers_are_asked() {
    says "^$PORT_ACCESS  *rx_good_packets  *[1-9]" "$WEFT" show ports -v || return
    "$WEFT" show ports -v --json |
        jq -e '.extended[] | select(.port == "access") | .counters.rx_good_packets > 0' || return
    says 'weft_port_extended_total{.*port="access",counter="rx_good_packets"} [1-9]' \
        in_ns n curl -sS --unix-socket "$WEFT_SOCKET" http://node/metrics
}

write_node "net_af_packet0,iface=$PORT_ACCESS,blocksz=4096,framesz=2048,framecnt=64" \
    "net_af_packet1,iface=$PORT_CORE"
if try "a node with a small AF_PACKET ring starts" start_node; then
    check "all that a full AF_PACKET ring loses is counted" overflow AF_PACKET
    check "the drops have a name" drops_are_named
    check "the counters of drivers are shown, by name" drivers_are_asked
    stop_node INT
fi

if reason=$(can_use_xdp); then
    write_node "net_af_xdp0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
    if try "a node on AF_XDP starts" start_node; then
        check "all that full AF_XDP rings lose is counted" overflow AF_XDP
        stop_node INT
    fi
else
    skip "AF_XDP" "$reason"
fi

# --- several queues ---------------------------------------------------------------

# write_spread ACCESS CORE: two workers, each with a queue of each port, and 10 users.
write_spread() {
    cat >"$netns_work/node.yaml" <<END
apiVersion: weft/v1
kind: Node
metadata: {name: spread}
workers: {count: 2}
ports:
  access: {device: "$1", direction: uplink, queues: 2, addresses: [$GATEWAY_A4/24]}
  core: {device: "$2", direction: downlink, queues: 2, mtu: 1400, addresses: [$GATEWAY_B4/24]}
users:
  - {name: ue, count: 10, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> core
  from core -> access
END
}

# Ten more come by commands.
come() {
    local user
    for user in $(seq 11 20); do
        "$WEFT" ctl bearer add "$user" --like ue --ipv4 "10.0.0.$user" || return
    done
}

# spread HOW: both workers receive, nothing is lost on the way, and it is spread as said.
spread() {
    settled before || return
    datagrams 2000
    settled after || return
    equal "sent and received" "$(since before after 'a\.tx_packets')" \
        "$(since before after "$PORT_ACCESS\\.rx_packets")" || return
    note "$("$WEFT" show ports | grep -E "^$PORT_ACCESS .* [0-9.]+ %" | tr -s ' ')"
    of_node '.ports[0] | select(.queues == 2 and (.by_worker | min) > 200) | .spread' |
        grep "$1"
}

# Of both ports, less than one packet in a hundred came to the wrong worker.
exact() {
    of_node '.ports[] | "\(.name) \(.misdirected) of \(.rx_packets)"' |
        awk '{ print } $2 * 100 >= $4 { wrong = 1 } END { exit wrong || NR != 2 }'
}

write_spread "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
if try "a node with two queues of AF_PACKET starts" start_node; then
    check "users come while it runs" come
    check "packets come to two queues of AF_PACKET" spread "a program in the kernel, by user"
    check "packets of users come to their workers" exact
    check "users at either worker are reached" lossless a "$ADDRESS_B4"
    check "users at the other worker, too" lossless a -I 10.0.0.2 "$ADDRESS_B4"
    check "users that have come are reached" lossless a -I 10.0.0.15 "$ADDRESS_B4"
    check "users at the other worker, too" lossless a -I 10.0.0.16 "$ADDRESS_B4"
    check "what comes for them comes to their workers" exact
    stop_node INT
fi

fewer() {
    lossless a "$ADDRESS_B4" || return
    of_node '.ports[0] | .spread' | grep "the kernel's hash of flows"
}

# A worker of three has no queue, so that no program can be exact.
write_spread "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
sed -i 's/count: 2}$/count: 3}/' "$netns_work/node.yaml"
if try "a node with fewer queues than workers starts" start_node; then
    check "the kernel's hash spreads over fewer queues than workers" fewer
    stop_node INT
fi

# --- what devices can do ----------------------------------------------------------

asked() {
    in_ns n "$WEFT" check --devices --json "$netns_work/node.yaml" >"$netns_work/asked.json" || return
    jq -e '.ports[0] | .can.driver == "net_af_packet" and .can.rxQueues == 2 and .queues == 2 and
        .can.wakes == "socket"' "$netns_work/asked.json" &&
        in_ns n "$WEFT" check --devices "$netns_work/node.yaml" |
        grep -q 'access: an idle worker sleeps until its socket has packets'
}

too_many() {
    sed -i 's/iface=access/&,qpairs=4/' "$netns_work/node.yaml"
    says 'qpairs=4 beside 2 receive queues' \
        in_ns n "$WEFT" check --devices "$netns_work/node.yaml"
}

doctor() {
    "$WEFT" doctor --json | jq -e '[.findings[].subject] | index("cpu") and index("iommu")'
}

write_spread "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"
check "devices tell what they can do" asked
check "queues that are not polled are refused" too_many
check "the doctor looks at this machine" doctor
close_report
