#!/usr/bin/env bash
# Two gateways for one set of users, with a controller: the active one is killed, stands still, is
# cut off and is stopped in turn, under TCP and UDP of two users, over IPv4 and over IPv6. The
# standby takes over each time, with all bearers; the connections live through all of it, no
# datagram is doubled, and the one that comes back does not take the users. Then strangers.
#
#     a (base stations) --+                  +-- b (data network)
#                         |  [gateway-a] na  |
#                     acc +------------------+ dn
#                         |  [gateway-b] nb  |
#                         +------------------+
#     ctl [site] -------- oam: na, nb
#
#   BEARERS=100000 standby.sh    so many more bearers
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
# shellcheck source-path=SCRIPTDIR source=../lib/report.sh
. ../lib/report.sh
# shellcheck source-path=SCRIPTDIR source=../lib/netns.sh
. ../lib/netns.sh
# shellcheck source-path=SCRIPTDIR source=../lib/node.sh
. ../lib/node.sh
# shellcheck source-path=SCRIPTDIR source=../lib/pair.sh
. ../lib/pair.sh

UE4=10.45.0.1 UE6=2001:db8:45::1
GATEWAY6=2001:db8:0:1::fe
LONGEST=${LONGEST:-15} # seconds that users may be without a gateway, on a machine with much to do
MORE=${BEARERS:-0} # bearers beside those of the traffic

gain_privileges "$@"
need_locked_memory
/usr/bin/python3 -c 'import scapy.contrib.gtp' 2>/dev/null || skip_script "python3-scapy is not installed"
[ -c /dev/net/tun ] || skip_script "the kernel has no TUN devices"
start_namespaces
begin_pair

lay_out() {
    lay_out_pair
    in_ns a ip address add 10.0.0.1/24 dev eth0
    in_ns a ip address add 2001:db8:0:1::1/64 dev eth0
    in_ns b ip address add 198.51.100.1/24 dev eth0
    in_ns b ip address add 2001:db8:ffff::1/64 dev eth0
    in_ns b ip route add 10.45.0.0/16 via 198.51.100.254
    in_ns b ip -6 route add 2001:db8:45::/48 via 2001:db8:ffff::fe
}

write_files() {
    local name number
    write_site gateway-c || return 1
    number=0
    for name in gateway-a gateway-b; do
        number=$((number + 1))
        write_gateway "$name" "$number" "$name" "$work/$name.yaml"
    done
    # The certificate and the name of another, and the number of the standby.
    write_gateway gateway-c 2 gateway-c "$work/gateway-c.yaml"
    cat >"$work/bearers.yaml" <<YAML
- id: 1
  like: like-me
  match: {ipv4: $UE4, teid: 0x1000}
  functions:
    from-radio: {peer: 10.0.0.1, ipv4: $UE4}
    to-radio: {tunnel: {teid: 0x6000, peer: 10.0.0.1, local: 10.0.0.254}, qfi: 9}
- id: 2
  like: like-me
  match: {ipv6: "$UE6", teid: 0x2000}
  functions:
    from-radio: {peer: "2001:db8:0:1::1", ipv6: "$UE6"}
    to-radio: {tunnel: {teid: 0x7000, peer: "2001:db8:0:1::1", local: "$GATEWAY6"}, qfi: 9}
YAML
}

# write_gateway NAME NUMBER CERTIFICATE FILE
write_gateway() {
    cat >"$4" <<YAML
apiVersion: weft/v1
kind: Node
metadata: {name: $1}
gtpu: {errorIndication: notify}
limits: {bearers: $((MORE + 1000)), users: $((MORE + 1000))}
state: {directory: state-$1}
standby:
  node: $2
  tls: {certificate: certificates/$3.pem, key: certificates/$3-key.pem, authority: certificates/authority.pem, controller: site}
ports:
  access:
    device: net_af_packet0,iface=access
    direction: uplink
    addresses: [10.0.0.254/24, "$GATEWAY6/64"]
  core:
    device: net_af_packet1,iface=core
    direction: downlink
    addresses: [198.51.100.254/24, "2001:db8:ffff::fe/64"]
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
}

# has_lines COUNT FILE
has_lines() { [ "$(wc -l <"$2")" -ge "$1" ]; }

# pauses: those of the traffic since the last call, as JSON.
pauses() {
    local family log lines
    for family in 4 6; do
        log=$work/drive$family.log
        lines=$(wc -l <"$log")
        kill -USR1 "${running[drive$family]}"
        wait_until 10 has_lines $((lines + 1)) "$log" || echo "drive$family says nothing" >&2
        tail -n 1 "$log"
    done
}

