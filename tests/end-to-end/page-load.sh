#!/usr/bin/env bash
# Requests at a node's page as fast as clients ask, while users of both IP versions send: no
# packet is lost for it, all requests have an answer, and the agent is asked once a second.
# Clients keep their connections.
#
#   LONG=60 page-load.sh                  that many seconds of requests
#   REQUESTS_PER_S=10000 page-load.sh     fails where fewer are answered at any of the paths
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh

PORT=7777 RATE=500 # of the users, packets a second in each family and direction
LONG=${LONG:-6}   # seconds
CLIENTS=16
REQUESTS_PER_S=${REQUESTS_PER_S:-0}
export WEFT_HTTP=127.0.0.1:8099

gain_privileges "$@"
need_locked_memory
command -v ab >/dev/null || skip_script "ab is not installed (Debian package apache2-utils)"
start_namespaces
build_hosts
write_node "net_af_packet0,iface=$PORT_ACCESS" "net_af_packet1,iface=$PORT_CORE"

# users NAME: datagrams of both families to host b and back; what came back is in NAME-4 and
# NAME-6, and the node's counters before and after in NAME.before and NAME.after.
users() {
    local four six
    of_node . >"$netns_work/$1.before"
    start_in a "$netns_work/$1-4" ../lib/floods.py ask "$ADDRESS_B4" $PORT $RATE $((RATE * LONG))
    four=$started
    start_in a "$netns_work/$1-6" ../lib/floods.py ask "$ADDRESS_B6" $PORT $RATE $((RATE * LONG))
    six=$started
    wait "$four" "$six"
    of_node . >"$netns_work/$1.after"
}

# requests PATH: until it is ended; ab ends its own tests after its time.
requests() {
    start_in n "$netns_work/ab" ab -k -q -l -t $((LONG + 60)) -n 100000000 -c $CLIENTS "http://$WEFT_HTTP$1"
}

# grown RUN WHAT: by how much a figure of the node has grown while users sent.
grown() {
    jq -n --slurpfile before "$netns_work/$1.before" --slurpfile after "$netns_work/$1.after" \
        "(\$after[0] | $2) - (\$before[0] | $2)"
}

received='[.ports[].rx_packets] | add'
dropped='([.drops[].packets] | add) // 0'
missed='[.ports[] | .rx_missed + .rx_errors] | add'

# Cycles per packet of the worker's stages, in the time of a run.
cycles() {
    local all
    all='[.workers[].stages[] | .cycles] | add' each='[.workers[].stages[0].packets] | add'
    echo $(($(grown "$1" "$all") / ($(grown "$1" "$each") + 1)))
}

# all_back RUN FAMILY: every datagram has gone there and come back.
all_back() {
    local came
    came=$(cat "$netns_work/$1-$2")
    echo "$came of $((RATE * LONG)) came back"
    [ "$came" -eq $((RATE * LONG)) ]
}

# nothing_lost RUN: in the node, whatever the hosts did.
nothing_lost() {
    echo "received $(grown "$1" "$received"), dropped $(grown "$1" "$dropped"), missed $(grown "$1" "$missed")"
    [ "$(grown "$1" "$received")" -ge $((4 * RATE * LONG)) ] &&
        [ "$(grown "$1" "$dropped")" -eq 0 ] && [ "$(grown "$1" "$missed")" -eq 0 ]
}

# Requests that were answered since the node started, by what ab has made of them.
answered() {
    awk '/^Complete requests/ {all = $3} /^Failed requests/ {failed = $3} /^Non-2xx/ {others = $3}
        END {print all + 0, failed + 0, others + 0}' "$netns_work/ab"
}

# figure NAME: what ab says of it.
figure() {
    awk -F ':' -v name="$1" '$1 == name {print $2 + 0}' "$netns_work/ab"
}

# all_answered PATH: more than 1,000, however long they take, as the page's thread comes after
# all others.
all_answered() {
    local all failed others kept more=0
    read -r all failed others < <(answered)
    note "$(figure 'Requests per second') requests a second at $1: $all answered, $failed failed, $others refused"
    [ "$failed" -eq 0 ] && [ "$others" -eq 0 ] || return 1
    # A connection carries a thousand.
    kept=$(figure 'Keep-Alive requests')
    echo "$kept of $all on connections that lasted"
    [ "$kept" -ge $((all - all / 1000 - CLIENTS)) ] || return 1
    if [ "$REQUESTS_PER_S" -gt 0 ]; then
        awk -v got="$(figure 'Requests per second')" -v least="$REQUESTS_PER_S" 'BEGIN {exit got < least}' || return 1
    fi
    if [ "$all" -le 1000 ]; then
        in_ns n ab -k -q -l -s 300 -n 1000 -c $CLIENTS "http://$WEFT_HTTP$1" >"$netns_work/ab" 2>&1
        read -r more failed others < <(answered)
        note "and $more more in $(figure 'Time taken for tests') s: $failed failed, $others refused"
    fi
    [ $((all + more)) -gt 1000 ] && [ "$failed" -eq 0 ] && [ "$others" -eq 0 ]
}

# under_load PATH: as many requests for it as the server answers, while users send.
under_load() {
    local asking name=${1//\//_}
    requests "$1"
    asking=$started
    users "load$name"
    # It says what it has done when it is interrupted.
    stop_asking "$asking"
    check "$1: all requests are answered" all_answered "$1"
    check "$1: the node loses no packet" nothing_lost "load$name"
    check "$1: every datagram comes back" all_back "load$name" 4
    check "$1: every datagram comes back, IPv6" all_back "load$name" 6
    note "cycles of a packet in the stages: $(cycles quiet) without requests, $(cycles "load$name") with them"
}

stop_asking() {
    kill -INT "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# What the agent has to be asked for is refused beyond 50 a second and 100 at once, and costs as
# little.
refused_beyond_rate() {
    local all refused seconds
    in_ns n ab -k -q -l -s 300 -n 1000 -c $CLIENTS "http://$WEFT_HTTP/v1/peers" >"$netns_work/ab" 2>&1
    read -r all _ refused < <(answered)
    seconds=$(figure 'Time taken for tests')
    note "$all requests for peers in $seconds s: $refused refused"
    [ "$all" -eq 1000 ] &&
        awk -v answered=$((all - refused)) -v seconds="$seconds" 'BEGIN {exit answered > 50 * (seconds + 2) + 100}'
}

if ! start_node; then
    fail "the node starts" "$(cat "$netns_work/node.log")"
    close_report
    exit 1
fi
start_in b "$netns_work/serve-4" ../lib/floods.py serve "$ADDRESS_B4" $PORT
start_in b "$netns_work/serve-6" ../lib/floods.py serve "$ADDRESS_B6" $PORT
check "ways and neighbours are found" lossless a "$ADDRESS_B4"
check "ways and neighbours are found, IPv6" lossless a "$ADDRESS_B6"
users quiet
check "without requests the node loses no packet" nothing_lost quiet
for path in /v1/snapshot /v1/model /; do
    under_load "$path"
done
check "requests that the agent must answer are refused beyond their rate" refused_beyond_rate
stop_node TERM
check "the node stops" equal "exit code" 0 "$node_status"
close_report
