#!/usr/bin/env bash
# Bearers that commands add, change and remove while a base station that Scapy speaks
# for has traffic; and what the node tells of bearers and peers meanwhile.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

UE=10.45.0.1 # what the user calls itself

gain_privileges "$@"
need_locked_memory
/usr/bin/python3 -c 'import scapy.contrib.gtp' 2>/dev/null || skip_script "python3-scapy is not installed"
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock
build_topology 1500

# write_files: the node, and bearers as a YAML list, right and with a mistake.
write_files() {
    cat >"$netns_work/node.yaml" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
gtpu: {echoInterval: 1, t3Response: 1, n3Requests: 2, errorIndication: notify}
limits: {bearers: 8}
ports:
  access:
    device: net_af_packet0,iface=$PORT_ACCESS
    direction: uplink
    addresses: [$GATEWAY_A4/24]
  core:
    device: net_af_packet1,iface=$PORT_CORE
    direction: downlink
    addresses: [$GATEWAY_B4/24]
functions:
  from-radio: {function: gtpu-decapsulate}
  count: {function: counter}
  to-radio: {function: gtpu-encapsulate}
users:
  - {name: like-me, match: {ipv4: 10.45.9.9, teid: 0x9000}}
rules: |
  from access -> from-radio
  from from-radio -> count
  from core -> count
  from count when direction == downlink -> to-radio
  from count -> core
  from to-radio -> access
YAML
    cat >"$netns_work/bearers.yaml" <<YAML
# the user, and a bearer of its own for echo requests and answers
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
    sed 's/like: like-me/likes: like-me/' "$netns_work/bearers.yaml" >"$netns_work/wrong.yaml"
}

# refused STATUS PATTERN COMMAND...: it ends so, in one line that says so.
refused() {
    local status=$1 pattern=$2 output actual
    shift 2
    output=$("$@" 2>&1)
    actual=$?
    [ "$actual" -eq "$status" ] && [ "$(wc -l <<<"$output")" -eq 1 ] && grep -q "$pattern" <<<"$output" &&
        return
    echo "exit code $actual: $output"
    return 1
}

# tunnel TEID: the setting that leads there.
tunnel() {
    echo "to-radio={\"tunnel\": {\"teid\": $1, \"peer\": \"$ADDRESS_A4\", \"local\": \"$GATEWAY_A4\"}}"
}

# told FILE PATTERN: it has such a line in time.
told() {
    wait_until 10 grep -q "$2" "$1" || {
        cat "$1"
        return 1
    }
}

peer_is() {
    "$WEFT" show peers --json | jq -e --arg state "$1" '.[0].state == $state'
}

# waits_and_goes: a packet for an idle user waits until it is active.
waits_and_goes() {
    "$WEFT" ctl bearer change 2 --action notify || return 1
    in_ns b ping -q -c 1 -W 8 "$UE" >"$netns_work/ping" &
    local ping=$!
    told "$events" '{"downlinkData":{"bearer":2,' || return 1
    "$WEFT" ctl bearer change 2 --action forward || return 1
    wait "$ping" || { cat "$netns_work/ping" && return 1; }
}

# An Error Indication (TS 29.281 §7.3.1) about TEID 0x6000 at the base station.
indicate_error() {
    in_ns a python3 -c '
import socket, sys
message = bytes.fromhex("321a0010000000000000000010000060008500" + "04") + socket.inet_aton(sys.argv[1])
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(message, (sys.argv[2], 2152))
' "$ADDRESS_A4" "$GATEWAY_A4"
}

clean() {
    [ "$(tshark -r "$netns_work/a.pcap" -Y gtp 2>/dev/null | wc -l)" -gt 40 ] &&
        ../lib/tshark-clean.sh --kernel "$netns_work/a.pcap" "$netns_work/b.pcap"
}

# flow_captured QFI: echo requests to the user are in that QoS flow.
flow_captured() {
    tshark -r "$netns_work/a.pcap" -Y "icmp.type == 8 && gtp.ext_hdr.pdu_ses_con.qos_flow_id == $1" \
        2>/dev/null | grep -q .
}

end_marker_captured() {
    tshark -r "$netns_work/a.pcap" -Y 'gtp.message == 254 && gtp.teid == 0x6000' 2>/dev/null |
        grep -q .
}

write_files
if ! start_node; then
    fail "the node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit 1
fi
pass "the node starts"
record a eth0 "$netns_work/a.pcap"
recording_a=$started
record b eth0 "$netns_work/b.pcap"
recording_b=$started
events=$netns_work/events
"$WEFT" show events >"$events" 2>&1 &
listener=$!
start_in a "$netns_work/peer.log" ../lib/gtpu_peer.py gtp0 "$ADDRESS_A4" "$GATEWAY_A4" 0x1000 0x6000
station=$started
wait_until 20 in_ns a ip link show gtp0
in_ns a ip address add "$UE/32" dev gtp0
in_ns a ip link set gtp0 mtu 1400 up
in_ns a ip route add "$ADDRESS_B4" dev gtp0 src "$UE"

check "nobody is known yet" says 'no bearers' "$WEFT" ctl bearer show
check "a mistake in a YAML list is told by its place" \
    refused 2 'wrong.yaml:3:3: the key `likes` is not known here' \
    "$WEFT" ctl bearer add --file "$netns_work/wrong.yaml"
check "a YAML list of bearers is added" says '^bearers: added 2, changed 0, removed 0; now 2$' \
    "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
check "what is there cannot be added" refused 2 'command 1 (bearer 1): there is such a bearer' \
    "$WEFT" ctl bearer add --file "$netns_work/bearers.yaml"
check "pings from the user" lossless a -I "$UE" "$ADDRESS_B4"
check "pings to the user" lossless b "$UE"
check "the peer is asked and answers" wait_until 10 peer_is up
check "it was asked by an Echo Request that Scapy reads" told "$netns_work/peer.log" '^echo request'
check "a packet for an idle user is told and goes on" waits_and_goes
check "the user's tunnel changes" says 'changed 1' \
    "$WEFT" ctl bearer change 1 --end-marker --set "$(tunnel 24577)"
check "the old tunnel has ended" told "$netns_work/peer.log" '^end marker 0x6000$'
indicate_error
check "an Error Indication of the peer is told" told "$events" \
    "{\"errorIndication\":{\"bearer\":2,\"teid\":24576,\"peer\":\"$ADDRESS_A4\","
check "its bearer waits" says '^2  .*notify' "$WEFT" ctl bearer show
check "and goes on when it is told to" says 'changed 1' "$WEFT" ctl bearer change 2 --action forward
check "pings to the user again" lossless b "$UE"
check "the base station understands all" says '^0$' grep -c 'unexpected\|Traceback' "$netns_work/peer.log"
stop "$station"
check "a peer that is gone is told" told "$events" "{\"peerFailed\":{\"local\":\"$GATEWAY_A4\""
check "and shown" peer_is down
check "bearers are removed" says '^bearers: added 0, changed 0, removed 2; now 0$' \
    "$WEFT" ctl bearer remove 2 1
check "and only once" refused 2 'no command has added such a bearer' "$WEFT" ctl bearer remove 1
kill "$listener" 2>/dev/null
stop_recording "$recording_a"
stop_recording "$recording_b"
check "tshark sees echo requests in the dedicated bearer" flow_captured 5
check "tshark sees the End Marker" end_marker_captured
check "tshark finds nothing malformed" clean
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
