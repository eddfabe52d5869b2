#!/usr/bin/env bash
# A gateway with security associations that is killed (SIGKILL) under traffic and starts again: no
# sequence number and no nonce is used twice, what had come before the last checkpoint is not
# accepted once more, and traffic goes on without new keys.
#
#   KILLS=1000 restart-esp.sh    that many times
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

FAR=10.0.0.200 # where the user sends to, and the peer back
TUNNEL=198.51.100.100 # where the gateway's tunnel ends
KILLS=${KILLS:-3}
BEHIND=3 # seconds that checkpoints are behind at most, on a machine with much to do

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
state: {directory: state}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24]
    neighbours: {$FAR: "$(in_ns a cat /sys/class/net/eth0/address)"}
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24]
    proxy: [$TUNNEL/32]
functions:
  seal: {function: esp-encrypt}
  open: {function: esp-decrypt}
users:
  - name: up
    match: {ipv4: $ADDRESS_A4}
    functions:
      seal: {spi: 4096, key: &key "000102030405060708090a0b0c0d0e0ff0f1f2f3", local: $TUNNEL, peer: $ADDRESS_B4}
  - name: down
    match: {spi: 4096}
    functions:
      open: {spi: 4096, key: *key}
rules: |
  from access -> seal
  from seal -> core
  from core -> open
  from open -> access
YAML

said() {
    grep -c "^$1" "$netns_work/reflect.log"
}

asks() {
    local before
    before=$(said "$2")
    kill "-$1" "$reflect"
    wait_until 60 said_more "$2" "$before"
}

said_more() {
    [ "$(said "$1")" -gt "$2" ]
}

# came: IP packets that the peer's host has received.
came() {
    in_ns b awk '$1 == "Ip:" && $4 ~ /^[0-9]+$/ { print $4 }' /proc/net/snmp
}

came_more() {
    [ "$(came)" -gt "$1" ]
}

they_are_killed() {
    for _ in $(seq "$KILLS"); do
        asks USR1 remembered || return 1
        sleep "$BEHIND"
        stop_node KILL
        start_node || return 1
        asks USR2 again || return 1
        wait_until 20 came_more "$(($(came) + 50))" || { echo "nothing passes" && return 1; }
        troubles && return 1
    done
    return 0
}

nothing_twice() {
    local of_peer of_user
    stop "$drive"
    stop "$reflect"
    wait_until 10 is_gone "$reflect"
    of_peer=$(tail -n 1 "$netns_work/reflect.log")
    of_user=$(tail -n 1 "$netns_work/drive.log")
    note "the peer: $of_peer"
    note "the user: $of_user"
    jq -e '.numbersTwice == 0 and .vectorsTwice == 0 and .again > 100' <<<"$of_peer" >/dev/null &&
        jq -e '.twice == 0 and .back > 500 and .back > .sent / 4' <<<"$of_user" >/dev/null
}

try "the node starts" start_node || { close_report; exit 1; }
start_in b "$netns_work/reflect.log" ../lib/esp_peer.py reflect "$ADDRESS_B4" "$TUNNEL"
reflect=$started
wait_until 20 said_more ready 0
start_in a "$netns_work/drive.log" ../lib/esp_peer.py drive eth0 \
    "$(in_ns n cat "/sys/class/net/$PORT_ACCESS/address")" "$ADDRESS_A4" "$FAR"
drive=$started
try "it is killed, and goes on with its associations" they_are_killed
try "no number, no nonce and no packet twice" nothing_twice
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
