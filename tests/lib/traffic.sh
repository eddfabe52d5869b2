# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of netns.sh and node.sh
# What real traffic has to find at a node, whatever the devices of its ports are.
# To be sourced behind node.sh; `real_traffic` does all of it.

# real_traffic NAME ACCESS CORE DATAGRAM HEADER: on two devices. DATAGRAM is the
# longest echo request that hosts may send in fragments here, HEADER the bytes of
# each frame that hosts do not count as sent.
real_traffic() {
    title=$1 datagram=$4 header=$5
    build_hosts
    mkdir "$netns_work/a" "$netns_work/b"
    start_server a 8080 python3 -m http.server --bind :: --directory "$netns_work/a" 8080
    start_server b 8080 python3 -m http.server --bind :: --directory "$netns_work/b" 8080
    start_server b 5201 iperf3 --server
    # Datagrams go back from the address that they were sent to.
    start_server b 5202 iperf3 --server --port 5202 --bind "$SERVICE_B4"
    write_node "$2" "$3"
    if ! start_node; then
        fail "$title: node starts" "$(cat "$netns_work/node.log")"
        return
    fi
    pass "$title: node starts"
    check "$title: no echo is lost" echoes
    check "$title: the node answers for itself" own_addresses
    check "$title: TTL and hop limit run out" time_exceeded
    check "$title: what is too big is answered" too_big
    check "$title: fragments" fragments
    check "$title: a user's counter is what its host counts" user_counted
    counters_of_a_run
    survives_a_kill
    stop_node TERM
    check "$title: node stops" equal "exit code" 0 "$node_status"
    check "$title: nothing to complain of" quiet
}

# What is counted during all of this, from rest to rest.
counters_of_a_run() {
    check "$title: rest before the run" settled before
    check "$title: files arrive whole" files
    check "$title: iperf3 TCP" tcp
    check "$title: iperf3 UDP at 100 Mbit/s" udp
    check "$title: marker holds 20 Mbit/s" marker_holds
    check "$title: rest after the run" settled after
    check "$title: ports count what the hosts count" ports_counted
    check "$title: every packet is accounted for" all_accounted
}

# --- echoes and errors ----------------------------------------------------------

echoes() {
    lossless a "$ADDRESS_B4" && lossless a "$ADDRESS_B6" &&
        lossless a "$SERVICE_A4" && lossless a "$SERVICE_A6" &&
        lossless b "$ADDRESS_A4" && lossless b "$ADDRESS_A6"
}

own_addresses() {
    local address
    for address in "$GATEWAY_A4" "$GATEWAY_A6" "$GATEWAY_B4" "$GATEWAY_B6"; do
        lossless a "$address" && lossless b "$address" || return 1
    done
}

# answered WITH SIDE ARGUMENTS-OF-PING...: one echo request is answered so.
answered() {
    local with=$1 side=$2
    shift 2
    says "$with" in_ns "$side" ping -c 1 -W 5 "$@"
}

# As traceroute asks: the first hop is the node, the second the other host.
time_exceeded() {
    answered "From $GATEWAY_A4 .*Time to live exceeded" a -t 1 "$ADDRESS_B4" &&
        answered "From $GATEWAY_A6 .*Time exceeded: Hop limit" a -t 1 "$ADDRESS_B6" &&
        answered "From $GATEWAY_B4 .*Time to live exceeded" b -t 1 -I "$ADDRESS_B4" "$ADDRESS_A4" &&
        answered "From $GATEWAY_B6 .*Time exceeded: Hop limit" b -t 1 -I "$ADDRESS_B6" "$ADDRESS_A6" &&
        answered "from $ADDRESS_B4: .*ttl=63" a -t 2 "$ADDRESS_B4" &&
        answered "from $ADDRESS_B6: .*ttl=63" a -t 2 "$ADDRESS_B6"
}

# Beyond the node the MTU is 1400. A host that was told so holds to it.
too_big() {
    answered "From $GATEWAY_A4 .*Frag needed and DF set (mtu = 1400)" \
        a -M "do" -s 1472 "$ADDRESS_B4" &&
        answered "From $GATEWAY_A6 .*Packet too big: mtu=1400" a -M "do" -s 1452 "$ADDRESS_B6" &&
        lossless a -M "do" -s 1372 "$ADDRESS_B4" && lossless a -M "do" -s 1352 "$ADDRESS_B6" &&
        answered "message too long, mtu[:=] *1400" a -M "do" -s 1472 "$ADDRESS_B4"
}

