#!/usr/bin/env bash
# Two softwires that share an IPv4 address: lwB4s that translate to their own ports by the
# kernel's nftables, TCP, UDP and echoes through them, and what is not theirs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

AFTR=2001:db8:aaaa::1 SHARED=192.0.2.1 INSIDE=192.168.1.1
HAIRPIN=4180 # of the second softwire's ports

gain_privileges "$@"
need_locked_memory
start_namespaces
export WEFT_SOCKET=$netns_work/node.sock

# b4 SIDE NUMBER FIRST-PORT MTU: an lwB4 behind host a, with a thousand ports; its host
# is the namespace's own. The longest IPv4 packet says whether IPv6 fragments.
b4() {
    make_namespace "$1"
    make_link "$1" eth0 "02:00:00:00:03:0$2" a "b4-$1" "02:00:00:00:04:0$2" 1500
    in_ns "$1" ip address add "2001:db8:0:1$2::1/64" dev eth0
    in_ns a ip address add "2001:db8:0:1$2::fe/64" dev "b4-$1"
    # A kernel that forwards solicits neighbours from a link-local address only.
    in_ns a ip address add fe80::1/64 dev "b4-$1"
    in_ns "$1" ip -6 route add default via "2001:db8:0:1$2::fe"
    in_ns "$1" ip address add "$INSIDE/32" dev lo
    start_in "$1" "$netns_work/$1.log" ../lib/b4.py softwire "2001:db8:0:1$2::1" "$AFTR"
    wait_until 10 in_ns "$1" ip link set softwire up mtu "$4" || return 1
    in_ns "$1" ip route add default dev softwire src "$INSIDE"
    in_ns "$1" nft "table ip b4 {
        chain out {
            type nat hook postrouting priority srcnat
            ip saddr $INSIDE ip protocol icmp snat to $SHARED:$3-$(($3 + 1023))
            ip saddr $INSIDE meta l4proto { tcp, udp } snat to $SHARED:$3-$(($3 + 1023))
        }
        chain in {
            type nat hook prerouting priority dstnat
            ip daddr $SHARED tcp dport $HAIRPIN dnat to $INSIDE:8080
        }
    }"
}

topology() {
    build_topology 1500
    in_ns a sysctl -qw net.ipv6.conf.all.forwarding=1
    in_ns a ip address add fe80::1/64 dev eth0
    in_ns a ip -6 route add "$AFTR/128" via 2001:db8:0:1::fe
    b4 c 1 3072 1460 && b4 d 2 4096 1500
}

servers() {
    mkdir -p "$netns_work/files" && head -c 100000 /dev/urandom >"$netns_work/files/file" &&
        start_server b 8080 python3 -m http.server --bind 0.0.0.0 --directory "$netns_work/files" 8080 &&
        start_server d 8080 python3 -m http.server --bind 0.0.0.0 --directory "$netns_work/files" 8080 &&
        start_server b 5201 iperf3 --server
}

# files SIDE URL NUMBER: as many transfers of a file, ten at a time.
files() {
    local got
    got=$(in_ns "$1" timeout 30 curl --no-progress-meter --fail -Z --parallel-max 10 --max-time 20 \
        -w '%{size_download}\n' -o /dev/null "$2/file?[1-$3]" | grep -cx 100000)
    equal "whole files" "$3" "$got"
}

echoes() {
    lossless "$1" "$ADDRESS_B4" &&
        # In fragments of IPv4, and on their way back of IPv6.
        lossless "$1" -s 1700 "$ADDRESS_B4"
}

udp() {
    in_ns "$1" timeout 30 iperf3 --json -c "$ADDRESS_B4" -u -l 1400 -b 2M -P 4 -t 1 >"$netns_work/udp" ||
        { jq -r .detail "$netns_work/udp" && return 1; }
    equal "lost" 0 "$(jq .end.sum.lost_packets "$netns_work/udp")"
}

# shared_address PORTS: host b saw this one and no other source, in both sets of ports.
shared_address() {
    tshark -r "$netns_work/core.pcap" -T fields -e ip.src -e tcp.srcport -e udp.srcport \
        -Y "tcp.dstport == 8080 || udp.dstport == 5201" 2>/dev/null | sort -u >"$netns_work/seen"
    awk -v shared="$SHARED" '
        $1 != shared || $2 < 3072 || $2 >= 5120 { wrong++; print }
        { sets[int($2 / 1024)] = 1 }
        END { exit !(NR > 0 && !wrong && 3 in sets && 4 in sets) }' "$netns_work/seen"
}