# took NAME: seconds from the word that it owns the users until it can carry their packets.
took() { grep 'the node goes on' "$work/$1.log" | tail -n 1 | sed 's/.*seconds=//'; }

# taken_over NAME: it owns the users, carries packets of both, and has the bearers.
taken_over() {
    wait_until 30 owns "$1" || { tail -n 5 "$work"/gateway-?.log "$work/site.log" && pairs && return 1; }
    wait_until 30 in_ns a ping -q -c 1 -W 1 -I "$UE4" 198.51.100.1 &&
        wait_until 30 in_ns a ping -q -c 1 -W 1 -I "$UE6" 2001:db8:ffff::1 || return 1
    sleep 1
    local worst
    worst=$(pauses | jq -s 'flatten | max // 0')
    note "$2: users waited $worst s, of which contexts took $(took "$1") s"
    jq -en "$worst < $LONGEST" >/dev/null || { echo "users waited $worst s" && return 1; }
    equal bearers "$(WEFT_SOCKET=$work/$1.sock "$WEFT" show state --json | jq .restoredBearers)" "$bearers"
}

# lets_add FILE: adds bearers. The active node refuses them while it hears neither controller nor
# standby, as on a machine where these had no processor for as long as a lease.
lets_add() {
    local answer try
    for try in $(seq 60); do
        answer=$("$WEFT" ctl bearer add --file "$1" 2>&1)
        grep -q 'added' <<<"$answer" && return
        grep -q 'neither controller nor standby is heard' <<<"$answer" || break
        sleep 1
    done
    echo "try $try: $answer"
    return 1
}

# many: bearers that only have to be there.
many() {
    /usr/bin/python3 - "$MORE" >"$work/many.yaml" <<'PY'
import json, sys
for n in range(int(sys.argv[1])):
    print("- " + json.dumps({"id": 1000000 + n, "like": "like-me",
        "match": {"ipv4": f"10.{64 + (n >> 16)}.{n >> 8 & 255}.{n & 255}", "teid": 0x100000 + n},
        "functions": {"from-radio": {"peer": "10.0.0.1"}}}))
PY
    split -l 20000 --additional-suffix=.yaml "$work/many.yaml" "$work/many-"
    local part
    for part in "$work"/many-*.yaml; do
        lets_add "$part" || return 1
    done
    bearers=$((bearers + MORE))
}

# add_one NAME: one more bearer, answered.
add_one() {
    bearers=$((bearers + 1))
    printf -- '- {id: %s, like: like-me, match: {ipv4: 10.45.1.%s, teid: %s}, functions: {from-radio: {peer: 10.0.0.1}}}\n' \
        "$bearers" "$((bearers - MORE))" "$((bearers - MORE + 0x3000))" >"$work/one.yaml"
    WEFT_SOCKET=$work/$1.sock "$WEFT" ctl bearer add --file "$work/one.yaml" | grep -q 'added 1'
}

cut_off() {
    in_ns na nft add table inet cut
    in_ns na nft add chain inet cut in '{ type filter hook input priority 0; }'
    in_ns na nft add chain inet cut out '{ type filter hook output priority 0; }'
    in_ns na nft add rule inet cut in iifname oam "$@" drop
    in_ns na nft add rule inet cut out oifname oam "${@/saddr/daddr}" drop
}

join() { in_ns na nft delete table inet cut; }

goes_on() {
    local before after
    before=$(pauses | jq -s 'flatten | length')
    sleep "$1"
    after=$(pauses | jq -s 'flatten | max // 0')
    [ "$before" -ge 0 ] && jq -en "$after < 1.5" >/dev/null || { echo "users waited $after s" && return 1; }
}

# upgrades: another process has the active node gateway-a, in the same epoch, and its standby lacks
# nothing; users wait for less than a takeover takes.
upgrades() {
    local epoch waited
    epoch=$(pairs | jq '.[0].epoch')
    pauses >/dev/null
    "$WEFT" ctl upgrade >"$work/upgraded.log" 2>&1
    grep '^process .* has the node; packets waited' "$work/upgraded.log" || { cat "$work/upgraded.log" && return 1; }
    wait_until 20 is_gone "${running[gateway-a]}" || return 1
    running[gateway-a]=$(awk '$1 == "process" { print $2 }' "$work/upgraded.log")
    wait_until 30 goes_on_whole "$epoch" || { pairs && tail -n 5 "$work"/gateway-?.log && return 1; }
    add_one gateway-a || return 1
    sleep 0.5
    waited=$(pauses | jq -s 'flatten | max // 0')
    note "upgraded: users waited $waited s"
    jq -en "$waited < $LONGEST" >/dev/null
}

