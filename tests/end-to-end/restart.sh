#!/usr/bin/env bash
# A gateway that is killed (SIGKILL) under a user's traffic and starts again: its bearers, the
# user's NAT block and mappings, counters and meters are there again. One TCP connection lives
# through all of it, no datagram is doubled, no usage is counted twice, and no more of it is
# missing than the time since the last checkpoint. Then stores that cannot be used.
#
#   KILLS=1000 restart.sh    that many times
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

UE=10.45.0.1 # what the user calls itself
KILLS=${KILLS:-4}
MISSING=3 # seconds of usage that may be missing after each kill, on a machine with much to do

gain_privileges "$@"
need_locked_memory
/usr/bin/python3 -c 'import scapy.contrib.gtp' 2>/dev/null || skip_script "python3-scapy is not installed"
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

write_files() {
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
gtpu: {errorIndication: notify}
limits: {bearers: 8}
state: {directory: state, loading: onDemand}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24]
    proxy: [198.51.100.64/29]
functions:
  from-radio: {function: gtpu-decapsulate}
  count: {function: counter}
  police:
    function: marker
    config: {meter: {singleRate: {committedRate: 50 Mbit/s, committedBurst: 64 KiB}}}
  nat: {function: nat, config: {addresses: [198.51.100.64/29], mappings: 20000}}
  to-radio: {function: gtpu-encapsulate}
users:
  - {name: like-me, match: {ipv4: 10.45.9.9, teid: 0x9000}}
  - {name: internet, match: {port: core}}
rules: |
  from access -> from-radio
  from from-radio -> count
  from core -> nat
  from nat when direction == downlink -> count
  from count -> police
  from police when direction == downlink -> to-radio
  from police -> nat
  from nat -> core
  from to-radio -> access
YAML
    cat >"$netns_work/bearers.yaml" <<YAML
- id: 1
  like: like-me
  match: {ipv4: $UE, teid: 0x1000}
  functions:
    from-radio: {peer: $ADDRESS_A4, ipv4: $UE}
    to-radio: {tunnel: &tunnel {teid: 0x6000, peer: $ADDRESS_A4, local: $GATEWAY_A4}, qfi: 9}
- id: 2
  of: 1
  match: {flow: {protocol: 1}}
  functions: {to-radio: {tunnel: *tunnel, qfi: 5}}
YAML
}

# usage: packets of the user that the gateway has counted, both ways.
usage() {
    curl --no-progress-meter --unix-socket "$WEFT_SOCKET" http://weft/v1/bearers/1 |
        jq '.contexts[] | select(.function == "count") | .values.packets'
}

# settled_usage: the same, once nothing is under way any more: what ends a connection may come late.
settled_usage() {
    local before now
    now=$(usage)
    until [ "$now" = "${before:-}" ]; do
        before=$now
        sleep 0.5
        now=$(usage)
    done
    printf '%s' "$now"
}

# of_host: packets that the user's own stack has sent and received.
of_host() {
    in_ns a cat /sys/class/net/gtp0/statistics/{t,r}x_packets | paste -sd+ | bc
}

moves_on() {
    [ "$(usage)" -gt "$1" ]
}

# they_are_killed: with each life usage goes on, behind what was there some seconds before.
they_are_killed() {
    local before after worst=0 missing
    for _ in $(seq "$KILLS"); do
        sleep 1.5
        before=$(usage)
        stop_node KILL
        start_node || return 1
        after=$(usage)
        missing=$((before - after))
        [ "$missing" -le "$worst" ] || worst=$missing
        # About 450 packets a second pass the gateway.
        [ "$missing" -le $((500 * MISSING)) ] || { echo "usage $before, then $after" && return 1; }
        [ "$after" -le "$(of_host)" ] || { echo "usage $after, the host $(of_host)" && return 1; }
        wait_until 10 moves_on "$after" || { echo "nothing passes" && return 1; }
        troubles && return 1
    done
    note "$KILLS times: at most $worst packets of usage were missing"
    return 0
}

traffic_is_whole() {
    local text
    text=$(tail -n 1 "$netns_work/drive.log")
    note "$text"
    jq -e '.broken == 0 and .twice == 0 and .lines > 20 and .back > 50' <<<"$text" >/dev/null ||
        { cat "$netns_work/drive.log" && return 1; }
}

# refuses PATTERN: the node does not start, in one line that says why.
refuses() {
    local output status
    output=$(in_ns n "$WEFT" run "$netns_work/node.yaml" 2>&1)
    status=$?
    [ "$status" -eq 2 ] && [ "$(wc -l <<<"$output")" -eq 1 ] && grep -q "$1" <<<"$output" && return
    echo "exit code $status: $output"
    return 1
}

begins_anew() {
    rm -f "$netns_work/node.log"
    start_in n "$netns_work/node.log" "$WEFT" run --without-state "$netns_work/node.yaml"
    node=$started
    wait_until 30 ready_or_gone
    is_ready || { cat "$netns_work/node.log" && return 1; }
    says 'no bearers' "$WEFT" ctl bearer show
}

# on_disk OPTIONS: what runs the node with its folder on a file system of its own, which goes with
# the process: `ip netns exec` gives it mounts of its own.
on_disk() {
    cat >"$netns_work/on-disk" <<SH
#!/bin/sh
mkdir -p "$netns_work/disk"
mount -t tmpfs -o "$1" weft "$netns_work/disk" || exit 9
exec "\$@"
SH
    chmod +x "$netns_work/on-disk"
    sed 's|directory: state|directory: disk|; s|{bearers: 8}|{bearers: 8, users: 100000}|' \
        "$netns_work/node.yaml" >"$netns_work/disk.yaml"
}

