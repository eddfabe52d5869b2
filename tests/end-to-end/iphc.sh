#!/usr/bin/env bash
# Header compression over a link: a host, a node that compresses, a link, a node
# that rebuilds, a host. Both directions; what the kernel sends comes through, and
# what goes over the link is what Wireshark says it is.
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
start_namespaces

LEFT4=10.9.0.1 RIGHT4=10.9.0.2 LEFT6=2001:db8:9::1 RIGHT6=2001:db8:9::2
nodes=()

# build: two hosts on one subnet, with two transparent nodes in between.
build() {
    local side
    for side in a n m b; do make_namespace "$side"; done
    make_link a eth0 02:00:00:00:09:01 n inside 02:00:00:00:09:11 1500 || return 1
    make_link n wire 02:00:00:00:09:12 m wire 02:00:00:00:09:21 1500 || return 1
    make_link m inside 02:00:00:00:09:22 b eth0 02:00:00:00:09:02 1500 || return 1
    in_ns a ip address add $LEFT4/24 dev eth0
    in_ns a ip address add $LEFT6/64 dev eth0
    in_ns b ip address add $RIGHT4/24 dev eth0
    in_ns b ip address add $RIGHT6/64 dev eth0
}

# start_end SIDE HOST4 HOST6: a node at one end of the link.
start_end() {
    sed "s/@HOST4@/$2/; s/@HOST6@/$3/" iphc.yaml >"$netns_work/$1.yaml"
    start_other "$1" "$1" && nodes+=("$started")
}

# headers SIDE: packets whose headers were compressed there, octets of headers that
# came, and octets that went instead, those of PPPoE (8 each) left out.
headers() {
    WEFT_SOCKET="$netns_work/$1.sock" "$WEFT" show users host --json |
        jq -r '.contexts[] | select(.function == "compress") | .values | to_entries
            | map(if (.value | type) == "array" then {(.value[0]): .value[1]}
                  else {(.key): .value} end) | add
            | (.headerOctetsBefore, .headerOctetsAfter, .full, .compressed)' |
        { read -r before && read -r after && read -r full && read -r compressed &&
            echo "$((full + compressed)) $before $((after - 8 * (full + compressed)))"; }
}

# session NAME LEAST COMMAND...: runs it, and says what became of its headers, way
# by way; those of the way there must become so many times shorter.
session() {
    local name=$1 least=$2 way side earlier later
    shift 2
    local -A start
    for side in n m; do start[$side]=$(headers $side); done
    "$@" || return 1
    for way in there:n back:m; do
        side=${way#*:}
        read -ra earlier <<<"${start[$side]}"
        read -ra later <<<"$(headers "$side")"
        awk -v packets=$((later[0] - earlier[0])) -v before=$((later[1] - earlier[1])) \
            -v after=$((later[2] - earlier[2])) -v least="$least" 'BEGIN {
                if (packets == 0) exit 1
                printf "%d packets, headers of %.1f octets became %.1f, %.1f times shorter",
                    packets, before / packets, after / packets, before / after
                exit before / after < least
            }' >"$netns_work/said" || return 1
        note "$name, ${way%:*}: $(cat "$netns_work/said")"
        least=0.9 # answers are few, and each flow has a first one
    done
}

echoes() {
    lossless a $RIGHT4 && lossless a $RIGHT6
}

# tcp OPTIONS...: a transfer by the kernel's TCP.
tcp() {
    in_ns a iperf3 "$@" -n 2M -l 1K -M 1200 >"$netns_work/tcp"
}

# datagrams SIZE ANSWER COUNT: so many over one flow, each second one answered by so
# many octets; none is lost.
datagrams() {
    in_ns a python3 - "$1" "$2" "$3" $RIGHT4 <<'CLIENT'
import socket, sys, time

size, answer, count = map(int, sys.argv[1:4])
flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flow.connect((sys.argv[4], 4433))
flow.settimeout(2)
for number in range(count):
    wanted = answer * (number % 2)
    flow.send(wanted.to_bytes(2, "big") + number.to_bytes(4, "big") * (size // 4))
    if wanted:
        assert len(flow.recv(2000)) == wanted
    time.sleep(0.002)
CLIENT
}

serve_datagrams() {
    start_in b "$netns_work/datagrams.log" python3 -c '
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 4433))
while True:
    datagram, sender = server.recvfrom(2000)
    wanted = int.from_bytes(datagram[:2], "big")
    if wanted:
        server.sendto(bytes(wanted), sender)
'
    wait_until 10 is_bound 4433
}

# dns PORTS: two hundred questions and answers, from so many ports in turn.
dns() {
    in_ns a python3 - "$1" $RIGHT4 <<'CLIENT'
import socket, sys

ports, server = int(sys.argv[1]), sys.argv[2]
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(ports)]
for number in range(200):
    asker = sockets[number % ports]
    asker.settimeout(2)
    head = number.to_bytes(2, "big") + bytes.fromhex("01000001000000000000")
    question = head + b"\x07example\x03org\0" + bytes.fromhex("00010001")
    asker.sendto(question, (server, 53))
    assert asker.recv(512)[:2] == question[:2]
CLIENT
}

serve_dns() {
    start_in b "$netns_work/dns.log" python3 -c '
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 53))
while True:
    question, asker = server.recvfrom(512)
    answer = bytes.fromhex("c00c00010001000000780004cb007101")
    server.sendto(question[:2] + bytes.fromhex("81800001000100000000") + question[12:] + answer, asker)
'
    wait_until 10 is_bound 53
}

is_bound() {
    in_ns b ss -Hlnu "sport = :$1" | grep -q .
}

wire() {
    tshark -n -r "$netns_work/link.pcap" -Y "$1" 2>/dev/null | wc -l
}

wireshark_reads_the_link() {
    local full compressed tcp
    full=$(wire 'ppp.protocol == 0x0061')
    compressed=$(wire 'ppp.protocol == 0x0065')
    tcp=$(wire 'ppp.protocol == 0x0063')
    note "on the link: $full full headers, $compressed compressed other than TCP, $tcp compressed TCP"
    [ "$full" -gt 5 ] && [ "$compressed" -gt 300 ] && [ "$tcp" -gt 500 ] &&
        equal "frames that Wireshark calls malformed" 0 "$(wire _ws.malformed)"
}

check "two nodes and a link" build
check "one end starts" start_end n $LEFT4 $LEFT6
check "the other end starts" start_end m $RIGHT4 $RIGHT6
# A port sends past what records on its own device: the other end shows what came.
record m wire "$netns_work/link.pcap"
recorder=$started
check "no echo is lost" echoes
start_server b 5201 iperf3 -s
check "TCP over IPv4" session "TCP over IPv4" 6 tcp -c $RIGHT4
check "TCP over IPv6" session "TCP over IPv6" 8 tcp -6 -c $RIGHT6
check "TCP the other way" session "TCP, data coming back" 0.9 tcp -c $RIGHT4 -R
check "servers of names and datagrams" eval 'serve_dns && serve_datagrams'
check "DNS from one port" session "DNS from one port" 2.5 dns 1
check "DNS from a port for each question" session "DNS from 200 ports" 0.9 dns 200
check "datagrams like those of voice (RTP)" session "RTP-like" 3 datagrams 172 172 400
check "datagrams like those of QUIC" session "QUIC-like" 3 datagrams 1200 30 400
stop_recording "$recorder"
check "Wireshark reads the link" wireshark_reads_the_link
for node in "${nodes[@]}"; do stop "$node"; done
close_report