# goes_on_whole EPOCH: gateway-a owns the users in that epoch, and gateway-b may take over, which
# was given no second copy of all records.
goes_on_whole() {
    pairs | jq -e ".[0].owner == \"gateway-a\" and .[0].epoch == $1 and .[0].whole and .[0].built" &&
        "$WEFT" show state --json | jq -e ".standby | .copies == ${2:-0} and .whole and .hears"
}

# is_asked_for: strangers that ask for the node, and say nothing any more at some point.
is_asked_for() {
    local how epoch
    epoch=$(pairs | jq '.[0].epoch')
    for how in refuse open; do
        ../lib/upgrade_stranger.py new "$WEFT_SOCKET" "$how" || return 1
    done
    wait_until 30 goes_on_whole "$epoch" 1 || { pairs && "$WEFT" show state --json && return 1; }
    add_one gateway-a
}

# dies_midway: the active node is killed while another process is about to have it. That has it, or
# the standby has the users.
dies_midway() {
    local next
    add_one gateway-a || return 1
    "$WEFT" ctl upgrade >"$work/upgraded.log" 2>&1 &
    wait_until 10 pgrep -P "${running[gateway-a]}" || return 1
    next=$(pgrep -P "${running[gateway-a]}" | head -n 1)
    sleep 0.1
    kill -9 "${running[gateway-a]}"
    # It cannot go on by itself, unless it has the node already.
    grep -q 'was taken over' "$work/gateway-a.log" && kill -9 "$next"
    wait_until 20 is_gone "$next" || { cat "$work/gateway-a.log" && return 1; }
    taken_over gateway-b "killed (SIGKILL) in the middle of an upgrade"
}

killed() {
    add_one gateway-a && kill -9 "${running[gateway-a]}" && taken_over gateway-b "killed (SIGKILL)"
}

stands_still() {
    add_one gateway-b && kill -STOP "${running[gateway-b]}" && taken_over gateway-a "stands still (SIGSTOP)" || return 1
    kill -CONT "${running[gateway-b]}"
    ends_by_itself gateway-b
}

is_cut_off() {
    add_one gateway-a && cut_off ip saddr 192.0.2.0/24 || return 1
    taken_over gateway-b "cut off from controller and standby" || return 1
    wait_until 10 grep -q 'the node carries no packets' "$work/gateway-a.log" || return 1
    join
    ends_by_itself gateway-a
}

is_stopped() {
    add_one gateway-b && kill -TERM "${running[gateway-b]}" && taken_over gateway-a "stopped (SIGTERM)" || return 1
    wait "${running[gateway-b]}"
    # What had changed was written while packets passed.
    note "$(grep -o 'behind the last packet.*' "$work/gateway-b.log")"
    grep 'contexts that had changed were written' "$work/gateway-b.log" &&
        grep -q 'the standby has all records, and may take over' "$work/gateway-b.log"
}

# no_controller: the active one goes on by the word of its standby.
no_controller() {
    kill -9 "${running[site]}"
    goes_on 4 || return 1
    WEFT_SOCKET=$work/gateway-a.sock "$WEFT" show standby
    rm -f "$work/weft/site.controller"
    launch_site && stands_by gateway-b && owns gateway-a
}

# no_standby: commands are answered once the controller knows that the standby lacks them.
no_standby() {
    kill -9 "${running[gateway-b]}"
    add_one gateway-a || return 1
    grep 'the node goes on without its standby' "$work/gateway-a.log" || return 1
    # What lacks a bearer that was answered does not take over.
    kill -9 "${running[gateway-a]}"
    launch_b || return 1
    wait_until 20 grep -q 'the standby does not take over: it does not have all records' "$work/site.log" ||
        { cat "$work/site.log" && return 1; }
    launch_a && taken_over gateway-a "killed (SIGKILL) without a standby, and started again" && stands_by gateway-b
}

strangers() {
    local to
    for to in 192.0.2.1:9471 192.0.2.2:9473 192.0.2.3:9473; do
        in_ns ctl timeout 2 bash -c "head -c 100000 /dev/urandom >/dev/tcp/${to/://}" 2>/dev/null
        in_ns ctl timeout 2 bash -c "printf 'WEFT\2\0\0\60\0\0\0\1\0\0\0\2' >/dev/tcp/${to/://}" 2>/dev/null
        in_ns ctl timeout 2 openssl s_client -connect "$to" </dev/null >/dev/null 2>&1
    done
    # A certificate of the authority, of a name that has no part in the pair.
    start_in ctl "$work/gateway-c.log" env WEFT_SOCKET="$work/gateway-c.sock" "$WEFT" run "$work/gateway-c.yaml" \
        --handover-controller 192.0.2.1:9471 --handover-listen 192.0.2.1:9473 --handover-token-file "$work/node-token"
    wait_until 20 grep -q 'no connection: ' "$work/gateway-c.log"
    grep -m1 'no connection: ' "$work/gateway-c.log" || { cat "$work/gateway-c.log" && return 1; }
    stop "$started" KILL
    goes_on 1 && owns gateway-a && may_take_over gateway-b
}