# The node cuts packets without DF, and carries what hosts have cut.
fragments() {
    lossless a -M dont -s 1472 "$SERVICE_A4" && lossless b -s "$datagram" "$ADDRESS_A4" &&
        lossless a -s "$datagram" "$ADDRESS_B4" && lossless a -s "$datagram" "$ADDRESS_B6" &&
        [ "$(of_node .fragments)" -ge 20 ]
}

# --- counters -------------------------------------------------------------------

# user_octets: packets and bytes of the user at host a, as the node counts them.
user_octets() {
    "$WEFT" show users free --json |
        jq -r '.contexts[] | select(.function == "count") | .values
            | "\(.packets) \(.bytes)"'
}

# host_octets: IPv4 packets and bytes that host a has sent and received.
host_octets() {
    echo "$(($(stack a Ip InReceives) + $(stack a Ip OutRequests)))" \
        "$(($(stack a IpExt InOctets) + $(stack a IpExt OutOctets)))"
}

user_counted() {
    local user_before host_before user host
    read -ra user_before < <(user_octets)
    read -ra host_before < <(host_octets)
    in_ns a ping -q -c 300 -i 0.002 -W 5 "$SERVICE_A4" &&
        in_ns a ping -q -c 300 -i 0.002 -W 5 -s 1200 "$ADDRESS_B4" || return 1
    read -ra user < <(user_octets)
    read -ra host < <(host_octets)
    equal packets $((user[0] - user_before[0])) $((host[0] - host_before[0])) &&
        equal bytes $((user[1] - user_before[1])) $((host[1] - host_before[1])) &&
        equal "echoes and replies" 1200 $((user[0] - user_before[0]))
}