# full_disk: a command is told, packets pass, and later commands are taken again.
# a_thousand_bearers BATCH: others for each batch.
a_thousand_bearers() {
    awk -v batch="$1" 'BEGIN {
        for (at = 0; at < 1000; at++)
            printf "- {id: %d, like: like-me, match: {ipv4: 10.%d.%d.%d, teid: %d}}\n",
                batch * 1000 + at, 46 + batch, at / 250, at % 250, 65536 + batch * 1000 + at
    }'
}

full_disk() {
    local before
    on_disk size=6m
    rm -f "$netns_work/node.log"
    start_in n "$netns_work/node.log" "$netns_work/on-disk" "$WEFT" run "$netns_work/disk.yaml"
    node=$started
    wait_until 30 ready_or_gone
    is_ready || { cat "$netns_work/node.log" && return 1; }
    says 'added 2' "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml" || return 1
    nsenter -t "$node" -m dd if=/dev/zero of="$netns_work/disk/full" bs=4k 2>/dev/null
    before=$(usage)
    # More than the store has room for in pages that it has on the disk already.
    for batch in $(seq 40); do
        a_thousand_bearers "$batch" >"$netns_work/many.yaml"
        "$WEFT" ctl bearer add --file "$netns_work/many.yaml" >"$netns_work/full.log" 2>&1 || break
    done
    grep -q 'No space left on device' "$netns_work/full.log" || { cat "$netns_work/full.log" && return 1; }
    [ "$(wc -l <"$netns_work/full.log")" -eq 1 ] || { cat "$netns_work/full.log" && return 1; }
    lossless a -I "$UE" "$ADDRESS_B4" || return 1
    [ "$(usage)" -gt "$before" ] || { echo "nothing passes" && return 1; }
    says 'No space left' "$WEFT" show state || return 1
    nsenter -t "$node" -m rm "$netns_work/disk/full"
    wait_until 20 "$WEFT" ctl bearer change 2 --action notify || return 1
    says '^2  .*notify' "$WEFT" ctl bearer show
    says 'changed 1' "$WEFT" ctl bearer change 2 --action forward
}

read_only_disk() {
    local output status
    on_disk size=6m,ro
    output=$(in_ns n "$netns_work/on-disk" "$WEFT" run "$netns_work/disk.yaml" 2>&1)
    status=$?
    [ "$status" -eq 2 ] && [ "$(wc -l <<<"$output")" -eq 1 ] &&
        grep -q 'Read-only file system.*--without-state begins anew' <<<"$output" && return
    echo "exit code $status: $output"
    return 1
}

write_files
if ! start_node; then
    fail "the node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit 1
fi
pass "the node starts"
start_in a "$netns_work/peer.log" ../lib/gtpu_peer.py gtp0 "$ADDRESS_A4" "$GATEWAY_A4" 0x1000 0x6000
wait_until 20 in_ns a ip link show gtp0
in_ns a ip address add "$UE/32" dev gtp0
in_ns a ip link set gtp0 mtu 1400 up
in_ns a ip route add "$ADDRESS_B4" dev gtp0 src "$UE"
check "bearers are added" says 'added 2' "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
check "the user reaches the host" lossless a -I "$UE" "$ADDRESS_B4"
start_server b 7000 ../lib/restart_traffic.py serve "$ADDRESS_B4" 7000
start_in a "$netns_work/drive.log" ../lib/restart_traffic.py drive "$ADDRESS_B4" 7000 "$UE"
traffic=$started
try "each life goes on with the usage of the one before" they_are_killed
check "packets passed while contexts were read" \
    says 'all contexts are there; packets have passed' cat "$netns_work/node.log"
check "changes outlive it, too" says 'changed 1' "$WEFT" ctl bearer change 2 --action notify
stop_node KILL
try "it starts again" start_node
check "as they were made" says '^2  .*notify' "$WEFT" ctl bearer show
check "and are made again" says 'changed 1' "$WEFT" ctl bearer change 2 --action forward
check "the user still reaches the host" lossless a -I "$UE" "$ADDRESS_B4"
stop "$traffic"
check "one connection has lived through it, and nothing was doubled" traffic_is_whole
check "the peer was told of no unknown tunnel" says '^0$' grep -c 'error indication' "$netns_work/peer.log"
before=$(settled_usage)
stop_node TERM
check "it stops" equal "exit code" 0 "$node_status"
try "it starts again behind a stop" start_node
check "nothing is missing then" equal "usage" "$before" "$(usage)"
check "a second process does not get the store" says 'another' \
    in_ns n env WEFT_SOCKET="$netns_work/other.sock" "$WEFT" run "$netns_work/node.yaml"
stop_node TERM
sed -i 's/name: upf/name: other/' "$netns_work/node.yaml"
check "another node does not get it" refuses 'it is that of node upf, not of node other; --without-state begins anew'
sed -i 's/name: other/name: upf/; s/name: like-me/name: like-you/' "$netns_work/node.yaml"
check "a configuration that cannot have a bearer is told" refuses 'state: bearer 1: .*like-me'
sed -i 's/name: like-you/name: like-me/' "$netns_work/node.yaml"
python3 - "$netns_work/state/state.redb" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    octets = bytearray(file.read())
    at = octets.find(b"like-me")
    while at >= 0:
        octets[at] ^= 1
        at = octets.find(b"like-me")
    file.seek(0)
    file.write(octets)
PY
check "a damaged store is told" refuses 'state.redb: damaged'
try "and the node begins anew where it is told to" begins_anew
stop_node TERM
try "a full disk is told, and stops no packet" full_disk
stop_node TERM
check "a disk that is read-only is told" read_only_disk
close_report