traffic_is_whole() {
    local family text
    for family in 4 6; do
        stop "${running[drive$family]}"
        wait_until 20 grep -q '^{' "$work/drive$family.log"
        text=$(tail -n 1 "$work/drive$family.log")
        note "IPv$family: $text"
        jq -e '.broken == 0 and .twice == 0 and .lines > 20 and .back > 50' <<<"$text" >/dev/null ||
            { cat "$work/drive$family.log" && return 1; }
    done
}

bearers=2
lay_out && write_files || { fail "the site is laid out" "" && close_report && exit 1; }
check "configurations are right" in_ns na "$WEFT" check "$work/gateway-a.yaml"
check "that of the controller, too" "$WEFT" check "$work/site.yaml"
try "the controller starts" launch_site
try "the first gateway starts" launch_a
try "and owns the users" wait_until 30 owns gateway-a
try "the second one starts" launch_b
start_in a "$work/peer4.log" ../lib/gtpu_peer.py gtp0 10.0.0.1 10.0.0.254 0x1000 0x6000
start_in a "$work/peer6.log" ../lib/gtpu_peer.py gtp1 2001:db8:0:1::1 "$GATEWAY6" 0x2000 0x7000
wait_until 20 in_ns a ip link show gtp0 && wait_until 20 in_ns a ip link show gtp1
in_ns a ip address add "$UE4/32" dev gtp0
in_ns a ip -6 address add "$UE6/128" dev gtp1
in_ns a ip link set gtp0 mtu 1400 up
in_ns a ip link set gtp1 mtu 1400 up
in_ns a ip route add 198.51.100.1 dev gtp0 src "$UE4"
in_ns a ip -6 route add 2001:db8:ffff::1 dev gtp1 src "$UE6"
export WEFT_SOCKET=$work/gateway-a.sock
check "bearers are added" says 'added 2' "$WEFT" ctl bearer add --file "$work/bearers.yaml"
[ "$MORE" -eq 0 ] || try "and many more" many
check "the standby has all records" stands_by gateway-b
check "a configuration that is applied has to go to the standby, too" \
    says 'the standby keeps the configuration of its own file' "$WEFT" ctl apply "$work/gateway-a.yaml"
check "the users reach the host" lossless a -I "$UE4" 198.51.100.1
check "over IPv6, too" lossless a -I "$UE6" 2001:db8:ffff::1
start_server b 7000 ../lib/restart_traffic.py serve 198.51.100.1 7000
start_server b 7006 ../lib/restart_traffic.py serve 2001:db8:ffff::1 7006
start_in a "$work/drive4.log" ../lib/restart_traffic.py drive 198.51.100.1 7000 "$UE4"
running[drive4]=$started
start_in a "$work/drive6.log" ../lib/restart_traffic.py drive 2001:db8:ffff::1 7006 "$UE6"
running[drive6]=$started
try "traffic flows" wait_until 30 test -s "$work/drive4.log" -a -s "$work/drive6.log"
try "strangers that ask for the active node change nothing" is_asked_for
try "another process has the active node, and the standby lacks nothing" upgrades
try "the standby takes over from that one when it is killed, with all that it had" killed
try "which stands by when it comes back" launch_a
try "and has all records then" stands_by gateway-a
try "the standby takes over from one that stands still, which then ends" stands_still
try "it stands by again" launch_b
try "and has all records" stands_by gateway-b
try "the standby takes over from one that is cut off, which then ends" is_cut_off
try "that stands by again" launch_a
try "and has all records, too" stands_by gateway-a
try "the standby takes over from one that is stopped" is_stopped
try "the other stands by again" launch_b
try "with all records" stands_by gateway-b
try "without a controller the active one goes on" no_controller
try "strangers get nothing" strangers
try "what a standby lacks keeps it from taking over" no_standby
try "the standby takes over from one that is killed while another process is about to have it" dies_midway
check "the connections have lived through it, and nothing was doubled" traffic_is_whole
check "peers were told of no unknown tunnel" says '^0$' bash -c "cat $work/peer?.log | grep -c 'error indication'"
close_report