# send SIDE FROM PORT TO PORT: one UDP datagram, from an address that need not be its own.
send() {
    in_ns "$1" python3 - "${@:2}" <<'EOF'
import socket, sys
source, port, destination, to = sys.argv[1:]
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.IPPROTO_IP, 19, 1)  # IP_TRANSPARENT
one.bind((source, int(port)))
one.sendto(b"not mine", (destination, int(to)))
EOF
}

dropped() {
    of_node ".drops[] | select(.reason == \"$1\") | .packets"
}

drops() {
    [ "$(dropped "$1")" = "$2" ]
}

# told SIDE FILE FIELD NUMBER: a counter of its kernel.
told() {
    [ "$(in_ns "$1" awk -v field="$3" '$1 == field { print $2 }' "/proc/net/$2")" = "$4" ]
}

# The last port of the other softwire's, so that only address and port tell them apart.
others_ports() {
    send c "$SHARED" 5119 "$ADDRESS_B4" 9 && send c 203.0.113.1 3072 "$ADDRESS_B4" 9 || return 1
    wait_until 10 drops lwaftr_refused 2 || { dropped lwaftr_refused && return 1; }
    wait_until 10 told c snmp6 Icmp6InDestUnreachs 2
}

nobodys_ports() {
    local before
    before=$(stack b Icmp InDestUnreachs)
    send b "$ADDRESS_B4" 9 "$SHARED" 5120 || return 1
    wait_until 10 drops lwaftr_no_softwire 1 || { dropped lwaftr_no_softwire && return 1; }
    wait_until 10 errors_at_b $((before + 1))
}

errors_at_b() {
    [ "$(stack b Icmp InDestUnreachs)" = "$1" ]
}

# Host b learns how long packets may be; of fragments that are joined the last goes on.
nothing_else_is_dropped() {
    local others expected='lwaftr_\(refused 2\|no_softwire 1\|too_big [0-9]*\|fragment_joined [0-9]*\)'
    others=$(of_node '.drops[] | select(.packets > 0) | "\(.reason) \(.packets)"' |
        grep -vx "$expected")
    [ -z "$others" ] || { echo "$others" && return 1; }
}

# Errors quote 548 octets: tshark takes the sum of a TCP segment that is longer for wrong.
right_packets_at_the_core() {
    tshark -n -r "$netns_work/core.pcap" -o ip.check_checksum:TRUE -T fields -e frame.number \
        -Y 'icmp.type == 3 && icmp.code == 4 && icmp.checksum.status == "Good"
            && !(ip.checksum.status == "Bad")' >"$netns_work/quotes" 2>/dev/null
    [ -s "$netns_work/quotes" ] &&
        ../lib/tshark-clean.sh --kernel --except "$netns_work/quotes" "$netns_work/core.pcap"
}

if ! why=$(topology 2>&1); then
    skip_script "no softwires: $why"
fi
check "lwAFTR: servers start" servers
if ! start_node "$PWD/lwaftr.yaml"; then
    fail "lwAFTR: node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit
fi
record b eth0 "$netns_work/core.pcap"
recordings=("$started")
record a eth0 "$netns_work/access.pcap"
recordings+=("$started")
check "lwAFTR: echoes of the first softwire, in fragments too" echoes c
check "lwAFTR: echoes of the second softwire" echoes d
check "lwAFTR: 10 files to the first softwire" files c "http://$ADDRESS_B4:8080" 10
check "lwAFTR: 10 files to the second softwire, which fragments" files d "http://$ADDRESS_B4:8080" 10
check "lwAFTR: UDP from the first softwire" udp c
check "lwAFTR: UDP from the second softwire" udp d
check "lwAFTR: 10 files from one softwire to the other" files c "http://$SHARED:$HAIRPIN" 10
check "lwAFTR: ports of another are refused, and the softwire is told" others_ports
check "lwAFTR: ports of nobody are refused, and host b is told" nobodys_ports
check "lwAFTR: nothing else is dropped" nothing_else_is_dropped
for recording in "${recordings[@]}"; do
    stop_recording "$recording"
done
check "lwAFTR: host b sees one address and both sets of ports" shared_address
check "lwAFTR: right packets at the core" right_packets_at_the_core
check "lwAFTR: right packets at the access" ../lib/tshark-clean.sh --kernel "$netns_work/access.pcap"
stop_node TERM
check "lwAFTR: node stops" equal "exit code" 0 "$node_status"
close_report