# Each end of a wire counts the same frames. What found no room at a port has its
# own counter there; bytes can be compared only when that is zero.
ports_counted() {
    local wire port host what lost
    for wire in access:a core:b; do
        port=${wire%:*} host=${wire#*:}
        for what in packets bytes; do
            equal "$port sent, $host received ($what)" \
                "$(change "$port.tx_$what")" "$(change "$host.rx_$what")" || return 1
        done
        lost=$(lost_at "$port")
        equal "$host sent, $port received or lost" "$(change "$host.tx_packets")" \
            $(($(change "$port.rx_packets") + lost)) || return 1
        [ "$lost" -gt 0 ] || equal "$host sent, $port received (bytes)" \
            $(($(change "$host.tx_bytes") + header * $(change "$host.tx_packets"))) \
            "$(change "$port.rx_bytes")" || return 1
    done
    [ "$(change 'access.rx_packets')" -gt 10000 ] || {
        echo "there was hardly any traffic"
        return 1
    }
}

# change PATTERN: during the run.
change() {
    since before after "$1"
}

# lost_at PORT: what found no room there. The interface has a count of its own of
# what an AF_XDP socket does not take.
lost_at() {
    local lost interface
    lost=$(change "$1.rx_(missed|errors)") interface=$(change "interface.$1.rx_dropped")
    [ "$interface" -le "$lost" ] || lost=$interface
    [ "$lost" -eq 0 ] || note "$lost packets lost for want of room at $1"
    echo "$lost"
}

# In = out: what came in, and what the node made of itself, left or was dropped
# by name, or was for the node; and all of it, but for the latter, has visited
# each function.
all_accounted() {
    local in out
    in=$(change '(access|core).rx_packets|originated|fragments|emitted')
    out=$(change '(access|core).tx_packets|local|drop\..*')
    note "$in packets in, of them dropped $(change 'drop\..*')"
    equal "in and out" "$in" "$out" &&
        equal "carried and counted" "$(change function.count.packets)" \
            $(($(change '(access|core).rx_packets') - $(change local))) &&
        equal "counted and marked" "$(change function.count.packets)" \
            "$(change function.police.packets)" &&
        equal "marked and rewritten" "$(change function.police.packets)" \
            "$(change 'function.service.packets|drop.marker_red')"
}

# --- streams --------------------------------------------------------------------

# fetch SIDE ADDRESS FROM: a file from the web server at the other host.
fetch() {
    in_ns "$1" curl -sS --fail --max-time 40 -o "$netns_work/got" "http://$2:8080/file" &&
        cmp "$netns_work/got" "$netns_work/$3/file"
}

files() {
    head -c 10000000 /dev/urandom >"$netns_work/a/file"
    head -c 10000000 /dev/urandom >"$netns_work/b/file"
    fetch a "$SERVICE_A4" b && fetch a "[$SERVICE_A6]" b && fetch b "$ADDRESS_A4" a
}

# iperf NAME ARGUMENTS...: iperf3 from host a; its report goes to $netns_work/NAME.
iperf() {
    local report=$netns_work/$1
    shift
    in_ns a timeout 50 iperf3 --json --connect-timeout 10000 "$@" >"$report" && return
    jq -r .error "$report"
    return 1
}

tcp() {
    local address bits
    for address in "$SERVICE_A4" "$SERVICE_A6"; do
        iperf tcp -c "$address" -t 3 || return 1
        bits=$(jq '.end.sum_received.bits_per_second | floor' "$netns_work/tcp")
        note "TCP to $address $(mbits "$bits") Mbit/s"
        [ "$bits" -gt 0 ] || return 1
    done
}

# arrived: datagrams that reached the stack of host b, read by someone or not.
arrived() {
    echo $(($(stack b Udp InDatagrams) + $(stack b Udp InErrors) + $(stack b Udp NoPorts)))
}

# The hosts' own counters judge: a receiver that waits for the processor loses
# datagrams that the node has delivered.
udp() {
    local sent_before arrived_before sent came
    sent_before=$(stack a Udp OutDatagrams) arrived_before=$(arrived)
    iperf udp -p 5202 -u -c "$SERVICE_A4" -b 100M -l 1300 -t 3 || return 1
    wait_until 5 all_have_come
    sent=$(($(stack a Udp OutDatagrams) - sent_before)) came=$(($(arrived) - arrived_before))
    note "UDP at 100 Mbit/s, $sent datagrams, $((sent - came)) lost"
    equal "bad checksums" 0 "$(stack b Udp InCsumErrors)" &&
        [ "$sent" -ge 26000 ] && [ $((sent - came)) -le $((sent / 100)) ]
}

all_have_come() {
    [ $(($(arrived) - arrived_before)) -ge $(($(stack a Udp OutDatagrams) - sent_before)) ]
}

# mbits BITS: in Mbit, with two decimals.
mbits() {
    awk "BEGIN { printf \"%.2f\", $1 / 1e6 }"
}

# Offered 50 Mbit/s, held to 20 Mbit/s of IP packets at the receiver, from the
# moment at which the burst is used up. Others are not held to anything.
marker_holds() {
    iperf policed -p 5202 -u -c "$SERVICE_A4" -B "$POLICED_A4" -b 50M -l 1300 -t 10 &
    local stream=$! from to offered held
    wait_until 20 is_dropping || { echo "nothing is dropped"; return 1; }
    from=$(octets_at)
    lossless a "$SERVICE_A4" || return 1
    sleep 7.5
    to=$(octets_at)
    wait "$stream" || return 1
    offered=$(rate "$from" "$to" 2) held=$(rate "$from" "$to" 3)
    note "marker was offered $(mbits "$offered") Mbit/s, let pass $(mbits "$held")"
    awk "BEGIN { exit !($held > 0.95 * 20e6 && $held < 1.05 * 20e6) }"
}

is_dropping() {
    of_node '.drops[] | select(.reason == "marker_red") | .packets' | grep -q '[1-9]'
}

# octets_at: the time in seconds, IP octets sent by a, IP octets received by b.
octets_at() {
    local sent received
    sent=$(stack a IpExt OutOctets) received=$(stack b IpExt InOctets)
    echo "$EPOCHREALTIME $sent $received"
}

# rate FROM TO FIELD: bits per second of a field of octets_at.
rate() {
    awk "{ time[NR] = \$1; octets[NR] = \$$3 }
        END { printf \"%.0f\", 8 * (octets[2] - octets[1]) / (time[2] - time[1]) }" <<<"$1"$'\n'"$2"
}

# --- the end --------------------------------------------------------------------

# One that was killed leaves nothing that the next would stumble over; but the
# kernel takes an AF_XDP socket down some time after its process.
survives_a_kill() {
    stop_node KILL
    if wait_until 20 start_node; then
        check "$title: starts again after a kill" lossless a "$SERVICE_A4"
    else
        fail "$title: starts again after a kill" "$(cat "$netns_work/node.log")"
    fi
}

quiet() {
    ! troubles
}
